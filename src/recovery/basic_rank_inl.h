// The bodies of BasicRank: uniform operations. Channel operations: operation.h.
#pragma once

#include <cstdio>

#include "engine/broadcast.h"
#include "recovery/basic_rank.h"

namespace rejoin::recovery {

inline bool is_bcast(const Call& call) {
  return call.signature.kind == static_cast<std::uint16_t>(OpKind::kBcast);
}

// What ends an attempt before it is complete: a newer generation, or a record of the operation at
// some member. Both are looked at in every wait, also while nobody has died: a member that was slow
// to commit may do so at any time (PROTOCOL.md, Must 7).
template <class Host>
struct BasicRank<Host>::Watch {
  BasicRank& rank;
  Comm& comm;
  const Entered& entered;
  std::uint32_t generation;
  std::uint32_t holder = kNobody;       // member that has a record
  std::uint32_t disagreeing = kNobody;  // member that is inside another operation
  std::uint32_t disagreeing_call = kNobody;

  bool over(bool thorough) {
    if (rank.header_->epoch.load(std::memory_order_acquire) != comm.epoch_seen &&
        rank.refresh_generation(comm) != generation) {
      return true;
    }
    if (!thorough) return false;
    holder = rank.find_record(comm, entered.sequence);
    if (holder != kNobody) return true;
    disagreeing = rank.disagreeing_member(comm, entered, &disagreeing_call);
    return disagreeing != kNobody;
  }
};

template <class Host>
BasicRank<Host>::BasicRank(Host& host, Arena& arena)
    : host_(host),
      arena_(arena),
      header_(engine::header_of(host.base())),
      control_(engine::control_of(host.base(), host.rank())),
      region_head_(engine::region_of(host.base(), host.rank())),
      region_(host),
      calls_((host.back(reinterpret_cast<std::byte*>(region_head_),
                        offsetof(engine::RegionHead, context_index)),
              host),
             region_, arena),
      incarnation_(control_->incarnation.load(std::memory_order_acquire)),
      catching_up_(incarnation_ > 0),
      scratch_(static_cast<std::byte*>(arena.allocate(engine::kStageBytes))),
      sent_(arena.make_array<std::uint64_t>(header_->ranks)),
      received_(arena.make_array<std::uint64_t>(header_->ranks)),
      channel_writer_(
          arena.make_array<engine::LogWriter<engine::ChannelEntry, Host>>(header_->ranks)),
      channel_open_(arena.make_array<bool>(header_->ranks)),
      everybody_(arena.make_array<std::uint32_t>(header_->ranks)),
      marked_(host, region_, region_head_->marked, true),
      log_(host) {
  for (std::uint32_t r = 0; r < header_->ranks; ++r) everybody_[r] = r;
  arm_kill();
}

// ------------------------------------------------------------------------------------
// communicators

template <class Host>
typename BasicRank<Host>::Comm* BasicRank<Host>::make_comm(std::uint64_t context,
                                                           const std::uint32_t* members,
                                                           std::uint32_t size) {
  std::byte* base = host_.base();
  engine::ContextBlock* block = engine::find_block(base, rank(), context);
  if (block == nullptr) {
    engine::ContextIndexEntry* entry = nullptr;
    for (std::uint32_t i = 0; i < engine::kMaxContexts && entry == nullptr; ++i) {
      auto& e = region_head_->context_index[(context + i) % engine::kMaxContexts];
      if (e.context.load(std::memory_order_relaxed) == 0) entry = &e;
    }
    const Offset at = entry == nullptr ? 0 : region_.allocate_lasting(sizeof(engine::ContextBlock));
    const Offset list = at == 0 ? 0 : region_.allocate_lasting(size * sizeof(std::uint32_t));
    if (list == 0) return nullptr;
    if (!region_.back(reinterpret_cast<std::byte*>(entry) - base, sizeof *entry)) return nullptr;
    block = reinterpret_cast<engine::ContextBlock*>(base + at);
    block->context = context;
    block->size = size;
    block->members = list;
    block->made_in = control_->context.load(std::memory_order_relaxed);
    block->made_at = newest_sequence_;
    for (std::uint32_t i = 0; i < size; ++i) {
      reinterpret_cast<std::uint32_t*>(base + list)[i] = members[i];
      if (members[i] == rank()) block->rank = i;
    }
    entry->block.store(at, std::memory_order_relaxed);
    host_.step(Step::kCommit);
    entry->context.store(context, std::memory_order_release);
  }
  Comm* c = arena_.template make<Comm>();
  if (c == nullptr) return nullptr;
  auto* world = arena_.template make_array<std::uint32_t>(size);
  auto* blocks = arena_.template make_array<engine::ContextBlock*>(size);
  if (world == nullptr || blocks == nullptr) return nullptr;
  std::memcpy(world, members, size * sizeof *world);
  blocks[block->rank] = block;
  c->members = {context, size, block->rank, world, block, blocks};
  c->records = engine::LogWriter<Record, Host>(host_, region_, block->records);
  refresh_generation(*c);
  c->next = comms_;
  comms_ = c;
  c->late = size > 1 && past_set_up_;
  if (restored_ != nullptr) restore(*c);
  return c;
}

template <class Host>
void BasicRank<Host>::free_comm(Comm* c) {
  Comm** link = &comms_;
  while (*link != c) link = &(*link)->next;
  *link = c->next;
  arena_.release(const_cast<std::uint32_t*>(c->members.world),
                 c->members.size * sizeof(std::uint32_t));
  arena_.release(c->members.block, c->members.size * sizeof(engine::ContextBlock*));
  arena_.destroy(c);
}

template <class Host>
std::uint32_t BasicRank<Host>::refresh_generation(Comm& c) {
  host_.step(Step::kGeneration);
  // The epoch first: a death published after it makes it differ again.
  c.epoch_seen = header_->epoch.load(std::memory_order_acquire);
  std::uint32_t g = 0;
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    const std::uint32_t d = engine::control_of(host_.base(), c.members.world[i])
                                ->death_epoch.load(std::memory_order_acquire);
    if (d > g) g = d;
  }
  return c.generation = g;
}

