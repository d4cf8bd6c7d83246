#include "launcher/agent/forbidden_calls.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/base/process.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

// Returns whether `call`, in a child process, returns true. A filter may also kill the process.
bool can_child(bool (*call)()) {
  const pid_t child = fork();
  if (child == 0) _exit(call() ? 0 : 1);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

bool can_take_descriptors() {
  const int self = open_pidfd(getpid());
  int ends[2];
  return self >= 0 && pipe(ends) == 0 && syscall(SYS_pidfd_getfd, self, ends[0], 0) >= 0;
}

bool can_be_traced() { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0; }

constexpr const char* kPersonality = "personality(ADDR_NO_RANDOMIZE)";

}  // namespace

ForbiddenCalls find_forbidden_calls() {
  return {!can_child(fix_addresses), !can_child(can_take_descriptors), !can_child(can_be_traced)};
}

ForbiddenCalls find_forbidden_calls(const RunOptions& options) {
  ForbiddenCalls found;
  const bool writes = !options.checkpoint_directory.empty() || options.survive_host;
  const bool shows_stacks = !find_program("eu-stack").empty() || !find_program("gdb").empty();
  if (writes && options.snapshots.on()) found.personality = !can_child(fix_addresses);
  if (options.has_agents()) found.pidfd_getfd = !can_child(can_take_descriptors);
  if (shows_stacks) found.ptrace = !can_child(can_be_traced);
  return found;
}

std::vector<std::string> losses(const ForbiddenCalls& forbidden, const std::string& images) {
  std::vector<std::string> found;
  const auto lose = [&found](const char* call, const std::string& what) {
    found.push_back(std::string(call) + ", without which " + what);
  };
  if (forbidden.personality) lose(kPersonality, images);
  if (forbidden.pidfd_getfd) {
    lose("pidfd_getfd()", "small messages between hosts take several times as long");
  }
  if (forbidden.ptrace) lose("ptrace()", "no stacks of ranks that hang are shown");
  return found;
}

std::string what_forbids() {
  const bool filters = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
  return filters ? "a seccomp filter forbids" : "this system forbids";
}

std::string losses_text(const ForbiddenCalls& forbidden, const RunOptions& options) {
  const std::string& directory = options.checkpoint_directory;
  std::string images = directory.empty() ? "" : "no images are written to " + directory;
  if (options.survive_host)
    images += (images.empty() ? "" : ", and ") + std::string("the loss of a host ends the job");
  const std::vector<std::string> found = losses(forbidden, images);
  if (found.empty()) return {};
  std::string text;
  for (const std::string& loss : found) text += (text.empty() ? " " : "; and ") + loss;
  return what_forbids() + text + ". The profile of a container can allow it (docs/containers.md)";
}

std::string why_not_restored(const ForbiddenCalls& forbidden) {
  if (!forbidden.personality) return {};
  return what_forbids() + " " + kPersonality +
         ", without which images cannot be restored; the profile of a container can allow it "
         "(docs/containers.md)";
}

}  // namespace rejoin::launcher
