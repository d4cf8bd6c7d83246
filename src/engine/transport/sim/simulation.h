// A whole job in one thread: its ranks are fibers, its agent is a part of the scheduler. At every
// step of a rank the scheduler may go on with anybody else, or kill the rank there. One seed
// decides all of it; time is the number of turns.
//
// A turn is what one rank does between two of its points (point.h), or one action of the agent:
//
//     death (noticed, reaped) -> publish_death -> ring each rank -> admit and start the next
//     incarnation
//
// with any number of turns of others between them. A killed rank's fiber is abandoned; what it
// wrote to the segment stays, and what it had not published yet then holds noise (half_written.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wire/messages.h"
#include "engine/segment.h"
#include "engine/transport/sim/fiber.h"
#include "engine/transport/sim/host.h"
#include "engine/transport/sim/point.h"
#include "engine/transport/sim/random.h"

namespace rejoin::engine {

enum class Schedule : std::uint8_t {
  kRoundRobin,  // everybody in turn
  kRandom,      // anybody
  kBursts,      // anybody, for a while
  kPriorities,  // the first that can, in an order that changes now and then
  kCount,
};

// A rule that the simulated agent or host breaks, to prove that the simulator notices.
enum class Mutant : std::uint8_t {
  kNone,
  kRespawnBeforeBreak,  // the next incarnation runs before the death is published
  kSilentDeath,         // nobody is rung after a death
  kNoEpoch,             // everybody is rung, but no epoch is published
  kLostRing,            // a rank's ring sets no bell
  kForgetfulSleep,      // a ring between the last look and the sleep is forgotten
  kNotReaped,           // the old process runs on beside its replacement
  kTornCommit,          // a record that is half written at a death is visible
  kJournalLost,         // the replacement finds no records of its predecessor
  kLoadsTooNew,         // a rank loads a version that some rank has not prepared
  kPreparesEarly,       // a version is called prepared before its models are whole
  kForgetsTooMuch,      // records are forgotten one version too early
  kAsksNobody,          // a call like one of the set-up is taken for it without a look at members
  kCount,
};

struct SimOptions {
  std::uint64_t seed = 0;
  Schedule schedule = Schedule::kRoundRobin;
  unsigned polls = 2;                   // looks before a sleep
  unsigned burst_turns = 16;            // kBursts: on average
  std::uint64_t agent_delay_turns = 0;  // at most, before each action of the agent
  bool agent_last = false;              // the agent acts only when no rank can
  bool split_death = false;             // death_epoch is visible some turns before the epoch
  bool spurious_wakes = false;
  Mutant mutant = Mutant::kNone;
  std::uint64_t turn_limit = 1 << 22;  // since the last death or start: more is no progress
};

// The options that a seed stands for. 0: round robin, prompt agent.
SimOptions options_of(std::uint64_t seed);

// Kills a rank when its incarnation `life` reaches its step-th point (from 1), or, with step == 0,
// at a time wherever it is then.
struct Death {
  std::uint32_t rank = 0;
  std::uint32_t life = 0;
  std::uint64_t step = 0;
  std::uint64_t time = 0;
  bool operator==(const Death&) const = default;
};

enum class Ending : std::uint8_t {
  kFinished,
  kStopped,     // a rank said that the job cannot go on
  kDeadlock,    // nobody can take a turn
  kNoProgress,  // turn_limit
  kViolation,   // fail()
};

// What the simulated job runs, and who watches it. Called outside fibers but for run().
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void run(SimHost& host) = 0;  // the program of one incarnation; inside its fiber
  virtual void on_point(SimHost& host, Point p) = 0;  // reached, before whatever comes next
  virtual void on_death(SimHost& host, Point p) = 0;
  virtual void on_agent() = 0;  // after an action of the agent
  virtual void on_tell(SimHost& host, wire::MessageType type, const char* text, std::uint64_t value) = 0;
};

class Simulation {
 public:
  // One line of the trace. `text` is not null for notes.
  struct Event {
    std::uint64_t time;
    std::uint32_t rank;
    std::uint32_t life;
    Point point;
    const char* text;
    std::uint64_t a, b;
  };
  struct Rank {
    std::uint32_t life = 0;   // newest incarnation
    std::uint64_t steps = 0;  // points that it has reached
    bool dead = false;        // and not started again yet
    bool done = false;
  };

  // `base`: a formatted segment. Both must outlive the simulation.
  Simulation(std::byte* base, SimObserver& observer);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs the job in `base`, freshly formatted, to its end.
  Ending run(const SimOptions& options, const std::vector<Death>& deaths);

