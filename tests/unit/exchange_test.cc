// Exchange with neighbours (engine/collectives.h) over channels of small capacity.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "engine/collectives.h"

namespace rejoin::engine {
namespace {

using Members = std::vector<std::uint32_t>;
using Message = std::vector<std::byte>;

// All channels of a communicator; each holds at most `capacity` messages.
struct Channels {
  std::size_t capacity;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Message>> messages;
};

class Port {
 public:
  Port(Channels& channels, std::uint32_t me) : channels_(channels), me_(me) {}
  std::uint32_t me() const { return me_; }
  Progress send(std::uint32_t peer, const void* data, std::size_t bytes) {
    EXPECT_NE(peer, me_);
    auto& queue = channels_.messages[{me_, peer}];
    if (queue.size() == channels_.capacity) return Progress::kPending;
    const auto* at = static_cast<const std::byte*>(data);
    queue.emplace_back(at, at + bytes);
    return Progress::kDone;
  }
  Progress receive(std::uint32_t peer, std::size_t max_bytes, const std::byte** data,
                   std::size_t* bytes) {
    EXPECT_NE(peer, me_);
    auto& queue = channels_.messages[{peer, me_}];
    if (queue.empty()) return Progress::kPending;
    here_ = queue.front();
    queue.pop_front();
    if (here_.size() > max_bytes) return Progress::kFailed;
    *data = here_.data();
    *bytes = here_.size();
    return Progress::kDone;
  }

 private:
  Channels& channels_;
  std::uint32_t me_;
  Message here_;
};

struct Sent {
  std::uint32_t* values;
  Block operator()(std::size_t i) const {
    return {reinterpret_cast<std::byte*>(&values[i]), sizeof *values};
  }
};

struct Received {
  std::uint32_t* values;
  std::size_t bytes = sizeof(std::uint32_t);
  std::size_t room(std::size_t) const { return bytes; }
  void put(std::size_t i, const std::byte* data, std::size_t size) const {
    std::memcpy(&values[i], data, size);
  }
};

// One member: what it sends to each target, and what it received from each source.
struct Member {
  Members targets, sources;
  std::vector<std::uint32_t> out, in;
};

// Advances the members one after the other until none makes progress. Returns whether all are done.
bool run(std::vector<Member>& members, std::size_t capacity) {
  Channels channels{capacity, {}};
  std::deque<Port> ports;
  std::deque<Exchange<Sent, Received>> exchanges;
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    Member& m = members[i];
    for (std::uint32_t k = 0; k < m.targets.size(); ++k) m.out.push_back(100 * i + k);
    m.in.assign(m.sources.size(), ~0u);
    ports.emplace_back(channels, i);
    exchanges.emplace_back(m.targets, Sent{m.out.data()}, m.sources, Received{m.in.data()});
  }
  std::size_t done = 0;
  std::vector<bool> is_done(members.size());
  for (int turn = 0; turn < 100 && done < members.size(); ++turn) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (is_done[i] || exchanges[i].advance(ports[i]) != Progress::kDone) continue;
      is_done[i] = true;
      ++done;
    }
  }
  for (const auto& [ends, queue] : channels.messages) EXPECT_TRUE(queue.empty());
  return done == members.size();
}

TEST(Exchange, EdgesBetweenTheSameTwoKeepTheirOrder) {
  for (const std::size_t capacity : {1, 2, 10}) {
    std::vector<Member> m = {{{1, 1, 1, 1, 1}, {1, 1, 1}, {}, {}},
                             {{0, 0, 0}, {0, 0, 0, 0, 0}, {}, {}}};
    ASSERT_TRUE(run(m, capacity)) << capacity;
    EXPECT_EQ(m[0].in, (Members{100, 101, 102}));
    EXPECT_EQ(m[1].in, (Members{0, 1, 2, 3, 4}));
  }
}

TEST(Exchange, ToOneselfAndToOthers) {
  std::vector<Member> m = {
      {{0, 1, 0, 2}, {2, 0, 0}, {}, {}}, {{2}, {0, 1}, {}, {}}, {{0}, {0, 1}, {}, {}}};
  m[1].targets = {1, 2};
  ASSERT_TRUE(run(m, 1));
  EXPECT_EQ(m[0].in, (Members{200, 0, 2}));
  EXPECT_EQ(m[1].in, (Members{1, 100}));
  EXPECT_EQ(m[2].in, (Members{3, 101}));
}

TEST(Exchange, WithoutNeighbours) {
  std::vector<Member> m(3);
  EXPECT_TRUE(run(m, 1));
}

TEST(Exchange, EndsWithAFailedReceive) {
  Channels channels{1, {}};
  channels.messages[{1, 0}].emplace_back(5);
  Port port(channels, 0);
  const Members sources = {1};
  std::uint32_t in = 7;
  Exchange exchange(Members{}, Sent{nullptr}, sources, Received{&in});
  EXPECT_EQ(exchange.advance(port), Progress::kFailed);
  EXPECT_EQ(in, 7u);
}

}  // namespace
}  // namespace rejoin::engine
