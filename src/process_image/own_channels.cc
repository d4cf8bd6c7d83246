#include "process_image/own_channels.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>

#include "process_image/same_file.h"

namespace rejoin::process_image {
namespace {

constexpr std::uint64_t kSecond_ns = 1'000'000'000;
constexpr std::size_t kMostInfo = 64 * 1024;
constexpr std::uint32_t kMostContents = 4 << 20;

// Gives the text of a link or a file of /proc/self. Returns its length.
std::size_t link_of(int fd, char* text, std::size_t size) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(path, text, size - 1);
  text[n > 0 ? n : 0] = '\0';
  return static_cast<std::size_t>(std::max<ssize_t>(n, 0));
}

bool info_of(int fd, char* text, std::size_t size) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  std::size_t bytes = 0;
  for (ssize_t n; file >= 0 && (n = read(file, text + bytes, size - 1 - bytes)) > 0;)
    bytes += static_cast<std::size_t>(n);
  if (file >= 0) close(file);
  text[bytes] = '\0';
  return bytes > 0 && bytes < size - 1;
}

// Finds a field of such a text, "name: value". Returns where its value begins, or nullptr.
const char* field(const char* info, const char* name) {
  const char* at = strstr(info, name);
  if (at == nullptr) return nullptr;
  at += strlen(name);
  while (*at == ':' || *at == ' ' || *at == '\t') ++at;
  return at;
}

// "(seconds, nanoseconds)"
std::uint64_t time_of(const char* text) {
  if (text == nullptr) return 0;
  char* end = nullptr;
  const std::uint64_t seconds = strtoull(text + 1, &end, 10);
  return seconds * kSecond_ns + (*end == ',' ? strtoull(end + 1, nullptr, 10) : 0);
}

struct Peer {
  std::uint64_t number = 0;  // of the other end's inode; 0: none
  int shut_down = 0;         // bits: 1 receiving, 2 sending
};

// Asks the kernel for the other end of a local socket. False: it does not say.
bool find_peer(std::uint64_t number, Peer* peer) {
  const int asked = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (asked < 0) return false;
  struct {
    nlmsghdr head;
    unix_diag_req request;
  } question = {};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = ~0u;
  question.request.udiag_ino = static_cast<std::uint32_t>(number);
  question.request.udiag_show = UDIAG_SHOW_PEER;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = ~0u;
  alignas(nlmsghdr) char answer[1024];
  const bool sent = send(asked, &question, sizeof question, 0) == sizeof question;
  const ssize_t n = sent ? recv(asked, answer, sizeof answer, 0) : -1;
  close(asked);
  const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
  const std::size_t front = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(unix_diag_msg));
  if (n < static_cast<ssize_t>(front) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY) return false;
  const std::size_t end = std::min<std::size_t>(head->nlmsg_len, static_cast<std::size_t>(n));
  for (std::size_t at = front; at + sizeof(nlattr) <= end;) {
    const auto* a = reinterpret_cast<const nlattr*>(answer + at);
    if (a->nla_len < sizeof(nlattr)) break;
    const char* value = answer + at + sizeof(nlattr);
    if (a->nla_type == UNIX_DIAG_PEER) {
      std::uint32_t inode;
      memcpy(&inode, value, sizeof inode);
      peer->number = inode;
    } else if (a->nla_type == UNIX_DIAG_SHUTDOWN) {
      peer->shut_down = static_cast<unsigned char>(*value);
    }
    at += NLA_ALIGN(a->nla_len);
  }
  return true;
}

int option(int fd, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

// Whether the socket is connected to nothing, and nothing can be connected to it.
bool is_idle(int fd, int domain) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (option(fd, SO_ACCEPTCONN) == 1) return false;
  if (domain == AF_NETLINK) {
    int unread = 0;
    return ioctl(fd, FIONREAD, &unread) != 0 || unread == 0;
  }
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 || errno != ENOTCONN) {
    return false;
  }
  bytes = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return false;
  switch (domain) {
    case AF_INET:
      return reinterpret_cast<const sockaddr_in&>(address).sin_port == 0;
    case AF_INET6:
      return reinterpret_cast<const sockaddr_in6&>(address).sin6_port == 0;
    case AF_UNIX:
      return bytes <= sizeof(sa_family_t);
    default:
      return false;
  }
}

