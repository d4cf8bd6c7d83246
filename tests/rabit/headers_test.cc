// Tests the headers that the ancestor's programs include besides rabit.h.
#include <dmlc/io.h>
#include <gtest/gtest.h>
#include <rabit/internal/socket.h>
#include <rabit/internal/thread_local.h>
#include <rabit/internal/timer.h>
#include <rabit/rabit.h>

#include <thread>
#include <type_traits>

namespace {

using rabit::utils::PollHelper;
using rabit::utils::SockAddr;
using rabit::utils::TCPSocket;

static_assert(std::is_same<dmlc::Stream, rabit::Stream>::value, "one type");
static_assert(std::is_same<dmlc::Serializable, rabit::Serializable>::value, "one type");

// The two ends of a connection within this machine.
struct Connection {
  TCPSocket one, other;
  Connection() {
    TCPSocket listening;
    listening.Create();
    const int port = listening.TryBindHost(20000 + getpid() % 20000, 65000);
    EXPECT_GT(port, 0);
    listening.Listen();
    one.Create();
    EXPECT_TRUE(one.Connect(SockAddr("127.0.0.1", port)));
    other = listening.Accept();
    listening.Close();
    EXPECT_TRUE(listening.IsClosed() && listening.BadSocket());
  }
  ~Connection() {
    one.Close();
    other.Close();
  }
};

TEST(Sockets, Addresses) {
  const SockAddr address("127.0.0.1", 4711);
  EXPECT_EQ(address.AddrStr(), "127.0.0.1");
  EXPECT_EQ(address.port(), 4711);
  EXPECT_FALSE(SockAddr::GetHostName().empty());
}

TEST(Sockets, BytesAndStrings) {
  Connection c;
  EXPECT_EQ(c.one.SendAll("abcd", 4), 4u);
  char text[4];
  EXPECT_EQ(c.other.RecvAll(text, sizeof text), 4u);
  EXPECT_EQ(std::string(text, 4), "abcd");
  for (const char* sent : {"", "a text"}) {
    std::string got = "before";
    c.other.SendStr(sent);
    c.one.RecvStr(&got);
    EXPECT_EQ(got, sent);
  }
  EXPECT_FALSE(c.one.BadSocket());
  EXPECT_EQ(c.one.AtMark(), 0);
}

TEST(Sockets, APortInUseIsPassedOver) {
  TCPSocket first, second;
  first.Create();
  const int port = first.TryBindHost(20000 + getpid() % 20000, 65000);
  first.Listen();
  second.Create();
  EXPECT_EQ(second.TryBindHost(port, port + 1), -1);
  first.Close();
  second.Close();
}

TEST(Sockets, NonBlockingReadsAreShort) {
  Connection c;
  c.one.SetNonBlock(true);
  char text[4];
  EXPECT_EQ(c.one.RecvAll(text, sizeof text), 0u);
  EXPECT_TRUE(TCPSocket::LastErrorWouldBlock());
}

TEST(Sockets, Poll) {
  Connection c;
  PollHelper poll;
  poll.WatchRead(c.one);
  poll.WatchWrite(c.one);
  poll.Poll();
  EXPECT_FALSE(poll.CheckRead(c.one));
  EXPECT_TRUE(poll.CheckWrite(c.one));
  EXPECT_EQ(c.other.Send("x", 1, MSG_OOB), 1);
  EXPECT_EQ(PollHelper::WaitExcept(c.one, 10000), 1);
  EXPECT_EQ(c.other.Send("y", 1), 1);
  poll.WatchRead(c.one);
  poll.WatchException(c.one);
  poll.Poll(10000);
  EXPECT_TRUE(poll.CheckRead(c.one) || poll.CheckExcept(c.one));
}

TEST(SocketsDeathTest, FatalErrors) {
  TCPSocket socket;
  EXPECT_EXIT(socket.Close(), testing::ExitedWithCode(255), "the socket is not open");
  EXPECT_EXIT(socket.Listen(), testing::ExitedWithCode(255), "Listen: Bad file descriptor");
}

TEST(ThreadLocal, OneForEachThread) {
  int* mine = rabit::ThreadLocalStore<int>::Get();
  *mine = 7;
  int* theirs = nullptr;
  int value = -1;
  std::thread([&] {
    theirs = rabit::ThreadLocalStore<int>::Get();
    value = *theirs;
  }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(rabit::ThreadLocalStore<int>::Get(), mine);
}

TEST(Timer, DoesNotGoBack) {
  const double start_s = rabit::utils::GetTime();
  EXPECT_GE(rabit::utils::GetTime(), start_s);
}

}  // namespace
