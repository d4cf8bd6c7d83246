// What src/pmpi calls: a rank, which applies the rule of recovery (operations.h) to every
// operation.
//
// BasicRank is written over a Host (journal/host.h): the real one maps a segment and sleeps on
// futexes, the simulated one yields to a scheduler at every publish. One thread at a time may be
// inside a rank; under MPI_THREAD_MULTIPLE the real host changes threads while one of them waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "recovery/channel_op.h"
#include "recovery/checkpointer.h"
#include "recovery/point_to_point.h"
#include "recovery/replicated_op.h"
#include "recovery/snapshots.h"
#include "recovery/taking.h"
#include "recovery/waits.h"

namespace rejoin::recovery {

template <journal::Host H>
class BasicRank final : private Woken {
 public:
  using Comm = recovery::Comm<H>;
  using ReplicatedOp = recovery::ReplicatedOp<H>;
  using ChannelOp = recovery::ChannelOp<H>;

  // `arena` is the rank's private memory; both must outlive the rank.
  BasicRank(H& host, journal::Arena& arena)
      : host_(host),
        arena_(arena),
        peers_(host),
        journal_(host),
        calls_(host, journal_.region(), arena),
        diagnostics_(peers_),
        divergence_(host),
        execution_(host, journal_, calls_),
        taking_(host),
        comms_(host, arena, peers_, journal_),
        inbox_(host, arena, peers_, journal_, comms_, taking_, diagnostics_, divergence_),
        outbox_(host, arena, peers_, journal_, comms_, execution_, diagnostics_, divergence_),
        outcomes_(host, journal_.region()),
        repetition_(host, journal_, comms_, inbox_, outbox_, execution_, diagnostics_, divergence_),
        waits_(host, repetition_, taking_),
        bootstrap_(host, arena, journal_, peers_, calls_, comms_, execution_, diagnostics_),
        operations_(host, arena, journal_, peers_, calls_, comms_, execution_, repetition_, taking_,
                    bootstrap_, diagnostics_, divergence_),
        messages_(host, arena, peers_, execution_, inbox_, outbox_, outcomes_, repetition_, taking_,
                  waits_, diagnostics_),
        cursors_(host, journal_, comms_, inbox_, outbox_, outcomes_),
        truncation_(host, journal_, peers_, comms_, outbox_),
        checkpointer_(operations_, messages_, inbox_, outbox_, outcomes_, cursors_, truncation_,
                      waits_, divergence_),
        snapshots_(host, journal_, peers_, execution_, inbox_, outcomes_, repetition_, taking_,
                   cursors_, truncation_, *this) {}
  BasicRank(const BasicRank&) = delete;
  BasicRank& operator=(const BasicRank&) = delete;

  std::uint32_t rank() const { return host_.rank(); }
  std::uint32_t size() const { return peers_.ranks(); }
  std::uint32_t incarnation() const { return execution_.incarnation(); }
  H& host() const { return host_; }
  journal::Arena& arena() { return arena_; }
  journal::RankControl& control() const { return *journal::own_control(host_); }
  journal::Region<H>& region() { return journal_.region(); }
  const journal::PeerView& peers() const { return peers_; }
  journal::Log& observation_log() { return region().head()->observations; }

  // --- Communicators

  // Makes a communicator of the world ranks members[0..size), this rank among them. Local.
  // `context` comes from journal::derive_context; making the same context again in a new
  // incarnation finds its records. nullptr: memory is used up.
  Comm* make_comm(std::uint64_t context, const std::uint32_t* members, std::uint32_t size) {
    const bool permanent = !execution_.past_first_checkpoint() &&
                           execution_.loaded_version() == 0 &&
                           peers_.goes_back_to() != journal::Return::kImages;
    Comm* c = comms_.make(context, members, size, permanent);
    if (c == nullptr) return nullptr;
    checkpointer_.adopt(*c);
    inbox_.adopt(*c);
    return c;
  }
  // Drops the private state; records and position stay for the others.
  void free_comm(Comm* comm) { comms_.free(comm, execution_.ordinal()); }

