// A whole job in one thread: its processes are fibers, its agent takes turns between theirs. At
// every step of a rank the scheduler may continue with another process, or kill the rank there. One
// seed decides all of it; time is the number of turns.
//
// A turn is what one process does between two of its points (point.h), or one action of the agent
// (agent.h). A process registers with the agent, perhaps again after an exec, and waits for its
// welcome; then it is the rank and runs the program. A killed process's fiber is abandoned; what it
// wrote to the segment stays, and what it had not published yet then holds noise (half_written.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/names.h"
#include "engine/transport/sim/agent.h"
#include "engine/transport/sim/fiber.h"
#include "engine/transport/sim/host.h"
#include "engine/transport/sim/point.h"
#include "engine/transport/sim/random.h"
#include "journal/layout.h"
#include "journal/rules.h"
#include "wire/messages.h"

namespace rejoin::engine {

enum class Schedule : std::uint8_t {
  kRoundRobin,  // each in turn
  kRandom,      // any
  kBursts,      // any, for a while
  kPriorities,  // the first that can, in an order that changes now and then
  kCount,
};

// A rule that the agent or the host breaks, to prove that the simulator notices.
enum class Mutant : std::uint8_t {
  kNone,
  kRespawnBeforeBreak,  // the next incarnation is admitted and runs before the death is published
  kSilentDeath,         // no rank is rung after a death
  kNoEpoch,             // all ranks are rung, but no epoch is published
  kLostRing,            // a rank's ring sets no bell
  kForgetfulSleep,      // a ring between the last look and the sleep is lost
  kNotReaped,           // the old process runs on beside its replacement
  kTornCommit,          // a record that is half written at a death is visible
  kJournalLost,         // the replacement finds no records of its predecessor
  kLoadsTooNew,         // a rank loads a version that some rank has not prepared
  kPreparesEarly,       // a version is called prepared before its models are whole
  kHearsTheDead,        // a message of a killed process is taken for its replacement's
  kWelcomesTwo,         // a second process of a rank is welcomed
  kRestartsFinalized,   // a rank that has ended well is started again
  kCount,
};

// One move of a directed schedule: one rank alone takes turns until it has reached a point for the
// `times`-th time from now on (the agent does what the rank waits for); or it dies where it is; or
// the agent does all that it has to do.
struct Move {
  enum class Kind : std::uint8_t { kRuns, kDies, kAgent };
  Kind kind;
  std::uint32_t rank;
  Point until;
  unsigned times;

  static constexpr Move to(std::uint32_t rank, Point until, unsigned times = 1) {
    return {Kind::kRuns, rank, until, times};
  }
  static constexpr Move to(std::uint32_t rank, Step until, unsigned times = 1) {
    return {Kind::kRuns, rank, point_of(until), times};
  }
  static constexpr Move death(std::uint32_t rank) { return {Kind::kDies, rank, Point::kCount, 1}; }
  static constexpr Move agent() { return {Kind::kAgent, 0, Point::kCount, 1}; }
};

struct SimOptions {
  std::uint64_t seed = 0;
  Schedule schedule = Schedule::kRoundRobin;
  unsigned polls = 2;                   // looks before a sleep
  unsigned burst_turns = 16;            // kBursts: on average
  std::uint64_t agent_delay_turns = 0;  // at most, before each action of the agent
  bool agent_last = false;              // the agent acts only when no rank can, or one waits for it
  bool split_death = false;             // death_epoch is visible some turns before the epoch
  bool spurious_wakes = false;
  bool behind_shell = false;          // the agent starts a shell, and the shell the program
  bool registers_twice = false;       // at load, and again after it has replaced itself by exec
  bool second_process = false;        // another process of the rank asks to be it, too
  std::uint64_t unfrozen = 0;         // ranks of which no image can be made; a bit each
  bool may_read_others = true;        // ranks read memory of others
  bool refuses_images = true;         // now and then, those of other ranks
  bool delays_stores = false;         // others see a process's stores later than itself
  bool light_publish = false;         // publishers have no fence, sleepers look twice (ShmHost)
  std::size_t ahead_bytes = 4 << 20;  // that a collective's sender may be ahead
  Mutant mutant = Mutant::kNone;
  journal::Rule broken = journal::Rule::kNone;      // by the engine or the recovery
  journal::Rule broken_too = journal::Rule::kNone;  // for what another rule would cover
  bool lends = false;                  // ranks lend buffers for what comes from other nodes
  std::uint64_t turn_limit = 1 << 22;  // since the last death or start: more is no progress
  // The turn at which scheduling becomes fair: round robin over the processes and the agent, no
  // delays of the agent, no store buffers, no spurious wake-ups. 0: it never does.
  std::uint64_t fair_from = 0;
  // The most turns that the job may run after fair_from, or after a later death or start. A job
  // that runs longer has violated liveness (I7).
  std::uint64_t finish_within = 0;
  std::vector<Move> moves = {};  // come first; then `schedule`
};

// The options that a seed stands for. 0: round robin, prompt agent.
SimOptions options_of(std::uint64_t seed);

// The victim of a death: the rank's process, or an image of it: the newest one, or the one that the
// agent keeps.
enum class Victim : std::uint8_t { kRank, kNewestImage, kKeptImage };

// Kills a rank when this incarnation of it reaches its step-th point (from 1), or, with step == 0,
// at a time, if it runs then. An image, if there is one, is killed at a time.
struct Death {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t step = 0;
  std::uint64_t time = 0;
  int signal = 9;
  Victim victim = Victim::kRank;
  bool operator==(const Death&) const = default;
};

enum class Ending : std::uint8_t {
  kFinished,
  kStopped,     // the agent ended the job
  kDeadlock,    // no process can take a turn
  kNoProgress,  // turn_limit
  kViolation,   // fail()
};

// The program and the observer of a simulated job. Called outside fibers but for run().
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void run(SimHost& host) = 0;  // the program of one incarnation; inside its fiber
  virtual void on_point(SimHost& host, Point p) = 0;  // reached, before whatever comes next
  virtual void on_death(SimHost& host, Point p) = 0;
  virtual void on_agent() = 0;  // after an action of the agent
  // An image with this name is made. Returns the process's private memory, except for its stack; a
  // clone that is woken gets it back.
  virtual std::vector<std::span<std::byte>> on_image(SimHost& host, std::uint32_t image) = 0;
  virtual void on_woken(SimHost& host, std::uint32_t image) = 0;
  // The segment as processes of the rank see it; null: the one that the simulation was given.
  virtual std::byte* segment_of(std::uint32_t) { return nullptr; }
  // A step of a relay between segments. Returns false if there is nothing to do, or no relay.
  virtual bool has_relays() { return false; }
  virtual bool on_relay(SimRandom&) { return false; }
  // The process sends a message to the agent; inside its fiber.
  virtual void on_tell(SimHost& host, wire::MessageType type, const char* text) = 0;
};

