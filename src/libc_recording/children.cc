// Child processes: system, popen, fork, vfork and posix_spawn.
//
// A replay has to start the same children again, because the program reads their output and exit
// codes and because ftrun counts their output as the rank's. Their effects on files are then
// repeated. Each start is recorded before it is made, and the user is told when a replay repeats
// one.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libc_recording/files.h"
#include "libc_recording/real.h"

namespace rejoin::libc_recording {
namespace {

REJOIN_REAL(system);
REJOIN_REAL(popen);
REJOIN_REAL(fork);
REJOIN_REAL(posix_spawn);
REJOIN_REAL(posix_spawnp);

// Values are part of the journal's format.
enum class Starter : std::uint32_t { kSystem, kPopen, kFork, kVfork, kSpawn };

const char* name_of(Starter starter) {
  static constexpr const char* kNames[] = {"system", "popen", "fork", "vfork", "posix_spawn"};
  return kNames[static_cast<std::size_t>(starter)];
}

// Records the start of a child, or reports that a replay repeats it. To be called before the child
// is started. `what`: the command; null for a copy of this program.
void note_start(const void* caller, Starter starter, const char* what) {
  if (!observing(caller)) return;
  Event e{ObservationKind::kChild};
  e.detail = static_cast<std::uint32_t>(starter);
  if (ask(e) == Answer::kLive) return record(e);
  constexpr int kMostShown = 200;
  const char* quote = what != nullptr ? "\"" : "";
  const bool cut = what != nullptr && strlen(what) > kMostShown;
  char text[kMostShown + 256];
  snprintf(text, sizeof text,
           "starts a child process again: %s(%s%.*s%s%s). The child changes files a second time; "
           "see docs/libc-recording.md",
           name_of(starter), quote, kMostShown, what != nullptr ? what : "", cut ? "..." : "",
           quote);
  rejoin_libc_tell_of_replay("child processes", text);
}

}  // namespace
}  // namespace rejoin::libc_recording

using namespace rejoin::libc_recording;

REJOIN_REPLACES int system(const char* command) {
  if (command != nullptr) note_start(REJOIN_CALLER, Starter::kSystem, command);
  return real_system(command);
}
REJOIN_REPLACES FILE* popen(const char* command, const char* mode) {
  note_start(REJOIN_CALLER, Starter::kPopen, command);
  return real_popen(command, mode);
}
REJOIN_REPLACES pid_t fork() noexcept {
  note_start(REJOIN_CALLER, Starter::kFork, nullptr);
  return real_fork();
}
REJOIN_REPLACES int posix_spawn(pid_t* pid, const char* path,
                                const posix_spawn_file_actions_t* actions,
                                const posix_spawnattr_t* attributes, char* const arguments[],
                                char* const environment[]) {
  note_start(REJOIN_CALLER, Starter::kSpawn, path);
  return real_posix_spawn(pid, path, actions, attributes, arguments, environment);
}
REJOIN_REPLACES int posix_spawnp(pid_t* pid, const char* file,
                                 const posix_spawn_file_actions_t* actions,
                                 const posix_spawnattr_t* attributes, char* const arguments[],
                                 char* const environment[]) {
  note_start(REJOIN_CALLER, Starter::kSpawn, file);
  return real_posix_spawnp(pid, file, actions, attributes, arguments, environment);
}

// vfork() returns twice on the same stack, so it has to be reached by a jump, with no frame of this
// library on the stack.
extern "C" __attribute__((visibility("hidden"))) void* rejoin_begin_vfork(const void* caller) {
  static void* real;
  note_start(caller, Starter::kVfork, nullptr);
  if (real == nullptr) real = dlsym(RTLD_NEXT, "vfork");
  return real;
}
asm(R"(
    .text
    .globl vfork
    .type vfork, @function
vfork:
    .cfi_startproc
    endbr64
    movq (%rsp), %rdi
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call rejoin_begin_vfork
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size vfork, .-vfork
)");
