// The connections of agents that join: encryption, the secret, and which are let in.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/loop.h"
#include "launcher/hosts/joined_agents.h"
#include "launcher/hosts/joining.h"
#include "launcher/hosts/message_stream.h"
#include "launcher/hosts/secret.h"
#include "tls_connections.h"

namespace rejoin::launcher {
namespace {

// One end of a connection in the loop of a test: what it has received, and how it has ended.
struct End {
  std::vector<std::string> messages;
  std::string ended;
  std::unique_ptr<MessageStream> stream;

  End(Loop& loop, Descriptor socket, TlsSide side, const std::string& secret) {
    auto tls = library().open(socket.get(), side, TlsUse::kOrders, secret);
    stream = std::make_unique<MessageStream>(
        loop, std::move(socket), std::move(tls),
        MessageStream::Calls{[this](std::string_view m) { messages.emplace_back(m); },
                             [this](const std::string& why) { ended = why; }});
  }
};

// Runs the loop, which runs once, until the condition holds.
void run_until(Loop& loop, const std::function<bool()>& condition) {
  const std::uint64_t end_ns = monotonic_ns() + 60'000'000'000;
  bool met = false;
  Loop::Timer* again = nullptr;
  Loop::Timer looks(loop, [&] {
    met = condition();
    if (met || monotonic_ns() > end_ns) return loop.stop();
    again->set(loop.now_ns() + 1'000'000);
  });
  again = &looks;
  looks.set(1);
  loop.run([] {});
  EXPECT_TRUE(met);
}

TEST(TlsStream, CarriesMessagesOfAnySize) {
  Loop loop(monotonic_ns());
  Pair pair(SOCK_NONBLOCK);
  End ftrun(loop, std::move(pair.ends[0]), TlsSide::kAccepts, kSecret);
  End agent(loop, std::move(pair.ends[1]), TlsSide::kConnects, kSecret);
  std::vector<std::string> sent;
  for (const std::size_t size : {0u, 1u, 17u, 16'383u, 16'384u, 16'385u, 3'000'000u}) {
    sent.emplace_back(size, static_cast<char>('a' + size % 26));
  }
  for (const std::string& message : sent) agent.stream->send(message);
  run_until(loop, [&] { return ftrun.messages.size() == sent.size(); });
  EXPECT_EQ(ftrun.messages, sent);
}

TEST(TlsStream, CarriesMessagesBothWaysAndItsEnd) {
  Loop loop(monotonic_ns());
  Pair pair(SOCK_NONBLOCK);
  End ftrun(loop, std::move(pair.ends[0]), TlsSide::kAccepts, kSecret);
  End agent(loop, std::move(pair.ends[1]), TlsSide::kConnects, kSecret);
  agent.stream->send("report");
  run_until(loop, [&, asked = false]() mutable {
    if (!ftrun.messages.empty() && !std::exchange(asked, true)) {
      ftrun.stream->send(std::string(2'000'000, 'o'));
    }
    if (!agent.messages.empty()) ftrun.stream->close_output();
    return !agent.ended.empty();
  });
  EXPECT_EQ(agent.messages.size(), 1u);
  EXPECT_EQ(agent.ended, "has closed its connection");
  EXPECT_EQ(ftrun.messages, std::vector<std::string>{"report"});
}

TEST(TlsStream, EndsWithAnotherSecret) {
  Loop loop(monotonic_ns());
  Pair pair(SOCK_NONBLOCK);
  End ftrun(loop, std::move(pair.ends[0]), TlsSide::kAccepts, kSecret);
  End agent(loop, std::move(pair.ends[1]), TlsSide::kConnects, kOther);
  agent.stream->send("let me in");
  run_until(loop, [&] { return !ftrun.ended.empty() && !agent.ended.empty(); });
  EXPECT_EQ(ftrun.ended, "has another secret");
  EXPECT_EQ(agent.ended, "has another secret");
  EXPECT_TRUE(ftrun.messages.empty());
}

TEST(TlsStream, EndsAtGarbage) {
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(5000, '\0'),
                                     std::string(5000, '\x16')}) {
    Loop loop(monotonic_ns());
    Pair pair(SOCK_NONBLOCK);
    EXPECT_GT(write(pair.ends[1].get(), garbage.data(), garbage.size()), 0);
    End ftrun(loop, std::move(pair.ends[0]), TlsSide::kAccepts, kSecret);
    run_until(loop, [&] { return !ftrun.ended.empty(); });
    EXPECT_TRUE(ftrun.ended.starts_with("has sent something that is not TLS 1.3")) << ftrun.ended;
  }
}

// The first bytes of an agent, cut short everywhere, and with one bit changed everywhere.
TEST(TlsStream, EndsIfItsHandshakeIsCutShortOrChanged) {
  Pair pair(SOCK_NONBLOCK);
  auto tls = library().open(pair.ends[0].get(), TlsSide::kConnects, TlsUse::kOrders, kSecret);
  EXPECT_EQ(tls->prove(), -1);
  EXPECT_EQ(errno, EAGAIN);
  std::string hello(4096, '\0');
  const ssize_t n = read(pair.ends[1].get(), hello.data(), hello.size());
  ASSERT_GT(n, 100);
  hello.resize(static_cast<std::size_t>(n));
  for (std::size_t bytes = 0; bytes < hello.size(); bytes += 7) {
    Loop loop(monotonic_ns());
    Pair other(SOCK_NONBLOCK);
    EXPECT_EQ(write(other.ends[1].get(), hello.data(), bytes), static_cast<ssize_t>(bytes));
    shutdown(other.ends[1].get(), SHUT_WR);
    End ftrun(loop, std::move(other.ends[0]), TlsSide::kAccepts, kSecret);
    run_until(loop, [&] { return !ftrun.ended.empty(); });
  }
  for (std::size_t at = 0; at < hello.size(); at += 3) {
    Loop loop(monotonic_ns());
    Pair other(SOCK_NONBLOCK);
    std::string changed = hello;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_EQ(write(other.ends[1].get(), changed.data(), changed.size()),
              static_cast<ssize_t>(changed.size()));
    shutdown(other.ends[1].get(), SHUT_WR);
    End ftrun(loop, std::move(other.ends[0]), TlsSide::kAccepts, kSecret);
    run_until(loop, [&] { return !ftrun.ended.empty(); });
    EXPECT_TRUE(ftrun.messages.empty());
  }
}

TEST(TlsStream, NeedsOneOfEachSide) {
  Loop loop(monotonic_ns());
  Pair pair(SOCK_NONBLOCK);
  End one(loop, std::move(pair.ends[0]), TlsSide::kConnects, kSecret);
  End other(loop, std::move(pair.ends[1]), TlsSide::kConnects, kSecret);
  one.stream->send("report");
  other.stream->send("report");
  run_until(loop, [&] { return !one.ended.empty() && !other.ended.empty(); });
  EXPECT_TRUE(one.messages.empty() && other.messages.empty());
}

// --- The secret's file

class SecretFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rejoin-secret-XXXXXX";
    close(mkstemp(name));
    path_ = name;
  }
  void TearDown() override { unlink(path_.c_str()); }
  void write_text(const std::string& text, mode_t mode) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  std::string path_;
};

