#include "datatypes/plan.h"

namespace rejoin::datatypes {
namespace {

constexpr std::size_t kInlined = 8;  // a part with at most this many nodes is copied into the list

// Repeats `node` `times` times at `stride`. False: the result is not one node.
bool repeat(Node* node, std::uint64_t times, std::int64_t stride) {
  if (times == 1) return true;
  if (node->count == 1) {
    if (node->body == nullptr && stride == static_cast<std::int64_t>(node->bytes)) {
      node->bytes *= times;
    } else {
      node->count = times;
      node->stride = stride;
    }
    return true;
  }
  std::int64_t next;  // where the turn after the last one would be
  if (__builtin_mul_overflow(node->count, node->stride, &next) || next != stride) return false;
  node->count *= times;
  return true;
}

// Makes `next` another turn of `last`. False: it does not fit.
bool join_turns(Node* last, const Node& next) {
  if (next.count != 1 || next.body != last->body || next.bytes != last->bytes) return false;
  if (last->count == 1) {
    last->stride = next.offset - last->offset;
  } else if (next.offset != last->offset + static_cast<std::int64_t>(last->count) * last->stride) {
    return false;
  }
  ++last->count;
  return true;
}

}  // namespace

Node Plan::repeated(std::uint64_t count, std::int64_t extent) const {
  if (nodes.size() == 1) {
    Node one = nodes[0];
    if (repeat(&one, count, extent)) return one;
  }
  return {0, extent, count, bytes, this};
}

void Plan::append(const Plan& of, std::int64_t offset, std::uint64_t blocks, std::int64_t stride,
                  std::uint64_t block, std::int64_t extent) {
  if (of.bytes == 0 || blocks == 0 || block == 0) return;
  if (blocks == 1 && block == 1 && of.nodes.size() <= kInlined) {
    for (Node node : of.nodes) {
      node.offset += offset;
      append(node);
    }
    return;
  }
  Node node = of.repeated(block, extent);
  if (!repeat(&node, blocks, stride)) {
    Plan* body = make<Plan>(memory, memory);
    owned.push(body);
    body->append(node);
    body->finish();
    node = {0, stride, blocks, body->bytes, body};
  }
  node.offset += offset;
  append(node);
}

void Plan::append_piece(std::int64_t offset, std::uint64_t piece_bytes) {
  if (piece_bytes > 0) append({offset, 0, 1, piece_bytes, nullptr});
}

void Plan::append(const Node& node) {
  bytes += node.all_bytes();
  if (nodes.size() > 0 && node.is_piece() && nodes.back().is_piece() &&
      nodes.back().offset + static_cast<std::int64_t>(nodes.back().bytes) == node.offset) {
    nodes.back().bytes += node.bytes;
    return;
  }
  nodes.push(node);
}

// Joins turns only here, because append() may still have made a piece longer.
void Plan::finish() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (kept > 0 && join_turns(&nodes[kept - 1], nodes[i])) continue;
    const Node node = nodes[i];
    nodes[kept++] = node;
  }
  nodes.shrink(kept);
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    nodes[i].packed_at = at;
    at += nodes[i].all_bytes();
  }
}

}  // namespace rejoin::datatypes
