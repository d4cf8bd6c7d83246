// The bodies of BasicRank: operations of the set-up that a restarted rank asks for again.
// PROTOCOL.md, "Checkpoints", "Asked again".
#pragma once

#include <algorithm>
#include <cstdio>

#include "recovery/basic_rank.h"

namespace rejoin::recovery {

// Whether the operation that is about to be entered was set-up, and is to be answered by what it
// gave then. Fills e if so.
template <class Host>
bool BasicRank<Host>::is_asked_again(Comm& c, bool by_messages, Entered* e) {
  if (e->hint.bootstrap && by_messages && version_ > header_->first_version) {
    char now[160];
    describe(now, sizeof now, rank(), e->call);
    std::snprintf(
        error_, sizeof error_,
        "%s: after the first checkpoint only operations that give every rank the same can be "
        "marked as bootstrap (Barrier, Bcast, Allreduce, Allgather)",
        now);
    e->status = Status::kRefused;
    return true;
  }
  if (e->hint.bootstrap && !by_messages) return find_marked(c, e);
  if (restored_ == nullptr || c.members.size == 1) return false;
  Bootstrap::Entry* found = bootstrap_.find(c.members.context, e->call);
  if (found == nullptr) return false;
  const bool needed = has_made_what_lasts(c, found->sequence);
  if (!needed && is_repeated(c, found->sequence)) return false;
  const bool has_record = c.records.tail() > c.next_sequence;
  if (needed) {
    // Also if all members ask: another communicator would not be the one that they had at the
    // checkpoint.
  } else if (has_record) {
    // All members asked and ran it together: that is its record.
    if ((c.records.at(c.next_sequence)->call & ~engine::kFailed) == e->call) return false;
  } else if (const Standing s = ask_members(c, found->sequence, *e); s != Standing::kElsewhere) {
    // Whoever came to it first among those that were all started again is inside it already, but
    // does not say that it is one of the iterations.
    e->together = s == Standing::kAsksToo || !is_repeated(c, found->sequence);
    return false;
  }
  bootstrap_.use(c.members.context, e->call);
  e->sequence = found->sequence;
  e->record = c.records.at(found->sequence);
  e->asked_again = true;
  return true;
}

// Whether operation `sequence` of c has made a communicator that I had at the version where I went
// on. Whoever asks for it again wants that one.
template <class Host>
bool BasicRank<Host>::has_made_what_lasts(Comm& c, std::uint64_t sequence) {
  const std::uint32_t call = c.records.at(sequence)->call;
  const auto kind = static_cast<OpKind>(
      engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, call)->signature.kind);
  const bool creates =
      kind == OpKind::kCommDup || kind == OpKind::kCommSplit || kind == OpKind::kCommCreate;
  if (!creates || version_ != loaded_version_) return false;
  const auto* counter =
      reinterpret_cast<const engine::Counter*>(host_.base() + restored_->counters.at);
  for (std::uint64_t i = 0; i < restored_->contexts; ++i) {
    const engine::ContextBlock* made = engine::find_block(host_.base(), rank(), counter[i].context);
    if (made->made_in == c.members.context && made->made_at == sequence) return true;
  }
  return false;
}

// Whether a member has executed its part of operation `sequence` once more after the first
// checkpoint: then it was none of the set-up.
template <class Host>
bool BasicRank<Host>::is_repeated(Comm& c, std::uint64_t sequence) {
  host_.step(Step::kAsk);
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    engine::CallEntry* call = call_at(c, i, sequence);
    if (call != nullptr && std::atomic_ref(call->again).load(std::memory_order_acquire) != 0)
      return true;
  }
  return false;
}

