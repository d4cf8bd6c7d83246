// Reads of other ranks' memory. This is the seam for several hosts: the words of a member on
// another host would be copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "journal/contexts.h"
#include "journal/division.h"
#include "journal/layout.h"
#include "journal/log.h"
#include "journal/not_kept.h"
#include "journal/pieces.h"

namespace rejoin::journal {

// A rank's diagnostics position, as it shows it; for reports and for finding disagreement.
struct Position {
  std::uint64_t context;
  std::uint64_t sequence;
  std::uint64_t prepared;  // its newest prepared version, read at this position
  std::uint32_t call;
};

// A message, as its sender posted it.
struct Message {
  std::uint64_t context;
  std::uint64_t key;   // as in ChannelEntry
  std::uint32_t call;  // as in Record
  std::uint32_t hash;  // of the payload
  std::uint64_t bytes;
  std::uint64_t value;    // as in Record
  std::uint64_t written;  // of the bytes, when this was read; 0: they are not kept
  std::uint32_t type;     // hash of the type signature; 0 = not compared
};

// What a rank gives to the other nodes in one operation.
struct Departed {
  std::uint64_t sequence;
  std::uint64_t value;  // as in Record
  std::uint64_t bytes;
  std::uint32_t call;         // as in Record
  std::uint32_t chain;        // as in Slot
  std::uint32_t fingerprint;  // of its own contribution
  Part part;
  Division division;
  std::uint32_t incarnation;  // that its rank was
};

// What a rank has said of one of its versions.
struct VersionFacts {
  bool can_be_imaged;
  VersionFault fault;
};

// The global model that a rank gave to a checkpoint. known: false if it has made later ones.
struct GivenModel {
  std::uint64_t bytes;
  std::uint64_t hash;
  bool known;
};

// Every read of another rank's memory outside of an attempted operation (AttemptMemory); low-water
// marks are read by the functions of contexts.h. `i` is a member's rank in its communicator,
// `world` its rank in the job. Nothing here blocks or writes, and everything is returned by value.
// Bytes stay valid for as long as the rank's marks have not passed what they belong to.
class PeerView {
 public:
  explicit PeerView(std::byte* base) : base_(base), header_(header_of(base)) {}
  template <class H>
  explicit PeerView(const H& host) : PeerView(host.base()) {}

  // Payload of `bytes` in some rank's region.
  std::span<const std::byte> payload(Offset at, std::uint64_t bytes) const {
    return {base_ + at, bytes};
  }
  // journal::for_each_piece() of a record's value, if is_in_pieces().
  template <class Take>
  void for_each_piece(std::uint64_t value, std::uint64_t bytes, Take&& take) const {
    journal::for_each_piece(base_, value, bytes, take);
  }
  std::uint32_t ranks() const { return header_->ranks; }
  // The node that a rank belongs to. Never changes.
  std::uint32_t node(std::uint32_t world) const { return control(world).node; }
  // Whether the ranks of different nodes share only messages. Never changes.
  bool nodes_apart() const { return header_->nodes_apart != 0; }
  // O(ranks).
  bool has_several_nodes() const {
    for (std::uint32_t r = 1; r < header_->ranks; ++r) {
      if (node(r) != node(0)) return true;
    }
    return false;
  }
  std::uint32_t epoch() const { return header_->epoch.load(); }
  std::uint32_t death_epoch(std::uint32_t world) const { return control(world).death_epoch.load(); }
  std::uint32_t incarnation(std::uint32_t world) const { return control(world).incarnation.load(); }

  // Records that member i has in a context: its position there.
  std::uint64_t tail(Members& m, std::uint32_t i) const {
    const ContextBlock* b = block_of(base_, m, i);
    return b == nullptr ? 0 : b->records.tail.load();
  }
  // REQUIRES that member i has that record.
  Record record(Members& m, std::uint32_t i, std::uint64_t sequence) const {
    return *log_at<Record>(base_, block_of(base_, m, i)->records, sequence);
  }