class Simulation {
 public:
  // One line of the trace. `text` is not null for notes.
  struct Event {
    std::uint64_t time;
    std::uint32_t rank;
    std::uint32_t incarnation;
    Point point;
    const char* text;
    std::uint64_t a, b;
  };
  struct Rank {
    std::uint32_t incarnation = 0;  // the newest
    std::uint64_t steps = 0;        // points that it has reached
    bool dead = false;              // and not started again yet
    bool done = false;
  };

  // `base`: a formatted segment. All three must outlive the simulation.
  Simulation(std::byte* base, SimObserver& observer, SimAgent& agent);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs the job in `base`, freshly formatted, to its end.
  Ending run(const SimOptions& options, const std::vector<Death>& deaths);

  // Stores the whole trace of the next runs, not just its hash.
  void keep_trace(bool keep) { keeps_trace_ = keep; }

  const std::string& why() const { return why_; }  // for any ending but kFinished
  std::uint64_t time() const { return time_; }
  std::uint64_t hash() const { return hash_; }  // of the trace
  std::uint32_t deaths() const { return deaths_; }
  std::uint64_t time_of_last_death() const { return last_death_; }
  std::uint64_t spurious_wakes() const { return spurious_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::vector<Rank>& ranks_at_last_death() const { return at_last_death_; }
  const std::vector<Event>& trace() const { return trace_; }

  // A rank has made a communicator, which a death may spoil.
  void add_block(std::uint32_t rank, ContextBlock* block);
  unsigned spoilt() const { return spoilt_; }  // unpublished places filled with noise so far

  // A rule is broken: the run ends with kViolation. Returns only outside fibers.
  void fail(const char* why);
  // Adds a line to the trace, and to its hash.
  void note(const SimHost& host, const char* text, std::uint64_t a, std::uint64_t b);

  // Used by agents. Calls for a process that is over have no effect.
  const SimOptions& options() const { return options_; }
  SimRandom& random() { return random_; }
  std::uint32_t start(std::uint32_t rank, std::uint32_t incarnation);
  void welcome(std::uint32_t process);  // to be the rank. REQUIRES that it has asked
  void refuse(std::uint32_t process);   // likewise; it exits
  void kill(std::uint32_t process);
  void wake(std::uint32_t rank);  // rings its bell
  // An image clones itself. Returns the process that continues from it. REQUIRES that the processes
  // of its rank are over.
  std::uint32_t wake_image(std::uint32_t image, std::uint32_t incarnation);
  void end_image(std::uint32_t image);
  // What the rank's process has lent; null: nothing, or it does not run.
  journal::Loan* loan_of(std::uint32_t rank) const;
  bool runs(std::uint64_t process) const;
  std::uint64_t next_number() { return ++numbers_; }  // another one each time
  bool has_image(std::uint32_t image) const { return images_[image].alive; }
  // Killed by one of the deaths that were asked for, not by the agent.
  bool image_was_killed(std::uint32_t image) const { return images_[image].killed; }
  void finish(int code, const std::string& why);
  void lose_journal(std::uint32_t rank);  // kJournalLost
  void note_agent(std::uint32_t rank, const char* text);

 private:
  friend class SimHost;

  struct Process;  // one incarnation of a rank
  // False values that a mutant has written into words of a rank, and the true ones.
  struct Lie {
    RankControl* control;
    std::uint64_t prepared;
  };
  // A copy of all private memory of a process. It continues where the process was, at the same
  // addresses, which no other process has.
  struct Image {
    Process* process;
    Fiber::Frozen fiber;
    std::vector<std::span<std::byte>> places;
    std::vector<std::byte> memory;  // what these held, one after another, but for pages of zeros
    std::vector<bool> is_zero;      // of each page
    std::uint32_t rank;
    std::uint64_t number;
    journal::Loan* loan;
    bool alive = true;
    bool killed = false;
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // Ranks.
  void prepare(const SimOptions& options, const std::vector<Death>& deaths);
  static void live(void* process);
  bool join(Process& process);
  void process_turn(Process& process);
  void sleep_or_go_on(Process& process);
  void die(Process& process, int signal);
  void make_image(Process& process);
  void kill_image(const Death& death);
  void stop_running(Process& process);
  void commit_some_stores();
  template <class Visit>
  void for_each_process(Visit&& visit);
  // Calls look() on memory that has the stores of all processes, as if none were delayed: what
  // observers compare is what processes do, not when others see it.
  template <class Look>
  void with_all_stores(Look&& look);
  void tear_commit(std::uint32_t rank);
  void become_fair();
  void run_relays();
  void make_ready(Process& process);
  void not_ready(Process& process);
  const Death* due_death(const Process& process) const;
  void kill_by_time();
  void wake_spuriously();

  // Inside fibers.
  void reach(std::uint32_t actor, Point p);
  void await_agent(std::uint32_t actor, Point p);
  Frozen freeze(SimHost& host, std::uint64_t number);
  void store(std::uint32_t actor, void* at, std::uint64_t value, std::size_t bytes, bool fenced);
  void drain(std::uint32_t actor);
  // Time passes until what all processes have stored so far is visible.
  void settle();
  [[noreturn]] void leave_for_good(std::uint32_t actor);

  // Scheduler.
  bool make_moves(std::uint32_t* actor);
  void count_move(std::uint32_t actor);
  bool agent_is_due() const;
  std::uint32_t pick();
  std::uint32_t pick_in_turn(bool agent_can);  // these: REQUIRES a ready actor
  std::uint32_t pick_any(bool agent_can);
  std::uint32_t pick_first(bool agent_can);
  void end(Ending ending, const std::string& why);
  std::string who_sleeps() const;
  void record(std::uint32_t rank, std::uint32_t incarnation, Point p, const char* text,
              std::uint64_t a, std::uint64_t b);

  static constexpr std::uint32_t kAgent = kNobody - 1;

  std::byte* base_;
  SimObserver& observer_;
  SimAgent& agent_;
  SimOptions options_;
  SimRandom random_{0};

  std::vector<std::unique_ptr<Process>> pool_;  // every fiber ever made
  std::vector<Process*> processes_;             // of this run; the index is the actor
  std::vector<Process*> newest_;                // of each rank; null: not started yet
  std::vector<std::uint32_t> ready_;            // actors that can take a turn, in no order
  std::vector<Death> deaths_by_step_;
  std::uint64_t numbers_ = 0;
  std::vector<Death> deaths_by_time_;               // latest first
  std::vector<std::vector<ContextBlock*>> blocks_;  // of each rank
  std::vector<Rank> ranks_;
  std::vector<Rank> at_last_death_;
  std::vector<Image> images_;
  std::vector<std::vector<std::byte>> spare_;  // of images that have ended: fresh pages take longer
  std::vector<Lie> lies_;                      // of the rank that takes the current turn
  std::vector<Event> trace_;
  bool keeps_trace_ = false;

  std::uint32_t current_ = kNobody;  // the fiber that runs
  std::uint32_t last_ = kNobody;     // the process that took the last turn
  std::size_t move_ = 0;             // the one that is being made
  unsigned reached_ = 0;             // how often its point was reached so far
  bool agent_awaited_ = false;       // since its last turn, by a rank that looks now and then
  std::uint32_t in_turn_ = 0;        // kRoundRobin: the process that took the last turn
  std::uint64_t agent_priority_ = 0;
  std::uint64_t lowest_priority_ = 0;

  bool ended_ = false;
  Ending ending_ = Ending::kFinished;
  std::string why_;
  std::uint32_t deaths_ = 0;
  bool fair_ = false;
  std::uint64_t time_ = 0;
  std::uint64_t last_death_ = 0;
  std::uint64_t last_change_ = 0;  // a death or a start
  std::uint64_t spurious_ = 0;
  unsigned spoilt_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace rejoin::engine
