// Waits for the processes of the previous job that used a --checkpoint-dir. When its ftrun was
// killed, the kernel ends them, which takes a moment: they may still write to the program's files.
#pragma once

#include <optional>
#include <string>

#include "launcher/base/lifeline.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// Waits until none of them is left. Errors: one is still left after five seconds.
std::optional<Error> await_former_job(const std::string& directory);

// The path of that file.
std::string note_of_job(const std::string& directory);

// A file in the directory that identifies this job's processes for the next job, by the lifeline
// that all of them hold. Removed at the job's end, when no process is left to wait for.
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
