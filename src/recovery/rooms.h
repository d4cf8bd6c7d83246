// The rooms of one rank, by value, and what every operation needs of several of them.
#pragma once

#include <cstdint>
#include <cstdio>

#include "journal/arena.h"
#include "journal/host.h"
#include "journal/journal.h"
#include "journal/peer_view.h"
#include "recovery/call_table.h"
#include "recovery/communicators.h"
#include "recovery/diagnostics.h"
#include "recovery/divergence.h"
#include "recovery/fault_injection.h"
#include "recovery/hash.h"
#include "recovery/mail.h"
#include "recovery/nonblocking.h"
#include "recovery/operation_log.h"
#include "recovery/progress.h"
#include "recovery/repetition.h"
#include "recovery/replay_clock.h"
#include "recovery/types.h"

namespace rejoin::recovery {

// Called between operations, when journal::Notices has something to handle.
class NoticeHandler {
 public:
  // at_checkpoint: in front of a checkpoint, so also handles what waits for one.
  virtual void handle(bool at_checkpoint) = 0;

 protected:
  ~NoticeHandler() = default;
};

template <engine::Host H>
struct Rooms {
  Rooms(H& host_of_rank, journal::Arena& memory)
      : host(host_of_rank),
        arena(memory),
        header(journal::job_of(host)),
        control(journal::own_control(host)),
        incarnation(control->incarnation.load(std::memory_order_acquire)),
        peers(host),
        journal(host, arena),
        calls(host, journal.region(), arena),
        progress(arena, header->ranks),
        comms(host, arena, peers, journal),
        diagnostics(peers),
        divergence(host),
        mail(host, arena, peers, journal, comms, diagnostics, divergence),
        repetition(host, journal, comms, mail, progress),
        faults(host, incarnation),
        log(host),
        scratch(static_cast<std::byte*>(arena.allocate(journal::kStageBytes))) {
    begin_incarnation();
  }

  // Resets the state that belongs to this incarnation alone.
  void begin_incarnation() {
    progress.replayed = 0;
    progress.live = false;
    progress.catching_up = incarnation > 0;
    awaited = {};
    repetition.begin(incarnation);
    const std::uint32_t moves = control->moves.load(std::memory_order_relaxed);
    if (moves % 2 != 0 && !engine::breaks(host, Rule::kPositionAtRest)) {
      control->moves.store(host, Step::kPosition, moves + 1);
    }
  }
  // Called in an image that has been woken: its cached view of the segment is outdated.
  void rebase() {
    incarnation = control->incarnation.load(std::memory_order_acquire);
    begin_incarnation();
    control->ordinal.store(host, Step::kPosition, progress.ordinal, std::memory_order_relaxed);
    faults.go_on_behind(incarnation, progress.ordinal);
    if (engine::breaks(host, Rule::kRebaseWoken)) return;
    journal.rebase();
    calls.rebase();
    mail.rebase();
    for (Comm<H>* c = comms.first(); c != nullptr; c = c->next) c->records.rebase();
  }

  // Called on entering an operation, before anything is done for it. This process may end here, and
  // an image of it continue.
  [[gnu::always_inline]] void heed_notices() {
    if (!journal.notices().pending()) [[likely]]
      return;
    notice_handler->handle(false);
  }
  // The same on entering a checkpoint, whether or not notices have changed.
  void heed_at_checkpoint() { notice_handler->handle(true); }

  // The kind of recovery point. Never changes once it is not kUndecided.
  journal::Return goes_back_to() const {
    return header->goes_back_to.load(std::memory_order_acquire);
  }
  // Whether this execution has loaded and made a checkpoint since: a process that begins at a
  // version does not make again what is made from here on.
  bool past_first_checkpoint() const {
    return progress.load_called && progress.version > header->first_version;
  }

  void notice(const char* text) {
    host.tell(wire::MessageType::kNotice, 0, 0, text, std::strlen(text));
  }
  // Sends a notice about the whole job. If several ranks send one about `subject`, the user sees
  // only the first.
  void notice_once(const char* subject, const char* text) {
    const std::uint64_t number = std::uint64_t{1} << 32 | hash_bytes(subject, std::strlen(subject));
    host.tell(wire::MessageType::kNotice, 0, number, text, std::strlen(text));
  }

  // Shows the operation that has just been entered, for diagnostics and agreement.
  void show_position(std::uint64_t context, std::uint64_t sequence, std::uint32_t call) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    control->ordinal.store(host, Step::kSame, progress.ordinal, kRelaxed);
    control->context.store(host, Step::kSame, context, kRelaxed);
    control->sequence.store(host, Step::kSame, sequence, kRelaxed);
    control->call.store(host, Step::kSame, call);
  }
  // Called before the program waits, while nonblocking operations are outstanding: shows others the
  // oldest one of that communicator, because it has to be over first.
  [[gnu::noinline]] void await(const Standing& s) {
    awaited = s;
    show_awaited();
  }
  // Advances nonblocking operations; called in a wait before anything else is looked at.
  void advance_outstanding(bool thorough) {
    if (outstanding.any()) [[unlikely]]
      advance_all_outstanding(thorough);
    if (thorough && repetition.open()) [[unlikely]]
      repetition.look_in_wait(loaded_version == 0);
  }

