// BasicRank<Host>: see rank.h for what it is. PROTOCOL.md for the rules it follows; the names of
// its steps are the names there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/attempt.h"
#include "engine/members.h"
#include "wire/messages.h"
#include "engine/region.h"
#include "engine/segment.h"
#include "engine/step.h"
#include "engine/waiting.h"
#include "recovery/arena.h"
#include "recovery/bootstrap.h"
#include "recovery/call_table.h"
#include "recovery/hash.h"
#include "recovery/operation_log.h"
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
    Comm* next = nullptr;       // of my communicators
    std::uint64_t at_load = 0;  // next_sequence then
    bool late = false;          // made after the first checkpoint
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
  Host& host() const { return host_; }
  Arena& arena() { return arena_; }

  // A communicator of the world ranks members[0..size), mine among them. Local. `context` comes
  // from engine::derive_context; making the same context again in a new incarnation finds its
  // records. nullptr: kMaxContexts or memory is used up.
  Comm* make_comm(std::uint64_t context, const std::uint32_t* members, std::uint32_t size);
  // Forgets the private state; records and position stay for the others.
  void free_comm(Comm* comm);

  // Runs or replays one uniform operation. *result: result_bytes of committed bytes (in shared
  // memory, at u.early, or in the comm), valid until the next operation on this rank; undefined
  // unless kOk. Blocks until every member has entered (Bcast: the root never waits).
  Status uniform(Comm& comm, const Call& call, const Uniform& u, const std::byte** result);

  // Of the operation that was entered last, as its record names it.
  std::uint64_t newest_sequence() const { return newest_sequence_; }

  // Says something about the next operation.
  void mark_bootstrap(std::uint64_t key) {
    hint_.bootstrap = hinted_ = true;
    hint_.key = key;
  }
  void set_prepare(void (*function)(void*), void* argument) {
    hinted_ = true;
    hint_.prepare = function;
    hint_.argument = argument;
  }

  // Where to go on. Once, before the first checkpoint; never waits. Fails with kRefused.
  Status load(Loaded* loaded);
  // Collective over all ranks of the job; `world` is a communicator of all of them. Fails with
  // kRefused (I may not, or there is no room for the bootstrap cache) or kMismatch (ranks do not do
  // the same).
  Status checkpoint(Comm& world, const Call& call, const Models& models);
  // The lazy checkpoint that is written next, as rank 0 said with the newest written one; before it
  // is reached, lazy checkpoints are only numbers.
  std::uint64_t next_lazy() const { return next_lazy_; }
  void pass_checkpoint() { ++version_; }
  std::uint64_t version() const { return version_; }
  // Whether a former life has prepared the next version already.
  bool is_prepared() const { return control_->prepared.load(std::memory_order_relaxed) > version_; }
  bool has_loaded() const { return load_called_; }
  bool is_replaying() const { return incarnation_ > 0 && !live_; }

  // Fault injection at MPI_Init and MPI_Finalize.
  void point(PointKind kind, Moment moment);
  // Position for people: 1 = after Init, 2 = after Finalize.
  void set_initialized(std::uint32_t state);

  // Text of the newest kMismatch or kTruncated, with call sites as in wire/messages.h.
  const char* last_error() const { return error_; }

  // --log-ops. uniform() and Operation do it by themselves, checkpoint() the end, load() nothing.
  void begin_log(const Call& call) {
    if (log_.wanted()) [[unlikely]]
      log_.begin(*calls_.entry(intern(call).call), replayed_);
  }
  void end_log(Status status) {
    if (log_.wanted()) [[unlikely]]
      log_.end(status, version_, replayed_);
  }
  OperationLog<Host>& log() { return log_; }

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
    const Record* record;  // mine, if I have one; else null
    bool asked_again;      // an operation of the set-up, answered out of turn
    bool together;         // perhaps one of the set-up, but all members ask: they run it
    Status status;         // kRefused: it was not entered
    std::uint64_t key;     // to keep its outcome under; 0: none
    Hint hint;
  };
  enum class Standing { kUnknown, kSame, kElsewhere, kAsksToo };
  struct Watch;

  Entered enter(Comm& c, const Call& call, bool by_messages = false);
  void show_position(const Comm& c, const Entered& e);
  void count_replayed();
  void meet_limit();
  typename CallTable<Host>::Interned intern(const Call& call);
  void leave(Status status = Status::kOk);
  void went_live();
  void kill_point(Moment moment) {
    if (ordinal_ == kill_ordinal_) maybe_die(PointKind::kOperation, moment);
  }
  void maybe_die(PointKind kind, Moment moment);
  void arm_kill();

  // Look-up.
  void check_replay(const Comm& c, const Entered& e, const Call& call, std::uint32_t fingerprint);
  Status replay(Comm& c, const Entered& e, const Call& call, const Uniform& u,
                const std::byte** result);
  std::uint32_t find_record(Comm& c, std::uint64_t sequence);
  Status take(Comm& c, const Entered& e, std::uint32_t member, std::uint32_t fingerprint,
              std::uint64_t* value);
  std::uint32_t refresh_generation(Comm& c);

  // Execution.
  Status run(Comm& c, const Entered& e, const Call& call, const Uniform& u, std::uint64_t* value);
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

  // Checkpoints.
  std::uint64_t committed() const;
  std::uint64_t line() const;
  engine::Version* find_version(std::uint32_t rank, std::uint64_t number);
  Status prepare(std::uint64_t v, const Models& m);
  Status note_prefix(std::uint64_t v);
  std::byte* room_in(engine::Buffer& buffer, std::size_t bytes);
  void keep_version(std::uint64_t v, const Models& m);
  void keep_model(engine::Buffer& buffer, const void* data, std::size_t bytes);
  std::uint32_t passing_member(Comm& world, std::uint64_t sequence, std::uint64_t v,
                               std::uint32_t* call);
  Status await_commit(Comm& world, const Entered& e, std::uint64_t v);
  Status compare_globals(std::uint64_t v);
  Status compare_counters(std::uint64_t v);
  void forget_behind(std::uint64_t v);
  void forget_records(Comm& c, std::uint64_t behind);
  void forget_messages(std::uint32_t to, std::uint64_t behind);
  const engine::Counter* counter_of(const engine::Version& v, std::uint64_t context);
  const std::uint64_t* sent_of(const engine::Version& v);
  const std::uint64_t* received_of(const engine::Version& v);
  std::uint64_t prefix_end(std::uint64_t context);
  void begin_bootstrap(Loaded* loaded);
  void restore(engine::Version& v);
  void restore(Comm& c);

  // Operations asked for again.
  bool is_asked_again(Comm& c, bool by_messages, Entered* e);
  bool has_made_what_lasts(Comm& c, std::uint64_t sequence);
  bool is_repeated(Comm& c, std::uint64_t sequence);
  engine::CallEntry* call_at(Comm& c, std::uint32_t i, std::uint64_t sequence);
  void check_confusion(const Comm& c, const Entered& e, std::uint32_t fingerprint);
  Standing ask_members(Comm& c, std::uint64_t then, const Entered& e);
  Standing history_of(Comm& c, std::uint32_t i, std::uint64_t then, std::uint64_t next);
  Standing standing_of(Comm& c, std::uint32_t i, std::uint64_t then, std::uint64_t next,
                       bool* seen);
  struct Died {
    std::uint64_t context = 0;  // 0: there was none
    std::uint64_t sequence = 0;
    const engine::CallEntry* call = nullptr;
  };
  Died died_in(std::uint32_t world);
  bool is_further(const Comm& c, std::uint32_t world);
  bool waits_for_me(std::uint32_t world, std::uint64_t context, std::uint64_t sequence, bool* seen);
  bool find_marked(Comm& c, Entered* e);
  bool is_used(std::uint64_t key) const;
  void note_used(std::uint64_t key);
  Status keep_marked(Comm& c, const Entered& e, std::size_t result_bytes);

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
  std::uint64_t recycled_in_ =
      0;  // context and sequence of the newest operation that ended an interval
  std::uint64_t recycled_at_ = 0;
  unsigned half_ = 0;  // of the staging; alternates
  std::byte* scratch_;
  std::uint64_t* sent_;      // [ranks] messages sent in this execution
  std::uint64_t* received_;  // [ranks]
  engine::LogWriter<engine::ChannelEntry, Host>* channel_writer_;  // [ranks]
  bool* channel_open_;
  std::uint32_t* everybody_;  // [ranks] 0, 1, ...
  Comm* comms_ = nullptr;
  std::uint64_t newest_sequence_ = 0;
  bool hinted_ = false;
  Hint hint_;
  bool load_called_ = false;
  bool past_set_up_ = false;   // this execution has made its first checkpoint
  std::uint64_t version_ = 0;  // of this execution
  std::uint64_t next_lazy_ = 0;
  std::uint64_t payload_at_load_ = 0;
  std::uint64_t loaded_version_ = 0;     // by this life, from the journal
  engine::Version* restored_ = nullptr;  // where this life went on
  Bootstrap bootstrap_;                  // empty unless restored
  engine::LogWriter<engine::Marked, Host> marked_;
  std::uint64_t* used_keys_ = nullptr;  // by this execution
  std::size_t used_count_ = 0;
  std::size_t used_room_ = 0;
  OperationLog<Host> log_;
  char error_[768] = "";
};

}  // namespace rejoin::recovery

#include "recovery/asked_again.h"
#include "recovery/basic_rank_inl.h"
#include "recovery/checkpoints.h"
#include "recovery/operation.h"
