// Connections between relays, or between agents: which ends take each other for members of the job.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "relay/socket.h"

namespace rejoin::relay {
namespace {

constexpr std::uint64_t kJob = 7;

// A keyed digest that is good enough for a test: other bytes, or another secret, give another one.
Authenticate with(std::uint64_t secret) {
  return [secret](const void* data, std::size_t bytes) {
    Digest digest = {};
    std::uint64_t state = secret;
    for (std::size_t i = 0; i < bytes; ++i) {
      state = (state ^ static_cast<const std::uint8_t*>(data)[i]) * 0x100000001b3;
      digest[i % kDigestBytes] ^= static_cast<std::uint8_t>(state >> 29);
    }
    return digest;
  };
}

using Both = std::pair<std::optional<Other>, std::optional<Other>>;

// What the two ends of a connection take each other for.
Both greet_both(const Ends& one, const Ends& other, std::uint64_t secret = 1,
                std::uint64_t others_secret = 1) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Both both;
  std::thread thread([&] {
    both.second = greet(ends[1], other, with(others_secret));
    if (!both.second) shutdown(ends[1], SHUT_RDWR);
  });
  both.first = greet(ends[0], one, with(secret));
  if (!both.first) shutdown(ends[0], SHUT_RDWR);
  thread.join();
  for (const int end : ends) close(end);
  return both;
}

TEST(Greeting, BothEndsKnowEachOther) {
  const auto [one, other] = greet_both({kJob, 0, 1, 0}, {kJob, 0, 0, kAnyNode});
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->node, 0u);
  EXPECT_EQ(other->node, 1u);
  EXPECT_TRUE(one->key == other->key);
}

// A stranger has connected to both, and passes on what each sends to the other one.
TEST(Greeting, TwoThatHaveBothAccepted) {
  const auto [one, other] = greet_both({kJob, 0, 1, kAnyNode}, {kJob, 0, 0, kAnyNode});
  EXPECT_FALSE(one || other);
}

TEST(Greeting, TwoThatHaveBothConnected) {
  const auto [one, other] = greet_both({kJob, 0, 1, 0}, {kJob, 0, 0, 1});
  EXPECT_FALSE(one || other);
}

TEST(Greeting, AnotherSecret) {
  const auto [one, other] = greet_both({kJob, 0, 1, 0}, {kJob, 0, 0, kAnyNode}, 1, 2);
  EXPECT_FALSE(one || other);
}

TEST(Greeting, AnotherJobTimelineOrNode) {
  const Ends accepts = {kJob, 0, 0, kAnyNode};
  for (const Ends& connects : {Ends{kJob + 1, 0, 1, 0}, {kJob, 1, 1, 0}, {kJob, 0, 1, 2}}) {
    const auto [one, other] = greet_both(connects, accepts);
    EXPECT_FALSE(one) << connects.job << " " << connects.timeline << " " << connects.theirs;
  }
}

}  // namespace
}  // namespace rejoin::relay
