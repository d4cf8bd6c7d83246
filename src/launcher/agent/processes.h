// The processes of the ranks of a host: started, signalled, killed with all their descendants,
// reaped. Which of them is which rank, and what to do about it, is the AgentCore's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/process.h"
#include "launcher/base/file.h"
#include "launcher/base/loop.h"

namespace rejoin::launcher {

// Our ends of what a rank was started with.
struct RankPipes {
  Descriptor input;  // not open: it reads nothing
  Descriptor output[2];
};

// Both ends of them, before.
struct MadePipes {
  RankPipes ours;
  Descriptor theirs[3];
  bool whole() const { return theirs[0].open() && theirs[1].open() && theirs[2].open(); }
};
MadePipes make_pipes(std::uint32_t rank);
// Another write end of a pipe, or terminal, of which this is our end. Not open: there is none.
Descriptor other_end_of(const Descriptor& output);

class Processes {
 public:
  struct Calls {
    std::function<void(const AgentEvent& event)> feed;
    // The child of a rank has ended: whatever it said before is to be dealt with now.
    std::function<void(std::uint32_t rank)> before_end;
    // The registered process of a rank, not its child, has ended.
    std::function<void(std::uint32_t rank)> registered_ended;
    // The keeper of a rank that has moved, likewise.
    std::function<void(std::uint32_t rank)> keeper_ended;
    // An image of the rank has ended by a SIGKILL that is not ours; or, of nobody knows which rank,
    // one that had not registered.
    std::function<void(std::optional<std::uint32_t> rank)> image_killed;
    // A clone of an image that wrote it has ended.
    std::function<void(pid_t pid, const Cause& cause)> writer_ended;
    // A process registered with add_helper() has ended.
    std::function<void(pid_t pid)> helper_ended;
    // A child that is nobody known: perhaps an image that has not registered.
    std::function<void(pid_t pid)> stranger_ended;
  };

  Processes(Loop& loop, const HostPlan& plan, Calls calls);

  // A process that becomes a written image before it is the program.
  struct Restoration {
    std::string executable;
    std::string image;
    std::uint32_t incarnation = 0;
  };
  // Starts the rank's child and returns our ends of its pipes. `spawned`: it, or what is wrong.
  RankPipes spawn(std::uint32_t rank, Spawned& spawned, const Restoration* restoration = nullptr);
  // An image is about to clone itself; the clone is the rank's child from now on. It may have ended
  // by then.
  void expect_clone(std::uint32_t rank) { expected_at_ns_[rank] = loop_.now_ns(); }
  void adopt_clone(std::uint32_t rank, pid_t pid);
  // Likewise, of the registered process, which becomes the rank's keeper; the child is its wrapper.
  void move(std::uint32_t rank, pid_t clone);
  // The keeper may end from now on.
  void release_keeper(std::uint32_t rank);
  // SIGKILL to the wrapper and its processes, until none is left.
  void kill_wrapper(std::uint32_t rank);
  // The keeper has ended and was not released: how.
  std::optional<Cause> take_keeper_end(std::uint32_t rank);
  bool keeper_is_dead(std::uint32_t rank) const;
  void signal_rank(std::uint32_t rank, int signal);
  // What the rank was given for standard input, output and error: device and number of each, as
  // the welcome says it.
  const std::string& standard(std::uint32_t rank) const { return standard_[rank]; }
  // This process is an image of the rank: it outlives the rank's tree, and its end is told.
  void add_image(std::uint32_t rank, pid_t pid) { images_.push_back({rank, pid}); }
  // This process writes an image of the rank, which was asked for at that time. It may have ended.
  void add_writer(pid_t pid, std::uint64_t asked_at_ns);
  // SIGKILL to one of them.
  void end_image(pid_t pid);
  // How many of them somebody else's SIGKILL is about to end.
  std::uint64_t images_being_killed() const;
  // A process has registered as the rank.
  void registered(std::uint32_t rank, pid_t pid, Descriptor process);
  // The registered process of the rank has ended: how. Nothing: it has not, or is the child.
  std::optional<Cause> take_registered_end(std::uint32_t rank);
  // Its registered process is dead, or the rank has been killed: what it prints may come too late.
  bool program_is_dead(std::uint32_t rank) const;

  void terminate(std::uint32_t rank);  // SIGTERM to its process group
  void kill_tree(std::uint32_t rank);  // SIGKILL until none is left, then kTreeGone
  bool killed(std::uint32_t rank) const { return ranks_[rank].killed; }
  void clear(std::uint32_t rank) { ranks_[rank].registered = {}; }
  void signal_all(int signal);
  // Kills what is left of the trees that are dying; those that are gone are reported.
  void sweep();
  // SIGKILL to whatever the ranks left running, when all of them have ended.
  void kill_leftovers(pid_t spared);

  // The process that is the rank, for messages; 0: it has ended.
  pid_t pid_of(std::uint32_t rank) const;
  std::uint64_t peak_bytes(std::uint32_t rank) const { return ranks_[rank].peak_bytes; }
  // A child of ours that is no rank.
  void add_helper(pid_t pid) { helpers_.push_back(pid); }
  // Waits for all of them but one.
  void await_helpers(pid_t spared);

 private:
  struct Registered {
    pid_t pid = 0;
    Descriptor process;  // pidfd, if it is not the child
    Loop::Watch watch;
  };
  struct Wrapper {
    pid_t pid = 0;  // 0: there is none
    bool reaped = false;
    bool dying = false;
    pid_t keeper = 0;
    Descriptor keeper_process;  // not open: it was released
    Loop::Watch keeper_watch;
  };
  struct Rank {
    pid_t child = 0;
    bool child_reaped = true;
    bool dying = false;   // its tree is being killed
    bool killed = false;  // or has been
    Registered registered;
    std::uint64_t peak_bytes = 0;
  };

  void on_child_signal();
  void adopt(std::uint32_t rank, pid_t pid);
  void look_for_ended(pid_t seen = 0);
  void other_ended(const EndedChild& ended);
  // How it ended, if that was seen since then.
  std::optional<Cause> take_unknown(pid_t pid, std::uint64_t since_ns);
  bool spared(pid_t pid) const;
  std::optional<std::uint32_t> rank_of(pid_t pid) const;
  bool outlives(std::uint32_t rank, pid_t pid) const;
  void wrapper_ended(std::uint32_t rank, const EndedChild& ended);

  Loop& loop_;
  const HostPlan& plan_;
  const Calls calls_;
  Descriptor signals_;  // SIGCHLD
  Loop::Watch signals_watch_;
  std::vector<Rank> ranks_;
  std::vector<Wrapper> wrappers_;      // by rank
  std::vector<std::string> standard_;  // by rank
  struct Image {
    std::uint32_t rank;
    pid_t pid;
    bool ended_by_us = false;
  };

  std::vector<pid_t> helpers_;
  std::vector<Image> images_;
  // Children that had ended before it was known whose they were: of clones that die at once.
  struct Unknown {
    EndedChild ended;
    std::uint64_t at_ns;
  };
  std::vector<Unknown> unknown_;
  std::vector<std::uint64_t> expected_at_ns_;  // by rank
  std::vector<pid_t> writers_;
};

}  // namespace rejoin::launcher
