// TCP over IPv4, for the ancestor's programs and trackers. Rejoin itself does not use it.
//
// Errors that are fatal in the ancestor are fatal here: utils::Check ends the process.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "rabit/internal/utils.h"

typedef int SOCKET;
typedef std::size_t sock_size_t;
const int INVALID_SOCKET = -1;

namespace rabit {
namespace utils {

struct SockAddr {
  sockaddr_in addr;

  SockAddr() : addr() {}
  SockAddr(const char* host, int port) : addr() { Set(host, port); }

  // Returns this machine's name.
  static std::string GetHostName() {
    char name[256] = "";
    Check(gethostname(name, sizeof name - 1) == 0, "cannot get the name of this machine: %s",
          std::strerror(errno));
    return name;
  }
  // host: a name or four numbers.
  void Set(const char* host, int port) {
    addrinfo wanted = addrinfo(), *found = nullptr;
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    const int code = getaddrinfo(host, nullptr, &wanted, &found);
    Check(code == 0 && found != nullptr, "cannot resolve the address of %s: %s", host,
          gai_strerror(code));
    std::memcpy(&addr, found->ai_addr, sizeof addr);
    addr.sin_port = htons(static_cast<in_port_t>(port));
    freeaddrinfo(found);
  }
  int port() const { return ntohs(addr.sin_port); }
  // Returns the address as four numbers.
  std::string AddrStr() const {
    char text[INET_ADDRSTRLEN];
    Check(inet_ntop(AF_INET, &addr.sin_addr, text, sizeof text) != nullptr,
          "cannot format an address");
    return text;
  }
};

// A descriptor. Copies refer to the same socket, which only Close() closes.
class Socket {
 public:
  SOCKET sockfd;

  operator SOCKET() const { return sockfd; }

  static void Startup() {}
  static void Finalize() {}
  static int GetLastError() { return errno; }
  static bool LastErrorWouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK; }
  // Prints the newest error and ends the process.
  static void Error(const char* what) {
    utils::Error("socket, %s: %s", what, std::strerror(errno));
  }

  void SetNonBlock(bool non_block) {
    const int flags = fcntl(sockfd, F_GETFL);
    const int wanted = non_block ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    if (flags == -1 || fcntl(sockfd, F_SETFL, wanted) == -1) Error("SetNonBlock");
  }
  void Bind(const SockAddr& address) {
    if (!try_bind(address)) Error("Bind");
  }
  // Binds the first free port of [start_port, end_port) at all of this machine's addresses and
  // returns it; -1: none is free.
  int TryBindHost(int start_port, int end_port) {
    for (int port = start_port; port < end_port; ++port) {
      if (try_bind(SockAddr("0.0.0.0", port))) return port;
      if (errno != EADDRINUSE) Error("TryBindHost");
    }
    return -1;
  }
  int GetSockError() const {
    int code = 0;
    socklen_t size = sizeof code;
    if (getsockopt(sockfd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) Error("GetSockError");
    return code;
  }
  bool BadSocket() const {
    if (IsClosed()) return true;
    const int code = GetSockError();
    return code == EBADF || code == EINTR;
  }
  bool IsClosed() const { return sockfd == INVALID_SOCKET; }
  void Close() {
    Check(!IsClosed(), "socket, Close: the socket is not open");
    close(sockfd);
    sockfd = INVALID_SOCKET;
  }

 protected:
  explicit Socket(SOCKET descriptor) : sockfd(descriptor) {}

 private:
  bool try_bind(const SockAddr& address) {
    return bind(sockfd, reinterpret_cast<const sockaddr*>(&address.addr), sizeof address.addr) == 0;
  }
};

class TCPSocket : public Socket {
 public:
  TCPSocket() : Socket(INVALID_SOCKET) {}
  explicit TCPSocket(SOCKET descriptor) : Socket(descriptor) {}

