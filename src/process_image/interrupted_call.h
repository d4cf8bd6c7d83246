// System calls that a signal's handler has ended early, although the program has not asked for the
// signal. The kernel makes many of them again by itself (SA_RESTART); of the others, those that can
// be made again without a difference to the program are made again here.
//
// Not among them are poll() and epoll_wait() with a time limit, because the time that is left is
// not known, nor calls that unblock signals while they wait (sigsuspend, sigtimedwait, ppoll,
// pselect), because it is not known whether one of those signals has been handled: these return
// EINTR.
#pragma once

#include <ucontext.h>

namespace rejoin::process_image {

// Finds where the C library's code lies. Takes the dynamic linker's lock.
void find_code_of_libc();

// Called in a handler, with its context: if the signal has ended a system call that the C library
// had made with EINTR, and the call can be made again, the thread will make it again when the
// handler returns. Async-signal-safe.
void continue_call(ucontext_t& context);

}  // namespace rejoin::process_image
