// The execution of the program by this process, which a woken image continues as the next
// incarnation: how far it is, and what it shows of that to other ranks and to the agent. Every
// operation of the program is entered and left here.
#pragma once

#include <cstdint>

#include "journal/host.h"
#include "journal/journal.h"
#include "journal/own.h"
#include "recovery/call_table.h"
#include "recovery/fault_injection.h"
#include "recovery/operation_log.h"
#include "recovery/replay_clock.h"
#include "recovery/types.h"
#include "wire/messages.h"

namespace rejoin::recovery {

using journal::Rule;
using journal::Step;

// Called in front of an operation if a notice is pending.
class NoticeHandler {
 public:
  // An image of this process may be made in this call; it returns in the image, too, when that is
  // woken.
  virtual void handle() = 0;

 protected:
  ~NoticeHandler() = default;
};

template <journal::Host H>
class Execution {
 public:
  Execution(H& host, journal::Journal<H>& journal, CallTable<H>& calls)
      : host_(host),
        journal_(journal),
        calls_(calls),
        header_(journal::job_of(host)),
        control_(journal::own_control(host)),
        incarnation_(control_->incarnation.load(std::memory_order_acquire)),
        faults_(host, incarnation_),
        log_(host) {
    begin();
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // To be called once, before the first operation.
  void set_notice_handler(NoticeHandler& handler) { notice_handler_ = &handler; }

  // --- How far it is

  std::uint32_t incarnation() const { return incarnation_; }
  // Operations entered.
  std::uint64_t ordinal() const { return ordinal_; }
  // Checkpoints made.
  std::uint64_t version() const { return version_; }
  // The version at which this execution began; 0: it began at main.
  std::uint64_t loaded_version() const { return loaded_version_; }
  // Whether the program has loaded.
  bool has_loaded() const { return has_loaded_; }
  // Whether it has loaded and made a checkpoint since: a process that begins at a version does not
  // create again the communicators that the program creates from here on.
  bool past_first_checkpoint() const { return has_loaded_ && version_ > header_->first_version; }
  // Whether it has executed an operation with other ranks that no record answered.
  bool is_live() const { return live_; }
  // Whether other members may have a record of the next operation although this rank has none.
  bool is_catching_up() const { return catching_up_; }

  // --- Operations

  // Enters an operation, before anything else is done for it.
  [[gnu::always_inline]] typename CallTable<H>::Interned enter(const Call& call) {
    handle_notices();
    const auto interned = count(call);
    if (log_.wanted()) [[unlikely]]
      log_.begin(*calls_.entry(interned.call), replayed_);
    return interned;
  }
  // Enters a checkpoint. begin_log() was called before, because the size of the models is known
  // only to the caller.
  typename CallTable<H>::Interned enter_checkpoint(const Call& call) {
    handle_notices();
    return count(call);
  }

  // Shows the operation that has just been entered, for diagnostics and agreement.
  void show_position(std::uint64_t context, std::uint64_t sequence, std::uint32_t call) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    control_->ordinal.store(host_, Step::kSame, ordinal_, kRelaxed);
    control_->context.store(host_, Step::kSame, context, kRelaxed);
    control_->sequence.store(host_, Step::kSame, sequence, kRelaxed);
    control_->call.store(host_, Step::kSame, call);
  }
  // What the position shows, for a process that is woken in the middle of an operation.
  struct Shown {
    std::uint64_t context, sequence;
    std::uint32_t call;
    journal::Phase phase;
  };
  Shown shown() const {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    return {control_->context.load(kRelaxed), control_->sequence.load(kRelaxed),
            control_->call.load(kRelaxed), control_->phase.load(kRelaxed)};
  }
  // A checkpoint that a former incarnation has left is repeated without waiting, so this rank must
  // not look blocked in it, nor in anything before it.
  void show_again(const Shown& s) {
    show_position(s.context, s.sequence, s.call);
    const bool past = control_->prepared.load(std::memory_order_relaxed) > version_ + 1 &&
                      !journal::breaks(host_, Rule::kPastCheckpoint);
    control_->phase.store(host_, Step::kInside, past ? journal::Phase::kOutside : s.phase);
  }
  // Shows that this rank is inside it and may wait for others.
  void show_inside() { control_->phase.store(host_, Step::kInside, journal::Phase::kInside); }

  // A record answers the operation, or a recorded answer a question of the program.
  void count_replayed() {
    ++replayed_;
    control_->replayed.store(host_, Step::kSame, replayed_, std::memory_order_relaxed);
  }
  // Called at every operation that no record answers. with_others: it has other members.
  [[gnu::always_inline]] void become_live(bool with_others) {
    if (!live_ && with_others) [[unlikely]]
      went_live();
  }
  // An operation of this rank has a record of its own: entering an operation does not look for
  // other members' records any more.
  void caught_up() { catching_up_ = false; }
  // That record was adopted from another member: the next operation may have one, too.
  void may_be_behind() { catching_up_ = true; }

