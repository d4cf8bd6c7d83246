// One incarnation of a rank as its program sees it: operations over communicators, with generated
// contributions, and every outcome passed to the oracle. A rank's contributions depend on
// everything that it has received, so that one wrong byte changes everything after it.
//
// Nothing here owns memory, because an incarnation that dies is not unwound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "engine/reduction.h"
#include "job.h"
#include "recovery/rank.h"

namespace rejoin::sim {

// The reduced values. Their operator is neither commutative nor associative: any other order gives
// other bits.
struct Element {
  // In tagged runs the least and greatest generation of the attempts from which the value was made;
  // otherwise what distinguishes operations with the program's own operator from others.
  std::uint16_t oldest;
  std::uint16_t newest;
  std::uint32_t hash;
};
static_assert(sizeof(Element) == 8);

class SimCollective;

struct How {
  bool user = false;   // the operator is the program's own
  bool early = false;  // the caller offers a buffer
};

inline constexpr std::size_t kMaxCounts = 64;

// Whether the journal has all bytes of a message that a rank of the same node has sent to this one.
bool is_in_journal(const SimHost& host, const recovery::Arrived& a);

class Player {
 public:
  struct Comm {
    Group* group = nullptr;
    SimRank::Comm* comm =
        nullptr;  // null: this rank is not a member, and all its operations do nothing
    std::uint32_t me = 0;
    Count* count = nullptr;
    std::uint32_t size() const { return static_cast<std::uint32_t>(group->members.size()); }
  };
  // `memory`: for the buffers of one operation at a time.
  Player(Job& job, SimRank& rank, std::byte* memory);

  Job& job() { return job_; }
  SimRank& sim_rank() { return rank_; }
  std::uint32_t rank() const { return rank_.rank(); }
  std::uint32_t ranks() const { return rank_.size(); }
  std::uint32_t incarnation() { return rank_.host().incarnation(); }

  // `id` distinguishes communicators of the same members.
  Comm everyone(std::uint64_t id = 0);
  Comm comm(std::initializer_list<std::uint32_t> members, std::uint64_t id = 0);
  Comm comm(const std::uint32_t* members, std::uint32_t size, std::uint64_t id);
  void free(Comm& c);

  using Status = recovery::Status;
  Status allreduce(Comm& c, std::size_t count, How how = {});
  Status barrier(Comm& c);
  Status bcast(Comm& c, std::uint32_t root, std::size_t count, How how = {});
  Status allgather(Comm& c, std::size_t count, How how = {});
  // Member i contributes a number of elements that depends on i and `count`; some contribute none.
  Status allgatherv(Comm& c, std::size_t count, How how = {});

  Status reduce(Comm& c, std::uint32_t root, std::size_t count);
  Status gather(Comm& c, std::uint32_t root, std::size_t count);
  Status scatter(Comm& c, std::uint32_t root, std::size_t count);
  Status alltoall(Comm& c, std::size_t count);
  // In a ring: two messages to the next member, one to the previous one, and one to the member
  // itself.
  Status neighbours(Comm& c, std::size_t count);
  Status scan(Comm& c, std::size_t count);
  Status exscan(Comm& c, std::size_t count);
  // One message from one member to another; the other members do nothing.
  Status message(Comm& c, std::uint32_t from, std::uint32_t to, std::size_t count);
  // One message, and a reply from the rank that has received it.
  Status echo(Comm& c, std::uint32_t from, std::uint32_t to, std::size_t count);