  void Create(int family = PF_INET) {
    sockfd = socket(family, SOCK_STREAM, 0);
    if (IsClosed()) Error("Create");
  }
  void SetKeepAlive(bool keep_alive) {
    const int on = keep_alive;
    if (setsockopt(sockfd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0) Error("SetKeepAlive");
  }
  // Sets how long Close() waits for data that was not sent yet.
  void SetLinger(int seconds) {
    linger option;
    option.l_onoff = 1;
    option.l_linger = seconds;
    if (setsockopt(sockfd, SOL_SOCKET, SO_LINGER, &option, sizeof option) != 0) Error("SetLinger");
  }
  void Listen(int backlog = 16) {
    if (listen(sockfd, backlog) != 0) Error("Listen");
  }
  TCPSocket Accept() {
    const TCPSocket accepted(accept(sockfd, nullptr, nullptr));
    if (accepted.IsClosed()) Error("Accept");
    return accepted;
  }
  bool Connect(const SockAddr& to) {
    return connect(sockfd, reinterpret_cast<const sockaddr*>(&to.addr), sizeof to.addr) == 0;
  }
  // Returns 1 at out-of-band data, 0 elsewhere, -1 for an error.
  int AtMark() const {
    int is_there = 0;
    return ioctl(sockfd, SIOCATMARK, &is_there) == -1 ? -1 : is_there;
  }

  // As send(2) and recv(2).
  ssize_t Send(const void* data, std::size_t size, int flags = 0) {
    return send(sockfd, data, size, flags);
  }
  ssize_t Recv(void* data, std::size_t size, int flags = 0) {
    return recv(sockfd, data, size, flags);
  }
  // Return the number of bytes that were transferred: fewer than `size` if a non-blocking socket
  // would have to wait, or, for RecvAll, at the end of the stream.
  std::size_t SendAll(const void* data, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t went = Send(static_cast<const char*>(data) + done, size - done);
      if (went == -1 && LastErrorWouldBlock()) break;
      if (went == -1) Error("SendAll");
      done += static_cast<std::size_t>(went);
    }
    return done;
  }
  std::size_t RecvAll(void* data, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t came = Recv(static_cast<char*>(data) + done, size - done, MSG_WAITALL);
      if (came == -1 && !LastErrorWouldBlock()) Error("RecvAll");
      if (came <= 0) break;
      done += static_cast<std::size_t>(came);
    }
    return done;
  }
  // Sends a string as its length, an int, and its bytes.
  void SendStr(const std::string& text) {
    const int length = static_cast<int>(text.size());
    Assert(SendAll(&length, sizeof length) == sizeof length &&
               SendAll(text.data(), text.size()) == text.size(),
           "SendStr: the connection ended before all of the string was sent");
  }
  void RecvStr(std::string* text) {
    int length = 0;
    Assert(RecvAll(&length, sizeof length) == sizeof length && length >= 0,
           "RecvStr: the connection ended before the length of the string arrived");
    text->resize(static_cast<std::size_t>(length));
    if (length == 0) return;
    Assert(RecvAll(&(*text)[0], text->size()) == text->size(),
           "RecvStr: the connection ended before all of the string arrived");
  }
};

// Waits for several sockets: watch them, call Poll(), then check what they are ready for.
struct PollHelper {
 public:
  void WatchRead(SOCKET socket) { watch(socket, POLLIN); }
  void WatchWrite(SOCKET socket) { watch(socket, POLLOUT); }
  void WatchException(SOCKET socket) { watch(socket, POLLPRI); }
  bool CheckRead(SOCKET socket) const { return is_ready(socket, POLLIN); }
  bool CheckWrite(SOCKET socket) const { return is_ready(socket, POLLOUT); }
  bool CheckExcept(SOCKET socket) const { return is_ready(socket, POLLPRI); }

  // Waits at most timeout_ms (negative: without limit) until a socket is ready. Sockets must be
  // watched again before the next Poll.
  void Poll(long timeout_ms = -1) {
    std::vector<pollfd> list;
    for (const auto& one : watched_) {
      list.push_back(pollfd());
      list.back().fd = one.first;
      list.back().events = one.second;
    }
    if (poll(list.data(), list.size(), static_cast<int>(timeout_ms)) == -1) Socket::Error("Poll");
    watched_.clear();
    for (const pollfd& one : list) {
      const short ready = static_cast<short>(one.revents & one.events);
      if (ready != 0) watched_[one.fd] = ready;
    }
  }
  // Returns 1 when out-of-band data has arrived, 0 after timeout_ms, -1 for an error.
  static int WaitExcept(SOCKET socket, long timeout_ms = -1) {
    pollfd one = pollfd();
    one.fd = socket;
    one.events = POLLPRI;
    return poll(&one, 1, static_cast<int>(timeout_ms));
  }

 private:
  void watch(SOCKET socket, short event) {
    short& events = watched_[socket];
    events = static_cast<short>(events | event);
  }
  bool is_ready(SOCKET socket, short event) const {
    const auto found = watched_.find(socket);
    return found != watched_.end() && (found->second & event) != 0;
  }

  std::map<SOCKET, short> watched_;  // events: before Poll() the wanted ones, then the ready ones
};

}  // namespace utils
}  // namespace rabit
