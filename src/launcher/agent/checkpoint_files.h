// Checkpoint files, from which a job can resume after it has ended as a whole: --checkpoint-dir,
// --resume.
//
//     File := CheckpointHead Checksum{ranks} texts global local{ranks}
//     texts := (text NUL){2 + arguments}    the last part of the program's path, its build
//     (build_of),
//                                           its arguments
//
// DIRECTORY/checkpoint-VERSION.rejoin (numbered_entries.h). Every part of a file has a checksum.
// The newest kFilesKept are kept.
//
// The directory of a job of images holds sets of written images (image_sets.h) until its first
// version is in place, and versions from then on:
//
//   1. Sets are written, each renamed into place when it is complete and synced.
//   2. The first version is written aside, synced and renamed, and the directory is synced.
//   3. No set is begun any more; a set that is being written is given up.
//   4. All sets are removed, once no rank would be restored from one.
//   5. Newer versions replace older ones.
//
// --resume uses the newest complete version, or else the newest complete set:
//
//   ftrun died              there are               the next job resumes from
//   before the rename in 2  sets                    the newest set
//   between that and 4      a version, and sets     the version: every set was begun before 3
//   during 4                a version, fewer sets   the version
//   after 4                 versions                the newest version
//
// A set that was begun while the version was being written may be later than the version. Resuming
// from the version then loses the time that writing it took.
//
// The next job removes files of the other kind before its ranks start. If it resumes from a
// version, it removes the sets and writes none: --resume would prefer the version to newer sets. If
// it resumes from a set, it removes the versions, none of which is complete; if it dies while it
// does so, the set is still found.
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

#include "launcher/agent/checked_files.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/numbered_entries.h"
#include "launcher/base/file.h"
#include "launcher/base/options.h"
#include "launcher/base/result.h"
#include "launcher/program/build.h"

namespace rejoin::launcher {

inline constexpr std::size_t kFilesKept = 2;

struct CheckpointHead {
  char magic[8];
  std::uint32_t format;
  std::uint32_t ranks;
  std::uint64_t version;
  Checksum global;
  std::uint64_t texts_bytes;
  std::uint64_t sum;  // of all above, all locals' Checksums and the texts
};

// Identifies the job that wrote a checkpoint: only the same job, started again, may resume from it.
struct CheckpointOwner {
  std::string program;  // the last part of its path, behind --layout if there are several nodes
  std::string build;    // as build_of() says
  std::vector<std::string> arguments;
  std::uint32_t ranks = 1;
};
// `files`: those of options.programs, with their builds.
CheckpointOwner owner_of(const RunOptions& options, const std::vector<ProgramFile>& files);

// Why the job `now` may not resume from what the job `then` wrote at `path`; empty: it may.
std::string refusal(const std::string& path, const CheckpointOwner& then,
                    const CheckpointOwner& now);

// A checkpoint file that was read back and found complete.
class CheckpointFile {
 public:
  // Returns the newest complete file in `directory`; nullopt: there is none. `notices`: a line for
  // each file that is refused. Errors: `owner` did not write it; says what differs, and what to do.
  static Result<std::optional<CheckpointFile>> newest(const std::string& directory,
                                                      const CheckpointOwner& owner,
                                                      std::vector<std::string>& notices);
  std::uint64_t version() const { return head()->version; }
  // False: the program saves its state in its own files.
  bool has_model() const;

  // Copies the models into the segment, where ranks load them. Errors: no space.
  std::optional<Error> install(const JobSegment& segment) const;

 private:
  explicit CheckpointFile(MappedFile file) : file_(std::move(file)) {}
  // Errors: what is wrong with the file, with its path.
  static Result<CheckpointFile> read(const std::string& path, std::uint64_t version);
  // What is wrong with the file; empty: nothing.
  std::string fault() const;
  const CheckpointHead* head() const;
  const Checksum* locals() const;
  std::string_view texts() const;
  // REQUIRES that it has no fault.
  CheckpointOwner owner() const;

  MappedFile file_;
};

// Prepares the directory for a job's checkpoints; creates it unless `resume`. Errors: it cannot be
// written, or holds checkpoints already although `resume` is false.
std::optional<Error> prepare_checkpoint_directory(const std::string& directory, bool resume);

// Returns whether the directory has a version, complete or not.
bool holds_checkpoints(const std::string& directory);
// Removes all versions there, complete or not. Errors: one cannot be removed.
std::optional<Error> remove_checkpoints(const std::string& directory);

// Locks the directory for this job while the result is open. Errors: another job writes there.
Result<Descriptor> lock_checkpoint_directory(const std::string& directory);

// Writes versions in a thread of its own, so that neither ranks nor the agent wait for a disk.
// While it writes one, newer versions are skipped; the newest is written at the end. Removes
// incomplete files that a killed writer has left in the directory.
//
// A version without a model says that the program's own files are of that version. A program has
// files of the newest two only. A job of images is many versions ahead of what has been written,
// and a rank that returns to an image writes those files again. Such a version is therefore written
// only in a job of versions: a job of images resumes from its sets.
//
// Thread safety: one thread may call the functions while the writer's own thread runs.
class CheckpointWriter {
 public:
  CheckpointWriter(const JobSegment& segment, const std::string& directory,
                   const CheckpointOwner& owner);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter() { finish(); }

  // To be called when this version is committed and every rank has kept its models.
  void offer(std::uint64_t version);
  // Writes the newest version that was offered, if it is not written yet, and ends the thread.
  void finish();

  // A descriptor that is readable when there may be news.
  int descriptor() const { return wake_owner_.get(); }
  // Lines for the user: why versions could not be written. A system error is reported if it differs
  // from that of the version before; a fault of the program once for each kind.
  std::vector<std::string> news();
  // A version of this job is in the directory and synced.
  bool has_written() const { return has_written_.load(); }

 private:
  struct Outcome {
    enum class Kind {
      kNothing,  // ranks have reused its slots, and a newer one will be offered; or it is not to be
                 // written
      kWritten,
      kFailed,  // `error`
      kFault,   // `rank`, `fault`: no process can start from this version
    };
    Kind kind = Kind::kNothing;
    int error = 0;
    std::uint32_t rank = 0;
    journal::VersionFault fault = journal::VersionFault::kNone;
  };
  using Slots = std::vector<const journal::Version*>;  // by rank

  void run();
  // --- Called by the thread, without the mutex.
  Outcome look_at(std::uint64_t version);
  Outcome look_at(std::uint64_t version, const Slots& slots);
  Slots slots_of(std::uint64_t version) const;  // empty: ranks have reused one
  static bool are_still_of(std::uint64_t version, const Slots& slots);
  Outcome write(std::uint64_t version, const Slots& slots);
  Outcome put_in_place(std::uint64_t version);
  // --- REQUIRE the mutex.
  void note(std::uint64_t version, const Outcome& outcome);
  void tell(std::string line);

  const JobSegment& segment_;
  const NumberedEntries versions_;
  const std::string texts_;  // of each file
  std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t offered_ = 0;
  std::uint64_t looked_at_ = 0;
  bool ending_ = false;
  int error_ = 0;                  // of the newest version that was tried; 0: it was written
  std::uint32_t told_faults_ = 0;  // a bit for each kind
  std::vector<std::string> news_;
  std::atomic<bool> has_written_ = false;
  Descriptor wake_owner_;  // an eventfd
  std::thread thread_;
};

}  // namespace rejoin::launcher
