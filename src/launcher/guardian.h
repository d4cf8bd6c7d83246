// A small process that cleans up when ftrun itself is killed: nothing of a job outlives it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "launcher/file.h"

namespace rejoin::launcher {

class Guardian {
 public:
  // Forks it. It kills the process groups told by watch(), then every process whose environment
  // names `socket`, and unlinks the file told by unlink_on_death(), as soon as this process is
  // gone.
  Guardian(const std::string& socket, std::uint32_t ranks);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Dismisses it: it does nothing.
  ~Guardian();

  pid_t pid() const { return pid_; }
  void watch(std::uint32_t rank, pid_t group) const;    // 0: none
  void unlink_on_death(const std::string& path) const;  // empty: nothing

 private:
  struct Page;
  [[noreturn]] static void guard(int pipe, const Page& page);

  Page* page_ = nullptr;
  Descriptor pipe_;  // its other end, in the guardian, ends when this process does
  pid_t pid_ = -1;
};

}  // namespace rejoin::launcher
