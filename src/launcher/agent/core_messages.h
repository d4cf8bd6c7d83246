// What the AgentCore is told and what it asks for: one struct for each, with the fields that this
// one has.
//
// Words: the *child* of a rank is what the agent started (perhaps a shell); the *registered*
// process called MPI_Init (the child, or a descendant); the *tree* is the child with all its
// descendants. Process ids are the kernel's; connections are the numbers that Connections gives.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// Something that happened to the processes of one rank.
struct AgentEvent {
  // The rank's child was started.
  struct Spawned {
    std::int64_t pid;
  };
  // A process asks to be the rank.
  struct Registers {
    std::int64_t pid;
    int connection;
  };
  // A process asks to be the rank: a clone of its image, or what was its written image.
  struct Woken {
    std::int64_t pid;
    int connection;
    std::uint32_t incarnation;  // that it was woken as
  };
  // Such a process cannot continue.
  struct Useless {
    std::int64_t pid;
    int connection;
    std::uint32_t incarnation;  // that it was woken as
    std::string why;            // predicate of a sentence
  };
  // A clone of the registered process asks to be the rank in its place.
  struct Moves {
    std::int64_t pid;  // of the clone
    int connection;
    std::uint32_t incarnation;  // of both
    std::int64_t from;          // pid of the registered process
  };
  // An image of the rank registers.
  struct ImageRegisters {
    std::int64_t pid;
    int connection;
    std::uint64_t number;       // of the image
    std::uint32_t incarnation;  // that it is an image of
  };
  // The rank could not make the image of this number.
  struct NotFrozen {
    std::uint64_t number;
    bool only_this;  // the next one may well be made
  };
  // The image that was asked to clone itself has done so.
  struct Forked {
    std::int64_t pid;           // of the clone; 0: it could not be made
    std::uint32_t incarnation;  // that the image was asked to become
  };
  // An image has ended.
  struct ImageEnded {
    std::int64_t pid;
    std::uint64_t number;  // if it had not registered; else 0
    Cause cause;
  };
  struct Initialized {};  // the registered process has returned from MPI_Init
  struct Live {};         // it has repeated the past of the former incarnations
  struct Finalized {};    // and from MPI_Finalize
  struct ChildEnded {
    Cause cause;
  };
  // The registered process, which is not the child.
  struct RegisteredEnded {
    Cause cause;
  };
  // The keeper, before it was released.
  struct KeeperEnded {
    Cause cause;
  };
  struct WrapperEnded {
    std::int64_t pid;
    Cause cause;
  };
  struct TreeGone {};     // no process of the tree is alive
  struct OutputEnded {};  // no process holds the rank's output open any more

  std::uint32_t rank;
  std::uint64_t at_ns;  // since the job's start
  std::variant<Spawned, Registers, Woken, Useless, Moves, ImageRegisters, NotFrozen, Forked,
               ImageEnded, Initialized, Live, Finalized, ChildEnded, RegisteredEnded, KeeperEnded,
               WrapperEnded, TreeGone, OutputEnded>
      what;
};

