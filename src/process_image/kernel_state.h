// The kernel's state of this process, besides memory and open files, that the program can have
// changed: for a process that goes on from a written image.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace rejoin::process_image {

class KernelState {
 public:
  // Reads the state of this process. Makes system calls only.
  void note();
  // Restores the state in a process that has the memory already. False: errno is set, and `what`
  // could not be restored.
  bool give_back(const char** what) const;

 private:
  static constexpr int kSignals = 64;
  struct Action {  // as the system call has it
    std::uint64_t handler;
    std::uint64_t flags;
    std::uint64_t restorer;
    std::uint64_t mask;
  };
  struct AlternateStack {
    std::uint64_t at;
    std::int32_t flags;
    std::uint64_t bytes;
  };

  void note_places();
  void give_back_places() const;

  // The addresses of its code, heap, arguments and environment, by number of the field in
  // /proc/PID/stat.
  static constexpr int kFields = 52;
  std::uint64_t place_[kFields];
  Action action_[kSignals];
  AlternateStack stack_;
  rlimit limit_[RLIM_NLIMITS];
  mode_t umask_;
  unsigned long timer_slack_ns_;
  bool no_new_privileges_;
  char directory_[4096];
  std::uint32_t mxcsr_;
  std::uint16_t x87_;
};

}  // namespace rejoin::process_image
