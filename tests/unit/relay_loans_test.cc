// Bytes of a message that a driver of a link has in the program's memory, too.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "journal/layout.h"
#include "journal/lending.h"
#include "journal/not_kept.h"
#include "relay/link.h"

namespace rejoin::test {
namespace {

using journal::Loan;
using relay::Did;
using relay::Link;
using relay::What;

constexpr std::size_t kBytes = 3'000'001;  // more than the sockets have room for

// A node's segment: rank 0 is on node 0, and has a message for rank 1, which is on node 1.
class Segment {
 public:
  Segment() {
    const std::uint64_t regions = journal::segment_bytes_for(2, 0);
    bytes_ = regions + 2 * relay::kLinkBytes;
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    base = static_cast<std::byte*>(p);
    journal::format_segment(base, 2, 1, 0, 2);
    journal::SegmentHeader* h = journal::header_of(base);
    h->has_relay = 1;
    h->links = regions;
    h->link_bytes = relay::kLinkBytes;
    h->segment_bytes = bytes_;
    for (std::uint32_t r = 0; r < 2; ++r) journal::control_of(base, r)->node = r;
    const journal::Offset region = journal::region_offset(h, 0);
    entries = region + journal::payload_begin(h) / 2;
    payload = region + journal::payload_begin(h) + 4096;
  }
  ~Segment() { munmap(base, bytes_); }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  journal::Log& log() const {
    return reinterpret_cast<journal::Log*>(base + journal::region_of(base, 0)->channels)[1];
  }
  journal::ChannelEntry& message() const {
    return *reinterpret_cast<journal::ChannelEntry*>(base + entries);
  }
  // Posts it. None of its bytes are here yet.
  void post() const {
    put(log().chunk[0], entries);
    message().bytes = kBytes;
    message().value = payload;
    put(message().ready, 1);
    put(log().tail, 1);
  }

  std::byte* base;
  journal::Offset entries, payload;

 private:
  std::uint64_t bytes_;
};

class Loans : public ::testing::Test {
 protected:
  Loans() : message_(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) message_[i] = static_cast<std::byte>(i * 7 + i / 256);
    connect();
  }
  ~Loans() override { disconnect(); }

  void connect() {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds_.data()) != 0) abort();
    for (std::uint32_t n = 0; n < 2; ++n) {
      link(n).begin(segment_[n].base, n, 1 - n, {getpid(), fds_[n], n + 1, 0});
    }
    for (int i = 0; i < 2; ++i) {  // each says what it has
      for (std::uint32_t n = 0; n < 2; ++n) step(n, {});
    }
  }
  void disconnect() {
    for (const int fd : fds_) close(fd);
  }

  Link& link(std::uint32_t node) { return Link::of(segment_[node].base, 1 - node); }
  Did step(std::uint32_t node, const journal::Loans& loans) {
    relay::SocketWire wire(fds_[node]);
    return link(node).run(
        relay::kRelay, What::kSendAndReceive, [&](const relay::Connection&) { return &wire; },
        loans);
  }
  journal::Written written() { return journal::Written::of(segment_[1].message().written.load()); }
  // What of the message lies in a node's segment.
  std::uint64_t length_in(std::uint32_t node) {
    const std::byte* at = segment_[node].base + segment_[node].payload;
    const auto end = std::mismatch(message_.begin(), message_.end(), at).first;
    return static_cast<std::uint64_t>(end - message_.begin());
  }
  Loan lent() { return {segment_[0].payload, message_.data(), kBytes}; }
  // The receiver lends its buffer for the message, as soon as that is shown, and drives its link.
  Loan lend(std::vector<std::byte>& buffer) {
    Loan loan = {segment_[1].payload, buffer.data(), kBytes};
    loan.message = segment_[1].entries;
    return loan;
  }
  void receive_to(Loan& to) {
    segment_[0].post();
    const Loan from = lent();
    for (int i = 0; i < 1000 && written().bytes < kBytes; ++i) {
      ASSERT_FALSE(step(0, {.out = &from, .in = nullptr}).ended);
      ASSERT_FALSE(step(1, {.out = nullptr, .in = i > 0 ? &to : nullptr}).ended);
    }
  }

  std::array<Segment, 2> segment_;
  std::array<int, 2> fds_;
  std::vector<std::byte> message_;
};

TEST_F(Loans, AreSentBeforeTheSegmentHasThem) {
  segment_[0].post();
  const Loan loan = lent();
  for (int i = 0; i < 1000 && written().bytes < kBytes; ++i) {
    ASSERT_FALSE(step(0, {.out = &loan, .in = nullptr}).ended);
    ASSERT_FALSE(step(1, {}).ended);
  }
  EXPECT_EQ(written().bytes, kBytes);
  EXPECT_EQ(length_in(1), kBytes);
}

TEST_F(Loans, AreKeptForTheNextDriverIfTheSocketIsFull) {
  segment_[0].post();
  const Loan loan = lent();
  EXPECT_TRUE(step(0, {.out = &loan, .in = nullptr}).blocked);
  for (int i = 0; i < 100; ++i) {  // by others
    ASSERT_FALSE(step(0, {}).ended);
    ASSERT_FALSE(step(1, {}).ended);
  }
  const std::uint64_t first = written().bytes;
  EXPECT_GT(first, 0u);
  EXPECT_LT(first, kBytes);
  EXPECT_GE(length_in(1), first);
  // The sender has written all of it, and is over.
  std::memcpy(segment_[0].base + segment_[0].payload, message_.data(), kBytes);
  put(segment_[0].message().written, kBytes);
  for (int i = 0; i < 1000 && written().bytes < kBytes; ++i) {
    ASSERT_FALSE(step(0, {}).ended);
    ASSERT_FALSE(step(1, {}).ended);
  }
  EXPECT_EQ(written().bytes, kBytes);
  EXPECT_EQ(length_in(1), kBytes);
}

