#include "launcher/agent/agent_socket.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/base/process.h"

namespace rejoin::launcher {
namespace {

#ifndef SO_PEERPIDFD
constexpr int kPeerPidfd = 77;  // Linux 6.5; not in this system's headers
#else
constexpr int kPeerPidfd = SO_PEERPIDFD;
#endif

// Returns a pidfd of the process that called connect(). Before Linux 6.5 it may be of another
// process that has got the same pid since.
Descriptor process_behind(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &fd, &length) == 0) return Descriptor(fd);
  return Descriptor(errno == ENOPROTOOPT ? open_pidfd(pid) : -1);
}

}  // namespace

Result<Descriptor> listen_at(const std::string& name) {
  Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // a leading NUL: no file
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  constexpr int kWaiting = 4096;
  if (!listener.open() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), kWaiting) != 0) {
    return Error{"cannot make the socket for the ranks: " + error_text(errno)};
  }
  return listener;
}

Caller accept_next(int listener) {
  for (;;) {
    Caller caller;
    caller.socket = Descriptor(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller.socket.open()) return caller;
    ucred who = {};
    socklen_t length = sizeof who;
    const bool told = getsockopt(caller.socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
    if (!told || (who.uid != geteuid() && who.uid != 0)) continue;
    caller.pid = who.pid;
    caller.process = process_behind(caller.socket.get(), who.pid);
    return caller;
  }
}

std::string text_of(const wire::Message& message) {
  return one_line(std::string(message.text, message.text_bytes));
}

Received receive(int socket, wire::Message& message) {
  // With MSG_TRUNC, recv() returns the datagram's size even if it is larger than the buffer.
  const ssize_t got = recv(socket, &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
  if (got < static_cast<ssize_t>(wire::kMessageHeadBytes)) return Received::kEnd;
  const auto text_bytes = static_cast<std::size_t>(got) - wire::kMessageHeadBytes;
  if (message.text_bytes != text_bytes || text_bytes > wire::kMaxText) return Received::kEnd;
  return Received::kMessage;
}

void send_message(int socket, wire::MessageType type, std::uint32_t rank, std::uint32_t incarnation,
                  std::string_view text, std::initializer_list<int> descriptors,
                  std::int32_t code) {
  wire::Message message;
  memset(&message, 0, wire::kMessageHeadBytes);
  message.type = type;
  message.rank = rank;
  message.incarnation = incarnation;
  message.code = code;
  message.text_bytes =
      static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), wire::kMaxText));
  memcpy(message.text, text.data(), message.text_bytes);

  iovec data = {&message, wire::kMessageHeadBytes + message.text_bytes};
  constexpr std::size_t kMost = 3;
  alignas(cmsghdr) char control[CMSG_SPACE(kMost * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (const std::size_t bytes = descriptors.size() * sizeof(int); bytes > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(c), descriptors.begin(), bytes);
  }
  sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace rejoin::launcher