// ---------------------------------------------------------------------------------- in and out,
// kills

template <class Host>
typename BasicRank<Host>::Entered BasicRank<Host>::enter(Comm& c, const Call& call,
                                                         bool by_messages) {
  ++ordinal_;
  kill_point(Moment::kBefore);
  meet_limit();
  host_.step(Step::kEnter);
  const auto interned = intern(call);
  if (log_.wanted()) [[unlikely]]
    log_.begin(*calls_.entry(interned.call), replayed_);
  Entered e = {};
  e.sequence = c.next_sequence;
  e.call = interned.call;
  e.signature_hash = interned.hash;
  bool asked_again = false;
  if (hinted_ || restored_ != nullptr) {
    e.hint = std::exchange(hint_, {});
    hinted_ = false;
    asked_again = is_asked_again(c, by_messages, &e);
  }
  newest_sequence_ = e.sequence;
  if (asked_again) {
    count_replayed();
    return e;
  }
  c.chain = static_cast<std::uint32_t>(engine::mix(c.chain + (std::uint64_t{interned.hash} << 32)));
  ++c.next_sequence;
  // Of what a rank does alone nothing is recorded: a life that has loaded a version does its set-up
  // again, and is further on then than it was.
  const bool recorded = c.members.size > 1 && c.next_sequence <= c.records.tail();
  if (recorded) e.record = c.records.at(e.sequence);
  show_position(c, e);
  if (e.record != nullptr) {
    count_replayed();
  } else {
    if (!live_ && c.members.size > 1) went_live();
    // Alone, a rank does its set-up again itself.
    const bool iterates = version_ > header_->first_version && !e.together && c.members.size > 1;
    if (iterates) calls_.mark_again(e.call);
    control_->phase.store(engine::Phase::kInside, std::memory_order_release);
  }
  return e;
}

template <class Host>
void BasicRank<Host>::show_position(const Comm& c, const Entered& e) {
  control_->ordinal.store(ordinal_, std::memory_order_relaxed);
  control_->context.store(c.members.context, std::memory_order_relaxed);
  control_->sequence.store(e.sequence, std::memory_order_relaxed);
  control_->call.store(e.call, std::memory_order_release);
}

template <class Host>
void BasicRank<Host>::count_replayed() {
  ++replayed_;
  control_->replayed.store(replayed_, std::memory_order_relaxed);
}

template <class Host>
void BasicRank<Host>::meet_limit() {
  if (header_->limit_reached.load(std::memory_order_relaxed) == 0 || region_.recycling()) return;
  region_.start_recycling();
  host_.tell(wire::MessageType::kLimit, 0, 0, nullptr, 0);
}

