#include "launcher/base/record.h"

#include <signal.h>
#include <string.h>

#include <cstdio>

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

std::string to_text(const RecoveryPoint& point) {
  switch (point.kind) {
    case RecoveryPoint::Kind::kMain:
      break;
    case RecoveryPoint::Kind::kSnapshot:
      return "the snapshot " + duration_text(point.value) + " before its death";
    case RecoveryPoint::Kind::kWrittenImage:
      return "its written image";
    case RecoveryPoint::Kind::kCheckpoint:
      return "checkpoint " + std::to_string(point.value);
  }
  return {};
}

const char* name_of(RecoveryPoint::Kind kind) {
  switch (kind) {
    case RecoveryPoint::Kind::kMain:
      return "main";
    case RecoveryPoint::Kind::kSnapshot:
      return "snapshot";
    case RecoveryPoint::Kind::kWrittenImage:
      return "written";
    case RecoveryPoint::Kind::kCheckpoint:
      return "checkpoint";
  }
  return "?";
}

std::string duration_text(std::uint64_t ns) {
  const double ms = static_cast<double>(ns) / 1e6;
  char text[32];
  if (ms < 999.95) {
    std::snprintf(text, sizeof text, ms < 0.1 ? "%.2f ms" : "%.1f ms", ms);
  } else {
    std::snprintf(text, sizeof text, ms < 99'950 ? "%.1f s" : "%.0f s", ms / 1e3);
  }
  return text;
}

std::string count_text(std::uint64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace rejoin::launcher
