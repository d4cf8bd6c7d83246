// A small process that cleans up when ftrun or an agent is killed: nothing of a job outlives it. It
// also kills an agent that does nothing any more.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "launcher/base/file.h"
#include "launcher/base/lifeline.h"

namespace rejoin::launcher {

class Guardian {
 public:
  // Forks the guardian. When this process ends, the guardian removes the files given to
  // unlink_on_death() and the next two, then kills every process that has `socket` in
  // its environment or holds `lifeline`. Processes that neither left their rank's process group nor
  // closed the lifeline are dead by then.
  Guardian(const std::string& socket, Lifeline& lifeline);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Dismisses the guardian, which then does nothing.
  ~Guardian();

  pid_t pid() const { return pid_; }
  // Called when the guardian's process has ended; its pid may be reused.
  void lost() { pid_ = -1; }
  void unlink_on_death(const std::string& path) const;  // empty: nothing
  // Removes a directory with all that it contains.
  void remove_on_death(const std::string& directory) const;
  // `directory`: where incomplete checkpoints and sets of images are to be removed.
  void remove_parts_on_death(const std::string& directory) const;
  // The guardian kills this process at that time, on the monotonic clock, even if it is stopped,
  // unless another time was given before; 0: never.
  void kill_at(std::uint64_t monotonic_ns);

 private:
  struct Page;
  static void await_end(int pipe, const Page& page, pid_t guarded, const std::string& socket,
                        const std::string& lifeline);
  [[noreturn]] static void guard(int pipe, const Page& page, pid_t guarded,
                                 const std::string& socket, const std::string& lifeline);

  Page* page_ = nullptr;
  Descriptor pipe_;  // its other end, in the guardian, ends when this process does; bytes wake it
  pid_t pid_ = -1;
};

}  // namespace rejoin::launcher
