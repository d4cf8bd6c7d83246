// The agent's end of wire/messages.h.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/file.h"
#include "wire/socket.h"

namespace rejoin::launcher {

// Returns a nonblocking, listening SOCK_SEQPACKET socket with this abstract name.
Result<Descriptor> listen_at(const std::string& name);

struct Caller {
  Descriptor socket;  // nonblocking; not open: no process waits to be accepted
  pid_t pid = 0;
  Descriptor process;  // pidfd; not open: it is gone already
};
// Accepts the next connection. Processes of other users are rejected.
Caller accept_next(int listener);

// Returns the text of a received message as one line.
std::string text_of(const wire::Message& message);

// Sends a message. Never blocks; a closed connection is no error.
void send_message(int socket, wire::MessageType type, std::uint32_t rank, std::uint32_t incarnation,
                  std::string_view text = {}, const wire::Descriptors& with = {},
                  std::int32_t code = 0);

}  // namespace rejoin::launcher
