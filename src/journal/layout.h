// The host segment: every byte of shared memory that a job has on one host.
//
//     Segment   := SegmentHeader RankControl{ranks} Region{ranks} Link{nodes}?
//     Region    := RegionHead Permanent Payload
//     Permanent := (log chunks | context blocks | staging buffers)*   structure; never recycled
//     Payload   := extents* zones*                                   bytes of results and messages
//
// The agent creates it (memfd, or a file under --journal-dir) and formats it; ranks map it. Nothing
// in it is a pointer: places are Offsets from its first byte. A word has one writer, named beside
// it, but for the doorbells. A reader never sees a half-done change: a log grows by a release store
// of its tail, and everything before the tail is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "journal/fault_point.h"
#include "journal/mix.h"
#include "journal/shared.h"

namespace rejoin::journal {

using Offset = std::uint64_t;  // bytes from the segment's base; 0 = none

inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint32_t kMaxFaults = 256;
inline constexpr std::uint32_t kMaxEpochs = 0xffff;  // a slot's tag has 16 bits for a generation
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kSlotBytes = 32;              // contribution that fits a slot
inline constexpr std::size_t kStageBytes = 256 * 1024;     // of a staging buffer
inline constexpr std::uint32_t kMaxStagingBuffers = 1024;  // of a rank: two for each open operation
inline constexpr std::uint32_t kFirstStagingBuffers = 2;   // so that operations in a row alternate

// The kind of recovery point that the ranks of a job return to, and that low-water marks follow.
// Decided once for the whole job (recovery/PROTOCOL.md, "Which recovery points").
enum class Return : std::uint32_t {
  kUndecided,  // so far a rank that dies begins at main, and nothing is truncated
  kImages,     // frozen images of its process; main while it has none
  kVersions,   // checkpoints that the program makes; main while none is committed
};

// --- Control block

enum class Recycles : std::uint32_t { kNot, kAll, kAllButResults };

// Fields with the same value on every host. All but the last two are constant after start-up.
struct JobWords {
  std::uint64_t magic;
  std::uint64_t job;
  std::uint32_t ranks;
  std::uint32_t faults;
  std::uint64_t journal_limit_bytes;    // of all ranks together; 0 = none
  std::uint64_t bootstrap_limit_bytes;  // of each rank, kept for its bootstrap phase; 0 = none
  std::uint32_t stop_on_divergence;     // 0: --on-divergence warn
  std::uint32_t tell_committed;         // rank 0 reports checkpoints to the agent
  std::uint32_t writes_versions;        // --checkpoint-dir: the agent writes versions to files
  std::uint32_t log_ops;                // --log-ops
  std::uint32_t snapshots;              // ranks are asked for images of their processes
  std::uint32_t nodes_apart;            // ranks of different nodes share only messages
  std::uint64_t snapshot_every_bytes;   // that a rank allocates before it asks for one itself
  std::uint64_t started_wall_ns;        // since 1970
  std::uint64_t first_version;          // --resume: the version that the job begins with; 0 = none
  FaultPoint fault[kMaxFaults];

  // Compare-and-swap from kUndecided, by the agent or by a rank: the first one decides.
  alignas(kLine) AnyWord<Return> goes_back_to;
  // Agent, once, when the supervisor orders it: the journal is full, and ranks may keep less than
  // replays need. From then on no death can be repaired.
  AgentWord<Recycles> recycles;
};

// kDozes: it looks only now and then, because ranks do its work. kLooks: all the time.
enum class RelayState : std::uint32_t { kWakes, kDozes, kLooks };
// Fields that describe one host: its segment's geometry, and what its agent publishes.
struct HostWords {
  std::uint64_t segment_bytes;
  std::uint64_t region_bytes;  // of one rank, virtual
  Offset first_region;
  std::uint32_t ranks_here;        // of this host; at least 1 where ranks run
  std::uint32_t cores;             // processors that these ranks may use together
  std::uint32_t crowded;           // these ranks are more than the processors
  std::uint32_t light_publish;     // publishers have no fence, sleepers look twice (ShmHost)
  std::uint64_t prefaulted_bytes;  // of payload that each rank touches before its first call
  std::uint64_t wall_offset_ns;    // from the clock of ranks to seconds since 1970
  // The control blocks and regions of ranks on other nodes are copies (src/relay). Ringing such a
  // rank carries what was published to its node.
  std::uint32_t has_relay;
  // With relays: the connection with node n is at links + n * link_bytes.
  Offset links;
  std::uint64_t link_bytes;

