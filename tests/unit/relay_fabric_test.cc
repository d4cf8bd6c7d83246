// Connections between relays through libfabric, over the loopback device.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "relay/fabric.h"

namespace rejoin::test {
namespace {

using relay::Fabric;
using relay::FabricConnection;
using relay::FabricPlan;

constexpr std::size_t kSegmentBytes = 16 << 20;

Fabric* fabric() {
  static Fabric* const found = [] {
    setenv("FI_PROVIDER", "tcp;ofi_rxm", 1);
    void* library = dlopen(REJOIN_FABRIC, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) abort();
    return reinterpret_cast<decltype(&rejoin_fabric)>(dlsym(library, "rejoin_fabric"))();
  }();
  return found;
}

// A connection of TCP over the loopback device: one end knows the other one's address.
std::array<int, 2> connected_sockets() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  std::array<int, 2> ends = {socket(AF_INET, SOCK_STREAM, 0), -1};
  if (bind(listener, address, bytes) != 0 || listen(listener, 1) != 0) abort();
  if (getsockname(listener, address, &bytes) != 0) abort();
  if (connect(ends[0], address, bytes) != 0) abort();
  ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
  return ends;
}

class FabricTest : public testing::Test {
 protected:
  struct Side {
    Side() {
      void* p =
          mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) abort();
      base = static_cast<std::byte*>(p);
    }
    ~Side() {
      connection.reset();
      munmap(base, kSegmentBytes);
    }
    std::byte* base;
    std::unique_ptr<FabricConnection> connection;
  };

  FabricTest() : sockets_(connected_sockets()) {}
  ~FabricTest() override {
    for (const int fd : sockets_) close(fd);
  }
  // Payload may be stored below `places`.
  void open(std::uint64_t secret_of_other = 2, std::uint64_t places = kSegmentBytes) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      FabricPlan plan;
      plan.socket = sockets_[i];
      plan.base = sides_[i].base;
      plan.bytes = kSegmentBytes;
      plan.mine = i == 0 ? 1 : 2;
      plan.theirs = i == 0 ? secret_of_other : 1;
      plan.place = [base = plan.base, places](std::uint64_t at, std::uint32_t bytes) {
        return at + bytes <= places ? base + at : nullptr;
      };
      std::string why;
      sides_[i].connection = fabric()->connect(plan, &why);
      ASSERT_TRUE(sides_[i].connection) << why;
    }
  }
  // Sends pieces one after the other, and receives as many bytes at the other side: those of a
  // piece of the segment at their place there, others to `copied`. Returns an error or 0.
  long carry(std::uint32_t from, std::vector<iovec> pieces, std::vector<std::byte>* copied) {
    FabricConnection& sends = *sides_[from].connection;
    FabricConnection& takes = *sides_[1 - from].connection;
    const std::vector<iovec> all = pieces;
    std::size_t first = 0, piece = 0, had = 0;
    while (piece < all.size()) {
      if (first < pieces.size()) {
        const long n = sends.send(pieces.data() + first, pieces.size() - first, false);
        if (n < 0) return n;
        for (auto left = static_cast<std::size_t>(n); left > 0;) {
          iovec& p = pieces[first];
          const std::size_t now = std::min(left, p.iov_len);
          p = {static_cast<std::byte*>(p.iov_base) + now, p.iov_len - now};
          left -= now;
          if (p.iov_len == 0) ++first;
        }
      } else if (const long error = sends.receive(nullptr, 0); error < 0) {
        return error;
      }
      const auto* at = static_cast<const std::byte*>(all[piece].iov_base);
      const bool is_payload = at >= sides_[from].base && at < sides_[from].base + kSegmentBytes;
      std::byte* to = sides_[1 - from].base + (at - sides_[from].base) + had;
      if (!is_payload) {
        copied->resize(copied->size() + all[piece].iov_len - had);
        to = copied->data() + copied->size() - (all[piece].iov_len - had);
      }
      const long n = takes.receive(to, all[piece].iov_len - had);
      if (n < 0) return n;
      if (!is_payload) {
        copied->resize(copied->size() - (all[piece].iov_len - had) + static_cast<std::size_t>(n));
      }
      had += static_cast<std::size_t>(n);
      if (had == all[piece].iov_len) {
        ++piece;
        had = 0;
      }
    }
    return 0;
  }

  std::array<int, 2> sockets_;
  std::array<Side, 2> sides_;
};