// Something that is to be done about one rank.
struct AgentAction {
  struct Spawn {};  // start the rank's next incarnation from main
  // Hand over the segment: this process is the rank.
  struct Welcome {
    int connection;
  };
  struct Refuse {
    int connection;
    std::string why;  // for the user of that process
  };
  struct Terminate {};     // SIGTERM to the tree
  struct KillTree {};      // SIGKILL to the tree until none is left, then TreeGone
  struct AwaitOutput {};   // report OutputEnded when it happens
  struct Drain {};         // read what is left of the rank's output, and close it
  struct Read {};          // likewise, of output that its wrapper still holds open: do not close it
  struct PublishDeath {};  // write the death of the rank to the segment
  struct RingAll {};       // wake all ranks of the segment
  struct Admit {};         // write the rank's next incarnation to the segment
  // Images of all ranks are going to be requested, all by this number. The ranks that wait look.
  struct WantSet {
    std::uint64_t number;
  };
  // Report to the supervisor about the set that it has ordered.
  struct TellOfSet {
    std::uint64_t number;
    SetNews news;
  };
  // Request an image of the rank.
  struct Want {
    std::uint64_t number;
  };
  // Everything in the segment that is later than this set of images is void.
  struct PutBack {
    std::uint64_t set;
  };
  // Report to the supervisor that all ranks have gone back to this set. They begin to run when it
  // orders that.
  struct ReportBack {
    std::uint64_t set;
    std::uint32_t back_as;
  };
  // The image has registered: its cursors become the rank's low-water marks.
  struct Keep {
    std::uint64_t number;
    std::int64_t pid;  // of the image
    int connection;
  };
  // The image, of a set of several hosts, is not kept yet, and outlives its rank all the same.
  struct Spare {
    std::int64_t pid;
  };
  // The image is not needed any more.
  struct EndImage {
    std::int64_t pid;
    int connection;
  };
  struct AskImages {};  // the kept image has died: make the next round come soon
  // The image is to clone itself as the admitted incarnation. files_go_back: what the rank has done
  // to files since did not happen, because all ranks have gone back.
  struct Wake {
    std::uint64_t number;
    std::int64_t pid;
    int connection;
    bool files_go_back;
  };
  // Start the rank's next incarnation from its written image.
  struct Restore {
    std::uint64_t number;
  };
  // The clone is the rank's child from now on.
  struct Adopt {
    std::int64_t pid;
  };
  // The rank has moved into a clone, its child from now on; the registered process is its keeper.
  struct Move {
    std::int64_t pid;  // of the clone
    int keeper;        // connection
  };
  // The keeper is to end as the rank did.
  struct Release {
    int keeper;  // connection
    Cause cause;
  };
  struct KillWrapper {};  // kill it, the keeper and all other processes of the rank that are left
  // No wrapper waits for the keeper any more.
  struct EndKeeper {
    int keeper;  // connection
  };
  // A message about the rank for the user.
  struct Notice {
    std::string text;
  };
  // Nothing is left that the rank could be started from.
  struct Lost {
    std::string why;
  };
  // Report the end of the incarnation to the supervisor.
  struct ReportEnded {
    Cause cause;
    std::uint64_t at_ns;  // when it was seen
  };

  std::uint32_t rank;
  std::variant<Spawn, Welcome, Refuse, Terminate, KillTree, AwaitOutput, Drain, Read, PublishDeath,
               RingAll, Admit, WantSet, TellOfSet, Want, PutBack, ReportBack, Keep, Spare, EndImage,
               AskImages, Wake, Restore, Adopt, Move, Release, KillWrapper, EndKeeper, Notice, Lost,
               ReportEnded>
      what;
};

// Carries out what the AgentCore asks for: with the processes of a host, with simulated ones, or
// with made-up ones.
class AgentDriver {
 public:
  void carry_out(const AgentAction& action) {
    std::visit([&](const auto& what) { act(action.rank, what); }, action.what);
  }
  void carry_out(const std::vector<AgentAction>& actions) {
    for (const AgentAction& action : actions) carry_out(action);
  }

 protected:
  ~AgentDriver() = default;

  virtual void act(std::uint32_t rank, const AgentAction::Spawn&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Welcome&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Refuse&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Terminate&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::KillTree&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::AwaitOutput&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Drain&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Read&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::PublishDeath&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::RingAll&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Admit&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::WantSet&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::TellOfSet&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Want&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::PutBack&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::ReportBack&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Keep&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Spare&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::EndImage&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::AskImages&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Wake&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Restore&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Adopt&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Move&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Release&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::KillWrapper&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::EndKeeper&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Notice&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::Lost&) = 0;
  virtual void act(std::uint32_t rank, const AgentAction::ReportEnded&) = 0;
};

}  // namespace rejoin::launcher
