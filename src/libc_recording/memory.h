// Memory and containers of the recording. They are its own, so that nothing is shared with a thread
// that is inside MPI. Running out of memory ends the job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/log.h"
#include "recovery/attach.h"

namespace rejoin::libc_recording {

class Memory {
 public:
  // One allocation from the rank's arena. REQUIRES that no other thread is inside MPI now.
  explicit Memory(recovery::Rank& rank)
      : rank_(rank), arena_(static_cast<std::byte*>(rank.arena().allocate(kBytes)), kBytes) {}

  template <class T>
  T* make_array(std::size_t count) {
    T* p = arena_.template make_array<T>(count);
    if (p == nullptr) out_of_memory();
    return p;
  }
  template <class T>
  void release(T* p, std::size_t count) {
    arena_.release(p, count * sizeof(T));
  }
  [[noreturn]] void out_of_memory() { end("there is no more memory for the recording of libc"); }
  [[noreturn]] void journal_full() {
    end("the journal cannot grow, because memory (or the space in --journal-dir) is used up: give "
        "the job more, or set --journal-limit below what is available");
  }

 private:
  [[noreturn]] void end(const char* text) {
    rank_.diverged(text);
    __builtin_unreachable();
  }

  static constexpr std::size_t kBytes = std::size_t{1} << 28;  // of addresses

  recovery::Rank& rank_;
  journal::Arena arena_;
};

// An array that grows. Values are copied bytewise.
template <class T>
struct Array {
  T* items = nullptr;
  std::size_t size = 0;
  std::size_t room = 0;

  void add(Memory& memory, const T& item) {
    if (size == room) {
      const std::size_t larger = 2 * room + 64;
      T* moved = memory.make_array<T>(larger);
      std::copy(items, items + size, moved);
      memory.release(items, room);
      items = moved;
      room = larger;
    }
    items[size++] = item;
  }
};

// Sorted numbers, each once.
struct Set : Array<std::uint64_t> {
  bool has(std::uint64_t item) const { return std::binary_search(items, items + size, item); }
  // Returns the smallest element that is not below `item`; 0: there is none.
  std::uint64_t from(std::uint64_t item) const {
    const std::uint64_t* found = std::lower_bound(items, items + size, item);
    return found == items + size ? 0 : *found;
  }
  void insert(Memory& memory, std::uint64_t item) {
    if (has(item)) return;
    add(memory, item);
    std::uint64_t* place = std::upper_bound(items, items + size - 1, item);
    std::copy_backward(place, items + size - 1, items + size);
    *place = item;
  }
};

using ByteWriter = journal::LogWriter<std::byte, engine::ShmHost>;

// Appends bytes that become visible by to.show(). False: the journal has no more memory.
inline bool append(ByteWriter& to, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    std::byte* place = to.next();
    if (place == nullptr) return false;
    const std::size_t n = std::min(bytes, to.room());
    std::copy(from, from + n, place);
    to.advance(n);
    from += n;
    bytes -= n;
  }
  return true;
}

}  // namespace rejoin::libc_recording
