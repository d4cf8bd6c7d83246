#include "relay/link.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "relay/socket.h"

namespace rejoin::relay {

using journal::kRelayStores;
using journal::Step;

// Frames that are to be sent: what was copied, and what lies in the segment.
class Output : public Frames {
 public:
  void add(const Head& head, const void* body) override {
    append(&head, sizeof head);
    append(body, head.bytes);
  }
  void add_payload(const Head& head, const std::byte* body) override {
    append(&head, sizeof head);
    pieces_.push_back({false, 0, body, head.bytes});
  }
  bool empty() const { return pieces_.empty(); }
  void clear() {
    bytes_.clear();
    pieces_.clear();
  }
  // What is to be sent, in order. Valid until the next add().
  std::vector<iovec> vectors() const {
    std::vector<iovec> all;
    for (const Piece& p : pieces_) {
      const std::byte* at = p.copied ? bytes_.data() + p.offset : p.at;
      all.push_back({const_cast<std::byte*>(at), p.bytes});
    }
    return all;
  }

 private:
  struct Piece {
    bool copied;
    std::size_t offset;
    const std::byte* at;
    std::size_t bytes;
  };
  void append(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* begin = static_cast<const std::byte*>(data);
    if (pieces_.empty() || !pieces_.back().copied)
      pieces_.push_back({true, bytes_.size(), nullptr, 0});
    bytes_.insert(bytes_.end(), begin, begin + bytes);
    pieces_.back().bytes += bytes;
  }
  std::vector<std::byte> bytes_;
  std::vector<Piece> pieces_;
};

namespace {

// Looks between two sleeps. A relay shares its processor with ranks.
constexpr unsigned kLooks = 20;
constexpr long kSettleNs = 1'000'000;     // as ShmHost::kSettleNs
constexpr long kPositionsNs = 2'000'000;  // after so long without anything new, positions are sent
constexpr std::uint64_t kPositionsEveryNs = 100'000'000;
constexpr long kSleepNs = 200'000'000;  // a lost wake-up costs this
constexpr std::size_t kReadBytes = 256 * 1024;

void full_fence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences; a read-modify-write orders as much.
  static std::atomic<unsigned> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void wait_for(const journal::AnyWord<std::uint32_t>& bell, long ns) {
  const timespec limit = {0, ns};
  syscall(SYS_futex, bell.address(), FUTEX_WAIT, 0, &limit, nullptr, 0);
}

}  // namespace

Link::Link(std::byte* base, std::uint32_t node, std::uint32_t peer, int fd)
    : base_(base), peer_(peer), fd_(fd), sink_(base, node, peer), source_(base, node, peer) {
  for (std::uint32_t r = 0; r < journal::header_of(base)->ranks; ++r) {
    const std::uint32_t of = journal::control_of(base, r)->node;
    if (of == node) mine_.push_back(r);
    if (of == peer) theirs_.push_back(r);
  }
  sender_ = std::thread([this] { send(); });
}

Link::~Link() {
  cut();
  sender_.join();
  announce(0);
  close(fd_);
}

void Link::cut() {
  {
    const std::lock_guard lock(mutex_);
    cut_ = true;
  }
  shutdown(fd_, SHUT_RDWR);
  auto& bell = journal::header_of(base_)->relay_bell[peer_];
  bell.store(kRelayStores, Step::kSame, 1, std::memory_order_seq_cst);
  syscall(SYS_futex, bell.address(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// --- Sending

bool Link::flush(Output& out) {
  std::vector<iovec> all = out.vectors();
  for (std::size_t first = 0; first < all.size();) {
    msghdr message = {};
    message.msg_iov = &all[first];
    message.msg_iovlen = std::min<std::size_t>(all.size() - first, IOV_MAX);
    const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    auto left = static_cast<std::size_t>(n);
    for (; first < all.size() && left >= all[first].iov_len; ++first) left -= all[first].iov_len;
    if (left == 0) continue;
    all[first].iov_base = static_cast<std::byte*>(all[first].iov_base) + left;
    all[first].iov_len -= left;
  }
  out.clear();
  return true;
}

void Link::send() {
  Output out;
  sink_.say_what_it_has(out);
  if (!flush(out)) return cut();
  std::uint64_t positions_ns = now_ns();
  for (unsigned looks = 0;;) {
    bool ready, over;
    {
      const std::lock_guard lock(mutex_);
      ready = has_all_;
      over = cut_;
    }
    if (over) return;
    if (!ready) {
      const timespec pause = {0, kSettleNs};
      nanosleep(&pause, nullptr);
      continue;
    }
    bool sent = source_.turn(out);
    // Ranks that wait for long need positions, also where others are never idle.
    if (now_ns() - positions_ns > kPositionsEveryNs) {
      positions_ns = now_ns();
      sent |= source_.positions(out);
    }
    if (!sent && ++looks >= kLooks) {
      if (!sleep(out, &sent)) return cut();
      looks = 0;
    }
    if (sent) {
      if (!flush(out)) return cut();
      looks = 0;
    } else {
      sched_yield();
    }
  }
}

// As a rank sleeps (journal/waiting.h): announced, with a last look behind it. Adds what that look
// has found. Returns false if the connection has failed.
bool Link::sleep(Output& out, bool* sent) {
  journal::SegmentHeader* h = journal::header_of(base_);
  auto& bell = h->relay_bell[peer_];
  bell.store(kRelayStores, Step::kSame, 0, std::memory_order_relaxed);
  announce(1);
  full_fence();
  *sent = source_.turn(out);
  if (!*sent && h->light_publish != 0) {
    wait_for(bell, kSettleNs);
    *sent = source_.turn(out);
  }
  if (!*sent && bell.load() == 0) {
    wait_for(bell, kPositionsNs);
    // Positions are for ranks that wait for long.
    if (bell.load() == 0) {
      if (source_.positions(out) && !flush(out)) return false;
      wait_for(bell, kSleepNs);
    }
  }
  announce(0);
  return true;
}

void Link::announce(std::uint8_t asleep) {
  for (const std::uint32_t r : theirs_) {
    journal::header_of(base_)->asleep[r].store(kRelayStores, Step::kAnnounce, asleep);
  }
}

// --- Receiving

bool Link::receive() {
  std::vector<std::byte> buffer(kReadBytes);
  std::size_t begin = 0, end = 0;
  for (;;) {
    const ssize_t n = recv(fd_, buffer.data() + end, buffer.size() - end, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    end += static_cast<std::size_t>(n);
    while (end - begin >= sizeof(Head)) {
      Head head;
      std::memcpy(&head, buffer.data() + begin, sizeof head);
      if (head.kind >= Kind::kCount || head.bytes > kMostBytes) return false;
      const std::size_t there = end - begin - sizeof head;
      const std::byte* body = buffer.data() + begin + sizeof head;
      if (head.kind == Kind::kPayload) {
        std::byte* to = sink_.place(head);
        if (to == nullptr) return false;
        const std::size_t have = std::min<std::size_t>(there, head.bytes);
        std::memcpy(to, body, have);
        begin += sizeof head + have;
        if (!receive_payload(to + have, head.bytes - have)) return true;
        continue;
      }
      if (there < head.bytes) break;
      if (!take(head, body)) return false;
      begin += sizeof head + head.bytes;
    }
    // What is left is the beginning of a frame.
    std::memmove(buffer.data(), buffer.data() + begin, end - begin);
    end -= begin;
    begin = 0;
    if (end >= sizeof(Head)) {
      Head head;
      std::memcpy(&head, buffer.data(), sizeof head);
      buffer.resize(std::max(buffer.size(), sizeof head + head.bytes));
    }
    ring_all();
  }
}

bool Link::receive_payload(std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = recv(fd_, to, bytes, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool Link::take(const Head& head, const std::byte* body) {
  if (head.kind != Kind::kHave && head.kind != Kind::kHaveAll) return sink_.apply(head, body);
  const std::lock_guard lock(mutex_);
  if (has_all_) return false;
  if (head.kind == Kind::kHave) {
    std::uint64_t context = 0;
    if (head.bytes != sizeof context) return false;
    std::memcpy(&context, body, sizeof context);
    source_.has(head.at, head.index, context);
  } else {
    has_all_ = true;
  }
  return true;
}

// The ranks look for themselves whether there is anything for them.
void Link::ring_all() {
  full_fence();
  const journal::SegmentHeader* h = journal::header_of(base_);
  for (const std::uint32_t r : mine_) {
    if (h->asleep[r].load(std::memory_order_relaxed) == 0) continue;
    auto& bell = journal::control_of(base_, r)->bell;
    bell.store(kRelayStores, Step::kSame, 1, std::memory_order_seq_cst);
    syscall(SYS_futex, bell.address(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

}  // namespace rejoin::relay
