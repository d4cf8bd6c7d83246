// The journal: cached words of the segment that a process reads again, memory that several threads
// allocate, and memory that is reused.
#include "journal/journal.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "journal/payload_stores.h"
#include "journal/snapshot_cost.h"
#include "thread_job.h"

namespace rejoin::test {
namespace {

using recovery::Call;
using recovery::OpKind;
using recovery::Outcome;
using recovery::ReplicatedSpec;
using recovery::Status;

// Sends one message to rank 1.
struct ToRankOne {
  const void* data;
  std::size_t bytes;

  template <class Port>
  journal::Progress advance(Port& port) {
    return port.send(1, data, bytes);
  }
};

// A process that can be rank 0 of a job of two ranks. It has cached cursors of its own, which
// become stale while another process is the rank. Rank 0 is the root of all its operations, so it
// never waits for another member.
class Process {
 public:
  explicit Process(std::byte* base)
      : memory_(std::size_t{64} << 20, MAP_PRIVATE),
        host_(base, 0, -1),
        arena_(memory_.get(), std::size_t{64} << 20),
        rank_(host_, arena_),
        journal_(host_) {
    const std::uint32_t both[] = {0, 1};
    const std::uint32_t size = rank_.size();
    world_ = rank_.make_comm(journal::derive_context(0, 0, 1), both, size);
  }

  Rank& rank() { return rank_; }
  journal::Journal<engine::ShmHost>& journal() { return journal_; }
  // Reads the words of the segment instead of this process's cached ones.
  journal::Log& records() { return world_->members.mine->records; }
  int done() const { return done_; }

  // Runs the program up to operation `end`: broadcasts and messages of several lengths, in turn,
  // from new places in new files.
  void run_to(int end) {
    for (; done_ < end; ++done_) {
      const std::size_t count = 1 + done_ % 7 * 40;
      std::vector<std::int64_t> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = value(done_, i);
      if (done_ % 2 == 0) {
        ReplicatedSpec u;
        u.input = data.data();
        u.input_bytes = u.result_bytes = count * 8;
        const Outcome o = rank_.replicated(*world_, here(OpKind::kBcast, count * 8), u);
        ASSERT_EQ(o.status, Status::kOk) << rank_.last_error();
        ASSERT_EQ(std::memcmp(o.data(), data.data(), count * 8), 0) << "operation " << done_;
      } else {
        const Call at = here(OpKind::kScatter, count * 8);
        const Outcome o =
            rank_.channel(*world_, at, data.data(), count * 8, ToRankOne{data.data(), count * 8});
        ASSERT_EQ(o.status, Status::kOk) << rank_.last_error();
      }
    }
  }

  static std::int64_t value(int operation, std::size_t i) {
    return operation * 1000 + static_cast<std::int64_t>(i);
  }

 private:
  Call here(OpKind kind, std::size_t bytes) {
    Call c = call(kind, bytes, 0);
    site_[done_ / 4] = "file" + std::to_string(done_ / 4);
    c.site = site_[done_ / 4].c_str();
    c.function = "function";
    c.line = static_cast<std::uint32_t>(done_);
    return c;
  }