  // Agent. The newest death; published before the next incarnation is admitted.
  alignas(kLine) AgentWord<std::uint32_t> epoch;
  // Agent. Counted up when ranks have something to handle as they enter their next operation: a
  // snapshot is wanted, marks have moved, the journal has grown (journal/notices.h).
  AgentWord<std::uint32_t> notices;
  // Agent: the version that it is writing to a file; 0 = none. Its slots are not reused.
  AgentWord<std::uint64_t> version_in_file;
  // Rank r writes byte r around its sleep; the relay writes those of ranks on other nodes.
  alignas(kLine) OwnerWord<std::uint8_t> asleep[kMaxRanks];
  // Ranks write 1 if there is something for the relay to do, and it writes 0. A futex.
  alignas(kLine) AnyWord<std::uint32_t> relay_bell;
  AnyWord<RelayState> relay_state;
};

struct SegmentHeader : JobWords, HostWords {};

enum class Phase : std::uint32_t { kOutside, kInside };

// What a rank that sends or receives a message waits for, in one word, for reports: a message from
// one rank or any, with one tag or any; or the receive that matches its own message.
struct Waiting {
  static constexpr std::uint64_t kForMessage = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kForReceive = std::uint64_t{1} << 62;
  static constexpr std::uint32_t kAnyRank = 0xffff;
  static constexpr std::uint32_t kAnyTag = 0xffffffff;
  static constexpr std::uint64_t make(std::uint64_t what, std::uint32_t rank, std::uint32_t tag) {
    return what | std::uint64_t{rank & kAnyRank} << 32 | tag;
  }
  static constexpr std::uint32_t rank(std::uint64_t word) { return word >> 32 & kAnyRank; }
  static constexpr std::uint32_t tag(std::uint64_t word) {
    return static_cast<std::uint32_t>(word);
  }
};

// The versions that are written: the newest, and the next one, in one word. Lazy checkpoints meet
// at these alone; a job of images stores the models of these alone.
struct WrittenVersions {
  std::uint32_t newest = 0;
  std::uint32_t next = 0;
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  static constexpr WrittenVersions of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
  }
  constexpr std::uint64_t word() const { return std::uint64_t{newest} << 32 | next; }
  constexpr bool contains(std::uint64_t version) const {
    return version == newest || version == next;
  }
};

// Payload in the memory of its sender, which its receivers may read (journal/direct.h).
struct Opened {
  OwnerWord<Offset> what;  // place of a message's entry, or of a slot; 0: nothing is open
  OwnerWord<std::uint64_t> at, process, check_at, check;  // OpenedBytes
};

struct RankControl {
  // Agent.
  alignas(kLine) AgentWord<std::uint32_t> death_epoch;  // of its newest death; 0 = never died
  AgentWord<std::uint32_t> incarnation;
  // Agent. The number of the image that it wants of this rank.
  AgentWord<std::uint64_t> snapshot_wanted;
  // Agent, in the turn in which it accepts an image: the oldest that it would still wake; 0 = main.
  // Its cursors are the rank's low-water marks.
  AgentWord<std::uint64_t> kept_image;
  // The number of the newest set of images that is wanted, one image of each rank of the job. All
  // ranks of a host read the word of the host's first rank (set_wanted_on()). It is stored
  // before any of these images is asked for, and before anything is shown that a rank of another
  // host has shown behind its image. Written by want_set(), and when all ranks go back.
  AnyWord<std::uint64_t> set_wanted;

  // The owner, each once from 0 to 1. Others read them, so they lie in a line that hardly changes.
  // It was restarted, and makes unproven calls (see Record).
  OwnerWord<std::uint32_t> unproven;
  // The program marks its set-up, so calls that it has not marked are none.
  OwnerWord<std::uint32_t> marks_set_up;
  // This incarnation has reported to the supervisor that the journal is full (MessageType::kLimit).
  OwnerWord<std::uint32_t> told_full;
  // It has sent the notice about the decision for the whole job (Return).
  OwnerWord<std::uint32_t> decision_told;
  // The node that the rank belongs to, by the job's layout. Set before the job begins.
  std::uint32_t node;

