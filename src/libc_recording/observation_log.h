// The bytes of the observation log: its format, a writer for the owner and a reader for anybody.
//
//     log    := entry*
//     entry  := pad | repeat | name | made | event | series
//     pad    := 0x00
//     repeat := 0x01 pad* COUNT       the answer before this was given COUNT times more. COUNT is
//                                     four bytes, little endian, at a position that is a multiple
//                                     of four; the only bytes below the tail that change
//     name   := 0x02 LENGTH BYTE*     the text of the next name; names are numbered from 1
//     made   := 0x03 FILE LENGTH BYTE*
//                                     not an answer, but for the next replay if this one dies. The
//                                     replay makes a ghost (files.h). A path: it is about to
//                                     be made there; then FILE: it has been (2: it could not be).
//                                     FILE 0 and no path: the rank is live, ghosts are its files
//     event  := KIND NAME NAME DETAIL ERROR LENGTH BYTE*
//                                     KIND is 0x08 to 0x3f: what was asked. NAME 0 is none. ERROR:
//                                     an errno, or 0. BYTE*: the answer; see observation.h
//     series := KIND DELTA*           KIND is 0x40 + Series; as many as fields_of(series). Zigzag
//                                     differences to the same series' last entry; to 0 in the first
//
// FILE, NAME, DETAIL, ERROR, LENGTH and DELTA are varints: seven bits a byte, the low ones first,
// top bit set in all bytes but the last. Zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
//
// Worked example: a rank that looks three times for "out", does not find it, and reads MPI_Wtime at
// 5000, 5080 and 5080 ns:
//
//     02 03 6f 75 74                name 1 is "out"
//     09 01 00 00 02 00             access of name 1, detail 0 (F_OK), ENOENT, no bytes
//     01 | 02 00 00 00              at position 11, so no padding: twice more the same
//     47 90 4e                      MPI_Wtime, +5000
//     47 a0 01                      MPI_Wtime, +80
//     01 00 | 01 00 00 00           at position 22, so one pad; once more the same
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/region.h"
#include "engine/segment.h"
#include "libc_recording/observation.h"

namespace rejoin::libc_recording {

// An entry of the log.
struct Observation {
  ObservationKind kind;
  std::uint32_t name = 0, other = 0;  // events
  std::uint32_t detail = 0;
  int error = 0;
  Series series = Series::kEnd;
  std::uint32_t repeats = 0;        // kRepeat
  std::uint32_t file = 0;           // kMade
  std::uint64_t data_position = 0;  // events: the answer; else the text
  std::uint32_t data_bytes = 0;
};

// Reads the log of any rank up to the tail that it had at the start. Nothing blocks.
class ObservationReader {
 public:
  ObservationReader(std::byte* base, engine::Log& log)
      : base_(base), log_(&log), end_(log.tail.load(std::memory_order_acquire)) {}