  Mapping memory_;
  engine::ShmHost host_;
  journal::Arena arena_;
  Rank rank_;
  journal::Journal<engine::ShmHost>
      journal_;  // a second writer, for tests of the journal without the rank
  Rank::Comm* world_;
  std::string site_[200];
  int done_ = 0;
};

// Two processes are the rank in turn. Each replays what the other one has done, which the journal
// answers, and then does more.
TEST(Rebase, ARankGoesOnWhereAnotherProcessWas) {
  ThreadJob job(2);
  Process first(job.base()), second(job.base());
  constexpr int kStride = 60, kTurns = 10;
  const auto* control = journal::control_of(job.base(), 0);
  const journal::RegionHead* head = journal::region_of(job.base(), 0);
  journal::PeerView peers(job.base());
  const auto expect_there = [&](std::uint64_t operations) {
    EXPECT_EQ(first.records().tail.load(), operations);
    EXPECT_EQ(peers.posted(0, 1), operations / 2);
    EXPECT_EQ(head->calls.tail.load(), operations);
    EXPECT_EQ(head->modules.tail.load(), operations / 4);
  };
  for (int turn = 0; turn < kTurns && !HasFailure(); ++turn) {
    Process& now = turn % 2 == 0 ? first : second;
    const int there = turn * kStride;
    now.rank().rebase();
    // Runs one operation of each kind: existing elements are found, and not appended again.
    if (turn > 0) now.run_to(now.done() + 2);
    expect_there(there);
    now.run_to(there);
    expect_there(there);
    now.run_to(there + kStride);
  }
  ASSERT_FALSE(HasFailure());
  // Nothing was overwritten: an incarnation without cached words finds all elements.
  job.restart(0);
  Process last(job.base());
  last.run_to(kTurns * kStride);
  EXPECT_EQ(control->replayed.load(), std::uint64_t{kTurns * kStride});
  EXPECT_EQ(control->live_since.load(), 0u);
  expect_there(kTurns * kStride);
  for (std::uint32_t i = 0; i < head->modules.tail.load(); ++i) {
    EXPECT_EQ(std::string(peers.module(0, i)->path), "file" + std::to_string(i) + "::function");
  }
  for (std::uint64_t k = 0; k < peers.posted(0, 1); ++k) {
    const journal::Message m = peers.message(0, 1, k);
    EXPECT_EQ(m.written, m.bytes);
    std::int64_t first_word;
    std::memcpy(&first_word,
                m.bytes > 8 ? peers.payload(m.value, 8).data() : (const std::byte*)&m.value, 8);
    EXPECT_EQ(first_word, Process::value(static_cast<int>(2 * k + 1), 0));
  }
}

TEST(Rebase, OutcomesOfMarkedOperationsAreAppended) {
  ThreadJob job(1);
  Process first(job.base()), second(job.base());
  for (std::uint64_t i = 0; i < 300; ++i) {
    auto& journal = (i / 30 % 2 == 0 ? first : second).journal();
    if (i % 30 == 0) journal.rebase();
    ASSERT_EQ(journal.marked().tail(), i);
    journal.marked().next()->key = i;
    journal.marked().publish(journal::Step::kCommit);
  }
  for (std::uint64_t i = 0; i < 300; ++i) EXPECT_EQ(first.journal().marked().at(i)->key, i);
}

// Another process has closed the zone that this one used.
TEST(Rebase, PayloadGoesToAZoneThatIsOpen) {
  ThreadJob job(2);
  Process first(job.base()), second(job.base());
  journal::RegionHead* head = journal::region_of(job.base(), 0);
  const auto is_open_at = [&](journal::Offset at) {
    for (std::uint32_t i = 0; i < head->zones; ++i) {
      const journal::Zone& z = head->zone[i];
      if (at >= z.begin && at < z.begin + z.used) return z.interval == 0;
    }
    return false;
  };
  for (Process* p : {&first, &second}) p->journal().region().follow_versions();
  ASSERT_TRUE(is_open_at(first.journal().region().allocate(100)));
  second.journal().rebase();
  ASSERT_TRUE(is_open_at(second.journal().region().allocate(100)));
  ASSERT_EQ(head->zones, 1u);
  // The zone holds messages that rank 1 has not received.
  ASSERT_TRUE(second.journal().region().zones().close([&](journal::Zone& z) {
    if (!second.journal().region().memory().make_room(z.label, 2 * sizeof(std::uint64_t)))
      return false;
    z.contexts = 0;
    reinterpret_cast<std::uint64_t*>(job.base() + z.label.at)[0] = 0;
    reinterpret_cast<std::uint64_t*>(job.base() + z.label.at)[1] = 5;
    return true;
  }));
  ASSERT_TRUE(is_open_at(second.journal().region().allocate(100)));
  ASSERT_EQ(head->zones, 2u);
  first.journal().rebase();
  EXPECT_TRUE(is_open_at(first.journal().region().allocate(100)));
}

// The first touches of journal pages are not counted as a cost of the snapshot.
TEST(SnapshotCost, IsOfThePagesThatTheProgramWrites) {
  constexpr std::size_t kPages = 256;
  ThreadJob job(1);
  Process owner(job.base());
  journal::RankControl& control = *journal::control_of(job.base(), 0);
  const auto faults = [] {
    rusage u = {};
    getrusage(RUSAGE_THREAD, &u);
    return static_cast<std::uint64_t>(u.ru_minflt);
  };
  journal::put(control.faults_at_clone, faults());
  journal::put(control.journal_faults_at_clone, control.journal_faults.load());
  journal::put(control.clone_ns, 1);
  ASSERT_NE(owner.journal().region().allocate(kPages * journal::kPageBytes), 0u);
  EXPECT_LT(journal::pages_copied(control, faults()), kPages / 8);
  Mapping programs(kPages * journal::kPageBytes, MAP_PRIVATE);
  for (std::size_t i = 0; i < kPages; ++i) programs.get()[i * journal::kPageBytes] = std::byte{1};
  EXPECT_GE(journal::pages_copied(control, faults()), kPages);
}

// For messages that rank 1 has not received.
class Unreceived final : public journal::ZoneLabels {
 public:
  Unreceived(journal::Region<engine::ShmHost>& region, std::byte* base)
      : region_(region), base_(base) {}
  bool label(journal::Zone& z) override {
    if (!region_.memory().make_room(z.label, 2 * sizeof(std::uint64_t))) return false;
    z.contexts = 0;
    const std::uint64_t sent[2] = {0, 5};
    std::memcpy(base_ + z.label.at, sent, sizeof sent);
    return true;
  }

