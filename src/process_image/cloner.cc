#include "process_image/cloner.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rejoin::process_image {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

}  // namespace

Cloner::Cloner(recovery::Rank& rank, const UnclonedState& state, CloneCost& cost)
    : rank_(rank),
      state_(state),
      cost_(cost),
      stack_(static_cast<std::byte*>(rank.arena().allocate(kStackBytes))) {}

std::byte* Cloner::stack_end() const { return stack_ + kStackBytes; }

// The clone begins in the frame of this function, in which this process waits for the helper.
bool Cloner::clone(int* error, const OpenFiles* image) {
  image_ = image;
  if (_setjmp(place_) != 0) return true;
  *error = run_helper();
  return false;
}

// Returns 0 or an errno.
int Cloner::run_helper() {
  error_ = 0;
  const int helper = ::clone(&Cloner::help, stack_end(), CLONE_VM | CLONE_VFORK, this);
  if (helper < 0) return errno;
  while (waitpid(helper, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  return error_;
}

// Runs in the helper, a process that shares this one's memory; this process waits for its end.
int Cloner::help(void* cloner) {
  auto& self = *static_cast<Cloner*>(cloner);
  self.helper_ = static_cast<pid_t>(syscall(SYS_getpid));
  if (self.image_ != nullptr) self.image_->release_channels();
  const std::uint64_t begin = processor_ns();
  const long result = self.state_.clone_here(0);
  if (result == 0) _longjmp(self.place_, 1);
  self.cost_.note_helper(processor_ns() - begin);
  if (result < 0) {
    self.error_ = static_cast<int>(-result);
  } else {
    // The agent recognises the image by this if it ends before it has registered. The agent is told
    // of its end only when this helper has ended, too.
    auto& control = self.rank_.control();
    auto& host = self.rank_.host();
    control.image_pid.store(host, journal::Step::kSame, result);
    control.image_number.store(host, journal::Step::kSame, self.number_);
  }
  syscall(SYS_exit, 0);
  __builtin_unreachable();
}

void Cloner::leave_helper() const {
  // As long as its parent is the helper, the helper's end would be taken for the agent's.
  while (syscall(SYS_getppid) == helper_) sched_yield();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace rejoin::process_image
