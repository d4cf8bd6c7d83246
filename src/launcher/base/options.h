// The options of ftrun, as data. The command line is parsed into these structs once
// (cli/options.h), complete() fills in what depends on this machine, and every part of the launcher
// reads them by const reference.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/grammar.h"

namespace rejoin::launcher {

enum class Binding { kAuto, kNone, kHwThread, kCore, kL1, kL2, kL3, kNuma, kSocket };

// One of the programs of a job, which are separated by ":".
struct ProgramOptions {
  // Absent until complete(): one for each processor; only with a single program.
  std::optional<std::uint32_t> ranks = {};
  std::vector<std::string> command = {};  // program and its arguments; never empty
  std::vector<std::pair<std::string, std::optional<std::string>>> exports =
      {};  // -x; no value: inherited
  std::string working_directory = {};
  std::optional<std::uint32_t> processors_each = {};  // number of processors of each rank
  std::vector<HostSlots> hosts = {};                  // empty: this machine
  bool names_this_host = false;                       // its list has no other host
  bool by_node = false;                               // RunOptions::by_node()
  bool fills_hosts = false;                           // `ranks` are all slots of these hosts
  std::string remote_shell = {};  // of the batch system that has named the hosts; empty: none
};

// How the output of ranks is shown.
struct OutputOptions {
  bool tagged = false;    // "[RANK]<stdout>: " before each line
  bool timed = false;     // the local time before each line
  bool merged = false;    // standard error of ranks goes to ftrun's standard output
  bool shown = true;      // false: only written to files
  bool commits = false;   // nothing is shown that may still become void
  std::string directory;  // where each rank has a file for each stream; empty: none
};

struct SnapshotOptions {
  enum class When : std::uint8_t { kAuto, kOff, kPeriod };
  When when = When::kAuto;
  std::uint64_t period_ns = 0;  // kPeriod
  // Growth of all ranks' journals together after which a snapshot is made. 0 until complete(): the
  // default.
  std::uint64_t every_bytes = 0;
  std::uint64_t memory_bytes = 0;  // of all images together; 0: no bound
  bool on() const { return when != When::kOff; }
};

// What is done when the replay of a rank differs from the first execution.
enum class OnDivergence : std::uint8_t {
  kRollBack,  // all ranks go back to a set of images; if there is none, the job ends
  kStop,      // the job ends
  kWarn,      // the job goes on with what was recorded
};

// What the nodes of a layout share.
enum class BetweenNodes : std::uint8_t {
  kMemory,    // everything: one journal
  kMessages,  // one journal, of which they use only messages
  kSockets,   // connections of their relays; each node has an agent and a journal of its own
};

struct RunOptions {
  std::vector<ProgramOptions> programs;  // never empty; ranks are numbered in their order
  OutputOptions output;
  bool standard_input = true;           // rank 0 reads ftrun's
  std::optional<cpu_set_t> processors;  // processors to use; absent: those of this process
  bool report_bindings = false;
  bool torch = false;  // also set torch.distributed's variables for ranks
  Binding binding = Binding::kAuto;
  std::optional<std::uint64_t> timeout_ns;

  std::uint32_t max_restarts = 4;  // of one rank
  bool restart = true;
  bool begin_again = false;  // at main, if nothing else helps
  OnDivergence on_divergence = OnDivergence::kRollBack;
  bool log_ops = false;
  bool libc_recording = true;
  std::string journal_directory;          // empty: memory
  std::uint64_t journal_limit_bytes = 0;  // 0 until complete(): from the machine's memory
  bool keep = false;                      // the journal, as a file
  std::string checkpoint_directory;       // empty: none
  bool resume = false;
  std::uint64_t image_period_ns = 10'000'000'000;  // of written images
  std::uint32_t sets_kept = 2;                     // of them
  bool compress_sets = false;
  // SIGTERM is a notice: the job's state is written, for so long at most, and the job ends.
  std::optional<std::uint64_t> grace_ns;
  std::uint64_t bootstrap_limit_bytes = std::uint64_t{256} << 20;
  SnapshotOptions snapshots;

