// How a process becomes a rank: it registers with the agent and is handed the host segment.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "engine/transport/shm/host.h"
#include "recovery/rank.h"
#include "wire/messages.h"

namespace rejoin::recovery {

using Rank = BasicRank<engine::ShmHost>;

// The rank that this process is. The first call does the work, later ones return the same. A
// program that is itself linked against libmpi.so.40 has been attached when it was loaded, so that
// what it sees before MPI_Init is observed too. Started without ftrun, the process is a world of
// one over a segment of its own. nullptr: `error` says why and what to do. Not thread-safe.
Rank* attach(char* error, std::size_t error_bytes);

// Returns the same, or nullptr while this process is no rank. Cheap; safe at any time.
Rank* attached_rank();

// --- For images of this process (src/process_image). System calls only.

// Returns whether the process had this descriptor when it was loaded, and it is no regular file:
// such descriptors are shared with other processes from the start.
bool is_inherited(int fd);

// Returns whether a mapping that begins there is the journal's, or memory of the shim itself.
bool is_shims(const std::byte* address);

// Returns which of the rank's standard input, output and error this is, as the agent made them; -1:
// none. A script in between may have put others in their place.
int standard_pipe(dev_t device, ino_t file);
// Replaces the three files that standard_pipe() compares with.
void renote_standard_pipes(const int pipes[3]);

// Switches this process to another agent; its environment names that one, too.
void move_to_agent(const char* name, const char* secret);

// Opens a separate connection to the agent and sends its first datagram: kImage or kWoken. -1: the
// agent is gone.
int connect_as(wire::MessageType type, std::uint64_t number, std::uint32_t incarnation,
               const char* text = "");

// Called in a clone that was woken and has asked over `socket` to be the rank: waits for the
// agent's consent, and maps the segment where it was. False: the agent refused.
bool attach_again(int socket);

}  // namespace rejoin::recovery
