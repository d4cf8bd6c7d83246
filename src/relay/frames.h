// What relays send each other: frames, each a head and a body. A frame says what a rank of the
// sending node has published, or what a rank there has seen of the receiving node's ranks.
//
// Numbers are in the byte order of x86-64: a segment is not read by other processors anyway.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/layout.h"

namespace rejoin::relay {

enum class Kind : std::uint32_t {
  // Once, at the beginning of a connection: how far the receiver's copies of the other node's logs
  // reach. at: the log; index: its tail; body: LogCopy.
  kHave,
  kHaveAll,  // no more of them

  kShape,      // where the elements of a log lie. at: the log; body: LogShape
  kRecords,    // at: the log; index: of the first element; body: elements
  kCalls,      // likewise
  kModules,    // likewise
  kPayload,    // at: where; body: bytes of a message or of a departure
  kMessage,    // at: the log; index; body: ChannelEntry
  kWritten,    // at: the log; index: of a message; body: u64, bytes of it that were sent
  kDeparture,  // at: the log; index; body: Departure
  kMatched,    // a synchronous message of the receiving node. at: its log; index; body: u32
  kConsumed,   // at: the rank; index: the sender; body: u64
  kContext,    // at: the rank; index: place of the entry; body: ContextCopy u32 members[]
  kTable,      // at: the rank; index: number of the table; body: u64, its offset
  kPast,       // likewise, of a context that the other node does not need; body: u64, its id
  kFreed,      // at: the block of a context; index: the ordinal; body: u64, the number of the free
  kImage,      // at: the rank; index: which slot; body: journal::Image, then all of its cursors
  kKept,       // at: the rank; index: the image that its agent would wake
  kPrepared,   // at: the rank; index: the checkpoint; body: u64, RankControl::written_versions
  kPosition,   // at: the rank; body: PositionCopy
  // The set of images with the number `index` is wanted. Sent before everything that a rank of the
  // sending node may have shown after it had made its image of this set.
  kSetWanted,
  // The receiving node has shown message `index` of this log, and a rank asks for its bytes again.
  kAsk,
  // All of them have been sent again. at: the log; index.
  kAgain,
  // Payload follows whose departure comes later. at: where it lies; index: journal::ahead_key();
  // body: u32, the incarnation that will give it.
  kAhead,
  kCount,
};

struct Head {
  Kind kind;
  std::uint32_t bytes;  // of the body
  std::uint64_t at;
  std::uint64_t index;
};
static_assert(sizeof(Head) == 24);

// No body is larger: a receiver refuses it.
inline constexpr std::uint32_t kMostBytes = 1 << 24;
// Payload goes in pieces, so that a receiver can begin with the first ones.
inline constexpr std::uint64_t kPieceBytes = 256 * 1024;

struct LogCopy {
  std::uint64_t context;   // that the log belongs to, or 0
  std::uint64_t is_whole;  // bool: bytes of the newest message are not missing
};

struct LogShape {
  journal::Offset chunk[journal::kLogChunks];
  journal::LogRing ring[journal::kLogRings];
  std::uint32_t rings;
  std::uint32_t reserved;
};

struct ContextCopy {
  std::uint64_t context;
  journal::Offset block;
  journal::Offset members;
  journal::Offset departures;
  std::uint64_t freed;
  std::uint64_t free_number;
  std::uint32_t size;
  std::uint32_t rank;
};

// The words of RankControl that ranks on other nodes read, as they were together.
struct PositionCopy {
  std::uint64_t ordinal;
  std::uint64_t context;
  std::uint64_t sequence;
  std::uint64_t prepared;
  std::uint32_t call;
  std::uint32_t moves;
  std::uint32_t inside;  // Phase
  std::uint32_t told_full;
  std::uint32_t incarnation;
  std::uint32_t reserved;
  bool operator==(const PositionCopy&) const = default;
};

// Where frames go.
class Frames {
 public:
  // `body` is copied.
  virtual void add(const Head& head, const void* body) = 0;
  // `body` lies in the segment and does not change until it was sent.
  virtual void add_payload(const Head& head, const std::byte* body) = 0;

 protected:
  ~Frames() = default;
};

}  // namespace rejoin::relay
