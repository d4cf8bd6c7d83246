#include "process_image/freezer.h"

#include <stdio.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "journal/valgrind.h"
#include "journal/waiting.h"
#include "libc_recording/file_log.h"
#include "libc_recording/hooks.h"
#include "libc_recording/observations.h"
#include "libc_recording/observed.h"
#include "process_image/clone_cost.h"
#include "process_image/cloner.h"
#include "process_image/image.h"
#include "process_image/mover.h"
#include "process_image/obstacles.h"
#include "process_image/open_files.h"
#include "process_image/other_threads.h"
#include "process_image/uncloned_state.h"

namespace rejoin::process_image {
namespace {

using journal::Frozen;
using journal::MayFreeze;
using wire::MessageType;

constexpr const char* kTooOldKernel =
    "runs on a kernel that is too old for snapshots, or a seccomp filter forbids get_robust_list()";
constexpr const char* kUnderValgrind = "runs under valgrind, whose own state a clone would share";

// The host calls this object. It decides whether this process can be cloned, and what the process
// and its clone do then.
class Freezer final : public engine::ProcessImage {
 public:
  Freezer(recovery::Rank& rank, void (*woken)())
      : rank_(rank),
        files_(rank.arena()),
        threads_(rank),
        cloner_(rank, state_, cost_),
        cost_(rank),
        mover_(rank, state_, threads_, cloner_, cost_, woken),
        image_(rank, state_, files_, threads_, cloner_, woken) {}

  MayFreeze may_freeze(std::uint64_t number) override {
    if (!cloner_.has_stack() || !rank_.host().has_agent()) return MayFreeze::kNo;
    const libc_recording::Unobserved mine;
    cost_.begin_request();
    char why[400];
    // While a job of one rank replays, this is called at each operation, so it stops no threads.
    if (is_main_thread() && !libc_recording::has_live_observations()) return MayFreeze::kNotNow;
    if (journal::runs_under_valgrind()) return refuse(number, kUnderValgrind);
    if (!state_.note()) return refuse(number, kTooOldKernel);
    if (!has_no_pending_signals(why, sizeof why)) return refuse(number, why);
    stop_all();
    const MayFreeze may = may_freeze_stopped(number, why, sizeof why);
    if (may == MayFreeze::kYes) return may;
    go_on();
    return may == MayFreeze::kNo ? refuse(number, why) : may;
  }

  bool can_be_frozen(char* why, std::size_t size) override {
    const libc_recording::Unobserved mine;
    if (!cloner_.has_stack() || !rank_.host().has_agent()) {
      snprintf(why, size, "has no memory for the stack of a clone");
      return false;
    }
    const char* impossible = journal::runs_under_valgrind() ? kUnderValgrind : nullptr;
    if (impossible == nullptr && !state_.note()) impossible = kTooOldKernel;
    if (impossible != nullptr) {
      snprintf(why, size, "%s", impossible);
      return false;
    }
    if (mover_.is_impossible()) return say_cannot_move(why, size);
    stop_all();
    bool can = threads_.stop(why, size);
    if (can) {
      can = can_ever_be_cloned(why, size) &&
            (files_.note(rank_.host().agent_socket(), why, size) || files_.may_pass());
    } else {
      can = why[0] == '\0';  // only the machine is busy
    }
    go_on();
    return can;
  }

  // All other threads are stopped, and all signals are blocked, since may_freeze().
  Frozen freeze(std::uint64_t number) override {
    const libc_recording::Unobserved mine;
    cloner_.set_number(number);
    state_.note_thread_id();
    image_.prepare();
    libc_recording::log_files_since_image(number);
    int error = 0;
    if (cloner_.clone(&error, &files_)) {
      image_.be();
      go_on();
      cost_.begin_count();
      return Frozen::kWoken;
    }
    go_on();
    cost_.count();
    if (error == 0) cost_.measure_page_copy();
    if (error == 0) return Frozen::kGoesOn;
    char why[120];
    const int bytes = snprintf(why, sizeof why, "cannot be cloned (%s)", strerrordesc_np(error));
    rank_.host().tell(MessageType::kNotFrozen, error, number, why, static_cast<std::size_t>(bytes));
    return Frozen::kNot;
  }

 private:
  MayFreeze refuse(std::uint64_t number, const char* why) {
    rank_.host().tell(MessageType::kNotFrozen, 0, number, why, strlen(why));
    return MayFreeze::kNo;
  }

  // Nothing else of this process runs from here to go_on(): neither a handler of a signal, which
  // could wait for a thread that is stopped, nor a thread that may_freeze_stopped() stops.
  void stop_all() { state_.block_signals(); }
  void go_on() {
    threads_.release();
    state_.restore_signals();
  }

  // What is noted of this process, and what it has printed, stays as it is until it is cloned.
  MayFreeze may_freeze_stopped(std::uint64_t number, char* why, std::size_t size) {
    const bool stopped = threads_.stop(why, size);
    cost_.add_ns(threads_.stop_ns());
    if (stopped && !libc_recording::has_live_observations()) return MayFreeze::kNotNow;
    state_.note_timers();
    if (!stopped || !can_be_cloned(why, size) ||
        !files_.note(rank_.host().agent_socket(), why, size) || !can_move(why, size) ||
        (!is_child_of_agent() && !mover_.move(why, size))) {
      return MayFreeze::kNo;
    }
    if (!mark_output(number)) return MayFreeze::kNotNow;
    libc_recording::mark_image(rank_.observations_mark());
    note_several_threads(number);
    return MayFreeze::kYes;
  }

  // If several threads call MPI, the order in which they go on in the clone is not recorded, unless
  // only the main one is inside.
  void note_several_threads(std::uint64_t number) {
    auto& before = rank_.control().several_threads_before;
    const bool several = before.load(std::memory_order_relaxed) != 0;
    if (!several || (is_main_thread() && !rank_.host().has_waiting_thread())) return;
    before.store(rank_.host(), journal::Step::kFlag, number + 1);
  }

  // Asks the agent to read what this process has printed so far, which is in its pipes, and gives
  // it the position in the rank's input. False: this process still has to print what its
  // predecessor has printed.
  bool mark_output(std::uint64_t number) {
    const std::uint64_t value = number | wire::kMarkOfImage;
    auto& host = rank_.host();
    auto& mark = rank_.control().output_mark;
    // A mark that was refused is requested again with the same number, so the former answer is
    // erased.
    mark.store(host, journal::Step::kSame, 0);
    host.tell(MessageType::kMark, files_.unread_input(), value, nullptr, 0);
    std::uint64_t answer = 0;
    journal::wait_until(host, [&](bool) {
      answer = mark.load(std::memory_order_acquire);
      return (answer & ~wire::kMarkRefused) == value;
    });
    return answer == value;
  }

  recovery::Rank& rank_;
  OpenFiles files_;
  UnclonedState state_;
  OtherThreads threads_;
  // The cloner takes its memory before the cost does, because there are no images without it.
  Cloner cloner_;
  CloneCost cost_;
  Mover mover_;
  FrozenImage image_;
};

}  // namespace

void install(recovery::Rank& rank, void (*woken)()) {
  const auto* header = journal::job_of(rank.host());
  if (header->snapshots == 0) return;
  // While threads are stopped, the dynamic linker must not be asked.
  if (rejoin_libc_find_all != nullptr) rejoin_libc_find_all();
  rank.host().set_image(rank.arena().make<Freezer>(rank, woken));
}

}  // namespace rejoin::process_image
