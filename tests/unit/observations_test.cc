#include "libc_recording/observations.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "observations_job.h"

namespace rejoin::test {
namespace {

TEST_F(ObservationsTest, GivesTheSameAgainThenGoesLive) {
  incarnation([](Observations& o) {
    record(o, Series::kTimeOfDay, 1700000000000000);
    o.record(access("out", ENOENT));
    record(o, Series::kTimeOfDay, 1700000000000007);
    record(o, Series::kWtime, 3);
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1700000000000000);
    Event e = access("out");
    ASSERT_TRUE(o.recall(e));
    EXPECT_EQ(e.error, ENOENT);
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1700000000000007);
    EXPECT_EQ(recalled(o, Series::kWtime), 3);
    record(o, Series::kWtime, 4);
  });
  incarnation([](Observations& o) {
    recalled(o, Series::kTimeOfDay);
    Event e = access("out");
    EXPECT_TRUE(o.recall(e));
    recalled(o, Series::kTimeOfDay);
    recalled(o, Series::kWtime);
    EXPECT_EQ(recalled(o, Series::kWtime), 4);
    std::int64_t value;
    EXPECT_FALSE(o.recall(Series::kWtime, &value));
  });
}

TEST_F(ObservationsTest, WorkedExampleOfTheFormat) {
  incarnation([](Observations& o) {
    for (int i = 0; i < 3; ++i) o.record(access("out", ENOENT));
    for (const std::int64_t t : {5000, 5080, 5080}) record(o, Series::kWtime, t);
  });
  const std::vector<unsigned> expected = {
      0x02, 0x03, 0x6f, 0x75, 0x74,        // name
      0x09, 0x01, 0x00, 0x00, 0x02, 0x00,  // access
      0x01, 0x02, 0x00, 0x00, 0x00,        // repeat
      0x47, 0x90, 0x4e,                    // MPI_Wtime
      0x47, 0xa0, 0x01,                    //
      0x01, 0x00, 0x01, 0x00, 0x00, 0x00,  // repeat
  };
  EXPECT_EQ(bytes(), expected);
}

// Answers of all sizes cross the ends of chunks. Every incarnation adds some answers and replays
// all earlier ones.
TEST_F(ObservationsTest, EveryLengthAtEveryPlace) {
  constexpr int kIncarnations = 5, kEach = 400;
  const auto payload = [](int k) {
    std::mt19937 random(static_cast<unsigned>(k));
    std::string s(random() % 700, '\0');
    for (char& c : s) c = static_cast<char>(random() % 256);
    return s;
  };
  for (int number = 0; number < kIncarnations; ++number) {
    incarnation([&](Observations& o) {
      for (int k = 0; k < kEach * (number + 1); ++k) {
        std::string expected = payload(k), room(1000, '\0');
        const std::string name = "name " + std::to_string(k % 97);
        Event e{ObservationKind::kStat, static_cast<std::uint32_t>(k), name.c_str(),
                k % 3 == 0 ? "other" : nullptr};
        e.data = room.data();
        e.room_bytes = 1000;
        if (k < kEach * number) {
          ASSERT_TRUE(o.recall(e)) << k;
          EXPECT_EQ(std::string(room.data(), e.data_bytes), expected);
        } else {
          ASSERT_FALSE(o.recall(e)) << k;
          e.data = expected.data();
          e.data_bytes = static_cast<std::uint32_t>(expected.size());
          o.record(e);
        }
      }
    });
  }
}

TEST_F(ObservationsTest, PollingForAFileIsRecordedAsACounter) {
  constexpr int kPolls = 1000000;
  incarnation([](Observations& o) {
    for (int i = 0; i < kPolls; ++i) o.record(access("flag", ENOENT));
    o.record(access("flag"));
  });
  EXPECT_LT(log().tail.load(), 50u);
  incarnation([](Observations& o) {
    for (int i = 0; i < kPolls; ++i) {
      Event e = access("flag");
      ASSERT_TRUE(o.recall(e));
      ASSERT_EQ(e.error, ENOENT);
    }
    Event e = access("flag");
    ASSERT_TRUE(o.recall(e));
    EXPECT_EQ(e.error, 0);
    EXPECT_FALSE(o.recall(e));
  });
}

