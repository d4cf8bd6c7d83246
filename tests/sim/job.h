// Runs simulated jobs over the same memory: a world's program, executed by BasicRank over SimHost
// (the code that runs in real ranks), with deaths as planned, and judged by the oracle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent.h"
#include "engine/transport/sim/simulation.h"
#include "history.h"
#include "message_oracle.h"
#include "oracle.h"
#include "probes.h"
#include "recovery/rank.h"
#include "segments.h"
#include "version_writer.h"

namespace rejoin::sim {

using engine::Death;
using engine::Ending;
using engine::Point;
using engine::SimHost;
using engine::SimOptions;
using journal::Step;
using SimRank = recovery::BasicRank<SimHost>;

class Player;

enum class Disagreement : std::uint8_t {
  kNone,
  kEverywhere,  // every member gets the error, and all members about the same operations
  kSomewhere,   // a rank that did not wait (the root of a broadcast, a sender) may continue without
                // an error
};

// A program, and the options of the job that runs it.
struct World {
  std::string name;
  std::uint32_t ranks;
  // The program of each rank; depends only on what the rank receives.
  std::function<void(Player&)> body;
  std::uint32_t nodes = 1;  // rank r is on node r % nodes
  // The nodes share only messages. Each makes attempts of its own, so contributions are not tagged.
  bool apart = false;
  // Each node has a segment of its own; relays join them. Also apart.
  bool segments = false;
  Disagreement disagreement = Disagreement::kNone;
  std::uint64_t journal_limit_bytes = 0;
  bool checkpoints = false;      // the program makes checkpoints
  bool writes_versions = false;  // its versions are written to files
  // The period of the agent's snapshots, while ranks make progress; 0: never. If it is set, the
  // ranks' journals are small.
  std::uint64_t snapshot_every_turns = 0;
  // The journals have a limit. Images, of which none is refused, keep them below it.
  bool reads_directly = true;  // ranks may read memory of others, in most runs
  bool never_full = false;
  // What a rank's journal takes at most, so that memory is used again; 0: anything.
  std::uint64_t most_journal_bytes = 0;
  std::uint64_t unfrozen = 0;  // the ranks of which no image can be made, one bit each
  // How far a collective's sender may be ahead; no world has more.
  std::size_t ahead_bytes = 4 << 20;
  // The program is not deterministic: a replay may diverge, which ends the job, and nothing is
  // compared with a run without failures (history.h).
  bool bits = false;
  // If a replay diverges, all ranks go back to their images.
  bool goes_back = false;
  // Ranks have different collectives outstanding, so contributions are not tagged with their
  // attempts.
  bool untagged = false;
  bool may_deadlock = false;  // a program with `bits` may deadlock in some runs without deaths
  bool unordered = false;     // results depend on the schedule: receives from any source
  struct Kill {               // a death as of --kill
    std::uint32_t rank;
    std::uint32_t incarnation;
    std::uint64_t ordinal;
    journal::Moment moment;
  };
  std::vector<Kill> kills = {};
  std::vector<Probe> must_reach = {};  // probes that a sweep of single deaths must reach
  std::string says = {};               // of a swarm: what was drawn
};

struct Plan {
  SimOptions options;
  bool tagged = false;  // contributions depend on incarnation and attempt
  std::vector<Death> deaths;
  std::uint32_t max_restarts = 1 << 16;  // largest number of restarts of a rank
  launcher::ImageRule left_out = launcher::ImageRule::kNone;
};
// Everything that a seed determines.
Plan plan_of(std::uint64_t seed);

struct Result {
  Ending ending = Ending::kFinished;
  std::string why;
  std::uint64_t hash = 0;  // hash of the trace
  std::uint64_t turns = 0;
  std::uint64_t turns_after_last_death = 0;
  std::uint32_t deaths = 0;
  bool lost = false;      // a rank died with its image, and the agent had to end the job
  bool diverged = false;  // a replay of a program that is not deterministic diverged
  bool full = false;      // the journal was full when the rank died whose death ended the job
  std::vector<engine::Simulation::Rank> ranks;
  std::vector<engine::Simulation::Rank> at_last_death;
  // For each point: a death at the first time that a first incarnation reached it; step 0: none
  // reached it.
  std::array<Death, engine::kPoints> first_at = {};
  bool good() const { return ending == Ending::kFinished; }
  bool acceptable() const {
    return good() || diverged || ((lost || full) && ending == Ending::kStopped);
  }
};

class Job : private engine::SimObserver {
 public:
  explicit Job(const World& world);
  ~Job() override;