bool is_end_of(int flags, int mode) { return (flags & O_ACCMODE) == mode; }

}  // namespace

// --- In the process that is cloned

void OwnChannels::forget() {
  for (std::size_t i = 0; i < count_; ++i) {
    Channel& c = channels_[i];
    if (c.contents != nullptr) arena_.release(c.contents, c.bytes);
    if (c.registrations != nullptr)
      arena_.release(c.registrations, c.registered * sizeof(Registration));
  }
  count_ = 0;
}

void OwnChannels::begin() {
  forget();
  no_memory_ = false;
}

OwnChannels::Channel* OwnChannels::append() {
  if (count_ == room_) {
    const std::size_t larger = 2 * room_ + 16;
    auto* moved = static_cast<Channel*>(arena_.allocate(larger * sizeof(Channel)));
    if (moved == nullptr) return nullptr;
    std::copy(channels_, channels_ + count_, moved);
    if (channels_ != nullptr) arena_.release(channels_, room_ * sizeof(Channel));
    channels_ = moved;
    room_ = larger;
  }
  channels_[count_] = {};
  return &channels_[count_++];
}

bool OwnChannels::add(int fd, const struct stat& found) {
  char name[64];
  link_of(fd, name, sizeof name);
  static constexpr struct {
    const char* begins;
    Kind kind;
  } kKinds[] = {{"pipe:[", Kind::kPipe},
                {"socket:[", Kind::kPair},
                {"anon_inode:[eventfd]", Kind::kCounter},
                {"anon_inode:[timerfd]", Kind::kTimer},
                {"anon_inode:[signalfd]", Kind::kSignals},
                {"anon_inode:[eventpoll]", Kind::kSet}};
  for (const auto& k : kKinds) {
    if (strncmp(name, k.begins, strlen(k.begins)) != 0) continue;
    Channel* c = append();
    no_memory_ |= c == nullptr;
    if (c == nullptr) return true;
    c->fd = fd;
    c->kind = k.kind;
    c->number = found.st_ino;
    c->flags = fcntl(fd, F_GETFL);
    c->inherited = (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
    c->same_as = c->other_end = -1;
    return true;
  }
  return false;
}

// Sets same_as. False: it cannot be known.
bool OwnChannels::find_same(std::size_t index) {
  Channel& c = channels_[index];
  for (std::size_t i = 0; i < index && c.same_as < 0; ++i) {
    const Channel& o = channels_[i];
    if (o.kind != c.kind || o.number != c.number || o.same_as >= 0) continue;
    const auto same = are_one_file(c.fd, o.fd);
    if (!same) return false;
    if (*same) c.same_as = static_cast<int>(i);
  }
  return true;
}

int OwnChannels::find_socket(std::uint64_t number) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Channel& c = channels_[i];
    if (c.kind == Kind::kPair && c.number == number && c.same_as < 0) return static_cast<int>(i);
  }
  return -1;
}

bool OwnChannels::complete(char* why, std::size_t size) {
  snprintf(why, size, "has no memory for a list of its pipes");
  if (no_memory_) return false;
  snprintf(why, size,
           "has pipes or event descriptors of which some may be one open file, which cannot be "
           "known here (kcmp)");
  for (std::size_t i = 0; i < count_; ++i) {
    if (!find_same(i)) return false;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    Channel& c = channels_[i];
    char name[128];
    link_of(c.fd, name, sizeof name);
    snprintf(why, size, "has %s open, and a clone cannot be connected to its other end", name);
    if (c.same_as < 0 && !note(c, why, size)) return false;
  }
  return true;
}