TEST_F(ObservationsTest, TheSameAnswerWithOtherBytesIsNoRepeat) {
  incarnation([](Observations& o) {
    for (const char* text : {"abc", "abc", "abd", "ab"}) {
      Event e{ObservationKind::kStat, 0, "x"};
      e.data = const_cast<char*>(text);
      e.data_bytes = static_cast<std::uint32_t>(std::strlen(text));
      o.record(e);
    }
  });
  incarnation([](Observations& o) {
    for (const std::string expected : {"abc", "abc", "abd", "ab"}) {
      char room[8];
      Event e{ObservationKind::kStat, 0, "x"};
      e.data = room;
      e.room_bytes = sizeof room;
      ASSERT_TRUE(o.recall(e));
      EXPECT_EQ(std::string(room, e.data_bytes), expected);
    }
  });
}

// Elements that a dying incarnation wrote behind the tail do not exist.
TEST_F(ObservationsTest, APartialRecordIsIgnored) {
  incarnation([](Observations& o) { record(o, Series::kTime, 100); });
  const std::uint64_t tail = log().tail.load();
  incarnation([](Observations& o) {
    recalled(o, Series::kTime);
    o.record(access("never published"));
  });
  journal::put(log().tail, tail);
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kTime), 100);
    record(o, Series::kTime, 101);
    o.record(access("published"));
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kTime), 100);
    EXPECT_EQ(recalled(o, Series::kTime), 101);
    Event e = access("published");
    EXPECT_TRUE(o.recall(e));
  });
}

// --- Clocks

TEST_F(ObservationsTest, ProcessorTimeGoesOnWhereItStopped) {
  incarnation([](Observations& o) { record(o, Series::kProcessor, 5000000); });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kProcessor), 5000000);
    std::int64_t value = 100000;  // a new process
    o.record(Series::kProcessor, &value);
    EXPECT_EQ(value, 5000000);
    value = 600000;
    o.record(Series::kProcessor, &value);
    EXPECT_EQ(value, 5500000);
  });
  incarnation([](Observations& o) {
    for (const std::int64_t expected : {5000000, 5000000, 5500000}) {
      EXPECT_EQ(recalled(o, Series::kProcessor), expected);
    }
  });
}

TEST_F(ObservationsTest, CountsAddUpAndTheLargestSizeDoesNot) {
  std::int64_t first[libc_recording::kMaxFields], value[libc_recording::kMaxFields];
  for (std::size_t i = 0; i < libc_recording::kMaxFields; ++i) first[i] = 1000;
  incarnation([&](Observations& o) {
    std::copy(std::begin(first), std::end(first), value);
    o.record(Series::kUsageSelf, value);
  });
  incarnation([&](Observations& o) {
    ASSERT_TRUE(o.recall(Series::kUsageSelf, value));
    EXPECT_TRUE(std::equal(std::begin(first), std::end(first), value));
    for (const std::int64_t now : {10, 30}) {
      std::fill(std::begin(value), std::end(value), now);
      o.record(Series::kUsageSelf, value);
    }
    EXPECT_EQ(value[0], 1020);
    EXPECT_EQ(value[2], 1000);  // ru_maxrss
    EXPECT_EQ(value[3], 1020);
  });
}

TEST_F(ObservationsTest, AStepBackOfTheClockIsGivenAgain) {
  incarnation([](Observations& o) {
    record(o, Series::kTimeOfDay, 2000);
    record(o, Series::kTimeOfDay, 1000);  // an administrator has set the clock back
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 2000);
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1000);
  });
}

