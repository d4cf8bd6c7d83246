// A connection with the relay of another node, in memory that all processes of this node share. It
// is driven by one process at a time: by a rank that has published something for the other node or
// that waits, and else by the relay. Driving it means to carry out steps of Source and Sink; none
// of them blocks. docs/architecture.md, "Several hosts".
//
// A driver may die in a step. The relay then ends the connection, and begins another one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/arena.h"
#include "journal/carrier.h"
#include "journal/layout.h"
#include "journal/shared.h"
#include "relay/frames.h"
#include "relay/sink.h"
#include "relay/source.h"
#include "relay/vector.h"
#include "relay/wire.h"

namespace rejoin::relay {

// The process that drives a link.
using Driver = std::uint64_t;
inline constexpr Driver kRelay = ~Driver{0};
constexpr Driver driver_of(std::uint32_t rank, std::uint32_t incarnation) {
  return (std::uint64_t{incarnation} << 32 | rank) + 1;
}

// The relay's socket.
struct Connection {
  std::int64_t relay;    // process
  std::int32_t fd;       // its descriptor there; -1: only the relay can drive the connection
  std::uint64_t cookie;  // that the kernel has given the socket; 0: there is no connection
  std::uint32_t timeline;
};

enum class Ending : std::uint32_t {
  kNone,
  kLost,     // the connection has ended
  kRefused,  // the other relay has sent what no relay sends
};

enum class What : std::uint8_t { kSend, kSendAndReceive };

// What a step has done.
struct Did {
  bool carried = false;  // something was sent or has come
  bool left = false;     // there is more to be done at once
  bool ended = false;    // the connection has ended
  bool blocked = false;  // there is more to be sent than the socket has room for
};

class Link {
 public:
  static Link& of(std::byte* base, std::uint32_t peer) {
    const journal::SegmentHeader* h = journal::header_of(base);
    return *reinterpret_cast<Link*>(base + h->links + peer * h->link_bytes);
  }

  // --- For all processes. `open`: given the connection, returns what carries its bytes in this
  // process; null: nothing does, or there is no connection. Called while this process drives.
  //
  // Carries out a step if no other process drives, and more while something is published meanwhile.
  template <class Open>
  Did run(Driver me, What what, Open&& open, const journal::Loans& loans = {}) {
    constexpr int kRounds = 4;  // others may publish faster than this process sends
    Did all;
    for (int round = 0;; ++round) {
      if (!take(kNobody, me)) break;
      std::uint32_t one = 1;
      const bool noted = pending_.decide(journal::kRelayStores, journal::Step::kSame, &one, 0u);
      const bool is_open = connection_.cookie != 0;  // else all is sent when there is a connection
      Wire* const wire = open(connection_);
      if (wire != nullptr) {
        const Did did = step(*wire, what, loans);
        all.carried |= did.carried;
        all.left |= did.left;
        all.blocked = did.blocked;
        all.ended |= did.ended;
        if (what == What::kSendAndReceive && !did.ended) {
          steps_.store(journal::kRelayStores, journal::Step::kSame, steps_.load() + 1);
        }
      } else if (is_open && noted) {
        note();
      }
      give_back();
      if (!is_pending() || all.left || all.blocked) break;
      all.left = is_open && (wire == nullptr || round == kRounds);
      if (wire == nullptr || all.left) break;
    }
    return all;
  }
  // To be called when something was published for the other node, before run().
  void note() {
    pending_.store(journal::kRelayStores, journal::Step::kSame, 1, std::memory_order_seq_cst);
  }
  // What the other node has said of bytes with this key, if it has said that last.
  journal::Ahead ahead(std::uint64_t key) const {
    if (ahead_key_.load() != key) return {};
    const journal::Ahead said = {ahead_at_.load(), ahead_incarnation_.load()};
    return ahead_key_.load() == key ? said : journal::Ahead{};
  }
  bool is_pending() const { return pending_.load(std::memory_order_seq_cst) != 0; }
  // Whether only the relay can drive the present connection.
  bool is_relays() const { return is_relays_.load() != 0; }

