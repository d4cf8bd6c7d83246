// ftrun's command line.
#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/snapshot_policy.h"
#include "launcher/base/grammar.h"
#include "launcher/base/result.h"
#include "launcher/output/output_options.h"

namespace rejoin::launcher {

enum class Binding { kAuto, kNone, kHwThread, kCore, kL1, kL2, kL3, kNuma, kSocket };

// One of the programs of a job, which are separated by ":".
struct ProgramOptions {
  std::optional<std::uint32_t> ranks;  // nothing: one per processor; only with a single program
  std::vector<std::string> command;    // program and its arguments; never empty
  std::vector<std::pair<std::string, std::optional<std::string>>>
      exports;  // -x; no value: inherited
  std::string working_directory;
  std::optional<std::uint32_t> processors_each;  // number of processors of each rank
};

struct RunOptions {
  std::vector<ProgramOptions> programs;  // never empty; ranks are numbered in their order
  OutputOptions output;
  bool standard_input = true;           // rank 0 reads ftrun's
  std::optional<cpu_set_t> processors;  // processors to use; nothing: those of this process
  bool report_bindings = false;
  bool torch = false;  // also set torch.distributed's variables for ranks
  Binding binding = Binding::kAuto;
  std::optional<double> timeout_s;

  std::uint32_t max_restarts = 4;
  bool restart = true;
  bool stop_on_divergence = true;
  bool log_ops = false;
  bool libc_recording = true;
  std::string journal_directory;
  std::optional<std::uint64_t> journal_limit_bytes;  // nothing: from the machine's memory
  bool keep = false;
  std::string checkpoint_directory;
  bool resume = false;
  double images_every_s = 10;
  std::uint64_t bootstrap_limit_bytes = std::uint64_t{256} << 20;
  SnapshotOptions snapshots;

  std::vector<KillOrder> kills;
  std::string events_path;
  bool core_dumps = false;
  double heartbeat_s = 10;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> notices;  // about options that were ignored
};

struct InspectOptions {
  std::vector<std::string> files;
  std::optional<std::uint32_t> rank;
  std::uint64_t limit = 0;  // records of each communicator that are printed; 0 = all
  bool json = false;
};

struct CheckOptions {
  std::string program;
};

// Text that the user asked for (help, version): goes to standard output, with exit code 0.
struct Answer {
  std::string text;
};

using Command = std::variant<RunOptions, InspectOptions, CheckOptions, Answer>;

// "0.1.0, revision 0123456789".
std::string version_text();

// Parses everything up to the program's name; the rest are the program's arguments. Errors are one
// line, with exit code kExitUsage. mpirun's long options with a single dash are accepted.
Result<Command> parse_command_line(int argc, const char* const* argv);

}  // namespace rejoin::launcher