// The sender may use the place of a message again when the receiver has read it, and the receiver's
// copy of that place may have the newer bytes before another connection begins.
TEST_F(Loans, WhatHasComeIsNotSentAgain) {
  segment_[0].post();
  std::byte* const payload = segment_[0].base + segment_[0].payload;
  std::memcpy(payload, message_.data(), kBytes);
  put(segment_[0].message().written, kBytes / 2);
  const auto carry = [&](std::uint64_t bytes) {
    for (int i = 0; i < 1000 && (i < 10 || written().bytes < bytes); ++i) {
      ASSERT_FALSE(step(0, {}).ended);
      ASSERT_FALSE(step(1, {}).ended);
    }
    EXPECT_EQ(written().bytes, bytes);
  };
  carry(kBytes / 2);
  disconnect();
  connect();  // the rest is missing
  put(segment_[0].message().written, kBytes);
  carry(kBytes);
  EXPECT_EQ(length_in(1), kBytes);
  disconnect();
  std::memset(payload, 0, kBytes);
  connect();
  carry(kBytes);
  EXPECT_EQ(length_in(1), kBytes);
}

TEST_F(Loans, OfWhatIsShownLaterArePutInBothPlaces) {
  segment_[0].post();
  const Loan from = lent();
  std::vector<std::byte> buffer(kBytes);
  Loan to = {segment_[1].payload, buffer.data(), kBytes};
  for (int i = 0; i < 1000 && written().bytes < kBytes; ++i) {
    ASSERT_FALSE(step(0, {.out = &from, .in = nullptr}).ended);
    // Others drive the link meanwhile, before the buffer is lent and behind it.
    const bool lends = i > 0 && i % 8 != 0;
    ASSERT_FALSE(step(1, {.out = nullptr, .in = lends ? &to : nullptr}).ended);
  }
  EXPECT_EQ(written().bytes, kBytes);
  EXPECT_EQ(length_in(1), kBytes);
  EXPECT_GT(to.to, to.from);
  const auto from_at = static_cast<std::ptrdiff_t>(to.from),
             to_at = static_cast<std::ptrdiff_t>(to.to);
  EXPECT_TRUE(
      std::equal(message_.begin() + from_at, message_.begin() + to_at, buffer.begin() + from_at));
  EXPECT_TRUE(std::all_of(buffer.begin() + to_at, buffer.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(Loans, OfMessagesThatAreShownAreNotPutInTheSegment) {
  std::vector<std::byte> buffer(kBytes);
  Loan to = lend(buffer);
  receive_to(to);
  EXPECT_EQ(written().bytes, kBytes);
  EXPECT_FALSE(written().are_kept);
  EXPECT_LT(length_in(1), kBytes);
  EXPECT_EQ(to.to, kBytes);
  EXPECT_TRUE(std::equal(message_.begin() + static_cast<std::ptrdiff_t>(to.from), message_.end(),
                         buffer.begin() + static_cast<std::ptrdiff_t>(to.from)));
}

TEST_F(Loans, AreAskedForAgain) {
  std::vector<std::byte> buffer(kBytes);
  Loan to = lend(buffer);
  receive_to(to);
  std::memcpy(segment_[0].base + segment_[0].payload, message_.data(), kBytes);
  put(segment_[0].message().written, kBytes);
  // The next incarnation of the receiver asks.
  put(journal::asked_of(segment_[1].base, 1)[0], journal::AskWord::after(0, 0));
  for (int i = 0; i < 1000 && !(written().are_kept && written().bytes == kBytes); ++i) {
    ASSERT_FALSE(step(0, {}).ended);
    ASSERT_FALSE(step(1, {}).ended);
  }
  EXPECT_EQ(length_in(1), kBytes);
  // It is answered once.
  EXPECT_FALSE(step(1, {}).carried);
  EXPECT_FALSE(step(0, {}).carried);
}

struct Lender {
  bool receive_to(Loan* to) {
    if (to != nullptr) loan = to;
    return true;
  }

  Loan* loan = nullptr;
};

TEST(Lending, WhatCameOfAnEarlierIncarnationIsCopiedAgain) {
  Lender host;
  std::byte buffer[8] = {};
  journal::Lending<Lender> lending(host);
  constexpr journal::Offset kAt = 64;
  lending.begin_ahead({kAt, 1}, buffer, sizeof buffer);
  host.loan->extend(0, 5);
  const auto rest = [&](journal::Offset at, std::uint32_t incarnation) {
    std::vector<std::uint64_t> ranges;
    lending.for_rest(at, 0, sizeof buffer, incarnation,
                     [&](std::uint64_t begin, std::uint64_t end) {
                       ranges.insert(ranges.end(), {begin, end});
                     });
    return ranges;
  };
  EXPECT_EQ(rest(kAt, 1), (std::vector<std::uint64_t>{5, 8}));
  EXPECT_EQ(rest(kAt, 2), (std::vector<std::uint64_t>{0, 8}));  // it has given its own
  EXPECT_EQ(rest(2 * kAt, 1), (std::vector<std::uint64_t>{0, 8}));
  lending.end();
  lending.begin_message(192, kAt, buffer, sizeof buffer);
  host.loan->extend(0, 5);
  EXPECT_EQ(rest(kAt, 0), (std::vector<std::uint64_t>{5, 8}));
}

}  // namespace
}  // namespace rejoin::test
