// Processes as the kernel shows them: starting them, finding them, telling how they ended.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

struct SpawnRequest {
  const char* path;        // of the file; nothing is searched
  char* const* arguments;  // null-terminated
  char* const* environment;
  const char* directory;  // nullptr: this one
  int standard[3];        // descriptors that become 0, 1, 2; none of them is 0, 1 or 2
  bool core_dumps;
  const cpu_set_t* processors;  // nullptr: as this process
  const sigset_t* signals;      // the mask that it starts with
  const rlimit* descriptors;    // its limit on open files
  const char* lifeline;         // Lifeline::path()
};

struct Spawned {
  pid_t pid = -1;                     // -1: it failed
  int error = 0;                      // errno
  const char* failed_step = nullptr;  // "execve", ...
};

// Starts a process in a process group of its own, without address randomisation where that is
// allowed, which dies with its parent thread. The caller is suspended until the program is loaded.
// REQUIRES all signals with handlers to be blocked.
Spawned spawn_process(const SpawnRequest& request);

// Direct children of this process, also those that became its children when their parents died
// (PR_SET_CHILD_SUBREAPER). Zombies included.
std::vector<pid_t> children_of_this_process();

// The rank that a process belongs to by its environment, if that names `socket` as its agent.
std::optional<std::uint32_t> rank_by_environment(pid_t pid, const std::string& socket);

// -1 if the process is gone.
int open_pidfd(pid_t pid);
// Whether the process has ended, perhaps without being reaped. True for -1.
bool has_ended(int pidfd);

// The next child that has ended, without reaping it.
struct EndedChild {
  pid_t pid;
  Cause cause;
};
std::optional<EndedChild> next_ended_child();
// Reaps it and returns the largest resident size that it, or any descendant that it waited for,
// had.
std::uint64_t reap(pid_t pid);

// How a process ended that is not this process's child. kUnknown where the kernel does not tell.
Cause cause_of_stranger(int pidfd, pid_t pid);

// The child has been killed, or exits: it has ended, or will as soon as it has a processor.
bool is_ending(pid_t pid);

// Page faults of a process that the disk had no part in, and pages that are its own, not mapped
// from files. Nothing of one that is gone.
struct MemoryUse {
  std::uint64_t faults = 0;
  std::uint64_t own_pages = 0;
};
MemoryUse memory_use(pid_t pid);

// The state letter of /proc/PID/stat; '?' if it is gone.
char state_letter(pid_t pid);
// Returns the number of threads of a process; 0 if it is gone.
unsigned threads_of(pid_t pid);

}  // namespace rejoin::launcher