// Member i's call of operation `sequence` of c, by its record. nullptr: it has none.
template <class Host>
engine::CallEntry* BasicRank<Host>::call_at(Comm& c, std::uint32_t i, std::uint64_t sequence) {
  engine::ContextBlock* b = engine::block_of(host_.base(), c.members, i);
  if (b == nullptr || b->records.tail.load(std::memory_order_acquire) <= sequence) return nullptr;
  const std::uint32_t call = engine::log_at<Record>(host_.base(), b->records, sequence)->call;
  engine::RegionHead* region = engine::region_of(host_.base(), c.members.world[i]);
  return engine::log_at<engine::CallEntry>(host_.base(), region->calls, call & ~engine::kFailed);
}

// The replay of an operation contributes other bytes than its record says: exactly those of an
// operation of the set-up that looks the same. So that is what the program asks for, through one
// wrapper function.
template <class Host>
void BasicRank<Host>::check_confusion(const Comm& c, const Entered& e, std::uint32_t fingerprint) {
  const Bootstrap::Entry* found =
      restored_ == nullptr ? nullptr : bootstrap_.find(c.members.context, e.call);
  if (found == nullptr || c.records.at(found->sequence)->fingerprint != fingerprint) return;
  char now[160], text[600];
  describe(now, sizeof now, rank(), e.call);
  std::snprintf(
      text, sizeof text,
      "rank %u, started again at checkpoint %llu, calls %s, which is both the next operation after "
      "that checkpoint and one of the set-up, called through the same place, and it contributes "
      "what "
      "it did in the set-up. Give the one of the set-up a key (rejoin_bootstrap), or tell the "
      "places "
      "apart (rejoin_call_site)",
      rank(), static_cast<unsigned long long>(version_), now);
  diverged(text);
}

// Nobody has executed the operation of the set-up again so far; perhaps because nobody has come so
// far. Waits until some member shows what comes next: kElsewhere, so I ask for the set-up again;
// kSame, so it is that operation, and I am a part of it.
template <class Host>
typename BasicRank<Host>::Standing BasicRank<Host>::ask_members(Comm& c, std::uint64_t then,
                                                                const Entered& e) {
  // Who knows it from its own history does not ask: when all ask, nobody knows anything else.
  const Standing own = history_of(c, c.members.rank, then, e.sequence);
  if (own != Standing::kUnknown) return own;
  show_position(c, e);
  control_->asked.store(then, std::memory_order_relaxed);
  control_->asked_version.store(version_, std::memory_order_relaxed);
  control_->phase.store(engine::Phase::kAsking, std::memory_order_release);
  bool* seen = arena_.template make_array<bool>(header_->ranks);
  if (seen == nullptr) out_of_memory();
  Standing decided = Standing::kUnknown;
  for (unsigned turn = 0; decided == Standing::kUnknown; ++turn) {
    if (!host_.poll(turn)) turn = 0;  // nobody rings for this: what is looked for is no publish
    host_.step(Step::kAsk);
    std::uint32_t asking = 0;
    for (std::uint32_t i = 0; i < c.members.size && decided == Standing::kUnknown; ++i) {
      if (i == c.members.rank) continue;
      Standing s = history_of(c, i, then, e.sequence);
      if (s == Standing::kUnknown) {
        std::fill(seen, seen + header_->ranks, false);
        s = standing_of(c, i, then, e.sequence, seen);
        // It may have come past it between the two looks.
        const Standing past =
            s == Standing::kElsewhere ? history_of(c, i, then, e.sequence) : Standing::kUnknown;
        if (past != Standing::kUnknown) s = past;
      }
      if (s == Standing::kAsksToo) ++asking;
      if (s == Standing::kSame || s == Standing::kElsewhere) decided = s;
    }
    // All were started again, and all call the same: they run it together.
    if (decided == Standing::kUnknown && asking + 1 == c.members.size) decided = Standing::kAsksToo;
  }
  arena_.release(seen, header_->ranks * sizeof *seen);
  control_->phase.store(engine::Phase::kOutside, std::memory_order_release);
  return decided;
}

