// Restores the names of files as they were when a set of images was cut: undoes the job's later
// changes before its ranks resume from the set (docs/snapshots.md, "Files").
//
// The ranks' changes are in their file logs (wire/file_log.h). An entry is after the cut if the
// rank's observation log was longer at the change than it is in the set's journal; the replay
// repeats the changes before the cut. Undoing an entry first checks what is at each name, so an
// entry whose change never happened has no effect. Progress is logged after each change, so undoing
// can be repeated after an interruption, with at most one change that was undone but not logged.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/image_sets.h"
#include "launcher/base/result.h"
#include "wire/file_log.h"

namespace rejoin::launcher {

class FileChanges {
 public:
  // Reads and checks the logs that `set` needs. observations: for each rank, the length of its
  // observation log at the cut. Errors, in words for the user: a log is damaged or belongs to
  // another set, or a file is gone and cannot be put back. Changes nothing.
  static Result<FileChanges> read(const ImageSet& set, const std::string& directory,
                                  const std::vector<std::uint64_t>& observations);
  // The same for the return of all ranks to their images with this number. A file that is gone is
  // no error, but in lost().
  static Result<FileChanges> read_since(std::uint64_t image, const std::string& directory,
                                        const std::vector<std::uint64_t>& observations);

  // Undoes all changes, the newest first. Errors: what the system refused. notices: what had to
  // stay. most: for tests, stops after this number of steps, as if ftrun were killed there. Each
  // change is one step, and logging it is another.
  std::optional<Error> undo(std::vector<std::string>& notices,
                            std::size_t most = ~std::size_t{0}) const;

  std::size_t size() const { return changes_.size(); }
  // Names of files that are gone and cannot be put back: no other name of them is left.
  std::vector<std::string> lost() const;

 private:
  struct Change {
    wire::FileEntryHead head;
    std::string path, other, kept;
    std::string log;       // the log that contains the entry
    std::string put_back;  // the kPutBack entry to append after undoing it
  };
  struct Rank {
    std::vector<Change> changes;  // oldest first
    std::vector<std::string> logs;
    std::uint64_t newest_order = 0;
  };
  struct CutOff {
    std::string log;
    std::uint64_t bytes;  // of whole entries
  };
  struct Addition {
    std::string log;
    std::string entry;
  };
  std::optional<Error> read_log(const std::string& directory, std::uint32_t rank,
                                std::uint64_t image, std::uint64_t observations, Rank& of);
  void complete(Rank& of, std::uint64_t observations, std::uint64_t image);
  static std::optional<Error> append(const std::string& log, const std::string& entry);
  static std::optional<Error> append(const std::vector<Addition>& additions);
  static Result<FileChanges> read_all(const std::vector<std::uint64_t>& images,
                                      const std::string& directory,
                                      const std::vector<std::uint64_t>& observations);
  template <class F>
  void each_lost(F&& f) const;
  std::optional<Error> check() const;
  std::string undo(const Change& change, std::vector<std::string>& notices) const;

  std::vector<Change> changes_;  // newest first
  std::vector<CutOff> cut_off_;
  std::vector<Addition> before_, behind_;  // appended to logs before undoing and after it
  std::set<std::uint32_t> removed_directories_;
};

}  // namespace rejoin::launcher
