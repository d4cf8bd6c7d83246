// What the MPI face needs of the observations.
#pragma once

namespace rejoin::libc_recording {

// MPI_Wtime: seconds of the monotonic clock, the same ones again in a replay. On the main thread of
// a rank it is an observation; else, and without ftrun, it is only the clock. No locks.
double observed_wtime();

// Starts recording the calling thread, if it is the main one. Recording also starts by itself if
// the program calls a recorded function of libc first. REQUIRES that no other thread is inside MPI.
void start_recording();

// Starts reporting faults: a signal such as SIGSEGV or SIGABRT that would end this process is first
// reported to the agent, with the stack, unless the program handles it. Main thread only.
void report_faults();

// While one exists nothing is observed on the thread that has made it. To be put around calls of
// the user's reduction operators: they run only when an operation is executed, not when it is
// answered by a record.
class Unobserved {
 public:
  Unobserved();
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

}  // namespace rejoin::libc_recording
