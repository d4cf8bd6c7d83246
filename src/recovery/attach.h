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

// The same, or nullptr as long as this process is no rank. Cheap; safe at any time.
Rank* attached_rank();

// --- For images of this process (src/process_image). System calls only.

// Descriptors that came with the process when it was loaded, but for regular files: shared with
// others from the start.
bool is_inherited(int fd);

// Whether a mapping that begins there is the journal's, or memory of the shim itself.
bool is_shims(const std::byte* address);

// Which of the rank's standard input, output and error this is, as the agent made them; -1: none. A
// script in between may have put others in their place.
int standard_pipe(dev_t device, ino_t file);
// From now on these are they.
void renote_standard_pipes(const int pipes[3]);

// This process's agent is another one from now on; its environment says so, too.
void move_to_agent(const char* name, const char* secret);

// A connection of its own to the agent, with its first datagram sent: kImage or kWoken. -1: the
// agent is gone.
int connect_as(wire::MessageType type, std::uint64_t number, std::uint32_t incarnation,
               const char* text = "");

// In a clone that was woken and has asked to be the rank over `socket`: waits until it may, and
// maps the segment where it was. False: it may not.
bool attach_again(int socket);

}  // namespace rejoin::recovery
