// A small process that cleans up when ftrun itself is killed: nothing of a job outlives it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "launcher/agent/lifeline.h"
#include "launcher/base/file.h"

namespace rejoin::launcher {

class Guardian {
 public:
  // Forks it. As soon as this process is gone, it kills every process whose environment names
  // `socket` or that holds `lifeline`, and unlinks the file told by unlink_on_death(). Those that
  // neither left their rank's process group nor closed the lifeline are dead by then.
  Guardian(const std::string& socket, Lifeline& lifeline);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Dismisses it: it does nothing.
  ~Guardian();

  pid_t pid() const { return pid_; }
  void unlink_on_death(const std::string& path) const;  // empty: nothing

 private:
  struct Page;
  [[noreturn]] static void guard(int pipe, const Page& page, const std::string& socket,
                                 const std::string& lifeline);

  Page* page_ = nullptr;
  Descriptor pipe_;  // its other end, in the guardian, ends when this process does
  pid_t pid_ = -1;
};

}  // namespace rejoin::launcher
