// Results that lie in pieces: a large reduction or broadcast among nodes that share only messages
// leaves each slice where it was given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "journal/layout.h"

namespace rejoin::journal {

// The head of a list of pieces. They follow it in memory, in the order that they have in the
// result.
struct PieceList {
  std::uint64_t pieces;
  std::uint64_t unused;
};
struct Piece {
  std::uint64_t value;  // as in Departure
  std::uint64_t bytes;
};

// A Record::value with this bit names a list of pieces.
inline constexpr std::uint64_t kInPieces = std::uint64_t{1} << 63;
constexpr bool is_in_pieces(std::uint64_t value) { return (value & kInPieces) != 0; }

inline std::span<const Piece> pieces_of(const std::byte* base, std::uint64_t value) {
  const auto* list = reinterpret_cast<const PieceList*>(base + (value & ~kInPieces));
  return {reinterpret_cast<const Piece*>(list + 1), list->pieces};
}
// Calls take(at, from, bytes) for each piece of a result of `bytes`; `at`: its place in the result.
template <class Take>
void for_each_piece(const std::byte* base, std::uint64_t value, std::uint64_t bytes, Take&& take) {
  const Piece* piece = pieces_of(base, value).data();
  for (std::uint64_t at = 0; at < bytes; at += piece++->bytes) {
    const bool is_inline = piece->bytes <= kInlineBytes;
    take(at, is_inline ? reinterpret_cast<const std::byte*>(&piece->value) : base + piece->value,
         std::min(piece->bytes, bytes - at));
  }
}

}  // namespace rejoin::journal
