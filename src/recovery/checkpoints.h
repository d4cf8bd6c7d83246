// The bodies of BasicRank: checkpoints, what is forgotten behind them, and operations that a restarted
// rank asks for again. PROTOCOL.md, "Checkpoints".
#pragma once

#include <cstdio>
#include <utility>

#include "engine/copy.h"
#include "recovery/basic_rank.h"

namespace rejoin::recovery {

// The newest version that every rank has prepared.
template <class Host>
std::uint64_t BasicRank<Host>::committed() const {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < header_->ranks; ++r) {
    least = std::min(least, engine::control_of(host_.base(), r)->prepared.load(std::memory_order_acquire));
  }
  return least;
}

// The newest version that no rank, dead or alive, will ever go back behind.
template <class Host>
std::uint64_t BasicRank<Host>::line() const {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < header_->ranks; ++r) {
    least = std::min(least, engine::control_of(host_.base(), r)->safe.load(std::memory_order_acquire));
  }
  return least;
}

template <class Host>
engine::Version* BasicRank<Host>::find_version(std::uint32_t rank, std::uint64_t number) {
  for (engine::Version& v : engine::region_of(host_.base(), rank)->version) {
    if (number != 0 && v.number.load(std::memory_order_acquire) == number) return &v;
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------- checkpoint

template <class Host>
Status BasicRank<Host>::checkpoint(Comm& world, const Call& call, const Models& m) {
  const std::uint64_t v = version_ + 1;
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    if (!c->late) continue;
    std::snprintf(error_, sizeof error_,
                  "checkpoint %llu: a communicator of %u ranks that was made after the first checkpoint is "
                  "still there, and a restarted rank would not have it; free it first, or make it before "
                  "the first checkpoint",
                  static_cast<unsigned long long>(v), c->members.size);
    return Status::kRefused;
  }
  ++ordinal_;
  kill_point(Moment::kBefore);
  meet_limit();
  const auto interned = calls_.intern(call);
  if (interned.call == CallTable<Host>::kNone) out_of_memory();
  Entered e = {};
  e.sequence = world.next_sequence;
  e.call = interned.call;
  e.signature_hash = interned.hash;
  show_position(world, e);
  const bool again = control_->prepared.load(std::memory_order_relaxed) >= v;
  if (again) {
    count_replayed();
  } else {
    if (!live_ && header_->ranks > 1) went_live();
    control_->phase.store(engine::Phase::kInside, std::memory_order_release);
    if (const Status s = prepare(v, m); s != Status::kOk) return s;
  }
  kill_point(Moment::kInside);
  const Status s = await_commit(world, e, v);
  if (s != Status::kOk) return s;
  version_ = v;
  catching_up_ = catching_up_ && again;
  if (find_version(rank(), v) != nullptr) {
    if (const Status same = compare_globals(v); same != Status::kOk) return same;
    host_.step(Step::kAcknowledge);
    control_->safe.store(v, std::memory_order_release);
    next_lazy_ = find_version(0, v)->next_lazy;
    forget_behind(v);
  }
  leave();
  return Status::kOk;
}

// Everything of mine that version v needs lies in the segment before this returns.
template <class Host>
Status BasicRank<Host>::prepare(std::uint64_t v, const Models& m) {
  if (load_called_) {
    if (const Status s = note_prefix(v); s != Status::kOk) return s;
    keep_version(v, m);
  }
  host_.step(Step::kPrepare);
  control_->prepared.store(v, std::memory_order_release);
  engine::ring_sleepers(host_, everybody_, header_->ranks);
  return Status::kOk;
}

// Before the first version: what lies between the load and here is the bootstrap cache.
template <class Host>
Status BasicRank<Host>::note_prefix(std::uint64_t v) {
  if (region_head_->prefixes.load(std::memory_order_relaxed) != 0) return Status::kOk;
  const std::uint64_t limit = header_->bootstrap_limit_bytes;
  const std::uint64_t bytes =
      control_->payload_bump.load(std::memory_order_relaxed) - payload_at_load_;
  if (limit != 0 && bytes > limit) {
    std::snprintf(error_, sizeof error_,
                  "checkpoint %llu: the operations between the load and the first checkpoint left rank %u "
                  "%llu bytes to keep for the life of the job, more than the %llu of --bootstrap-limit; make "
                  "the first checkpoint earlier or the limit larger",
                  static_cast<unsigned long long>(v), rank(), static_cast<unsigned long long>(bytes),
                  static_cast<unsigned long long>(limit));
    return Status::kRefused;
  }
  std::uint64_t count = 0;
  for (Comm* c = comms_; c != nullptr; c = c->next) ++count;
  const Offset at = region_.allocate_lasting(count * sizeof(engine::Prefix));
  if (at == 0) out_of_memory();
  auto* p = reinterpret_cast<engine::Prefix*>(host_.base() + at);
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    *p++ = {c->members.context, c->at_load, c->next_sequence};
  }
  region_head_->prefix = at;
  region_head_->prefixes.store(count, std::memory_order_release);
  return Status::kOk;
}