// A loop waits for a second to pass, with a reading every 80 ns: 12.5 million readings.
TEST_F(ObservationsTest, PollingAClockDoesNotFloodTheJournal) {
  constexpr std::int64_t kTurn_ns = 80, kLast_ns = 1000000000;
  incarnation([](Observations& o) {
    std::int64_t before = 0;
    for (std::int64_t now = 0; now < kLast_ns; now += kTurn_ns) {
      std::int64_t value = now;
      o.record(Series::kWtime, &value);
      ASSERT_LE(value, now);
      ASSERT_GE(value, before);
      ASSERT_LE(now - value, now / 256);
      before = value;
    }
  });
  EXPECT_LT(log().tail.load(), 50000u);
  incarnation([](Observations& o) {
    std::int64_t value = 0, turns = 0;
    while (o.recall(Series::kWtime, &value)) ++turns;
    EXPECT_EQ(turns, kLast_ns / kTurn_ns);
    EXPECT_GT(value, kLast_ns - kLast_ns / 256);
  });
}

TEST_F(ObservationsTest, AClockThatIsNotPolledIsExact) {
  incarnation([](Observations& o) {
    for (std::int64_t now = 1; now < 10000000; now += 2500) record(o, Series::kWtime, now);
  });
  EXPECT_LT(log().tail.load(), 4000u * 3 + 30);
}

// --- Divergence

using ObservationsDeathTest = ObservationsTest;

TEST_F(ObservationsDeathTest, AnotherQuestionEndsTheJob) {
  incarnation([](Observations& o) {
    record(o, Series::kTime, 1);
    o.record(access("a.txt"));
  });
  const auto replay = [this](const std::function<void(Observations&)>& ask) {
    incarnation([&](Observations& o) {
      recalled(o, Series::kTime);
      ask(o);
    });
  };
  EXPECT_EXIT(replay([&](Observations& o) {
                Event e = access("b.txt");
                o.recall(e);
              }),
              testing::ExitedWithCode(1), "and is access of \"b.txt\"");
  EXPECT_EXIT(replay([&](Observations& o) {
                Event e = access("a.txt");
                e.detail = W_OK;
                o.recall(e);
              }),
              testing::ExitedWithCode(1), "and is access of \"a.txt\" \\(0x2\\)");
  EXPECT_EXIT(replay([&](Observations& o) {
                Event e = {ObservationKind::kUnlink};
                e.name = "a.txt";
                o.recall(e);
              }),
              testing::ExitedWithCode(1),
              "observation 2 of rank 0 was access of \"a.txt\" \\(0x0\\) in the first execution, "
              "and is unlink");
}

// --- A replay that reads clocks in another order

using libc_recording::series_of_clock;

constexpr Series kRealTime = series_of_clock(CLOCK_REALTIME);
constexpr std::int64_t kSecond = 1000000000;  // ns

TEST_F(ObservationsTest, AnotherClockIsGivenAValueBetweenItsNeighbours) {
  incarnation([](Observations& o) {
    record(o, kRealTime, 1000 * kSecond);
    record(o, kRealTime, 1007 * kSecond + 5000);
    record(o, kRealTime, 1008 * kSecond);
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, kRealTime), 1000 * kSecond);
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1007'000'005);
    EXPECT_EQ(recalled(o, kRealTime), 1008 * kSecond);
    EXPECT_TRUE(o.is_live());
  });
}

TEST_F(ObservationsTest, ReadingsThatAreNotMadeAgainAreSkipped) {
  incarnation([](Observations& o) {
    record(o, Series::kTime, 1);
    record(o, Series::kTime, 1);
    record(o, Series::kWtime, 20);
    o.record(access("a.txt"));
    record(o, Series::kTime, 5);
  });
  incarnation([](Observations& o) {
    Event e = access("a.txt");
    EXPECT_TRUE(o.recall(e));
    EXPECT_EQ(recalled(o, Series::kTime), 5);
  });
}

