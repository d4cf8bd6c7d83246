// The communicators of one incarnation: membership, generation, and progress in each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/fold.h"
#include "journal/arena.h"
#include "journal/host.h"
#include "journal/journal.h"
#include "journal/peer_view.h"
#include "journal/rules.h"
#include "journal/step.h"
#include "recovery/span.h"
#include "recovery/types.h"

namespace rejoin::recovery {

using journal::Rule;
using journal::Step;

struct Arrived;
struct Receive;

// The private state of one communicator in one incarnation. All of it can be rebuilt from the
// segment and the program's own calls.
template <journal::Host H>
struct Comm {
  journal::Members members;
  journal::LogWriter<journal::Record, H> records;
  std::uint64_t next_sequence = 0;  // of the next operation in this execution
  std::uint32_t chain = 0;          // over the signatures of the operations so far
  std::uint32_t epoch_seen = 0;     // job epoch at which `generation` was computed
  std::uint32_t generation = 0;
  Comm* next = nullptr;  // of this rank's communicators
  Comm* same_bucket = nullptr;
  bool late = false;  // made after the first checkpoint: no version has it
  // The root's tail as last read. While it is ahead, the root's cache line need not be read again.
  std::uint32_t root_seen = kNobody;
  std::uint64_t root_tail = 0;
  std::uint64_t least_tail = 0;  // operations that all members had completed, at the last look
  // The sequence of its first operation since zones of results were closed (result_zones.h), and
  // how often they had been closed then.
  std::uint64_t zones_closed_at = 0;
  std::uint64_t zones_closed = 0;
  // The order in which reductions combine contributions: [0] for operators that do not commute, [1]
  // for the others. Null: all members are on one node.
  engine::FoldStep* order[2] = {};
  const engine::FoldStep* fold_order(bool commutative) const { return order[commutative]; }
  // Null: all members share memory.
  Span<H>* span = nullptr;
  // The members that share memory with this rank.
  journal::Members& near() { return span == nullptr ? members : span->near; }
  // Point-to-point messages that no receive has matched, and receives that no message has matched,
  // in order; and messages of collectives. Used by recovery/inbox.h only.
  struct Queues {
    Queues() = default;
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;
    void clear() {
      arrived = collective = nullptr;
      posted = nullptr;
      last_arrived = &arrived;
      last_collective = &collective;
      last_posted = &posted;
    }
    Arrived* arrived = nullptr;
    Arrived* collective = nullptr;
    Receive* posted = nullptr;
    Arrived** last_arrived = &arrived;
    Arrived** last_collective = &collective;
    Receive** last_posted = &posted;
  } queues;
};

template <journal::Host H>
class Communicators {
 public:
  Communicators(H& host, journal::Arena& arena, const journal::PeerView& peers,
                journal::Journal<H>& journal)
      : host_(host), arena_(arena), peers_(peers), journal_(journal) {}

  Comm<H>* first() { return first_; }

  // Local; making the same context again finds its records. permanent: every incarnation makes it.
  // nullptr: memory is used up.
  Comm<H>* make(std::uint64_t context, const std::uint32_t* members, std::uint32_t size,
                bool permanent) {
    const bool spans = peers_.nodes_apart() && are_on_several_nodes(members, size);
    journal::ContextBlock* block = journal_.make_block(context, members, size, permanent, spans);
    if (block == nullptr) return nullptr;
    if (block->freed.load() != 0) journal_.note_freed(*block, 0);
    auto* c = arena_.template make<Comm<H>>();
    auto* world = arena_.template make_array<std::uint32_t>(size);
    auto* blocks = arena_.template make_array<journal::ContextBlock*>(size);
    if (c == nullptr || world == nullptr || blocks == nullptr) return nullptr;
    std::memcpy(world, members, size * sizeof *world);
    blocks[block->rank] = block;
    c->members = {context, size, block->rank, world, block, blocks};
    c->records = {host_, journal_.region(), block->records};
    if (!make_fold_orders(*c)) return nullptr;
    if (spans) {
      c->span = Span<H>::make(host_, arena_, peers_, journal_, c->members);
      if (c->span == nullptr) return nullptr;
    }
    refresh_generation(*c);
    c->next = first_;
    first_ = c;
    c->same_bucket = buckets_[bucket(context)];
    buckets_[bucket(context)] = c;
    return c;
  }