  // --- Operations

  // Runs or replays one replicated-result operation. Blocks until every member has entered (Bcast:
  // the root waits only for readers that are far behind). The result is valid until the next
  // operation of this rank.
  Outcome replicated(Comm& comm, const Call& call, const ReplicatedSpec& spec) {
    Outcome outcome;
    const auto run = [&](auto&& op) {
      wait_for(op, [&](bool thorough) { return op.advance(thorough); });
    };
    const bool broadcast = is_broadcast(call.signature);
    if (comm.span != nullptr) [[unlikely]] {
      if (broadcast) {
        run(BroadcastOp<H, true>(operations_, comm, call, spec, &outcome));
      } else {
        run(AttemptedOp<H, true>(operations_, comm, call, spec, &outcome));
      }
    } else if (broadcast) {
      run(BroadcastOp<H>(operations_, comm, call, spec, &outcome));
    } else {
      run(AttemptedOp<H>(operations_, comm, call, spec, &outcome));
    }
    return outcome;
  }

  // Runs or replays a collective whose members get different bytes: `algorithm` is one of
  // engine/collectives.h. input: this rank's contribution, for the fingerprint only. Blocks until
  // its messages are sent and received.
  template <class Algorithm>
  Outcome channel(Comm& comm, const Call& call, const void* input, std::size_t input_bytes,
                  Algorithm&& algorithm) {
    ChannelOp op(operations_, inbox_, outbox_, comm, call, input, input_bytes);
    wait_for(op, [&](bool thorough) {
      return op.advance(thorough, [&] { return algorithm.advance(op); });
    });
    return op.outcome();
  }

  // Waits for an operation that was just entered; advance(thorough) is its own. Advances everything
  // else meanwhile: nonblocking operations, and messages that posted receives wait for.
  template <class Op, class Advance>
  [[gnu::always_inline]] void wait_for(Op& op, Advance&& advance) {
    if (waits_.any()) [[unlikely]]
      waits_.begin(op.standing());
    journal::wait_until(host_, [&](bool thorough) {
      waits_.advance(thorough);
      if (advance(thorough) != Progress::kPending) return true;
      if (thorough) inbox_.poll_all(true);
      return false;
    });
    waits_.end();
  }

  // Starts a nonblocking operation that has just been entered (`op` holds a ReplicatedOp or
  // ChannelOp): it goes on as far as it can, and from now on whenever this rank waits for anything
  // or asks. The call that entered it is over then, the operation perhaps not; the call that
  // completes it closes it (PointToPoint::close).
  void start(Nonblocking& op) {
    messages_.open();
    waits_.start(op);
    execution_.inside();
    execution_.leave(Status::kOk);
  }

  // --- Messages between two ranks

  PointToPoint<H>& messages() { return messages_; }

  // Enter an operation whose caller advances it itself, and starts it or waits for it. Arguments:
  // see ReplicatedOp and ChannelOp.
  void enter(std::optional<ReplicatedOp>& op, Comm& comm, const Call& call,
             const ReplicatedSpec& spec, Outcome* outcome, bool nonblocking) {
    op.emplace(operations_, comm, call, spec, outcome, nonblocking);
  }
  void enter(std::optional<ChannelOp>& op, Comm& comm, const Call& call, const void* input,
             std::size_t input_bytes, bool nonblocking) {
    op.emplace(operations_, inbox_, outbox_, comm, call, input, input_bytes, nonblocking);
  }

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
    return has_loaded() && peers_.goes_back_to() != journal::Return::kImages;
  }
  bool in_job_of_images() const { return peers_.goes_back_to() == journal::Return::kImages; }
  // The program marks its set-up, so calls that it has not marked are no set-up.
  void note_marks() { journal::own_control(host_)->marks_set_up.store(host_, Step::kFlag, 1); }
  std::uint64_t version() const { return execution_.version(); }
  // The version that this incarnation has loaded from the journal; 0: none.
  std::uint64_t loaded_version() const { return execution_.loaded_version(); }
  std::uint64_t observations_mark() const { return checkpointer_.observations_mark(); }
  // Whether a former incarnation has prepared the next version already.
  bool is_prepared() const {
    return journal::own_control(host_)->prepared.load(std::memory_order_relaxed) > version();
  }
  bool has_loaded() const { return execution_.has_loaded(); }
  bool is_replaying() const { return execution_.incarnation() > 0 && !execution_.is_live(); }