  std::vector<KillOrder> kills;
  std::string events_path;  // empty: no event log
  bool core_dumps = false;
  std::uint64_t heartbeat_ns = 10'000'000'000;  // with an event log
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> notices;   // about options that were ignored
  std::vector<std::uint32_t> layout;  // the number of ranks of each node; empty: one node
  BetweenNodes between_nodes = BetweenNodes::kMemory;
  bool fabric = false;        // sockets, and what is sent goes through libfabric
  bool survive_host = false;  // the loss of one, if the job has several
  // With several hosts: one that is silent for longer is lost, and has ended its ranks. 0: there is
  // no lease, because ranks of a lost host do not run elsewhere.
  std::uint64_t lease_ns = 0;
  std::uint32_t spares = 0;       // hosts that run no rank until another one is lost
  bool beside = false;            // without a spare, its ranks go on on another host of the job
  std::string remote_shell = {};  // empty until complete()
  bool encrypt = false;           // what hosts send to each other
  // [ADDRESS]:PORT at which agents join; empty: ftrun starts them.
  std::string listen = {};
  std::string secret_file = {};             // of --listen; empty: the environment may name one
  std::uint64_t join_ns = 300'000'000'000;  // that agents have to join
  std::vector<std::string>
      hosts;  // of each node, as the user named it; empty: all are this machine. With --listen,
              // names may be empty until the agents have joined
  std::vector<std::string> spare_hosts;  // likewise; complete()

  // The number of ranks of the job. REQUIRES complete().
  std::uint32_t ranks() const {
    std::uint32_t all = 0;
    for (const ProgramOptions& program : programs) all += *program.ranks;
    return all;
  }
  // The index of the program that a rank runs. REQUIRES complete(), and rank < ranks().
  std::size_t number_of_program(std::uint32_t rank) const {
    std::size_t number = 0;
    for (; rank >= *programs[number].ranks; ++number) rank -= *programs[number].ranks;
    return number;
  }
  const ProgramOptions& program_of(std::uint32_t rank) const {
    return programs[number_of_program(rank)];
  }
  // Whether each node has an agent of its own. REQUIRES complete().
  bool has_agents() const { return between_nodes == BetweenNodes::kSockets; }
  // Whether agents connect to ftrun. They are not started by it.
  bool agents_join() const { return !listen.empty(); }
  // Whether ranks go to the nodes in turn, as far as each has room (--map-by node); else they fill
  // one after the other.
  bool by_node() const {
    return std::any_of(programs.begin(), programs.end(),
                       [](const ProgramOptions& p) { return p.by_node; });
  }
  // Where a rank is in the layout. REQUIRES complete(), and rank < ranks().
  struct Place {
    std::uint32_t node;
    std::uint32_t rank, size;  // on its node
  };
  Place place_of(std::uint32_t rank) const {
    if (layout.empty()) return {0, rank, ranks()};
    std::uint32_t node = 0;
    if (by_node()) {
      for (std::uint32_t turn = 0;; ++turn) {
        for (node = 0; node < layout.size(); ++node) {
          if (layout[node] > turn && rank-- == 0) return {node, turn, layout[node]};
        }
      }
    }
    for (; rank >= layout[node]; ++node) rank -= layout[node];
    return {node, rank, layout[node]};
  }
  // The lowest rank of a node of the layout. Each has one.
  std::uint32_t first_rank_of(std::uint32_t node) const {
    if (by_node()) return node;
    return std::accumulate(layout.begin(), layout.begin() + node, std::uint32_t{0});
  }
};

// The ranks of one host, in ascending order.
using LocalRanks = std::vector<std::uint32_t>;
// All `ranks` ranks of a job that has one host.
inline LocalRanks all_local(std::uint32_t ranks) {
  LocalRanks local(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) local[r] = r;
  return local;
}

struct InspectOptions {
  std::vector<std::string> files;
  std::optional<std::uint32_t> rank;
  std::uint64_t limit = 0;  // records of each communicator that are printed; 0 = all
  bool json = false;
};

struct CheckOptions {
  std::string program;
};

// ftrun agent --join
struct AgentOptions {
  std::string join;         // HOST:PORT of ftrun
  std::string secret_file;  // empty: the environment names one
  std::string name;         // of this host, in the job
  std::string address;      // of this host, for the others; empty: that of the connection to ftrun
  std::uint64_t join_ns = 300'000'000'000;  // until ftrun has to be there
};

}  // namespace rejoin::launcher