  // Ranks and the agent write 1, the owner 0. A futex.
  alignas(kLine) AnyWord<std::uint32_t> bell;

  // The owner. Its diagnostics position: for reports and disagreement; it never decides an outcome.
  alignas(kLine) OwnerWord<std::uint64_t> ordinal;  // MPI operations entered by this incarnation
  OwnerWord<std::uint64_t> context;
  OwnerWord<std::uint64_t> sequence;
  OwnerWord<std::uint32_t> call;  // index into its call table
  OwnerWord<Phase> phase;
  OwnerWord<std::uint64_t> replayed;     // operations of this incarnation answered by records
  OwnerWord<std::uint64_t> live_since;   // ordinal of its first live operation; 0 = none yet
  OwnerWord<std::uint32_t> initialized;  // 1 after MPI_Init, 2 after MPI_Finalize (incarnation's)
  // Odd while context, sequence and call change within one call of MPI.
  OwnerWord<std::uint32_t> moves;
  OwnerWord<std::uint64_t> waits_for;  // a Waiting, inside a message's operation; else 0
  // 1: in its newest thorough look this incarnation had not repeated all that its predecessor has
  // shown to others (recovery/repetition.h).
  OwnerWord<std::uint32_t> repeating;

  // The owner. Checkpoints, see recovery/PROTOCOL.md.
  alignas(kLine) OwnerWord<std::uint64_t> prepared;  // its models of this version are whole
  // The version that it never goes back behind: its cursors are the rank's low-water marks. 0 =
  // main.
  OwnerWord<std::uint64_t> kept;
  // Agent: the newest output mark that it has made for this rank (MessageType::kMark).
  AnyWord<std::uint64_t> output_mark;
  // Rank 0: WrittenVersions, before it prepares `newest`.
  OwnerWord<std::uint64_t> written_versions;
  // The owner. Nonzero if more than one of its threads has called MPI. The order of those calls is
  // not recorded, so the rank can be restarted alone only from an image with at least this number:
  // behind such an image none of those calls is repeated, and none was going on.
  OwnerWord<std::uint64_t> several_threads_before;
  // The owner. 1 if a thread may call MPI while another one blocks in it (MPI_THREAD_MULTIPLE).
  OwnerWord<std::uint32_t> threads_may_call;

  // The owner. Allocation in its region; both outlive it.
  alignas(kLine) OwnerWord<std::uint64_t> permanent_bump;  // next free byte from the region's begin
  OwnerWord<std::uint64_t> payload_bump;                   // likewise
  OwnerWord<std::uint64_t> backed_bytes;                   // with pages; counts to the limit
  OwnerWord<std::uint64_t> used_bytes;      // allocated so far, reused memory included
  OwnerWord<std::uint64_t> journal_faults;  // page faults of making it safe to touch
  // This process: duration of its newest clone (0: there is none), and both fault counts then.
  OwnerWord<std::uint64_t> clone_ns;
  OwnerWord<std::uint64_t> faults_at_clone;
  OwnerWord<std::uint64_t> journal_faults_at_clone;
  OwnerWord<std::uint64_t> page_copy_ns;  // cost of one copy-on-write fault, as measured by this
                                          // rank; 0: not measured yet
  OwnerWord<std::uint64_t> snapshots_cost_ns;  // of the rank so far
  // Written by the helper that clones it: first the newest image's process, then its number.
  OwnerWord<std::int64_t> image_pid;
  OwnerWord<std::uint64_t> image_number;

  // The owner; the agent clears them when it publishes its death, and before it is admitted.
  alignas(kLine) Opened opened;
  alignas(kLine) OwnerWord<std::uint64_t> reads;  // whose bytes it reads, or has read (direct.h)
};

// --- Logs

inline constexpr std::uint32_t kLogChunks = 36;
inline constexpr std::uint32_t kLogRings = 24;

// Elements from `from` on, up to the next ring's: element i lies at place (i - from) mod capacity.
struct LogRing {
  std::uint64_t from;
  std::uint64_t capacity;  // a power of two
  Offset at;
};