TEST_F(SecretFile, IsReadWithoutTheNewlineAtItsEnd) {
  write_text(kSecret + " \r\n", 0600);
  const auto secret = read_secret(path_);
  ASSERT_TRUE(secret.ok());
  EXPECT_EQ(secret.value(), kSecret);
  chmod(path_.c_str(), 0400);
  EXPECT_TRUE(read_secret(path_).ok());
}

TEST_F(SecretFile, IsRefusedIfOthersMayReadItOrItIsShort) {
  for (const mode_t mode : {0640u, 0604u, 0644u, 0620u}) {
    write_text(kSecret, mode);
    const auto secret = read_secret(path_);
    ASSERT_FALSE(secret.ok());
    EXPECT_NE(secret.error().text.find("chmod 600"), std::string::npos);
  }
  for (const std::string& text : {std::string(), std::string("\n"), std::string(31, 'a'),
                                  std::string(4097, 'a'), std::string(100'000, 'a')}) {
    write_text(text, 0600);
    EXPECT_FALSE(read_secret(path_).ok());
  }
  EXPECT_FALSE(read_secret("/nowhere").ok());
  EXPECT_FALSE(read_secret("/tmp").ok());
}

TEST_F(SecretFile, IsNotMadeOverAnotherFile) {
  EXPECT_TRUE(make_secret(path_, kSecret));
  unlink(path_.c_str());
  EXPECT_FALSE(make_secret(path_, kSecret));
  EXPECT_TRUE(read_secret(path_).ok());
}

// --- Agents that join

TEST(HostAndPort, AreSplit) {
  using P = std::pair<std::string, std::string>;
  EXPECT_EQ(host_and_port(":7000"), P("", "7000"));
  EXPECT_EQ(host_and_port("head.example:7"), P("head.example", "7"));
  EXPECT_EQ(host_and_port("[fd00::5]:7000"), P("fd00::5", "7000"));
  for (const char* wrong : {"", "a", "a:", "a:x", "a:70000", "a:-1", "fd00::5", "a:123456", ":"}) {
    EXPECT_EQ(host_and_port(wrong).second, "") << wrong;
  }
}

class Gathered : public testing::Test {
 protected:
  void open(std::vector<std::string> names) {
    agents_.emplace(
        loop_, library(),
        JoinedAgents::Settings{"127.0.0.1:0", kSecret, "1.2.3", std::move(names), 60'000'000'000,
                               true},
        JoinedAgents::Calls{
            [this] { complete_ = true; }, [this](const Error& error) { failed_ = error.text; },
            [this](const std::string& name) { late_.push_back(name); },
            [this](const std::string& name, const std::string&) { left_.push_back(name); },
            [this](const std::string& line) { lines_.push_back(line); }});
    ASSERT_FALSE(agents_->listen());
  }
  // An agent that says this about itself.
  std::unique_ptr<End> join(const std::string& version, const std::string& name,
                            const std::string& address = "") {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(agents_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    auto end = std::make_unique<End>(loop_, Descriptor(fd), TlsSide::kConnects, kSecret);
    Report report;
    report.mutable_joined()->set_version(version);
    report.mutable_joined()->set_name(name);
    report.mutable_joined()->set_address(address);
    end->stream->send(report.SerializeAsString());
    return end;
  }
  // Why it was refused; empty: it was not, so far.
  static std::string refusal(const End& end) {
    Order order;
    if (end.messages.empty() || !order.ParseFromString(end.messages[0])) return {};
    return order.refused();
  }
  static bool is_admitted(const End& end) {
    Order order;
    return !end.messages.empty() && order.ParseFromString(end.messages[0]) &&
           order.what_case() == Order::kAdmitted;
  }
  std::size_t told(const std::string& what) const {
    return static_cast<std::size_t>(std::count_if(
        lines_.begin(), lines_.end(),
        [&](const std::string& line) { return line.find(what) != std::string::npos; }));
  }

  Loop loop_{monotonic_ns()};
  std::optional<JoinedAgents> agents_;
  bool complete_ = false;
  std::string failed_;
  std::vector<std::string> late_, left_, lines_;
};

TEST_F(Gathered, AreCompleteWhenEachNameIsThere) {
  open({"a", "b"});
  const auto b = join("1.2.3", "b"), x = join("1.2.3", "x"), old = join("1.2.2", "a");
  std::unique_ptr<End> a;
  run_until(loop_, [&] {
    if (!a && !refusal(*x).empty() && !refusal(*old).empty()) a = join("1.2.3", "a");
    return complete_ && is_admitted(*a) && is_admitted(*b);
  });
  EXPECT_EQ(agents_->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(is_admitted(*x));
  EXPECT_EQ(refusal(*old),
            "it has Rejoin 1.2.2, and ftrun is 1.2.3; install the same on every host");
  EXPECT_EQ(
      told("the agent of host a (127.0.0.1) was refused: it has Rejoin 1.2.2, and ftrun is 1.2.3"),
      1u);
  EXPECT_EQ(told("host x"), 1u);
  EXPECT_EQ(agents_->take("a").address, "127.0.0.1");
  EXPECT_FALSE(agents_->take("a").stream);
}

TEST_F(Gathered, HaveTheNamesThatTheyGive) {
  open({"", ""});
  const auto one = join("1.2.3", "same"), other = join("1.2.3", "same");
  std::unique_ptr<End> last;
  run_until(loop_, [&] {
    if (!last && !(refusal(*one) + refusal(*other)).empty()) last = join("1.2.3", "last");
    return complete_;
  });
  EXPECT_EQ(agents_->names(), (std::vector<std::string>{"same", "last"}));
  EXPECT_NE(refusal(*one).empty(), refusal(*other).empty());
  EXPECT_EQ(told("host same"), 1u);
}

TEST_F(Gathered, AreReachedByAllOthers) {
  open({"", ""});
  const auto one = join("1.2.3", "one", "10.0.0.1"), other = join("1.2.3", "other");
  run_until(loop_, [&] { return !(refusal(*one) + refusal(*other)).empty(); });
  EXPECT_EQ(told("host other has joined at 127.0.0.1, where others cannot reach it"), 1u);
}

TEST_F(Gathered, MayLeaveAndJoinLate) {
  open({""});
  auto first = join("1.2.3", "a");
  std::unique_ptr<End> second, third, fourth;
  run_until(loop_, [&] {
    if (complete_ && !second) {
      agents_->take("a");  // its connection ends
      second = join("1.2.3", "b");
    }
    if (late_.size() == 1 && second) second.reset();
    if (left_.size() == 1 && !third) {
      third = join("1.2.3", "a");  // that name is taken
    }
    if (third && !refusal(*third).empty() && !fourth) {
      agents_->gone("a");
      fourth = join("1.2.3", "a");
    }
    return late_.size() == 2;
  });
  EXPECT_EQ(late_, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(left_, (std::vector<std::string>{"b"}));
}

TEST_F(Gathered, RefuseOthersIfTheJobNeedsNone) {
  open({""});
  const auto first = join("1.2.3", "a");
  std::unique_ptr<End> second;
  run_until(loop_, [&] {
    if (complete_ && !second) {
      agents_->close();
      second = join("1.2.3", "b");
    }
    return second && !refusal(*second).empty();
  });
  EXPECT_TRUE(late_.empty());
}

}  // namespace
}  // namespace rejoin::launcher
