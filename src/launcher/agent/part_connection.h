// A connection between two agents, over which a part of a set of snapshots travels. Both ends prove
// that they know the job's secret; with --encrypt, the rest is encrypted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "launcher/agent/credentials.h"
#include "launcher/base/file.h"
#include "launcher/hosts/tls.h"
#include "relay/socket.h"

namespace rejoin::launcher {

class PartConnection {
 public:
  // Which host this is, and what it has in common with the others.
  struct Identity {
    std::uint64_t job;
    std::uint32_t host;
    Credentials credentials;
  };
  // An agent, at its port for parts.
  struct Holder {
    std::uint32_t host;
    relay::Address address;
  };

  // Connects with another agent. Not open() on failure; `why`: the reason.
  static PartConnection connect(const Identity& me, const Holder& to, std::string* why);
  // The other end has connected. `socket`: which outlives the result. Not open(): it is not in this
  // job.
  static PartConnection accept(const Identity& me, int socket);

  bool open() const { return fd_ >= 0; }
  int descriptor() const { return fd_; }
  std::uint32_t host() const { return host_; }  // at the other end

  // The following block, until nothing has moved for 20 s. They return false on failure, with errno
  // set.
  bool send(const void* data, std::size_t bytes);
  bool send_file(int file, std::uint64_t bytes);
  bool receive(void* data, std::size_t bytes);

 private:
  bool begin(const Identity& me, std::uint32_t theirs);
  bool await(short what) const;

  Descriptor own_;
  int fd_ = -1;
  std::uint32_t host_ = 0;
  std::unique_ptr<Tls> tls_;  // null: what is sent is not encrypted
};

}  // namespace rejoin::launcher
