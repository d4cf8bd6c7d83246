// Connections between relays over a network that libfabric knows, instead of TCP: InfiniBand, EFA,
// Slingshot and others. Small things are messages; the receiver reads payload from the sender's
// segment by itself (RDMA), to the same place in its own.
//
// Only the relay uses them: what libfabric knows of a connection lies in one process. The TCP
// socket stays: over it both relays have proved themselves and tell each other their addresses,
// and its end is the end of the connection, because a provider may not notice that the other
// process has gone.
//
// Implemented by librejoin_fabric.so, which is loaded only for --between-nodes fabric.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "relay/wire.h"

namespace rejoin::relay {

// One thread uses it.
class FabricConnection : public Wire {
 public:
  virtual ~FabricConnection() = default;
  // What to wait for, and how long at most, in ms; 0: it has something to do at once. To be called
  // when nothing else is to be done.
  virtual int wait_for(std::vector<pollfd>& all) = 0;
  // Why it has failed; empty: it has not, or the other relay has gone.
  virtual const std::string& why() const = 0;
};

struct FabricPlan {
  int socket = -1;            // with the other relay; stays its owner's
  std::byte* base = nullptr;  // of the segment, which is at the same address in the other relay
  std::uint64_t bytes = 0;    // of the segment that may be payload
  // Two secrets of this connection: of what this side says, and of what the other one says.
  std::uint64_t mine = 0, theirs = 0;
  // Where payload of the other node is to be stored; null: it is none of its payload.
  std::function<std::byte*(std::uint64_t at, std::uint32_t bytes)> place;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  // The provider that would be chosen, or empty, and then why there is none. May take a second.
  virtual std::string provider(std::string* why) = 0;
  // Returns null on failure; `why`: the reason.
  virtual std::unique_ptr<FabricConnection> connect(const FabricPlan& plan, std::string* why) = 0;
};

}  // namespace rejoin::relay

// The function of librejoin_fabric.so. The object is never destroyed.
extern "C" rejoin::relay::Fabric* rejoin_fabric();
