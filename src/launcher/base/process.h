// Processes as the kernel shows them: starting them, finding them, finding out how they ended.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// What a process has from the one that starts it: settings that this process has changed for
// itself, as they were before, and its lifeline.
struct SpawnSettings {
  sigset_t signals = {};    // the child's initial signal mask
  rlimit descriptors = {};  // the child's limit on open files
  std::string lifeline;     // Lifeline::path()
};

struct SpawnRequest {
  const char* path;        // of the file; PATH is not searched
  char* const* arguments;  // null-terminated
  char* const* environment;
  const char* directory;  // nullptr: this process's
  int standard[3];        // descriptors that become 0, 1, 2; none of them is 0, 1 or 2
  bool core_dumps;
  const cpu_set_t* processors;  // nullptr: those of this process
  const SpawnSettings* settings;
};

struct Spawned {
  pid_t pid = -1;                     // -1: it failed
  int error = 0;                      // errno
  const char* failed_step = nullptr;  // "execve", ...
};

// Switches address space randomisation off, for what this process executes. False: that is
// forbidden. Makes system calls only.
bool fix_addresses();

// Starts a process in a process group of its own, without address space randomisation if that is
// allowed. It dies with its parent thread. The caller is suspended until the program is loaded.
// REQUIRES all signals with handlers to be blocked.
Spawned spawn_process(const SpawnRequest& request);

// Returns the direct children of this process, including zombies and those that became its children
// when their parents died (PR_SET_CHILD_SUBREAPER).
std::vector<pid_t> children_of_this_process();

// Returns the rank that a process's environment names, if it names `socket` as its agent.
std::optional<std::uint32_t> rank_by_environment(pid_t pid, const std::string& socket);

// Returns -1 if the process is gone.
int open_pidfd(pid_t pid);
// Returns whether the process has ended, reaped or not. True for -1.
bool has_ended(int pidfd);

// The next child that has ended, without reaping it.
struct EndedChild {
  pid_t pid;
  Cause cause;
};
std::optional<EndedChild> next_ended_child();
// Resources that a process and the descendants that it waited for have used.
struct Usage {
  std::uint64_t peak_bytes;  // the largest resident size of any of them
  std::uint64_t cpu_ns;      // of all of them together
};
// Reaps a child and returns what it has used: zeros if it was reaped before.
Usage reap(pid_t pid);
// Returns the processor time that this process has used.
std::uint64_t own_cpu_ns();

// Returns how a process ended that is not a child of this one. kUnknown: the kernel does not say.
Cause cause_of_stranger(int pidfd, pid_t pid);

// Returns whether the child has been killed or is exiting: it has ended, or will as soon as it is
// scheduled.
bool is_ending(pid_t pid);

// Minor page faults of a process, and its anonymous pages. Zeros for a process that is gone.
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