// Makes room in `buffer` for `bytes`; what was there is lost.
template <class Host>
std::byte* BasicRank<Host>::room_in(engine::Buffer& buffer, std::size_t bytes) {
  if (buffer.capacity < bytes) {
    buffer.capacity = 0;
    buffer.at = region_.allocate_model(bytes);
    if (buffer.at == 0) out_of_memory();
    buffer.capacity = bytes;
  }
  buffer.bytes = bytes;
  return host_.base() + buffer.at;
}

template <class Host>
void BasicRank<Host>::keep_version(std::uint64_t v, const Models& m) {
  engine::Version* slot = nullptr;
  const std::uint64_t needed_from = line();
  for (engine::Version& other : region_head_->version) {
    const std::uint64_t number = other.number.load(std::memory_order_relaxed);
    if (number == 0 || number < needed_from || number >= v) slot = &other;
  }
  if (slot == nullptr) diverged("more checkpoints are in use than can be: this is a defect of Rejoin");
  slot->number.store(0, std::memory_order_release);
  host_.step(Step::kModel);
  std::uint64_t contexts = 0;
  for (Comm* c = comms_; c != nullptr; c = c->next) ++contexts;
  const std::size_t words = 2 * std::size_t{header_->ranks};
  std::byte* to = room_in(slot->counters,
                          contexts * sizeof(engine::Counter) + words * sizeof(std::uint64_t));
  auto* counter = reinterpret_cast<engine::Counter*>(to);
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    *counter++ = {c->members.context, c->next_sequence, c->chain, 0};
  }
  std::memcpy(counter, sent_, words / 2 * sizeof *sent_);
  std::memcpy(reinterpret_cast<std::uint64_t*>(counter) + words / 2, received_,
              words / 2 * sizeof *received_);
  slot->contexts = contexts;
  slot->ordinal = ordinal_;
  slot->observations = region_head_->observations.tail.load(std::memory_order_relaxed);
  if (rank() == 0) keep_model(slot->global, m.global, m.global_bytes);
  keep_model(slot->local, m.local, m.local_bytes);
  slot->next_lazy = m.next_lazy;
  slot->global_bytes = m.global_bytes;
  slot->has_hash = m.compared;
  slot->global_hash = m.compared && m.global_bytes > 0 ? hash_bytes(m.global, m.global_bytes) : 0;
  host_.step(Step::kModel);
  slot->number.store(v, std::memory_order_release);
}

template <class Host>
void BasicRank<Host>::keep_model(engine::Buffer& buffer, const void* data, std::size_t bytes) {
  std::byte* to = room_in(buffer, bytes);
  if (bytes > 0) engine::copy_chunk(to, static_cast<const std::byte*>(data), bytes, bytes);
}