bool OwnChannels::note(Channel& c, char* why, std::size_t size) {
  if (c.kind == Kind::kPipe) return note_pipe(c);
  if (c.kind == Kind::kPair) return note_socket(c);
  auto* info = static_cast<char*>(arena_.allocate(kMostInfo));
  bool good = info != nullptr && info_of(c.fd, info, kMostInfo);
  if (good && c.kind == Kind::kCounter) {
    good = note_counter(c, info);
  } else if (good && c.kind == Kind::kSet) {
    good = note_set(c, info, why, size);
  } else if (good && c.kind == Kind::kSignals) {
    const char* mask = field(info, "sigmask");
    good = mask != nullptr;
    c.value = good ? strtoull(mask, nullptr, 16) : 0;
  } else if (good) {
    good = note_timer(c, info);
  }
  if (info != nullptr) arena_.release(info, kMostInfo);
  return good;
}

// Both ends are here, one open file each; a pipe of messages (O_DIRECT) must be empty.
bool OwnChannels::note_pipe(Channel& c) {
  for (std::size_t i = 0; i < count_; ++i) {
    const Channel& o = channels_[i];
    if (&o == &c || o.kind != Kind::kPipe || o.number != c.number || o.same_as >= 0) continue;
    if (c.other_end >= 0) return false;
    c.other_end = static_cast<int>(i);
  }
  if (c.other_end < 0) return false;
  const int other = channels_[c.other_end].flags;
  const bool reads = is_end_of(c.flags, O_RDONLY) && is_end_of(other, O_WRONLY);
  const bool writes = is_end_of(c.flags, O_WRONLY) && is_end_of(other, O_RDONLY);
  if (writes) return true;
  int unread = 0;
  const int room = fcntl(c.fd, F_GETPIPE_SZ);
  if (!reads || room <= 0 || ioctl(c.fd, FIONREAD, &unread) != 0) return false;
  c.room = static_cast<std::uint32_t>(room);
  if (unread == 0) return true;
  if ((other & O_DIRECT) != 0 || unread > room) return false;
  auto* contents = static_cast<std::byte*>(arena_.allocate(static_cast<std::size_t>(unread)));
  if (contents == nullptr) return false;
  c.contents = contents;
  c.bytes = static_cast<std::uint32_t>(unread);
  return peek(c);
}

