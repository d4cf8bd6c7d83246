// Sets of written images, from which a job of an unmodified program can resume after it has ended
// as a whole: --checkpoint-dir, --resume.
//
// DIRECTORY/images-NUMBER.rejoin/ holds one set: all ranks' images, and the journal as it was while
// exactly these images were kept. If the images are a set by themselves (recovery/PROTOCOL.md,
// "Sets of images"), the journal is put back to it when the job resumes, and no rank repeats
// anything. Else each rank repeats what the journal has behind its image.
//
//     image-RANK   process_image/written_image.h
//     journal      JournalHead SegmentPiece{pieces} bytes{of the pieces}
//     input        what rank 0 had not read yet of its standard input
//     set          the XXH3 of the rest in hexadecimal, a newline, JSON: the job that owns it, the
//                  machine, and the size and XXH3 of each file
//
// With --compress the images and the journal have names that end by ".zst" (compressed_files.h).
// The newest sets are retained (--keep-sets; numbered_entries.h). With several hosts, each has its
// part of a set in a directory of its own (host_sets.h), or gives it to another host's agent
// (part_store.h).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/agent/checked_files.h"
#include "launcher/agent/checkpoint_files.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/machine_mark.h"
#include "launcher/agent/numbered_entries.h"
#include "launcher/base/file.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

struct ImageSet {
  std::string path;  // of its directory
  std::uint64_t number = 0;
  std::uint64_t job = 0;          // that wrote it: a random number, another one after --resume
  std::uint32_t incarnation = 0;  // the first that no rank has been when it was cut
  CheckpointOwner owner;
  std::int64_t cut_at_s = 0;      // of the state from which a job resumes; since 1970
  std::uint64_t put_back_to = 0;  // the number of all images, if they are a set by themselves; or 0
  MachineMark machine;
  struct File {
    std::string name;
    Checksum content;
  };
  std::vector<File> files;
  std::map<std::string, std::string> libraries;  // path: build, of all mapped files
  struct Image {
    std::uint64_t number;
    std::string executable;
  };
  std::vector<Image> images;        // by rank; number 0: it is not in this part of the set
  std::vector<Checksum> file_logs;  // by rank, of the log since the image (wire/file_log.h)
  bool input_ended = false;         // all of the input had been read from its source
  bool input_begun = false;         // some of it had

  std::string path_of_image(std::uint32_t rank) const;
  // The numbers of these ranks' images.
  std::map<std::uint32_t, std::uint64_t> numbers_of(const LocalRanks& ranks) const;
  std::string path_of_journal() const { return path + "/journal"; }
  Result<std::string> input() const;
};

// The subdirectory where ranks log what they do to files (wire/file_log.h); absolute.
std::string file_logs_in(const std::string& directory);
// The path of one log there.
std::string file_log_in(const std::string& logs, std::uint32_t rank, std::uint64_t image);
// Returns the checksum of the first `bytes` bytes of a log, or of as many as there are; {0, 0} if
// there are none.
Checksum checksum_of_file_log(const std::string& log, std::uint64_t bytes);
// Removes the logs of images that are older than these, by rank, and the files saved for them.
void remove_file_logs(const std::string& logs, const std::vector<std::uint64_t>& oldest);
// The path of a set in such a directory.
std::string path_of_image_set(const std::string& directory, std::uint64_t number);
// Returns whether the directory has a set, complete or not.
bool holds_image_sets(const std::string& directory);
// The numbers of the sets in the directory that are in place, the newest first.
std::vector<std::uint64_t> image_sets_at(const std::string& directory);
// Reads what is known about one of them, but none of its files. Errors: what is wrong with it.
Result<ImageSet> image_set_at(const std::string& directory, std::uint64_t number);
// Removes those that are newer than this one. Errors: one cannot be removed.
std::optional<Error> remove_image_sets_after(const std::string& directory, std::uint64_t number);
// Removes all sets, complete or not, and the ranks' file logs for them. Errors: one cannot be
// removed.
std::optional<Error> remove_image_sets(const std::string& directory);
// Returns the newest complete set, if the job of `owner` may resume from it on this machine.
// `notices`: a line for each damaged set. Errors: there is none, or what differs.
Result<ImageSet> newest_image_set(const std::string& directory, const CheckpointOwner& owner,
                                  const std::string& library_directory,
                                  std::vector<std::string>& notices);

