// The launcher's side of the host segment: creating, mapping, reading and saving it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "journal/layout.h"
#include "launcher/base/file.h"
#include "launcher/base/options.h"
#include "launcher/base/record.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// A SegmentCopy holds the contents of a segment in memory of its own. Its form in a file:
// JournalHead SegmentPiece{pieces} bytes{of the pieces}, in any order.
struct SegmentPiece {
  std::uint64_t at;
  std::uint64_t bytes;
};
struct JournalHead {
  char magic[8];
  std::uint64_t segment_bytes;
  std::uint64_t pieces;
};
struct JournalPart {
  std::uint64_t at;  // offset in the segment
  std::string_view bytes;
};
struct JournalParts {
  std::uint64_t segment_bytes;
  std::vector<JournalPart> parts;
};
// Parses such a file. Every part is inside the segment. Returns nothing if the file has another
// format or is incomplete.
std::optional<JournalParts> parts_of(std::string_view file);

class SegmentCopy {
 public:
  SegmentCopy(std::uint64_t segment_bytes, std::size_t most_bytes);
  SegmentCopy(SegmentCopy&& other) noexcept
      : segment_bytes_(other.segment_bytes_),
        pieces_(std::move(other.pieces_)),
        memory_(std::exchange(other.memory_, nullptr)),
        most_bytes_(other.most_bytes_),
        bytes_(other.bytes_),
        is_full_(other.is_full_) {}
  SegmentCopy& operator=(SegmentCopy&&) = delete;
  ~SegmentCopy();

  bool good() const { return memory_ != nullptr && !is_full_; }
  // Adds the pages in this range that are not all zero. REQUIRES whole pages.
  void add(const std::byte* base, std::uint64_t at, std::uint64_t bytes);
  // Makes sure that the next `bytes` bytes to be added find memory that is there.
  void populate(std::size_t bytes);
  // Writes and syncs a file. Returns false on failure, with errno set.
  bool write(const std::string& path) const;

 private:
  std::uint64_t segment_bytes_;
  std::vector<SegmentPiece> pieces_;
  std::byte* memory_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  bool is_full_ = false;  // something did not fit
};

class JobSegment {
 public:
  // Creates it in memory, or in an unnamed file in --journal-dir. `processors`: that the ranks may
  // use. `local`: the ranks of this host. REQUIRES complete() options. Errors: no space, no
  // permission.
  static Result<JobSegment> create(const RunOptions& options, std::uint64_t job,
                                   std::uint32_t processors, const LocalRanks& local);
  // Creates it with the contents of the file `journal`, for a job that resumes: every rank is dead.
  // `set`: it is put back to this set of images; 0: it stays as it is. `processors`, `local`: as
  // above. The limit of the journal stays what it was. Errors: no space; the file is of another
  // build, or lacks the set.
  static Result<JobSegment> restore(const RunOptions& options, const std::string& journal,
                                    std::uint64_t set, std::uint32_t processors,
                                    const LocalRanks& local);
  JobSegment(JobSegment&& other) noexcept
      : file_(std::move(other.file_)),
        base_(std::exchange(other.base_, nullptr)),
        bytes_(other.bytes_) {}
  JobSegment& operator=(JobSegment&&) = delete;
  ~JobSegment();

  int descriptor() const { return file_.get(); }
  std::byte* base() const { return base_; }
  journal::SegmentHeader* header() const { return journal::header_of(base_); }
  journal::RankControl* control(std::uint32_t rank) const {
    return journal::control_of(base_, rank);
  }

  // Returns an incarnation number that no rank has used.
  std::uint32_t next_incarnation() const;
  // Copies of the segment, in three parts, in this order. What a set of images needs of the payload
  // does not change as long as the set is kept, so ranks may run while it is copied. No process may
  // write the segment while structure is copied, nor while the payload is if the copy is for images
  // that are no set by themselves. What is there of other hosts' ranks may grow until the end of
  // the set, and it must not name payload that has come after the payload was copied: therefore it
  // is the first part.
  SegmentCopy room_for_copy() const;
  // Finds memory for a part of the structure beforehand, so that copying it takes less time.
  void make_room(SegmentCopy& copy, const LocalRanks& local, bool is_of_others) const;
  // Returns the size of a copy with this payload, if the structure does not grow meanwhile.
  std::uint64_t bytes_with(const std::vector<SegmentPiece>& payload, const LocalRanks& local) const;
  void copy_structure_of_others(SegmentCopy& copy, const LocalRanks& local) const;
  // Returns the payload to copy, in pieces of at most kPieceBytes, each of which takes a few
  // milliseconds: what this set of images needs (journal/needed_payload.h); all of it for set 0.
  static constexpr std::uint64_t kPieceBytes = 8 << 20;
  std::vector<SegmentPiece> payload(const LocalRanks& local, std::uint64_t set) const;
  void copy_payload(SegmentCopy& copy, const SegmentPiece& piece) const {
    copy.add(base_, piece.at, piece.bytes);
  }
  void copy_structure(SegmentCopy& copy, const LocalRanks& local) const;

  // Sets every rank's bell and wakes it.
  void ring_all() const;
  // Answers a rank's MessageType::kMark, and wakes it.
  void set_output_mark(std::uint32_t rank, std::uint64_t value) const;
  // The rank's position, from its diagnostics words in the segment.
  Position position(std::uint32_t rank) const;
  // Bytes that are backed by memory; they count towards the journal limit.
  std::uint64_t backed_bytes() const;
  // The journal is full: ranks may keep less than replays need from let_recycle() on.
  bool recycles() const;
  void let_recycle(bool results) const;
  // All ranks have something to handle at their next operation.
  void give_notice() const;
  // What a rank waits for inside a point-to-point operation: "a message from rank 3 with tag 7".
  // Empty: not known.
  std::string waits_for(std::uint32_t rank) const;
  // Whether its threads may call MPI at the same time. Known when it has called MPI_Init.
  bool threads_may_call(std::uint32_t rank) const;
  // Returns whether a replay of the rank, from its newest image or from main, would include MPI
  // calls of several threads. The order of such calls is not recorded.
  bool would_replay_threads(std::uint32_t rank) const;
  // How long ago the oldest image of this set was made. REQUIRES that the set is kept.
  std::uint64_t age_of_set_ns(std::uint64_t set) const;
  // A module of a rank's call sites; nullptr if there is no such entry.
  const journal::ModuleEntry* module(std::uint32_t rank, std::uint32_t index) const;

  // Writes the non-zero pages to `path` in the format above and returns how many bytes that took.
  // Polls `interrupted`. On failure nothing is left at `path`; an existing file there is an error
  // and is not touched.
  Result<std::uint64_t> keep(const std::string& path,
                             const std::function<bool()>& interrupted) const;

 private:
  static Result<JobSegment> map(const std::string& directory, std::uint64_t bytes);
  void ring(std::uint32_t rank) const;
  // Returns the ranges that are backed by memory.
  // The parts of this range that have memory.
  std::vector<SegmentPiece> populated(std::uint64_t begin, std::uint64_t end) const;
  std::vector<SegmentPiece> populated_structure(const LocalRanks& local, bool is_of_others) const;

  JobSegment(Descriptor file, std::byte* base, std::uint64_t bytes)
      : file_(std::move(file)), base_(base), bytes_(bytes) {}

  Descriptor file_;
  std::byte* base_;
  std::uint64_t bytes_;
};

}  // namespace rejoin::launcher
