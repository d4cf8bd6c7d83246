// The nodes of a communicator whose members are on several nodes that share only messages. Each
// node has a leader for every operation: it gives what its members contribute to the other nodes
// (journal::Departure), and makes the record from what all nodes give, which its members adopt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/fold.h"
#include "journal/arena.h"
#include "journal/host.h"
#include "journal/journal.h"
#include "journal/log.h"
#include "journal/peer_view.h"

namespace rejoin::recovery {

template <journal::Host H>
struct Span {
  std::uint32_t nodes;
  std::uint32_t mine;           // this rank's node
  const std::uint32_t* begin;   // [nodes + 1] a node's members in `member`
  const std::uint32_t* member;  // members by node; nodes in the order of their lowest members
  const std::uint32_t* node;    // [size] the node of a member,
  const std::uint32_t* place;   // [size] and which of that node's members it is
  journal::Members near;        // the members on this rank's node
  engine::FoldStep* order;      // [nodes] how reductions combine the nodes' parts
  journal::Departed* given;     // [nodes] what was found of the operation in progress
  std::uint64_t* next;          // [size] where a member's next departure is expected
  journal::LogWriter<journal::Departure, H> departures;  // this rank's

  std::uint32_t members_of(std::uint32_t k) const { return begin[k + 1] - begin[k]; }
  // The member that speaks for node k in an operation. REQUIRES that it is no broadcast.
  std::uint32_t leader(std::uint32_t k, std::uint64_t sequence) const {
    return member[begin[k] + sequence % members_of(k)];
  }
  // The member that a member of `near` is in the communicator.
  std::uint32_t of_near(std::uint32_t i) const { return member[begin[mine] + i]; }

  // Drops what is cached of the segment: another process has been this rank since.
  void rebase() {
    departures.rebase();
    std::fill_n(next, begin[nodes], kUnknown);
    for (std::uint32_t i = 0; i < near.size; ++i) {
      if (i != near.rank) near.block[i] = nullptr;
    }
  }

  // Returns what member i has given in a part of an operation; nothing: it has not, so far.
  // REQUIRES that this rank has no record of the operation: so nothing of it, or behind it, is
  // truncated. O(1) for what others give, in the order of operations; else O(departures behind it).
  std::optional<journal::Departed> find(H& host, const journal::PeerView& peers,
                                        journal::Members& m, std::uint32_t i,
                                        std::uint64_t sequence, journal::Part part) {
    host.step(journal::Step::kLook);
    const std::uint64_t tail = peers.departed(m, i);
    std::uint64_t k = next[i];
    if (k == kUnknown || i == m.rank) {
      for (k = tail; k > 0; --k) {
        const auto before = peers.departure(m, i, k - 1);
        if (!before || before->sequence < sequence) break;
      }
    }
    for (; k < tail; ++k) {
      const auto d = peers.departure(m, i, k);
      if (d && d->sequence > sequence) break;
      if (!d || d->sequence < sequence || d->part < part) continue;
      next[i] = k;
      return d->part == part ? d : std::nullopt;
    }
    next[i] = k;
    return std::nullopt;
  }

  // Null: memory is used up. O(nodes size).
  static Span* make(H& host, journal::Arena& arena, const journal::PeerView& peers,
                    journal::Journal<H>& journal, const journal::Members& all);
  void release(journal::Arena& arena) {
    const std::uint32_t size = begin[nodes];
    const auto array = [&](auto* p, std::size_t n) {
      arena.release(const_cast<std::remove_const_t<std::remove_pointer_t<decltype(p)>>*>(p),
                    n * sizeof *p);
    };
    array(near.world, near.size);
    array(near.block, near.size);
    array(order, nodes);
    array(given, nodes);
    array(next, size);
    array(node, size);
    array(place, size);
    array(member, size);
    array(begin, nodes + 1);
    arena.destroy(this);
  }

  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
};

template <journal::Host H>
Span<H>* Span<H>::make(H& host, journal::Arena& arena, const journal::PeerView& peers,
                       journal::Journal<H>& journal, const journal::Members& all) {
  const std::uint32_t n = all.size;
  auto* node = arena.template make_array<std::uint32_t>(n);
  auto* member = arena.template make_array<std::uint32_t>(n);
  auto* place = arena.template make_array<std::uint32_t>(n);
  auto* next = arena.template make_array<std::uint64_t>(n);
  if (place == nullptr || node == nullptr || member == nullptr || next == nullptr) return nullptr;
  std::uint32_t nodes = 0, placed = 0;
  // Until it is placed, a member's node is `n`.
  std::fill_n(node, n, n);
  for (std::uint32_t first = 0; first < n; ++first) {
    if (node[first] != n) continue;
    const std::uint32_t begins = placed;
    for (std::uint32_t i = first; i < n; ++i) {
      if (peers.node(all.world[i]) != peers.node(all.world[first])) continue;
      node[i] = nodes;
      place[i] = placed - begins;
      member[placed++] = i;
    }
    ++nodes;
  }
  auto* begin = arena.template make_array<std::uint32_t>(nodes + 1);
  auto* order = arena.template make_array<engine::FoldStep>(nodes);
  auto* given = arena.template make_array<journal::Departed>(nodes);
  if (begin == nullptr || order == nullptr || given == nullptr) return nullptr;
  begin[0] = 0;
  for (std::uint32_t k = 0, at = 0; k < nodes; ++k) {
    while (at < n && node[member[at]] == k) ++at;
    begin[k + 1] = at;
  }
  engine::fold_blocks(nodes, order);
  const std::uint32_t mine = node[all.rank], size = begin[mine + 1] - begin[mine];
  auto* world = arena.template make_array<std::uint32_t>(size);
  auto* block = arena.template make_array<journal::ContextBlock*>(size);
  if (world == nullptr || block == nullptr) return nullptr;
  std::uint32_t rank = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t m = member[begin[mine] + i];
    world[i] = all.world[m];
    if (m == all.rank) rank = i;
  }
  block[rank] = all.mine;
  std::fill_n(next, n, kUnknown);
  return arena.template make<Span>(
      Span{nodes,
           mine,
           begin,
           member,
           node,
           place,
           {all.context, size, rank, world, all.mine, block},
           order,
           given,
           next,
           {host, journal.region(), *journal::own_departures(host, *all.mine)}});
}

}  // namespace rejoin::recovery