// An append-only array of fixed-size elements that never moves: chunk k holds first << k elements.
// The owner writes; any process reads below `tail`. Once elements may be truncated, new ones wrap
// in a ring; one that is too small is followed by a larger one. The tail has a line of its own: a
// reader of elements below a tail that it remembers does not wait for the line that the owner
// writes.
struct Log {
  alignas(kLine) OwnerWord<std::uint64_t> tail;   // elements published
  alignas(kLine) OwnerWord<std::uint32_t> rings;  // of them in use
  OwnerWord<Offset> chunk[kLogChunks];
  LogRing ring[kLogRings];
};

// What a call was: interned once, so that a record needs only an index. All of it but `root` and
// `count` in data movement is compared between ranks; all of it between an execution and its
// replay.
struct Signature {
  std::uint16_t kind;       // OpKind
  std::uint16_t type;       // canonical base type of a reduction; 0 in data movement
  std::uint16_t operation;  // of a reduction
  std::uint16_t reserved;
  std::int32_t root;     // rank in the communicator; -1 = none
  std::uint32_t layout;  // hash of counts where they differ by rank (v- and w-variants)
  std::uint64_t bytes;   // common to all members; 0 where it differs by rank
  bool operator==(const Signature&) const = default;
};

struct CallEntry {
  Signature signature;
  std::uint32_t hash;    // of the signature
  std::uint32_t module;  // index into the module log
  std::uint64_t place;   // offset of the return address in the module's file; a named site's line
  std::uint32_t phases;  // kCalled...; changes in place (load_element)
};
// The phases, since the load, in which a call was executed live.
inline constexpr std::uint32_t kCalledInBootstrapPhase = 1;
inline constexpr std::uint32_t kCalledInIterations = 2;

struct ModuleEntry {
  std::uint8_t build_id[20];     // zeros = none
  std::uint32_t build_id_bytes;  // kNamedSite: `path` is FILE::FUNCTION, as the program says
  char path[232];                // cut at the front if longer
};
inline constexpr std::uint32_t kNamedSite = ~std::uint32_t{0};

// The outcome of one operation of a context. `value` is the result itself up to 8 bytes, else the
// Offset of its bytes in some rank's region.
struct Record {
  std::uint32_t call;  // index into the owner's call log, and the flags below
  std::uint32_t fingerprint;
  std::uint64_t value;
};
inline constexpr std::uint32_t kRecordFailed = 0x80000000u;  // the operation failed
// Made by a restarted rank at a place that it had called only in its bootstrap phase: the other
// members' calls decide whether it is the same place as theirs (PROTOCOL.md, "Bootstrap").
inline constexpr std::uint32_t kUnproven = 0x40000000u;
inline constexpr std::uint32_t kCallIndex = 0x3fffffffu;
inline constexpr std::size_t kInlineBytes = 8;

// One message, numbered by its index in the channel's log. It exists once `ready` is set; the log's
// tail follows later. `written` says how much of a large payload is there.
struct alignas(kLine) ChannelEntry {
  std::uint64_t context;
  std::uint64_t key;   // kPointToPoint and the tag; else the sequence of the collective
  std::uint32_t call;  // as in Record
  std::uint32_t hash;  // of the payload
  std::uint64_t bytes;
  std::uint64_t value;  // as in Record
  std::uint32_t type;   // hash of the type signature; 0 = not compared
  // Written by the receiver of a kSynchronous message: matched_by() the receive that was given it;
  // 0 = none yet.
  AnyWord<std::uint32_t> matched;
  OwnerWord<std::uint64_t> written;  // Written (journal/not_kept.h)
  OwnerWord<std::uint64_t> ready;    // index + 1
};
static_assert(sizeof(ChannelEntry) == kLine);
inline constexpr std::uint64_t kPointToPoint = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kSynchronous = std::uint64_t{1} << 62;  // beside kPointToPoint

// Which receive a synchronous message was given to, by the receive's number.
constexpr std::uint32_t matched_by(std::uint64_t receive) {
  return 0x80000000u | static_cast<std::uint32_t>(receive & 0x7fffffffu);
}

