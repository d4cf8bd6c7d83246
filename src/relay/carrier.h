// The relay's work in the process of a rank: a rank that has published something, or that waits,
// drives the links of its node, with the relay's sockets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "journal/arena.h"
#include "journal/carrier.h"
#include "relay/link.h"
#include "relay/vector.h"
#include "relay/wire.h"

namespace rejoin::relay {

class RankCarrier : public journal::Carrier {
 public:
  // `base`: of the segment, mapped at journal::kSegmentAddress. What it remembers is in `arena`.
  RankCarrier(std::byte* base, std::uint32_t rank, journal::Arena& arena);

  void carry(std::uint32_t node) override;
  void look() override;
  void waited() override;
  void sleeps() override;
  bool send_from(const journal::Loan* loan) override;
  bool receive_to(journal::Loan* loan) override;
  journal::Ahead ahead(std::uint32_t node, std::uint64_t key) override;
  void let_go() override;
  std::uint32_t links() const override { return static_cast<std::uint32_t>(nodes_.size()); }

 private:
  // A socket of the relay, kept from one wait to the next: to take it costs three system calls.
  struct Held {
    std::uint32_t node;
    std::uint64_t cookie = 0;  // of the socket
    int fd = -1;               // -1: none
    bool is_known = false;     // it was made sure of in the present wait
  };
  Did run(Held& held, What what);
  void close_held(Held& held);
  Wire* open(Held& held, const Connection& connection);
  static bool is_ours(Held& held);
  int socket_of(const Connection& connection);
  void close_relay();
  bool is_relay(journal::RelayState state) const;
  void ring_relay();

  std::byte* base_;
  std::uint32_t rank_;
  Vector<Held> nodes_;  // all others
  SocketWire wire_;     // of the socket that this process drives
  bool looks_ = false;  // look() was called in the present wait
  journal::Loans loans_;
  bool left_ = false;       // a step has left work that the relay was not told of
  std::int64_t relay_ = 0;  // process of which relay_fd_ is a descriptor
  int relay_fd_ = -1;
  bool refused_ = false;  // the system does not let this process have that one's sockets
};

}  // namespace rejoin::relay
