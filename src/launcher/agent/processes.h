// Starts, signals, kills (with all their descendants) and reaps the processes of a host's ranks.
// The AgentCore decides which process is which rank, and what to do about it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_core.h"
#include "launcher/agent/host_plan.h"
#include "launcher/base/file.h"
#include "launcher/base/loop.h"
#include "launcher/base/process.h"

namespace rejoin::launcher {

// Our ends of what a rank was started with.
struct RankPipes {
  Descriptor input;  // not open: the rank reads nothing
  Descriptor output[2];
};

// Both ends of a rank's pipes, before the rank is started.
struct MadePipes {
  RankPipes ours;
  Descriptor theirs[3];
  bool whole() const { return theirs[0].open() && theirs[1].open() && theirs[2].open(); }
};
MadePipes make_pipes(std::uint32_t rank);
// Opens another write end of the pipe or terminal of which `output` is our end. Not open: it could
// not.
Descriptor other_end_of(const Descriptor& output);

class Processes {
 public:
  struct Calls {
    std::function<void(const AgentEvent& event)> feed;
    // The child of a rank has ended: messages that it sent before are to be handled now.
    std::function<void(std::uint32_t rank)> before_end;
    // The registered process of a rank, not its child, has ended.
    std::function<void(std::uint32_t rank)> registered_ended;
    // The keeper of a rank that has moved has ended.
    std::function<void(std::uint32_t rank)> keeper_ended;
    // An image of the rank ended by a SIGKILL that ftrun did not send. No rank: a process that had
    // not registered did, perhaps an image.
    std::function<void(std::optional<std::uint32_t> rank)> image_killed;
    // The process that writes an image to its file has exited. cpu_ns: the processor time that it
    // used; 0 if it exited before it was registered.
    std::function<void(pid_t pid, const Cause& cause, std::uint64_t cpu_ns)> writer_ended;
    // A process registered with add_helper() has ended.
    std::function<void(pid_t pid)> helper_ended;
    // An unknown child has ended: perhaps an image that had not registered.
    std::function<void(pid_t pid)> stranger_ended;
  };

  // `plan` and `settings` outlive it.
  Processes(Loop& loop, const HostPlan& plan, const SpawnSettings& settings, Calls calls);

  // How to start a process that is replaced by a written image instead of running the program.
  struct Restoration {
    std::string executable;
    std::string image;
    std::uint32_t incarnation = 0;
  };
  // Starts the rank's child and returns our ends of its pipes. `spawned`: the child, or the error.
  RankPipes spawn(std::uint32_t rank, Spawned& spawned, const Restoration* restoration = nullptr);
  // Called before an image clones itself, and when the clone is known: it becomes the rank's child.
  // The clone may have ended in between.
  void expect_clone(std::uint32_t rank) { expected_at_ns_[rank] = loop_.now_ns(); }
  void adopt_clone(std::uint32_t rank, pid_t pid);
  // Like adopt_clone(), for a clone of the registered process: that process becomes the rank's
  // keeper, and the former child its wrapper.
  void move(std::uint32_t rank, pid_t clone);
  // The keeper may end from now on.
  void release_keeper(std::uint32_t rank);
  // SIGKILL to the wrapper and its processes, until none is left.
  void kill_wrapper(std::uint32_t rank);
  // Returns how the keeper ended, if it has ended and was not released.
  std::optional<Cause> take_keeper_end(std::uint32_t rank);
  bool keeper_is_dead(std::uint32_t rank) const;
  void signal_rank(std::uint32_t rank, int signal);
  // Device and inode numbers of the rank's standard input, output and error, as the welcome message
  // contains them.
  const std::string& standard(std::uint32_t rank) const { return standard_[rank]; }
  // Registers this process as an image of the rank. It outlives the rank's tree; its end is
  // reported. It may be registered already.
  void add_image(std::uint32_t rank, pid_t pid);
  // Registers a process that writes an image, which was asked for at that time. It may have ended.
  void add_writer(pid_t pid, std::uint64_t asked_at_ns);
  // Sends SIGKILL to an image.
  void end_image(pid_t pid);
  // Number of images that are ending, but not by end_image(), and whose end was not handled yet.
  std::uint64_t images_being_killed() const;
  // A process has registered as the rank.
  void registered(std::uint32_t rank, pid_t pid, Descriptor process);
  // Returns how the rank's registered process ended. Nothing: it has not, or it is the child.
  std::optional<Cause> take_registered_end(std::uint32_t rank);
  // Returns whether the rank's registered process is dead, if that is not the child.
  bool program_is_dead(std::uint32_t rank) const;

  void terminate(std::uint32_t rank);  // SIGTERM to its process group
  void kill_tree(std::uint32_t rank);  // SIGKILL until none is left, then AgentEvent::TreeGone
  bool killed(std::uint32_t rank) const { return ranks_[rank].killed; }
  void clear(std::uint32_t rank) { ranks_[rank].registered = {}; }
  void signal_all(int signal);
  // Kills what is left of the trees that are dying, and reports the trees that are gone.
  void sweep();
  // Sends SIGKILL to every process that the ranks left running, when all ranks have ended.
  void kill_leftovers(pid_t spared);

  // The pid of the rank for messages; 0: it has ended.
  pid_t pid_of(std::uint32_t rank) const;
  std::uint64_t peak_bytes(std::uint32_t rank) const { return ranks_[rank].peak_bytes; }
  // Registers a child of this process that belongs to no rank.
  void add_helper(pid_t pid) { helpers_.push_back(pid); }
  void forget_helper(pid_t pid) { std::erase(helpers_, pid); }  // it was reaped
  // Waits for all helpers except `spared`.
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
    bool killed = false;  // its tree is being killed, or has been
    Registered registered;
    std::uint64_t peak_bytes = 0;
  };

  void on_child_signal();
  void adopt(std::uint32_t rank, pid_t pid);
  void look_for_ended(pid_t seen = 0);
  void other_ended(const EndedChild& ended);
  // Returns how the process ended, if it ended as an unknown child at or after `since_ns`.
  std::optional<Cause> take_unknown(pid_t pid, std::uint64_t since_ns);
  bool spared(pid_t pid) const;
  std::optional<std::uint32_t> rank_of(pid_t pid) const;
  bool outlives(std::uint32_t rank, pid_t pid) const;
  void wrapper_ended(std::uint32_t rank, const EndedChild& ended);

  Loop& loop_;
  const HostPlan& plan_;
  const SpawnSettings& settings_;
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
  // Children that ended before their rank was known: clones that died at once.
  struct Unknown {
    EndedChild ended;
    std::uint64_t at_ns;
  };
  std::vector<Unknown> unknown_;
  std::vector<std::uint64_t> expected_at_ns_;  // by rank
  std::vector<pid_t> writers_;
};

}  // namespace rejoin::launcher
