// Results that lie in pieces: a large reduction among nodes that share only messages leaves each
// slice where it was given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "journal/layout.h"

namespace rejoin::journal {

// One of them. Those of a result follow each other.
struct Piece {
  std::uint64_t value;  // as in Departure
  std::uint64_t bytes;
};

// A Record::value with this bit names a list of pieces.
inline constexpr std::uint64_t kInPieces = std::uint64_t{1} << 63;
constexpr bool is_in_pieces(std::uint64_t value) { return (value & kInPieces) != 0; }

// Calls take(at, from, bytes) for each piece of a result of `bytes`; `at`: its place in the result.
template <class Take>
void for_each_piece(const std::byte* base, std::uint64_t value, std::uint64_t bytes, Take&& take) {
  const auto* piece = reinterpret_cast<const Piece*>(base + (value & ~kInPieces));
  for (std::uint64_t at = 0; at < bytes; at += piece++->bytes) {
    const bool is_inline = piece->bytes <= kInlineBytes;
    take(at, is_inline ? reinterpret_cast<const std::byte*>(&piece->value) : base + piece->value,
         std::min(piece->bytes, bytes - at));
  }
}

}  // namespace rejoin::journal