  const World& world() const { return world_; }
  Result run(const Plan& plan);
  // Returns the last steps of every rank in a run with the same plan, for diagnostics.
  std::string transcript(const Plan& plan, std::size_t lines_a_rank);

  const Probes& probes() const { return probes_; }  // of all runs
  // The result of the run without failures, untagged, in which ranks take turns.
  const Result& reference() const { return reference_result_; }
  std::uint64_t runs() const { return runs_; }
  std::byte* base() const { return segments_.job(); }  // the segment after the newest run

  // The following functions are called by players, inside fibers. fail_if() does not return if
  // `why` is not null.
  Oracle& oracle() { return oracle_; }
  MessageOracle& messages() { return messages_; }
  Histories& histories() { return histories_; }
  bool tagged() const { return tagged_; }
  void fail_if(const char* why) {
    if (why != nullptr) simulation_.fail(why);
  }
  engine::Simulation& simulation() { return simulation_; }
  void hit(Probe p) { probes_.hit(p); }
  void begin_operation(const SimHost& host, Group& g, std::uint64_t sequence, bool bcast,
                       bool follower);
  void end_operation(const SimHost& host, bool mismatch);
  std::uint64_t posts(std::uint32_t rank) const { return watched_[rank].posts; }

 private:
  // The newest step of a rank, as far as probes need it.
  struct Watched {
    Point before = Point::kStart;
    bool contributed = false;
    bool progressed = false;
    bool recorded = false;
    bool bcast = false;
    bool follower = false;
    bool inside = false;
    bool polls = false;
    std::uint64_t posts = 0;
    Group* group = nullptr;
    std::uint64_t sequence = 0;
    Player* player = nullptr;
  };
  // The memory of the newest incarnation of a rank, of which its images are copies.
  struct Private {
    Player* player = nullptr;
    journal::Arena* arena = nullptr;
    std::byte* memory = nullptr;
  };

  void run(SimHost& host) override;
  void on_point(SimHost& host, Point p) override;
  void on_death(SimHost& host, Point p) override;
  void on_agent() override;
  std::vector<std::span<std::byte>> on_image(SimHost& host, std::uint32_t image) override;
  void on_woken(SimHost& host, std::uint32_t image) override;
  std::byte* segment_of(std::uint32_t rank) override { return segments_.of(rank); }
  bool has_relays() override { return world_.segments; }
  bool on_relay(engine::SimRandom& random) override;
  void on_tell(SimHost& host, wire::MessageType type, const char* text) override;
  const char* forbids_image(std::uint32_t rank) const;
  void look_at_decision(bool by_agent);
  void probe(const SimHost& host, Watched& w, Point p);
  void probe_record(Watched& w);
  Result run_judged(const Plan& plan, const Oracle* reference);
  const char* judge_end();
  bool diverged(const Result& result);

  void wipe_segment();
  std::uint64_t turn_limit(const Plan& plan) const;
  Mapping& memory_of_next_process();

  const World world_;
  Segments segments_;
  Probes probes_;
  Agent agent_;
  engine::Simulation simulation_;
  Oracle oracle_;
  VersionWriter writer_;
  MessageOracle messages_;
  Histories histories_;
  std::string why_not_;  // the result of judge_end()
  Oracle reference_;
  Result reference_result_;
  std::vector<std::unique_ptr<Mapping>> memory_;  // of each incarnation: arena, then buffers
  std::uint32_t processes_ = 0;
  std::vector<Watched> watched_;
  std::uint64_t times_back_ = 0;  // Agent::times_back() when on_agent() was called last
  std::vector<Private> private_;
  std::vector<Watched> images_;  // the state of their processes
  std::array<Death, engine::kPoints> first_at_ = {};
  bool tagged_ = false;
  bool killed_ = false;
  journal::Return decided_ = journal::Return::kUndecided;
  std::uint64_t runs_ = 0;
};

}  // namespace rejoin::sim