  // Called before this rank does something that others see and former incarnations have not done,
  // and before a question of the program is answered anew: all that former incarnations have shown
  // must be repeated by then, else this execution has diverged. `call`: the operation's, or
  // kQuestion, or kEnd.
  void before_anything_new(std::uint32_t call) {
    if (repetition.open()) [[unlikely]]
      check_repetition(call);
  }
  // The same where waiting is possible: for a nonblocking operation that acts after it was entered.
  bool may_do_new() {
    return !repetition.open() || engine::breaks(host, Rule::kNothingLeft) ||
           repetition.look(loaded_version == 0).what == Left::What::kNothing;
  }
  void count_replayed() {
    ++progress.replayed;
    control->replayed.store(host, Step::kSame, progress.replayed, std::memory_order_relaxed);
  }
  // Called at the first operation that no record answers.
  [[gnu::noinline]] void went_live() {
    progress.live = true;
    control->live_since.store(host, Step::kSame, progress.ordinal, std::memory_order_relaxed);
    replay_clock.stop();
    if (incarnation == 0) return;
    tell_with_replay(wire::MessageType::kLive, progress.replayed);
  }
  // Sends kLive or kFinalized.
  void tell_with_replay(wire::MessageType type, std::uint64_t value) {
    const auto code = static_cast<std::int32_t>(loaded_version);
    char text[24] = "";
    const int bytes = incarnation == 0
                          ? 0
                          : std::snprintf(text, sizeof text, "%llu",
                                          static_cast<unsigned long long>(replay_clock.total_ns()));
    host.tell(type, code, value, text, static_cast<std::size_t>(bytes));
  }

  // Called when an operation is over.
  void leave(Status status) {
    control->phase.store(host, Step::kSame, journal::Phase::kOutside);
    awaited.context = 0;
    if (log.wanted()) [[unlikely]]
      log.end(status, progress.version, progress.replayed);
    faults.point(progress.ordinal, Moment::kAfter);
  }

  H& host;
  journal::Arena& arena;
  const journal::SegmentHeader* const header;
  journal::RankControl* const control;
  std::uint32_t incarnation;
  journal::PeerView peers;
  journal::Journal<H> journal;
  CallTable<H> calls;
  ProgramProgress progress;
  Communicators<H> comms;
  Diagnostics diagnostics;
  Divergence<H> divergence;
  Mail<H> mail;
  Repetition<H> repetition;
  Outstanding outstanding;
  Standing awaited;
  FaultInjection<H> faults;
  OperationLog<H> log;
  NoticeHandler* notice_handler = nullptr;
  std::byte* const scratch;          // kStageBytes, for user operators
  std::uint64_t loaded_version = 0;  // from the journal, by this incarnation; 0 = none
  ReplayClock replay_clock;          // runs from the end of MPI_Init until it is live
  // The newest operation that closed zones. Used when the journal is full.
  std::uint64_t recycled_in = 0;  // context; 0 = there was none
  std::uint64_t recycled_at = 0;  // sequence

 private:
  [[gnu::noinline]] void check_repetition(std::uint32_t call) {
    if (engine::breaks(host, Rule::kNothingLeft)) return;
    const Left left = repetition.look(loaded_version == 0);
    if (left.what == Left::What::kNothing) return;
    divergence.report(diagnostics.other_course(progress.ordinal, host.rank(), call, left));
    repetition.close();
  }
  [[gnu::noinline]] void advance_all_outstanding(bool thorough) {
    if (engine::breaks(host, Rule::kAdvanceOutstanding)) return;
    if (outstanding.advance(thorough)) show_awaited();
  }

  void show_awaited() {
    if (awaited.context == 0) return;
    const Nonblocking* oldest = outstanding.oldest_of(awaited.context);
    const Standing& s = oldest != nullptr ? oldest->standing() : awaited;
    const std::uint32_t moves = control->moves.load(std::memory_order_relaxed);
    control->moves.store(host, Step::kStanding, moves + 1, std::memory_order_relaxed);
    journal::order_stores();
    host.step(Step::kStanding);
    control->context.store(host, Step::kSame, s.context);
    control->sequence.store(host, Step::kSame, s.sequence);
    control->call.store(host, Step::kSame, s.call);
    control->moves.store(host, Step::kStanding, moves + 2);
  }
};

}  // namespace rejoin::recovery
