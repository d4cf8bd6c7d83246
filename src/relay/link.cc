#include "relay/link.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "journal/payload_stores.h"
#include "journal/system_call.h"

namespace rejoin::relay {

using journal::kRelayStores;
using journal::Step;

namespace {

constexpr std::uint32_t kMostLogs = 1 << 21;  // kHave frames that a connection may begin with
// The size of one recv() into the buffer of frames. It holds a message of a few KiB with its
// frames; not more, because what it reads of a payload has to be copied again, and the rest of a
// payload is read directly to its place in the segment.
constexpr std::size_t kReadBytes = 16 * 1024;
// The most bytes that one step receives. The caller may be the rank that these bytes are for, which
// copies them to the program's buffer when the step is over: they are still in the L2 cache then.
constexpr std::size_t kMostReceived = 256 * 1024;
// The same if the bytes are written to the program's buffer as they come.
constexpr std::size_t kMostLent = 4 * 1024 * 1024;
// The least bytes that are written past the cache to where only a later incarnation reads them.
constexpr std::size_t kLeastPastCache = 4 * 1024;

void full_fence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences; a read-modify-write orders as much.
  static std::atomic<unsigned> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

// Frames are added behind those that wait to be sent.
class Link::Output : public Frames {
 public:
  explicit Output(State& state) : state_(state) {}
  void add(const Head& head, const void* body) override {
    append(&head, sizeof head);
    append(body, head.bytes);
  }
  void add_payload(const Head& head, const std::byte* body) override {
    append(&head, sizeof head);
    if (head.bytes > 0) state_.pieces.push_back({body, head.bytes});
  }