  // Departures of member i in a context whose nodes share only messages.
  std::uint64_t departed(Members& m, std::uint32_t i) const {
    const ContextBlock* b = block_of(base_, m, i);
    return b == nullptr ? 0 : departures(*b).tail.load();
  }
  // REQUIRES departed(m, i) > k. Nothing: it is truncated.
  std::optional<Departed> departure(Members& m, std::uint32_t i, std::uint64_t k) const {
    const Departure& d = *log_at<Departure>(base_, departures(*m.block[i]), k);
    if (d.ready.load() != k + 1) return std::nullopt;
    const auto get = [](const auto& word) { return word.load(std::memory_order_relaxed); };
    const Departed copy = {get(d.sequence),
                           get(d.value),
                           get(d.bytes),
                           get(d.call),
                           get(d.chain),
                           get(d.fingerprint),
                           static_cast<Part>(get(d.part)),
                           {get(d.element_bytes), get(d.readers)},
                           get(d.incarnation)};
    order_stores();  // and loads
    if (d.ready.load(std::memory_order_relaxed) != k + 1) return std::nullopt;
    return copy;
  }

  // `call` as in Record. Nothing: the rank has no such call (the word that named it was torn).
  std::optional<CallEntry> call(std::uint32_t world, std::uint32_t call) const {
    const CallEntry* e = call_at(world, call);
    return e == nullptr ? std::nullopt : std::optional(*e);
  }
  // Returns whether that is the hash of the call's signature.
  bool is_call(std::uint32_t world, std::uint32_t call, std::uint32_t signature_hash) const {
    const CallEntry* e = call_at(world, call);
    return e != nullptr && e->hash == signature_hash;
  }
  std::optional<ModuleEntry> module(std::uint32_t world, std::uint32_t index) const {
    Log& modules = region_of(base_, world)->modules;
    if (index >= modules.tail.load()) return std::nullopt;
    return *log_at<ModuleEntry>(base_, modules, index);
  }

  // Messages that `from` has posted to `to`.
  std::uint64_t posted(std::uint32_t from, std::uint32_t to) const {
    return channel(from, to).tail.load();
  }
  // REQUIRES that message k of `from` to `to` was posted and is not truncated.
  Message message(std::uint32_t from, std::uint32_t to, std::uint64_t k) const {
    return message_of(entry(from, to, k));
  }
  // Likewise. Those of its bytes that have come.
  Written written(std::uint32_t from, std::uint32_t to, std::uint64_t k) const {
    return Written::of(entry(from, to, k).written.load());
  }
  // Likewise. Where it lies in the segment, for a Loan.
  Offset place(std::uint32_t from, std::uint32_t to, std::uint64_t k) const {
    return static_cast<Offset>(reinterpret_cast<const std::byte*>(&entry(from, to, k)) - base_);
  }
  // The message whose bytes its receiver may read in the memory of its sender; 0: there is none.
  Offset opened(std::uint32_t from) const { return control(from).opened.what.load(); }
  // Where they are. They may be of several messages, unless opened() and `check` are the same
  // afterwards: the sender stores `check` behind the others, and the message last.
  OpenedBytes opened_bytes(std::uint32_t from) const {
    const Opened& o = control(from).opened;
    OpenedBytes found = {};
    found.check = o.check.load();
    found.at = o.at.load();
    found.process = o.process.load();
    found.check_at = o.check_at.load();
    return found;
  }
  std::uint64_t opened_check(std::uint32_t from) const { return control(from).opened.check.load(); }
  // Likewise. matched_by() the receive that `to` has given it to; 0: none yet.
  std::uint32_t matched(std::uint32_t from, std::uint32_t to, std::uint64_t k) const {
    return entry(from, to, k).matched.load();
  }
  // All messages of `from` with a lower number have been received by `by`.
  std::uint64_t consumed(std::uint32_t by, std::uint32_t from) const {
    return consumed_of(base_, by)[from].load();
  }

  // The kind of recovery point of the job. Never changes once it is not kUndecided.
  Return goes_back_to() const { return header_->goes_back_to.load(std::memory_order_acquire); }