// What member i, or I myself, has done in this or a former life, seen from my next operation of c,
// `next`; `then` is the one of the set-up.
template <class Host>
typename BasicRank<Host>::Standing BasicRank<Host>::history_of(Comm& c, std::uint32_t i,
                                                               std::uint64_t then,
                                                               std::uint64_t next) {
  const std::uint32_t world = c.members.world[i];
  const engine::RankControl* they = engine::control_of(host_.base(), world);
  // What lies behind the operation is looked for first, the operation itself then.
  const bool further =
      they->prepared.load(std::memory_order_acquire) > version_ || is_further(c, world);
  const engine::CallEntry* set_up = call_at(c, i, then);
  if (set_up == nullptr) return Standing::kUnknown;
  if (const engine::CallEntry* call = call_at(c, i, next)) {
    return call == set_up ? Standing::kSame : Standing::kElsewhere;
  }
  // It came to the next checkpoint, or to an operation that is still before me, without it.
  if (further) return Standing::kElsewhere;
  // A life that died inside an operation may have left messages of it.
  const Died died = died_in(world);
  if (died.context != c.members.context || died.sequence != next) return Standing::kUnknown;
  return died.call == set_up ? Standing::kSame : Standing::kElsewhere;
}

// The operation that the newest such life of rank `world` died inside; not a checkpoint.
template <class Host>
typename BasicRank<Host>::Died BasicRank<Host>::died_in(std::uint32_t world) {
  std::byte* base = host_.base();
  const engine::RankControl* they = engine::control_of(base, world);
  const std::uint64_t context = they->died_context.load(std::memory_order_acquire);
  const std::uint64_t sequence = they->died_sequence.load(std::memory_order_acquire);
  const std::uint32_t index = they->died_call.load(std::memory_order_acquire);
  if (context == 0 || they->died_context.load(std::memory_order_acquire) != context) return {};
  const engine::CallEntry* call =
      engine::log_at<engine::CallEntry>(base, engine::region_of(base, world)->calls, index);
  if (call->signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint)) return {};
  return {context, sequence, call};
}

// Whether rank `world`, in this or a former life, was in an operation that is still before me, and
// is not the next one of c. If it is I myself, messages of mine tell it, too.
template <class Host>
bool BasicRank<Host>::is_further(const Comm& c, std::uint32_t world) {
  std::byte* base = host_.base();
  for (Comm* mine = comms_; mine != nullptr; mine = mine->next) {
    const engine::ContextBlock* theirs =
        mine == &c || mine->members.size == 1
            ? nullptr
            : engine::find_block(base, world, mine->members.context);
    if (theirs == nullptr) continue;
    if (theirs->records.tail.load(std::memory_order_acquire) > mine->next_sequence) return true;
    const Died died = died_in(world);
    if (died.context == mine->members.context && died.sequence >= mine->next_sequence) return true;
  }
  if (world != rank()) return false;
  auto* channels = reinterpret_cast<engine::Log*>(base + region_head_->channels);
  for (std::uint32_t to = 0; to < header_->ranks; ++to) {
    if (channels[to].tail.load(std::memory_order_relaxed) <= sent_[to]) continue;
    const auto* e = engine::log_at<engine::ChannelEntry>(base, channels[to], sent_[to]);
    if (e->context != c.members.context || e->sequence != c.next_sequence) return true;
  }
  return false;
}