TEST_F(ObservationsTest, AdditionalReadingsConsumeNothing) {
  incarnation([](Observations& o) {
    record(o, Series::kWtime, 2000);
    o.record(access("a.txt"));
    record(o, Series::kWtime, 3000);
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kWtime), 2000);
    EXPECT_EQ(recalled(o, Series::kWtime), 2000);
    EXPECT_EQ(recalled(o, series_of_clock(CLOCK_MONOTONIC)), 2000);
    Event e = access("a.txt");
    EXPECT_TRUE(o.recall(e));
    EXPECT_EQ(recalled(o, Series::kWtime), 3000);
    EXPECT_TRUE(o.is_live());
  });
}

// A clock that was never read gives the system's time, which is not recorded. Other clocks do not
// step back when the rank goes live.
TEST_F(ObservationsTest, AClockThatWasNeverReadIsTheSystems) {
  const auto boot = series_of_clock(CLOCK_BOOTTIME);
  incarnation([](Observations& o) {
    record(o, Series::kWtime, 2000);
    record(o, Series::kWtime, 2001);
    o.record(access("a.txt"));
    record(o, Series::kWtime, 9000);
  });
  incarnation([&](Observations& o) {
    const std::uint64_t tail = log().tail.load();
    std::int64_t v = 0;
    EXPECT_FALSE(o.recall(boot, &v));
    v = 77;
    o.record(boot, &v);
    EXPECT_EQ(v, 77);
    EXPECT_EQ(log().tail.load(), tail);
    EXPECT_EQ(recalled(o, Series::kWtime), 2001);
    Event e = access("a.txt");
    EXPECT_TRUE(o.recall(e));
    EXPECT_EQ(recalled(o, Series::kWtime), 9000);
    std::int64_t now = 100;  // another boot of the machine
    EXPECT_FALSE(o.recall(Series::kWtime, &now));
    o.record(Series::kWtime, &now);
    EXPECT_EQ(now, 9000);
    EXPECT_EQ(o.ahead(Series::kWtime, 100), 8900);
  });
}

// After an interpolated value neither a recorded nor a live reading is smaller.
TEST_F(ObservationsTest, AnInterpolatedValueIsNotAheadOfLaterReadings) {
  incarnation([](Observations& o) {
    record(o, kRealTime, 1000 * kSecond);
    record(o, Series::kTimeOfDay, 999'000'000);  // the machine's time has been set back
    record(o, Series::kTimeOfDay, 999'500'000);
  });
  incarnation([](Observations& o) {
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1000'000'000);
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1000'000'000);
    EXPECT_EQ(recalled(o, Series::kTimeOfDay), 1000'000'000);
    std::int64_t now = 999'700'000;
    EXPECT_FALSE(o.recall(Series::kTimeOfDay, &now));
    o.record(Series::kTimeOfDay, &now);
    EXPECT_EQ(now, 1000'000'000);
  });
}

TEST_F(ObservationsDeathTest, NoMoreMemory) {
  const auto record_much = [this](Observations& o) {
    journal::put(journal::control_of(job_.base(), 0)->permanent_bump, std::uint64_t{1} << 62);
    for (std::int64_t i = 0; i < 10'000'000; ++i) record(o, Series::kTime, i * i);
  };
  EXPECT_EXIT(incarnation(record_much), testing::ExitedWithCode(1), "the journal cannot grow");
}

TEST_F(ObservationsTest, NothingIsRecordedWithAFullJournal) {
  incarnation([this](Observations& o) {
    record(o, Series::kTime, 1);
    journal::let_recycle(job_.base(), journal::Recycles::kAll);
    const std::uint64_t tail = log().tail.load();
    record(o, Series::kTime, 2);
    o.record(access("x"));
    EXPECT_EQ(log().tail.load(), tail);
  });
}

// --- Truncation

