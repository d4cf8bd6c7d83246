// TCP connections between relays: opening them, and proving to each other that both know the job's
// secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rejoin::relay {

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::uint8_t, kDigestBytes>;
// HMAC-SHA256 of some bytes, under the job's secret.
using Authenticate = std::function<Digest(const void* data, std::size_t bytes)>;

// Where the relay of a node listens.
struct Address {
  std::string host;  // a name or a number
  std::uint16_t port = 0;
};

// What is at the other end of a connection.
struct Other {
  std::uint32_t node;
  Digest key;  // of this connection, which only these two can compute: a secret for its encryption
};

// The two ends of a connection.
struct Ends {
  std::uint64_t job;
  std::uint32_t timeline;  // both ends have the same
  std::uint32_t mine;      // node
  std::uint32_t theirs;    // node; of a connection that was accepted: kAnyNode until it says
};
inline constexpr std::uint32_t kAnyNode = ~std::uint32_t{0};

// On the monotonic clock.
std::uint64_t now_ns();

// Opens a listening socket, on a port that the system chooses, for all addresses of this machine,
// or only for connections from this machine. Returns -1 on failure, with errno set.
int listen_at_any_port(bool for_others, std::uint16_t* port);
// Connects within `patience_ms`. Returns -1 on failure; `why`: the reason.
int connect_to(const Address& address, int patience_ms, std::string* why);
// A TCP connection sends small messages at once, and fails when the other end has been gone without
// a word for silent_s.
void send_at_once(int fd, int silent_s);
// Each side sends a nonce, and then proves that it knows the secret, by a digest of both nonces,
// both nodes, and which of them has connected. Nothing else is read before. Returns nothing if the
// other end is not in this job, or says nothing for 2 s.
std::optional<Other> greet(int fd, const Ends& ends, const Authenticate& authenticate);

// Encrypts a connection whose ends have proved themselves; `accepted`: by this side. Takes the
// socket. Returns one that carries the same bytes in clear on this host, or -1 if the other side
// does not encrypt. To be called by any thread.
using Encrypt = std::function<int(int fd, bool accepted, const Digest& key)>;

}  // namespace rejoin::relay
