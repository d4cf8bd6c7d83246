// The plan by which the data of a type is copied: a list of nodes, each a piece of memory or a
// loop.
//
//     vector(3, 2, 4, MPI_INT)                   one node: 3 turns of 8 bytes, stride 16
//     a row of that vector and a double behind   two nodes
//     vector of a struct with a gap              one node: a loop over the plan of the struct
//
// Adjacent pieces are merged, and so is a loop over a loop whose turns continue at the inner
// stride.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datatypes/array.h"

namespace rejoin::datatypes {

struct Plan;

struct Node {
  std::int64_t offset;          // from the address of the type to the first turn
  std::int64_t stride;          // from turn to turn; unused if there is one
  std::uint64_t count;          // the number of turns, at least 1
  std::uint64_t bytes;          // the data of one turn, at least 1 byte
  const Plan* body;             // the plan of one turn; null: a turn is one piece of memory
  std::uint64_t packed_at = 0;  // where its data begins in the packed data of the list

  std::uint64_t all_bytes() const { return count * bytes; }
  bool is_piece() const { return body == nullptr && count == 1; }
};

struct Plan {
  explicit Plan(const Memory& m) : memory(m), nodes(m), owned(m) {}
  ~Plan() {
    for (const Plan* p : owned) destroy(memory, const_cast<Plan*>(p));
  }

  // Appends `blocks` blocks of data at `stride`, the first at `offset`; a block is `block` times
  // `of` at `extent`. `of` must outlive this plan. Must be called before finish().
  void append(const Plan& of, std::int64_t offset, std::uint64_t blocks, std::int64_t stride,
              std::uint64_t block, std::int64_t extent);
  void append_piece(std::int64_t offset, std::uint64_t piece_bytes);
  // Called after the last append.
  void finish();

  // Returns the data of `count` values at `extent` as one node, which may refer to this plan.
  // REQUIRES bytes > 0 and count > 0.
  Node repeated(std::uint64_t count, std::int64_t extent) const;

  const Memory& memory;
  Array<Node> nodes;
  std::uint64_t bytes = 0;  // the size of the data

 private:
  void append(const Node& node);

  Array<const Plan*> owned;  // plans of turns that belong to this plan
};

}  // namespace rejoin::datatypes