// Where member i stands, if its history says nothing.
template <class Host>
typename BasicRank<Host>::Standing BasicRank<Host>::standing_of(Comm& c, std::uint32_t i,
                                                                std::uint64_t then,
                                                                std::uint64_t next, bool* seen) {
  std::byte* base = host_.base();
  const engine::CallEntry* set_up = call_at(c, i, then);
  if (set_up == nullptr) return Standing::kUnknown;
  const std::uint32_t world = c.members.world[i];
  const engine::RankControl* they = engine::control_of(base, world);
  const std::uint64_t ordinal = they->ordinal.load(std::memory_order_acquire);
  const engine::Phase phase = they->phase.load(std::memory_order_acquire);
  if (they->initialized.load(std::memory_order_acquire) == 2) return Standing::kElsewhere;
  if (phase == engine::Phase::kOutside) return Standing::kUnknown;
  const std::uint64_t context = they->context.load(std::memory_order_acquire);
  const std::uint64_t sequence = they->sequence.load(std::memory_order_acquire);
  const std::uint32_t index = they->call.load(std::memory_order_acquire);
  const std::uint64_t asked = they->asked.load(std::memory_order_acquire);
  const std::uint64_t asked_version = they->asked_version.load(std::memory_order_acquire);
  const bool stable = they->phase.load(std::memory_order_acquire) == phase &&
                      they->ordinal.load(std::memory_order_acquire) == ordinal;
  if (!stable) return Standing::kUnknown;
  const engine::CallEntry* call =
      engine::log_at<engine::CallEntry>(base, engine::region_of(base, world)->calls, index);
  // One that I have behind me, or before it is prepared.
  if (call->signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint))
    return Standing::kUnknown;
  if (context == c.members.context && sequence == next) {
    if (phase == engine::Phase::kAsking) {
      if (asked == then && asked_version == version_) return Standing::kAsksToo;
      // It is past what I ask for, and still has this operation of c before it.
      const bool ahead = asked_version > version_ || (asked_version == version_ && asked > then);
      return ahead ? Standing::kElsewhere : Standing::kUnknown;
    }
    return call == set_up ? Standing::kSame : Standing::kElsewhere;
  }
  return waits_for_me(world, context, sequence, seen) ? Standing::kElsewhere : Standing::kUnknown;
}

// Whether rank `world`, which stands inside operation `sequence` of another communicator, comes out
// of it only when I have been there: I am a member, or somebody else it waits for does not come
// without me. All of that lies before my next operation of c, then. `seen`: ranks that were looked
// at.
template <class Host>
bool BasicRank<Host>::waits_for_me(std::uint32_t world, std::uint64_t context,
                                   std::uint64_t sequence, bool* seen) {
  for (Comm* mine = comms_; mine != nullptr; mine = mine->next) {
    if (mine->members.context == context) return sequence >= mine->next_sequence;
  }
  std::byte* base = host_.base();
  const engine::ContextBlock* block = engine::find_block(base, world, context);
  seen[world] = true;
  if (block == nullptr) return false;
  const auto* members = reinterpret_cast<const std::uint32_t*>(base + block->members);
  for (std::uint32_t i = 0; i < block->size; ++i) {
    if (members[i] == rank()) {  // of one that I have yet to make, or have freed
      const engine::ContextBlock* mine = engine::find_block(base, rank(), context);
      if (mine == nullptr || mine->records.tail.load(std::memory_order_relaxed) <= sequence)
        return true;
    }
    if (seen[members[i]] || members[i] == rank()) continue;
    const engine::RankControl* they = engine::control_of(base, members[i]);
    const std::uint64_t ordinal = they->ordinal.load(std::memory_order_acquire);
    const engine::Phase phase = they->phase.load(std::memory_order_acquire);
    if (phase == engine::Phase::kOutside) continue;
    const std::uint64_t there = they->context.load(std::memory_order_acquire);
    const std::uint64_t at = they->sequence.load(std::memory_order_acquire);
    const std::uint32_t index = they->call.load(std::memory_order_acquire);
    if (they->phase.load(std::memory_order_acquire) != phase ||
        they->ordinal.load(std::memory_order_acquire) != ordinal || there == context) {
      continue;
    }
    const auto* call =
        engine::log_at<engine::CallEntry>(base, engine::region_of(base, members[i])->calls, index);
    // In a checkpoint that I have behind me it waits for nobody.
    if (call->signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint) &&
        they->prepared.load(std::memory_order_acquire) <= version_) {
      continue;
    }
    const engine::ContextBlock* theirs = engine::find_block(base, members[i], context);
    const bool behind =
        theirs == nullptr || theirs->records.tail.load(std::memory_order_acquire) <= sequence;
    if (behind && waits_for_me(members[i], there, at, seen)) return true;
  }
  return false;
}

