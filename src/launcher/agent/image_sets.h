// Written images as files, for jobs of unmodified programs that end as a whole: --checkpoint-dir,
// --resume.
//
// DIRECTORY/images-NUMBER.rejoin/ holds what belongs together: all ranks' images, and the journal
// as it was while exactly these were kept.
//
//     image-RANK   process_image/written_image.h
//     journal      JournalHead SegmentPiece{pieces} bytes{of the pieces}
//     input        what rank 0 had not read yet of its standard input
//     set          the XXH3 of the rest in hexadecimal, a newline, JSON: whose it is, what the
//                  machine was, and the size and XXH3 of each file
//
// It is written as ….rejoin.part and renamed when it is whole and synced; the newest kSetsKept are
// kept. The partner-host form of several hosts will send the same files to another host's agent
// instead: ImageSetWriter is the seam.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/agent/checkpoint_files.h"
#include "launcher/agent/job_segment.h"
#include "launcher/agent/machine_mark.h"
#include "launcher/base/file.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

inline constexpr std::size_t kSetsKept = 2;

// How much of a rank's file log (wire/file_log.h) was there when a set was cut.
struct FileLogMark {
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;  // XXH3 of them; 0 if there are none
};

struct ImageSet {
  std::string path;  // of its directory
  std::uint64_t number = 0;
  CheckpointOwner owner;
  std::int64_t cut_at_s = 0;  // since 1970
  MachineMark machine;
  struct File {
    std::string name;
    std::uint64_t bytes;
    std::uint64_t sum;
  };
  std::vector<File> files;
  std::map<std::string, std::string> libraries;  // path: build, of all that is mapped
  struct Image {
    std::uint64_t number;
    std::string executable;
  };
  std::vector<Image> images;           // by rank
  std::vector<FileLogMark> file_logs;  // likewise, of the log since the image
  bool input_ended = false;            // all of it had been read from its source
  bool input_begun = false;            // something of it had

  std::string path_of_image(std::uint32_t rank) const;
  std::string path_of_journal() const { return path + "/journal"; }
  Result<std::string> input() const;
};

// The directory in it where ranks write down what they do to files (wire/file_log.h); absolute.
std::string file_logs_in(const std::string& directory);
// One log there.
std::string file_log_in(const std::string& logs, std::uint32_t rank, std::uint64_t image);
// Returns the mark of the first `bytes` bytes of a log, or of as many as there are.
FileLogMark mark_of_file_log(const std::string& log, std::uint64_t bytes);
// Whether there is one, whole or not.
bool holds_image_sets(const std::string& directory);
// All of them, whole or not, and what ranks have written down for them. Errors: one cannot be
// removed.
std::optional<Error> remove_image_sets(const std::string& directory);
// The newest whole one, if `owner` on this machine may go on from it. `notices`: a line for each
// that is damaged. Errors: there is none, or what differs.
Result<ImageSet> newest_image_set(const std::string& directory, const CheckpointOwner& owner,
                                  const std::string& library_directory,
                                  std::vector<std::string>& notices);

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

// Writes sets in a thread of its own, at the lowest priority: all but the images, which write
// themselves. Removes what a writer that was killed has left half written. One set at a time.
class ImageSetWriter {
 public:
  struct Outcome {
    std::uint64_t number = 0;
    std::string path;
    std::string fault;  // empty: it is written
    std::uint64_t bytes = 0;
    std::vector<std::string> executables = {};  // by rank
  };

  ImageSetWriter(std::string directory, std::string library_directory);
  ImageSetWriter(const ImageSetWriter&) = delete;
  ImageSetWriter& operator=(const ImageSetWriter&) = delete;
  ~ImageSetWriter() { finish(); }

  // A new set: files for its images, by rank, to be written by others. Errors: the directory.
  Result<std::vector<Descriptor>> begin(std::uint64_t number, std::uint32_t ranks);
  // Its journal and input, to be written now.
  void add(SegmentCopy journal, std::string input);
  // All images are written. `set`: all but files, libraries and executables.
  void complete(ImageSet set);
  void abandon();
  // Removes all sets: versions are in their place (checkpoint_files.h). REQUIRES that no set is
  // being written, and none is begun any more.
  void remove_all();
  // Abandons what is not whole, and ends the thread.
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
  Outcome complete_now(ImageSet& set, Outcome done, const std::string& part);
  std::string note_image(ImageSet& set, const std::string& name);
  Result<std::string> build(const std::string& path);
  void remove_old();
  void remove_file_logs();
  std::string part() const;
  void remove_parts() const;
  std::string whole() const;

  const std::string directory_;
  const std::string library_directory_;
  std::map<std::string, Build> builds_;  // known; the thread's
  std::uint64_t next_ = 1;
  std::mutex mutex_;
  std::condition_variable wake_;
  // What is asked for, of the set with number_.
  std::uint64_t number_ = 0;
  std::optional<SegmentCopy> journal_;
  std::string input_;
  std::optional<ImageSet> complete_;
  std::string abandoned_;  // path of what is to be removed; empty: nothing
  bool removing_ = false;
  bool ending_ = false;
  std::string fault_;  // of the parts that were added
  std::optional<Outcome> outcome_;
  Descriptor wake_owner_;  // an eventfd
  std::thread thread_;
};

}  // namespace rejoin::launcher