TEST_F(FabricTest, CarriesPiecesInOrderInBothDirections) {
  open();
  std::mt19937 random(1);
  for (std::uint32_t round = 0; round < 200; ++round) {
    const std::uint32_t from = round % 2;
    std::vector<std::byte> own(random() % 100'000 + 1);
    for (std::byte& b : own) b = static_cast<std::byte>(random());
    const std::size_t bytes = random() % (round % 10 == 0 ? kSegmentBytes / 2 : 60'000) + 1;
    const std::size_t at = 1 + random() % (kSegmentBytes - bytes - 1);
    for (std::size_t i = 0; i < bytes; i += 1 + random() % 50) {
      sides_[from].base[at + i] = static_cast<std::byte>(random());
    }
    const std::size_t middle = random() % own.size();
    std::vector<std::byte> copied;
    ASSERT_EQ(carry(from,
                    {{own.data(), middle},
                     {sides_[from].base + at, bytes},
                     {own.data() + middle, own.size() - middle}},
                    &copied),
              0)
        << "round " << round;
    EXPECT_EQ(copied, own);
    EXPECT_EQ(memcmp(sides_[0].base + at, sides_[1].base + at, bytes), 0) << "round " << round;
  }
}

// Strangers may reach the endpoint, too.
TEST_F(FabricTest, DoesNotHearAnotherSecret) {
  open(3);
  std::vector<std::byte> own(100), got(100);
  iovec piece = {own.data(), own.size()};
  for (int i = 0; i < 20'000; ++i) {
    if (piece.iov_len > 0 && sides_[1].connection->send(&piece, 1, false) > 0) piece.iov_len = 0;
    ASSERT_EQ(sides_[0].connection->receive(got.data(), got.size()), 0);
  }
  EXPECT_EQ(piece.iov_len, 0u);
  std::vector<std::byte> copied;
  EXPECT_EQ(carry(0, {{own.data(), own.size()}}, &copied), 0);  // the other direction
}

TEST_F(FabricTest, RefusesPayloadWhereNoneMayBe) {
  open(2, kSegmentBytes / 2);
  std::vector<std::byte> copied;
  EXPECT_EQ(carry(0, {{sides_[0].base + 4096, 100'000}}, &copied), 0);
  EXPECT_EQ(carry(0, {{sides_[0].base + kSegmentBytes / 2 - 4096, 100'000}}, &copied), -EPROTO);
}

// It reads nothing but what it has been told of, where that belongs.
TEST_F(FabricTest, RefusesPayloadThatWasNotAnnouncedThere) {
  open();
  iovec piece = {sides_[0].base + 4096, 100'000};
  std::size_t sent = 0;
  long n = 0;
  while (sent < piece.iov_len && n >= 0) {
    n = sides_[0].connection->send(&piece, 1, false);
    if (n > 0) sent += static_cast<std::size_t>(n);
    sides_[1].connection->receive(nullptr, 0);
  }
  ASSERT_EQ(sent, piece.iov_len);
  std::vector<std::byte> elsewhere(piece.iov_len);
  for (n = 0; n == 0;) {
    sides_[0].connection->receive(nullptr, 0);
    n = sides_[1].connection->receive(elsewhere.data(), elsewhere.size());
  }
  EXPECT_EQ(n, -EPROTO);
}

// The provider's connection can be dead while the socket is alive.
TEST_F(FabricTest, FailsIfThereIsNoAnswerForLong) {
  open();
  std::vector<std::byte> own(100), copied;
  ASSERT_EQ(carry(0, {{own.data(), own.size()}}, &copied), 0);
  std::byte byte;
  constexpr auto kLong = std::chrono::seconds(22);
  const auto look_for = [&](bool both) {
    long n = 0;
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (n == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::vector<pollfd> all;
      for (std::uint32_t i = 0; i < (both ? 2u : 1u); ++i) {
        sides_[i].connection->wait_for(all);
        if (n == 0) n = sides_[i].connection->receive(&byte, 1);
      }
    }
    return n;
  };
  EXPECT_EQ(look_for(true), 0);  // the other side says that it has read what came
  iovec piece = {own.data(), own.size()};
  ASSERT_EQ(sides_[0].connection->send(&piece, 1, false), static_cast<long>(own.size()));
  EXPECT_EQ(look_for(false), -ETIMEDOUT);
  EXPECT_EQ(sides_[0].connection->why(), "nothing arrives any more");
}

TEST_F(FabricTest, NoticesThatTheOtherSideHasGone) {
  open();
  std::vector<std::byte> own(100), copied;
  ASSERT_EQ(carry(0, {{own.data(), own.size()}}, &copied), 0);
  sides_[1].connection.reset();
  shutdown(sockets_[1], SHUT_RDWR);
  std::byte byte;
  long n = 0;
  while (n == 0) {
    std::vector<pollfd> all;
    const int ms = sides_[0].connection->wait_for(all);
    poll(all.data(), all.size(), ms);
    n = sides_[0].connection->receive(&byte, 1);
  }
  EXPECT_LT(n, 0);
}

}  // namespace
}  // namespace rejoin::test
