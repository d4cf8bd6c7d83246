// What a node has that another node lacks: the sending half of a relay's step.
//
// A pure function of the segment and of how far the other node's copies reach. It keeps nothing
// that is not found again in the segment, or said by the other side when a connection begins
// (Kind::kHave), or asked for by it while one stands (Kind::kAsk). docs/architecture.md, "Several
// hosts".
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/arena.h"
#include "journal/carrier.h"
#include "journal/layout.h"
#include "journal/rules.h"
#include "relay/frames.h"
#include "relay/vector.h"

namespace rejoin::relay {

class Source {
 public:
  // The ranks of `node` are this segment's; those of `to` are the readers. What it remembers lies
  // in `arena`, which outlives it.
  Source(std::byte* base, std::uint32_t node, std::uint32_t to, journal::Arena& arena);

  // To be called before the first turn(), for each log of which the other node has elements.
  // The block of the context that the log belonged to then may have been used again since.
  void has(journal::Offset log, std::uint64_t tail, const LogCopy& copy) {
    has_.push_back({log, tail, copy});
  }
  // The other node asks for the bytes of a message again (kAsk). False: it cannot have that
  // message.
  bool asks(journal::Offset log, std::uint64_t index);
  // Adds frames for what the other node lacks. Returns whether there were any. If there is much, a
  // part of it: call it again. O(ranks of this node times those of the other, and contexts).
  // `loan`: bytes that the driver has, of a message that may not be whole in the segment.
  bool turn(Frames& out, const journal::Loan* loan = nullptr);
  // Whether the newest turn has left something out because it had enough.
  bool is_full() const { return bytes_ >= turn_bytes_; }
  // Whether it may have left out something because it was still busy with what came before.
  bool is_behind() const { return is_behind_; }
  // Whether it ends within a message that its sender is writing.
  bool is_in_message() const { return is_in_message_; }
  // The same for positions, which are needed only when ranks wait for long.
  bool positions(Frames& out);

  // For the simulator, which breaks the rules, and makes short turns.
  void break_rule(journal::Rule rule) { broken_ = rule; }
  void set_turn(std::uint64_t bytes) { turn_bytes_ = bytes; }

 private:
  // What changes whenever a shape does: parts are only added at its end, or replace the last one.
  struct ShapeEnd {
    std::uint32_t chunks = 0, rings = 0;
    journal::Offset chunk = 0;  // the last one
    std::uint64_t from = 0;     // of the last ring
    journal::Offset ring = 0;
    bool operator==(const ShapeEnd&) const = default;
    static ShapeEnd of(const LogShape& shape);
  };
  struct Cursor {
    journal::Offset log = 0;
    std::uint64_t sent = 0;
    std::uint64_t tail = 0;  // as it was read in this turn
    ShapeEnd shape = {};     // as it was sent
    bool is_whole = true;    // LogCopy
  };
  // A message whose bytes are sent again.
  struct Again {
    std::uint64_t index;
    std::uint64_t sent;  // bytes
  };
  struct Channel {
    Channel(std::uint32_t rank, journal::Arena& arena) : to(rank), again(arena), unmatched(arena) {}
    std::uint32_t to;
    Cursor log;
    // The newest message that was sent, of which bytes are missing; kNone: there is none.
    std::uint64_t open = kNone;
    std::uint64_t written = 0;  // bytes of it that were sent
    Vector<Again> again;
    // The other direction: what was sent.
    std::uint64_t consumed = 0;
    std::uint64_t asked = 0;
    // The other direction: synchronous messages without a match, and how many were looked at.
    Vector<std::uint64_t> unmatched;
    std::uint64_t looked_at = 0;
  };
  // Payload that was sent before its departure.
  struct Ahead {
    journal::Offset at = 0;
    std::uint64_t sequence = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t sent = 0;
  };
  struct Context {
    journal::Offset block = 0;
    std::uint64_t context = 0;
    std::uint64_t freed = 0;
    std::uint64_t place = 0;  // of its entry: the number of the table, and the index there
    std::uint32_t nodes = 0;  // of its members
    std::uint32_t to = 0;     // which of these the other node is, in the order of lowest members
    Cursor departures;
    Cursor records;
    Ahead ahead;
  };
  struct Rank {
    Rank(std::uint32_t number, journal::Arena& arena)
        : rank(number), tables(arena), channels(arena), contexts(arena) {}
    std::uint32_t rank;
    Vector<Vector<bool>> tables;  // of contexts: which entries were sent
    std::uint64_t changes = kNone;
    std::uint64_t kept = 0;
    std::uint64_t images[journal::kImages] = {};  // numbers of those that were sent
    std::uint64_t prepared = 0;
    Cursor calls, modules;
    Vector<Channel> channels;
    Vector<Context> contexts;
    PositionCopy position = {};
  };
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  template <class Entry>
  Entry& element(journal::Offset log, std::uint64_t index) const;
  journal::Offset offset_of(const void* p) const;
  journal::Log& log_at(journal::Offset at) const;
  Cursor cursor(journal::Offset log, std::uint64_t context = 0);
  void read_tail(Cursor& c) const { c.tail = log_at(c.log).tail.load(); }
  void add(const Head& head, const void* body);
  void read_tails(Rank& r);
  void shape(Cursor& c);
  template <class Entry>
  void elements(Cursor& c, Kind kind);
  void payload(std::uint64_t at, std::uint64_t bytes);
  void look_at_contexts(Rank& r);
  void new_context(Rank& r, std::uint64_t place, const journal::ContextEntry& entry);
  void past(Rank& r, std::uint64_t place, std::uint64_t id);
  bool find_nodes(const journal::ContextBlock& block, Context& c);
  void payload_of(const journal::Departure& d, const Context& c);
  void ahead(const Rank& r, Context& c);
  void messages(Channel& c);
  void rest_of_message(Channel& c);
  void bytes_again(Channel& c);
  std::uint64_t to_send_of(const journal::ChannelEntry& entry) const;
  void departures(Context& c);
  bool has_sent_all(const Rank& r) const;
  void matches(Rank& r, Channel& c);
  void consumed(Rank& r, Channel& c);
  void asked(const Rank& r, Channel& c);
  void prepared(Rank& r);
  void set_wanted();
  void images(Rank& r);
  void marks(Rank& r, std::uint64_t slot, std::uint64_t kept, bool of_kept);
  bool holds(journal::Rule rule) const { return broken_ != rule; }

  journal::Arena& arena_;
  std::byte* base_;
  std::uint32_t to_;
  const journal::AnyWord<std::uint64_t>* set_wanted_ = nullptr;
  std::uint64_t set_wanted_sent_ = 0;
  Vector<Rank> ranks_;     // of this node
  std::size_t first_ = 0;  // of them, in the next turn
  struct Has {
    journal::Offset log;
    std::uint64_t tail;
    LogCopy copy;
  };
  Vector<Has> has_;  // sorted by `log` in the first turn
  bool has_is_sorted_ = false;
  Frames* out_ = nullptr;
  const journal::Loan* loan_ = nullptr;
  std::uint64_t bytes_ = 0;             // added in this turn
  std::uint64_t turn_bytes_ = 1 << 20;  // what one turn adds at most, roughly
  bool added_ = false;
  bool is_behind_ = false;
  bool is_in_message_ = false;
  journal::Rule broken_;
};

}  // namespace rejoin::relay
