// What happened to a rank, in words that every part of the launcher shares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rejoin::launcher {

// How a process ended.
struct Cause {
  enum class Kind : std::uint8_t { kExit, kSignal, kUnknown };
  Kind kind = Kind::kUnknown;
  int value = 0;                 // exit code or signal
  bool oom = false;              // the kernel's out-of-memory killer did it
  std::uint64_t peak_bytes = 0;  // largest resident size; 0 = not known

  bool same_as(const Cause& other) const { return kind == other.kind && value == other.value; }
  // Could be the program's own doing: a restart may end the same way. KILL and TERM come from
  // outside.
  bool is_fault() const;
};
// "signal 11, Segmentation fault", "exit code 3", "a cause that its parent process kept".
std::string to_text(const Cause& cause);
// What a shell would report: the exit code, or 128 + signal; 1 if not known.
int exit_code_of(const Cause& cause);

// Where a rank stands in its own program order.
struct Position {
  std::uint64_t context = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ordinal = 0;  // MPI operations entered by this incarnation; 0 = none yet
  bool inside = false;        // in the operation, not after it
  bool live = false;          // has done an operation that no record answered
  std::uint64_t replayed = 0;
  std::string operation;  // "Allreduce"; empty if not known
  std::string site;       // "{RANK:MODULE:PLACE}" as in wire/messages.h; empty if not known

  bool same_as(const Position& other) const {
    return context == other.context && sequence == other.sequence && ordinal == other.ordinal;
  }
};
// "in Allreduce #12", "after Allreduce #12", "before its first MPI operation".
std::string to_text(const Position& position);

// One line of the event log.
struct Record {
  std::string event;
  std::uint64_t at_ns = 0;  // since the job's start
  std::optional<std::uint32_t> rank = {};
  std::uint32_t incarnation = 0;  // of `rank`
  std::uint32_t epoch = 0;
  std::int64_t pid = 0;  // 0 = none
  std::optional<Position> position = {};
  std::optional<Cause> cause = {};
  std::optional<std::uint64_t> replayed_operations = {};
  std::optional<double> took_ms = {};
  std::optional<int> code = {};
  std::string text = {};
};

}  // namespace rejoin::launcher