  // Keeps the whole trace of the next runs, not just its hash.
  void keep_trace(bool keep) { keeps_trace_ = keep; }

  const std::string& why() const { return why_; }  // of anything but kFinished
  std::uint64_t time() const { return time_; }
  std::uint64_t hash() const { return hash_; }  // of the trace
  std::uint32_t deaths() const { return deaths_; }
  std::uint64_t time_of_last_death() const { return last_death_; }
  std::uint64_t spurious_wakes() const { return spurious_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::vector<Rank>& ranks_at_last_death() const { return at_last_death_; }
  const std::vector<Event>& trace() const { return trace_; }

  // A rank has made a communicator: what a death may spoil.
  void add_block(std::uint32_t rank, ContextBlock* block);
  unsigned spoilt() const { return spoilt_; }  // unpublished places filled with noise so far

  // A rule is broken: the run ends with kViolation. Returns only outside fibers.
  void fail(const char* why);
  // A line in the trace, and in its hash.
  void note(const SimHost& host, const char* text, std::uint64_t a, std::uint64_t b);

 private:
  friend class SimHost;
  enum class Act : std::uint8_t { kBreak, kRing, kAdmit, kEnd };

  struct Life;  // one incarnation
  // What a mutant has written into words of a rank, and what they really are.
  struct Lie {
    RankControl* control;
    std::uint64_t prepared, safe;
    std::uint32_t initialized;
  };
  struct Funeral {
    std::uint32_t rank;
    const Act* act;          // the next one
    std::uint64_t due;       // when it may be done
    std::uint32_t rung = 0;  // ranks
    bool half_broken = false;
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // Ranks.
  void prepare(const SimOptions& options, const std::vector<Death>& deaths);
  void start(std::uint32_t rank, std::uint32_t life);
  static void live(void* life);
  void rank_turn(Life& life);
  void sleep_or_go_on(Life& life);
  void kill(Life& life);
  void tear_commit(std::uint32_t rank);
  void make_ready(Life& life);
  void not_ready(Life& life);
  void wake(std::uint32_t rank);
  bool is_due(const Life& life) const;
  void kill_by_time();
  void wake_spuriously();

  // Inside fibers.
  void reach(std::uint32_t actor, Point p);
  [[noreturn]] void leave_for_good(std::uint32_t actor);

  // Agent.
  bool agent_is_due() const;
  bool all_only_ask() const;
  void agent_turn();
  void act(Funeral& f);
  void lose_journal(std::uint32_t rank);

  // Scheduler.
  std::uint32_t pick();
  std::uint32_t pick_in_turn(bool agent_can);  // these: REQUIRES somebody ready
  std::uint32_t pick_any(bool agent_can);
  std::uint32_t pick_first(bool agent_can);
  void end(Ending ending, const std::string& why);
  std::string who_sleeps() const;
  void record(const SimHost& host, Point p, const char* text, std::uint64_t a, std::uint64_t b);

  static constexpr std::uint32_t kAgent = kNobody - 1;

  std::byte* base_;
  SimObserver& observer_;
  SimOptions options_;
  SimRandom random_{0};

  std::vector<std::unique_ptr<Life>> pool_;  // every fiber ever made
  std::vector<Life*> lives_;                 // of this run; the index is the actor
  std::vector<Life*> newest_;                // of each rank
  std::vector<std::uint32_t> ready_;         // actors that can take a turn, in no order
  std::vector<Funeral> funerals_;
  std::vector<Death> deaths_by_step_;
  std::vector<Death> deaths_by_time_;               // latest first
  std::vector<std::vector<ContextBlock*>> blocks_;  // of each rank
  std::vector<Rank> ranks_;
  std::vector<Rank> at_last_death_;
  std::vector<Lie> lies_;  // of the rank whose turn it is
  std::vector<Event> trace_;
  bool keeps_trace_ = false;

  std::uint32_t current_ = kNobody;  // whose fiber runs
  std::uint32_t last_ = kNobody;     // who took the last turn
  std::uint32_t in_turn_ = 0;        // kRoundRobin: whose turn was last
  std::uint64_t agent_priority_ = 0;
  std::uint64_t lowest_priority_ = 0;

  bool ended_ = false;
  Ending ending_ = Ending::kFinished;
  std::string why_;
  std::uint32_t deaths_ = 0;
  std::uint64_t time_ = 0;
  std::uint64_t last_death_ = 0;
  std::uint64_t last_change_ = 0;  // a death or a start
  std::uint64_t spurious_ = 0;
  unsigned spoilt_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace rejoin::engine