template <class Host>
typename CallTable<Host>::Interned BasicRank<Host>::intern(const Call& call) {
  const auto interned = calls_.intern(call);
  if (interned.call == CallTable<Host>::kNone) out_of_memory();
  return interned;
}

template <class Host>
void BasicRank<Host>::leave(Status status) {
  control_->phase.store(engine::Phase::kOutside, std::memory_order_release);
  end_log(status);
  kill_point(Moment::kAfter);
}

template <class Host>
void BasicRank<Host>::went_live() {
  live_ = true;
  control_->live_since.store(ordinal_, std::memory_order_relaxed);
  if (incarnation_ == 0) return;
  host_.tell(wire::MessageType::kLive, static_cast<std::int32_t>(loaded_version_), replayed_,
             nullptr, 0);
}

template <class Host>
void BasicRank<Host>::arm_kill() {
  kill_ordinal_ = 0;
  for (std::uint32_t i = 0; i < header_->kills; ++i) {
    const engine::KillPoint& k = header_->kill[i];
    if (k.rank != rank() || k.life != incarnation_ || k.kind != PointKind::kOperation) continue;
    const bool next = k.ordinal > ordinal_ && (kill_ordinal_ == 0 || k.ordinal < kill_ordinal_);
    if (next) kill_ordinal_ = k.ordinal;
  }
}

template <class Host>
void BasicRank<Host>::maybe_die(PointKind kind, Moment moment) {
  for (std::uint32_t i = 0; i < header_->kills; ++i) {
    engine::KillPoint& k = header_->kill[i];
    if (k.rank != rank() || k.life != incarnation_ || k.kind != kind || k.moment != moment)
      continue;
    if (kind == PointKind::kOperation && k.ordinal != ordinal_) continue;
    k.fired.store(1, std::memory_order_seq_cst);
    host_.die();
  }
  if (kind == PointKind::kOperation && moment == Moment::kAfter) arm_kill();
}

template <class Host>
void BasicRank<Host>::point(PointKind kind, Moment moment) {
  maybe_die(kind, moment);
}

template <class Host>
void BasicRank<Host>::set_initialized(std::uint32_t state) {
  control_->initialized.store(state, std::memory_order_relaxed);
  host_.tell(state == 1 ? wire::MessageType::kInitialized : wire::MessageType::kFinalized, 0, 0,
             nullptr, 0);
}

template <class Host>
void BasicRank<Host>::diverged(const char* text) {
  host_.stop(text);
}

template <class Host>
void BasicRank<Host>::notice(const char* text) {
  host_.tell(wire::MessageType::kNotice, 0, 0, text, std::strlen(text));
}

template <class Host>
void BasicRank<Host>::out_of_memory() {
  host_.stop(
      "there is no more room for the journal: give the job more memory (or --journal-dir more "
      "space), or "
      "set --journal-limit below what there is");
}

// -------------------------------------------------------------------------------------------
// look-up

template <class Host>
std::uint32_t BasicRank<Host>::find_record(Comm& c, std::uint64_t sequence) {
  host_.step(Step::kLook);
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    engine::ContextBlock* b = engine::block_of(host_.base(), c.members, i);
    if (b != nullptr && b->records.tail.load(std::memory_order_acquire) > sequence) return i;
  }
  return kNobody;
}

template <class Host>
void BasicRank<Host>::check_replay(const Comm& c, const Entered& e, const Call& call,
                                   std::uint32_t fingerprint) {
  const Record& r = *e.record;
  const std::uint32_t recorded = r.call & ~engine::kFailed;
  if (recorded != e.call) {
    const engine::CallEntry* was =
        engine::log_at<engine::CallEntry>(host_.base(), region_head_->calls, recorded);
    if (!(was->signature == call.signature)) {
      char then[160], now[160], text[512];
      describe(then, sizeof then, rank(), recorded);
      describe(now, sizeof now, rank(), e.call);
      std::snprintf(
          text, sizeof text,
          "operation %llu of rank %u was %s; its replay asks for %s. The program does not "
          "do the same again when it receives the same; see docs/fault-model.md",
          static_cast<unsigned long long>(ordinal_), rank(), then, now);
      diverged(text);
    }
  }
  if ((r.call & engine::kFailed) || e.hint.prepare != nullptr) return;  // has no fingerprint
  if (r.fingerprint != fingerprint && (!warned_fingerprint_ || header_->stop_on_divergence)) {
    check_confusion(c, e, fingerprint);
    warned_fingerprint_ = true;
    char now[160], text[512];
    describe(now, sizeof now, rank(), e.call);
    std::snprintf(
        text, sizeof text,
        "operation %llu of rank %u, %s: the replay contributes other bytes than the first "
        "execution did; %s",
        static_cast<unsigned long long>(ordinal_), rank(), now,
        header_->stop_on_divergence
            ? "--on-divergence warn goes on with the recorded result; see docs/fault-model.md"
            : "it is given the recorded result (further differences are not shown)");
    if (header_->stop_on_divergence) diverged(text);
    notice(text);
  }
}

