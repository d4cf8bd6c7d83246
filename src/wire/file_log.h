// The log of files that a rank makes, removes, renames, or opens to write into existing contents.
// It is for jobs that go on from written images (docs/snapshots.md): the journal of such a job ends
// earlier than its processes did, so the file system is ahead of it.
//
//     Log   := LogHead Entry*
//     Entry := EntryHead text       path NUL other NUL kept NUL; each may be empty
//
// The log is in DIRECTORY/rank-RANK-image-NUMBER, and contains what has happened since the image
// with that number. The rank writes each entry with one write(): for an opening before the program
// can write, for a change before it, and for a creation before and after it. ftrun reads the log
// before ranks go on from a set (launcher/agent/file_changes.h), then the rank does. ftrun removes
// it when no set needs it. The last entry may be truncated, if its process was killed; ftrun then
// removes it.
//
// A file that would be lost gets a second name: DIRECTORY/kept-RANK-NUMBER-COUNT, `kept`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB
#include <xxhash.h>

namespace rejoin::wire {

inline constexpr char kFileLogMagic[8] = {'R', 'J', 'F', 'I', 'L', 'E', '0', '1'};

struct FileLogHead {
  char magic[8];
  std::uint64_t image;
  std::uint32_t rank;
  std::uint32_t reserved;
  std::uint64_t sum;  // XXH3 of the fields before it
};

enum class FileChange : std::uint32_t {
  kOpened,   // `path`, to write into what is there; file, size_bytes and modified as it was
  kMaking,   // nothing lies at `path`, and something is about to be made there
  kMade,     // `path` is a new file, directory or link, `file`
  kGhost,    // `path`, `file`: a replay has made it again, until it removes it again
  kRemoved,  // `path`, `file`; `kept` is another name of it
  kRemovedDirectory,  // `path`, `file`; `flags` is its mode
  kRenamed,           // `path`, `file`, to `other`; what lay there was `other_file`, `kept`, or a
                      // directory: then `flags` is its mode
  kExchanged,         // `path`, `file`, with `other`, `other_file`
  kUndone,   // ftrun's: entries in front of it, behind `position`, are of a past that was lost when
             // the job went back to the rank's image with number `size_bytes`
  kPutBack,  // written by ftrun while it undoes changes: that with order `size_bytes`, and all
             // between it and this entry, are undone
};

struct FileEntryHead {
  FileChange change;
  std::uint32_t text_bytes;
  std::uint64_t order;       // the number among all entries of the rank, from 1
  std::uint64_t position;    // the elements of the rank's observation log at that time
  std::uint64_t time_ns;     // CLOCK_REALTIME, for the order among ranks
  std::uint64_t size_bytes;  // of the file, or of the one that would be lost
  std::uint32_t file;        // identities as in libc_recording/identity.h; 0 = none
  std::uint32_t other_file;
  std::uint32_t modified;
  std::uint32_t flags;     // of open(), or a mode
  std::uint64_t text_sum;  // XXH3 of the text
  std::uint64_t sum;       // XXH3 of the fields before it
};

template <class Head>
std::uint64_t sum_of_head(const Head& head) {
  return XXH3_64bits(&head, offsetof(Head, sum));
}

inline constexpr std::size_t kMostFileEntryText = 3 * 4096;

// Writes an entry with its sums to `to`, which has sizeof head + kMostFileEntryText bytes. Returns
// its size.
inline std::size_t put_file_entry(FileEntryHead head, const char* path, const char* other,
                                  const char* kept, char* to) {
  std::size_t bytes = sizeof head;
  for (const char* text : {path, other, kept}) {
    const std::size_t length = strnlen(text, kMostFileEntryText / 3 - 1);
    std::memcpy(to + bytes, text, length);
    to[bytes + length] = '\0';
    bytes += length + 1;
  }
  head.text_bytes = static_cast<std::uint32_t>(bytes - sizeof head);
  head.text_sum = XXH3_64bits(to + sizeof head, head.text_bytes);
  head.sum = sum_of_head(head);
  std::memcpy(to, &head, sizeof head);
  return bytes;
}

// Reads the entries of a log in order.
class FileLogReader {
 public:
  enum class Found { kEntry, kEnd, kCutOff, kDamaged };

  FileLogReader(const char* bytes, std::size_t size) : bytes_(bytes), size_(size) {}

  // Returns whether it begins as the log of this rank and image.
  bool begins(std::uint32_t rank, std::uint64_t image) {
    FileLogHead head;
    if (size_ < sizeof head) return false;
    std::memcpy(&head, bytes_, sizeof head);
    at_ = sizeof head;
    return std::memcmp(head.magic, kFileLogMagic, sizeof head.magic) == 0 &&
           head.sum == sum_of_head(head) && head.rank == rank && head.image == image;
  }

  // Reads the next entry. kEntry: head(), path() and the others are those of this entry. Otherwise
  // at() is where the complete entries end.
  Found next() {
    const std::size_t left = size_ - at_;
    if (left == 0) return Found::kEnd;
    if (left < sizeof head_) return Found::kCutOff;
    std::memcpy(&head_, bytes_ + at_, sizeof head_);
    if (head_.sum != sum_of_head(head_) || head_.text_bytes > kMostFileEntryText ||
        head_.text_bytes == 0) {
      return Found::kDamaged;
    }
    if (left - sizeof head_ < head_.text_bytes) return Found::kCutOff;
    const char* text = bytes_ + at_ + sizeof head_;
    if (XXH3_64bits(text, head_.text_bytes) != head_.text_sum) return Found::kDamaged;
    const char* end = text + head_.text_bytes;
    for (const char*& t : text_) {
      if (text == end) return Found::kDamaged;
      t = text;
      text =
          static_cast<const char*>(std::memchr(text, '\0', static_cast<std::size_t>(end - text)));
      if (text == nullptr) return Found::kDamaged;
      ++text;
    }
    at_ += sizeof head_ + head_.text_bytes;
    return Found::kEntry;
  }
  std::size_t at() const { return at_; }

  const FileEntryHead& head() const { return head_; }
  const char* path() const { return text_[0]; }
  const char* other() const { return text_[1]; }
  const char* kept() const { return text_[2]; }

 private:
  const char* const bytes_;
  const std::size_t size_;
  std::size_t at_ = 0;
  FileEntryHead head_ = {};
  const char* text_[3] = {};
};

}  // namespace rejoin::wire
