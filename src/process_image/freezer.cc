#include "process_image/freezer.h"

#include <stdio.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "journal/valgrind.h"
#include "journal/waiting.h"
#include "libc_recording/file_log.h"
#include "libc_recording/observations.h"
#include "libc_recording/observed.h"
#include "process_image/clone_cost.h"
#include "process_image/cloner.h"
#include "process_image/image.h"
#include "process_image/mover.h"
#include "process_image/obstacles.h"
#include "process_image/open_files.h"
#include "process_image/uncloned_state.h"

namespace rejoin::process_image {
namespace {

using journal::Frozen;
using journal::MayFreeze;
using wire::MessageType;

constexpr const char* kTooOldKernel = "runs on a kernel that is too old for snapshots";
constexpr const char* kUnderValgrind = "runs under valgrind, whose own state a clone would share";

// The host calls this object. It decides whether this process can be cloned, and what the process
// and its clone do then.
class Freezer final : public engine::ProcessImage {
 public:
  Freezer(recovery::Rank& rank, void (*woken)())
      : rank_(rank),
        files_(rank.arena()),
        cloner_(rank, state_, cost_),
        cost_(rank),
        mover_(rank, state_, cloner_, cost_, woken),
        image_(rank, state_, files_, cloner_, woken) {}

  MayFreeze may_freeze(std::uint64_t number) override {
    if (!cloner_.has_stack() || !rank_.host().has_agent()) return MayFreeze::kNo;
    const libc_recording::Unobserved mine;
    cost_.begin_request();
    char why[400];
    if (!libc_recording::observations_are_live()) return MayFreeze::kNotNow;
    if (journal::runs_under_valgrind()) return refuse(number, kUnderValgrind);
    if (!state_.note()) return refuse(number, kTooOldKernel);
    if (!can_be_cloned(why, sizeof why) ||
        !files_.note(rank_.host().agent_socket(), why, sizeof why) || !can_move(why, sizeof why) ||
        (!is_child_of_agent() && !mover_.move(why, sizeof why))) {
      return refuse(number, why);
    }
    if (!mark_output(number)) return MayFreeze::kNotNow;
    libc_recording::mark_observations();
    libc_recording::truncate_observations(rank_.observations_mark());
    return MayFreeze::kYes;
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
    return can_ever_be_cloned(why, size) &&
           (files_.note(rank_.host().agent_socket(), why, size) || files_.may_pass());
  }

  Frozen freeze(std::uint64_t number) override {
    const libc_recording::Unobserved mine;
    cloner_.set_number(number);
    state_.note_thread_id();
    image_.prepare();
    libc_recording::log_files_since_image(number);
    state_.block_signals();
    int error = 0;
    if (cloner_.clone(&error)) {
      image_.be();
      state_.restore_signals();
      cost_.begin_count();
      return Frozen::kWoken;
    }
    cost_.count();
    if (error == 0) cost_.measure_page_copy();
    state_.restore_signals();
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
  rank.host().set_image(rank.arena().make<Freezer>(rank, woken));
}

}  // namespace rejoin::process_image
