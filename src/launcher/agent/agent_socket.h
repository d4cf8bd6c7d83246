// The agent's end of wire/messages.h.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/file.h"
#include "wire/messages.h"

namespace rejoin::launcher {

// A listening SOCK_SEQPACKET socket with this abstract name; nonblocking.
Result<Descriptor> listen_at(const std::string& name);

struct Caller {
  Descriptor socket;  // nonblocking; not open: nobody waits
  pid_t pid = 0;
  Descriptor process;  // pidfd; not open: it is gone already
};
// The next process that has connected. Other users' processes are turned away.
Caller accept_next(int listener);

enum class Received { kMessage, kNothing, kEnd };
// One datagram, if one is there. Malformed ones count as the connection's end.
Received receive(int socket, wire::Message& message);

// A message's text as one line. REQUIRES that it was received.
std::string text_of(const wire::Message& message);

// `descriptors` go along. Never blocks; a peer that is gone is no error.
void send_message(int socket, wire::MessageType type, std::uint32_t rank, std::uint32_t incarnation,
                  std::string_view text, std::initializer_list<int> descriptors,
                  std::int32_t code = 0);

}  // namespace rejoin::launcher
