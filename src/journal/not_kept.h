// Bytes of messages of other nodes that are not in the journal: a rank that waited for them has
// them in its program's memory. Its next incarnation asks for them again. recovery/NODES.md, "Bytes
// that are not kept".
#pragma once

#include <cstdint>

#include "journal/layout.h"

namespace rejoin::journal {

// The bytes of a message that are there. In a copy of another node's message, some of them may have
// come to the program's buffer alone: a process that needs them later asks that node for all of
// them again.
struct Written {
  static constexpr std::uint64_t kNotKept = std::uint64_t{1} << 63;
  std::uint64_t bytes;
  bool are_kept;
  static constexpr Written of(std::uint64_t word) {
    return {word & ~kNotKept, (word & kNotKept) == 0};
  }
  constexpr std::uint64_t word() const { return bytes | (are_kept ? 0 : kNotKept); }
};

// Which message of another node a rank asks for once more. A request differs from the one before.
struct AskWord {
  static constexpr std::uint64_t after(std::uint64_t word, std::uint64_t index) {
    return ((word >> 48) + 1) << 48 | (index + 1);
  }
  static constexpr std::uint64_t over(std::uint64_t word) { return word >> 48 << 48; }
  static constexpr bool asks(std::uint64_t word) { return (word & 0xffffffffffffu) != 0; }
  static constexpr std::uint64_t index(std::uint64_t word) { return (word & 0xffffffffffffu) - 1; }
};

// The requests of `rank` for messages, by sender.
inline OwnerWord<std::uint64_t>* asked_of(std::byte* base, std::uint32_t rank) {
  return reinterpret_cast<OwnerWord<std::uint64_t>*>(base + region_of(base, rank)->asked);
}

}  // namespace rejoin::journal
