// What src/pmpi calls: a rank, which applies the rule of recovery (entry.h) to every operation.
//
// BasicRank is written over a Host (journal/host.h): the real one maps a segment and sleeps on
// futexes, the simulated one yields to a scheduler at every publish. One thread at a time may be
// inside a rank; under MPI_THREAD_MULTIPLE the real host changes threads while one of them waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "recovery/channel_op.h"
#include "recovery/checkpointer.h"
#include "recovery/point_to_point.h"
#include "recovery/replicated_op.h"
#include "recovery/rooms.h"
#include "recovery/snapshots.h"

namespace rejoin::recovery {

template <engine::Host H>
class BasicRank {
 public:
  using Comm = recovery::Comm<H>;
  using ReplicatedOp = recovery::ReplicatedOp<H>;
  using ChannelOp = recovery::ChannelOp<H>;

  // `arena` is the rank's private memory; both must outlive the rank.
  BasicRank(H& host, journal::Arena& arena)
      : rooms_(host, arena),
        operations_(rooms_),
        messages_(operations_),
        checkpointer_(operations_, messages_),
        snapshots_(rooms_, messages_) {}
  BasicRank(const BasicRank&) = delete;
  BasicRank& operator=(const BasicRank&) = delete;

  std::uint32_t rank() const { return rooms_.host.rank(); }
  std::uint32_t size() const { return rooms_.header->ranks; }
  std::uint32_t incarnation() const { return rooms_.incarnation; }
  H& host() const { return rooms_.host; }
  journal::Arena& arena() { return rooms_.arena; }
  journal::RankControl& control() const { return *rooms_.control; }
  journal::Region<H>& region() { return rooms_.journal.region(); }
  const journal::PeerView& peers() const { return rooms_.peers; }
  journal::Log& observation_log() { return region().head()->observations; }

  // --- Communicators

  // Makes a communicator of the world ranks members[0..size), this rank among them. Local.
  // `context` comes from journal::derive_context; making the same context again in a new
  // incarnation finds its records. nullptr: memory is used up.
  Comm* make_comm(std::uint64_t context, const std::uint32_t* members, std::uint32_t size) {
    const bool permanent = !rooms_.past_first_checkpoint() && rooms_.loaded_version == 0 &&
                           rooms_.goes_back_to() != journal::Return::kImages;
    Comm* c = rooms_.comms.make(context, members, size, permanent);
    if (c == nullptr) return nullptr;
    checkpointer_.adopt(*c);
    rooms_.mail.adopt(*c);
    return c;
  }
  // Drops the private state; records and position stay for the others.
  void free_comm(Comm* comm) { rooms_.comms.free(comm, rooms_.progress.ordinal); }

  // --- Operations

  // Runs or replays one replicated-result operation. Blocks until every member has entered (Bcast:
  // the root waits only for readers that are far behind). The result is valid until the next
  // operation of this rank.
  Outcome replicated(Comm& comm, const Call& call, const ReplicatedSpec& spec) {
    Outcome outcome;
    ReplicatedOp op(operations_, comm, call, spec, &outcome);
    wait_for(op, [&](bool thorough) { return op.advance(thorough); });
    return outcome;
  }

  // Runs or replays a collective whose members get different bytes: `algorithm` is one of
  // engine/collectives.h. input: this rank's contribution, for the fingerprint only. Blocks until
  // its messages are sent and received.
  template <class Algorithm>
  Outcome channel(Comm& comm, const Call& call, const void* input, std::size_t input_bytes,
                  Algorithm&& algorithm) {
    ChannelOp op(operations_, comm, call, input, input_bytes);
    wait_for(op, [&](bool thorough) {
      return op.advance(thorough, [&] { return algorithm.advance(op); });
    });
    return op.outcome();
  }

  // Waits for an operation that was just entered; advance(thorough) is its own. Advances everything
  // else meanwhile: nonblocking operations, and messages that posted receives wait for.
  template <class Op, class Advance>
  [[gnu::always_inline]] void wait_for(Op& op, Advance&& advance) {
    if (rooms_.outstanding.any()) [[unlikely]]
      rooms_.await(op.standing());
    engine::wait_until(rooms_.host, [&](bool thorough) {
      rooms_.advance_outstanding(thorough);
      if (advance(thorough) != Progress::kPending) return true;
      if (thorough) rooms_.mail.poll_all(true);
      return false;
    });
  }

  // Starts a nonblocking operation that has just been entered (`op` holds a ReplicatedOp or
  // ChannelOp): it goes on as far as it can, and from now on whenever this rank waits for anything
  // or asks. The call that entered it is over then, the operation perhaps not; the call that
  // completes it closes it (PointToPoint::close).
  void start(Nonblocking& op) {
    messages_.open();
    rooms_.outstanding.start(op, !engine::breaks(rooms_.host, Rule::kSendOnEntering));
    rooms_.faults.point(rooms_.progress.ordinal, Moment::kInside);
    rooms_.leave(Status::kOk);
  }

  // --- Messages between two ranks

  PointToPoint<H>& messages() { return messages_; }