  // Reads again what was read of the segment: other ranks may have gone back, too, behind what this
  // rank has seen of them.
  void rebase(Comm<H>& c) {
    c.records.rebase();
    c.root_tail = c.least_tail = 0;
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      if (i != c.members.rank && !journal::breaks(host_, Rule::kForgetPlaces)) {
        c.members.block[i] = nullptr;
      }
    }
    if (c.span != nullptr) c.span->rebase();
  }

  // Drops the private state; records and position stay for the others. `ordinal`: the program's.
  void free(Comm<H>* c, std::uint64_t ordinal) {
    c->members.mine->free_number.store(host_, Step::kSame, ++frees_);
    journal_.note_freed(*c->members.mine, ordinal + 1);
    retire(c->members.context);
    Comm<H>** link = &first_;
    while (*link != c) link = &(*link)->next;
    *link = c->next;
    for (link = &buckets_[bucket(c->members.context)]; *link != c;) link = &(*link)->same_bucket;
    *link = c->same_bucket;
    const std::uint32_t size = c->members.size;
    arena_.release(const_cast<std::uint32_t*>(c->members.world), size * sizeof(std::uint32_t));
    arena_.release(c->members.block, size * sizeof(journal::ContextBlock*));
    for (engine::FoldStep* order : c->order) arena_.release(order, size * sizeof *order);
    if (c->span != nullptr) c->span->release(arena_);
    arena_.destroy(c);
  }

  // Communicators that this execution has freed.
  std::uint64_t frees() const { return frees_; }

  // Null: this rank has no such context.
  Comm<H>* find(std::uint64_t context) const {
    Comm<H>* c = buckets_[bucket(context)];
    while (c != nullptr && c->members.context != context) c = c->same_bucket;
    return c;
  }

  // Returns the generation of c, read again if there was a death since.
  std::uint32_t generation(Comm<H>& c) {
    if (peers_.epoch() != c.epoch_seen) refresh_generation(c);
    return c.generation;
  }

  // Returns a member that has a record of the operation, and shares memory with this rank; kNobody:
  // none has.
  std::uint32_t find_record(Comm<H>& c, std::uint64_t sequence) {
    host_.step(Step::kLook);
    if (journal::breaks(host_, Rule::kLookAtRecords)) return kNobody;
    journal::Members& near = c.near();
    for (std::uint32_t i = 0; i < near.size; ++i) {
      if (peers_.tail(near, i) > sequence) return c.span == nullptr ? i : c.span->of_near(i);
    }
    return kNobody;
  }

  // Publishes the record of the next operation. With a full journal records are overwritten, but
  // none that a member has still to read: not every operation waits for all members.
  void commit(Comm<H>& c, std::uint64_t sequence, const journal::Record& record) {
    if (c.records.room() == 0 && journal_.region().retention().reuses_what_was_read()) [[unlikely]]
      c.records.keep_for_readers(journal::breaks(host_, Rule::kRecordsUntilRead) ? ~std::uint64_t{0}
                                                                                 : least_tail(c));
    journal_.commit(c.records, sequence, record);
  }

  // Returns whether all members have completed every operation at least `distance` before this one.
  // Their tails are read only if the previous look does not tell; and a caller that had to wait
  // goes on only when they are twice as near, so that it need not read them at every operation
  // then.
  bool all_within(Comm<H>& c, std::uint64_t sequence, std::uint64_t distance) {
    if (c.least_tail + distance > sequence) [[likely]]
      return true;
    host_.step(Step::kLook);
    c.least_tail = least_tail(c);
    return c.least_tail + (distance + 1) / 2 > sequence;
  }

