// The relay of a node: a process that copies what ranks of this node have published to the segments
// of the other nodes, and what those have published to this one, as far as ranks do not do that
// themselves (link.h). It keeps nothing: another relay may take its place at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "relay/fabric.h"
#include "relay/socket.h"

namespace rejoin::relay {

struct Plan {
  std::byte* base = nullptr;  // of the segment, mapped where ranks map it
  std::uint64_t job = 0;
  std::uint32_t node = 0;
  std::uint32_t timeline = 0;  // raised whenever all ranks go back
  std::vector<Address> nodes;  // by number
  int listener = -1;           // at which relays of nodes with higher numbers connect
  Authenticate authenticate;
  Encrypt encrypt;             // null: what is sent is not encrypted
  Fabric* fabric = nullptr;    // that carries what is sent; null: the sockets do
  bool has_processor = false;  // there is one that no rank uses
};

// What the process's exit code says, beside signals.
inline constexpr int kExitProtocol = 3;  // another relay has sent what no relay sends
inline constexpr int kExitSystem = 4;    // a system call has failed that must not

// Runs until the process is killed, or ends it.
[[noreturn]] void run(const Plan& plan);

}  // namespace rejoin::relay