  // Used by callers that advance operations themselves.
  Operations<H>& operations() { return operations_; }

  // --- Checkpoints

  Status load(Loaded* loaded) { return checkpointer_.load(loaded); }
  Status checkpoint(Comm& world, const Call& call, const Models& models) {
    return checkpointer_.checkpoint(world, call, models);
  }
  // Whether this process has used a bootstrap key for an operation.
  bool is_bootstrap_key_used(std::uint64_t key) const { return operations_.bootstrap.is_used(key); }
  // Whether all ranks meet at lazy checkpoint `version`; else it is only a number.
  bool is_written(std::uint64_t version) const { return checkpointer_.is_written(version); }
  void pass_checkpoint(Comm& world, const Call& call) { checkpointer_.pass(world, call); }
  // Whether the caller's models are copied at the next checkpoint, if it is written.
  bool keeps_models() const { return checkpointer_.keeps_models(); }
  // How long it took to copy them the last time, in ns.
  std::uint64_t copy_ns() const { return checkpointer_.copy_ns(); }
  // Whether a process may begin at the next checkpoint.
  bool may_begin_at_version() const {
    return has_loaded() && rooms_.goes_back_to() != journal::Return::kImages;
  }
  bool in_job_of_images() const { return rooms_.goes_back_to() == journal::Return::kImages; }
  // The program marks its set-up, so calls that it has not marked are no set-up.
  void note_marks() { rooms_.control->marks_set_up.store(rooms_.host, Step::kFlag, 1); }
  std::uint64_t version() const { return rooms_.progress.version; }
  // The version that this incarnation has loaded from the journal; 0: none.
  std::uint64_t loaded_version() const { return rooms_.loaded_version; }
  std::uint64_t observations_mark() const { return checkpointer_.observations_mark(); }
  // Whether a former incarnation has prepared the next version already.
  bool is_prepared() const {
    return rooms_.control->prepared.load(std::memory_order_relaxed) > version();
  }
  bool has_loaded() const { return rooms_.progress.load_called; }
  bool is_replaying() const { return rooms_.incarnation > 0 && !rooms_.progress.live; }

  // --- Init and Finalize

  // Fault injection at MPI_Init and MPI_Finalize.
  void point(PointKind kind, Moment moment) { rooms_.faults.point(kind, moment); }
  // 1 = after Init, 2 = after Finalize.
  void set_initialized(std::uint32_t state) {
    if (state == 2) rooms_.before_anything_new(kEnd);
    rooms_.control->initialized.store(rooms_.host, Step::kPosition, state);
    if (state == 1) {
      rooms_.host.tell(wire::MessageType::kInitialized, 0, 0, nullptr, 0);
    } else {
      rooms_.tell_with_replay(wire::MessageType::kFinalized, 0);
    }
  }

  // --- How long the replay takes

  // The caller measures MPI calls by it, until this rank is live.
  ReplayClock& replay_clock() { return rooms_.replay_clock; }

  // --- Diagnostics

  // Text of the newest failure, with call sites as in wire/messages.h.
  const char* last_error() const { return rooms_.diagnostics.error(); }
  // The site of `call` as such texts name it; empty: no memory for it.
  void put_site(const Call& call, char* to, std::size_t bytes) {
    std::uint32_t module = 0;
    std::uint64_t place = 0;
    to[0] = '\0';
    if (!rooms_.calls.locate(call, &module, &place)) return;
    std::snprintf(to, bytes, "{%u:%u:%llx}", rooms_.host.rank(), module,
                  static_cast<unsigned long long>(place));
  }
  // Copies a text with such call sites for a reader that cannot resolve them: see
  // copy_with_sites().
  void copy_text(const char* text, char* to, std::size_t bytes) const {
    copy_with_sites(rooms_.peers, text, to, bytes);
  }
  // --log-ops. Operations log by themselves, checkpoints their end only, load() nothing.
  void begin_log(const Call& call) {
    if (!rooms_.log.wanted()) [[likely]]
      return;
    rooms_.log.begin(*rooms_.calls.entry(rooms_.calls.intern(call).call), rooms_.progress.replayed);
  }
  void end_log(Status status) {
    if (rooms_.log.wanted()) [[unlikely]]
      rooms_.log.end(status, version(), rooms_.progress.replayed);
  }
  OperationLog<H>& log() { return rooms_.log; }
  // Ends the job: the replay asks for something else than the first execution did.
  [[noreturn]] void diverged(const char* text) {
    rooms_.host.stop(text);
    __builtin_unreachable();
  }
  // One line for the user; the caller bounds how often.
  void notice(const char* text) { rooms_.notice(text); }
  void notice_once(const char* subject, const char* text) { rooms_.notice_once(subject, text); }

  // Reads every cached cursor of the segment again.
  void rebase() {
    messages_.outcomes().rebase();
    rooms_.rebase();
  }

 private:
  mutable Rooms<H> rooms_;
  Operations<H> operations_;
  PointToPoint<H> messages_;
  Checkpointer<H> checkpointer_;
  Snapshots<H> snapshots_;
};

}  // namespace rejoin::recovery
