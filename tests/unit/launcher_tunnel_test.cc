// The encryption of connections between relays: the thread that moves bytes between a socket in
// clear and TLS.
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/base/file.h"
#include "launcher/hosts/tunnel.h"
#include "tls_connections.h"

namespace rejoin::launcher {
namespace {

// Two tunnels over one connection, with these secrets. Both handshakes are made at the same time.
std::pair<Descriptor, Descriptor> open_both(const std::string& one, const std::string& other) {
  Pair pair;
  Descriptor accepts;
  std::thread thread(
      [&] { accepts = open_tunnel(std::move(pair.ends[0]), library(), TlsSide::kAccepts, one); });
  Descriptor connects = open_tunnel(std::move(pair.ends[1]), library(), TlsSide::kConnects, other);
  thread.join();
  return {std::move(accepts), std::move(connects)};
}

std::string some_bytes(std::size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return text;
}

std::string read_bytes(int fd, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = read(fd, text.data() + got, bytes - got);
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

TEST(Tunnel, CarriesTheSameBytesWhileBothDirectionsAreFull) {
  const auto [one, other] = open_both(kSecret, kSecret);
  ASSERT_TRUE(one.open() && other.open());
  const std::string to_one = some_bytes(20'000'000, 1), to_other = some_bytes(20'000'000, 2);
  // Both write until nothing more has room before anything is read.
  std::thread writers[] = {
      std::thread([&] { write_all(other.get(), to_one.data(), to_one.size()); }),
      std::thread([&] { write_all(one.get(), to_other.data(), to_other.size()); })};
  for (const int fd : {one.get(), other.get()}) {
    pollfd full = {fd, POLLOUT, 0};
    constexpr timespec kPause = {0, 20'000'000};
    for (int quiet = 0; quiet < 5;) {
      quiet = poll(&full, 1, 0) == 0 ? quiet + 1 : 0;
      nanosleep(&kPause, nullptr);
    }
  }
  std::string read_by_one;
  std::thread reader([&] { read_by_one = read_bytes(one.get(), to_one.size()); });
  const std::string read_by_other = read_bytes(other.get(), to_other.size());
  for (std::thread* t : {&writers[0], &writers[1], &reader}) t->join();
  EXPECT_TRUE(read_by_one == to_one);
  EXPECT_TRUE(read_by_other == to_other);
}

TEST(Tunnel, IsNotMadeWithAnotherSecret) {
  const auto [one, other] = open_both(kSecret, kOther);
  EXPECT_FALSE(one.open());
  EXPECT_FALSE(other.open());
}

TEST(Tunnel, IsNotMadeWithTheKeyOfAnotherUse) {
  Pair pair;
  std::thread agent([&] {
    auto tls = library().open(pair.ends[1].get(), TlsSide::kConnects, TlsUse::kOrders, kSecret);
    EXPECT_TRUE(prove_within(2'000'000'000, pair.ends[1].get(), *tls, nullptr));
  });
  EXPECT_FALSE(open_tunnel(std::move(pair.ends[0]), library(), TlsSide::kAccepts, kSecret).open());
  agent.join();
}

TEST(Tunnel, IsNotMadeWithOneThatDoesNotEncrypt) {
  for (const TlsSide side : {TlsSide::kAccepts, TlsSide::kConnects}) {
    Pair pair;
    const std::string clear = some_bytes(4096, 3);
    ASSERT_TRUE(write_all(pair.ends[1].get(), clear.data(), clear.size()));
    EXPECT_FALSE(open_tunnel(std::move(pair.ends[0]), library(), side, kSecret).open());
    // Nothing that was to be sent has been.
    const std::string sent = read_bytes(pair.ends[1].get(), 1 << 16);
    EXPECT_EQ(sent.find("REJOIN"), std::string::npos);
  }
}

TEST(Tunnel, IsNotMadeWithOneThatSaysNothing) {
  Pair pair;
  EXPECT_FALSE(open_tunnel(std::move(pair.ends[0]), library(), TlsSide::kAccepts, kSecret).open());
}

TEST(Tunnel, EndsAtBothEnds) {
  const std::string text = some_bytes(100'000, 4);
  for (const bool swapped : {false, true}) {
    auto [one, other] = open_both(kSecret, kSecret);
    if (swapped) std::swap(one, other);
    ASSERT_TRUE(write_all(one.get(), text.data(), text.size()));
    EXPECT_TRUE(read_bytes(other.get(), text.size()) == text);
    shutdown(one.get(), SHUT_RDWR);  // as the relay does, while ranks have the socket
    EXPECT_EQ(read_bytes(other.get(), 1), "");
    EXPECT_FALSE(write_all(other.get(), text.data(), text.size()));
  }
}

// What the other side has sent under a changed or cut stream of records never arrives.
TEST(Tunnel, EndsIfBytesAreChanged) {
  Pair near, far;
  Descriptor accepts, connects;
  std::atomic<bool> changes{false};
  const auto pass_on = [&](int from, int to) {
    char bytes[4096];
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;) {
      if (changes) bytes[n / 2] = static_cast<char>(bytes[n / 2] ^ 1);
      if (!write_all(to, bytes, static_cast<std::size_t>(n))) break;
    }
    shutdown(to, SHUT_RDWR);
  };
  std::thread between[] = {std::thread(pass_on, near.ends[1].get(), far.ends[1].get()),
                           std::thread(pass_on, far.ends[1].get(), near.ends[1].get())};
  std::thread thread([&] {
    accepts = open_tunnel(std::move(near.ends[0]), library(), TlsSide::kAccepts, kSecret);
  });
  connects = open_tunnel(std::move(far.ends[0]), library(), TlsSide::kConnects, kSecret);
  thread.join();
  ASSERT_TRUE(accepts.open() && connects.open());
  const std::string text = some_bytes(1000, 5);
  ASSERT_TRUE(write_all(connects.get(), text.data(), text.size()));
  EXPECT_TRUE(read_bytes(accepts.get(), text.size()) == text);
  changes = true;
  ASSERT_TRUE(write_all(connects.get(), text.data(), text.size()));
  EXPECT_EQ(read_bytes(accepts.get(), text.size()), "");
  connects.reset();
  for (std::thread& t : between) t.join();
}

// More records than one key is used for, in both directions.
TEST(Tunnel, ChangesItsKeys) {
  Pair pair;
  std::unique_ptr<Tls> tls[2];
  const TlsSide sides[] = {TlsSide::kAccepts, TlsSide::kConnects};
  std::thread provers[2];
  for (int i = 0; i < 2; ++i) {
    tls[i] = library().open(pair.ends[i].get(), sides[i], TlsUse::kData, kSecret);
    provers[i] = std::thread([&, i] {
      EXPECT_FALSE(prove_within(2'000'000'000, pair.ends[i].get(), *tls[i], nullptr));
    });
  }
  for (std::thread& t : provers) t.join();
  for (unsigned i = 0; i < 5 * (1u << 16); ++i) {
    for (int from = 0; from < 2; ++from) {
      const char sent = static_cast<char>(i + static_cast<unsigned>(from));
      char got = 0;
      ASSERT_EQ(tls[from]->write(&sent, 1), 1);
      ASSERT_EQ(tls[1 - from]->read(&got, 1), 1) << i << " " << tls[1 - from]->why();
      ASSERT_EQ(got, sent);
    }
  }
}

// A process forks, as an agent does for its relay, while other threads make handshakes: the child
// can use TLS, too.
TEST(Tunnel, IsMadeByAChildOfAProcessThatUsesTls) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan ends a child of several threads that starts one";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "ASan's allocator may be locked in a child of several threads";
#endif
  library();  // an agent has it before it starts a thread
  std::atomic<bool> ends{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!ends) EXPECT_TRUE(open_both(kSecret, kSecret).first.open());
    });
  }
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(open_both(kSecret, kSecret).first.open() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ends = true;
  for (std::thread& t : others) t.join();
}

}  // namespace
}  // namespace rejoin::launcher
