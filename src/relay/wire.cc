#include "relay/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "journal/system_call.h"

namespace rejoin::relay {
namespace {

// Returns bytes; 0: none now; negative: the connection has ended.
template <class... Arguments>
long try_call(long number, Arguments... arguments) {
  for (;;) {
    const long n = journal::system_call(number, arguments...);
    if (n > 0) return n;
    if (n != -EINTR) return n == -EAGAIN ? 0 : n == 0 ? -ECONNRESET : n;
  }
}

}  // namespace

long SocketWire::send(const iovec* pieces, std::size_t count, bool more) {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  return try_call(SYS_sendmsg, fd_, reinterpret_cast<long>(&message),
                  MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
}

long SocketWire::receive(std::byte* to, std::size_t bytes) {
  return try_call(SYS_recvfrom, fd_, reinterpret_cast<long>(to), static_cast<long>(bytes),
                  MSG_DONTWAIT);
}

}  // namespace rejoin::relay