// The message that a receive of any source was given. Nothing else determines it.
struct MatchWord {
  static constexpr std::uint64_t make(std::uint32_t from, std::uint64_t index) {
    return std::uint64_t{from} << 48 | (index + 1);
  }
  static constexpr std::uint32_t from(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 48);
  }
  static constexpr std::uint64_t index(std::uint64_t word) { return (word & 0xffffffffffffu) - 1; }
};

// --- Contexts and slots

// (sequence, generation, 1) of an attempt in one word; 0 = none. Generations fit 16 bits because
// the supervisor counts deaths; sequences are compared for equality only, and members of an attempt
// are never 2^32 operations apart.
using Tag = std::uint64_t;
constexpr Tag make_tag(std::uint64_t sequence, std::uint32_t generation) {
  return (sequence & 0xffffffffu) << 32 | std::uint64_t{generation & 0xffffu} << 16 | 1u;
}

// Value of the chain of a member that has been told of a disagreement in this context. Its history
// differs from the others', so only the calls themselves are compared from then on, and the
// disagreement is not reported again.
inline constexpr std::uint32_t kUnlinked = ~std::uint32_t{0};

// A member's contribution to an attempt. A seqlock: tag := none; contents; tag := (s, g).
// The owner writes. `staged` and `reduced` hold half of the attempt's owner_of() and a count.
struct alignas(kLine) Slot {
  OwnerWord<Tag> tag;
  OwnerWord<std::uint32_t> chain;  // over the signatures of all operations of this context so far
  OwnerWord<std::uint32_t> call;   // as in Record
  OwnerWord<std::uint64_t> word[kSlotBytes / 8];  // the contribution, or where it is
  OwnerWord<std::uint64_t> staged;                // chunks of its input that lie in its staging
  OwnerWord<std::uint64_t> reduced;               // chunks of its slice that lie in the extent
};
static_assert(sizeof(Slot) == kLine);

inline constexpr std::uint32_t kSlots =
    2;  // operations of one context that may be attempted at once

// The newest contribution that a rank has shown in one of its slots. Other members may have used
// it, so the rank's next incarnation compares its own with it. The owner writes `what` before
// `sequence`, and both before the slot is shown.
struct Contribution {
  OwnerWord<std::uint64_t> sequence;  // of the operation, + 1; 0 = none
  OwnerWord<std::uint64_t> what;      // fingerprint and call
  static constexpr std::uint64_t make(std::uint32_t fingerprint, std::uint32_t call) {
    return std::uint64_t{fingerprint} << 32 | (call & kCallIndex);
  }
  static constexpr std::uint32_t fingerprint(std::uint64_t what) {
    return static_cast<std::uint32_t>(what >> 32);
  }
  static constexpr std::uint32_t call(std::uint64_t what) {
    return static_cast<std::uint32_t>(what);
  }
};

// What a rank gives to the other nodes in one operation of a context whose nodes share only
// messages. A seqlock: ready := 0; contents; ready := its index in the log, + 1.
struct alignas(kLine) Departure {
  OwnerWord<std::uint64_t> ready;
  OwnerWord<std::uint64_t> sequence;       // of the operation
  OwnerWord<std::uint64_t> value;          // as in Record
  OwnerWord<std::uint64_t> bytes;          // of the value
  OwnerWord<std::uint32_t> call;           // as in Record
  OwnerWord<std::uint32_t> chain;          // as in Slot
  OwnerWord<std::uint32_t> fingerprint;    // of the owner's own contribution
  OwnerWord<std::uint32_t> part;           // Part
  OwnerWord<std::uint32_t> element_bytes;  // as in Division
  OwnerWord<std::uint32_t> incarnation;    // that the owner was
  OwnerWord<std::uint32_t> readers;        // as in Division
};
static_assert(sizeof(Departure) == kLine);
enum class Part : std::uint32_t {
  kNode,   // what the members of the node contribute, together; of a broadcast: the message
  kSlice,  // the slice of the result that this node has combined of all nodes' contributions, or
           // that it was given of a broadcast
};

