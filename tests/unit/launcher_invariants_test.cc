// Reports that cannot be true end ftrun: they are defects of Rejoin, whatever follows from them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "launcher/agent/agent_core.h"
#include "launcher/base/invariant.h"
#include "launcher/base/loop.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {
namespace {

RunOptions two_ranks() {
  RunOptions options;
  options.programs.resize(1);
  options.programs[0].command = {"program"};
  options.programs[0].ranks = 2;
  return options;
}

TEST(InvariantDeathTest, HoldsOrEndsTheProcess) {
  invariant(true, "nothing is wrong");
  EXPECT_DEATH(invariant(false, "one is two"), "rejoin: one is two: this is a defect of Rejoin");
}

TEST(InvariantDeathTest, AFinalizedRankDoesNotRegister) {
  SupervisorCore core(two_ranks());
  core.step({1, 0, Event::Registered{10}});
  core.step({2, 0, Event::Initialized{}});
  core.step({3, 0, Event::Registered{11}});  // it moves
  core.step({3, 0, Event::Initialized{}});
  core.step({4, 0, Event::Finalized{}});
  EXPECT_DEATH(core.step({5, 0, Event::Registered{12}}), "cannot follow its former report");
}

TEST(InvariantDeathTest, ARankThatRunsIsNotStartedAgain) {
  AgentCore core(LocalRanks{0, 1});
  core.spawn(0);
  core.step({0, 1, AgentEvent::Spawned{10}});
  EXPECT_DEATH(core.step({0, 2, AgentEvent::Spawned{11}}), "cannot follow it");
}

TEST(InvariantDeathTest, ADescriptorHasOneWatch) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Loop loop(0);
  const Loop::Watch first(loop, ends[0], EPOLLIN, [](std::uint32_t) {});
  EXPECT_DEATH(Loop::Watch(loop, ends[0], EPOLLIN, [](std::uint32_t) {}), "two watches");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace rejoin::launcher