  // A moment inside the operation, at which --kill may end this process.
  [[gnu::always_inline]] void inside() { faults_.point(ordinal_, Moment::kInside); }
  // The same in MPI_Init and MPI_Finalize.
  void point(PointKind kind, Moment moment) { faults_.point(kind, moment); }

  [[gnu::always_inline]] void leave(Status status) {
    control_->phase.store(host_, Step::kSame, journal::Phase::kOutside);
    end_log(status);
    faults_.point(ordinal_, Moment::kAfter);
  }

  // --- Checkpoints

  void made_version(std::uint64_t version) { version_ = version; }
  void note_load() { has_loaded_ = true; }
  // Begins where version `marks` was made.
  void begin_at(const journal::Marks& marks) {
    ordinal_ = marks.ordinal;
    version_ = loaded_version_ = marks.number.load(std::memory_order_relaxed);
    faults_.go_on_behind(incarnation_, ordinal_);
  }

  // Called in an image that has been woken: it is the next incarnation.
  void rebase() {
    incarnation_ = control_->incarnation.load(std::memory_order_acquire);
    log_.look_again();
    faults_.look_again();
    begin();
    control_->ordinal.store(host_, Step::kPosition, ordinal_, std::memory_order_relaxed);
  }
  // Called in such an image, when it goes on. `inside`: in the middle of the newest operation,
  // where no later moment of an operation need come.
  void go_on(bool inside) {
    faults_.go_on_behind(incarnation_, inside ? ordinal_ - 1 : ordinal_);
    if (!inside) return;
    faults_.point(ordinal_, Moment::kBefore);
    faults_.point(ordinal_, Moment::kInside);
  }

  // --- Init, Finalize, and the log of operations

  // 1 = after Init, 2 = after Finalize.
  void show_initialized(std::uint32_t state) {
    control_->initialized.store(host_, Step::kPosition, state);
    if (state == 1) {
      host_.tell(wire::MessageType::kInitialized, 0, 0, nullptr, 0);
    } else {
      tell_with_replay(wire::MessageType::kFinalized, 0);
    }
  }

  // Runs from the end of MPI_Init until this incarnation is live.
  ReplayClock& replay_clock() { return replay_clock_; }

  OperationLog<H>& log() { return log_; }
  void begin_log(const Call& call) {
    if (log_.wanted()) [[unlikely]]
      log_.begin(*calls_.entry(calls_.intern(call).call), replayed_);
  }
  [[gnu::always_inline]] void end_log(Status status) {
    if (log_.wanted()) [[unlikely]]
      log_.end(status, version_, replayed_);
  }

 private:
  // Resets what belongs to one incarnation alone. If the predecessor died while it changed its
  // position (`moves` is odd), others can read the position from here on.
  void begin() {
    replayed_ = 0;
    live_ = false;
    catching_up_ = incarnation_ > 0;
    const std::uint32_t moves = control_->moves.load(std::memory_order_relaxed);
    if (moves % 2 != 0 && !journal::breaks(host_, Rule::kPositionAtRest)) {
      control_->moves.store(host_, Step::kPosition, moves + 1);
    }
  }

  [[gnu::always_inline]] void handle_notices() {
    if (journal_.notices().pending()) [[unlikely]]
      notice_handler_->handle();
  }

  [[gnu::always_inline]] typename CallTable<H>::Interned count(const Call& call) {
    ++ordinal_;
    faults_.point(ordinal_, Moment::kBefore);
    host_.step(Step::kEnter);
    const auto interned = calls_.intern(call);
    if (interned.call == CallTable<H>::kNone) [[unlikely]]
      journal_.out_of_memory();
    return interned;
  }

  [[gnu::noinline]] void went_live() {
    live_ = true;
    control_->live_since.store(host_, Step::kSame, ordinal_, std::memory_order_relaxed);
    replay_clock_.stop();
    if (incarnation_ > 0) tell_with_replay(wire::MessageType::kLive, replayed_);
  }
  // Sends kLive or kFinalized.
  void tell_with_replay(wire::MessageType type, std::uint64_t value) {
    const wire::Replay replay = {replay_clock_.total_ns()};
    host_.tell(type, static_cast<std::int32_t>(loaded_version_), value,
               reinterpret_cast<const char*>(&replay), incarnation_ == 0 ? 0 : sizeof replay);
  }

  H& host_;
  journal::Journal<H>& journal_;
  CallTable<H>& calls_;
  const journal::SegmentHeader* const header_;
  journal::RankControl* const control_;
  NoticeHandler* notice_handler_ = nullptr;

  std::uint32_t incarnation_;
  std::uint64_t ordinal_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t loaded_version_ = 0;
  std::uint64_t replayed_ = 0;  // operations and questions that the journal has answered
  bool has_loaded_ = false;
  bool live_ = false;
  bool catching_up_ = false;

  FaultInjection<H> faults_;
  OperationLog<H> log_;
  ReplayClock replay_clock_;
};

}  // namespace rejoin::recovery