// A rank's part of one communicator. Outlives Comm_free, Finalize and the process.
struct alignas(kLine) ContextBlock {
  std::uint64_t context;
  std::uint32_t size;
  std::uint32_t rank;
  Offset members;                        // u32 world ranks
  OwnerWord<std::uint64_t> freed;        // the owner's ordinal when it freed it; 0 = not yet
  OwnerWord<std::uint64_t> free_number;  // of the owner's frees, if it was freed
  Offset next_reclaimed;                 // the owner's free list of reclaimed blocks
  std::uint64_t permanent;           // made before the first checkpoint: every incarnation makes it
  Offset departures;                 // a Log of Departure; 0 if all members share memory
  Log records;                       // tail = operations committed = the position
  alignas(kLine) Slot slot[kSlots];  // by the sequence number
  alignas(kLine) Contribution contribution[kSlots];  // likewise; the owner's alone
};

// A place for contributions that no slot holds. A seqlock: owner := none; bytes; owner := attempt.
struct alignas(kLine) StagingBuffer {
  OwnerWord<std::uint64_t> owner;  // owner_of(context, tag); 0 = none
  alignas(kLine) std::byte bytes[kStageBytes];
};

// Where a rank's contexts are, by open addressing. A table that is half full is followed by one of
// twice its size. Entries stay when a block is reclaimed: a later look-up then finds that the
// context is past.
inline constexpr std::uint32_t kContextTables = 24;
inline constexpr std::uint32_t kFirstTableEntries = 256;
struct ContextEntry {
  OwnerWord<std::uint64_t> context;  // 0 = free; written last
  OwnerWord<Offset> block;           // kReclaimed: it is past
};
inline constexpr Offset kReclaimed = 1;
// In the place of a context that was made in what all ranks have gone back behind. The same id may
// come again, with other members.
inline constexpr std::uint64_t kForgottenContext = ~std::uint64_t{0};
struct ContextTables {
  OwnerWord<std::uint32_t> tables;   // of them in use
  std::uint64_t entries;             // in the newest; the owner's
  Offset at[kContextTables];         // ContextEntry[kFirstTableEntries << k]
  OwnerWord<std::uint64_t> changes;  // of entries, and of `freed` in a block; counted behind them
};

// --- Payload memory that is used again

// How far a rank is in one context.
struct Cursor {
  std::uint64_t context;
  std::uint64_t sequence;  // of the next operation
  std::uint32_t chain;
  std::uint32_t reserved;
};

// A piece of memory that is reused.
struct Buffer {
  Offset at;
  std::uint64_t capacity;
  std::uint64_t bytes;  // in use
};

// What payload is allocated for. With a full journal results and messages lie in different zones,
// because they are over at different times.
enum class Use : std::uint32_t {
  kResults,
  kMessages,
  kKept,  // never reused: allocated before the program announced checkpoints
};

// A zone is filled, then closed; it is free when everything that it may have been used for is past.
// Used only by the owner and its next incarnations, like everything in this section.
inline constexpr std::uint32_t kZones = 256;
struct Zone {
  Offset begin;
  std::uint64_t bytes;
  std::uint64_t used;      // advanced before use: an incarnation goes on where the former one was
  Offset backed_to;        // with pages
  std::uint64_t interval;  // that ended when it was closed; 0 = it is open
  // What it may have been used for lies below these cursors: Cursor[contexts] u64 sent[ranks].
  Buffer label;
  std::uint64_t contexts;
  Use use;
  std::uint32_t nonblocking;  // 1: results of nonblocking operations lie in it, among others
};

// --- Checkpoints

// Images of a rank's process whose cursors are stored: the one that the agent would wake, the
// newest that was made, which it may keep any time now, and the one that is being made.
inline constexpr std::uint32_t kImages = 3;

// Version slots of a rank: at most three are needed at a time. The fourth lets peers read marks
// (read_mark).
inline constexpr std::uint32_t kVersions = 4;

// How far a rank has come: these are its low-water marks if it keeps the version or image of this
// number. Valid if `number` is not 0: the owner clears it before it changes the rest.
struct Marks {
  OwnerWord<std::uint64_t> number;  // of the version, or of the image
  std::uint64_t ordinal;
  std::uint64_t frees;  // contexts that were freed until then
  std::uint64_t made_wall_ns;
  std::uint64_t observations;  // bytes of the log
  std::uint64_t contexts;
  // Cursor[contexts] u64 sent[ranks] u64 received[ranks] u64 looked_at[ranks] u64 waiting[]:
  // messages that have come, are not the next ones, and were not received yet (MatchWord)
  Buffer cursors;
  std::uint64_t waiting;       // of them
  std::uint64_t receives;      // posted
  std::uint64_t wildcards;     // of those, with any source
  std::uint64_t open_matches;  // the oldest of these that has no message yet, else their number
  std::uint64_t outcomes;      // elements of the log
  std::uint64_t cancelled;     // likewise
  std::uint64_t synchronous;   // messages that receives were given
};

