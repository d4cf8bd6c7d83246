// Cloning this process by a helper: a clone that shares this process's memory and ends at once. The
// clone that the helper makes is therefore a child of the agent, and the program does not see it.
#pragma once

#include <setjmp.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "process_image/clone_cost.h"
#include "process_image/open_files.h"
#include "process_image/uncloned_state.h"
#include "recovery/attach.h"

namespace rejoin::process_image {

class Cloner {
 public:
  // Takes memory of the rank's arena for the helper's stack.
  Cloner(recovery::Rank& rank, const UnclonedState& state, CloneCost& cost);
  Cloner(const Cloner&) = delete;
  Cloner& operator=(const Cloner&) = delete;

  // False: there is no memory for the helper's stack, so no clone is possible.
  bool has_stack() const { return stack_ != nullptr; }
  // The end of the helper's stack. A process that is restored from a written image begins on it.
  std::byte* stack_end() const;

  // The number of the newest image that was asked for.
  void set_number(std::uint64_t number) { number_ = number; }
  std::uint64_t number() const { return number_; }

  // Clones this process. Returns true in the clone, and false in this process; `error` is then 0 or
  // an errno. The clone does not have the channels of `image`, if it is to be one. REQUIRES that
  // all signals are blocked.
  bool clone(int* error, const OpenFiles* image = nullptr);
  // Called in the clone: waits until it is the agent's child, and has the kernel kill it when the
  // agent ends.
  void leave_helper() const;

 private:
  int run_helper();
  static int help(void* cloner);

  recovery::Rank& rank_;
  const UnclonedState& state_;
  const OpenFiles* image_ = nullptr;
  CloneCost& cost_;
  std::byte* const stack_;
  jmp_buf place_;  // where a clone begins
  std::uint64_t number_ = 0;
  pid_t helper_ = 0;
  int error_ = 0;
};

}  // namespace rejoin::process_image
