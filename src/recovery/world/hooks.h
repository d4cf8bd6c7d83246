// What librejoin_world.so asks the shim. The world library replaces functions of libc and knows
// their rules; the shim has the rank, its journal and the agent's socket. C names, found at load:
// without the shim in the process they are null, and the world library only passes calls on.
#pragma once

#include <cstdint>

#include "recovery/observation.h"

#define REJOIN_WORLD_HOOK __attribute__((weak, visibility("default")))

extern "C" {

// Whether the calling thread's view of the world is recorded: this process is a rank (no child of
// one), this is its main thread, and neither the shim itself nor a user's reduction operator is
// asking. `caller`: the return address of the libc function. All other hooks REQUIRE it.
// Cheap.
int rejoin_world_observing(const void* caller) REJOIN_WORLD_HOOK;

// Observations::recall() and record(). Series values as there.
int rejoin_world_recall_series(unsigned series, std::int64_t* values) REJOIN_WORLD_HOOK;
void rejoin_world_record_series(unsigned series, std::int64_t* values) REJOIN_WORLD_HOOK;
int rejoin_world_recall(rejoin::recovery::Event* event) REJOIN_WORLD_HOOK;
void rejoin_world_record(const rejoin::recovery::Event* event) REJOIN_WORLD_HOOK;

// The functions of Observations with these names.
void rejoin_world_set_rewritten(std::uint32_t file, const char* path) REJOIN_WORLD_HOOK;
int rejoin_world_rewritten(std::uint32_t file, char* path, unsigned room_bytes) REJOIN_WORLD_HOOK;
void rejoin_world_about_to_make_ghost(const char* path) REJOIN_WORLD_HOOK;
void rejoin_world_set_ghost(std::uint32_t file) REJOIN_WORLD_HOOK;
int rejoin_world_ghost(std::uint32_t file) REJOIN_WORLD_HOOK;
int rejoin_world_noted_ghost(unsigned n, char* path, unsigned room_bytes) REJOIN_WORLD_HOOK;
int rejoin_world_written_elsewhere(std::uint32_t file, int kept) REJOIN_WORLD_HOOK;

// One line for the user about a path, unless that path has had one.
void rejoin_world_tell(const char* name, const char* text) REJOIN_WORLD_HOOK;
}
