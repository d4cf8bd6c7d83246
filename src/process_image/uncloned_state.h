// The kernel's state of this process that it does not hand on to a clone, or that a clone changes
// while it is an image.
#pragma once

#include <signal.h>
#include <sys/time.h>

#include <cstddef>

namespace rejoin::process_image {

class UnclonedState {
 public:
  // Reads the state of this process, except for the blocked signals and the timers. False: this
  // kernel does not provide it.
  bool note();

  // Blocks all signals, and notes which ones were blocked.
  void block_signals();
  void restore_signals() const { sigprocmask(SIG_SETMASK, &signals_, nullptr); }

  // The C library still uses the thread id that it knows, because mutexes in the program's memory
  // store it as their owner. Code that needs the kernel's id asks the kernel.
  void note_thread_id() { known_thread_id_ = *thread_id_; }
  void restore_thread_id() const { *thread_id_ = known_thread_id_; }
  // Called in a process that is restored from a written image: the kernel clears the thread id when
  // the process ends, as it does for a clone.
  void register_thread_id() const;

  // The timers of setitimer(). Called when nothing else of this process runs and all signals are
  // blocked, so that no handler has run for an expiry that a clone would see once more.
  void note_timers();
  // They go on where they were when they were noted.
  void restore_timers() const;
  static void stop_timers();

  // Clones this process, which must be done by a system call, on the stack that it has. Returns
  // what the call returns.
  long clone_here(unsigned long flags) const;
  // Called in every clone, which gets the robust list and a process group of its own.
  void begin_clone() const;
  // Called in an image: the kernel's OOM killer takes it first.
  void be_killed_first() const;
  // Called in a clone that is to be the rank: it gets the rank's name and priorities.
  void restore_name_and_priorities() const;

 private:
  static constexpr int kTimers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  static constexpr int kSignals[] = {SIGALRM, SIGVTALRM, SIGPROF};

  char name_[16] = {};
  itimerval timers_[3] = {};
  char oom_score_adj_[16] = {};
  sigset_t signals_ = {};
  void* robust_list_ = nullptr;
  std::size_t robust_bytes_ = 0;
  int* thread_id_ = nullptr;  // where the C library stores this thread's id
  int nice_ = 0;
  int known_thread_id_ = 0;  // *thread_id_, when the newest image was asked for
};

}  // namespace rejoin::process_image
