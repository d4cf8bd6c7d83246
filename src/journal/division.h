// How what a rank gives to other nodes is divided among them.
#pragma once

#include <cstdint>

namespace rejoin::journal {

// Which of the other nodes of its context read a departure, and what of it (engine::slice_for).
// Nodes are numbered in the order of their lowest members.
struct Division {
  static constexpr std::uint32_t kAll = 0;
  static constexpr std::uint32_t kBut = 1u << 31;

  std::uint32_t element_bytes = 0;  // 0: each reader reads all of it; else its slice alone
  std::uint32_t readers = kAll;     // kAll; 1 + k: node k alone; kBut | k: all but node k

  static constexpr std::uint32_t only(std::uint32_t k) { return 1 + k; }
  static constexpr std::uint32_t all_but(std::uint32_t k) { return kBut | k; }
  constexpr bool is_read_by(std::uint32_t k) const {
    if (readers == kAll) return true;
    return (readers & kBut) != 0 ? readers != all_but(k) : readers == only(k);
  }
};

}  // namespace rejoin::journal
