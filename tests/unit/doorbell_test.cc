// Waiting where publishers have no fence: the steps of a sleeper between its two looks.
// tests/stress proves that these steps suffice.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <string>
#include <thread>

#include "engine/transport/shm/host.h"
#include "journal/waiting.h"

namespace rejoin {
namespace {

using engine::ShmHost;

class Segment {
 public:
  explicit Segment(bool light) : bytes_(journal::segment_bytes_for(2, 0)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(p);
    journal::format_segment(base_, 2, 1, 0, 2);
    journal::header_of(base_)->light_publish = light;
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() { munmap(base_, bytes_); }

  std::byte* base() const { return base_; }
  journal::AnyWord<std::uint32_t>& bell() const { return journal::control_of(base_, 0)->bell; }
  bool asleep() const { return journal::header_of(base_)->asleep[0].load() != 0; }

 private:
  std::size_t bytes_;
  std::byte* base_;
};

// Sends signals of a timer, as a profiler does.
class Alarms {
 public:
  explicit Alarms(int every_us) {
    struct sigaction action = {};
    action.sa_handler = [](int) { count = count + 1; };
    sigaction(SIGALRM, &action, &before_);
    const itimerval timer{{0, every_us}, {0, every_us}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;
  ~Alarms() {
    const itimerval off{};
    setitimer(ITIMER_REAL, &off, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }
  static inline volatile sig_atomic_t count = 0;

 private:
  struct sigaction before_;
};

TEST(Settle, IsForLightPublishing) {
  Segment segment(false);
  ShmHost host(segment.base(), 0, -1);
  EXPECT_FALSE(host.settle());
}

TEST(Settle, IsNotOverBeforeItsTime) {
  Segment segment(true);
  ShmHost host(segment.base(), 0, -1);
  const std::uint64_t start = host.now_ns();
  EXPECT_TRUE(host.settle());
  EXPECT_GE(host.now_ns() - start, ShmHost::kSettleNs);
}

TEST(Settle, IsNotEndedBySignals) {
  Segment segment(true);
  ShmHost host(segment.base(), 0, -1);
  Alarms alarms(100);
  // Repeats until one signal has arrived during the settling.
  for (sig_atomic_t before = Alarms::count; Alarms::count == before;) {
    before = Alarms::count;
    errno = 0;
    const std::uint64_t start = host.now_ns();
    EXPECT_TRUE(host.settle());
    EXPECT_GE(host.now_ns() - start, ShmHost::kSettleNs);
    EXPECT_EQ(errno, 0);
  }
}

TEST(Settle, EndsWhenTheBellIsRung) {
  Segment segment(true);
  ShmHost host(segment.base(), 0, -1);
  journal::put(segment.bell(), 1);
  errno = 0;
  EXPECT_TRUE(host.settle());
  EXPECT_EQ(errno, 0);
}

// Records the steps of a wait. The word becomes visible while the wait settles, without a ring.
struct Script : ShmHost {
  explicit Script(const Segment& s) : ShmHost(s.base(), 0, -1), segment(s) {}
  bool poll(unsigned) { return false; }
  void note(const char* what) { said += std::string(what) + (segment.asleep() ? "+ " : " "); }
  bool ready() {
    note("look");
    return word;
  }
  bool settle() {
    note("settle");
    word = arrives;
    return settles;
  }
  void sleep() {
    note("sleep");
    word = true;
  }

  const Segment& segment;
  bool arrives = true;
  bool settles = true;
  bool word = false;
  std::string said;
};

TEST(Wait, LooksAgainWithItsAnnouncementStanding) {
  Segment segment(true);
  Script script(segment);
  journal::wait_until(script, [&](bool) { return script.ready(); });
  EXPECT_EQ(script.said, "look look+ settle+ look+ ");
  EXPECT_FALSE(segment.asleep());
}

TEST(Wait, SleepsAfterTheSecondLook) {
  Segment segment(true);
  Script script(segment);
  script.arrives = false;
  journal::wait_until(script, [&](bool) { return script.ready(); });
  EXPECT_EQ(script.said, "look look+ settle+ look+ sleep+ look ");
}

TEST(Wait, LooksOnceWherePublishersHaveFences) {
  Segment segment(false);
  Script script(segment);
  script.settles = false;
  journal::wait_until(script, [&](bool) { return script.ready(); });
  EXPECT_EQ(script.said, "look look+ settle+ sleep+ look ");
}

// Two threads of one rank. The first sleeps without a limit in a wait that it began alone, and the
// second wakes it.
TEST(Threads, TheFirstLetsTheSecondIn) {
  Segment segment(false);
  ShmHost host(segment.base(), 0, -1, ShmHost::kNoLimit);
  for (int round = 0; round < 2; ++round) {
    bool word = false;  // under the host's lock
    std::thread second;
    host.enter();
    second = std::thread([&] {
      while (round == 0 && !segment.asleep()) std::this_thread::yield();
      host.share();
      host.enter();
      word = true;
      host.leave();
    });
    journal::wait_until(host, [&](bool) { return word; });
    host.leave();
    second.join();
  }
}

// share() rings before the sleeper clears its bell.
TEST(Threads, NoThreadSleepsOnceThereAreSeveral) {
  Segment segment(false);
  ShmHost host(segment.base(), 0, -1, ShmHost::kNoLimit);
  host.share();
  journal::put(segment.bell(), 0);
  host.sleep();
}

}  // namespace
}  // namespace rejoin