// An image of a rank's process. All but the marks is in its memory.
struct Image {
  Marks marks;
  std::uint64_t version;  // of the execution then: checkpoints made
  // As in RankControl, then.
  std::uint64_t prepared;
  std::uint64_t written_versions;
};

// Why no process can begin at a version.
enum class VersionFault : std::uint32_t {
  kNone,
  kNoLoad,            // the program has not called load
  kOpenRequest,       // a restarted rank would not have it
  kLateCommunicator,  // likewise: it was made after the first checkpoint
  kOverLimit,         // set-up left more than --bootstrap-limit
};
// Returns the predicate of a sentence about the rank.
constexpr const char* text_of(VersionFault fault) {
  switch (fault) {
    case VersionFault::kNone:
      break;
    case VersionFault::kNoLoad:
      return "has not loaded a checkpoint before its first one";
    case VersionFault::kOpenRequest:
      return "has a request that is not complete";
    case VersionFault::kLateCommunicator:
      return "has a communicator that was created after the first checkpoint";
    case VersionFault::kOverLimit:
      return "has a set-up whose results are larger than --bootstrap-limit";
  }
  return "";
}

// A checkpoint of the program: where a rank of a job of versions goes on, and what is written to
// files.
struct Version {
  Marks marks;
  Buffer global;  // stored by rank 0 for the whole host
  Buffer local;
  std::uint64_t global_bytes;  // as this rank gave it
  std::uint32_t can_be_imaged;
  VersionFault fault;
};

// The hash of the global model that this rank gave to checkpoint `version`. A seqlock: the owner
// clears `version`, writes the rest, and sets it; a reader checks it before and behind. A replay
// may read while the owner is at a later version, so all words are atomic.
struct ModelHash {
  OwnerWord<std::uint64_t> version;
  OwnerWord<std::uint64_t> bytes;
  OwnerWord<std::uint64_t> hash;
};
inline constexpr std::uint64_t kModelHashes = 2;  // by the version, mod 2

// The outcome of an operation that was marked as bootstrap. Never truncated.
struct Marked {
  std::uint64_t key;
  std::uint64_t context;
  std::uint64_t sequence;
  Record record;  // its bytes are a copy in permanent memory
};

struct RegionHead {
  Log calls;         // CallEntry
  Log modules;       // ModuleEntry
  Log observations;  // bytes; see libc_recording/observations.h
  Log marked;        // Marked
  Log matches;       // atomic u64, MatchWord: of each receive of any source; 0 = none yet
  Log outcomes;      // atomic u64; see recovery/outcomes.h
  Log cancelled;     // u64: which receives were cancelled, by their number
  Version version[kVersions];
  Image image[kImages];
  ModelHash model_hash[kModelHashes];
  // The owner. Synchronous messages that its receives were given, in all incarnations; counted
  // before the sender is shown it.
  OwnerWord<std::uint64_t> synchronous;
  std::uint64_t marked_bytes;          // of results of marked operations
  std::uint64_t past_version;          // newest version behind which zones were closed
  std::uint64_t interval;              // the newest that has ended
  Offset resume_global, resume_local;  // models of first_version
  std::uint64_t resume_global_bytes, resume_local_bytes;
  Offset channels;          // Log[ranks]: to each rank
  Offset consumed;          // OwnerWord<u64>[ranks]: all messages of each rank below were received
  Offset asked;             // OwnerWord<u64>[ranks]: AskWord, about a message of each rank
  Offset reclaimed_blocks;  // first of them
  std::uint32_t zones;      // of them laid out
  std::uint32_t staging_buffers;
  Zone zone[kZones];
  Offset staging[kMaxStagingBuffers];  // StagingBuffer
  ContextTables contexts;
};

