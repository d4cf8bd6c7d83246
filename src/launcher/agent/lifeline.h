// Ends the processes of a job when ftrun is gone, by the kernel alone: whatever is killed together
// with ftrun, nobody has to be left to do it.
//
// A pipe whose write end only ftrun holds. Each rank's process group inherits a read end that has
// the kernel signal SIGKILL to the group when the pipe changes; nothing is ever written, so the one
// change is that ftrun has ended.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/base/file.h"

namespace rejoin::launcher {

class Lifeline {
 public:
  Lifeline();

  // What a child opens to hold on to it; see hold_lifeline().
  const std::string& path() const { return path_; }
  // What /proc/PID/fd shows of it: every process of the job has it, unless it has closed it.
  const std::string& name() const { return name_; }
  // For children that are not to keep the job alive.
  void release() { write_end_.reset(); }

 private:
  Descriptor read_end_;
  Descriptor write_end_;
  std::string path_;
  std::string name_;
};

// Whether a process has a descriptor of the lifeline with this name.
bool holds_lifeline(pid_t pid, const std::string& name);

// The caller's process group, and what is born into it, dies when the process that made the
// Lifeline ends. For a child between fork and exec, system calls only. The descriptor stays open
// in the program, above those that programs count on.
void hold_lifeline(const char* path);

}  // namespace rejoin::launcher
