// The bytes of the observation log: its format, a writer for the owner and a reader for any rank.
//
//     log    := head entry*
//     head   := 0x03 pad{7} OFFSET    where LibcHead lies: eight bytes, little endian
//     entry  := pad | repeat | name | base | event | series
//     pad    := 0x00
//     repeat := 0x01 pad* COUNT       the answer before this was given COUNT times more. COUNT is
//                                     four bytes, little endian, at a position that is a multiple
//                                     of four; the only bytes below the tail that change
//     name   := 0x02 LENGTH BYTE*     the text of the next name; names are numbered from 1
//     base   := 0x04 DELTA*           all that a reader needs to begin here, when what lies before
//                                     is truncated: the last values of every series, in the order
//                                     of their numbers. Names are numbered from 1 again
//     event  := KIND NAME NAME DETAIL ERROR LENGTH BYTE*
//                                     KIND is 0x08 to 0x3f: what was asked. NAME 0 is none. ERROR:
//                                     an errno, or 0. BYTE*: the answer; see observation.h
//     series := KIND DELTA*           KIND is 0x40 + Series; as many as fields_of(series). Zigzag
//                                     differences to the same series' last entry; to 0 in the first
//
// Unless stated otherwise, these are varints: seven bits a byte, the low ones first,
// top bit set in all bytes but the last. Zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
//
// Worked example: a rank that looks three times for "out", does not find it, and reads MPI_Wtime at
// 5000, 5080 and 5080 ns:
//
//     03 00 00 00 00 00 00 00 | ..  the head, 16 bytes
//     02 03 6f 75 74                name 1 is "out"
//     09 01 00 00 02 00             access of name 1, detail 0 (F_OK), ENOENT, no bytes
//     01 | 02 00 00 00              at position 27, so no padding: twice more the same
//     47 90 4e                      MPI_Wtime, +5000
//     47 a0 01                      MPI_Wtime, +80
//     01 00 | 01 00 00 00           at position 38, so one pad; once more the same
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "journal/layout.h"
#include "journal/log.h"
#include "libc_recording/observation.h"

namespace rejoin::libc_recording {

// What lies beside the log, and is never truncated. The ghosts' log is bytes:
//
//     ghosts := note*
//     note   := FILE LENGTH BYTE*     a path that the next replay must remove first if this one
//                                     dies: only if FILE lies there; with FILE 0, whatever lies
//                                     there. FILE 0 and no path: the rank is live, and its ghosts
//                                     are its files (file_facts.h)
struct LibcHead {
  std::uint32_t pid, parent;  // of the first incarnation
  journal::Log files;         // u64: file << 2 | how it was opened for writing (file_facts.cc)
  journal::Log ghosts;
  std::uint64_t begin;  // position of the oldest base that was not truncated; 0: all is there
};
inline constexpr std::uint64_t kHeadBytes = 16;

// Returns nullptr if the rank has not recorded anything yet.
inline LibcHead* head_of(const journal::LogView<std::byte>& log) {
  if (log.tail() < kHeadBytes) return nullptr;
  std::uint64_t at;
  std::memcpy(&at, log.at(kHeadBytes - sizeof at), sizeof at);
  return reinterpret_cast<LibcHead*>(log.bytes(at));
}

// An entry of the log.
struct Observation {
  ObservationKind kind;
  std::uint32_t name = 0, other = 0;  // of events: the numbers of the names
  std::uint32_t detail = 0;
  int error = 0;
  Series series = Series::kEnd;
  std::uint32_t repeats = 0;        // of kRepeat
  std::uint64_t data_position = 0;  // where an event's answer begins; of a name, its text
  std::uint32_t data_bytes = 0;
};

// Reads the log of any rank up to the tail that it had at construction; of a truncated log, only
// what lies before its rings, until jump(). Nothing blocks.
class ObservationReader {
 public:
  explicit ObservationReader(const journal::LogView<std::byte>& log) : log_(log) {
    bool all;
    end_ = log.permanent(&all);
    truncated_ = !all;
  }