template <class Host>
Status BasicRank<Host>::await_commit(Comm& world, const Entered& e, std::uint64_t v) {
  std::uint32_t other = kNobody, other_call = kNobody;
  engine::wait_until(host_, [&](bool thorough) {
    host_.step(Step::kLook);
    if (committed() >= v) return true;
    if (thorough) other = disagreeing_member(world, e, &other_call);
    return other != kNobody;
  });
  if (other == kNobody) return Status::kOk;
  char mine[160], theirs[160];
  describe(mine, sizeof mine, rank(), e.call);
  describe(theirs, sizeof theirs, other, other_call);
  std::snprintf(error_, sizeof error_,
                "rank %u makes checkpoint %llu (%s) where rank %u calls %s: all ranks must make the same "
                "checkpoints at the same places",
                rank(), static_cast<unsigned long long>(v), mine, other, theirs);
  leave();
  return Status::kMismatch;
}

template <class Host>
Status BasicRank<Host>::compare_globals(std::uint64_t v) {
  const engine::Version* mine = find_version(rank(), v);
  const engine::Version* first = find_version(0, v);
  if (first == nullptr || mine == first || !mine->has_hash || !first->has_hash) return Status::kOk;
  if (mine->global_bytes == first->global_bytes && mine->global_hash == first->global_hash) {
    return Status::kOk;
  }
  std::snprintf(error_, sizeof error_,
                "checkpoint %llu: the global model of rank %u (%llu bytes) is not that of rank 0 (%llu "
                "bytes); what differs by rank belongs into the local model",
                static_cast<unsigned long long>(v), rank(),
                static_cast<unsigned long long>(mine->global_bytes),
                static_cast<unsigned long long>(first->global_bytes));
  leave();
  return Status::kMismatch;
}

// ---------------------------------------------------------------------------------------- forgetting

// I am past written version v. Whatever lies before the line is needed by nobody.
template <class Host>
void BasicRank<Host>::forget_behind(std::uint64_t v) {
  if (region_.recycling()) return;
  const std::uint64_t behind = line();
  if (region_head_->intervals_ended < v) {
    region_.start_zones();
    region_.end_interval(v, behind);
    region_head_->intervals_ended = v;
  }
  forget_records(behind);
}

// Records and messages below `behind`. What was set-up stays in any case.
template <class Host>
void BasicRank<Host>::forget_records(std::uint64_t behind) {
  engine::Version* mine = find_version(rank(), behind);
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    if (c->late) continue;
    const engine::Counter* then = mine == nullptr ? nullptr : counter_of(*mine, c->members.context);
    c->records.forget(then != nullptr ? then->sequence : prefix_end(c->members.context));
  }
  for (std::uint32_t to = 0; to < header_->ranks; ++to) {
    if (!channel_open_[to]) continue;
    // By the receiver's cursor, not by mine: a message may lie across the line.
    engine::Version* theirs = find_version(to, behind);
    if (theirs == nullptr) continue;
    channel_writer_[to].forget(received_of(*theirs)[rank()]);
  }
}

template <class Host>
const engine::Counter* BasicRank<Host>::counter_of(const engine::Version& v, std::uint64_t context) {
  const auto* c = reinterpret_cast<const engine::Counter*>(host_.base() + v.counters.at);
  for (std::uint64_t i = 0; i < v.contexts; ++i) {
    if (c[i].context == context) return &c[i];
  }
  return nullptr;
}

template <class Host>
const std::uint64_t* BasicRank<Host>::sent_of(const engine::Version& v) {
  return reinterpret_cast<const std::uint64_t*>(
      reinterpret_cast<const engine::Counter*>(host_.base() + v.counters.at) + v.contexts);
}
template <class Host>
const std::uint64_t* BasicRank<Host>::received_of(const engine::Version& v) {
  return sent_of(v) + header_->ranks;
}

