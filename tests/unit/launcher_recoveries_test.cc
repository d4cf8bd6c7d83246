// Messages about recoveries: how far a rank is, how long its return took, the cost of all returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "launcher/supervisor/events.h"
#include "supervisor_transcript.h"

namespace rejoin::launcher {
namespace {

RunOptions ranks(std::uint32_t n) {
  RunOptions options;
  options.programs = {{.ranks = n, .command = {"a.out"}}};
  options.max_restarts = 400;
  options.journal_limit_bytes = std::uint64_t{64} << 20;
  return options;
}

// A supervisor whose news and tells are returned as text; other actions are ignored.
class Job {
 public:
  explicit Job(std::uint32_t n) : core_(ranks(n)) {}

  // Returns the texts of the news and tells that follow `event`.
  std::string news(const std::string& event) {
    std::string said;
    for (const Action& a : core_.step(parse_event(event))) {
      const auto* news = std::get_if<Action::News>(&a.what);
      const auto* tell = std::get_if<Action::Tell>(&a.what);
      if (news != nullptr) said += (said.empty() ? "" : "\n") + news->text;
      if (tell != nullptr) said += (said.empty() ? "" : "\n") + tell->text;
    }
    return said;
  }
  // The rank dies at operation `at`, and a process replaces it at once.
  void dies(std::uint32_t rank, double at_ms, std::uint64_t at, const std::string& more = "") {
    const std::string who = std::to_string(rank);
    news(std::to_string(at_ms) + " ended " + who + " signal=9 at=" + std::to_string(at) + more);
    news(std::to_string(at_ms) + " registered " + who);
    news(std::to_string(at_ms) + " initialized " + who);
  }
  // Looks every 200 ms, from its death on, at a rank that does `rate` operations a second. Returns
  // the lines, each after the time of its look.
  std::string looks(std::uint32_t rank, double died_ms, double until_ms, double rate) {
    std::string all;
    for (double at_ms = died_ms + 200; at_ms <= until_ms; at_ms += 200) {
      all += look(rank, at_ms, static_cast<std::uint64_t>((at_ms - died_ms) * rate / 1000));
    }
    return all;
  }
  std::string look(std::uint32_t rank, double at_ms, std::uint64_t at) {
    const std::string said = news(std::to_string(at_ms) + " catching-up " + std::to_string(rank) +
                                  " at=" + std::to_string(at));
    return said.empty() ? "" : std::to_string(static_cast<int>(at_ms)) + ": " + said + "\n";
  }

