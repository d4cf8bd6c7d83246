// Sends and receives datagrams, with file descriptors, over unix sockets: the messages of
// messages.h, and others.
//
// Used by the agent and by everything in a rank's process that has a C library: the rank, its
// images and clones. Makes system calls and copies bytes: it allocates nothing, throws nothing, and
// is async-signal-safe. The restorer and the keeper (process_image) have no C library; they send
// messages without descriptors by system calls of their own.
#pragma once

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "wire/messages.h"

namespace rejoin::wire {

inline constexpr std::size_t kMostDescriptors = 3;

// Descriptors that travel with a datagram. Sent ones stay open in the sender; received ones belong
// to the receiver.
struct Descriptors {
  std::size_t count = 0;
  int fd[kMostDescriptors] = {-1, -1, -1};
};

// Sends one datagram. `flags`: MSG_DONTWAIT, or 0 to block while the socket's buffer is full.
// Returns false, with errno set, if it could not be sent; a closed connection raises no signal.
inline bool send_datagram(int socket, const void* data, std::size_t bytes,
                          const Descriptors& with = {}, int flags = 0) {
  iovec piece = {const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof with.fd)] = {};
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (const std::size_t size = with.count * sizeof(int); size > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), with.fd, size);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes);
}

// Receives one datagram, and the descriptors that came with it, which are closed on exec. `flags`:
// MSG_DONTWAIT, or 0 to wait for one. Returns the datagram's size, which is larger than `bytes` if
// the datagram was truncated; 0: the connection has ended; -1: an error, in errno. If `with` is
// null, received descriptors are closed.
inline ssize_t receive_datagram(int socket, void* data, std::size_t bytes,
                                Descriptors* with = nullptr, int flags = 0) {
  iovec piece = {data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof with->fd)];
  msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (with != nullptr) {
    *with = {};
    header.msg_control = control;  // the kernel closes descriptors that have no room here
    header.msg_controllen = sizeof control;
  }
  ssize_t got;
  do {
    got = recvmsg(socket, &header, flags | MSG_TRUNC | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* c = got > 0 && with != nullptr ? CMSG_FIRSTHDR(&header) : nullptr;
  if (c != nullptr && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
    with->count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(with->fd, CMSG_DATA(c), with->count * sizeof(int));
  }
  return got;
}

// A socket's abstract address: `name`, without its NUL. A name that does not fit is truncated.
struct Address {
  sockaddr_un address = {};
  socklen_t bytes = 0;

  Address(const char* name, std::size_t name_bytes) {
    const std::size_t most = sizeof address.sun_path - 1;
    const std::size_t size = name_bytes < most ? name_bytes : most;
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name, size);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// Returns a SOCK_SEQPACKET socket, closed on exec, that is connected to the agent of this name; -1
// and errno if there is none.
inline int connect_to(const char* name, std::size_t name_bytes) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const Address to(name, name_bytes);
  if (fd < 0 || connect(fd, to.get(), to.bytes) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Clears the message's head and sets its type. The text stays as it is.
inline void begin_message(Message& m, MessageType type, std::uint32_t rank) {
  memset(&m, 0, kMessageHeadBytes);
  m.type = type;
  m.rank = rank;
}

// Copies the text into the message, truncated to kMaxText.
inline void set_text(Message& m, const char* text, std::size_t bytes) {
  m.text_bytes = static_cast<std::uint32_t>(bytes < kMaxText ? bytes : kMaxText);
  if (m.text_bytes > 0) memcpy(m.text, text, m.text_bytes);
}

// As send_datagram().
inline bool send_message(int socket, const Message& m, const Descriptors& with = {},
                         int flags = 0) {
  return send_datagram(socket, &m, kMessageHeadBytes + m.text_bytes, with, flags);
}

enum class Received {
  kMessage,
  kNothing,  // with MSG_DONTWAIT: there is no message
  kEnd,      // the connection has ended; also after a malformed message, since no other is read
};

// Receives one message. `with` and `flags` as in receive_datagram().
inline Received receive_message(int socket, Message& m, Descriptors* with = nullptr,
                                int flags = 0) {
  const ssize_t got = receive_datagram(socket, &m, sizeof m, with, flags);
  if (got < 0 && errno == EAGAIN) return Received::kNothing;
  const bool whole = got >= static_cast<ssize_t>(kMessageHeadBytes) && m.text_bytes <= kMaxText &&
                     static_cast<std::size_t>(got) == kMessageHeadBytes + m.text_bytes;
  if (whole) return Received::kMessage;
  for (std::size_t i = 0; with != nullptr && i < with->count; ++i) close(with->fd[i]);
  return Received::kEnd;
}

}  // namespace rejoin::wire
