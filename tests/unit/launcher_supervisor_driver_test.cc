// The supervisor's driver: what it shows, in which order.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/supervisor/supervisor.h"

namespace rejoin::launcher {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class SupervisorDriver : public testing::Test {
 protected:
  static constexpr std::uint32_t kHosts = 2;

  static JobPlan plan() {
    JobPlan plan;
    plan.options.programs = {{.ranks = kHosts, .command = {"a.out"}}};
    for (std::uint32_t host = 0; host < kHosts; ++host) plan.hosts.push_back({host});
    return plan;
  }
  void report(std::uint32_t host, Report report) {
    report.set_host(host);
    supervisor_.report(report);
  }
  // The report of a host that has one rank.
  void report_positions(std::uint32_t host, bool awaited) {
    StoodOnHost found;
    found.ranks.push_back({host, 100 + host, "sleeping", "in Barrier #6", {}, false, {}});
    found.awaited = awaited;
    report(host, to_report(found));
  }
  // What is shown now, after what was shown before.
  std::string shown() {
    CaptureStderr();
    supervisor_.idle();
    return GetCapturedStderr();
  }
  // Whether each host was asked where its ranks stand, by an order whose report is awaited.
  bool asks() const {
    for (std::uint32_t host = 0; host < kHosts; ++host) {
      const bool any = std::ranges::any_of(orders_, [host](const Order& order) {
        return order.host() == host && order.what_case() == Order::kWhere && order.where();
      });
      if (!any) return false;
    }
    return true;
  }

  // How many events of that name were written. To be called behind finish().
  int events(const std::string& name) const {
    std::string text(64 * 1024, '\0');
    const ssize_t got = pread(log_.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const std::string wanted = "\"event\":\"" + name + "\"";
    int found = 0;
    for (auto at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++found;
    return found;
  }

  const Descriptor log_{memfd_create("events", MFD_CLOEXEC)};
  Loop loop_{monotonic_ns()};
  std::vector<Order> orders_;
  Supervisor supervisor_{loop_, plan(), EventLog::Target{Descriptor(dup(log_.get()))},
                         [this](Order order) { orders_.push_back(std::move(order)); }};
};

TEST_F(SupervisorDriver, AReportThatTheUserHasAskedForIsNoneOfThoseOfADeadlock) {
  supervisor_.start();
  EXPECT_FALSE(asks());
  report(0, to_report({1, 0, Event::Deadlock{}}));
  EXPECT_TRUE(asks());
  EXPECT_EQ(shown(), "");  // the line says "shown above"
  for (std::uint32_t host = 0; host < kHosts; ++host) report_positions(host, false);
  const std::string late = shown();
  EXPECT_NE(late.find("in Barrier #6"), std::string::npos);
  EXPECT_EQ(late.find("deadlock"), std::string::npos) << late;
  report_positions(0, true);
  EXPECT_EQ(shown().find("deadlock"), std::string::npos);
  report_positions(1, true);
  const std::string last = shown();
  EXPECT_LT(last.find("in Barrier #6"), last.find("rejoin: deadlock: every rank waits")) << last;
}

// Its relay cannot be started, for example.
TEST_F(SupervisorDriver, AnAgentThatCountedAsLostMayFinishLater) {
  supervisor_.start();
  Report lost;
  lost.set_agent_lost("cannot start its relay");
  report(0, lost);
  report(1, to_report({1, 0, Event::AllOver{1, {}}}));
  const auto finish = [&](std::uint32_t host, const char* line) {
    Report finished;
    finished.mutable_finished()->add_lines(line);
    report(host, finished);
  };
  finish(1, "first");
  finish(0, "second");
  const std::string said = shown();
  EXPECT_NE(said.find("rejoin: first"), std::string::npos) << said;
  EXPECT_NE(said.find("rejoin: second"), std::string::npos) << said;
  supervisor_.finish();
  EXPECT_EQ(events("end"), 1);
}

}  // namespace
}  // namespace rejoin::launcher