  // Whether ranks may keep less than replays need, because the journal is full.
  bool recycles() const {
    return header_->recycles.load(std::memory_order_relaxed) != Recycles::kNot;
  }
  // REQUIRES recycles(). Whether that includes results.
  bool recycles_results() const {
    return header_->recycles.load(std::memory_order_relaxed) == Recycles::kAll;
  }
  // Whether recycles() is about to become true: every restarted rank has reported that the journal
  // is full, so the supervisor has nothing left to wait for.
  bool recycle_soon() const {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      const RankControl& they = control(r);
      if (they.incarnation.load(std::memory_order_relaxed) != 0 && they.told_full.load() == 0)
        return false;
    }
    return true;
  }
  // Whether a member may have made an unproven call. Only restarted ranks make any: before the
  // first death this costs one load.
  bool any_unproven(const Members& m) const {
    if (header_->epoch.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    for (std::uint32_t i = 0; i < m.size; ++i) {
      if (control(m.world[i]).unproven.load() != 0) return true;
    }
    return false;
  }
  // Whether any rank has marked its set-up.
  bool any_marks_set_up() const {
    for (std::uint32_t r = 0; r < header_->ranks; ++r) {
      if (control(r).marks_set_up.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
  }
  // Whether another thread of the rank than the one that called MPI_Init has called MPI since. Not
  // known of ranks whose nodes have another segment.
  bool calls_from_several_threads(std::uint32_t world) const {
    return control(world).several_threads_before.load() != 0;
  }
  // Memory that the rank's journal uses.
  std::uint64_t backed_bytes(std::uint32_t world) const {
    return control(world).backed_bytes.load(std::memory_order_relaxed);
  }
  // The rank's observation log (libc_recording/observation_log.h).
  LogView<std::byte> observations(std::uint32_t world) const {
    return {base_, region_of(base_, world)->observations};
  }

  std::uint64_t prepared(std::uint32_t world) const { return control(world).prepared.load(); }
  // The newest version that every rank has prepared: it is committed.
  std::uint64_t committed() const {
    return least([this](std::uint32_t r) { return prepared(r); });
  }
  // The newest version that no rank, dead or alive, ever goes back behind.
  std::uint64_t kept_by_all() const {
    return least([this](std::uint32_t r) { return control(r).kept.load(); });
  }
  // Nothing: the rank has no such version (any more).
  std::optional<VersionFacts> version(std::uint32_t world, std::uint64_t number) const {
    const Version* v = find_version(base_, world, number);
    if (v == nullptr) return std::nullopt;
    return VersionFacts{v->can_be_imaged != 0, v->fault};
  }
  // The global model of a version, which rank 0 stores; nothing: rank 0 does not have it.
  std::optional<std::span<const std::byte>> global_model(std::uint64_t version) const {
    const Version* v = find_version(base_, 0, version);
    if (v == nullptr) return std::nullopt;
    return payload(v->global.at, v->global.bytes);
  }
  // The global model of the version that the job begins with.
  std::span<const std::byte> first_global_model() const {
    const RegionHead* first = region_of(base_, 0);
    return payload(first->resume_global, first->resume_global_bytes);
  }
  // What rank 0 has announced.
  WrittenVersions written_versions() const {
    return WrittenVersions::of(control(0).written_versions.load());
  }
  // any: also if it is another version's (a rule of the simulator's).
  GivenModel given_model(std::uint32_t world, std::uint64_t version, bool any) const {
    const ModelHash& h = region_of(base_, world)->model_hash[version % kModelHashes];
    if (h.version.load() != version && !any) return {};
    GivenModel given = {h.bytes.load(std::memory_order_relaxed),
                        h.hash.load(std::memory_order_relaxed), true};
    order_stores();  // and loads
    if (h.version.load(std::memory_order_relaxed) != version && !any) given.known = false;
    return given;
  }

  // False: the rank is in no operation, or its position changed meanwhile.
  bool position(std::uint32_t world, Position* p) const {
    const RankControl& they = control(world);
    // `ordinal` is written first and `phase` around all of it: the same before and after, all
    // agree.
    const std::uint64_t ordinal = they.ordinal.load();
    const std::uint32_t moves = they.moves.load();
    if ((moves & 1) != 0) return false;
    if (they.phase.load() != Phase::kInside) return false;
    p->context = they.context.load();
    p->sequence = they.sequence.load();
    p->call = they.call.load();
    p->prepared = they.prepared.load();
    return they.phase.load() == Phase::kInside && they.ordinal.load() == ordinal &&
           they.moves.load() == moves;
  }

 private:
  friend class IncomingMessages;

  RankControl& control(std::uint32_t world) const { return *control_of(base_, world); }
  Log& channel(std::uint32_t from, std::uint32_t to) const {
    return reinterpret_cast<Log*>(base_ + region_of(base_, from)->channels)[to];
  }
  Log& departures(const ContextBlock& b) const {
    return *reinterpret_cast<Log*>(base_ + b.departures);
  }
  const ChannelEntry& entry(std::uint32_t from, std::uint32_t to, std::uint64_t k) const {
    return *log_at<ChannelEntry>(base_, channel(from, to), k);
  }
  static Message message_of(const ChannelEntry& e) {
    const Written written = Written::of(e.written.load());
    const std::uint64_t kept = written.are_kept ? written.bytes : 0;
    return {e.context, e.key, e.call, e.hash, e.bytes, e.value, kept, e.type};
  }
  const CallEntry* call_at(std::uint32_t world, std::uint32_t call) const {
    Log& calls = region_of(base_, world)->calls;
    const std::uint32_t index = call & kCallIndex;
    return index < calls.tail.load() ? log_at<CallEntry>(base_, calls, index) : nullptr;
  }
  template <class Word>
  std::uint64_t least(Word&& word) const {
    std::uint64_t all = ~std::uint64_t{0};
    for (std::uint32_t r = 0; r < header_->ranks; ++r) all = std::min(all, word(r));
    return all;
  }

  std::byte* base_;
  const SegmentHeader* header_;
};

// The messages of one sender to this rank, in the order of sending. The receiver polls the entry of
// the next message, not the channel's tail: a message costs it one cache line.
class IncomingMessages {
 public:
  IncomingMessages() = default;
  explicit IncomingMessages(std::uint64_t next) : next_(next) {}

  // The number of the next message.
  std::uint64_t next() const { return next_; }
  // Looks the place of the next message up again at the next look.
  void rebase() { place_ = nullptr; }

  // Returns whether message next() of `from` to `to` has come. thorough: also if its place has
  // changed, because the log wraps.
  bool look(const PeerView& peers, std::uint32_t from, std::uint32_t to, bool thorough) {
    if (thorough || place_ == nullptr) {
      place_ = log_place<ChannelEntry>(peers.base_, peers.channel(from, to), next_, &run_);
      if (place_ == nullptr) return false;
    }
    // The page of the next message may not be backed yet: then only the tail is safe to read.
    const bool begins_page = (reinterpret_cast<std::uintptr_t>(place_) & (kPageBytes - 1)) == 0;
    if (begins_page && peers.posted(from, to) <= next_) return false;
    return place_->ready.load() == next_ + 1;
  }
  // Returns that message, and goes on to the one behind it. REQUIRES that look() was true.
  Message take() {
    const Message m = PeerView::message_of(*place_);
    __builtin_prefetch(place_ + kAhead);
    place_ = --run_ == 0 ? nullptr : place_ + 1;
    ++next_;
    return m;
  }

 private:
  static constexpr std::uintptr_t kPageBytes = 4096;
  static constexpr std::size_t kAhead = 3;  // messages that a sender in front has written already
  std::uint64_t next_ = 0;
  const ChannelEntry* place_ = nullptr;
  std::uint64_t run_ = 0;  // how many from there on are contiguous
};

}  // namespace rejoin::journal