 private:
  journal::Region<engine::ShmHost>& region_;
  std::byte* base_;
};

// If snapshots are slow, the region has many zones of one size, which then suffice, and not one
// zone as large as all that was written in the meantime.
TEST(Zones, GrowWithTheBytesThatWaitForASnapshot) {
  ThreadJob job(2);
  Process owner(job.base());
  auto& region = owner.journal().region();
  Unreceived labels(region, job.base());
  region.follow_images(labels, 4 << 20);
  const journal::RegionHead* head = journal::region_of(job.base(), 0);
  std::map<std::uint64_t, int> zones;  // number of zones by size
  for (int i = 0; i < 96; ++i) {
    const std::uint32_t before = head->zones;
    while (head->zones == before) ASSERT_NE(region.reserve(64 << 10), 0u);
    ++zones[head->zone[before].bytes];
  }
  EXPECT_EQ(zones, (std::map<std::uint64_t, int>{{1 << 20, 32}, {2 << 20, 32}, {4 << 20, 32}}));
}

// The size of the first zones does not limit the memory. Only the journal's limit does.
TEST(Zones, SufficeWithoutAnySnapshot) {
  constexpr std::size_t kBytes = 64 << 10;
  ThreadJob job(2);
  Process owner(job.base());
  auto& region = owner.journal().region();
  Unreceived labels(region, job.base());
  region.follow_images(labels, kBytes);
  for (std::size_t at = 0; at < std::size_t{256} << 20; at += kBytes) {
    ASSERT_NE(region.reserve(kBytes), 0u) << at << " bytes in zones";
  }
}

TEST(Epochs, SufficeForADeathOfEveryRank) {
  ThreadJob job(2);
  journal::put(journal::header_of(job.base())->epoch, journal::kMaxEpochs - 2);
  EXPECT_TRUE(journal::has_epochs(job.base()));
  journal::publish_death(job.base(), 0);
  EXPECT_FALSE(journal::has_epochs(job.base()));
}

// The main thread records libc while another thread is inside MPI. In each class of sizes, both
// threads allocate what either of them has released.
TEST(Arena, NothingIsAllocatedToTwoThreads) {
  Mapping memory(std::size_t{64} << 20, MAP_PRIVATE);
  journal::Arena arena(memory.get(), std::size_t{64} << 20);
  constexpr std::size_t kHeld = 8;
  std::atomic<int> begun{0};
  const auto use = [&](std::uint64_t who) {
    for (++begun; begun.load() < 2;) std::this_thread::yield();
    std::uint64_t* held[kHeld] = {};
    for (std::uint64_t i = 0; i < 200000; ++i) {
      std::uint64_t*& p = held[i % kHeld];
      const std::size_t bytes = std::size_t{100} << i % 3;
      if (p != nullptr) {
        ASSERT_EQ(p[0], who);
        ASSERT_EQ(p[1], i - kHeld);
        arena.release(p, std::size_t{100} << (i - kHeld) % 3);
      }
      p = static_cast<std::uint64_t*>(arena.allocate(bytes));
      ASSERT_NE(p, nullptr);
      p[0] = who;
      p[1] = i;
    }
  };
  std::thread other(use, 1);
  use(2);
  other.join();
}

// A zone that is reused lies below others. Its pages are backed like any others, whatever the order
// of addresses.
TEST(Touch, MakesPagesBelowThoseThatAreThere) {
  ThreadJob job(1);
  engine::ShmHost host(job.base(), 0, -1);
  std::byte* payload = job.base() + journal::region_offset(journal::header_of(job.base()), 0) +
                       journal::payload_begin(journal::header_of(job.base()));
  const auto is_there = [](std::byte* page) {
    unsigned char resident = 0;
    EXPECT_EQ(mincore(page, 4096, &resident), 0);
    return (resident & 1) != 0;
  };
  // The pages are far apart, and have the same index in the host's cache of backed pages.
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  for (const std::size_t at : {600 * kMiB, 300 * kMiB, 88 * kMiB, 599 * kMiB, 4 * kMiB}) {
    std::byte* page = payload + at;
    ASSERT_FALSE(is_there(page)) << at;
    ASSERT_TRUE(host.touch(0, page, 4096));
    EXPECT_TRUE(is_there(page)) << at;
  }
}

// Returns the next `times` decisions ('t': through the cache, 'p': past it), if each way takes the
// given time.
std::string ways(journal::StoreChoice& choice, unsigned times, std::uint64_t through,
                 std::uint64_t past) {
  std::string taken;
  for (unsigned i = 0; i < times; ++i) {
    const bool past_cache = choice.next_is_past_cache();
    taken += past_cache ? 'p' : 't';
    choice.note(past_cache, past_cache ? past : through);
  }
  return taken;
}

TEST(StoreChoice, TakesTheFasterWayAndTriesTheOtherNowAndThen) {
  journal::StoreChoice choice;
  ways(choice, 2, 100, 50);  // each way once
  const std::string taken = ways(choice, 640, 100, 50);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 't'), 10) << taken;
}