template <class Host>
const std::byte* BasicRank<Host>::open(Comm& c, std::uint64_t value, std::size_t bytes) {
  if (bytes > engine::kInlineBytes) return host_.base() + value;
  c.small_result = value;
  return reinterpret_cast<const std::byte*>(&c.small_result);
}

template <class Host>
Status BasicRank<Host>::replay(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                               const std::byte** result) {
  check_replay(c, e, call, u.input != nullptr ? hash_bytes(u.input, u.input_bytes) : 0);
  kill_point(Moment::kInside);
  const Record& r = *e.record;
  if (r.call & engine::kFailed) {
    std::snprintf(error_, sizeof error_, "the members disagree about this operation");
    return Status::kMismatch;
  }
  *result = open(c, r.value, u.result_bytes);
  return Status::kOk;
}

// Somebody has the outcome: it becomes mine.
template <class Host>
Status BasicRank<Host>::take(Comm& c, const Entered& e, std::uint32_t member,
                             std::uint32_t fingerprint, std::uint64_t* value) {
  const std::uint32_t world = c.members.world[member];
  const Record r =
      *engine::log_at<Record>(host_.base(), c.members.block[member]->records, e.sequence);
  const std::uint32_t call = r.call & ~engine::kFailed;
  const engine::CallEntry* theirs = engine::log_at<engine::CallEntry>(
      host_.base(), engine::region_of(host_.base(), world)->calls, call);
  if ((r.call & engine::kFailed) || theirs->hash != e.signature_hash) {
    return mismatch(c, e, member, call);
  }
  kill_point(Moment::kInside);
  *value = r.value;
  commit(c, e, fingerprint, r.value, false);
  return Status::kOk;
}

template <class Host>
void BasicRank<Host>::commit(Comm& c, const Entered& e, std::uint32_t fingerprint,
                             std::uint64_t value, bool failed) {
  Record* r = c.records.next();
  if (r == nullptr) out_of_memory();
  host_.step(Step::kRecord);
  *r = {e.call | (failed ? engine::kFailed : 0), fingerprint, value};
  host_.step(Step::kCommit);
  c.records.publish();
  engine::ring_sleepers(host_, c.members.world, c.members.size);
  catching_up_ = false;
}

// -----------------------------------------------------------------------------------------
// execution

template <class Host>
Status BasicRank<Host>::uniform(Comm& c, const Call& call, const Uniform& u,
                                const std::byte** result) {
  const Entered e = enter(c, call);
  Status status = e.status;
  if (status != Status::kOk) {
    leave(status);
    return status;
  }
  if (c.members.size == 1) {
    if (e.hint.prepare != nullptr) e.hint.prepare(e.hint.argument);
    kill_point(Moment::kInside);
    *result = static_cast<const std::byte*>(u.input);
  } else if (e.record != nullptr) {
    status = replay(c, e, call, u, result);
  } else {
    std::uint64_t value = 0;
    early_ = false;
    status = run(c, e, call, u, &value);
    if (status == Status::kOk) {
      *result = early_ ? static_cast<const std::byte*>(u.early) : open(c, value, u.result_bytes);
    }
  }
  if (e.key != 0 && status == Status::kOk && c.members.size > 1) {
    status = keep_marked(c, e, u.result_bytes);
  }
  const bool all_entered = c.members.size == header_->ranks && !is_bcast(call);
  if (all_entered && status == Status::kOk && region_.recycling()) recycle(c, e.sequence);
  leave(status);
  return status;
}