  // Reads the next entry; skips pads. False: there are no more.
  bool next(Observation* o) {
    std::uint8_t kind = 0;
    while (kind == 0) {
      if (position_ >= end_) return false;
      kind = byte();
    }
    *o = {};
    o->kind = static_cast<ObservationKind>(kind);
    if (kind >= static_cast<std::uint8_t>(ObservationKind::kSeries)) {
      o->series = static_cast<Series>(kind - static_cast<std::uint8_t>(ObservationKind::kSeries));
      o->kind = ObservationKind::kSeries;
      read_series(o->series);
    } else if (o->kind == ObservationKind::kRepeat) {
      align();
      o->repeats =
          journal::load_element(*reinterpret_cast<const std::uint32_t*>(log_.at(position_)));
      skip(sizeof o->repeats);
    } else if (o->kind == ObservationKind::kHead) {
      skip(kHeadBytes - 1);
    } else if (o->kind == ObservationKind::kBase) {
      read_base();
    } else {
      read_event(o);
    }
    return true;
  }

  // Reads the next note of a ghosts' log; position() is then that of its path. False: there are no
  // more.
  bool next_note(std::uint32_t* file, std::uint32_t* path_bytes) {
    if (position_ >= end_) return false;
    *file = static_cast<std::uint32_t>(varint());
    *path_bytes = static_cast<std::uint32_t>(varint());
    return true;
  }

  bool truncated() const { return truncated_; }
  std::uint64_t end() const { return end_; }
  // Continues at the base at `position`, up to the log's tail.
  void jump(std::uint64_t position) {
    skip(position - position_);
    truncated_ = false;
    end_ = log_.tail();
  }

  // Continues at `position`, up to the present tail. The values of series stay.
  void go_on(std::uint64_t position) { jump(position); }

  std::uint64_t position() const { return position_; }

  // Returns the values of the newest entry of a series that was read.
  std::int64_t* values(Series s) { return values_[static_cast<std::size_t>(s)]; }

  void copy(std::uint64_t position, void* to, std::size_t bytes) const {
    auto* out = static_cast<std::byte*>(to);
    while (bytes > 0) {
      const std::size_t n = std::min<std::size_t>(bytes, log_.piece(position));
      std::memcpy(out, log_.at(position), n);
      out += n;
      position += n;
      bytes -= n;
    }
  }

  void skip(std::uint64_t bytes) {
    position_ += bytes;
    cursor_ = chunk_end_ = nullptr;
  }

 private:
  std::uint8_t byte() {
    if (cursor_ == chunk_end_) {
      cursor_ = log_.at(position_);
      chunk_end_ = cursor_ + log_.piece(position_);
    }
    ++position_;
    return static_cast<std::uint8_t>(*cursor_++);
  }
  void align() {
    while (position_ % sizeof(std::uint32_t) != 0) byte();
  }
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint64_t b = byte();
      v |= (b & 0x7f) << shift;
      if (b < 0x80) return v;
    }
  }
  std::int64_t zigzag() {
    const std::uint64_t v = varint();
    return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
  }
  void read_series(Series s) {
    std::int64_t* value = values(s);
    for (std::size_t i = 0; i < fields_of(s); ++i) value[i] = sum(value[i], zigzag());
  }
  void read_base() {
    std::memset(values_, 0, sizeof values_);
    for (std::size_t s = 0; s < kSeriesCount; ++s) read_series(static_cast<Series>(s));
  }
  void read_event(Observation* o) {
    if (o->kind != ObservationKind::kName) {
      o->name = static_cast<std::uint32_t>(varint());
      o->other = static_cast<std::uint32_t>(varint());
      o->detail = static_cast<std::uint32_t>(varint());
      o->error = static_cast<int>(varint());
    }
    o->data_bytes = static_cast<std::uint32_t>(varint());
    o->data_position = position_;
    skip(o->data_bytes);
  }

  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  journal::LogView<std::byte> log_;
  bool truncated_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
  // The address of position_ and the end of its piece. If they are equal, both must be looked up.
  const std::byte* cursor_ = nullptr;
  const std::byte* chunk_end_ = nullptr;
  std::int64_t values_[kSeriesCount][kMaxFields] = {};
};

inline std::byte* put_varint(std::byte* to, std::uint64_t v) {
  for (; v >= 0x80; v >>= 7) *to++ = static_cast<std::byte>(v | 0x80);
  *to++ = static_cast<std::byte>(v);
  return to;
}
// The zigzag difference between a value and the one before it.
inline std::byte* put_delta(std::byte* to, std::int64_t value, std::int64_t before) {
  const std::uint64_t d = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(before);
  return put_varint(to, d << 1 ^ -(d >> 63));
}

}  // namespace rejoin::libc_recording