// "REJOIN19", and the sizes of these structs: detects an ftrun and a library of different builds.
inline constexpr std::uint64_t kSegmentMagic = 0x39314e494f4a4552 ^ (sizeof(SegmentHeader) << 40) ^
                                               (sizeof(RankControl) << 20) ^ sizeof(RegionHead);

// --- Helpers

// What names the attempt that a staging buffer belongs to. Never 0.
constexpr std::uint64_t owner_of(std::uint64_t context, Tag tag) {
  return mix(context ^ mix(tag)) | 1;
}

constexpr std::uint64_t round_up_line(std::uint64_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

// Orders plain stores before it with stores after it (on x86-64 a compiler barrier suffices).
inline void order_stores() {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

inline SegmentHeader* header_of(std::byte* base) { return reinterpret_cast<SegmentHeader*>(base); }
inline RankControl* control_of(std::byte* base, std::uint32_t rank) {
  return reinterpret_cast<RankControl*>(base + sizeof(SegmentHeader)) + rank;
}
inline Offset region_offset(const SegmentHeader* h, std::uint32_t rank) {
  return h->first_region + rank * h->region_bytes;
}
// Whether `rank` is on another node than `own`, and has a segment of its own.
inline bool is_elsewhere(std::byte* base, std::uint32_t own, std::uint32_t rank) {
  return header_of(base)->has_relay != 0 &&
         control_of(base, rank)->node != control_of(base, own)->node;
}
// The word about sets of images of the host that `rank` is on.
inline AnyWord<std::uint64_t>& set_wanted_on(std::byte* base, std::uint32_t rank) {
  std::uint32_t first = 0;
  while (is_elsewhere(base, rank, first)) ++first;
  return control_of(base, first)->set_wanted;
}
// Raises it to `number`. The agent and the process that drives a link may both do that.
inline void want_set(AnyWord<std::uint64_t>& word, std::uint64_t number) {
  std::uint64_t now = word.load();
  while (now < number && !word.decide(kRelayStores, Step::kNotice, &now, number)) {
  }
}
// Where the payload of a region begins, from the region's begin.
inline std::uint64_t payload_begin(const SegmentHeader* h) { return h->region_bytes / 4; }
inline RegionHead* region_of(std::byte* base, std::uint32_t rank) {
  return reinterpret_cast<RegionHead*>(base + region_offset(header_of(base), rank));
}
// The number of messages that `rank` has received, by sender.
inline OwnerWord<std::uint64_t>* consumed_of(std::byte* base, std::uint32_t rank) {
  return reinterpret_cast<OwnerWord<std::uint64_t>*>(base + region_of(base, rank)->consumed);
}

// Virtual size of one rank's region in such a segment. Behind the regions there are only links.
std::uint64_t region_bytes_for(std::uint32_t ranks, std::uint64_t limit_bytes);

// Virtual size of a segment for `ranks` ranks that together may use `limit_bytes` of journal.
std::uint64_t segment_bytes_for(std::uint32_t ranks, std::uint64_t limit_bytes);

// Where processes map the segment, if these addresses are free. The connections between nodes work
// only there. Far from where the kernel puts a program's own mappings: with address randomisation
// off, the program's pointers are the same in every incarnation, whatever is mapped there.
inline constexpr std::uintptr_t kSegmentAddress = 0x200000000000;

// Writes header and controls into zeroed memory of segment_bytes_for() bytes (sparse is fine: only
// the front and each RegionHead's first page are touched). REQUIRES ranks in [1, kMaxRanks].
void format_segment(std::byte* base, std::uint32_t ranks, std::uint64_t job,
                    std::uint64_t limit_bytes, std::uint32_t cores);

bool has_epochs(std::byte* base);  // whether every rank can die once more (kMaxEpochs)
// Ranks may keep less than replays need from here on. what: not kNot.
void let_recycle(std::byte* base, Recycles what);

// The agent's steps between a death and the next incarnation, in the order of the protocol: publish
// the epoch, ring all ranks (done by the caller), admit the new incarnation.
void publish_death(std::byte* base, std::uint32_t rank);  // epoch + 1; death_epoch[rank] = epoch
void publish_all_deaths(std::byte* base);  // the same for all ranks at once, with one epoch
void admit(std::byte* base, std::uint32_t rank, std::uint32_t incarnation);

}  // namespace rejoin::journal
