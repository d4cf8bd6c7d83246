// The functions of the shim that librejoin_libc.so calls. That library replaces functions of libc
// and knows their rules; the shim has the rank, its journal and the agent's socket. C names, found
// at load: without the shim in the process they are null, and the library only passes calls on.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "libc_recording/observation.h"
#include "wire/file_log.h"

#define REJOIN_LIBC_HOOK __attribute__((weak, visibility("default")))

namespace rejoin::libc_recording {

// As in wire/file_log.h. Paths are absolute.
struct LoggedChange {
  wire::FileChange change;
  const char* path;
  const char* other = nullptr;
  std::uint32_t file = 0;
  std::uint32_t other_file = 0;
  std::uint32_t flags = 0;
  const char* lost = nullptr;  // `path` or `other`, if its file would be gone
  std::uint64_t lost_bytes = 0;
};

}  // namespace rejoin::libc_recording

extern "C" {

// Whether the calling thread's view of the system is recorded: this process is a rank (no child of
// one), this is its main thread, and neither the shim itself nor a user's reduction operator is
// asking. `caller`: the return address of the libc function. All other hooks REQUIRE that this is
// so, unless they say otherwise. Cheap: called by every replaced function.
int rejoin_libc_observing(const void* caller) REJOIN_LIBC_HOOK;

// These call Observations::recall(), record() and next_answer_bytes(); values of series are as
// there.
int rejoin_libc_recall_series(unsigned series, std::int64_t* values) REJOIN_LIBC_HOOK;
void rejoin_libc_record_series(unsigned series, std::int64_t* values) REJOIN_LIBC_HOOK;
int rejoin_libc_recall(rejoin::libc_recording::Event* event) REJOIN_LIBC_HOOK;
void rejoin_libc_record(const rejoin::libc_recording::Event* event) REJOIN_LIBC_HOOK;
unsigned rejoin_libc_next_answer_bytes() REJOIN_LIBC_HOOK;
// Calls Observations::ahead().
std::int64_t rejoin_libc_ahead(unsigned series, std::int64_t now) REJOIN_LIBC_HOOK;

// These call the functions of FileFacts with the same names.
void rejoin_libc_set_rewritten(std::uint32_t file, const char* path) REJOIN_LIBC_HOOK;
int rejoin_libc_rewritten(std::uint32_t file, char* path, unsigned room_bytes) REJOIN_LIBC_HOOK;
void rejoin_libc_note_aside(const char* path) REJOIN_LIBC_HOOK;
void rejoin_libc_note_ghost(std::uint32_t file, const char* path) REJOIN_LIBC_HOOK;
int rejoin_libc_ghost(std::uint32_t file) REJOIN_LIBC_HOOK;
int rejoin_libc_noted(unsigned n, char* path, unsigned room_bytes,
                      std::uint32_t* file) REJOIN_LIBC_HOOK;
// Whether changes of files are logged (file_log.h). If not, the next two are not called.
int rejoin_libc_logs_changes() REJOIN_LIBC_HOOK;
// Logs that the program has opened this file for writing without emptying it.
void rejoin_libc_opened(int fd, const rejoin::libc_recording::OpenedFile* file,
                        unsigned flags) REJOIN_LIBC_HOOK;
// Gives the second name of a file that was removed or replaced (file_log.h). False: there is none.
int rejoin_libc_kept(std::uint32_t file, char* path, unsigned room_bytes) REJOIN_LIBC_HOOK;
// Logs that a name is about to be removed, to become another file's, or to be made, or was made.
void rejoin_libc_changes(const rejoin::libc_recording::LoggedChange* change) REJOIN_LIBC_HOOK;
int rejoin_libc_written_elsewhere(std::uint32_t file, int kept) REJOIN_LIBC_HOOK;
int rejoin_libc_written_in_place(std::uint32_t file) REJOIN_LIBC_HOOK;

// Memory of the recording, not of the program.
void* rejoin_libc_allocate(unsigned bytes) REJOIN_LIBC_HOOK;
void rejoin_libc_release(void* memory, unsigned bytes) REJOIN_LIBC_HOOK;

// False: this process is no rank, nor a child that one has forked; or the shim itself is asking.
// Any thread; does not REQUIRE that anything is recorded.
int rejoin_libc_pids(const void* caller, rejoin::libc_recording::Pids* pids) REJOIN_LIBC_HOOK;

// Returns the kernel's id of the thread whose descriptor (pthread_t) this is, if the C library
// knows another one because the thread was created again in a clone of its process; else 0. Any
// thread.
pid_t rejoin_libc_kernel_id(const void* descriptor) REJOIN_LIBC_HOOK;

// Returns the descriptor of the rank's connection to its agent, and in *pid the kernel's process id
// of the rank. Returns -1 if this process is no rank, if the shim itself is the caller, or before
// the recording has begun. Any thread; no system call.
int rejoin_libc_socket(const void* caller, int* pid) REJOIN_LIBC_HOOK;

// Functions of librejoin_libc.so that the shim calls; null if the library is not loaded.
//
// Installs the handler for those of the signals that have their default action. If the calling
// thread has no alternate stack, it is given `stack`. The program sees neither the handler nor the
// stack.
using RejoinFaultHandler = void (*)(int, siginfo_t*, void*);
void rejoin_libc_catch_faults(const int* signals, int count, RejoinFaultHandler handler,
                              void* stack, std::size_t stack_bytes) REJOIN_LIBC_HOOK;
// Whether the program has ever asked for memory that a clone is not given, or gets empty (madvise).
int rejoin_libc_withholds() REJOIN_LIBC_HOOK;
// Whether the program has ever asked for a mutex with priority inheritance.
int rejoin_libc_inherits_priority() REJOIN_LIBC_HOOK;
// Looks up all functions of libc that the library replaces, so that none is looked up later.
void rejoin_libc_find_all() REJOIN_LIBC_HOOK;
// Called when an image of the process was woken: what the library knows of files may be stale.
void rejoin_libc_woken() REJOIN_LIBC_HOOK;
// Called then for a file that was open, and `size_bytes` long, when the image was made: prepares it
// for the process to write on.
void rejoin_libc_write_on(int fd, std::uint64_t size_bytes) REJOIN_LIBC_HOOK;
// Called in a process that goes on from a written image: truncates a file to its state in `then`.
// False: another file lies there, or none.
int rejoin_libc_roll_back(const rejoin::wire::FileEntryHead* then,
                          const char* path) REJOIN_LIBC_HOOK;

// Shows the user one line about a path, unless that path has had one.
void rejoin_libc_tell(const char* name, const char* text) REJOIN_LIBC_HOOK;
// Shows the user one line about the replay of this rank; only the first line about `subject` in the
// whole job is shown. `text` is a predicate.
void rejoin_libc_tell_of_replay(const char* subject, const char* text) REJOIN_LIBC_HOOK;
// Reports, like rejoin_libc_tell, something that makes this replay differ from the first execution.
// Returns only with --on-divergence warn.
void rejoin_libc_untrue(const char* name, const char* text) REJOIN_LIBC_HOOK;
}