template <class Host>
Status BasicRank<Host>::run(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                            std::uint64_t* value) {
  const auto fingerprint = [&] {
    return u.input != nullptr ? hash_bytes(u.input, u.input_bytes) : 0;
  };
  if (catching_up_) {
    const std::uint32_t holder = find_record(c, e.sequence);
    if (holder != kNobody) {
      const Status s = take(c, e, holder, fingerprint(), value);
      catching_up_ = true;  // the next one may be there as well
      return s;
    }
  }
  if (e.hint.prepare != nullptr) e.hint.prepare(e.hint.argument);
  const std::uint32_t print = fingerprint();
  if (is_bcast(call)) {
    return run_bcast(c, e, call, u, print, value);
  }
  for (;;) {
    Watch watch{*this, c, e, refresh_generation(c)};
    bool complete = false;
    const Status s = run_attempt(c, e, u, watch, value, &complete);
    if (s != Status::kOk) return s;
    if (complete) {
      kill_point(Moment::kInside);
      commit(c, e, print, *value, false);
      return Status::kOk;
    }
    if (watch.disagreeing != kNobody) {
      return mismatch(c, e, watch.disagreeing, watch.disagreeing_call);
    }
    const std::uint32_t holder = find_record(c, e.sequence);
    if (holder != kNobody) return take(c, e, holder, print, value);
  }
}

template <class Host>
Status BasicRank<Host>::run_attempt(Comm& c, const Entered& e, const Uniform& u, Watch& watch,
                                    std::uint64_t* value, bool* complete) {
  using engine::Algorithm;
  engine::Attempt<Host, Watch> attempt(host_, c.members, e.sequence, watch.generation, c.chain,
                                       e.call, half_, scratch_, watch);
  const bool reduces = u.reduction != nullptr;
  const std::uint32_t n = c.members.size;
  const std::uint32_t leader = static_cast<std::uint32_t>(e.sequence % n);
  const bool leads = c.members.rank == leader;
  const Algorithm algorithm =
      engine::algorithm_for(n, reduces ? u.input_bytes : (u.result_bytes + n - 1) / n);
  const bool small = u.result_bytes <= engine::kInlineBytes;
  engine::AttemptEnd end;
  *value = 0;
  if (algorithm == Algorithm::kSliced) {
    // Every attempt takes a fresh extent: a record may already refer to the former one.
    const Offset mine = leads ? reserve(u.result_bytes) : 0;
    if (reduces) {
      const auto plan =
          engine::chunk_plan(n, u.result_bytes, u.reduction->element_bytes, engine::kStageBytes);
      end = attempt.reduce_sliced(static_cast<const std::byte*>(u.input), *u.reduction, plan,
                                  leader, mine, static_cast<std::byte*>(u.early), value);
    } else {
      const std::size_t at = u.blocks ? u.blocks[c.members.rank] : c.members.rank * u.input_bytes;
      end = attempt.gather_direct(u.input, at, u.input_bytes, leader, mine, value);
    }
  } else if (algorithm == Algorithm::kLeader && !leads) {
    end = attempt.follow(u.input, u.input_bytes);
  } else {
    if (!small) *value = allocate(u.result_bytes);
    void* out = small ? static_cast<void*>(value) : host_.base() + *value;
    end = reduces
              ? attempt.reduce_flat(u.input, u.input_bytes, *u.reduction, out)
              : attempt.gather_flat(u.input, u.input_bytes, u.blocks, static_cast<std::byte*>(out));
  }
  if (end == engine::AttemptEnd::kNoMemory) out_of_memory();
  *complete = end == engine::AttemptEnd::kComplete;
  early_ = *complete && reduces && algorithm == Algorithm::kSliced && u.early != nullptr;
  if (end == engine::AttemptEnd::kMismatch) {
    return mismatch(c, e, attempt.disagreeing(), attempt.disagreeing_call());
  }
  return Status::kOk;
}

