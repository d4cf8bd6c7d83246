// What supervisor and agent say survives being written out and read back, and nothing else is
// taken for it.
#include <gtest/gtest.h>

#include "launcher/orders/orders.h"

namespace rejoin::launcher {
namespace {

Event full_event() {
  Event event{Event::Kind::kEnded, 123456789012345, 3};
  event.pid = 4711;
  event.code = -1;
  event.value = std::uint64_t{1} << 40;
  event.text = std::string("bytes \xff\0 and {3:0:2a}", 20);
  event.cause = {Cause::Kind::kSignal, 9, true, 1 << 30};
  event.position = {0xab, 12, 13, true, true, 7, "Allreduce", "{3:0:2a}"};
  event.fault = {"address 0x10 is not mapped", "{3:0:2a}", {"#0 {3:0:2a}", "#1 in Rejoin"}};
  event.from = {RecoveryPoint::Kind::kCheckpoint, 3};
  event.replay_ns = std::uint64_t{1} << 41;
  event.totals = {std::uint64_t{1} << 42, 12, std::uint64_t{1} << 43, std::uint64_t{1} << 44};
  return event;
}

// As it arrives at the other end of a wire.
Report sent(const Report& report) {
  Report read;
  EXPECT_TRUE(read.ParseFromString(report.SerializeAsString()));
  return read;
}

TEST(Orders, AnEventComesBackWhole) {
  const Event event = full_event();
  const auto back = to_event(sent(to_report(event)).happened());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, event.kind);
  EXPECT_EQ(back->at_ns, event.at_ns);
  EXPECT_EQ(back->rank, event.rank);
  EXPECT_EQ(back->pid, event.pid);
  EXPECT_EQ(back->code, event.code);
  EXPECT_EQ(back->value, event.value);
  EXPECT_EQ(back->text, event.text);
  EXPECT_TRUE(back->cause.same_as(event.cause));
  EXPECT_EQ(back->cause.oom, event.cause.oom);
  EXPECT_EQ(back->cause.peak_bytes, event.cause.peak_bytes);
  EXPECT_TRUE(back->position.same_as(event.position));
  EXPECT_EQ(back->position.inside, event.position.inside);
  EXPECT_EQ(back->position.live, event.position.live);
  EXPECT_EQ(back->position.replayed, event.position.replayed);
  EXPECT_EQ(back->position.operation, event.position.operation);
  EXPECT_EQ(back->position.site, event.position.site);
  EXPECT_EQ(back->fault.text, event.fault.text);
  EXPECT_EQ(back->fault.site, event.fault.site);
  EXPECT_EQ(back->fault.stack, event.fault.stack);
  EXPECT_TRUE(back->from == event.from);
  EXPECT_EQ(back->replay_ns, event.replay_ns);
  EXPECT_EQ(back->totals.journal_peak_bytes, event.totals.journal_peak_bytes);
  EXPECT_EQ(back->totals.exposed_ns, event.totals.exposed_ns);
  EXPECT_EQ(back->totals.snapshots, event.totals.snapshots);
  EXPECT_EQ(back->totals.snapshot_cost_ns, event.totals.snapshot_cost_ns);
}

TEST(Orders, EveryKindOfEvent) {
  for (int kind = 0; kind <= static_cast<int>(Event::Kind::kAllOver); ++kind) {
    const Event event{static_cast<Event::Kind>(kind), 1, 2};
    const auto back = to_event(sent(to_report(event)).happened());
    ASSERT_TRUE(back) << kind;
    EXPECT_EQ(back->kind, event.kind);
  }
}

TEST(Orders, WhatIsNoEventIsRefused) {
  Report report = to_report(full_event());
  report.mutable_happened()->set_kind(static_cast<std::uint32_t>(Event::Kind::kAllOver) + 1);
  EXPECT_FALSE(to_event(report.happened()));
  report = to_report(full_event());
  report.mutable_happened()->mutable_cause()->set_kind(3);
  EXPECT_FALSE(to_event(report.happened()));
  report = to_report(full_event());
  report.mutable_happened()->mutable_from()->set_kind(RecoveryPoint::kKinds);
  EXPECT_FALSE(to_event(report.happened()));
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
