// BasicRank<Host>: see rank.h for what it is. PROTOCOL.md for the rules it follows; the names of its
// steps are the names there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/attempt.h"
#include "engine/members.h"
#include "engine/messages.h"
#include "engine/region.h"
#include "engine/segment.h"
#include "engine/step.h"
#include "engine/waiting.h"
#include "recovery/arena.h"
#include "recovery/call_table.h"
#include "recovery/hash.h"
#include "recovery/rank.h"

namespace rejoin::recovery {

using engine::Moment;
using engine::Offset;
using engine::PointKind;
using engine::Record;
using engine::Step;

template <class Host>
class BasicRank {
 public:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  // The private state of one communicator in one incarnation. All of it can be rebuilt from the
  // segment and the program's own calls.
  struct Comm {
    engine::Members members;
    engine::LogWriter<Record, Host> records;
    std::uint64_t next_sequence = 0;  // of the next operation in this execution
    std::uint32_t chain = 0;          // over the signatures of the operations so far
    std::uint32_t epoch_seen = 0;     // job epoch at which `generation` was computed
    std::uint32_t generation = 0;
    std::uint64_t small_result = 0;  // where inline results are handed out
    // What was last seen of a root's records: while it is ahead, its line is left alone.
    std::uint32_t root_seen = kNobody;
    std::uint64_t root_tail = 0;
  };
  class Operation;

  // `arena` is the rank's private memory; both must outlive the rank.
  BasicRank(Host& host, Arena& arena);
  BasicRank(const BasicRank&) = delete;
  BasicRank& operator=(const BasicRank&) = delete;

  std::uint32_t rank() const { return host_.rank(); }
  std::uint32_t size() const { return header_->ranks; }
  std::uint32_t incarnation() const { return incarnation_; }
  Host& host() { return host_; }
  Arena& arena() { return arena_; }

  // A communicator of the world ranks members[0..size), mine among them. Local. `context` comes from
  // engine::derive_context; making the same context again in a new incarnation finds its records.
  // nullptr: kMaxContexts or memory is used up.
  Comm* make_comm(std::uint64_t context, const std::uint32_t* members, std::uint32_t size);
  // Forgets the private state; records and position stay for the others.
  void free_comm(Comm* comm);

  // Runs or replays one uniform operation. *result: result_bytes of committed bytes (in shared
  // memory, at u.early, or in the comm), valid until the next operation on this rank; undefined unless
  // kOk. Blocks until every member has entered (Bcast: the root never waits).
  Status uniform(Comm& comm, const Call& call, const Uniform& u, const std::byte** result);

  // Fault injection at MPI_Init and MPI_Finalize.
  void point(PointKind kind, Moment moment);
  // Position for people: 1 = after Init, 2 = after Finalize.
  void set_initialized(std::uint32_t state);

  // Text of the newest kMismatch or kTruncated, with call sites as in engine/messages.h.
  const char* last_error() const { return error_; }

  engine::Log& observation_log() { return region_head_->observations; }
  engine::Region<Host>& region() { return region_; }

  // The replay asks for something else than the first execution did: the job cannot go on.
  [[noreturn]] void diverged(const char* text);
  // One line for the user; the caller bounds how often.
  void notice(const char* text);

 private:
  struct Entered {
    std::uint64_t sequence;
    std::uint32_t call;
    std::uint32_t signature_hash;
    bool replaying;  // I have a record
  };
  struct Watch;

  Entered enter(Comm& c, const Call& call);
  void leave();
  void went_live();
  void kill_point(Moment moment) {
    if (ordinal_ == kill_ordinal_) maybe_die(PointKind::kOperation, moment);
  }
  void maybe_die(PointKind kind, Moment moment);
  void arm_kill();

  // Look-up.
  void check_replay(Comm& c, const Entered& e, const Call& call, std::uint32_t fingerprint);
  Status replay(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                const std::byte** result);
  std::uint32_t find_record(Comm& c, std::uint64_t sequence);
  Status take(Comm& c, const Entered& e, std::uint32_t member, std::uint32_t fingerprint,
              std::uint64_t* value);
  std::uint32_t refresh_generation(Comm& c);

  // Execution.
  Status run(Comm& c, const Entered& e, const Call& call, const Uniform& u, std::uint32_t print,
             std::uint64_t* value);
  Status run_attempt(Comm& c, const Entered& e, const Uniform& u, Watch& watch,
                     std::uint64_t* value, bool* complete);
  Status run_bcast(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                   std::uint32_t print, std::uint64_t* value);
  void await_readers(Comm& c, std::uint64_t sequence, std::uint64_t distance);
  void recycle(const Comm& c, std::uint64_t sequence);
  std::uint64_t store(const void* data, std::size_t bytes);
  Offset allocate(std::size_t bytes);
  Offset reserve(std::size_t bytes);
  void commit(Comm& c, const Entered& e, std::uint32_t fingerprint, std::uint64_t value,
              bool failed);
  const std::byte* open(Comm& c, std::uint64_t value, std::size_t bytes);

  // Disagreement between members.
  std::uint32_t disagreeing_member(Comm& c, const Entered& e, std::uint32_t* call);
  Status mismatch(Comm& c, const Entered& e, std::uint32_t member, std::uint32_t member_call);
  bool find_earlier_mismatch(Comm& c, const Entered& e, std::uint32_t member,
                             std::uint32_t* my_call, std::uint32_t* member_call);
  void describe(char* text, std::size_t size, std::uint32_t world_rank, std::uint32_t call);

  [[noreturn]] void out_of_memory();

  Host& host_;
  Arena& arena_;
  engine::SegmentHeader* header_;
  engine::RankControl* control_;
  engine::RegionHead* region_head_;
  engine::Region<Host> region_;
  CallTable<Host> calls_;
  const std::uint32_t incarnation_;
  std::uint64_t ordinal_ = 0;
  std::uint64_t kill_ordinal_ = 0;  // next ordinal at which a --kill may fire; 0 = none
  std::uint64_t replayed_ = 0;
  bool live_ = false;
  bool catching_up_ = false;  // look for others' records before the first attempt
  bool warned_fingerprint_ = false;
  bool early_ = false;  // the newest result lies at Uniform::early already
  std::uint64_t recycled_in_ = 0;  // context and sequence of the newest operation that ended an interval
  std::uint64_t recycled_at_ = 0;
  unsigned half_ = 0;  // of the staging; alternates
  std::byte* scratch_;
  std::uint64_t* sent_;      // [ranks] messages sent in this execution
  std::uint64_t* received_;  // [ranks]
  engine::LogWriter<engine::ChannelEntry, Host>* channel_writer_;  // [ranks]
  bool* channel_open_;
  char error_[768] = "";
};

}  // namespace rejoin::recovery

#include "recovery/basic_rank_inl.h"
#include "recovery/operation.h"
