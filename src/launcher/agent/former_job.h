// The processes of the job that used a --checkpoint-dir before. When ftrun is killed the kernel
// ends them, which takes a moment: until then they may still write to the program's files.
#pragma once

#include <optional>
#include <string>

#include "launcher/agent/lifeline.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// Waits until none of them is left. Errors: one still is after five seconds.
std::optional<Error> await_former_job(const std::string& directory);

// Names this job's processes for the next one, by the lifeline that all of them hold, in a file of
// the directory. Ends with the job: when its processes are gone, there is nothing to wait for.
class JobNote {
 public:
  JobNote() = default;
  JobNote(const std::string& directory, const Lifeline& lifeline);
  JobNote(JobNote&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  JobNote& operator=(JobNote&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }
  ~JobNote();

 private:
  std::string path_;
};

}  // namespace rejoin::launcher