 private:
  SupervisorCore core_;
};

TEST(Recoveries, TheProgressOfALongRecoveryIsReported) {
  Job job(2);
  job.dies(1, 1000, 12'000);
  EXPECT_EQ(
      job.looks(1, 1000, 14'000, 1000),
      "3000: rank 1 has been catching up for 2.0 s: at operation #2,000 of #12,000 (16 %), "
      "about 10 s left\n"
      "8000: rank 1 has been catching up for 7.0 s: at operation #7,000 of #12,000 (58 %), "
      "about 5 s left\n"
      "13000: rank 1 has been catching up for 12.0 s: at operation #12,000 of #12,000 (100 %)\n");
  EXPECT_EQ(job.news("14000 live 1 replayed=12000 replay_ms=150"),
            "rank 1 is back after 13.0 s: 12.8 s of its own computing, 150.0 ms replay of 12,000 "
            "operations");
  EXPECT_EQ(job.look(1, 19'000, 1), "");  // the rank is back
}

TEST(Recoveries, TheProgressOfAShortRecoveryIsNotReported) {
  Job job(2);
  job.dies(1, 1000, 12'000);
  EXPECT_EQ(job.looks(1, 1000, 2'900, 1000), "");
}

TEST(Recoveries, ARankThatNeverDiedIsNotComingBack) {
  Job job(2);
  job.dies(1, 0, 100);
  EXPECT_EQ(job.look(0, 5000, 7), "");
  EXPECT_EQ(job.look(1, 5000, 7),
            "5000: rank 1 has been catching up for 5.0 s: at operation #7 of #100 (7 %)\n");
}

TEST(Recoveries, NoEstimateWithoutABasis) {
  Job few(1);  // too few operations
  few.dies(0, 0, 100);
  EXPECT_EQ(few.looks(0, 0, 2000, 9),
            "2000: rank 0 has been catching up for 2.0 s: at operation #18 of #100 (18 %)\n");
  Job slower(1);  // the rank becomes slower and slower
  slower.dies(0, 0, 4000);
  for (int i = 1; i < 10; ++i) slower.look(0, 200 * i, i < 5 ? 400 * i : 1600 + i);
  EXPECT_EQ(slower.look(0, 2000, 1611),
            "2000: rank 0 has been catching up for 2.0 s: at operation #1,611 of #4,000 (40 %)\n");
  Job none(1);  // the rank died before it did anything
  none.dies(0, 0, 0);
  EXPECT_EQ(none.look(0, 2000, 0),
            "2000: rank 0 has been catching up for 2.0 s: before its first MPI operation\n");
  Job late(1);  // the replacement has not begun
  late.dies(0, 0, 50);
  EXPECT_EQ(late.look(0, 2000, 0),
            "2000: rank 0 has been catching up for 2.0 s: before operation #1 of #50 (0 %)\n");
}

TEST(Recoveries, AnEstimateCountsFromWhereTheRankWentOn) {
  Job job(1);
  job.dies(0, 0, 2000);
  std::string all;
  for (int i = 1; i <= 10; ++i) all += job.look(0, 200 * i, 1000 + 20 * i);  // from a checkpoint
  EXPECT_EQ(
      all,
      "2000: rank 0 has been catching up for 2.0 s: at operation #1,200 of #2,000 (60 %), about "
      "8 s left\n");
}

// Looks every 200 ms for an hour: the samples are thinned out, and the estimate remains.
TEST(Recoveries, AnEstimateRemainsForAnHour) {
  Job job(1);
  job.dies(0, 0, 3'600'000);
  const std::string all = job.looks(0, 0, 1'802'000, 1000);
  EXPECT_NE(
      all.find("rank 0 has been catching up for 1802 s: at operation #1,802,000 of #3,600,000 "
               "(50 %), about 30 min left\n"),
      std::string::npos);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 361);
}

TEST(Recoveries, OfSeveralRanksTheFurthestBehindIsReported) {
  Job job(4);
  for (const std::uint32_t rank : {1u, 2u, 3u}) job.dies(rank, 0, 1000);
  EXPECT_EQ(job.look(1, 1900, 300) + job.look(2, 1900, 200) + job.look(3, 1900, 100), "");
  EXPECT_EQ(
      job.look(1, 2100, 310) + job.look(2, 2100, 210) + job.look(3, 2100, 110),
      "2100: rank 3 has been catching up for 2.1 s: at operation #110 of #1,000 (11 %); 2 others "
      "are closer\n");
  EXPECT_EQ(job.look(1, 7000, 320) + job.look(2, 7000, 220) + job.look(3, 7000, 999), "");
  EXPECT_NE(job.news("7050 live 3 replayed=999"), "");
  EXPECT_EQ(
      job.look(1, 7200, 330) + job.look(2, 7200, 230),
      "7200: rank 2 has been catching up for 7.2 s: at operation #230 of #1,000 (23 %); another "
      "rank is closer\n");
}

TEST(Recoveries, ARankThatDiesWhileCatchingUpBeginsAgain) {
  Job job(1);
  job.dies(0, 0, 1000);
  job.look(0, 1000, 100);
  job.dies(0, 1500, 120);  // the second death is in the replay, so only the first incarnation's
                           // operations are known
  EXPECT_EQ(job.look(0, 2000, 30),
            "2000: rank 0 has been catching up for 2.0 s: at operation #30 of #1,000 (3 %)\n");
}

TEST(Recoveries, TheRecordOfALook) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 0 ended 0 signal=9 at=100 live
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #100; starting it again (1 of 400)
> 2000 catching-up 0 at=10 replayed=9
record catching_up rank 0 incarnation 1 replayed 9 of 100
news: rank 0 has been catching up for 2.0 s: at operation #10 of #100 (10 %)
> 3000 catching-up 0 at=20 replayed=19
> 4000 signal 0 code=2
stop
tell: signal 2 (Interrupt): ending all ranks
record stop code 130
> 9000 catching-up 0 at=50 replayed=49
)");
}

// --- The return

TEST(Recoveries, RecoveryPointsAreNamed) {
  Job job(1);
  job.dies(0, 0, 100);
  EXPECT_EQ(job.news("100 live 0 replayed=0 checkpoint=3"),
            "rank 0 is back after 100.0 ms, from checkpoint 3: 100.0 ms of its own computing");
  job.dies(0, 1000, 100);
  EXPECT_EQ(job.news("1100 live 0 replayed=1 replay_ms=40 checkpoint=4"),
            "rank 0 is back after 100.0 ms, from checkpoint 4: 60.0 ms of its own computing, 40.0 "
            "ms replay of 1 operation");
  job.dies(0, 2000, 100);
  EXPECT_EQ(job.news("2100 live 0 replayed=0 snapshot_ms=600"),
            "rank 0 is back after 100.0 ms, from the snapshot 600.0 ms before its death: 100.0 ms "
            "of its own computing");
  job.dies(0, 3000, 100);
  EXPECT_EQ(job.news("3100 live 0 replayed=0 written"),
            "rank 0 is back after 100.0 ms, from its written image: 100.0 ms of its own computing");
}

// A scaled sample may be more than the actual time.
TEST(Recoveries, AReplayIsNeverLongerThanTheTimeSinceTheStart) {
  Job job(1);
  job.news("0 ended 0 signal=9 at=7");
  job.news("60 registered 0");
  EXPECT_EQ(job.news("100 live 0 replayed=7 replay_ms=70"),
            "rank 0 is back after 100.0 ms: 60.0 ms to start it, 40.0 ms replay of 7 operations");
}

// --- The end

TEST(Recoveries, NoMessageWithoutDeaths) {
  expect_transcript(ranks(1), R"(
> 0 registered 0
record register rank 0 incarnation 0
> 1 initialized 0
record init rank 0 incarnation 0
> 1 finalized 0
record finalize rank 0 incarnation 0
> 2 ended 0 exit=0
record exit rank 0 incarnation 0 (exit code 0)
> 3 all-over 0 journal=99999
finish 0
)");
}

TEST(Recoveries, TimeWithoutARankCountsOnce) {
  Job job(3);
  job.dies(1, 1000, 5);
  job.dies(2, 1500, 5);
  job.news("2000 live 1 replayed=4");
  job.news("4000 live 2 replayed=4");
  job.dies(1, 5000, 5);
  job.news("5500 live 1 replayed=4");
  EXPECT_EQ(job.news("9000 all-over 0 journal=2097152 snapshots=7 cost_ms=12 images=1048576"),
            "3 deaths, 3 restarts (3 from main), 3.5 s lost, 2.5 s the longest (rank 2); journal "
            "at most 2 MiB; "
            "7 snapshots, at most 12.0 ms of a rank's time and 1 MiB\n"
            "  ranks 1 (twice), 2: signal 9, Killed, after an operation");
}

// The last line gives the reason for the stop; the record is written all the same.
TEST(Recoveries, ARankThatIsAwayAtTheEndCounts) {
  expect_transcript(ranks(1), R"(
> 1000 ended 0 signal=9 at=5
respawn 0
record death rank 0 incarnation 0 (signal 9, Killed) replayed 0
news: rank 0 died (signal 9, Killed) after operation #5; starting it again (1 of 400)
> 2000 signal 0 code=2
stop
tell: signal 2 (Interrupt): ending all ranks
record stop code 130
> 3000 all-over 0
record summary deaths 1 restarts 1 lost 2.0 s longest 2.0 s places 1
finish 130
)");
}

TEST(Recoveries, ReturnsAreCountedByKind) {
  Job job(2);
  const char* returns[] = {"snapshot_ms=5", "snapshot_ms=7", "checkpoint=3", "written", ""};
  double at_ms = 0;
  for (const char* from : returns) {
    job.dies(1, at_ms += 1000, 5);
    job.news(std::to_string(at_ms + 10) + " live 1 replayed=4 " + from);
    // Rank 0 was never away.
    job.news(std::to_string(at_ms + 20) + " live 0 replayed=4 " + from);
  }
  job.dies(0, 8000, 5);  // the rank dies once more before it is back
  job.dies(0, 8100, 4);
  job.news("8200 finalized 0 replayed=4 snapshot_ms=900");
  job.dies(1, 8500, 9);  // this rank does not come back
  EXPECT_EQ(job.news("9000 all-over 0"),
            "8 deaths, 8 restarts (3 from snapshots, 1 from a written image, 1 from a checkpoint, "
            "1 from main), 750.0 ms lost, 500.0 ms the longest (rank 1); journal at most 0 bytes\n"
            "  ranks 0 (twice), 1 (6 times): signal 9, Killed, after an operation");
}

TEST(Recoveries, EventsNameTheKind) {
  Record back{"live"};
  back.took_ms = 1.5;
  EXPECT_NE(to_json(back, 0).find(R"("kind":"main")"), std::string::npos);
  EXPECT_EQ(to_json(back, 0).find("from"), std::string::npos);
  back.from = {RecoveryPoint::Kind::kCheckpoint, 7};
  EXPECT_NE(to_json(back, 0).find(R"("kind":"checkpoint","from":"checkpoint 7")"),
            std::string::npos)
      << to_json(back, 0);
  Record end{"summary"};
  end.summary = Summary();
  end.summary->returns = {1, 2, 0, 3};
  EXPECT_NE(to_json(end, 0).find(R"("returns":{"main":1,"snapshot":2,"written":0,"checkpoint":3})"),
            std::string::npos)
      << to_json(end, 0);
}

TEST(Recoveries, PlacesWithAndWithoutACallSite) {
  Job job(1);
  for (const char* where : {" in=Reduce", " in=Reduce site={0:1:2a}", " in=Reduce oom"}) {
    job.dies(0, 10, 7, where);
    job.news("10 live 0 replayed=6");
  }
  EXPECT_EQ(
      job.news("20 all-over 0"),
      "3 deaths, 3 restarts (3 from main), 0.00 ms lost, 0.00 ms the longest (rank 0); journal "
      "at most 0 bytes\n"
      "  rank 0: signal 9, Killed, in Reduce\n"
      "  rank 0: signal 9, Killed, in Reduce at {0:1:2a}\n"
      "  rank 0: signal 9, killed by the OOM killer, in Reduce");
}

// Call sites of the same module and place are grouped, whatever rank they belong to.
TEST(Recoveries, ManyDeathsAreGrouped) {
  Job job(20);
  double at_ms = 0;
  const auto dies = [&](std::uint32_t rank, const std::string& where) {
    job.dies(rank, at_ms += 10, 7, where);
    job.news(std::to_string(at_ms) + " live " + std::to_string(rank) + " replayed=6");
  };
  for (std::uint32_t rank = 0; rank < 10; ++rank) {
    for (std::uint32_t i = 0; i < rank; ++i) {
      dies(rank, " in=Allreduce site={" + std::to_string(rank) + ":1:2a}");
    }
  }
  dies(11, " in=Allreduce site={11:1:2b}");
  dies(12, " in=Bcast site={12:1:2b}");
  dies(12, " in=Bcast site={12:1:2b}");
  for (const char* name : {" in=Scan", " in=Gather", " in=Scatter"}) dies(13, name);
  EXPECT_EQ(job.news("9000 all-over 0 journal=1024"),
            "51 deaths, 51 restarts (51 from main), 0.00 ms lost, 0.00 ms the longest (rank 13); "
            "journal at most 1 KiB\n"
            "  ranks 1, 2 (twice), 3 (3 times), 4 (4 times), 5 (5 times), 6 (6 times) and 3 more: "
            "signal 9, Killed, in Allreduce at {1:1:2a}\n"
            "  rank 12 (twice): signal 9, Killed, in Bcast at {12:1:2b}\n"
            "  rank 11: signal 9, Killed, in Allreduce at {11:1:2b}\n"
            "  rank 13: signal 9, Killed, in Scan\n"
            "  and 2 deaths in 2 other places");
}

TEST(Recoveries, Texts) {
  EXPECT_EQ(duration_text(0), "0.00 ms");
  EXPECT_EQ(duration_text(99'000), "0.10 ms");
  EXPECT_EQ(duration_text(100'000), "0.1 ms");
  EXPECT_EQ(duration_text(999'949'000), "999.9 ms");
  EXPECT_EQ(duration_text(999'950'000), "1.0 s");
  EXPECT_EQ(duration_text(99'949'000'000), "99.9 s");
  EXPECT_EQ(duration_text(99'950'000'000), "100 s");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
}

}  // namespace
}  // namespace rejoin::launcher