// The root's published record is the broadcast: payload, then record. The root never waits.
template <class Host>
Status BasicRank<Host>::run_bcast(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                                  std::uint32_t print, std::uint64_t* value) {
  const auto root = static_cast<std::uint32_t>(call.signature.root);
  if (c.members.rank == root) {
    if (region_.recycling()) {
      await_readers(c, e.sequence, engine::kReadersWithin);
      // Who has a record of an operation may still be reading its bytes; who has one of the next,
      // not.
      const bool past_recycling =
          recycled_in_ == 0 || (recycled_in_ == c.members.context && e.sequence > recycled_at_ + 1);
      if (past_recycling && !region_.has_room(u.result_bytes)) {
        await_readers(c, e.sequence, 1);
        recycle(c, e.sequence);
      }
    }
    if (u.result_bytes < engine::kPipelinedBytes) {
      host_.step(Step::kPayload);
      *value = store(u.input, u.result_bytes);
    } else {
      *value = reserve(u.result_bytes);
      engine::Broadcast<Host> broadcast(host_, c.members, e.sequence, u.result_bytes);
      if (!broadcast.pour(u.input, *value)) out_of_memory();
    }
    kill_point(Moment::kInside);
    commit(c, e, print, *value, false);
    return Status::kOk;
  }
  if (c.root_seen != root) {
    c.root_seen = root;
    c.root_tail = 0;
  }
  if (c.root_tail > e.sequence) return take(c, e, root, print, value);
  std::uint32_t holder = kNobody, other = kNobody, other_call = kNobody;
  const auto over = [&](bool thorough) {
    host_.step(Step::kLook);
    engine::ContextBlock* b = engine::block_of(host_.base(), c.members, root);
    if (b != nullptr) c.root_tail = b->records.tail.load(std::memory_order_acquire);
    if (c.root_tail > e.sequence) {
      holder = root;
    } else if (thorough) {
      holder = find_record(c, e.sequence);
      if (holder == kNobody) other = disagreeing_member(c, e, &other_call);
    }
    return holder != kNobody || other != kNobody;
  };
  Offset poured = 0;
  if (u.early != nullptr && u.result_bytes >= engine::kPipelinedBytes) {
    engine::Broadcast<Host> broadcast(host_, c.members, e.sequence, u.result_bytes);
    poured = broadcast.drink(root, static_cast<std::byte*>(u.early), over);
  }
  engine::wait_until(host_, over);
  if (holder == kNobody) return mismatch(c, e, other, other_call);
  const Status s = take(c, e, holder, print, value);
  early_ = s == Status::kOk && poured != 0 && poured == *value;
  return s;
}

template <class Host>
void BasicRank<Host>::recycle(const Comm& c, std::uint64_t sequence) {
  recycled_in_ = c.members.context;
  recycled_at_ = sequence;
  region_.recycle();
}

// The root of a broadcast waits for nobody - but beyond the journal limit records that go round
// must have been read, and memory too: waits until no member lacks `distance` operations before
// this one.
template <class Host>
void BasicRank<Host>::await_readers(Comm& c, std::uint64_t sequence, std::uint64_t distance) {
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    engine::wait_until(host_, [&](bool) {
      host_.step(Step::kLook);
      engine::ContextBlock* b = engine::block_of(host_.base(), c.members, i);
      return b != nullptr && b->records.tail.load(std::memory_order_acquire) + distance > sequence;
    });
  }
}

template <class Host>
std::uint64_t BasicRank<Host>::store(const void* data, std::size_t bytes) {
  std::uint64_t value = 0;
  if (bytes <= engine::kInlineBytes) {
    if (bytes > 0) std::memcpy(&value, data, bytes);
    return value;
  }
  value = allocate(bytes);
  std::memcpy(host_.base() + value, data, bytes);
  return value;
}

template <class Host>
Offset BasicRank<Host>::allocate(std::size_t bytes) {
  const Offset at = region_.allocate(bytes);
  if (at == 0) out_of_memory();
  return at;
}

template <class Host>
Offset BasicRank<Host>::reserve(std::size_t bytes) {
  const Offset at = region_.reserve(bytes);
  if (at == 0) out_of_memory();
  return at;
}

// --------------------------------------------------------------------------------------
// disagreement

