// What happened to a rank: types that all parts of the launcher share, and their texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rejoin::launcher {

// How a process ended.
struct Cause {
  enum class Kind : std::uint8_t { kExit, kSignal, kUnknown };
  Kind kind = Kind::kUnknown;
  int value = 0;                 // exit code or signal
  bool oom = false;              // the kernel's out-of-memory killer did it
  std::uint64_t peak_bytes = 0;  // largest resident size; 0 = not known

  bool same_as(const Cause& other) const { return kind == other.kind && value == other.value; }
  // Whether the program itself may have caused it, so that a restart may end in the same way. KILL
  // and TERM come from outside.
  bool is_fault() const;
};
// "signal 11, Segmentation fault", "exit code 3", "a cause that its parent process kept".
std::string to_text(const Cause& cause);
// Returns what a shell would report: the exit code, or 128 + signal; 1 if not known.
int exit_code_of(const Cause& cause);

// A process's own report of the signal that ended it.
struct Fault {
  std::string text;  // "address 0x10 is not mapped"; may be empty
  std::string site;  // call site in the program, as in Position; empty: there was no report
  std::vector<std::string> stack;  // "#0 SITE", "#1 to #2 in Rejoin"; the innermost first
};

// A rank's position in its own program order.
struct Position {
  std::uint64_t context = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ordinal = 0;  // MPI operations entered by this incarnation; 0 = none yet
  bool inside = false;        // in the operation, not after it
  bool live = false;          // has executed an operation that no record answered
  std::uint64_t replayed = 0;
  std::string operation;  // "Allreduce"; empty if not known
  std::string site;       // "{RANK:MODULE:PLACE}" as in wire/messages.h; empty if not known

  bool same_as(const Position& other) const {
    return context == other.context && sequence == other.sequence && ordinal == other.ordinal;
  }
};
// "in Allreduce #12", "after Allreduce #12", "before its first MPI operation".
std::string to_text(const Position& position);

// "0.05 ms", "13.1 ms", "6.4 s", "300 s".
std::string duration_text(std::uint64_t ns);
// "25,000".
std::string count_text(std::uint64_t n);

// What a host says of the images of its ranks that belong to a set of several hosts.
enum class SetNews : std::uint8_t {
  kMade,       // all of them are made
  kCannot,     // one cannot be made, or is lost: the others are of use one by one
  kDied,       // a rank has died before the set was complete
  kMissing,    // one will not come: its rank could not make this one, or has finalized, or it has
               // ended
  kStored,     // this host's part of the set is whole at its partner
  kNotStored,  // it will not be
  kSettled,    // the order to keep them, or to give them up, was carried out
};
inline constexpr std::uint32_t kSetNewsKinds = 7;

// What an incarnation started from.
struct RecoveryPoint {
  enum class Kind : std::uint8_t { kMain, kSnapshot, kWrittenImage, kCheckpoint };
  static constexpr std::size_t kKinds = 4;
  Kind kind = Kind::kMain;
  // kSnapshot: how long before the death it was made, in nanoseconds. kCheckpoint: its number.
  std::uint64_t value = 0;
  bool operator==(const RecoveryPoint&) const = default;
};
// "the snapshot 0.6 s before its death", "its written image", "checkpoint 3"; empty: main.
std::string to_text(const RecoveryPoint& point);
// "main", "snapshot", "written", "checkpoint", as events name them.
const char* name_of(RecoveryPoint::Kind kind);

// How long the recovery of a rank took, from its death on.
struct Recovery {
  std::uint64_t start_ns = 0;      // until its process had registered
  std::uint64_t computing_ns = 0;  // of the program itself, between calls of MPI
  std::uint64_t replay_ns = 0;     // in calls of MPI that the journal answered
};

// What the protection against deaths has cost a job.
struct Totals {
  std::uint64_t journal_peak_bytes = 0;
  std::uint64_t snapshots = 0;          // kept at any time, of all ranks
  std::uint64_t snapshot_cost_ns = 0;   // of the rank with the highest cost
  std::uint64_t exposed_ns = 0;         // longest time that a rank went without a newer snapshot
  std::uint64_t images_peak_bytes = 0;  // memory of the images of all ranks
};

// State of the snapshots of a job at one moment.
struct Protection {
  std::uint64_t snapshots = 0;      // completed since the job began
  std::uint64_t oldest_ns = 0;      // age of the oldest among the ranks' newest snapshots
  std::uint32_t ranks_without = 0;  // running ranks without a snapshot
  std::uint64_t image_bytes = 0;    // memory of the images, and
  std::uint64_t journal_bytes = 0;  // of the journal, measured each 0.2 s
};

// Where one rank stands.
struct Stood {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;    // 0: ended
  std::string state = {};  // of the process: "sleeping"
  std::string where = {};  // "in Allreduce #12 at solver.c:3::main"
  std::vector<std::string> stack = {};
  bool over = false;                               // it has called MPI_Finalize
  std::optional<std::uint64_t> image_age_ns = {};  // of its newest image; absent: it has none
};

// Where the ranks of a host stand.
struct StoodOnHost {
  std::vector<Stood> ranks;
  bool images = false;      // images are made
  std::string remark = {};  // how to see more; a line, or empty
  bool awaited = false;     // no line for the user is shown before this
};

// What deaths have cost a job.
struct Summary {
  struct Place {
    Cause cause;
    std::string where;         // "in Allreduce"
    std::string site;          // of the first death, from its Position or its Fault
    std::uint32_t deaths = 0;  // of the same cause at the same place
    std::map<std::uint32_t, std::uint32_t> ranks;  // deaths of each
  };
  std::uint32_t deaths = 0;
  std::uint32_t restarts = 0;
  std::array<std::uint32_t, RecoveryPoint::kKinds> returns = {};  // by kind
  std::uint64_t lost_ns = 0;     // time in which at least one rank was away
  std::uint32_t rollbacks = 0;   // all ranks have gone back
  std::uint64_t undone_ns = 0;   // by that, of all ranks together
  std::uint32_t beginnings = 0;  // the job has begun again
  std::uint64_t longest_ns = 0;  // longest time that one rank was away
  std::uint32_t longest_rank = 0;
  Totals totals;
  std::vector<Place> places;
};

// The facts at the beginning of the event log.
struct JobFacts {
  struct Program {
    std::uint32_t ranks;
    std::vector<std::string> command;
  };
  std::vector<Program> programs;
  std::string version;
  std::string host;
};

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
  Fault fault = {};  // with `cause`
  std::optional<std::uint64_t> replayed_operations = {};
  std::optional<double> took_ms = {};
  std::optional<Recovery> recovery = {};
  RecoveryPoint from = {};                             // with `took_ms`
  std::optional<std::uint64_t> known_operations = {};  // entered by earlier incarnations
  std::optional<std::uint64_t> left_ns = {};           // an estimate
  std::optional<Summary> summary = {};
  std::shared_ptr<const JobFacts> job = {};
  std::optional<Totals> totals = {};
  std::optional<Protection> protection = {};
  std::optional<int> code = {};
  std::string text = {};
  std::optional<std::uint64_t> checkpoint = {};  // its number
  std::optional<std::uint64_t> bytes = {};       // of files
  std::uint64_t written_ns = 0;                  // with `bytes`: how long that took
  std::optional<std::uint64_t> set = {};         // that all ranks have gone back to
  std::uint64_t age_ns = 0;                      // with `set`: how old it was
  std::optional<std::uint64_t> cost_ns = {};     // upper bound of what storing the set cost the job
  std::optional<std::uint64_t> stopped_ns = {};  // how long all ranks were stopped
};

}  // namespace rejoin::launcher
