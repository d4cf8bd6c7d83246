// Tests where mock deaths fire, in every kind of incarnation.
#include "rabit/mocks.h"

#include <gtest/gtest.h>

namespace {

using rabit::internal::Mock;
using rabit::internal::MockDeaths;

// A process of rank 1, whose program loads after two operations and has three in each version.
class Process {
 public:
  explicit Process(std::vector<Mock> mocks, int incarnation = 0)
      : mocks_(std::move(mocks), 1, incarnation), incarnation_(incarnation) {}

  // Returns this process a moment later, or its clone as another incarnation.
  Process woken_as(int incarnation) const {
    Process clone = *this;
    clone.incarnation_ = incarnation;
    return clone;
  }

  // Makes all calls before the given place. Returns true if the process dies before one of them, at
  // place().
  bool dies_before(int version, int seq, bool has_loaded = true) {
    while (std::tuple(version_, has_loaded_, seq_) < std::tuple(version, has_loaded, seq)) {
      if (call()) return true;
    }
    return false;
  }
  // Makes all calls to the end, including Finalize. Returns true if the process dies.
  bool dies() {
    return dies_before(kVersions, 0) || mocks_.due_behind(version_, seq_, incarnation_) != nullptr;
  }
  std::pair<int, int> place() const { return {version_, seq_}; }
  bool has_loaded() const { return has_loaded_; }
  void load(int version) { version_loaded_ = version; }

 private:
  static constexpr int kVersions = 4;

  bool call() {
    if (mocks_.due(version_, seq_, incarnation_) != nullptr) return true;
    if (!has_loaded_ && seq_ == 2) {
      mocks_.loads_at(version_, seq_);
      has_loaded_ = true;
      version_ = version_loaded_;
      seq_ = 0;
    } else if (has_loaded_ && seq_ == 3) {
      ++version_;
      seq_ = 0;
    } else {
      ++seq_;
    }
    return false;
  }

  MockDeaths mocks_;
  int incarnation_;
  int version_ = 0;
  int seq_ = 0;
  bool has_loaded_ = false;
  int version_loaded_ = 0;
};

using Place = std::pair<int, int>;

TEST(MockDeaths, FireAtTheirPlace) {
  for (int version = 0; version < 4; ++version) {
    for (int seq = 0; seq <= 3; ++seq) {
      Process process({{1, version, seq, 0}});
      ASSERT_TRUE(process.dies()) << version << "," << seq;
      EXPECT_EQ(process.place(), Place(version, seq));
    }
  }
}

TEST(MockDeaths, FireBeforeTheLoadWhereThePlaceComesTwice) {
  for (int seq = 0; seq <= 3; ++seq) {
    Process process({{1, 0, seq, 0}});
    ASSERT_TRUE(process.dies());
    EXPECT_EQ(process.has_loaded(), seq > 2) << seq;
  }
}

TEST(MockDeaths, OfOtherRanksAndIncarnationsDoNotFire) {
  EXPECT_FALSE(Process({{0, 1, 1, 0}, {2, 1, 1, 0}, {1, 1, 1, 1}}).dies());
  EXPECT_FALSE(Process({{1, 1, 1, 0}}, 1).dies());
  EXPECT_TRUE(Process({{1, 1, 1, 1}}, 1).dies());
}

TEST(MockDeaths, APlaceThatDoesNotExistNeverFiresInAProcessThatBeginsAtMain) {
  for (const int incarnation : {0, 1}) {
    for (const Mock& mock : {Mock{1, 1, 4, incarnation}, Mock{1, 2, 99, incarnation},
                             Mock{1, 4, 0, incarnation}, Mock{1, 0, 99, incarnation}}) {
      EXPECT_FALSE(Process({mock}, incarnation).dies()) << mock.version << "," << mock.seq;
    }
  }
}

TEST(MockDeaths, DoNotFireBehindACheckpointThatWasLoaded) {
  Process process({{1, 1, 2, 1}}, 1);
  process.load(3);
  EXPECT_FALSE(process.dies());
  Process later({{1, 3, 2, 1}}, 1);
  later.load(3);
  EXPECT_TRUE(later.dies());
  EXPECT_EQ(later.place(), Place(3, 2));
}

TEST(MockDeaths, FireAtTheirPlaceInACloneThatBeginsBeforeIt) {
  Process process({{1, 1, 2, 0}, {1, 2, 1, 1}});
  ASSERT_FALSE(process.dies_before(1, 1));
  Process image = process;
  ASSERT_TRUE(process.dies());
  EXPECT_EQ(process.place(), Place(1, 2));
  Process clone = image.woken_as(1);
  ASSERT_TRUE(clone.dies());
  EXPECT_EQ(clone.place(), Place(2, 1));
  EXPECT_FALSE(image.woken_as(2).dies());
}

TEST(MockDeaths, FireAtTheFirstCallOfACloneThatBeginsBehindThem) {
  for (const Mock& mock : {Mock{1, 0, 0, 1}, Mock{1, 1, 0, 1}, Mock{1, 2, 0, 1}, Mock{1, 1, 99, 1},
                           Mock{1, 0, 3, 1}}) {
    Process image({mock});
    ASSERT_FALSE(image.dies_before(2, 1));
    Process clone = image.woken_as(1);
    ASSERT_TRUE(clone.dies()) << mock.version << "," << mock.seq;
    EXPECT_EQ(clone.place(), Place(2, 1));
    EXPECT_FALSE(image.woken_as(2).dies());
  }
}

TEST(MockDeaths, BehindTheLoadPlacesBeforeItArePassed) {
  for (int seq = 0; seq <= 3; ++seq) {
    Process image({{1, 0, seq, 1}});
    ASSERT_FALSE(image.dies_before(0, 1));
    ASSERT_TRUE(image.has_loaded());
    Process clone = image.woken_as(1);
    ASSERT_TRUE(clone.dies());
    // The clone is after operations 0 and 1 and the load; only operation 3 is still to come.
    EXPECT_EQ(clone.place(), seq <= 2 ? Place(0, 1) : Place(0, 3)) << seq;
  }
}

TEST(MockDeaths, ACloneThatOutlivesItsFirstCallFiresAtPlacesOnly) {
  Process image({{1, 2, 99, 1}});
  ASSERT_FALSE(image.dies_before(1, 1));
  EXPECT_FALSE(image.woken_as(1).dies());
}

TEST(MockDeaths, FireInFinalizeIfNoOtherCallIsLeft) {
  Process image({{1, 2, 1, 1}});
  ASSERT_FALSE(image.dies_before(4, 0));
  EXPECT_TRUE(image.woken_as(1).dies());
  EXPECT_FALSE(image.woken_as(2).dies());
}

TEST(MockDeaths, OneFiresInEachIncarnationOfAnImage) {
  Process image({{1, 0, 1, 1}, {1, 1, 3, 2}, {1, 3, 2, 3}});
  ASSERT_FALSE(image.dies_before(2, 0));
  for (const int incarnation : {1, 2}) {
    Process clone = image.woken_as(incarnation);
    ASSERT_TRUE(clone.dies());
    EXPECT_EQ(clone.place(), Place(2, 0));
  }
  Process third = image.woken_as(3);
  ASSERT_TRUE(third.dies());
  EXPECT_EQ(third.place(), Place(3, 2));
}

}  // namespace
