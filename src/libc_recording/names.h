// Paths that events name: each is in the log once, and has a number from then on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "libc_recording/memory.h"
#include "libc_recording/observation_log.h"
#include "recovery/hash.h"

namespace rejoin::libc_recording {

class NameTable {
 public:
  explicit NameTable(Memory& memory) : memory_(memory) { grow(); }

  static std::uint64_t hash_of(const char* name, std::size_t bytes) {
    return XXH3_64bits(name, bytes);
  }
  // Returns the number of a name, or 0 if it has none.
  std::uint32_t find(std::uint64_t hash) const {
    for (std::uint64_t i = hash;; ++i) {
      const std::uint32_t n = buckets_[i % (2 * room_)];
      if (n == 0 || names_[n].hash == hash) return n;
    }
  }
  std::uint32_t find(const char* name) const { return find(hash_of(name, std::strlen(name))); }

  std::uint32_t end() const { return end_; }  // the number of the next name

  // Adds a name, which is at `position` in the log. Returns its number.
  std::uint32_t add(std::uint64_t hash, std::uint64_t position, std::uint32_t bytes) {
    if (end_ == room_) grow();
    names_[end_] = {hash, position, bytes};
    std::uint64_t i = hash;
    while (buckets_[i % (2 * room_)] != 0) ++i;
    buckets_[i % (2 * room_)] = end_;
    return end_++;
  }

  // Forgets all names. Numbers begin at 1 again.
  void clear() {
    std::fill(buckets_, buckets_ + 2 * room_, 0);
    end_ = 1;
  }

  void text_of(const ObservationReader& log, std::uint32_t name, char* text,
               std::size_t size) const {
    std::size_t bytes = 0;
    if (name > 0 && name < end_) {
      bytes = std::min<std::size_t>(names_[name].bytes, size - 1);
      log.copy(names_[name].position, text, bytes);
    }
    text[bytes] = '\0';
  }

 private:
  struct Name {
    std::uint64_t hash;
    std::uint64_t position;
    std::uint32_t bytes;
  };

  void grow() {
    const std::uint32_t before = room_, end = end_;
    Name* old_names = names_;
    std::uint32_t* old_buckets = buckets_;
    room_ = before == 0 ? 64 : 2 * before;
    names_ = memory_.make_array<Name>(room_);
    buckets_ = memory_.make_array<std::uint32_t>(2 * room_);
    end_ = 1;
    for (std::uint32_t n = 1; n < end; ++n) {
      add(old_names[n].hash, old_names[n].position, old_names[n].bytes);
    }
    memory_.release(old_names, before);
    memory_.release(old_buckets, 2 * before);
  }

  Memory& memory_;
  Name* names_ = nullptr;  // [1, end_)
  std::uint32_t end_ = 1;
  std::uint32_t room_ = 0;
  std::uint32_t* buckets_ = nullptr;  // [2 * room_]; 0 = free
};

}  // namespace rejoin::libc_recording
