// What carries published words and bytes to other nodes, and those of other nodes here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/division.h"
#include "journal/layout.h"
#include "journal/mix.h"

namespace rejoin::journal {

// Bytes of the segment that the program's memory has, too: what is sent need not lie in the segment
// yet. What comes is written to the program's memory, and of what another node shows later to the
// segment as well; of a message that it has shown it keeps the bytes (Written::are_kept).
struct Loan {
  Offset at = 0;  // in the segment
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  // If it is received: bytes [from, to) have been written to the program's memory.
  std::uint64_t from = 0, to = 0;
  // If it is received: the message whose bytes these are; 0: they are a departure's.
  Offset message = 0;
  // The departure that will show the bytes, if they are sent before it. context 0: it is a message.
  std::uint64_t context = 0, sequence = 0;
  Part part = Part::kNode;
  Division division = {};
  // That gives these bytes. If they are received: that has sent them before their departure; 0: it
  // is a message.
  std::uint32_t incarnation = 0;

  std::uint64_t end() const { return at + bytes; }
  bool has(Offset offset) const { return offset >= at && offset < end(); }
  void extend(std::uint64_t begin, std::uint64_t more) {
    if (from == to) from = to = begin;
    to += more;
  }
};

// Names what is sent before its departure.
constexpr std::uint64_t ahead_key(std::uint64_t context, std::uint64_t sequence, Part part) {
  return mix(context ^ mix(2 * sequence + (part == Part::kSlice ? 1 : 0))) | 1;
}

// What another node has said of bytes that it sends before their departure.
struct Ahead {
  Offset at = 0;                  // where they will lie; 0: it is not known
  std::uint32_t incarnation = 0;  // of the rank that will give them
};

// The loans of the process that drives a connection; null: none.
struct Loans {
  const Loan* out = nullptr;
  Loan* in = nullptr;
};

// Used by the process of a rank, one thread at a time. Nothing blocks.
class Carrier {
 public:
  // Something was published that ranks of `node` read: sends it, as far as the connection has room.
  virtual void carry(std::uint32_t node) = 0;
  // Called now and then while the rank waits: does whatever there is to do for all nodes.
  virtual void look() = 0;
  // The rank's wait is over: gives up what look() holds.
  virtual void waited() = 0;
  // As waited(); the relay has to look until the rank is awake again.
  virtual void sleeps() = 0;
  // Until null follows, bytes may be sent from the program's memory instead of the segment, or
  // received there. False: another thread has lent something.
  virtual bool send_from(const Loan* loan) = 0;
  virtual bool receive_to(Loan* loan) = 0;
  // What `node` has said of bytes with this key. A hint.
  virtual Ahead ahead(std::uint32_t node, std::uint64_t key) = 0;
  // Gives up everything, so that an image of the process has none of it.
  virtual void let_go() = 0;
  // The number of connections to other nodes that look() serves.
  virtual std::uint32_t links() const = 0;

 protected:
  ~Carrier() = default;
};

}  // namespace rejoin::journal