  // --- Init and Finalize

  // Fault injection at MPI_Init and MPI_Finalize.
  void point(PointKind kind, Moment moment) { execution_.point(kind, moment); }
  // 1 = after Init, 2 = after Finalize.
  void set_initialized(std::uint32_t state) {
    if (state == 2) repetition_.before_anything_new(kEnd);
    execution_.show_initialized(state);
  }

  // --- How long the replay takes

  // The caller measures MPI calls by it, until this rank is live.
  ReplayClock& replay_clock() { return execution_.replay_clock(); }

  // --- Diagnostics

  // Text of the newest failure, with call sites as in wire/messages.h.
  const char* last_error() const { return diagnostics_.error(); }
  // The site of `call` as such texts name it; empty: no memory for it.
  void put_site(const Call& call, char* to, std::size_t bytes) {
    std::uint32_t module = 0;
    std::uint64_t place = 0;
    to[0] = '\0';
    if (!calls_.locate(call, &module, &place)) return;
    std::snprintf(to, bytes, "{%u:%u:%llx}", host_.rank(), module,
                  static_cast<unsigned long long>(place));
  }
  // Copies a text with such call sites for a reader that cannot resolve them: see
  // copy_with_sites().
  void copy_text(const char* text, char* to, std::size_t bytes) const {
    copy_with_sites(peers_, text, to, bytes);
  }
  // --log-ops. Operations log by themselves, checkpoints their end only, load() nothing.
  void begin_log(const Call& call) { execution_.begin_log(call); }
  void end_log(Status status) { execution_.end_log(status); }
  OperationLog<H>& log() { return execution_.log(); }
  // Ends the job: the replay asks for something else than the first execution did.
  [[noreturn]] void diverged(const char* text) {
    host_.stop(text);
    __builtin_unreachable();
  }
  // One line for the user; the caller bounds how often.
  void notice(const char* text) { send_notice(host_, text); }
  void notice_once(const char* subject, const char* text) {
    send_notice_once(host_, subject, text);
  }

  // Reads every cached cursor of the segment again: another process was the rank meanwhile.
  void rebase() override {
    outcomes_.rebase();
    execution_.rebase();
    repetition_.begin();
    if (journal::breaks(host_, Rule::kRebaseWoken)) return;
    journal_.rebase();
    calls_.rebase();
    inbox_.rebase();
    outbox_.rebase();
    for (Comm* c = comms_.first(); c != nullptr; c = c->next) comms_.rebase(*c);
  }

 private:
  H& host_;
  journal::Arena& arena_;
  journal::PeerView peers_;
  journal::Journal<H> journal_;
  CallTable<H> calls_;
  Diagnostics diagnostics_;
  Divergence<H> divergence_;
  Execution<H> execution_;
  Taking taking_;
  Communicators<H> comms_;
  Inbox<H> inbox_;
  Outbox<H> outbox_;
  Outcomes<H> outcomes_;
  Repetition<H> repetition_;
  Waits<H> waits_;
  BootstrapCache<H> bootstrap_;
  Operations<H> operations_;
  PointToPoint<H> messages_;
  Cursors<H> cursors_;
  Truncation<H> truncation_;
  Checkpointer<H> checkpointer_;
  Snapshots<H> snapshots_;
};

}  // namespace rejoin::recovery
