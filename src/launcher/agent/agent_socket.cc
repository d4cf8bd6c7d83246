#include "launcher/agent/agent_socket.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/agent/forbidden_calls.h"
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

// Whether process_behind() has no means: the kernel is older, and a seccomp filter forbids the
// other.
bool lacks_pidfds() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const Descriptor one(ends[0]), other(ends[1]);
  return !process_behind(one.get(), getpid()).open() && (errno == EPERM || errno == ENOSYS);
}

}  // namespace

Result<Descriptor> listen_at(const std::string& name) {
  if (lacks_pidfds()) {
    return Error{
        what_forbids() +
        " pidfd_open(), without which ftrun cannot know on this kernel which processes are "
        "its ranks; the profile of a container can allow it (docs/containers.md)"};
  }
  Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const wire::Address address(name.data(), name.size());
  constexpr int kWaiting = 4096;
  if (!listener.open() || bind(listener.get(), address.get(), address.bytes) != 0 ||
      listen(listener.get(), kWaiting) != 0) {
    return Error{"cannot create the socket for the ranks: " + error_text(errno)};
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

void send_message(int socket, wire::MessageType type, std::uint32_t rank, std::uint32_t incarnation,
                  std::string_view text, const wire::Descriptors& with, std::int32_t code) {
  wire::Message message;
  wire::begin_message(message, type, rank);
  message.incarnation = incarnation;
  message.code = code;
  wire::set_text(message, text.data(), text.size());
  wire::send_message(socket, message, with, MSG_DONTWAIT);
}

}  // namespace rejoin::launcher