  // The operations that all members have completed.
  std::uint64_t least_tail(Comm<H>& c) {
    std::uint64_t least = ~std::uint64_t{0};
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      least = std::min(least, peers_.tail(c.members, i));
    }
    return least;
  }

  // --- Contexts that were freed, until they are past

  struct Retired {
    std::uint64_t context;
    Retired* next;
  };
  // Null: a former incarnation, which had come further, has reclaimed it.
  journal::ContextBlock* block_of(const Retired& r) const {
    return journal::own_block(host_, r.context);
  }

  // Whether no member goes back to an operation of the context, which was freed.
  bool everybody_is_past(const journal::ContextBlock& block) {
    const auto* world =
        reinterpret_cast<const std::uint32_t*>(journal::own_bytes(host_, block.members));
    for (std::uint32_t i = 0; i < block.size; ++i) {
      if (journal::mark_of(host_, world[i], block.context) != journal::kPast) return false;
    }
    return true;
  }
  // Reclaims blocks that no rank goes back to, unless every incarnation makes their contexts.
  void reclaim() {
    for (Retired** link = &retired_; *link != nullptr;) {
      Retired* r = *link;
      const journal::ContextBlock* block = block_of(*r);
      if (block != nullptr && !everybody_is_past(*block)) {
        link = &r->next;
        continue;
      }
      if (block != nullptr && block->permanent == 0) journal_.reclaim_block(r->context);
      *link = r->next;
      arena_.destroy(r);
    }
  }

 private:
  bool are_on_several_nodes(const std::uint32_t* world, std::uint32_t n) const {
    for (std::uint32_t i = 1; i < n; ++i) {
      if (peers_.node(world[i]) != peers_.node(world[0])) return true;
    }
    return false;
  }
  // False: memory is used up.
  bool make_fold_orders(Comm<H>& c) {
    const std::uint32_t n = c.members.size;
    if (!are_on_several_nodes(c.members.world, n)) return true;
    auto* nodes = arena_.template make_array<std::uint32_t>(n);
    for (engine::FoldStep*& order : c.order)
      order = arena_.template make_array<engine::FoldStep>(n);
    if (nodes == nullptr || c.order[0] == nullptr || c.order[1] == nullptr) return false;
    for (std::uint32_t i = 0; i < n; ++i) nodes[i] = peers_.node(c.members.world[i]);
    engine::fold_by_runs(nodes, n, c.order[0]);
    engine::fold_by_nodes(nodes, n, c.order[1]);
    arena_.release(nodes, n * sizeof *nodes);
    return true;
  }

  [[gnu::noinline]] void refresh_generation(Comm<H>& c) {
    host_.step(Step::kGeneration);
    // The epoch first: a death published after it makes it differ again.
    c.epoch_seen = peers_.epoch();
    std::uint32_t g = 0;
    for (std::uint32_t i = 0; i < c.members.size; ++i) {
      g = std::max(g, peers_.death_epoch(c.members.world[i]));
    }
    c.generation = g;
  }

  void retire(std::uint64_t context) {
    auto* r = arena_.template make<Retired>(Retired{context, retired_});
    if (r != nullptr) retired_ = r;  // else its memory is never reclaimed
  }

  H& host_;
  journal::Arena& arena_;
  const journal::PeerView& peers_;
  journal::Journal<H>& journal_;
  static constexpr std::size_t kBuckets = 64;
  static std::size_t bucket(std::uint64_t context) { return context >> 32 & (kBuckets - 1); }

  std::uint64_t frees_ = 0;
  Comm<H>* first_ = nullptr;
  Comm<H>* buckets_[kBuckets] = {};
  Retired* retired_ = nullptr;
};

}  // namespace rejoin::recovery
