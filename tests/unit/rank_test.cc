#include "recovery/rank.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "engine/collectives.h"
#include "thread_job.h"

namespace rejoin::test {
namespace {

using recovery::Call;
using recovery::OpKind;
using recovery::Outcome;
using recovery::ReplicatedSpec;
using recovery::Status;

std::int64_t input_of(std::uint32_t rank, std::size_t i) {
  return static_cast<std::int64_t>((rank + 1) * 1000003 + i * 7 + (i >> 5) * rank);
}

// Runs one Allreduce of `count` int64 and checks every element.
void allreduce(Rank& rank, Rank::Comm& comm, std::size_t count, bool early, bool user = false) {
  std::vector<std::int64_t> in(count), out(count, -1);
  for (std::size_t i = 0; i < count; ++i) in[i] = input_of(comm.members.rank, i);
  engine::Reduction sum = sum_of_int64();
  sum.user = user;
  ReplicatedSpec u;
  u.input = in.data();
  u.input_bytes = u.result_bytes = count * sizeof(std::int64_t);
  u.reduction = &sum;
  u.early = early ? out.data() : nullptr;
  const std::byte* result = nullptr;
  const Outcome o = rank.replicated(comm, call(OpKind::kAllreduce, u.input_bytes), u);
  ASSERT_EQ(o.status, Status::kOk);
  result = o.data();
  if (count > 0 && result != reinterpret_cast<std::byte*>(out.data())) {
    std::memcpy(out.data(), result, u.result_bytes);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t expected = 0;
    for (std::uint32_t r = 0; r < comm.members.size; ++r) expected += input_of(r, i);
    ASSERT_EQ(out[i], expected) << "element " << i << " of " << count;
  }
}

void bcast(Rank& rank, Rank::Comm& comm, std::uint32_t root, std::size_t count) {
  std::vector<std::int64_t> data(count, -1);
  const bool is_root = comm.members.rank == root;
  for (std::size_t i = 0; is_root && i < count; ++i) data[i] = input_of(root, i);
  ReplicatedSpec u;
  u.input = is_root ? data.data() : nullptr;
  u.input_bytes = is_root ? count * 8 : 0;
  u.result_bytes = count * 8;
  u.early = is_root ? nullptr : data.data();
  const std::byte* result = nullptr;
  const Outcome o =
      rank.replicated(comm, call(OpKind::kBcast, count * 8, static_cast<int>(root)), u);
  ASSERT_EQ(o.status, Status::kOk);
  result = o.data();
  if (!is_root && count > 0 && result != reinterpret_cast<std::byte*>(data.data())) {
    std::memcpy(data.data(), result, count * 8);
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], input_of(root, i));
}

void allgather(Rank& rank, Rank::Comm& comm, std::size_t count) {
  std::vector<std::int64_t> in(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = input_of(comm.members.rank, i);
  ReplicatedSpec u;
  u.input = in.data();
  u.input_bytes = count * 8;
  u.result_bytes = count * 8 * comm.members.size;
  const std::byte* result = nullptr;
  const Outcome o = rank.replicated(comm, call(OpKind::kAllgather, count * 8), u);
  ASSERT_EQ(o.status, Status::kOk);
  result = o.data();
  for (std::uint32_t r = 0; r < comm.members.size; ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t x;
      std::memcpy(&x, result + (r * count + i) * 8, 8);
      ASSERT_EQ(x, input_of(r, i));
    }
  }
}

void reduce(Rank& rank, Rank::Comm& comm, std::uint32_t root, std::size_t count) {
  std::vector<std::int64_t> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = input_of(comm.members.rank, i);
  const engine::Reduction sum = sum_of_int64();
  engine::Reduce fold(root, in.data(), count * 8, sum, out.data(), nullptr, nullptr, nullptr);
  const Call at = call(OpKind::kReduce, count * 8, static_cast<int>(root));
  ASSERT_EQ(rank.channel(comm, at, in.data(), count * 8, fold).status, Status::kOk);
  for (std::size_t i = 0; comm.members.rank == root && i < count; ++i) {
    std::int64_t expected = 0;
    for (std::uint32_t r = 0; r < comm.members.size; ++r) expected += input_of(r, i);
    ASSERT_EQ(out[i], expected);
  }
}

class Sizes : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Sizes, EveryOperationAtEveryLength) {
  ThreadJob job(GetParam());
  job.run([](Rank& rank, Rank::Comm& world) {
    for (std::size_t count : {0, 1, 2, 4, 5, 17, 100, 600, 5000, 40000, 150001}) {
      allreduce(rank, world, count, false);
      allreduce(rank, world, count, true);
      allreduce(rank, world, count, false, true);
      bcast(rank, world, static_cast<std::uint32_t>(count % world.members.size), count);
      allgather(rank, world, count / world.members.size);
      reduce(rank, world, world.members.size - 1, count);
    }
  });
}

