// How ftrun reaches the agents of several hosts (hosts/agents.h). The remote shell is a script, and
// each host a shell command in the place of its agent.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/hosts/agents.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

class AgentsOfHosts : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);  // as ftrun does
    char name[] = "/tmp/rejoin-agents-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    Report ready;
    ready.mutable_ready()->set_port(1);
    ready.mutable_ready()->set_now_ns(monotonic_ns());
    write_message("ready", ready);
    std::ofstream(shell()) << "#!/bin/sh\ncd " << directory_ << "\ntouch \"$1.began\"\n"
                           << "exec /bin/sh \"./$1\"\n";
    chmod(shell().c_str(), 0700);
  }
  void TearDown() override {
    agents_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string shell() const { return directory_ + "/shell"; }
  void write_message(const std::string& name, const Report& report) {
    const std::string bytes = report.SerializeAsString();
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::ofstream file(directory_ + "/" + name, std::ios::binary);
    for (int i = 0; i < 4; ++i) file.put(static_cast<char>(size >> 8 * i));
    file << bytes;
  }
  // `command` runs in the place of the agent of that host.
  void make_host(const std::string& name, const std::string& command) {
    std::ofstream(directory_ + "/" + name) << command << "\n";
  }
  bool has_begun(const std::string& host) const {
    return std::filesystem::exists(directory_ + "/" + host + ".began");
  }
  void begin(std::vector<std::string> hosts, std::uint64_t lease_ns) {
    Agents::Calls calls;
    calls.ready = [this] { is_ready_ = true; };
    calls.failed = [](const Error& error) { ADD_FAILURE() << error.text; };
    calls.elsewhere = [](std::uint32_t, const Error&) { return false; };
    calls.report = [this](Report report) {
      if (report.what_case() == Report::kAgentLost) lost_[report.host()] = report.agent_lost();
    };
    calls.waits = [this](const std::string& line) { lines_ += line + "\n"; };
    agents_.emplace(loop_, std::move(hosts), shell(), lease_ns, std::move(calls));
    agents_->start(plan());
    ASSERT_TRUE(within(60 * kSecondNs, [this] { return is_ready_; }));
  }
  static Order plan() {
    Order order;
    order.mutable_plan();
    return order;
  }
  // Runs the loop until `is` is true, or for that time. Returns whether it is.
  template <class Is>
  bool within(std::uint64_t ns, Is&& is) {
    struct Over {};  // stop() would be for good
    const std::uint64_t until_ns = monotonic_ns() + ns;
    Loop::Timer look(loop_, [&] { look.set(loop_.now_ns() + 10'000'000); });
    look.set(loop_.now_ns());
    try {
      loop_.run([&] {
        if (is() || monotonic_ns() > until_ns) throw Over();
      });
    } catch (const Over&) {
    }
    return is();
  }
  bool is_lost(std::uint32_t host) const { return lost_.contains(host); }
  void send(std::uint32_t host, const std::function<void(Order&)>& write) {
    Order order;
    write(order);
    order.set_host(host);
    agents_->send(order);
  }

  // An agent that is ready, and reads orders until their end.
  static constexpr const char* kReads = "cat ready; exec cat >/dev/null";
  // One that is ready, and neither says anything more nor ends.
  static constexpr const char* kSilent = "cat ready; exec sleep 1000";

  std::string directory_;
  Loop loop_{monotonic_ns()};
  bool is_ready_ = false;
  std::map<std::uint32_t, std::string> lost_;
  std::string lines_;
  std::optional<Agents> agents_;
};

// A host is left whose ranks cannot be ended: they may run until the end of its lease.
TEST_F(AgentsOfHosts, OneIsNotReplacedBeforeItsLeaseIsOver) {
  constexpr std::uint64_t kLeaseNs = 2 * kSecondNs;
  make_host("a", kSilent);
  make_host("b", kReads);
  begin({"a"}, kLeaseNs);
  agents_->replace(0, "b", 0, plan());  // waits a quarter of a lease for the end of the ranks
  const std::uint64_t since_ns = monotonic_ns();
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return has_begun("b"); }));
  EXPECT_GE(monotonic_ns() - since_ns, kLeaseNs);
  EXPECT_FALSE(is_lost(0));
}

TEST_F(AgentsOfHosts, OneThatCannotTakeAPlaceSaysWhy) {
  make_host("a", kReads);
  make_host("b", "exit 127");
  begin({"a"}, 1 * kSecondNs);
  agents_->replace(0, "b", 0, plan());
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return is_lost(0); }));
  EXPECT_NE(lost_[0].find("could not be started, because "), std::string::npos) << lost_[0];
  EXPECT_EQ(lost_[0].find("silent"), std::string::npos) << lost_[0];
}

TEST_F(AgentsOfHosts, TheUserLearnsOfOneThatFetchesItsPartForLong) {
  make_host("a", kReads);
  make_host("b", "exec cat >/dev/null");
  begin({"a"}, 600 * kSecondNs);
  agents_->replace(0, "b", 0, plan());
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return !lines_.empty(); }));
  EXPECT_NE(lines_.find("waiting for 1 of 1 agents for 10"), std::string::npos) << lines_;
  EXPECT_NE(lines_.find(": host b"), std::string::npos) << lines_;
}

TEST_F(AgentsOfHosts, OneThatEndsIsReplacedAtOnce) {
  make_host("a", kReads);
  make_host("b", kReads);
  begin({"a"}, 600 * kSecondNs);
  agents_->replace(0, "b", 0, plan());
  EXPECT_TRUE(within(60 * kSecondNs, [&] { return has_begun("b"); }));
  EXPECT_FALSE(is_lost(0));
}

TEST_F(AgentsOfHosts, TheEndOfAConnectionIsNoLossBeforeTheLeaseIsOver) {
  constexpr std::uint64_t kLeaseNs = 2 * kSecondNs;
  make_host("a", "cat ready; exit 3");
  begin({"a"}, kLeaseNs);
  const std::uint64_t since_ns = monotonic_ns();
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return is_lost(0); }));
  EXPECT_GE(monotonic_ns() - since_ns, kLeaseNs - kSecondNs);  // it was heard before
  EXPECT_EQ(lost_[0], "has ended with exit code 3");
  EXPECT_NE(lines_.find("its ranks may run until the end of its lease"), std::string::npos);
}

// Twice Ctrl-C: the user waits for no lease. A job that begins again kills, too, and does.
TEST_F(AgentsOfHosts, OnlyAHurriedKillDoesNotWaitForALease) {
  make_host("a", "cat ready; exit 3");
  begin({"a"}, 600 * kSecondNs);
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return !lines_.empty(); }));
  send(0, [](Order& order) { order.set_kill(false); });
  EXPECT_FALSE(within(4 * kSecondNs, [&] { return is_lost(0); }));
  send(0, [](Order& order) { order.set_kill(true); });
  EXPECT_TRUE(within(60 * kSecondNs, [&] { return is_lost(0); }));
}

TEST_F(AgentsOfHosts, TheUserLearnsForWhichOnesTheEndOfTheJobWaits) {
  make_host("a", kSilent);
  begin({"a"}, 0);
  send(0, [](Order& order) { order.mutable_finish(); });
  ASSERT_TRUE(within(60 * kSecondNs, [&] { return !lines_.empty(); }));
  EXPECT_NE(lines_.find("waiting for 1 of 1 agents for 10"), std::string::npos) << lines_;
  EXPECT_NE(lines_.find("host a, which"), std::string::npos) << lines_;
}

}  // namespace
}  // namespace rejoin::launcher