// Returns this set, if it is complete and the job of `owner` may resume from it on this machine.
// Errors: what is wrong with it, or what differs.
Result<ImageSet> resumable_image_set(const std::string& directory, std::uint64_t number,
                                     const CheckpointOwner& owner,
                                     const std::string& library_directory);

// Result of `ftrun inspect` for one set.
struct FoundImageSet {
  ImageSet set;       // if there is a fault, only path and number may be set
  std::string fault;  // predicate of a sentence about the set; empty: it is complete
  std::vector<std::string> file_faults;  // by file; empty: the checksum is correct
  std::string objection;                 // why it cannot be resumed here; empty: it can be
};
// Returns all sets in the directory, the newest first. Reads and checks every byte of them.
std::vector<FoundImageSet> image_sets_in(const std::string& directory,
                                         const std::string& library_directory);

// Writes sets in the background, at the lowest priority, one set at a time; images write
// themselves. Its owner never waits for what is done at that priority, except in finish(). Removes
// incomplete sets that a killed writer has left.
class ImageSetWriter {
 public:
  struct Outcome {
    std::uint64_t number = 0;
    std::string path;
    std::string fault;  // empty: it is written
    std::uint64_t bytes = 0;
    std::vector<std::string> executables = {};  // by rank
  };

  struct Retention {
    std::size_t kept;    // how many sets are retained
    bool until_settled;  // and all others until settled() is called
  };
  // `compress`: images and journals.
  ImageSetWriter(const std::string& directory, std::string library_directory,
                 const Retention& retention, bool compress);
  ImageSetWriter(const ImageSetWriter&) = delete;
  ImageSetWriter& operator=(const ImageSetWriter&) = delete;
  ~ImageSetWriter() { finish(); }

  // Begins a new set. Returns a file for the image of each of these ranks, which the image is to
  // write. Errors: the directory.
  Result<std::vector<Descriptor>> begin(std::uint64_t number, const LocalRanks& ranks);
  // Writes the set's journal and input, beginning now.
  void add(SegmentCopy journal, std::string input);
  // All images are written. `set`: everything except files, libraries and executables.
  void complete(ImageSet set);
  // Gives up the newest set. With until_settled, it is not found any more when this returns, also
  // if it was whole; if it is being put in place just then, the thread removes it.
  void abandon();
  // All hosts have written their parts of this set: those of others are removed.
  void settled(std::uint64_t number);
  // Removes all sets, because versions replace them (checkpoint_files.h). REQUIRES that no set is
  // being written, and none is begun any more.
  void remove_all();
  // Abandons a set that is not complete, and ends the thread.
  void finish();

  std::uint64_t next_number() const { return next_; }
  int descriptor() const { return wake_owner_.get(); }  // readable when there is an outcome
  std::optional<Outcome> outcome();

 private:
  struct Build {
    std::uint64_t bytes;
    std::int64_t modified_ns;
    std::string build;
  };
  void run();
  void run_one(std::unique_lock<std::mutex>& lock);
  void withdraw(std::uint64_t number) const;
  Outcome complete_now(ImageSet& set, Outcome done, const std::string& part);
  std::string note_image(ImageSet& set, std::uint32_t rank, const std::string& path);
  Result<std::string> build(const std::string& path);
  void remove_unsettled(std::uint64_t newest);
  std::string sync_file_logs(const ImageSet& set) const;
  void remove_file_logs();
  std::string part() const;

  const NumberedEntries sets_;
  const std::string library_directory_;
  const Retention retention_;
  const bool compress_;
  std::map<std::string, Build> builds_;     // known builds; used by the work only
  std::vector<std::uint64_t> all_settled_;  // sets, the newest last; likewise
  std::uint64_t next_ = 1;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Requests to the thread, for the set with number_.
  std::uint64_t number_ = 0;
  std::optional<SegmentCopy> journal_;
  std::string input_;
  std::optional<ImageSet> complete_;
  std::optional<std::uint64_t> abandoned_;  // the set to remove
  std::vector<std::uint64_t> settled_;
  bool removing_ = false;
  bool ending_ = false;
  std::string fault_;  // of the parts that were added
  std::optional<Outcome> outcome_;
  Descriptor wake_owner_;  // an eventfd
  std::thread thread_;
};

}  // namespace rejoin::launcher