  // --- For the relay.
  Driver driver() const { return driver_.load(); }
  // Becomes the driver in the place of `former`. False: that is not the driver.
  bool take(Driver former, Driver me) {
    return driver_.decide(journal::kRelayStores, journal::Step::kSame, &former, me);
  }
  void give_back() {
    driver_.store(journal::kRelayStores, journal::Step::kSame, kNobody, std::memory_order_seq_cst);
  }
  static constexpr Driver kNobody = 0;
  Ending ending() const { return ending_.load(); }
  // The caller drives, but not in run(): a signal handler of the program has left a step. Ends the
  // connection.
  void abandon() {
    fail(Ending::kLost);
    give_back();
  }
  // Counts steps that send and receive. It shows that ranks wait, and drive.
  std::uint32_t steps() const { return steps_.load(); }
  // The following REQUIRE that the caller drives.
  void begin(std::byte* base, std::uint32_t node, std::uint32_t peer, const Connection& connection);
  // Whether there has been a connection of this timeline.
  bool had_connection(std::uint32_t timeline) const {
    return connection_.relay != 0 && connection_.timeline == timeline;
  }
  void end() {
    connection_.cookie = 0;
    is_relays_.store(journal::kRelayStores, journal::Step::kSame, 0);
  }
  // Where payload of the other node is to be stored; null: it is none of its payload. Can be used
  // before the frame that it belongs to has come.
  std::byte* place(journal::Offset at, std::uint32_t bytes) const {
    return state_->sink.place({Kind::kPayload, bytes, at, 0});
  }
  // Adds what ranks that wait for long need to know of this node's; the next step sends it.
  void add_positions();

 private:
  struct Piece {
    const std::byte* at;  // in the segment; null: `bytes` of what was copied
    std::size_t bytes;
  };
  // What is built anew for each connection.
  struct State {
    State(std::byte* base, std::uint32_t node, std::uint32_t peer, journal::Arena& arena);
    Sink sink;
    Source source;
    Vector<std::uint32_t> mine;  // ranks
    std::uint32_t has = 0;       // logs of which the other side has said that
    bool has_all = false;        // the other side has said how far its copies reach
    // Frames that are to be sent.
    Vector<std::byte> copied;
    Vector<Piece> pieces;
    // What has come: bytes [in_begin, in.size()) are the beginning of a frame.
    Vector<std::byte> in;
    std::size_t in_begin = 0;
    std::byte* payload = nullptr;  // where the rest of a payload goes
    std::size_t payload_bytes = 0;
    // Something has come that says where the bytes behind it belong, or that is to be answered.
    bool begins = false;
  };
  class Output;

  Did step(Wire& wire, What what, const journal::Loans& loans);
  bool send(Wire& wire, const journal::Loan* loan, Did* did);
  bool flush(Wire& wire, const journal::Loan* loan, Did* did);
  void keep(const journal::Loan* loan);
  bool receive(Wire& wire, journal::Loan* loan, Did* did);
  long receive_payload(Wire& wire, journal::Loan* loan, std::size_t* asked);
  std::size_t missing() const;
  bool take_in(journal::Loan* loan);
  std::byte* lent(const journal::Loan* loan, const std::byte* at, std::size_t* bytes) const;
  std::byte* lent_for(const journal::Loan* loan, std::byte* at, std::size_t* bytes) const;
  bool take(const Head& head, const std::byte* body);
  bool fail(Ending why);
  void ring_all();

  alignas(journal::kLine) journal::AnyWord<Driver> driver_;
  journal::AnyWord<std::uint32_t> pending_;
  journal::AnyWord<std::uint32_t> steps_;
  journal::AnyWord<Ending> ending_;
  journal::AnyWord<std::uint64_t> ahead_key_;  // 0: the next two are being written
  journal::AnyWord<journal::Offset> ahead_at_;
  journal::AnyWord<std::uint32_t> ahead_incarnation_;
  journal::AnyWord<std::uint32_t> is_relays_;  // bool
  // The rest is the driver's.
  alignas(journal::kLine) Connection connection_;
  std::byte* base_;
  State* state_;
  std::size_t flushed_;         // pieces that were sent
  std::size_t piece_flushed_;   // bytes of the next one that were sent
  std::size_t copied_flushed_;  // bytes of `copied` in pieces that were sent
  alignas(State) std::byte state_memory_[sizeof(State)];
  alignas(journal::Arena) std::byte arena_memory_[sizeof(journal::Arena)];
};

// Virtual size of a link: its arena follows it. Only what is touched takes memory.
inline constexpr std::uint64_t kLinkBytes = std::uint64_t{256} << 20;

}  // namespace rejoin::relay