TEST(StoreChoice, FollowsAMachineThatChanges) {
  journal::StoreChoice choice;
  ways(choice, 640, 100, 50);
  ways(choice, 640, 100, 400);
  const std::string taken = ways(choice, 640, 100, 400);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 'p'), 10) << taken;
}

TEST(StoreChoice, IsNotMisledByOneOutlier) {
  journal::StoreChoice choice;
  ways(choice, 640, 100, 80);
  choice.note(true, 1000 * 1000);
  const std::string taken = ways(choice, 640, 100, 80);
  EXPECT_GT(std::count(taken.begin(), taken.end(), 'p'), 300) << taken;
}

TEST(PayloadStores, CopyTheSameBytesEitherWayAtAnyAlignment) {
  journal::PayloadStores stores;
  std::vector<std::byte> from(12 * journal::PayloadStores::kLeastCopied), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  for (std::size_t i = 0; i < 300; ++i) {  // both ways are used
    const std::size_t skew_from = i % 67, skew_to = i % 61, bytes = from.size() - 128 - i;
    std::fill(to.begin(), to.end(), std::byte{0});
    stores.copy(to.data() + skew_to, from.data() + skew_from, bytes);
    ASSERT_EQ(std::memcmp(to.data() + skew_to, from.data() + skew_from, bytes), 0) << i;
    ASSERT_EQ(to[skew_to + bytes], std::byte{0}) << i;
    ASSERT_TRUE(skew_to == 0 || to[skew_to - 1] == std::byte{0}) << i;
  }
}

}  // namespace
}  // namespace rejoin::test
