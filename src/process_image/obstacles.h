// What a clone of this process would lack, or share with it where it must not.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace rejoin::process_image {

// Whether this process can be frozen, except for its open files and other threads. False: `why` is
// the predicate of a sentence about it, "has 4 threads". Makes system calls only. Costs about 0.1
// ms, and now and then the time in which the kernel looks at each page of this process and of the
// journal
// (/proc/self/smaps; at most 0.5 % of the time, if the program is not known to use MADV_DONTFORK).
bool can_be_cloned(char* why, std::size_t size);
// The same test for permanent obstacles only: memory that is shared with others or that clones are
// not given, and mutexes with priority inheritance. Children and timers are temporary.
bool can_ever_be_cloned(char* why, std::size_t size);
// Whether no blocked signal is pending, which a clone would not get. `why` as above.
bool has_no_pending_signals(char* why, std::size_t size);
bool is_main_thread();

// Whether this process is a child of the agent, and whether it is one or a clone can become one in
// its place (keeper.h). False: `why` as above.
bool is_child_of_agent();
bool can_move(char* why, std::size_t size);
// The agent's process id.
pid_t agent_process();
// Returns false. `why`: the parent of this process waits for it, and its clones do not become
// children of the agent.
bool say_cannot_move(char* why, std::size_t size);

}  // namespace rejoin::process_image