// ---------------------------------------------------------------------------------- marked
// operations

template <class Host>
bool BasicRank<Host>::find_marked(Comm& c, Entered* e) {
  std::uint64_t key = e->hint.key;
  if (key == 0) {  // by call site, and how often it was used
    const std::uint64_t site = engine::mix(engine::mix(c.members.context) + e->call) | 1;
    std::uint64_t used = 0;
    while (is_used(key = engine::mix(site + used * 2) | 1)) ++used;
  } else if (is_used(key)) {
    char now[160];
    describe(now, sizeof now, rank(), e->call);
    std::snprintf(
        error_, sizeof error_,
        "%s: its bootstrap key was used for an operation before; each needs a key of its own", now);
    e->status = Status::kRefused;
    return true;
  }
  note_used(key);
  e->key = key;
  for (std::uint64_t i = 0; i < marked_.tail(); ++i) {
    const engine::Marked& m = *marked_.at(i);
    if (m.key != key) continue;
    e->key = 0;
    // Ahead of where I am: the operation itself comes, in its turn.
    if (m.context != c.members.context || m.sequence >= c.next_sequence) return false;
    const auto* was =
        engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, m.record.call);
    const auto* is = engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, e->call);
    if (!(was->signature == is->signature)) {
      char then[160], now[160], text[512];
      describe(then, sizeof then, rank(), m.record.call);
      describe(now, sizeof now, rank(), e->call);
      std::snprintf(text, sizeof text,
                    "rank %u asks with one bootstrap key for %s and before for %s", rank(), now,
                    then);
      diverged(text);
    }
    e->sequence = m.sequence;
    e->record = &m.record;
    e->asked_again = true;
    return true;
  }
  return false;
}

template <class Host>
bool BasicRank<Host>::is_used(std::uint64_t key) const {
  return std::find(used_keys_, used_keys_ + used_count_, key) != used_keys_ + used_count_;
}

template <class Host>
void BasicRank<Host>::note_used(std::uint64_t key) {
  if (used_count_ == used_room_) {
    const std::size_t room = std::max<std::size_t>(64, 2 * used_room_);
    auto* moved = arena_.template make_array<std::uint64_t>(room);
    if (moved == nullptr) out_of_memory();
    std::copy(used_keys_, used_keys_ + used_count_, moved);
    arena_.release(used_keys_, used_room_ * sizeof *used_keys_);
    used_keys_ = moved;
    used_room_ = room;
  }
  used_keys_[used_count_++] = key;
}

// The operation is over: keeps its outcome under its key, for later lives.
template <class Host>
Status BasicRank<Host>::keep_marked(Comm& c, const Entered& e, std::size_t result_bytes) {
  Record r = *c.records.at(e.sequence);
  if (result_bytes > engine::kInlineBytes) {
    const std::uint64_t kept = region_head_->marked_bytes + result_bytes;
    if (header_->bootstrap_limit_bytes != 0 && kept > header_->bootstrap_limit_bytes) {
      std::snprintf(
          error_, sizeof error_,
          "the results of operations marked as bootstrap need %llu bytes, more than the %llu of "
          "--bootstrap-limit",
          static_cast<unsigned long long>(kept),
          static_cast<unsigned long long>(header_->bootstrap_limit_bytes));
      return Status::kRefused;
    }
    const Offset at = region_.allocate_model(result_bytes);
    if (at == 0) out_of_memory();
    region_head_->marked_bytes = kept;
    std::memcpy(host_.base() + at, host_.base() + r.value, result_bytes);
    r.value = at;
  }
  engine::Marked* m = marked_.next();
  if (m == nullptr) out_of_memory();
  *m = {e.key, c.members.context, e.sequence, r};
  host_.step(Step::kCommit);
  marked_.publish();
  return Status::kOk;
}

}  // namespace rejoin::recovery
