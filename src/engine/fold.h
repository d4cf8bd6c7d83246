// How the contributions to a reduction are nested. That follows from the job's layout (which rank
// belongs to which node), the members of the communicator, and whether the operator commutes. Which
// algorithm moves the bytes, and on which machines the nodes are, never changes a bit of a result.
// Scans, and reductions between groups, follow the order of ranks.
//
//   one node         c0 op (c1 op (... c[n-1]))
//   several nodes    each node combines the contributions of its members like that; up to 16 nodes,
//                    in the order of their lowest members, combine their results, and blocks of 16
//                    nodes theirs
//   not commutative  runs of consecutive members of one node instead of nodes, and no blocks, so
//                    that the order of the members stays
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/copy.h"
#include "engine/reduction.h"

namespace rejoin::engine {

// One contribution, in the order of evaluation, which begins with the last operand.
struct FoldStep {
  std::uint32_t member;
  // What is complete behind it: 0 = nothing, 1 = its node, 2 = also the block.
  std::uint32_t closes;
};

inline constexpr std::uint32_t kNodesInBlock = 16;

// Fills order[n] from the nodes of n members, for operators that are commutative. O(n log n).
void fold_by_nodes(const std::uint32_t* node, std::uint32_t n, FoldStep* order);
// Fills order[nodes] for the results of the nodes, in the order of their lowest members: what
// fold_by_nodes() does with them.
void fold_blocks(std::uint32_t nodes, FoldStep* order);
// As fold_by_nodes(), for operators that are not commutative.
void fold_by_runs(const std::uint32_t* node, std::uint32_t n, FoldStep* order);

// Combines contributions, which are added in the order of evaluation, into `out`.
class Fold {
 public:
  // more: with several nodes, memory for two results besides.
  void begin(const Reduction& op, std::size_t count, std::byte* out, std::byte* more) {
    op_ = &op;
    count_ = count;
    out_ = to_ = out;
    more_ = more;
    node_ = nullptr;
    closed_[0] = closed_[1] = {};
  }

  // Whether the node whose members are being added has a result.
  bool is_begun() const { return node_ != nullptr; }
  // copies: `contribution` is used for the next one. Else it must stay until the fold is complete.
  [[gnu::always_inline]] void add(const void* contribution, bool copies, unsigned closes) {
    if (node_ != nullptr) {
      op_->combine(*op_, contribution, node_, to_, count_);
      node_ = to_;
    } else if (copies) {
      copy_payload(to_, contribution, count_ * op_->element_bytes);
      node_ = to_;
    } else {
      node_ = contribution;
    }
    if (closes != 0) [[unlikely]]
      close(closes);
  }

 private:
  // A node's or a block's result. buffer: the memory of the fold that it lies in; null: it is a
  // contribution in place.
  struct Result {
    const void* at = nullptr;
    std::byte* buffer = nullptr;
  };

  [[gnu::noinline]] void close(unsigned levels) {
    Result below = {node_, node_ == to_ ? to_ : nullptr};
    for (unsigned level = 0; level < levels; ++level) {
      Result& mine = closed_[level];
      if (mine.at == nullptr) {
        mine = below;
      } else {
        if (mine.buffer == nullptr) {
          // The last result lies in `out`: it is the one that was begun first.
          const bool last = level == 1 || closed_[1].at == nullptr;
          mine.buffer = last ? out_ : free_buffer(below.buffer);
        }
        op_->combine(*op_, below.at, mine.at, mine.buffer, count_);
        mine.at = mine.buffer;
      }
      below = mine;
      if (level + 1 < levels) mine = {};
    }
    node_ = nullptr;
    to_ = free_buffer(nullptr);
  }
  // Returns one of the two buffers besides `out`. REQUIRES that not both are in use.
  std::byte* free_buffer(const std::byte* used) const {
    const bool first = more_ != used && more_ != closed_[0].buffer && more_ != closed_[1].buffer;
    return first ? more_ : more_ + count_ * op_->element_bytes;
  }

  const Reduction* op_ = nullptr;
  std::size_t count_ = 0;
  std::byte* out_ = nullptr;
  std::byte* more_ = nullptr;
  std::byte* to_ = nullptr;     // where the next combination of the node goes
  const void* node_ = nullptr;  // the result of its members so far; null: there is none yet
  Result closed_[2];            // of the nodes of the block, and of the blocks
};

}  // namespace rejoin::engine