template <class Host>
std::uint64_t BasicRank<Host>::prefix_end(std::uint64_t context) {
  const std::uint64_t count = region_head_->prefixes.load(std::memory_order_relaxed);
  const auto* p = reinterpret_cast<const engine::Prefix*>(host_.base() + region_head_->prefix);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (p[i].context == context) return p[i].end;
  }
  return 0;
}

// -------------------------------------------------------------------------------------------- load

template <class Host>
Status BasicRank<Host>::load(Loaded* loaded) {
  *loaded = {};
  if (load_called_ || version_ != 0) {
    std::snprintf(error_, sizeof error_, "%s",
                  load_called_ ? "a second load: a rank loads once, before its first checkpoint"
                               : "a load after a checkpoint: a rank loads once, before its first checkpoint");
    return Status::kRefused;
  }
  load_called_ = true;
  host_.step(Step::kLook);
  const std::uint64_t newest = committed();
  engine::Version* found = nullptr;
  for (engine::Version& v : region_head_->version) {
    const std::uint64_t number = v.number.load(std::memory_order_acquire);
    if (number == 0 || number > newest) continue;
    if (found == nullptr || number > found->number.load(std::memory_order_relaxed)) found = &v;
  }
  if (found == nullptr) {
    begin_bootstrap(loaded);
    return Status::kOk;
  }
  restore(*found);
  engine::Version* globals = find_version(0, version_);
  if (globals == nullptr) diverged("rank 0 lacks a checkpoint that is needed: this is a defect of Rejoin");
  next_lazy_ = globals->next_lazy;
  *loaded = {version_,
             host_.base() + globals->global.at,
             globals->global.bytes,
             host_.base() + found->local.at,
             found->local.bytes,
             found->observations,
             true};
  return Status::kOk;
}

// There is nothing to load but what a former job may have left.
template <class Host>
void BasicRank<Host>::begin_bootstrap(Loaded* loaded) {
  for (Comm* c = comms_; c != nullptr; c = c->next) c->at_load = c->next_sequence;
  payload_at_load_ = control_->payload_bump.load(std::memory_order_relaxed);
  if (header_->first_version == 0) return;
  version_ = header_->first_version;
  const engine::RegionHead* first = engine::region_of(host_.base(), 0);
  *loaded = {version_,
             host_.base() + first->resume_global,
             first->resume_global_bytes,
             host_.base() + region_head_->resume_local,
             region_head_->resume_local_bytes,
             0,
             false};
}

template <class Host>
void BasicRank<Host>::restore(engine::Version& v) {
  restored_ = &v;
  version_ = v.number.load(std::memory_order_relaxed);
  ordinal_ = v.ordinal;
  arm_kill();
  for (Comm* c = comms_; c != nullptr; c = c->next) restore(*c);
  std::memcpy(sent_, sent_of(v), header_->ranks * sizeof *sent_);
  std::memcpy(received_, received_of(v), header_->ranks * sizeof *received_);
  region_.start_zones();
  const std::uint64_t count = region_head_->prefixes.load(std::memory_order_relaxed);
  const auto* p = reinterpret_cast<const engine::Prefix*>(host_.base() + region_head_->prefix);
  std::size_t records = 1;
  for (std::uint64_t i = 0; i < count; ++i) records += p[i].end - p[i].begin;
  if (!bootstrap_.reserve(arena_, records)) out_of_memory();
  for (std::uint64_t i = 0; i < count; ++i) {
    engine::ContextBlock* block = engine::find_block(host_.base(), rank(), p[i].context);
    const std::uint64_t end = std::min(p[i].end, block->records.tail.load(std::memory_order_relaxed));
    for (std::uint64_t s = p[i].begin; s < end; ++s) {
      const std::uint32_t call = engine::log_at<Record>(host_.base(), block->records, s)->call;
      if ((call & engine::kFailed) == 0) bootstrap_.add({p[i].context, s, call, false});
    }
  }
  bootstrap_.sort();
}

