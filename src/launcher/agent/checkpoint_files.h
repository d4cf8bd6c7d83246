// Checkpoints as files, for jobs that end as a whole: --checkpoint-dir, --resume.
//
//     File := CheckpointHead LocalHead{ranks} texts global local{ranks}
//     texts := (text NUL){2 + arguments}    the last part of the program's path, its build
//     (build_of),
//                                           its arguments
//
// DIRECTORY/checkpoint-VERSION.rejoin. A file appears whole (written aside as ….part, synced,
// renamed); every part has a checksum. The newest kFilesKept are kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/file.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

inline constexpr std::size_t kFilesKept = 2;

struct CheckpointHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t ranks;
  std::uint64_t version;
  std::uint64_t global_bytes;
  std::uint64_t global_sum;  // XXH3
  std::uint64_t texts_bytes;
  std::uint64_t sum;  // of all above, all LocalHeads and the texts
};
struct LocalHead {
  std::uint64_t bytes;
  std::uint64_t sum;
};

// Whose a checkpoint is: only the same job, begun again, may go on from it.
struct CheckpointOwner {
  std::string program;  // the last part of its path
  std::string build;    // as build_of() says
  std::vector<std::string> arguments;
  std::uint32_t ranks = 1;
};
// REQUIRES a plan with a checkpoint directory.
CheckpointOwner owner_of(const HostPlan& plan);

// Why a job of `now` does not go on from what `then` wrote at `path`; empty: it may.
std::string refusal(const std::string& path, const CheckpointOwner& then,
                    const CheckpointOwner& now);

// A checkpoint that was read back and found whole.
class CheckpointFile {
 public:
  // The newest whole one in `directory`. `notices`: a line for each that is refused. Errors: there
  // is none, or `owner` is not the one that wrote it: what differs, and what to do.
  static Result<CheckpointFile> newest(const std::string& directory, const CheckpointOwner& owner,
                                       std::vector<std::string>& notices);
  std::uint64_t version() const { return head()->version; }

  // Puts the models where ranks find them when they load. Errors: no room.
  std::optional<Error> install(const JobSegment& segment) const;

 private:
  explicit CheckpointFile(MappedFile file) : file_(std::move(file)) {}
  // What is wrong with it; empty: nothing.
  std::string fault() const;
  const CheckpointHead* head() const;
  const LocalHead* locals() const;
  std::string_view texts() const;
  // REQUIRES that it has no fault.
  CheckpointOwner owner() const;

  MappedFile file_;
};

// A directory for a new job's checkpoints: made if it is not there. Errors: it cannot be written,
// or holds checkpoints already.
std::optional<Error> prepare_checkpoint_directory(const std::string& directory, bool resume);

// Nobody else's while it is open. Errors: another job writes there.
Result<Descriptor> lock_checkpoint_directory(const std::string& directory);

// Writes versions in a thread of its own, so that neither ranks nor the agent wait for a disk.
// While it writes one, others pass; the newest is written at the end. Removes what a writer that
// was killed has left half written in the directory.
class CheckpointWriter {
 public:
  CheckpointWriter(const JobSegment& segment, std::string directory, const CheckpointOwner& owner);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter() { finish(); }

  // Every rank has prepared this version.
  void offer(std::uint64_t version);
  // Writes the newest version that was offered, unless it is written, and ends the thread.
  void finish();

  // Readable when there may be news.
  int descriptor() const { return wake_owner_.get(); }
  // Why a version could not be written, unless it is as with the one before; empty: nothing new.
  std::string news();

 private:
  void run();
  // False: it is not there any more, or errno says why not.
  bool write(std::uint64_t version);
  void remove_old(std::uint64_t newest);
  void note(std::uint64_t version, int error);
  std::string path_of(std::uint64_t version) const;
  std::string part_of(std::uint64_t version) const;

  const JobSegment& segment_;
  const std::string directory_;
  const std::string texts_;  // of each file
  std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t offered_ = 0;
  std::uint64_t written_ = 0;
  bool ending_ = false;
  int error_ = 0;  // of the newest version that was tried; 0: it was written
  std::string news_;
  Descriptor wake_owner_;  // an eventfd
  std::thread thread_;
};

}  // namespace rejoin::launcher