// A member that stands inside another operation at this very sequence number of this context; *call
// is that operation's.
template <class Host>
std::uint32_t BasicRank<Host>::disagreeing_member(Comm& c, const Entered& e,
                                                  std::uint32_t* call_there) {
  for (std::uint32_t i = 0; i < c.members.size; ++i) {
    if (i == c.members.rank) continue;
    const std::uint32_t world = c.members.world[i];
    const engine::RankControl* they = engine::control_of(host_.base(), world);
    // `ordinal` is written first and `phase` around all of it: the same before and after, all
    // agree.
    const std::uint64_t ordinal = they->ordinal.load(std::memory_order_acquire);
    if (they->phase.load(std::memory_order_acquire) != engine::Phase::kInside) continue;
    const bool here = they->context.load(std::memory_order_acquire) == c.members.context &&
                      they->sequence.load(std::memory_order_acquire) == e.sequence;
    const std::uint32_t call = they->call.load(std::memory_order_acquire);
    const std::uint64_t prepared = they->prepared.load(std::memory_order_acquire);
    if (!here || they->phase.load(std::memory_order_acquire) != engine::Phase::kInside ||
        they->ordinal.load(std::memory_order_acquire) != ordinal) {
      continue;
    }
    const engine::CallEntry* theirs = engine::log_at<engine::CallEntry>(
        host_.base(), engine::region_of(host_.base(), world)->calls, call);
    if (theirs->hash == e.signature_hash) continue;
    // Who has prepared a checkpoint may go on before the others have come out of it.
    const bool at_checkpoint =
        theirs->signature.kind == static_cast<std::uint16_t>(OpKind::kCheckpoint);
    if (at_checkpoint ? prepared <= version_ : prepared > version_) continue;
    *call_there = call;
    return i;
  }
  return kNobody;
}

// Records the failure, so that members that come later, and replays, see it too.
template <class Host>
Status BasicRank<Host>::mismatch(Comm& c, const Entered& e, std::uint32_t member,
                                 std::uint32_t member_call) {
  const std::uint32_t world = c.members.world[member];
  std::uint32_t my_call = e.call;
  const bool earlier = find_earlier_mismatch(c, e, member, &my_call, &member_call);
  char mine[160], theirs[160];
  describe(mine, sizeof mine, rank(), my_call);
  describe(theirs, sizeof theirs, world, member_call);
  std::snprintf(
      error_, sizeof error_,
      "%srank %u calls %s where rank %u calls %s: all members of a communicator must make "
      "the same collective calls in the same order",
      earlier ? "in an earlier operation, " : "", rank(), mine, world, theirs);
  kill_point(Moment::kInside);
  commit(c, e, 0, 0, true);
  return Status::kMismatch;
}

// A broadcast's root waits for nobody: two roots are found out only in the next operation, by
// `chain`. If the calls themselves agree, names the newest pair before them that does not.
template <class Host>
bool BasicRank<Host>::find_earlier_mismatch(Comm& c, const Entered& e, std::uint32_t member,
                                            std::uint32_t* my_call, std::uint32_t* member_call) {
  constexpr std::uint64_t kFar = 1000;
  std::byte* base = host_.base();
  engine::ContextBlock* theirs = engine::block_of(base, c.members, member);
  engine::Log& their_calls = engine::region_of(base, c.members.world[member])->calls;
  const auto hash = [&](engine::Log& calls, std::uint32_t call) {
    const std::uint64_t tail = calls.tail.load(std::memory_order_acquire);
    return call < tail ? engine::log_at<engine::CallEntry>(base, calls, call)->hash : 0;
  };
  if (theirs == nullptr || hash(their_calls, *member_call) != e.signature_hash) return false;
  const std::uint64_t tail = theirs->records.tail.load(std::memory_order_acquire);
  std::uint64_t s = tail < e.sequence ? tail : e.sequence;
  for (const std::uint64_t stop = s > kFar ? s - kFar : 0; s-- > stop;) {
    const std::uint32_t a = c.records.at(s)->call & ~engine::kFailed;
    const std::uint32_t b =
        engine::log_at<Record>(base, theirs->records, s)->call & ~engine::kFailed;
    if (hash(region_head_->calls, a) == hash(their_calls, b)) continue;
    *my_call = a;
    *member_call = b;
    return true;
  }
  return false;
}

template <class Host>
void BasicRank<Host>::describe(char* text, std::size_t size, std::uint32_t world_rank,
                               std::uint32_t call) {
  engine::RegionHead* region = engine::region_of(host_.base(), world_rank);
  if (call >= region->calls.tail.load(std::memory_order_acquire)) {
    std::snprintf(text, size, "(unknown)");
    return;
  }
  const engine::CallEntry e = *engine::log_at<engine::CallEntry>(host_.base(), region->calls, call);
  char root[24] = "";
  if (e.signature.root >= 0) std::snprintf(root, sizeof root, ", root %d", e.signature.root);
  std::snprintf(text, size, "MPI_%s of %llu bytes%s at {%u:%u:%llx}",
                name_of(static_cast<OpKind>(e.signature.kind)),
                static_cast<unsigned long long>(e.signature.bytes), root, world_rank, e.module,
                static_cast<unsigned long long>(e.place));
}

}  // namespace rejoin::recovery