  // The next entry; pads are skipped. False: that was all.
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
      std::int64_t* value = values(o->series);
      for (std::size_t i = 0; i < fields_of(o->series); ++i) value[i] = sum(value[i], zigzag());
    } else if (o->kind == ObservationKind::kRepeat) {
      while (position_ % sizeof o->repeats != 0) byte();
      o->repeats = reinterpret_cast<std::atomic<std::uint32_t>*>(at(position_))
                       ->load(std::memory_order_acquire);
      skip(sizeof o->repeats);
    } else {
      if (o->kind == ObservationKind::kMade) {
        o->file = static_cast<std::uint32_t>(varint());
      } else if (o->kind != ObservationKind::kName) {
        o->name = static_cast<std::uint32_t>(varint());
        o->other = static_cast<std::uint32_t>(varint());
        o->detail = static_cast<std::uint32_t>(varint());
        o->error = static_cast<int>(varint());
      }
      o->data_bytes = static_cast<std::uint32_t>(varint());
      o->data_position = position_;
      skip(o->data_bytes);
    }
    return true;
  }

  std::uint64_t position() const { return position_; }

  // Of the newest entry of the series that was read.
  std::int64_t* values(Series s) { return values_[static_cast<std::size_t>(s)]; }

  void copy(std::uint64_t position, void* to, std::size_t bytes) const {
    auto* out = static_cast<std::byte*>(to);
    while (bytes > 0) {
      const std::uint64_t chunk_end = engine::log_chunk_begin(engine::log_chunk(position) + 1);
      const std::size_t n = std::min<std::size_t>(bytes, chunk_end - position);
      std::memcpy(out, at(position), n);
      out += n;
      position += n;
      bytes -= n;
    }
  }

 private:
  std::byte* at(std::uint64_t position) const {
    return engine::log_at<std::byte>(base_, *log_, position);
  }
  std::uint8_t byte() {
    if (cursor_ == chunk_end_) {
      const std::uint32_t k = engine::log_chunk(position_);
      cursor_ = at(position_);
      chunk_end_ = cursor_ + (engine::log_chunk_begin(k + 1) - position_);
    }
    ++position_;
    return static_cast<std::uint8_t>(*cursor_++);
  }
  void skip(std::size_t bytes) {
    position_ += bytes;
    cursor_ = chunk_end_ = nullptr;
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

  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  std::byte* base_;
  engine::Log* log_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
  const std::byte* cursor_ =
      nullptr;  // of `position_`, in a chunk; equal to chunk_end_: look it up
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

// Appends bytes to a log of mine. What is put becomes visible, all of it at once, by publish();
// what is not published when the process dies is written over by the next incarnation.
template <class Host>
class ObservationWriter {
 public:
  ObservationWriter(Host& host, engine::Region<Host>& region, engine::Log& log)
      : host_(host),
        region_(region),
        log_(log),
        position_(log.tail.load(std::memory_order_acquire)) {}

  std::uint64_t position() const { return position_; }  // where the next byte goes

  // Where `bytes` bytes can be written in one piece, then to be counted by advance(). nullptr: use
  // put().
  std::byte* room(std::size_t bytes) const {
    return static_cast<std::size_t>(backed_end_ - cursor_) >= bytes ? cursor_ : nullptr;
  }
  void advance(std::size_t bytes) {
    cursor_ += bytes;
    position_ += bytes;
  }

  // False: no more memory.
  bool put(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      if (cursor_ == backed_end_ && !extend()) return false;
      const std::size_t n = std::min<std::size_t>(bytes, backed_end_ - cursor_);
      std::memcpy(cursor_, from, n);
      advance(n);
      from += n;
      bytes -= n;
    }
    return true;
  }

  void publish() { log_.tail.store(position_, std::memory_order_release); }

 private:
  static constexpr std::uint64_t kStrideBytes = 64 * 1024;

  bool extend() {
    const std::uint32_t k = engine::log_chunk(position_);
    const std::uint64_t chunk_bytes = engine::log_chunk_size(k);
    if (k >= engine::kLogChunks) return false;
    if (log_.chunk[k] == 0) {
      // Small chunks share pages, so they are backed by the allocator; large ones piecemeal.
      const engine::Offset at = chunk_bytes <= kStrideBytes ? region_.allocate_lasting(chunk_bytes)
                                                            : region_.reserve_lasting(chunk_bytes);
      if (at == 0) return false;
      log_.chunk[k] = at;
    }
    const std::uint64_t index = position_ - engine::log_chunk_begin(k);
    std::uint64_t bytes = chunk_bytes - index;
    const engine::Offset from = log_.chunk[k] + index;
    if (chunk_bytes > kStrideBytes) {
      bytes = std::min(bytes, kStrideBytes);
      if (!region_.back(from, bytes)) return false;
    }
    cursor_ = host_.base() + from;
    backed_end_ = cursor_ + bytes;
    return true;
  }

  Host& host_;
  engine::Region<Host>& region_;
  engine::Log& log_;
  std::uint64_t position_;
  std::byte* cursor_ = nullptr;
  std::byte* backed_end_ = nullptr;
};

}  // namespace rejoin::libc_recording
