// The processes of one host: which one is which rank, and the order in which what is left of an
// incarnation is cleared away before the next one begins.
//
// A pure step function, like the supervisor's. Words: the *child* is what the agent started
// (perhaps a shell); the *registered* process called MPI_Init (the child, or a descendant); the
// *tree* is the child with all its descendants.
//
//   state         meaning                                 leaves it by
//   kIdle         nothing runs                            spawn()
//   kRunning      the tree runs                           its end -> kDying, or kLingering
//   kLingering    went well; others may still write       output ended
//   kDying        the tree is being killed                tree gone
//   kEnded        reported to the supervisor              respawn()
//
// After a death: kill the tree, reap it, read its output to the end, report; then, if the
// supervisor says so, publish the death, ring everybody, admit the next incarnation, start it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/supervisor/record.h"

namespace rejoin::launcher {

struct AgentEvent {
  enum class Kind {
    kSpawned,      // pid of the child
    kRegister,     // pid, connection: asks to be the rank
    kInitialized,  // by the registered process
    kFinalized,
    kChildEnded,       // cause. The child itself
    kRegisteredEnded,  // cause. The registered process, if it is not the child
    kTreeGone,         // no process of the tree is alive
    kOutputEnded,      // nobody holds the rank's output any more
  };
  Kind kind;
  std::uint32_t rank = 0;
  std::uint64_t at_ns = 0;
  std::int64_t pid = 0;
  int connection = -1;
  Cause cause = {};
};

struct AgentAction {
  enum class Kind {
    kSpawn,         // start the rank's next incarnation
    kWelcome,       // connection: hand over the segment
    kRefuse,        // connection; text = why
    kTerminate,     // SIGTERM to the tree
    kKillTree,      // SIGKILL to the tree until none is left, then kTreeGone
    kAwaitOutput,   // kOutputEnded is wanted
    kDrain,         // read what is left of the rank's output, and close it
    kPublishDeath,  // of the rank
    kRingAll,
    kAdmit,        // the rank's next incarnation
    kReportEnded,  // cause, at_ns: to the supervisor
  };
  Kind kind;
  std::uint32_t rank = 0;
  int connection = -1;
  std::string text = {};
  std::uint64_t at_ns = 0;
  Cause cause = {};
};

class AgentCore {
 public:
  explicit AgentCore(std::uint32_t ranks);

  std::vector<AgentAction> step(const AgentEvent& event);
  // The supervisor's orders.
  std::vector<AgentAction> spawn(std::uint32_t rank);    // REQUIRES kIdle
  std::vector<AgentAction> respawn(std::uint32_t rank);  // REQUIRES kEnded
  std::vector<AgentAction> stop();                       // SIGTERM to everybody
  std::vector<AgentAction> kill_all();                   // SIGKILL to whoever is left
  void give_up(std::uint32_t rank);                      // it could not be started

  // No process of any rank is left.
  bool all_over() const;
  // Its registered process is alive, as far as is known.
  bool running(std::uint32_t rank) const {
    const Rank& r = ranks_[rank];
    return r.state == State::kRunning && r.registered != 0 && !r.registered_over;
  }
  bool dying(std::uint32_t rank) const { return ranks_[rank].state == State::kDying; }
  std::int64_t child(std::uint32_t rank) const { return ranks_[rank].child; }
  // 0: nobody has registered.
  std::int64_t registered(std::uint32_t rank) const { return ranks_[rank].registered; }

 private:
  enum class State { kIdle, kRunning, kLingering, kDying, kEnded };
  struct Rank {
    State state = State::kIdle;
    std::int64_t child = 0;
    std::int64_t registered = 0;
    bool child_over = false;
    bool registered_over = false;
    bool initialized = false;
    bool finalized = false;
    Cause child_cause = {};
    std::uint64_t ended_at_ns = 0;
    Cause cause = {};
  };

  void on_register(const AgentEvent& event);
  void on_child_ended(const AgentEvent& event);
  void on_registered_ended(const AgentEvent& event);
  // The rank's incarnation is over, by `event.cause`.
  void ended(const AgentEvent& event);
  void report(std::uint32_t rank);
  void act(AgentAction::Kind kind, std::uint32_t rank, int connection = -1, std::string text = {});

  std::vector<Rank> ranks_;
  std::vector<AgentAction> actions_;
  bool stopping_ = false;
};

}  // namespace rejoin::launcher
