// The encryption of connections between hosts: TLS 1.3, without certificates. Each side proves that
// it knows a secret (an external pre-shared key), and the keys of the connection are new
// (Diffie-Hellman): an attacker that learns the secret later cannot read what was recorded.
// Implemented by librejoin_tls.so, which is loaded for such jobs only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

enum class TlsSide : std::uint8_t { kAccepts, kConnects };
// What a connection is for. Each has keys of its own, whatever its secret is.
enum class TlsUse : std::uint8_t {
  kOrders,  // ftrun and an agent that has joined
  kData,    // relays, or agents that give each other parts of snapshots
};

// One connection. All calls return at once if the socket is non-blocking. Another thread may fork a
// child that uses TLS, too: the fork waits for calls that are being made.
class Tls {
 public:
  Tls() = default;
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  virtual ~Tls() = default;

  // As read(2) and write(2): the number of bytes, 0 at the end of what can be read, or -1 with
  // errno. EAGAIN: to be called again when the socket is ready for wants(). EPROTO: why() says what
  // is wrong. The first calls make the handshake.
  virtual ssize_t read(void* to, std::size_t bytes) = 0;
  virtual ssize_t write(const void* from, std::size_t bytes) = 0;
  // Makes the handshake. Returns 1 when both sides have proved that they know the secret; 0 and -1
  // as read().
  virtual int prove() = 0;
  // Tells the other side that nothing follows.
  virtual void end() = 0;
  // POLLIN or POLLOUT, after EAGAIN.
  virtual short wants() const = 0;
  // The predicate of a sentence about the other side, after EPROTO.
  virtual const char* why() const = 0;
};

// Makes the handshake of a connection within so many ns. Its socket becomes non-blocking. Returns
// why it was not made, the predicate of a sentence about the other side. `is_final`, which may be
// null: and it never will be, because that has another secret.
std::optional<std::string> prove_within(std::uint64_t limit_ns, int socket, Tls& tls,
                                        bool* is_final);

// The function of librejoin_tls.so. The caller owns the result, which is null if there is no
// memory.
extern "C" Tls* rejoin_open_tls(int socket, TlsSide side, TlsUse use, const void* secret,
                                std::size_t bytes);

class TlsLibrary {
 public:
  // Errors: OpenSSL is not there.
  static Result<TlsLibrary> load(const std::string& lib_directory);
  // The socket is used, and has to stay open for as long as the result.
  std::unique_ptr<Tls> open(int socket, TlsSide side, TlsUse use, const std::string& secret) const;

 private:
  using Open = decltype(&rejoin_open_tls);
  explicit TlsLibrary(Open function) : open_(function) {}
  Open open_;
};

}  // namespace rejoin::launcher