// A communicator of a restored rank goes on where the version was made.
template <class Host>
void BasicRank<Host>::restore(Comm& c) {
  const engine::Counter* then = counter_of(*restored_, c.members.context);
  c.late = then == nullptr && c.members.size > 1;
  if (then == nullptr) return;
  c.next_sequence = then->sequence;
  c.chain = then->chain;
}

// ------------------------------------------------------------------------------ asked for once more

// Whether the operation that is about to be entered was set-up, and is to be answered by what it gave
// then. Fills e if so.
template <class Host>
bool BasicRank<Host>::is_asked_again(Comm& c, bool by_messages, Entered* e) {
  if (e->hint.bootstrap && by_messages && version_ > header_->first_version) {
    char now[160];
    describe(now, sizeof now, rank(), e->call);
    std::snprintf(error_, sizeof error_,
                  "%s: after the first checkpoint only operations that give every rank the same can be "
                  "marked as bootstrap (Barrier, Bcast, Allreduce, Allgather)", now);
    e->status = Status::kRefused;
    return true;
  }
  if (e->hint.bootstrap && !by_messages) return find_marked(c, e);
  if (restored_ == nullptr || c.members.size == 1) return false;
  Bootstrap::Entry* found = bootstrap_.find(c.members.context, e->call);
  if (found == nullptr || is_repeated(c, found->sequence)) return false;
  const bool has_record = c.records.tail() > c.next_sequence;
  if (has_record) {
    // All members asked and ran it together: that is its record.
    if ((c.records.at(c.next_sequence)->call & ~engine::kFailed) == e->call) return false;
  } else if (const Standing s = ask_members(c, found->sequence, *e); s != Standing::kElsewhere) {
    e->together = s == Standing::kAsksToo;
    return false;
  }
  found->used = true;
  e->sequence = found->sequence;
  e->record = c.records.at(found->sequence);
  e->asked_again = true;
  return true;
}