 private:
  void append(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    if (state_.pieces.empty() || state_.pieces.back().at != nullptr) {
      state_.pieces.push_back({nullptr, 0});
    }
    std::memcpy(state_.copied.add(bytes), data, bytes);
    state_.pieces.back().bytes += bytes;
  }
  State& state_;
};

Link::State::State(std::byte* base, std::uint32_t node, std::uint32_t peer, journal::Arena& arena)
    : sink(base, node, peer),
      source(base, node, peer, arena),
      mine(arena),
      copied(arena),
      pieces(arena),
      in(arena) {}

// Builds the state anew in the link's memory, without destroying that of the former connection,
// whose driver may have died in the middle of a change.
void Link::begin(std::byte* base, std::uint32_t node, std::uint32_t peer,
                 const Connection& connection) {
  constexpr std::uint64_t kOwnBytes = journal::round_up_line(sizeof(Link));
  base_ = base;
  connection_ = connection;
  is_relays_.store(kRelayStores, Step::kSame, connection.fd < 0 ? 1 : 0);
  ending_.store(kRelayStores, Step::kSame, Ending::kNone);
  flushed_ = piece_flushed_ = copied_flushed_ = 0;
  auto* arena = new (arena_memory_)
      journal::Arena(reinterpret_cast<std::byte*>(this) + kOwnBytes, kLinkBytes - kOwnBytes);
  state_ = new (state_memory_) State(base, node, peer, *arena);
  for (std::uint32_t r = 0; r < journal::header_of(base)->ranks; ++r) {
    const std::uint32_t of = journal::control_of(base, r)->node;
    if (of == node) state_->mine.push_back(r);
    // Publishers treat the other node's ranks as asleep, so that each publication calls carry().
    if (of == peer) journal::header_of(base)->asleep[r].store(kRelayStores, Step::kAnnounce, 1);
  }
  Output out(*state_);
  state_->sink.say_what_it_has(out);
}

void Link::add_positions() {
  if (!state_->has_all || !state_->pieces.empty()) return;
  Output out(*state_);
  state_->source.positions(out);
}

Did Link::step(Wire& wire, What what, const journal::Loans& loans) {
  Did did;
  did.ended = ending() != Ending::kNone || !send(wire, loans.out, &did) ||
              (what == What::kSendAndReceive && !receive(wire, loans.in, &did));
  return did;
}

bool Link::fail(Ending why) {
  ending_.store(kRelayStores, Step::kSame, why);
  return false;
}

// --- Sending

// Where the driver has bytes that lie at `at` in the segment, or are to lie there; null: nowhere.
// *bytes: at most that many.
std::byte* Link::lent(const journal::Loan* loan, const std::byte* at, std::size_t* bytes) const {
  const auto offset = static_cast<journal::Offset>(at - base_);
  if (loan == nullptr || !loan->has(offset)) return nullptr;
  *bytes = std::min(*bytes, loan->end() - offset);
  return loan->data + (offset - loan->at);
}

bool Link::send(Wire& wire, const journal::Loan* loan, Did* did) {
  if (!flush(wire, loan, did)) return false;
  if (did->blocked || !state_->has_all) return true;
  Output out(*state_);
  state_->source.turn(out, loan);
  if (!flush(wire, loan, did)) return false;
  if (did->blocked) keep(loan);
  did->left |= state_->source.is_full() || state_->source.is_behind();
  return true;
}

// Writes what is lent and was not sent to the segment, from where the next driver sends it.
void Link::keep(const journal::Loan* loan) {
  for (std::size_t i = flushed_; i < state_->pieces.size(); ++i) {
    const Piece& p = state_->pieces[i];
    std::size_t bytes = p.bytes;
    if (p.at == nullptr) continue;
    if (const std::byte* from = lent(loan, p.at, &bytes)) {
      std::memcpy(const_cast<std::byte*>(p.at), from, bytes);
    }
  }
}

bool Link::flush(Wire& wire, const journal::Loan* loan, Did* did) {
  constexpr std::size_t kAtOnce = 64;
  State& s = *state_;
  while (flushed_ < s.pieces.size()) {
    iovec all[kAtOnce];
    std::size_t count = 0, copied = copied_flushed_;
    for (std::size_t i = flushed_; i < s.pieces.size() && count < kAtOnce; ++i) {
      const Piece& p = s.pieces[i];
      std::size_t bytes = p.bytes;
      const std::byte* at = p.at != nullptr ? lent(loan, p.at, &bytes) : s.copied.data() + copied;
      if (at == nullptr || bytes < p.bytes) at = p.at;
      if (p.at == nullptr) copied += p.bytes;
      const std::size_t sent = i == flushed_ ? piece_flushed_ : 0;
      all[count++] = {const_cast<std::byte*>(at) + sent, p.bytes - sent};
    }
    // The rest of a message, which is being written, goes into the same packets.
    const long n = wire.send(all, count, s.source.is_in_message());
    // What the program sends is not there: keep() ends it by SIGSEGV, as a copy would.
    const bool is_bad = n == -EFAULT && loan != nullptr;
    if (n < 0 && !is_bad) return fail(Ending::kLost);
    if (n == 0 || is_bad) {
      did->blocked = true;
      return true;
    }
    did->carried = true;
    for (auto left = static_cast<std::size_t>(n); left > 0;) {
      const Piece& p = s.pieces[flushed_];
      const std::size_t piece = std::min(left, p.bytes - piece_flushed_);
      piece_flushed_ += piece;
      left -= piece;
      if (piece_flushed_ < p.bytes) continue;
      if (p.at == nullptr) copied_flushed_ += p.bytes;
      piece_flushed_ = 0;
      ++flushed_;
    }
  }
  s.pieces.clear();
  s.copied.clear();
  flushed_ = piece_flushed_ = copied_flushed_ = 0;
  return true;
}

// --- Receiving

// The place in the program's buffer for payload that belongs to `at`; null: it is not lent, or has
// a gap there.
std::byte* Link::lent_for(const journal::Loan* loan, std::byte* at, std::size_t* bytes) const {
  std::byte* const to = lent(loan, at, bytes);
  const bool has_gap = to != nullptr && loan->from != loan->to && to != loan->data + loan->to;
  return has_gap ? nullptr : to;
}

// Receives bytes of a payload to the program's buffer, if it is lent, or to their place. Bytes that
// are shown later are written to both.
long Link::receive_payload(Wire& wire, journal::Loan* loan, std::size_t* asked) {
  State& s = *state_;
  *asked = s.payload_bytes;
  std::byte* to = lent_for(loan, s.payload, asked);
  const bool is_kept = to == nullptr || loan->message == 0;
  if (!is_kept) s.sink.note_not_kept(loan->message);
  long n = wire.receive(to != nullptr ? to : s.payload, *asked);
  if (n == -EFAULT && to != nullptr) {  // the program finds out when the bytes are copied
    to = nullptr;
    n = wire.receive(s.payload, *asked);
  }
  if (n <= 0) return n;
  const auto bytes = static_cast<std::size_t>(n);
  if (to != nullptr && is_kept && bytes >= kLeastPastCache) {
    journal::copy_past_cache(s.payload, to, bytes);
    _mm_sfence();
  } else if (to != nullptr && is_kept) {
    std::memcpy(s.payload, to, bytes);
  }
  if (to != nullptr) loan->extend(static_cast<std::uint64_t>(to - loan->data), bytes);
  s.payload += bytes;
  s.payload_bytes -= bytes;
  return n;
}

bool Link::receive(Wire& wire, journal::Loan* loan, Did* did) {
  State& s = *state_;
  bool shown = false;
  s.begins = false;
  for (std::size_t received = 0;;) {
    // The rank that a message is for can lend its buffer for the bytes that follow.
    if (received >= (loan != nullptr ? kMostLent : kMostReceived) || s.begins) {
      did->left = true;
      break;
    }
    long n = 0;
    std::size_t asked = 0;
    if (s.payload_bytes > 0) {
      n = receive_payload(wire, loan, &asked);
    } else {
      const std::size_t there = s.in.size();
      asked = std::max(kReadBytes, missing());
      n = wire.receive(s.in.add(asked), asked);
      s.in.shorten(there + static_cast<std::size_t>(std::max(n, 0L)));
    }
    if (n < 0) return fail(Ending::kLost);
    if (n == 0) break;
    received += static_cast<std::size_t>(n);
    shown = true;
    const bool had_all = s.has_all;
    if (!take_in(loan)) return false;
    did->left |= s.has_all != had_all;
    if (static_cast<std::size_t>(n) < asked) break;  // there was no more
  }
  if (shown) {
    did->carried = true;
    ring_all();
  }
  return true;
}

// Bytes of the frame whose beginning has come.
std::size_t Link::missing() const {
  const State& s = *state_;
  const std::size_t there = s.in.size() - s.in_begin;
  if (there < sizeof(Head)) return 0;
  Head head;
  std::memcpy(&head, s.in.data() + s.in_begin, sizeof head);
  return sizeof head + head.bytes - there;
}

// Carries out the whole frames that have come.
bool Link::take_in(journal::Loan* loan) {
  State& s = *state_;
  while (s.payload_bytes == 0 && s.in.size() - s.in_begin >= sizeof(Head)) {
    Head head;
    std::memcpy(&head, s.in.data() + s.in_begin, sizeof head);
    if (head.kind >= Kind::kCount || head.bytes > kMostBytes) return fail(Ending::kRefused);
    const std::byte* body = s.in.data() + s.in_begin + sizeof head;
    const std::size_t there = s.in.size() - s.in_begin - sizeof head;
    if (head.kind == Kind::kPayload) {
      std::byte* to = s.sink.place(head);
      if (to == nullptr) return fail(Ending::kRefused);
      std::size_t have = std::min<std::size_t>(there, head.bytes);
      std::memcpy(to, body, have);
      std::size_t bytes = have;
      if (std::byte* const also = lent_for(loan, to, &bytes)) {
        std::memcpy(also, body, bytes);
        loan->extend(static_cast<std::uint64_t>(also - loan->data), bytes);
      }
      s.in_begin += sizeof head + have;
      s.payload = to + have;
      s.payload_bytes = head.bytes - have;
      continue;
    }
    if (there < head.bytes) break;
    if (!take(head, body)) return fail(Ending::kRefused);
    s.in_begin += sizeof head + head.bytes;
  }
  // What is left is the beginning of a frame.
  const std::size_t left = s.in.size() - s.in_begin;
  if (left > 0 && s.in_begin > 0) std::memmove(s.in.data(), s.in.data() + s.in_begin, left);
  s.in.shorten(left);
  s.in_begin = 0;
  return true;
}

bool Link::take(const Head& head, const std::byte* body) {
  State& s = *state_;
  if (head.kind == Kind::kMessage && head.bytes == sizeof(journal::ChannelEntry)) {
    journal::ChannelEntry message;
    std::memcpy(static_cast<void*>(&message), body, sizeof message);
    s.begins |= message.written.load(std::memory_order_relaxed) < message.bytes;
  }
  if (head.kind == Kind::kAhead) {
    std::uint32_t incarnation = 0;
    if (head.bytes != sizeof incarnation) return false;
    std::memcpy(&incarnation, body, sizeof incarnation);
    ahead_key_.store(kRelayStores, Step::kSame, 0);
    ahead_at_.store(kRelayStores, Step::kSame, head.at);
    ahead_incarnation_.store(kRelayStores, Step::kSame, incarnation);
    ahead_key_.store(kRelayStores, Step::kSame, head.index);
    s.begins = true;
    return true;
  }
  if (head.kind == Kind::kAsk) {
    s.begins = true;
    return head.bytes == 0 && s.source.asks(head.at, head.index);
  }
  if (head.kind != Kind::kHave && head.kind != Kind::kHaveAll) return s.sink.apply(head, body);
  if (s.has_all) return false;
  if (head.kind == Kind::kHave) {
    LogCopy copy;
    if (head.bytes != sizeof copy) return false;
    std::memcpy(&copy, body, sizeof copy);
    if (++s.has == kMostLogs) return false;
    s.source.has(head.at, head.index, copy);
  } else {
    s.has_all = true;
  }
  return true;
}

// The ranks look for themselves whether there is anything for them.
void Link::ring_all() {
  full_fence();
  const journal::SegmentHeader* h = journal::header_of(base_);
  for (const std::uint32_t r : state_->mine) {
    if (h->asleep[r].load(std::memory_order_relaxed) == 0) continue;
    auto& bell = journal::control_of(base_, r)->bell;
    bell.store(kRelayStores, Step::kSame, 1, std::memory_order_seq_cst);
    journal::system_call(SYS_futex, reinterpret_cast<long>(bell.address()), FUTEX_WAKE, 1);
  }
}

}  // namespace rejoin::relay