// A rank makes a checkpoint in every step, keeps the newest two, and dies now and then. Memory does
// not grow, and from whichever of the two versions it goes on, it is given the answers that
// followed.
TEST_F(ObservationsTest, AnswersBeforeTheKeptCheckpointAreOverwritten) {
  constexpr int kSteps = 3000, kEach = 20;
  const auto observe = [](Observations& o, int step, bool again) {
    std::int64_t usage[libc_recording::kMaxFields];
    for (int i = 0; i < kEach; ++i) {
      const int n = step * kEach + i;
      const std::string name = "file " + std::to_string(n % 31);
      std::int64_t value = 1000000 + 10000 * n;
      if (again)
        value = recalled(o, Series::kTimeOfDay);
      else
        record(o, Series::kTimeOfDay, value);
      ASSERT_EQ(value, 1000000 + 10000 * n);
      Event e = access(name.c_str(), n % 3 == 0 ? ENOENT : 0);
      ASSERT_EQ(o.recall(e), again);
      if (!again) o.record(e);
      ASSERT_EQ(e.error, n % 3 == 0 ? ENOENT : 0);
      if (i == 7) {
        std::fill(std::begin(usage), std::end(usage), 5 * n);
        ASSERT_EQ(o.recall(Series::kUsageSelf, usage), again);
        if (!again) o.record(Series::kUsageSelf, usage);
        ASSERT_EQ(usage[5], 5 * n);
      }
    }
  };
  std::vector<std::uint64_t> position = {0};  // position in the log at each checkpoint
  int step = 0, incarnations = 0;
  std::uint64_t backed_bytes = 0;
  while (step < kSteps) {
    ++incarnations;
    const int from = static_cast<int>(position.size()) - 1;
    incarnation([&](Observations& o) {
      // The bootstrap phase of each incarnation; the first one records it.
      for (int i = 0; i < 5; ++i) {
        Event e = access("input");
        if (!o.recall(e)) o.record(e);
      }
      const int load = std::max(0, from - step % 2);
      if (load > 0) o.skip_to(position[load]);
      // Answers from before the death are given again.
      for (int s = load; s < step; ++s) observe(o, s, true);
      for (int n = 0; n < incarnations % 40 && step < kSteps; ++n, ++step) {
        while (static_cast<int>(position.size()) <= step) {
          o.mark();
          position.push_back(log().tail.load());
        }
        observe(o, step, false);
        if (step > 1) o.truncate(position[step - 1]);
      }
    });
    if (HasFatalFailure()) return;
    if (backed_bytes == 0 && step > kSteps / 10) {
      backed_bytes = journal::control_of(job_.base(), 0)->backed_bytes.load();
    }
  }
  EXPECT_GT(log().rings.load(), 0u);
  EXPECT_LE(journal::control_of(job_.base(), 0)->backed_bytes.load(), backed_bytes + (256 << 10));
}

// --- Threads

// The main thread's observations and another thread's operations share nothing but the region's
// locked allocator (checked by ThreadSanitizer).
TEST_F(ObservationsTest, WhileAnotherThreadIsInsideMpi) {
  constexpr int kOperations = 300, kQuestions = 3000;
  constexpr std::size_t kLargest = 20000;
  const auto operate = [](Rank& rank, Rank::Comm& comm) {
    std::vector<std::int64_t> in(kLargest, 1);
    engine::Reduction sum = sum_of_int64();
    for (int i = 0; i < kOperations; ++i) {
      recovery::ReplicatedSpec u;
      u.input = in.data();
      u.input_bytes = u.result_bytes = (i % 3 == 0 ? kLargest : i % 7) * sizeof(std::int64_t);
      u.reduction = &sum;
      const auto o = rank.replicated(comm, call(recovery::OpKind::kAllreduce, u.input_bytes), u);
      ASSERT_EQ(o.status, recovery::Status::kOk);
    }
  };
  job_.run([&](Rank& rank, Rank::Comm& comm) {
    Observations o(rank);
    std::thread inside([&] { operate(rank, comm); });
    for (int i = 0; i < kQuestions; ++i) {
      o.record(access(("file " + std::to_string(i)).c_str()));
      record(o, Series::kWtime, std::int64_t{1000000} * i);
      o.files().note_aside("/aside");
      if (i % 100 == 99) {
        o.mark();
        o.truncate(log(rank.rank()).tail.load());
      }
    }
    inside.join();
  });
}

}  // namespace
}  // namespace rejoin::test
