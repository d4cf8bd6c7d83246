// The other threads of this process: a clone of it lacks them. They are stopped while the process
// is cloned, and created again in a clone that is to be the rank.
//
// A thread is stopped by a signal that the C library reserves for itself (SIGSETXID), so that the
// program can neither block nor handle it. The signal's handler notes what the kernel holds of the
// thread, and waits. The signal's frame on the thread's stack holds its registers and its mask of
// blocked signals. A clone has the stacks, too: there each thread is created with its former stack,
// thread-local storage and kernel state, waits like those that were stopped, and then returns from
// the handler, where it goes on.
//
// Any thread may be the one that has the process cloned. If it is not the main one, the clone's
// only thread, which the kernel takes for its main one, becomes the main thread again when all are
// created, and the thread that had the process cloned is created like the others.
//
// The C library goes on with the thread ids that it knows, because mutexes in the program's memory
// store them as their owners. kernel_id() gives the kernel's.
//
// Cost: 10 to 30 µs a thread, and a wait until each thread is on a processor.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recovery/attach.h"

namespace rejoin::process_image {

struct OtherThread;

class OtherThreads {
 public:
  // There is one object for each process. Its tables lie in the rank's arena.
  explicit OtherThreads(recovery::Rank& rank) : rank_(rank) {}
  OtherThreads(const OtherThreads&) = delete;
  OtherThreads& operator=(const OtherThreads&) = delete;

  // Stops all other threads of this process. Until release() the caller must not wait for anything
  // that a stopped thread may hold: it calls neither malloc() nor stdio, nor the dynamic linker.
  // False: all threads go on; `why` is the predicate of a sentence about this process, as in
  // obstacles.h. REQUIRES that the caller has blocked all signals.
  bool stop(char* why, std::size_t size);
  // How long the newest stop() took, in nanoseconds.
  std::uint64_t stop_ns() const { return stop_ns_; }

  // Creates, in a clone that was made while they were stopped, the threads that were stopped. They
  // are stopped here, too. Returns on the caller's stack, in a thread of another id if the caller
  // is not the main one. False: `why` as above; this process must end.
  bool create(char* why, std::size_t size);

  // The threads go on.
  void release();
  // All threads but the main one end where they are. When they have ended, the main one calls
  // rest(argument), which does not return.
  [[noreturn]] void end(void (*rest)(void*), void* argument);

  // Returns the kernel's id of the thread whose descriptor is at `descriptor` if the C library
  // knows another one, else 0. Any thread; async-signal-safe.
  static pid_t kernel_id(const void* descriptor);

 private:
  struct Table {
    OtherThread* threads = nullptr;
    int room = 0;  // and one more, for the caller
    std::atomic<int> count{0};
  };

  bool install_handler(char* why, std::size_t size);
  bool make_room(int threads, char* why, std::size_t size);
  bool list_and_stop(int directory, char* why, std::size_t size);
  bool signal_new_ones(int directory, int* signalled, char* why, std::size_t size);
  bool all_have_stopped();
  bool name_slow_thread(char* why, std::size_t size, bool also_ready) const;
  bool is_known(pid_t id) const;
  bool look_for_obstacles(char* why, std::size_t size) const;
  void give_up();

  void note_caller();
  void become_main(const OtherThread& main);
  void create_caller();

  static void on_signal(int number, siginfo_t* info, void* context);
  void stay(OtherThread& thread);
  [[noreturn]] void call_rest();

  recovery::Rank& rank_;
  // One table is that of the newest stop(). The other one is that of the newest stop() that
  // succeeded, if this is another one; kernel_id() reads it.
  Table tables_[2];
  Table* table_ = &tables_[0];
  std::atomic<const Table*> published_{nullptr};
  std::uint32_t stops_ = 0;  // numbers stop(), so that a late signal is recognised
  std::uint64_t stop_ns_ = 0;
  std::uint64_t not_before_ns_ = 0;         // after a thread did not stop in time
  bool is_busy_machine_ = false;            // because it waited for a processor
  unsigned slow_stops_ = 0;                 // so often, one after the other
  std::atomic<std::uint32_t> stopped_{0};   // threads that wait in the handler; a futex
  std::atomic<std::uint32_t> released_{0};  // counts release(); a futex
  void (*rest_)(void*) = nullptr;
  void* argument_ = nullptr;
  static inline OtherThreads* the_one_ = nullptr;
};

}  // namespace rejoin::process_image
