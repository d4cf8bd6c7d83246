// Lets the kernel kill the processes of a job when ftrun ends: no process has to survive to do it,
// even if others are killed together with ftrun.
//
// Only ftrun holds the write end of the lifeline pipe. Each rank's process group holds a read end
// on which the kernel sends SIGKILL to the group when the pipe changes. ftrun never writes, so the
// only change is that ftrun has ended.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/base/file.h"

namespace rejoin::launcher {

class Lifeline {
 public:
  Lifeline();

  // The path that a child opens for its read end; see hold_lifeline().
  const std::string& path() const { return path_; }
  // Its name in /proc/PID/fd. Every process of the job has it open, unless it has closed it.
  const std::string& name() const { return name_; }
  // To be called in a forked child that must not hold the write end.
  void release() { write_end_.reset(); }

 private:
  Descriptor read_end_;
  Descriptor write_end_;
  std::string path_;
  std::string name_;
};

// Returns whether a process has a descriptor of the lifeline with this name.
bool holds_lifeline(pid_t pid, const std::string& name);

// Makes the caller's process group die when the process that made the Lifeline ends. Makes system
// calls only, for a child between fork and exec. The descriptor stays open in the program, above
// the numbers that programs rely on.
void hold_lifeline(const char* path);

}  // namespace rejoin::launcher
