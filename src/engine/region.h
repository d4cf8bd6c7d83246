// Allocation in my region of the segment, and append-only logs over it. Both outlive the process: a
// new incarnation goes on where its predecessor was.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/segment.h"

namespace rejoin::engine {

inline constexpr std::uint64_t kLogFirst = 64;  // elements in chunk 0

constexpr std::uint32_t log_chunk(std::uint64_t index) {
  return static_cast<std::uint32_t>(std::bit_width(index / kLogFirst + 1) - 1);
}
constexpr std::uint64_t log_chunk_begin(std::uint32_t chunk) {
  return kLogFirst * ((std::uint64_t{1} << chunk) - 1);
}
constexpr std::uint64_t log_chunk_size(std::uint32_t chunk) { return kLogFirst << chunk; }

// Element `index` of a log. REQUIRES index < tail, or that the caller owns the log.
template <class T>
T* log_at(std::byte* base, Log& log, std::uint64_t index) {
  const std::uint32_t k = log_chunk(index);
  return reinterpret_cast<T*>(base + log.chunk[k]) + (index - log_chunk_begin(k));
}

// The owner's allocator. Payload extents are backed by pages when they are handed out; what is only
// reserved is backed by whoever writes there first.
template <class Host>
class Region {
 public:
  explicit Region(Host& host)
      : host_(host),
        control_(control_of(host.base(), host.rank())),
        begin_(region_offset(header_of(host.base()), host.rank())),
        size_(header_of(host.base())->region_bytes),
        backed_to_(begin_ + control_->bump.load(std::memory_order_relaxed)) {}

  // 64-byte aligned addresses, not yet backed. 0: the region is used up.
  Offset reserve(std::size_t bytes) {
    const std::uint64_t at = control_->bump.load(std::memory_order_relaxed);
    const std::uint64_t next = at + (bytes + kLine - 1) / kLine * kLine;
    if (next > size_ || next < at) return 0;
    // Advanced before use: what a dead incarnation half wrote is never handed out again.
    control_->bump.store(next, std::memory_order_relaxed);
    return begin_ + at;
  }

  // Like reserve(), and safe to touch. 0: no more memory, or no more addresses.
  Offset allocate(std::size_t bytes) {
    const Offset at = reserve(bytes);
    if (at == 0) return 0;
    const Offset end = at + bytes;
    if (end > backed_to_) {
      const Offset from = at < backed_to_ ? backed_to_ : at;
      const Offset ahead = from + kAheadBytes;
      if (end < ahead && back(from, kAheadBytes)) {
        backed_to_ = ahead;
      } else {
        if (!back(from, end - from)) return 0;
        backed_to_ = end;
      }
    }
    return at;
  }

  // Backs [at, at + bytes) and counts it. False: there is no more.
  bool back(Offset at, std::size_t bytes) {
    if (at + bytes > begin_ + size_) return false;
    if (!host_.back(host_.base() + at, bytes)) return false;
    count(bytes);
    return true;
  }
  void count(std::size_t bytes) {
    control_->committed_memory_bytes.store(
        control_->committed_memory_bytes.load(std::memory_order_relaxed) + bytes,
        std::memory_order_relaxed);
  }

 private:
  // Pages are made this far ahead: one system call for many small extents, and still in the cache
  // when they are written.
  static constexpr std::size_t kAheadBytes = 128 * 1024;

  Host& host_;
  RankControl* control_;
  Offset begin_;
  std::uint64_t size_;
  Offset backed_to_;  // everything handed out since start-up lies below it and is backed
};

// Appends to a log of mine. The cursor is rebuilt from the log's tail.
template <class T, class Host>
class LogWriter {
 public:
  LogWriter() = default;
  LogWriter(Host& host, Region<Host>& region, Log& log)
      : host_(&host), region_(&region), log_(&log), tail_(log.tail.load(std::memory_order_acquire)) {}

  std::uint64_t tail() const { return tail_; }
  T* at(std::uint64_t index) const { return log_at<T>(host_->base(), *log_, index); }

  // Where element `tail()` goes: write it, then publish(). nullptr: no more memory.
  T* next() {
    if (cursor_ == backed_end_ && !extend()) return nullptr;
    return cursor_;
  }
  void publish() {
    ++cursor_;
    ++tail_;
    log_->tail.store(tail_, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kStrideBytes = 64 * 1024;

  bool extend() {
    const std::uint32_t k = log_chunk(tail_);
    const std::uint64_t chunk_bytes = log_chunk_size(k) * sizeof(T);
    if (k >= kLogChunks) return false;
    if (log_->chunk[k] == 0) {
      // Small chunks share pages, so they are backed by the allocator; large ones piecemeal.
      const Offset at =
          chunk_bytes <= kStrideBytes ? region_->allocate(chunk_bytes) : region_->reserve(chunk_bytes);
      if (at == 0) return false;
      log_->chunk[k] = at;
    }
    const Offset begin = log_->chunk[k];
    const std::uint64_t index = tail_ - log_chunk_begin(k);
    const Offset from = begin + index * sizeof(T);
    std::uint64_t count = log_chunk_size(k) - index;
    if (chunk_bytes > kStrideBytes) {
      if (count > kStrideBytes / sizeof(T)) count = kStrideBytes / sizeof(T);
      if (!region_->back(from, count * sizeof(T))) return false;
    }
    cursor_ = reinterpret_cast<T*>(host_->base() + from);
    backed_end_ = cursor_ + count;
    return true;
  }

  Host* host_ = nullptr;
  Region<Host>* region_ = nullptr;
  Log* log_ = nullptr;
  std::uint64_t tail_ = 0;
  T* cursor_ = nullptr;
  T* backed_end_ = nullptr;
};

}  // namespace rejoin::engine
