// Every read of another rank's memory. This is the seam for several hosts: the words of a member on
// another host would be copies.
#pragma once

#include <cstdint>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/log.h"

namespace rejoin::journal {

// A rank's diagnostics position, as it shows it; for reports and for finding disagreement.
struct Position {
  std::uint64_t context;
  std::uint64_t sequence;
  std::uint64_t prepared;  // its newest prepared version, read at this position
  std::uint32_t call;
};

// `i` is a member's rank in its communicator, `world` its rank in the job. Nothing here blocks or
// writes. Pointers stay valid for as long as the rank's marks have not passed what they lead to.
class PeerView {
 public:
  explicit PeerView(std::byte* base) : base_(base), header_(header_of(base)) {}

  std::byte* at(Offset offset) const { return base_ + offset; }
  std::uint32_t ranks() const { return header_->ranks; }
  std::uint32_t epoch() const { return header_->epoch.load(std::memory_order_acquire); }
  std::uint32_t death_epoch(std::uint32_t world) const {
    return control(world).death_epoch.load(std::memory_order_acquire);
  }

  // Records that member i has in a context: its position there.
  std::uint64_t tail(Members& m, std::uint32_t i) const {
    const ContextBlock* b = block_of(base_, m, i);
    return b == nullptr ? 0 : b->records.tail.load(std::memory_order_acquire);
  }
  // REQUIRES tail(m, i) > sequence.
  const Record& record(Members& m, std::uint32_t i, std::uint64_t sequence) const {
    return *log_at<Record>(base_, m.block[i]->records, sequence);
  }
  Slot* slot(Members& m, std::uint32_t i, std::uint64_t sequence) const {
    ContextBlock* b = block_of(base_, m, i);
    return b == nullptr ? nullptr : &b->slot[sequence % kSlots];
  }
  StagingBuffer& staging(Offset offset) const {
    return *reinterpret_cast<StagingBuffer*>(base_ + offset);
  }

  // `call` as in Record. Null: the rank has no such call (the word that named it was torn).
  const CallEntry* call(std::uint32_t world, std::uint32_t call) const {
    Log& calls = region_of(base_, world)->calls;
    const std::uint32_t index = call & kCallIndex;
    if (index >= calls.tail.load(std::memory_order_acquire)) return nullptr;
    return log_at<CallEntry>(base_, calls, index);
  }
  const ModuleEntry* module(std::uint32_t world, std::uint32_t index) const {
    Log& modules = region_of(base_, world)->modules;
    if (index >= modules.tail.load(std::memory_order_acquire)) return nullptr;
    return log_at<ModuleEntry>(base_, modules, index);
  }

  // Messages that `from` has posted to `to`.
  std::uint64_t posted(std::uint32_t from, std::uint32_t to) const {
    return channel(from, to).tail.load(std::memory_order_acquire);
  }
  // Where message k of `from` to `to` lies or will lie: it is there when its `ready` is k + 1.
  // Null: there is no place yet. The place may change (the log wraps), so look it up again before
  // sleeping. *run: how many messages from k on are contiguous.
  ChannelEntry* message_place(std::uint32_t from, std::uint32_t to, std::uint64_t k,
                              std::uint64_t* run) const {
    return log_place<ChannelEntry>(base_, channel(from, to), k, run);
  }
  // All messages of `from` with a lower number have been received by `by`.
  OwnerWord<std::uint64_t>& consumed(std::uint32_t by, std::uint32_t from) const {
    return consumed_of(base_, by)[from];
  }

  std::uint64_t prepared(std::uint32_t world) const {
    return control(world).prepared.load(std::memory_order_acquire);
  }
  // The newest version that every rank has prepared: it is committed.
  std::uint64_t committed() const {
    return least([this](std::uint32_t r) { return prepared(r); });
  }
  // The newest version that no rank, dead or alive, ever goes back behind.
  std::uint64_t kept_by_all() const {
    return least(
        [this](std::uint32_t r) { return control(r).kept.load(std::memory_order_acquire); });
  }
  Version* version(std::uint32_t world, std::uint64_t number) const {
    return find_version(base_, world, number);
  }

  // False: the rank is in no operation, or its position changed meanwhile.
  bool position(std::uint32_t world, Position* p) const {
    const RankControl& they = control(world);
    // `ordinal` is written first and `phase` around all of it: the same before and after, all
    // agree.
    const std::uint64_t ordinal = they.ordinal.load(std::memory_order_acquire);
    const std::uint32_t moves = they.moves.load(std::memory_order_acquire);
    if ((moves & 1) != 0) return false;
    if (they.phase.load(std::memory_order_acquire) != Phase::kInside) return false;
    p->context = they.context.load(std::memory_order_acquire);
    p->sequence = they.sequence.load(std::memory_order_acquire);
    p->call = they.call.load(std::memory_order_acquire);
    p->prepared = they.prepared.load(std::memory_order_acquire);
    return they.phase.load(std::memory_order_acquire) == Phase::kInside &&
           they.ordinal.load(std::memory_order_acquire) == ordinal &&
           they.moves.load(std::memory_order_acquire) == moves;
  }

 private:
  RankControl& control(std::uint32_t world) const { return *control_of(base_, world); }
  Log& channel(std::uint32_t from, std::uint32_t to) const {
    return reinterpret_cast<Log*>(base_ + region_of(base_, from)->channels)[to];
  }
  template <class Word>
  std::uint64_t least(Word&& word) const {
    std::uint64_t all = ~std::uint64_t{0};
    for (std::uint32_t r = 0; r < header_->ranks; ++r) all = std::min(all, word(r));
    return all;
  }

  std::byte* base_;
  SegmentHeader* header_;
};

}  // namespace rejoin::journal