// Copies what is in a pipe, which stays there.
bool OwnChannels::peek(Channel& c) {
  int copy[2];
  if (pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  fcntl(copy[1], F_SETPIPE_SZ, static_cast<int>(c.room));
  bool good = tee(c.fd, copy[1], c.bytes, SPLICE_F_NONBLOCK) == static_cast<ssize_t>(c.bytes);
  for (std::uint32_t at = 0; good && at < c.bytes;) {
    const ssize_t n = read(copy[0], c.contents + at, c.bytes - at);
    good = n > 0;
    at += static_cast<std::uint32_t>(std::max<ssize_t>(n, 0));
  }
  close(copy[0]);
  close(copy[1]);
  return good;
}

bool OwnChannels::note_socket(Channel& c) {
  c.domain = option(c.fd, SO_DOMAIN);
  c.type = option(c.fd, SO_TYPE);
  c.protocol = option(c.fd, SO_PROTOCOL);
  if (is_idle(c.fd, c.domain)) {
    c.kind = Kind::kIdleSocket;
    return true;
  }
  Peer peer;
  if (c.domain != AF_UNIX || !find_peer(c.number, &peer) || peer.number == 0) return false;
  c.other_end = find_socket(peer.number);
  c.shut_down = peer.shut_down;
  if (c.other_end < 0) return false;
  // Ends that have a name could be found by others.
  sockaddr_un address = {};
  socklen_t length = sizeof address;
  if (getsockname(c.fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return false;
  if (length > sizeof(sa_family_t)) return false;
  int unread = 0;
  if (ioctl(c.fd, FIONREAD, &unread) != 0) return false;
  if (unread == 0) return true;
  if (c.type != SOCK_STREAM || unread > static_cast<int>(kMostContents)) return false;
  auto* contents = static_cast<std::byte*>(arena_.allocate(static_cast<std::size_t>(unread)));
  if (contents == nullptr) return false;
  c.contents = contents;
  c.bytes = static_cast<std::uint32_t>(unread);
  iovec piece = {contents, c.bytes};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t n = recvmsg(c.fd, &message, MSG_PEEK | MSG_DONTWAIT);
  return n == static_cast<ssize_t>(c.bytes) && (message.msg_flags & MSG_CTRUNC) == 0;
}

// Older kernels do not say whether a counter is a semaphore: it is if one of two units can be read.
bool OwnChannels::note_counter(Channel& c, const char* info) {
  const char* count = field(info, "eventfd-count");
  if (count == nullptr) return false;
  c.value = strtoull(count, nullptr, 16);
  if (const char* known = field(info, "eventfd-semaphore")) {
    c.semaphore = atoi(known) != 0;
    return true;
  }
  constexpr std::uint64_t kMost = ~std::uint64_t{0} - 4;
  std::uint64_t two = 2, got = 0;
  if (c.value > kMost || write(c.fd, &two, sizeof two) != sizeof two) return false;
  if (read(c.fd, &got, sizeof got) != sizeof got) return false;
  c.semaphore = got == 1;
  if (c.semaphore) return read(c.fd, &got, sizeof got) == sizeof got;
  return c.value == 0 || write(c.fd, &c.value, sizeof c.value) == sizeof c.value;
}

bool OwnChannels::note_timer(Channel& c, const char* info) {
  const char *clock = field(info, "clockid"), *ticks = field(info, "ticks");
  if (clock == nullptr || ticks == nullptr) return false;
  c.clock = atoi(clock);
  c.ticks = strtoull(ticks, nullptr, 10);
  c.value_ns = time_of(field(info, "it_value"));
  c.interval_ns = time_of(field(info, "it_interval"));
  return true;
}

// Lines of the form "tfd: 3 events: 19 data: 3 pos:0 ino:40e sdev:10".
bool OwnChannels::note_set(Channel& c, const char* info, char* why, std::size_t size) {
  std::uint32_t lines = 0;
  for (const char* at = info; (at = strstr(at, "tfd:")) != nullptr; ++at) ++lines;
  if (lines == 0) return true;
  c.registrations = static_cast<Registration*>(arena_.allocate(lines * sizeof(Registration)));
  if (c.registrations == nullptr) return false;
  c.registered = lines;
  std::uint32_t i = 0;
  for (const char* at = info; (at = strstr(at, "tfd:")) != nullptr; ++at, ++i) {
    Registration& r = c.registrations[i];
    r.fd = static_cast<int>(strtol(at + 4, nullptr, 10));
    const char *events = field(at, "events"), *data = field(at, "data"), *inode = field(at, "ino");
    struct stat found;
    if (events == nullptr || data == nullptr || inode == nullptr) return false;
    r.event.events = static_cast<std::uint32_t>(strtoul(events, nullptr, 16));
    r.event.data.u64 = strtoull(data, nullptr, 16);
    if (fstat(r.fd, &found) == 0 && found.st_ino == strtoull(inode, nullptr, 16)) continue;
    snprintf(why, size, "has a set of descriptors (epoll) with a file that it has closed");
    return false;
  }
  return true;
}

void OwnChannels::release() const {
  if (count_ == 0) return;
  const long nowhere = syscall(SYS_open, "/dev/null", O_RDWR | O_CLOEXEC);
  for (std::size_t i = 0; i < count_; ++i) syscall(SYS_dup3, nowhere, channels_[i].fd, O_CLOEXEC);
  syscall(SYS_close, nowhere);
}

// --- In a woken clone

bool OwnChannels::restore(char* why, std::size_t size) const {
  bool good = true;
  for (std::size_t i = 0; good && i < count_; ++i) good = channels_[i].same_as >= 0 || make(i);
  for (std::size_t i = 0; good && i < count_; ++i) {
    const Channel& c = channels_[i];
    if (c.same_as < 0) continue;
    good = dup3(channels_[c.same_as].fd, c.fd, c.inherited ? 0 : O_CLOEXEC) == c.fd;
  }
  good = good && fill_sets();
  if (!good) {
    snprintf(why, size, "its pipes and event descriptors cannot be made again: %s",
             strerrordesc_np(errno));
  }
  return good;
}

// Gives `made` the descriptor's number. Closes it.
bool OwnChannels::take_number(const Channel& c, int made) {
  const bool good = made >= 0 && dup3(made, c.fd, c.inherited ? 0 : O_CLOEXEC) == c.fd &&
                    fcntl(c.fd, F_SETFL, c.flags) == 0;
  if (made >= 0) close(made);
  return good;
}

bool OwnChannels::make(std::size_t index) const {
  const Channel& c = channels_[index];
  const bool has_other = c.other_end >= 0;
  if (has_other && static_cast<std::size_t>(c.other_end) < index) return true;  // made with it
  switch (c.kind) {
    case Kind::kPipe:
      return make_pipe(c);
    case Kind::kPair:
      return make_pair(c);
    case Kind::kIdleSocket:
      return take_number(c, socket(c.domain, c.type, c.protocol));
    case Kind::kCounter: {
      const int fd = eventfd(0, EFD_CLOEXEC | (c.semaphore ? EFD_SEMAPHORE : 0));
      const bool counts = c.value == 0 || write(fd, &c.value, sizeof c.value) == sizeof c.value;
      return counts && take_number(c, fd);
    }
    case Kind::kTimer: {
      const int fd = timerfd_create(c.clock, TFD_CLOEXEC);
      const std::uint64_t first_ns = c.ticks > 0 ? 1 : c.value_ns;
      const itimerspec t = {
          {static_cast<time_t>(c.interval_ns / kSecond_ns),
           static_cast<long>(c.interval_ns % kSecond_ns)},
          {static_cast<time_t>(first_ns / kSecond_ns), static_cast<long>(first_ns % kSecond_ns)}};
      return timerfd_settime(fd, 0, &t, nullptr) == 0 && take_number(c, fd);
    }
    case Kind::kSignals: {
      sigset_t mask;
      sigemptyset(&mask);
      memcpy(&mask, &c.value, sizeof c.value);
      return take_number(c, signalfd(-1, &mask, SFD_CLOEXEC));
    }
    case Kind::kSet:
      return take_number(c, epoll_create1(EPOLL_CLOEXEC));
  }
  return false;
}

bool OwnChannels::make_pipe(const Channel& c) const {
  const Channel& other = channels_[c.other_end];
  const Channel& reads = is_end_of(c.flags, O_RDONLY) ? c : other;
  const Channel& writes = &reads == &c ? other : c;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(reads.room));
  const bool filled = reads.bytes == 0 || write(ends[1], reads.contents, reads.bytes) ==
                                              static_cast<ssize_t>(reads.bytes);
  const bool first = take_number(reads, ends[0]);
  return take_number(writes, ends[1]) && first && filled;
}

bool OwnChannels::make_pair(const Channel& c) const {
  const Channel& other = channels_[c.other_end];
  int ends[2];
  if (socketpair(c.domain, c.type | SOCK_CLOEXEC, c.protocol, ends) != 0) return false;
  const auto fill = [](int from, const Channel& to) {
    return to.bytes == 0 || send(from, to.contents, to.bytes, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                                static_cast<ssize_t>(to.bytes);
  };
  const bool filled = fill(ends[1], c) && fill(ends[0], other);
  const auto shut = [](int end, int how) {
    if (how != 0) shutdown(end, how == 1 ? SHUT_RD : how == 2 ? SHUT_WR : SHUT_RDWR);
  };
  shut(ends[0], c.shut_down);
  shut(ends[1], other.shut_down);
  const bool first = take_number(c, ends[0]);
  return take_number(other, ends[1]) && first && filled;
}

bool OwnChannels::fill_sets() const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Channel& c = channels_[i];
    for (std::uint32_t k = 0; c.same_as < 0 && k < c.registered; ++k) {
      Registration& r = c.registrations[k];
      if (epoll_ctl(c.fd, EPOLL_CTL_ADD, r.fd, &r.event) != 0) return false;
    }
  }
  return true;
}

}  // namespace rejoin::process_image
