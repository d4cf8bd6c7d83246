// ftrun's event loop: the order of calls.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "launcher/base/loop.h"

namespace rejoin::launcher {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    read_end = Descriptor(ends[0]);
    write_end = Descriptor(ends[1]);
  }
  void fill() { EXPECT_EQ(write(write_end.get(), "x", 1), 1); }
  Descriptor read_end, write_end;
};

const auto kNothing = [] {};

TEST(Loop, PostedCallsRunInOrderBeforeTheNextDescriptor) {
  Loop loop(monotonic_ns());
  std::string done;
  Pipe a, b;
  a.fill();
  b.fill();
  const auto handler = [&](std::uint32_t) {
    done += "h";
    loop.post([&] {
      done += "1";
      loop.post([&] { done += "3"; });
    });
    loop.post([&] { done += "2"; });
    if (done.size() > 1) loop.post([&] { loop.stop(); });
  };
  Loop::Watch first(loop, a.read_end.get(), EPOLLIN, handler);
  Loop::Watch second(loop, b.read_end.get(), EPOLLIN, handler);
  loop.run(kNothing);
  EXPECT_EQ(done.substr(0, 5), "h123h");
}

TEST(Loop, WatchesOfTheLastTurnRunAfterAllOthers) {
  Loop loop(monotonic_ns());
  std::string done;
  Pipe a, b;
  a.fill();
  b.fill();
  Loop::Watch last(
      loop, a.read_end.get(), EPOLLIN,
      [&](std::uint32_t) {
        done += "last";
        loop.stop();
      },
      Loop::Turn::kLast);
  Loop::Watch first(loop, b.read_end.get(), EPOLLIN, [&](std::uint32_t) { done += "first "; });
  loop.run(kNothing);
  EXPECT_EQ(done, "first last");
}

TEST(Loop, AWatchThatIsEndedByAnotherIsNotCalled) {
  Loop loop(monotonic_ns());
  Pipe a, b;
  a.fill();
  b.fill();
  std::optional<Loop::Watch> one, other;
  int calls = 0;
  const auto handler = [&](std::uint32_t) {
    ++calls;
    one.reset();
    other.reset();
    loop.stop();
  };
  one.emplace(loop, a.read_end.get(), EPOLLIN, handler);
  other.emplace(loop, b.read_end.get(), EPOLLIN, handler);
  loop.run(kNothing);
  EXPECT_EQ(calls, 1);
}

TEST(Loop, PausedAndResumed) {
  Loop loop(monotonic_ns());
  Pipe a;
  a.fill();
  int calls = 0;
  Loop::Watch watch(loop, a.read_end.get(), EPOLLIN, [&](std::uint32_t) {
    ++calls;
    loop.stop();
  });
  watch.pause();
  Loop::Timer timer(loop, [&] {
    EXPECT_EQ(calls, 0);
    watch.want(EPOLLIN);
  });
  timer.set(loop.now_ns() + 20'000'000);
  loop.run(kNothing);
  EXPECT_EQ(calls, 1);
}

// epoll refuses files, but they can always be read and written.
TEST(Loop, FilesAreAlwaysReady) {
  Loop loop(monotonic_ns());
  char path[] = "/tmp/loop-test-XXXXXX";
  const Descriptor file(mkstemp(path));
  unlink(path);
  ASSERT_TRUE(file.open());
  Loop::Watch watch(loop, file.get(), EPOLLIN, [&](std::uint32_t happened) {
    EXPECT_EQ(happened, static_cast<std::uint32_t>(EPOLLIN));
    loop.stop();
  });
  loop.run(kNothing);
}

TEST(Loop, ATimerRunsAtTheTimeThatWasSetLast) {
  Loop loop(monotonic_ns());
  std::string done;
  Loop::Timer a(loop, [&] { done += "a"; });
  Loop::Timer b(loop, [&] { done += "b"; });
  Loop::Timer c(loop, [&] { done += "c"; });
  Loop::Timer end(loop, [&] { loop.stop(); });
  a.set(loop.now_ns() + 1'000'000);
  b.set(loop.now_ns() + 2'000'000);
  c.set(loop.now_ns() + 3'000'000);
  end.set(loop.now_ns() + 30'000'000);
  a.set(loop.now_ns() + 10'000'000);
  c.clear();
  loop.run(kNothing);
  EXPECT_EQ(done, "ba");
}

// The loop runs what idle() posts, and calls idle() again, before it waits.
TEST(Loop, IdleRunsUntilNothingIsQueued) {
  Loop loop(monotonic_ns());
  int left = 3;
  loop.run([&] {
    if (left == 0) loop.stop();
    loop.post([&] { --left; });
  });
  EXPECT_LE(left, 0);
}

}  // namespace
}  // namespace rejoin::launcher
