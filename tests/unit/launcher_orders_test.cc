// Messages of supervisor and agent survive serialisation and parsing unchanged, and no other bytes
// are accepted.
#include <gtest/gtest.h>

#include "launcher/orders/orders.h"

namespace rejoin::launcher {
namespace {

const Position kPosition = {0xab, 12, 13, true, true, 7, "Allreduce", "{3:0:2a}"};
const RecoveryPoint kFrom = {RecoveryPoint::Kind::kCheckpoint, 3};
constexpr std::uint64_t kLarge = std::uint64_t{1} << 40;

// Returns the message after a round trip.
Report sent(const Report& report) {
  Report read;
  EXPECT_TRUE(read.ParseFromString(report.SerializeAsString()));
  return read;
}

template <class What>
What back(const What& what) {
  const Event event{123456789012345, 3, what, 7};
  const auto read = to_event(sent(to_report(event)));
  EXPECT_TRUE(read);
  if (!read) return what;
  EXPECT_EQ(read->at_ns, event.at_ns);
  EXPECT_EQ(read->epoch, event.epoch);
  EXPECT_EQ(read->rank, event.rank);
  EXPECT_EQ(read->what.index(), event.what.index());
  return std::get<What>(read->what);
}

void expect_position(const Position& p) {
  EXPECT_TRUE(p.same_as(kPosition));
  EXPECT_EQ(p.inside, kPosition.inside);
  EXPECT_EQ(p.live, kPosition.live);
  EXPECT_EQ(p.replayed, kPosition.replayed);
  EXPECT_EQ(p.operation, kPosition.operation);
  EXPECT_EQ(p.site, kPosition.site);
}

const Protection kProtection = {12, kLarge, 2, kLarge + 3, kLarge + 4};

void expect_protection(const Protection& p) {
  EXPECT_EQ(p.snapshots, 12u);
  EXPECT_EQ(p.oldest_ns, kLarge);
  EXPECT_EQ(p.ranks_without, 2u);
  EXPECT_EQ(p.image_bytes, kLarge + 3);
  EXPECT_EQ(p.journal_bytes, kLarge + 4);
}

TEST(Orders, AnEndComesBackWhole) {
  const Event::Ended ended = {
      {Cause::Kind::kSignal, 9, true, 1 << 30},
      kPosition,
      {"address 0x10 is not mapped", "{3:0:2a}", {"#0 {3:0:2a}", "#1 in Rejoin"}},
      std::string("bytes \xff\0 and {3:0:2a}", 20),
      "why not alone"};
  const Event::Ended read = back(ended);
  EXPECT_TRUE(read.cause.same_as(ended.cause));
  EXPECT_EQ(read.cause.oom, ended.cause.oom);
  EXPECT_EQ(read.cause.peak_bytes, ended.cause.peak_bytes);
  expect_position(read.position);
  EXPECT_EQ(read.fault.text, ended.fault.text);
  EXPECT_EQ(read.fault.site, ended.fault.site);
  EXPECT_EQ(read.fault.stack, ended.fault.stack);
  EXPECT_EQ(read.why_final, ended.why_final);
  EXPECT_EQ(read.not_alone, ended.not_alone);
}

TEST(Orders, EventsOfARankComeBackWhole) {
  EXPECT_EQ(back(Event::Started{kLarge}).pid, std::int64_t{kLarge});
  EXPECT_EQ(back(Event::SpawnFailed{-1, "why"}).code, -1);
  EXPECT_EQ(back(Event::SpawnFailed{-1, "why"}).why, "why");
  EXPECT_EQ(back(Event::Registered{4711}).pid, 4711);
  back(Event::Initialized{true});
  const auto live = back(Event::Live{kLarge, kFrom, kLarge + 1});
  EXPECT_EQ(live.replayed, kLarge);
  EXPECT_TRUE(live.from == kFrom);
  EXPECT_EQ(live.replay_ns, kLarge + 1);
  const auto finalized = back(Event::Finalized{kPosition, kFrom, kLarge});
  expect_position(finalized.position);
  EXPECT_TRUE(finalized.from == kFrom);
  EXPECT_EQ(finalized.replay_ns, kLarge);
  EXPECT_EQ(back(Event::Aborted{-7, "what"}).code, -7);
  EXPECT_EQ(back(Event::Aborted{-7, "what"}).what, "what");
  EXPECT_EQ(back(Event::Lost{"why"}).why, "why");
  EXPECT_EQ(back(Event::Lost{""}).why, "");
  EXPECT_EQ(back(Event::Diverged{"how"}).how, "how");
  back(Event::JournalFull{});
  EXPECT_EQ(back(Event::Notice{"text", kLarge}).text, "text");
  EXPECT_EQ(back(Event::Notice{"text", kLarge}).of_job, kLarge);
  expect_position(back(Event::CatchingUp{kPosition}).position);
  EXPECT_EQ(back(Event::ForeignMpi{"libmpich.so.12"}).soname, "libmpich.so.12");
  EXPECT_EQ(back(Event::Unfired{"2@1", kPosition}).kill, "2@1");
  expect_position(back(Event::Unfired{"2@1", kPosition}).position);
}

TEST(Orders, EventsOfAJobComeBackWhole) {
  const auto written = back(Event::ImagesWritten{"directory", kLarge, kLarge + 1, kLarge + 2});
  EXPECT_EQ(written.directory, "directory");
  EXPECT_EQ(written.bytes, kLarge);
  EXPECT_EQ(written.took_ns, kLarge + 1);
  EXPECT_EQ(written.stopped_ns, kLarge + 2);
  expect_protection(back(Event::Snapshot{kProtection}).protection);
  expect_protection(back(Event::Heartbeat{kProtection}).protection);
  EXPECT_EQ(back(Event::Committed{kLarge}).checkpoint, kLarge);
  EXPECT_EQ(back(Event::Deadlock{"how"}).diverged, "how");
  EXPECT_EQ(back(Event::Deadlock{""}).diverged, "");
  const Totals totals =
      back(Event::AllOver{0, {kLarge, 12, kLarge + 1, kLarge + 2, kLarge + 5}}).totals;
  EXPECT_EQ(totals.journal_peak_bytes, kLarge);
  EXPECT_EQ(totals.snapshots, 12u);
  EXPECT_EQ(totals.snapshot_cost_ns, kLarge + 1);
  EXPECT_EQ(totals.exposed_ns, kLarge + 2);
  EXPECT_EQ(totals.images_peak_bytes, kLarge + 5);
}

TEST(Orders, TheHostOfAnEventIsItsSenders) {
  Report report = to_report({1, 0, Event::AllOver{}});
  report.set_host(3);
  const auto event = to_event(sent(report));
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Event::AllOver>(event->what).host, 3u);
}

TEST(Orders, PositionsOfRanksComeBackWhole) {
  StoodOnHost found = {{}, true, "remark", true};
  found.ranks.push_back({7, kLarge, "sleeping", "in Barrier #6", {"#0 f", "#1 main"}, true, {}});
  found.ranks.push_back({8, 0, "", "", {}, false, 0});
  const Report report = sent(to_report(found));
  ASSERT_TRUE(report.has_standing());
  const StoodOnHost back = to_stood(report.standing());
  EXPECT_TRUE(back.images);
  EXPECT_EQ(back.remark, "remark");
  EXPECT_TRUE(back.awaited);
  EXPECT_FALSE(to_stood(sent(to_report(StoodOnHost())).standing()).awaited);
  ASSERT_EQ(back.ranks.size(), 2u);
  EXPECT_EQ(back.ranks[0].rank, 7u);
  EXPECT_EQ(back.ranks[0].pid, std::int64_t{kLarge});
  EXPECT_EQ(back.ranks[0].state, "sleeping");
  EXPECT_EQ(back.ranks[0].where, "in Barrier #6");
  EXPECT_EQ(back.ranks[0].stack, (std::vector<std::string>{"#0 f", "#1 main"}));
  EXPECT_TRUE(back.ranks[0].over);
  EXPECT_FALSE(back.ranks[0].image_age_ns);
  EXPECT_EQ(back.ranks[1].pid, 0);
  EXPECT_EQ(back.ranks[1].image_age_ns, 0u);
}

TEST(Orders, InvalidEventsAreRefused) {
  EXPECT_FALSE(to_event(Report()));
  // The supervisor's driver creates these events itself: an agent must not send them.
  EXPECT_FALSE(to_event(to_report({1, 2, Event::Timeout{}})));
  EXPECT_FALSE(to_event(to_report({1, 2, Event::Interrupted{15}})));
  EXPECT_FALSE(to_event(to_report({1, 2, Event::OutputLost{1, "why"}})));
  EXPECT_FALSE(to_event(to_report({1, 2, Event::AgentLost{1, "why"}})));
  Report report = to_report({1, 2, Event::Ended{}});
  report.mutable_happened()->mutable_ended()->mutable_cause()->set_kind(3);
  EXPECT_FALSE(to_event(report));
  report = to_report({1, 2, Event::Live{}});
  report.mutable_happened()->mutable_live()->mutable_from()->set_kind(RecoveryPoint::kKinds);
  EXPECT_FALSE(to_event(report));
  report = to_report({1, 2, Event::Finalized{}});
  report.mutable_happened()->mutable_finalized()->mutable_from()->set_kind(RecoveryPoint::kKinds);
  EXPECT_FALSE(to_event(report));
}

TEST(Orders, AnOrderComesBackWhole) {
  Order order, back;
  order.mutable_respawn()->set_rank(5);
  order.mutable_respawn()->set_incarnation(2);
  ASSERT_TRUE(back.ParseFromString(order.SerializeAsString()));
  ASSERT_EQ(back.what_case(), Order::kRespawn);
  EXPECT_EQ(back.respawn().rank(), 5u);
  EXPECT_EQ(back.respawn().incarnation(), 2u);
}

}  // namespace
}  // namespace rejoin::launcher
