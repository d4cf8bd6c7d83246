// What the supervisor is told: by agents in reports, and by its own driver. One struct for each
// kind of event, with the fields that this one has.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launcher/base/record.h"

namespace rejoin::launcher {

struct Event {
  // --- About the rank `rank`.

  // A process was started for it.
  struct Started {
    std::int64_t pid;
  };
  struct SpawnFailed {
    int code;  // exit code for the job
    std::string why;
  };
  // A process is the rank from now on.
  struct Registered {
    std::int64_t pid;
  };
  struct Initialized {              // it has returned from MPI_Init
    bool threads_may_call = false;  // while another one blocks in MPI (MPI_THREAD_MULTIPLE)
  };
  // It has executed an operation that no record answered.
  struct Live {
    std::uint64_t replayed;   // operations that records answered before
    RecoveryPoint from;       // what its incarnation started from
    std::uint64_t replay_ns;  // time since it was initialized, in calls of MPI
  };
  // It is about to return from MPI_Finalize.
  struct Finalized {
    Position position;
    RecoveryPoint from;       // as in Live; of an incarnation that was not live
    std::uint64_t replay_ns;  // likewise
  };
  // Its incarnation has ended: the whole process tree is dead, and its output read.
  struct Ended {
    Cause cause;
    Position position;
    Fault fault;
    std::string why_final;  // why it cannot be started again; empty: it can
    // Why it cannot be started again alone, but with all others, from a set of images; empty: it
    // can.
    std::string not_alone;
  };
  // It has called MPI_Abort, or met an error that is fatal.
  struct Aborted {
    int code;
    std::string what;  // what is wrong and where; empty: not known
  };
  // It has died, and nothing is left to start it from.
  struct Lost {
    std::string why;  // empty: not known
  };
  // Its replay differs from the first execution; it does not continue.
  struct Diverged {
    std::string how;
  };
  // --- About the job, answers to an order to go back.

  // All ranks have gone back to a set of images, and are about to run.
  struct RolledBack {
    std::uint64_t set;      // its number
    std::uint64_t age_ns;   // since its oldest image was made
    std::uint32_t back_as;  // the incarnation that was ordered
  };
  struct NoSet {};  // there is no set of images of all ranks

  // --- About the images of a host of several.

  // It is time for new images. truncates: a rank is blocked until its journal is truncated. waits:
  // a rank has been since the newest set, or the journals are more than half full. growth_cost_ns:
  // estimated time of page faults in memory that the host's journals have gained since that set.
  struct ImagesDue {
    bool truncates;
    bool waits;
    std::uint64_t growth_cost_ns;
  };
  struct OfSet {
    std::uint64_t number;
    SetNews news;
    std::vector<std::uint64_t> printed = {};  // this and the next with kStored (orders.proto)
    std::uint64_t cost_ns = 0;
  };

  // --- About the rank again.

  struct JournalFull {};  // and the rank has nothing to repeat from it
  struct Notice {
    std::string text;
    std::uint64_t of_job;  // 0: about the rank. Else: about the job, shown once a value
  };
  struct CatchingUp {  // a look at a rank that was started again and is not live yet
    Position position;
  };
  struct ForeignMpi {  // its program is linked against another MPI
    std::string soname;
  };
  // A --kill did not fire. Reported after the last rank has ended.
  struct Unfired {
    std::string kill;
    Position position;
  };

  // --- About the job.

  // A set of written images is complete.
  struct ImagesWritten {
    std::string directory;
    std::uint64_t bytes;
    std::uint64_t took_ns;
    std::uint64_t stopped_ns;  // how long all ranks were stopped
  };
  // No set will be: a version of the program's checkpoints is, or is being written.
  struct HasVersions {};
  struct Snapshot {  // every rank has completed an image since the last Snapshot
    Protection protection;
  };
  struct Heartbeat {  // periodic, see --heartbeat
    Protection protection;
  };
  struct Committed {
    std::uint64_t checkpoint;  // that all ranks have made
  };
  // Every rank waits, and none is left that could wake another.
  struct Deadlock {
    // Empty, or: the replay of `rank` blocks because it differs from the first execution.
    std::string diverged;
  };
  struct Timeout {};
  struct Interrupted {
    int signal;  // that ends the job, or is a notice
  };
  // A host is about to go: its agent has got SIGTERM.
  struct HostNotice {
    std::uint32_t host;
  };
  struct Tick {};      // SupervisorCore::awaits_ticks()
  struct OutputLost {  // the job's output cannot be written any more
    int code;          // exit code for the job
    std::string why;
  };
  // Every rank of a host has ended, and none is being started.
  struct AllOver {
    std::uint32_t host;
    Totals totals;
  };
  // Nothing more will come from the agent of a host: its connection has ended, or it is silent.
  struct AgentLost {
    std::uint32_t host;
    std::string why;  // predicate of a sentence about the agent
  };
  // A host has joined while the job runs (--listen), or one that runs no rank has left.
  struct Spare {
    std::string name;
    std::string left;                          // how, as a predicate; empty: it has joined
    std::optional<std::uint32_t> in_place_of;  // a host that is lost; else it is a spare
  };

  std::uint64_t at_ns;  // since the job's start. Ended: when the end was seen
  std::uint32_t rank;   // that it is about; 0 if it is about the job
  std::variant<Started, SpawnFailed, Registered, Initialized, Live, Finalized, Ended, Aborted, Lost,
               Diverged, RolledBack, NoSet, ImagesDue, OfSet, JournalFull, Notice, CatchingUp,
               ForeignMpi, Unfired, ImagesWritten, HasVersions, Snapshot, Heartbeat, Committed,
               Deadlock, Timeout, Interrupted, HostNotice, Tick, OutputLost, AllOver, AgentLost,
               Spare>
      what;
  // Deaths that the agent of its host had published by then. 0: it comes from no agent.
  std::uint32_t epoch = 0;
  std::uint32_t host = 0;  // of that agent
};

}  // namespace rejoin::launcher