  // Messages between two ranks, `count` elements; from, tag < 0: any.
  struct Pending {
    enum Kind : std::uint8_t { kNone, kSynchronous, kReceive, kCollective };
    Kind kind = kNone;
    Comm* comm = nullptr;
    recovery::Receive receive;
    recovery::SentMessage sent;
    SimCollective* collective = nullptr;
  };
  // Nonblocking collectives are completed by wait() and the functions below. Up to kMostOutstanding
  // may be outstanding at a time, with up to 4096 elements together.
  static constexpr std::size_t kMostOutstanding = 16;
  void begin_allreduce(Comm& c, Pending* p, std::size_t count, How how = {});
  void begin_barrier(Comm& c, Pending* p);
  void begin_bcast(Comm& c, Pending* p, std::uint32_t root, std::size_t count);
  void begin_allgather(Comm& c, Pending* p, std::size_t count);
  void begin_gather(Comm& c, Pending* p, std::uint32_t root, std::size_t count);
  void begin_alltoall(Comm& c, Pending* p, std::size_t count);
  void begin_scan(Comm& c, Pending* p, std::size_t count);
  void send(Comm& c, std::uint32_t to, int tag, std::size_t count);
  void ssend(Comm& c, std::uint32_t to, int tag, std::size_t count);
  void isend(Comm& c, Pending* p, std::uint32_t to, int tag, std::size_t count, bool synchronous);
  void irecv(Comm& c, Pending* p, int from, int tag);
  void recv(Comm& c, int from, int tag);
  // Both messages have `count` elements.
  void sendrecv(Comm& c, std::uint32_t to, int from, int tag, std::size_t count);
  void wait(Pending* p);
  bool test(Pending* p);
  int wait_any(Pending* all, int count);
  int test_some(Pending* all, int count, int* indices);
  bool iprobe(Comm& c, int from, int tag);
  // Returns the member that has sent the message.
  int probe(Comm& c, int from, int tag, int* got_tag);
  bool cancel(Pending* p);

  // Returns the checkpoint at which the program goes on; 0: it begins at the start. If not 0, the
  // state comes from the models. Operations from here to end_bootstrap_phase() are executed in
  // every incarnation.
  std::uint64_t load();
  void end_bootstrap_phase() { in_bootstrap_phase_ = false; }
  // The global model is the same at all ranks. The models are overwritten as soon as this returns.
  Status checkpoint(Comm& world);
  // The first of these checkpoints and every `every`-th is written; the others are only numbers.
  void checkpoint_lazily(Comm& world, std::uint64_t every);
  // From now on models grow by that many elements with every version.
  void grow_models(std::size_t elements) { growth_ = elements; }
  // Sets the key of the next operation of the bootstrap phase. 0, the default: the key follows from
  // the call site. All operations that give every rank the same result are marked there.
  void mark(std::uint64_t key) { hint_.key = key; }
  // From now on all calls have this call site, as if the program used a wrapper function. 0: not
  // any more.
  void call_through(std::uint64_t site) { site_ = site; }

  // told(): members disagree about the operation that returned this status, which must report it.
  // goes_on(): members agree again after a disagreement.
  void goes_on(Status status) {
    if (status != Status::kOk) job_.fail_if("a disagreement that members are told of again");
  }
  void told(Status status) {
    if (status != Status::kMismatch) job_.fail_if("a disagreement that a member is not told of");
  }

  // Returns the part of the memory that is in use between two operations, or when one begins.
  std::vector<std::span<std::byte>> memory_in_use() const;
  // Returns why no image may be made of the rank now: it still replays outcomes of its predecessor.
  const char* forbids_image() const {
    if (rank_.messages().is_writing()) return "an image is made of a rank that writes a message";
    const bool told = rank_.messages().has_recorded_answers();
    return told ? "S1: an image is made of a rank that is still told the past" : nullptr;
  }
  bool is_restored() const { return restored_; }
  // Returns a hash over all that the program has received.
  std::uint64_t state() const { return journal::mix(state_ + bootstrap_state_ + common_); }

  // Called before an attempt: in tagged runs its contribution is different.
  void retag();

 private:
  friend class SimPort;
  friend class SimCollective;
  // At the front of `memory`, for as long as the player exists.
  static constexpr std::size_t kKeptBytes = 2 * kMaxCounts * sizeof(Count);
  // Where the outcome of an operation came from.
  struct Given {
    std::uint64_t sequence;  // the sequence number of the record
    std::uint64_t number;    // the number of the operation, as in Count
    bool out_of_turn;        // replayed out of order, and answered
  };
  struct Buffer {
    Element* data = nullptr;
    std::size_t count = 0;
    std::size_t bytes() const { return count * sizeof(Element); }
  };

