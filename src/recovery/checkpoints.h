// The bodies of BasicRank: checkpoints, and what is forgotten behind them. PROTOCOL.md,
// "Checkpoints".
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
    least = std::min(least,
                     engine::control_of(host_.base(), r)->prepared.load(std::memory_order_acquire));
  }
  return least;
}

// The newest version that no rank, dead or alive, will ever go back behind.
template <class Host>
std::uint64_t BasicRank<Host>::line() const {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < header_->ranks; ++r) {
    least =
        std::min(least, engine::control_of(host_.base(), r)->safe.load(std::memory_order_acquire));
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

// ----------------------------------------------------------------------------------------
// checkpoint

template <class Host>
Status BasicRank<Host>::checkpoint(Comm& world, const Call& call, const Models& m) {
  const std::uint64_t v = version_ + 1;
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    if (!c->late) continue;
    std::snprintf(
        error_, sizeof error_,
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
  control_->phase.store(engine::Phase::kInside, std::memory_order_release);
  if (again) {
    count_replayed();
  } else {
    if (!live_ && header_->ranks > 1) went_live();
    if (const Status s = prepare(v, m); s != Status::kOk) return s;
  }
  kill_point(Moment::kInside);
  const Status s = await_commit(world, e, v);
  if (s != Status::kOk) return s;
  version_ = v;
  past_set_up_ = load_called_;
  catching_up_ = catching_up_ && again;
  if (find_version(rank(), v) != nullptr) {
    if (const Status same = compare_globals(v); same != Status::kOk) return same;
    if (const Status same = compare_counters(v); same != Status::kOk) return same;
    host_.step(Step::kAcknowledge);
    control_->safe.store(v, std::memory_order_release);
    // It has none if it has not called load, as I have.
    if (const engine::Version* first = find_version(0, v)) next_lazy_ = first->next_lazy;
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
    std::snprintf(
        error_, sizeof error_,
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
    // A model that grows a little every time must not leave all its former places behind.
    const std::size_t room = std::max<std::size_t>(bytes, 2 * buffer.capacity);
    buffer.capacity = 0;
    buffer.at = region_.allocate_model(room);
    if (buffer.at == 0) out_of_memory();
    buffer.capacity = room;
  }
  buffer.bytes = bytes;
  return host_.base() + buffer.at;
}

template <class Host>
void BasicRank<Host>::keep_version(std::uint64_t v, const Models& m) {
  // The oldest that nobody needs: what a rank has loaded lasts until its second checkpoint. But
  // first of all what a former life has left of this very version.
  engine::Version* slot = nullptr;
  const std::uint64_t needed_from = line();
  std::uint64_t oldest = needed_from;
  for (engine::Version& other : region_head_->version) {
    const std::uint64_t number = other.number.load(std::memory_order_relaxed);
    if (number != v && number >= oldest && number != 0) continue;
    slot = &other;
    if (number == v) break;
    oldest = number;
  }
  if (slot == nullptr)
    diverged("more checkpoints are in use than can be: this is a defect of Rejoin");
  slot->number.store(0, std::memory_order_release);
  host_.step(Step::kModel);
  std::uint64_t contexts = 0;
  for (Comm* c = comms_; c != nullptr; c = c->next) ++contexts;
  const std::size_t words = 2 * std::size_t{header_->ranks};
  std::byte* to =
      room_in(slot->counters, contexts * sizeof(engine::Counter) + words * sizeof(std::uint64_t));
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

// A member that has a record of the operation behind checkpoint v, although it has not prepared it:
// it went past it without stopping, and may wait for nobody any more. kNobody: there is none.
template <class Host>
std::uint32_t BasicRank<Host>::passing_member(Comm& world, std::uint64_t sequence, std::uint64_t v,
                                              std::uint32_t* call) {
  for (std::uint32_t i = 0; i < world.members.size; ++i) {
    engine::ContextBlock* b = engine::block_of(host_.base(), world.members, i);
    if (b == nullptr || b->records.tail.load(std::memory_order_acquire) <= sequence) continue;
    const std::uint32_t r = world.members.world[i];
    if (engine::control_of(host_.base(), r)->prepared.load(std::memory_order_acquire) >= v)
      continue;
    *call = engine::log_at<Record>(host_.base(), b->records, sequence)->call & ~engine::kFailed;
    return r;
  }
  return kNobody;
}

template <class Host>
Status BasicRank<Host>::await_commit(Comm& world, const Entered& e, std::uint64_t v) {
  std::uint32_t other = kNobody, other_call = kNobody;
  engine::wait_until(host_, [&](bool thorough) {
    host_.step(Step::kLook);
    if (committed() >= v) return true;
    if (!thorough) return false;
    other = disagreeing_member(world, e, &other_call);
    if (other == kNobody) other = passing_member(world, e.sequence, v, &other_call);
    return other != kNobody;
  });
  if (other == kNobody) return Status::kOk;
  char mine[160], theirs[160];
  describe(mine, sizeof mine, rank(), e.call);
  describe(theirs, sizeof theirs, other, other_call);
  std::snprintf(
      error_, sizeof error_,
      "rank %u makes checkpoint %llu (%s) where rank %u calls %s: all ranks must make the same "
      "checkpoints at the same places",
      rank(), static_cast<unsigned long long>(v), mine, other, theirs);
  leave(Status::kMismatch);
  return Status::kMismatch;
}

// Every member of a communicator has done the same operations before the version: else one of them
// would be forgotten that another one still needs. Each compares with its neighbour, so a
// difference meets somebody.
template <class Host>
Status BasicRank<Host>::compare_counters(std::uint64_t v) {
  const engine::Version* mine = find_version(rank(), v);
  for (Comm* c = comms_; c != nullptr; c = c->next) {
    const std::uint32_t neighbour = c->members.world[(c->members.rank + 1) % c->members.size];
    const engine::Version* version = find_version(neighbour, v);
    const engine::Counter* theirs =
        version == nullptr ? nullptr : counter_of(*version, c->members.context);
    const engine::Counter* ours = counter_of(*mine, c->members.context);
    if (theirs == nullptr || ours == nullptr || ours->sequence == theirs->sequence) continue;
    if (version->number.load(std::memory_order_acquire) != v) continue;
    std::snprintf(
        error_, sizeof error_,
        "checkpoint %llu: of the operations of a communicator of %u ranks, rank %u has done %llu "
        "before it and rank %u %llu; all members must make the checkpoint at the same place",
        static_cast<unsigned long long>(v), c->members.size, rank(),
        static_cast<unsigned long long>(ours->sequence), neighbour,
        static_cast<unsigned long long>(theirs->sequence));
    leave(Status::kMismatch);
    return Status::kMismatch;
  }
  return Status::kOk;
}

template <class Host>
Status BasicRank<Host>::compare_globals(std::uint64_t v) {
  const engine::Version* mine = find_version(rank(), v);
  const engine::Version* first = find_version(0, v);
  if (first == nullptr || mine == first || !mine->has_hash || !first->has_hash) return Status::kOk;
  if (mine->global_bytes == first->global_bytes && mine->global_hash == first->global_hash) {
    return Status::kOk;
  }
  std::snprintf(
      error_, sizeof error_,
      "checkpoint %llu: the global model of rank %u (%llu bytes) is not that of rank 0 (%llu "
      "bytes); what differs by rank belongs into the local model",
      static_cast<unsigned long long>(v), rank(),
      static_cast<unsigned long long>(mine->global_bytes),
      static_cast<unsigned long long>(first->global_bytes));
  leave(Status::kMismatch);
  return Status::kMismatch;
}

// ----------------------------------------------------------------------------------------
// forgetting

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
  for (Comm* c = comms_; c != nullptr; c = c->next) forget_records(*c, behind);
  for (std::uint32_t to = 0; to < header_->ranks; ++to) {
    if (channel_open_[to]) forget_messages(to, behind);
  }
}

// Records of c below `behind`. What was set-up stays in any case.
template <class Host>
void BasicRank<Host>::forget_records(Comm& c, std::uint64_t behind) {
  if (c.late || behind == 0) return;
  engine::Version* mine = find_version(rank(), behind);
  const engine::Counter* then = mine == nullptr ? nullptr : counter_of(*mine, c.members.context);
  c.records.forget(then != nullptr ? then->sequence : prefix_end(c.members.context));
}

// By the receiver's cursor, not by mine: a message may lie across the line.
template <class Host>
void BasicRank<Host>::forget_messages(std::uint32_t to, std::uint64_t behind) {
  engine::Version* theirs = behind == 0 ? nullptr : find_version(to, behind);
  if (theirs == nullptr) return;
  const std::uint64_t received = received_of(*theirs)[rank()];
  // Only if it has not begun to overwrite that version meanwhile.
  engine::order_stores();  // and loads
  if (theirs->number.load(std::memory_order_relaxed) == behind)
    channel_writer_[to].forget(received);
}

template <class Host>
const engine::Counter* BasicRank<Host>::counter_of(const engine::Version& v,
                                                   std::uint64_t context) {
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
    std::snprintf(
        error_, sizeof error_, "%s",
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
  // A life that died before it said so must not hold back the line, again and again.
  if (control_->safe.load(std::memory_order_relaxed) < version_) {
    host_.step(Step::kAcknowledge);
    control_->safe.store(version_, std::memory_order_release);
  }
  engine::Version* globals = find_version(0, version_);
  if (globals == nullptr)
    diverged("rank 0 lacks a checkpoint that is needed: this is a defect of Rejoin");
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
  version_ = loaded_version_ = v.number.load(std::memory_order_relaxed);
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
    const std::uint64_t end =
        std::min(p[i].end, block->records.tail.load(std::memory_order_relaxed));
    for (std::uint64_t s = p[i].begin; s < end; ++s) {
      const std::uint32_t call = engine::log_at<Record>(host_.base(), block->records, s)->call;
      if ((call & engine::kFailed) == 0) bootstrap_.add({p[i].context, s, call, 0});
    }
  }
  bootstrap_.sort();
}

// A communicator of a restored rank goes on where the version was made. The slot itself is used
// again by later versions: by then, no communicator is made that was there.
template <class Host>
void BasicRank<Host>::restore(Comm& c) {
  const bool current = version_ == loaded_version_;
  const engine::Counter* then = current ? counter_of(*restored_, c.members.context) : nullptr;
  c.late = then == nullptr && c.members.size > 1;
  if (then == nullptr) return;
  c.next_sequence = then->sequence;
  c.chain = then->chain;
  forget_records(c, line());
}

}  // namespace rejoin::recovery
