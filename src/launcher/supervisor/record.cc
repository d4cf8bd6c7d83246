#include "launcher/supervisor/record.h"

#include <signal.h>
#include <string.h>

namespace rejoin::launcher {

bool Cause::is_fault() const {
  if (kind == Kind::kExit) return true;
  return kind == Kind::kSignal && value != SIGKILL && value != SIGTERM;
}

std::string to_text(const Cause& cause) {
  switch (cause.kind) {
    case Cause::Kind::kExit:
      return "exit code " + std::to_string(cause.value);
    case Cause::Kind::kSignal: {
      if (cause.oom) return "signal 9, killed by the OOM killer";
      const char* name = sigdescr_np(cause.value);
      return "signal " + std::to_string(cause.value) + (name ? std::string(", ") + name : "");
    }
    case Cause::Kind::kUnknown:
      break;
  }
  return "a cause that only its parent process knows";
}

int exit_code_of(const Cause& cause) {
  if (cause.kind == Cause::Kind::kExit) return cause.value;
  if (cause.kind == Cause::Kind::kSignal) return 128 + cause.value;
  return 1;
}

std::string to_text(const Position& position) {
  if (position.ordinal == 0) return "before its first MPI operation";
  const std::string name = position.operation.empty() ? "operation" : position.operation;
  return (position.inside ? "in " : "after ") + name + " #" + std::to_string(position.ordinal);
}

}  // namespace rejoin::launcher