// Whether a member has executed its part of operation `sequence` once more after the first checkpoint: then
// it was none of the set-up.
template <class Host>
bool BasicRank<Host>::is_repeated(Comm& c, std::uint64_t sequence) {
  host_.step(Step::kAsk);
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    engine::CallEntry* call = call_at(c, i, sequence);
    if (call != nullptr && std::atomic_ref(call->again).load(std::memory_order_acquire) != 0) return true;
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

// The replay of an operation contributes other bytes than its record says: exactly those of an operation of
// the set-up that looks the same. So that is what the program asks for, through one wrapper function.
template <class Host>
void BasicRank<Host>::check_confusion(const Comm& c, const Entered& e, std::uint32_t fingerprint) {
  const Bootstrap::Entry* found =
      restored_ == nullptr ? nullptr : bootstrap_.find(c.members.context, e.call);
  if (found == nullptr || c.records.at(found->sequence)->fingerprint != fingerprint) return;
  char now[160], text[600];
  describe(now, sizeof now, rank(), e.call);
  std::snprintf(text, sizeof text,
                "rank %u, started again at checkpoint %llu, calls %s, which is both the next operation after "
                "that checkpoint and one of the set-up, called through the same place, and it contributes what "
                "it did in the set-up. Give the one of the set-up a key (rejoin_bootstrap), or tell the places "
                "apart (rejoin_call_site)",
                rank(), static_cast<unsigned long long>(version_), now);
  diverged(text);
}

// Nobody has executed the operation of the set-up again so far; perhaps because nobody has come so far.
// Waits until some member shows what comes next: kElsewhere, so I ask for the set-up again; kSame, so it is
// that operation, and I am a part of it.
template <class Host>
typename BasicRank<Host>::Standing BasicRank<Host>::ask_members(Comm& c, std::uint64_t then, const Entered& e) {
  show_position(c, e);
  control_->phase.store(engine::Phase::kAsking, std::memory_order_release);
  Standing decided = Standing::kUnknown;
  for (unsigned turn = 0; decided == Standing::kUnknown; ++turn) {
    if (!host_.poll(turn)) turn = 0;  // nobody rings for this: what is looked for is no publish
    host_.step(Step::kAsk);
    std::uint32_t asking = 0;
    for (std::uint32_t i = 0; i < c.members.size && decided == Standing::kUnknown; ++i) {
      if (i == c.members.rank) continue;
      const Standing s = standing_of(c, i, then, e.sequence);
      if (s == Standing::kAsksToo) ++asking;
      if (s == Standing::kSame || s == Standing::kElsewhere) decided = s;
    }
    // All were started again, and all call the same: they run it together.
    if (asking + 1 == c.members.size) decided = Standing::kAsksToo;
  }
  control_->phase.store(engine::Phase::kOutside, std::memory_order_release);
  return decided;
}

// Where member i stands, seen from my next operation of c, `next`; `then` is the one of the set-up.
template <class Host>
typename BasicRank<Host>::Standing BasicRank<Host>::standing_of(Comm& c, std::uint32_t i,
                                                                std::uint64_t then,
                                                                std::uint64_t next) {
  std::byte* base = host_.base();
  const engine::CallEntry* set_up = call_at(c, i, then);
  if (set_up == nullptr) return Standing::kUnknown;
  if (const engine::CallEntry* call = call_at(c, i, next)) {
    return call == set_up ? Standing::kSame : Standing::kElsewhere;
  }
  const std::uint32_t world = c.members.world[i];
  const engine::RankControl* they = engine::control_of(base, world);
  const std::uint64_t ordinal = they->ordinal.load(std::memory_order_acquire);
  const engine::Phase phase = they->phase.load(std::memory_order_acquire);
  if (they->initialized.load(std::memory_order_acquire) == 2) return Standing::kElsewhere;
  if (phase == engine::Phase::kOutside) return Standing::kUnknown;
  const std::uint64_t context = they->context.load(std::memory_order_acquire);
  const std::uint64_t sequence = they->sequence.load(std::memory_order_acquire);
  const std::uint32_t index = they->call.load(std::memory_order_acquire);
  const bool stable = they->phase.load(std::memory_order_acquire) == phase &&
                      they->ordinal.load(std::memory_order_acquire) == ordinal;
  if (!stable) return Standing::kUnknown;
  const engine::CallEntry* call =
      engine::log_at<engine::CallEntry>(base, engine::region_of(base, world)->calls, index);
  if (call->signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint)) {
    const bool ahead = they->prepared.load(std::memory_order_acquire) > version_;
    return ahead ? Standing::kElsewhere : Standing::kUnknown;
  }
  if (context == c.members.context && sequence == next) {
    if (phase == engine::Phase::kAsking) return Standing::kAsksToo;
    return call == set_up ? Standing::kSame : Standing::kElsewhere;
  }
  if (phase == engine::Phase::kAsking) return Standing::kUnknown;
  // It waits in another communicator that I belong to, for me.
  for (Comm* other = comms_; other != nullptr; other = other->next) {
    if (other->members.context == context && sequence >= other->next_sequence) {
      return Standing::kElsewhere;
    }
  }
  return Standing::kUnknown;
}

// ---------------------------------------------------------------------------------- marked operations

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
    std::snprintf(error_, sizeof error_,
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
    const auto* was = engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, m.record.call);
    const auto* is = engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, e->call);
    if (!(was->signature == is->signature)) {
      char then[160], now[160], text[512];
      describe(then, sizeof then, rank(), m.record.call);
      describe(now, sizeof now, rank(), e->call);
      std::snprintf(text, sizeof text, "rank %u asks with one bootstrap key for %s and before for %s",
                    rank(), now, then);
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
      std::snprintf(error_, sizeof error_,
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