TEST_P(Sizes, AReplayIsAnsweredByTheJournalAlone) {
  ThreadJob job(GetParam());
  const auto body = [](Rank& rank, Rank::Comm& world) {
    for (std::size_t count : {1, 3, 700, 40000}) {
      allreduce(rank, world, count, true);
      bcast(rank, world, 0, count);
      reduce(rank, world, 0, count);
    }
  };
  job.run(body);
  // No other rank runs, so the new incarnation gets everything from journals.
  const std::uint32_t last = GetParam() - 1;
  job.restart(last);
  job.run_one(last, body);
  const auto* control = journal::control_of(job.base(), last);
  if (GetParam() > 1) {
    EXPECT_EQ(control->replayed.load(), 12u);
    EXPECT_EQ(control->live_since.load(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(1, 2, 3, 4, 5, 7, 8, 13, 17, 26));

class FewRanks : public testing::TestWithParam<std::uint32_t> {};

// With a full journal nothing is retained, results are right, and memory stops growing.
TEST_P(FewRanks, AFullJournalRecyclesMemory) {
  ThreadJob job(GetParam(), 8 << 20);
  std::atomic<std::uint64_t> halfway{0};
  const int rounds = 200;
  job.run([&](Rank& rank, Rank::Comm& world) {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t count : {1, 600, 20000}) {
        allreduce(rank, world, count, round % 2 == 0);
        bcast(rank, world, static_cast<std::uint32_t>(round) % world.members.size, count);
        reduce(rank, world, 0, count);
        allgather(rank, world, count / world.members.size);
      }
      if (round == rounds / 2 && rank.rank() == 0) {
        halfway = journal::control_of(job.base(), 0)->backed_bytes.load();
      }
    }
    for (int i = 0; i < 20000; ++i) bcast(rank, world, 0, 1);  // the root must not lap the others
  });
  if (GetParam() == 1) return;
  EXPECT_LT(journal::control_of(job.base(), 0)->backed_bytes.load(), halfway.load() + (2 << 20));
}

TEST_P(FewRanks, AFullJournalRecyclesMemoryOfBroadcastsAlone) {
  const std::uint32_t n = GetParam();
  ThreadJob job(n, 1 << 20);
  job.run([&](Rank& rank, Rank::Comm& world) {
    std::vector<std::uint32_t> data(5000);
    for (std::uint32_t i = 0; i < 2000; ++i) {
      if (rank.rank() == 0) std::fill(data.begin(), data.end(), i);
      recovery::ReplicatedSpec u;
      u.input = rank.rank() == 0 ? data.data() : nullptr;
      u.input_bytes = rank.rank() == 0 ? data.size() * 4 : 0;
      u.result_bytes = data.size() * 4;
      const std::byte* result = nullptr;
      const Outcome o =
          rank.replicated(world, call(recovery::OpKind::kBcast, u.result_bytes, 0), u);
      ASSERT_EQ(o.status, Status::kOk);
      result = o.data();
      if (rank.rank() != 0) std::memcpy(data.data(), result, u.result_bytes);
      ASSERT_EQ(data.front(), i);
      ASSERT_EQ(data.back(), i);
    }
  });
  // 40 MB were broadcast; a single rank records nothing.
  for (std::uint32_t r = 0; r < n; ++r) {
    EXPECT_LT(journal::control_of(job.base(), r)->backed_bytes.load(), 20u << 20) << r;
  }
}

TEST(Region, PermanentMemoryIsAllocatedToTwoThreads) {
  ThreadJob job(1);
  job.run([](Rank& rank, Rank::Comm&) {
    constexpr int kEach = 4000;
    std::vector<journal::Offset> places[2];
    const auto take = [&](int who) {
      for (int i = 0; i < kEach; ++i)
        places[who].push_back(rank.region().memory().allocate_permanent(100));
    };
    std::thread other(take, 0);
    take(1);
    other.join();
    std::set<journal::Offset> all(places[0].begin(), places[0].end());
    all.insert(places[1].begin(), places[1].end());
    EXPECT_EQ(all.size(), 2u * kEach);
    EXPECT_EQ(all.count(0), 0u);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FewRanks, testing::Values(1, 2, 3, 5));

// Operations are objects that advance: several may be outstanding, in one communicator and in
// several, and members may enter them in different orders.
TEST_P(FewRanks, OutstandingOperationsDoNotDisturbEachOther) {
  ThreadJob job(GetParam());
  job.run([](Rank& rank, Rank::Comm& world) {
    Rank::Comm* other =
        rank.make_comm(journal::derive_context(0, 1, 9), world.members.world, world.members.size);
    const engine::Reduction sum = sum_of_int64();
    for (const std::size_t count : {std::size_t{2}, std::size_t{600}, std::size_t{70000}}) {
#if defined(__SANITIZE_THREAD__)
      // With 600 elements every member reads all staging buffers, and the next operation may reuse
      // them while a slow member still reads. That member then sees another owner after its read,
      // discards what it has read, and finds a record (Must 4). ThreadSanitizer sees only the two
      // accesses, so here every member has read before the next size begins. The overlap is tested
      // in the other builds, and in the simulator (rule ValidateAll).
      allreduce(rank, world, 0, false);
#endif
      constexpr int kOps = 6;
      std::vector<std::int64_t> in[kOps], out[kOps];
      ReplicatedSpec specs[kOps];
      Outcome outcomes[kOps];
      std::optional<Rank::ReplicatedOp> op[kOps];
      const auto comm_of = [&](int k) { return k % 2 == 0 ? &world : other; };
      for (int turn = 0; turn < kOps; ++turn) {
        // Odd ranks enter the operations of the two communicators in the opposite order.
        const int k = rank.rank() % 2 == 0 ? turn : turn ^ 1;
        in[k].assign(count, static_cast<std::int64_t>(rank.rank() + 10 * k));
        out[k].assign(count, -1);
        ReplicatedSpec& u = specs[k];
        u.input = in[k].data();
        u.input_bytes = u.result_bytes = count * 8;
        u.reduction = &sum;
        u.early = k % 3 == 0 ? out[k].data() : nullptr;
        rank.enter(op[k], *comm_of(k), call(OpKind::kAllreduce, count * 8), u, &outcomes[k], false);
      }
      bool done[kOps] = {};
      journal::wait_until(rank.host(), [&](bool thorough) {
        bool all = true;
        for (int k = kOps; k-- > 0;) {  // the newest first
          if (!done[k]) done[k] = op[k]->advance(thorough) != journal::Progress::kPending;
          all &= done[k];
        }
        return all;
      });
      const auto n = static_cast<std::int64_t>(world.members.size);
      for (int k = 0; k < kOps; ++k) {
        ASSERT_EQ(outcomes[k].status, Status::kOk);
        const auto* got = reinterpret_cast<const std::int64_t*>(outcomes[k].data());
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          ASSERT_EQ(got[i], n * (n - 1) / 2 + 10 * k * n) << "operation " << k;
        }
      }
    }
    rank.free_comm(other);
  });
}

// If the root did not wait, the journal of a root that is faster than its readers would grow
// without end.
TEST(Broadcast, ARootWaitsForReadersThatAreFarBehind) {
  constexpr int kOps = 40;
  constexpr std::size_t kBytes = 1 << 20;
  ThreadJob job(2);
  std::atomic<bool> waits = false;
  job.run([&](Rank& rank, Rank::Comm& world) {
    const bool is_root = rank.rank() == 0;
    std::vector<std::byte> data(kBytes);
    if (!is_root) waits.wait(false);
    for (int k = 0; k < kOps; ++k) {
      if (is_root) std::fill(data.begin(), data.end(), static_cast<std::byte>(k));
      ReplicatedSpec u;
      u.input = is_root ? data.data() : nullptr;
      u.input_bytes = is_root ? kBytes : 0;
      u.result_bytes = kBytes;
      Outcome outcome;
      std::optional<Rank::ReplicatedOp> op;
      rank.enter(op, world, call(OpKind::kBcast, kBytes, 0), u, &outcome, false);
      journal::Progress p = op->advance(true);
      if (is_root && p == journal::Progress::kPending && !waits) {
        EXPECT_EQ(
            k, engine::operations_ahead(rank.host(), kBytes, false, rank.host().may_read_others()));
        waits = true;
        waits.notify_all();
      }
      journal::wait_until(rank.host(), [&](bool thorough) {
        if (p == journal::Progress::kPending) p = op->advance(thorough);
        return p != journal::Progress::kPending;
      });
      ASSERT_EQ(outcome.status, Status::kOk);
      ASSERT_EQ(outcome.data()[kBytes - 1], static_cast<std::byte>(k));
    }
    EXPECT_TRUE(waits);
    waits = true;
    waits.notify_all();
  });
}

// There are more communicators than one table of contexts holds, and all are found again.
TEST_P(FewRanks, ManyCommunicators) {
  ThreadJob job(GetParam());
  job.run([](Rank& rank, Rank::Comm& world) {
    for (std::uint64_t i = 0; i < 5000; ++i) {
      Rank::Comm* c = rank.make_comm(journal::derive_context(0, i, 10), world.members.world,
                                     world.members.size);
      ASSERT_NE(c, nullptr);
      if (i % 100 == 0) allreduce(rank, *c, 3, false);
      rank.free_comm(c);
    }
  });
  for (std::uint64_t i = 0; i < 5000; ++i) {
    EXPECT_NE(journal::find_block(job.base(), 0, journal::derive_context(0, i, 10)), nullptr);
  }
}

// Cached words of the segment can be read again, which a woken process must do.
TEST(Rebase, AppendsAfterTheElementsOfAnotherProcess) {
  ThreadJob job(1);
  job.run([&](Rank& rank, Rank::Comm&) {
    auto* head = rank.region().head();
    journal::LogWriter<journal::Marked, engine::ShmHost> mine(rank.host(), rank.region(),
                                                              head->marked, true);
    auto other = mine;
    for (std::uint64_t i = 0; i < 300; ++i) {
      auto& writer = i / 50 % 2 == 0 ? mine : other;
      if (i % 50 == 0) writer.rebase();
      writer.next()->key = i;
      writer.publish(journal::Step::kObserve);
    }
    mine.rebase();
    ASSERT_EQ(mine.tail(), 300u);
    for (std::uint64_t i = 0; i < 300; ++i) EXPECT_EQ(mine.at(i)->key, i);
  });
}

TEST(Disagreement, OfKindIsAnErrorAtEveryMember) {
  ThreadJob job(3);
  std::atomic<int> mismatches{0};
  job.run([&](Rank& rank, Rank::Comm& world) {
    std::int64_t x = 1;
    const engine::Reduction sum = sum_of_int64();
    ReplicatedSpec u;
    u.input = &x;
    u.input_bytes = u.result_bytes = 8;
    u.reduction = &sum;
    const auto kind = rank.rank() == 1 ? OpKind::kAllreduce : OpKind::kBarrier;
    if (kind == OpKind::kBarrier) u = ReplicatedSpec();
    const Status s = rank.replicated(world, call(kind, u.input_bytes), u).status;
    if (s == Status::kMismatch) {
      ++mismatches;
      EXPECT_NE(std::strstr(rank.last_error(), "MPI_"), nullptr);
    }
  });
  EXPECT_EQ(mismatches, 3);
}

TEST(Disagreement, OfTwoRootsIsFoundInTheNextOperation) {
  ThreadJob job(2);
  std::atomic<int> mismatches{0};
  job.run([&](Rank& rank, Rank::Comm& world) {
    std::int64_t x = 1;
    ReplicatedSpec u;
    u.input = &x;
    u.input_bytes = u.result_bytes = 8;
    const Call bcast_of_mine = call(OpKind::kBcast, 8, static_cast<int>(rank.rank()));
    EXPECT_EQ(rank.replicated(world, bcast_of_mine, u).status, Status::kOk);
    const Status s = rank.replicated(world, call(OpKind::kBarrier, 0), {}).status;
    mismatches += s == Status::kMismatch;
    if (std::strstr(rank.last_error(), "rank 0 calls") != nullptr) {
      EXPECT_NE(std::strstr(rank.last_error(), "earlier operation"), nullptr) << rank.last_error();
      EXPECT_NE(std::strstr(rank.last_error(), "MPI_Bcast"), nullptr) << rank.last_error();
    }
  });
  EXPECT_EQ(mismatches, 2);
}

TEST(Disagreement, OfRootAndOfKindWithAChannel) {
  for (const bool channel : {false, true}) {
    ThreadJob job(2);
    std::atomic<int> mismatches{0};
    job.run([&](Rank& rank, Rank::Comm& world) {
      std::int64_t x = 1;
      ReplicatedSpec u;
      u.result_bytes = 8;
      Status s;
      if (channel && rank.rank() == 1) {
        std::int64_t out;
        const engine::Reduction sum = sum_of_int64();
        engine::Reduce fold(1, &x, 8, sum, &out, nullptr, nullptr, nullptr);
        s = rank.channel(world, call(OpKind::kReduce, 8, 1), &x, 8, fold).status;
      } else {  // each waits for the other's broadcast
        s = rank.replicated(world, call(OpKind::kBcast, 8, 1 - static_cast<int>(rank.rank())), u)
                .status;
      }
      mismatches += s == Status::kMismatch;
    });
    EXPECT_EQ(mismatches, 2);
  }
}

}  // namespace
}  // namespace rejoin::test