  static void combine(const engine::Reduction& self, const void* a, const void* b, void* out,
                      std::size_t count);
  engine::Reduction reduction(bool user);
  recovery::Call call(const Comm& of, recovery::OpKind kind, std::size_t bytes, int root) const;
  void* allocate(std::size_t bytes);
  Buffer buffer(std::size_t count);
  Buffer contribution(const Comm& c, std::size_t count, bool by_incarnation,
                      std::uint16_t label = 0);
  void fill(const Buffer& b, std::uint64_t salt, std::uint16_t generation);

  void write_models(std::uint64_t v, Buffer* global, Buffer* local);
  Status checkpoint(Comm& world, std::uint64_t next);
  void read_models();
  void check_loaded();
  bool replays_bootstrap() const { return in_bootstrap_phase_ && restored_; }
  Count* count_of(std::uint64_t context);
  void begin(Comm& c, bool bcast, bool follower);
  Given given(const Comm& c, const recovery::Outcome& outcome);
  void end(Comm& c, const Given& g, std::uint64_t hash, bool common);
  Status replicated(Comm& c, recovery::OpKind kind, int root, const Buffer& in, std::size_t count,
                    const engine::Reduction* reduction, const std::size_t* blocks, bool early);
  void probe_head_start(const Buffer& early, const recovery::Outcome& o);
  Status end_replicated(Comm& c, const recovery::Outcome& o, recovery::OpKind kind,
                        std::size_t bytes);
  Status scan(Comm& c, std::size_t count, bool exclusive);
  using SimMessages = recovery::PointToPoint<SimHost>;
  std::uint32_t begin_message(recovery::OpKind kind);
  void post_receive(Comm& c, Pending* p, int from, int tag, const Buffer* to);
  void post_message(Comm& c, std::uint32_t call, Pending* p, std::uint32_t to, int tag,
                    const Buffer& b, bool synchronous);
  SimCollective* make_collective(Comm& c, recovery::OpKind kind, int root);
  void start(Comm& c, Pending* p, SimCollective* collective);
  std::uint64_t finish_collective(Pending* p);
  static bool is_over(const SimCollective& collective);
  void show_awaited(const SimCollective& collective);
  bool is_over(Pending* p, bool thorough);
  void await(Pending* p);
  // A receive's message goes to `to`, or to a buffer of its own.
  void finish(Pending* p, const Buffer* to = nullptr);
  void told(std::uint64_t answer);
  void learn(std::uint64_t what);
  template <class Algorithm>
  Status channel(Comm& c, recovery::OpKind kind, int root, const Buffer& in, const Buffer& out,
                 bool own_in_outcome, Algorithm&& algorithm);

  Job& job_;
  SimRank& rank_;
  std::byte* const memory_;
  std::size_t used_;
  // The state of the program: a hash over all outcomes except those of the bootstrap phase, one
  // over those, and one over the outcomes that all ranks got.
  std::uint64_t state_;
  std::uint64_t bootstrap_state_ = 0;
  std::uint64_t common_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t questions_ = 0;
  std::uint64_t collectives_ = 0;  // nonblocking collectives begun so far
  std::uint64_t outstanding_ = 0;  // those of them that are outstanding
  std::size_t most_of_area_ = 0;   // bytes that any of them has used
  std::uint64_t bootstrap_operations_ = 0;
  std::uint64_t site_ = 0;
  recovery::Hint hint_;
  std::size_t growth_ = 0;
  bool in_bootstrap_phase_ = false;
  bool restored_ = false;
  Count* const counts_;           // [kMaxCounts], of existing communicators
  Count* const restored_counts_;  // the same, of the version that was loaded
  recovery::Loaded loaded_ = {};
  std::uint64_t loaded_hash_ = 0;
  std::uint64_t messages_ = 0;  // hash over the messages received in this operation
  std::uint64_t sent_[kMaxSimRanks] = {};
  // For the next attempt, in tagged runs.
  Buffer retagged_;
  Comm* retagged_comm_ = nullptr;
  std::uint64_t attempts_ = 0;
};

}  // namespace rejoin::sim
