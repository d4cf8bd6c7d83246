// Schedules that random runs do not reach, written move by move. Each leads to a place where one
// re-read, or one rule about memory, is all that prevents a wrong result. The job passes with all
// rules and fails if the rule is left out.
#include <gtest/gtest.h>

#include <vector>

#include "player.h"
#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

using engine::Move;
using journal::Rule;
using Comm = Player::Comm;
using Moves = std::vector<Move>;

constexpr std::size_t kSlicedCount = 1500;   // sliced, through one extent, in one chunk
constexpr std::size_t kChunksCount = 34000;  // a broadcast in chunks; its slot names the extent
constexpr std::size_t kThreeChunks = 66000;  // the last chunk uses the staging buffer of the first

struct Directed {
  const char* name;
  Rule rule;
  const char* says;  // a part of the failure's text
  World world;
  bool tagged;
  Moves moves;
  // A rule that hides the violation in this world, and is always left out.
  Rule uncovered = Rule::kNone;
};

std::ostream& operator<<(std::ostream& out, const Directed& d) { return out << d.name; }

// Rank r has published that it has reduced one more chunk, and is about to ring.
void reduces(Moves& moves, std::uint32_t r) {
  moves.push_back(Move::to(r, Step::kReduced));
  moves.push_back(Move::to(r, Step::kRing));
}

// Rank 1 has found the leader's slot, but reads from it only when the leader broadcasts from an
// extent that the same slot names. Without the re-read it writes its block there.
Directed extent() {
  Moves m;
  reduces(m, 0);
  reduces(m, 1);
  m.push_back(Move::to(2, Step::kRecord));  // rank 2 has seen all members in the first attempt
  m.push_back(Move::death(0));
  m.push_back(Move::agent());
  reduces(m, 0);  // in the second attempt
  m.push_back(Move::to(1, Step::kSlotTag));
  m.push_back(Move::to(1, Step::kCollect, 2));
  m.push_back(Move::to(2, Step::kCommit));
  m.push_back(Move::to(2, Step::kRing));
  m.push_back(Move::to(0, Step::kCommit, 3));  // the two broadcasts of rank 0 wait for no member
  World world = {"extent", 3, [](Player& p) {
                   Comm all = p.everyone();
                   p.allgather(all, kSlicedCount);
                   p.bcast(all, 0, 1);
                   p.bcast(all, 0, kChunksCount);
                   p.barrier(all);
                 }};
  world.reads_directly = false;  // a root that is read waits for its readers
  return {"ValidateExtent", Rule::kValidateExtent, "I1", world, false, m};
}

// Rank 2 completes the first attempt while the others are in the second one, which the replacement
// of rank 1 has entered with other bytes, because no record existed.
Directed fresh_extent() {
  Moves m;
  reduces(m, 0);
  reduces(m, 1);
  m.push_back(Move::to(2, Step::kRecord));
  m.push_back(Move::death(1));
  m.push_back(Move::agent());
  m.push_back(Move::to(1, Point::kPoll));
  m.push_back(Move::to(0, Step::kSlotTag));
  m.push_back(Move::to(2, Step::kCommit));
  m.push_back(Move::to(2, Step::kEnter));  // it has returned
  m.push_back(Move::to(0, Step::kReduced));
  World world = {"fresh-extent", 3, [](Player& p) {
                   Comm all = p.everyone();
                   p.allgather(all, kSlicedCount);
                   p.barrier(all);
                 }};
  return {"FreshExtent", Rule::kFreshExtent, "mixed", world, true, m};
}

// All members have reduced the last chunk except rank 3, which is in the middle of it. `left`: how
// it got there, and what rank 1 has staged by then.
Moves last_chunk(std::initializer_list<Move> left) {
  Moves m = {Move::to(0, Step::kRing)};         // it has broadcast
  for (const std::uint32_t r : {1, 0, 2, 3}) {  // the leader first
    m.push_back(Move::to(r, Step::kStaged));
    m.push_back(Move::to(r, Step::kRing));
  }
  for (unsigned chunk = 0; chunk < 2; ++chunk) {
    for (std::uint32_t r = 0; r < 4; ++r) reduces(m, r);
  }
  for (std::uint32_t r = 0; r < 3; ++r) reduces(m, r);
  m.insert(m.end(), left);
  // Rank 0 has seen that all others have reduced it; it waits only for rank 3.
  m.push_back(Move::to(0, Point::kPoll));
  // Rank 2 dies, and rank 1, the leader, begins again: its first chunk uses the staging buffer of
  // the last one.
  m.push_back(Move::death(2));
  m.push_back(Move::agent());
  m.push_back(Move::to(1, Step::kStaged));
  m.push_back(Move::to(3, Step::kRing));
  m.push_back(Move::to(0, Step::kRing));
  return m;
}

World three_chunks(bool user) {
  return {"three-chunks", 4, [user](Player& p) {
            Comm all = p.everyone();
            p.bcast(all, 0, 1);
            p.allreduce(all, kThreeChunks, {.user = user});
            p.barrier(all);
          }};
}

// Rank 0 completes with a slice that rank 3 has made from two different chunks.
Directed chunk() {
  const Moves m = last_chunk({Move::to(3, Point::kOperator, 2)});
  return {"ValidateChunk", Rule::kValidateChunk, "I1", three_chunks(false), false, m};
}

// The same with an operator of the program, which must not even be called with such operands.
Directed stable_chunk() {
  const Moves m = last_chunk({Move::to(3, Point::kOperator), Move::to(3, Step::kCollect)});
  return {"ValidateStableChunk", Rule::kValidateStable, "operand", three_chunks(true), true, m};
}

// Rank 2 is slow; the staging buffer of rank 1 is already used for the operation after the next.
Directed stable_operand() {
  const Moves m = {Move::to(0, Point::kPoll),      Move::to(1, Point::kPoll),
                   Move::to(2, Step::kCollect, 2), Move::to(1, Step::kRecord),
                   Move::to(0, Step::kRecord),     Move::to(0, Point::kPoll),
                   Move::to(1, Step::kRecord),     Move::to(1, Step::kSlotTag)};
  World world = {"stable-operand", 3, [](Player& p) {
                   Comm all = p.everyone(), pair = p.comm({1, 0});
                   p.allreduce(all, 6, {.user = true});
                   p.allreduce(pair, 7);
                   p.allreduce(pair, 8);
                   p.barrier(all);
                 }};
  return {"ValidateStableOperand", Rule::kValidateStable, "operand", world, false, m};
}

// Rank 0 is reading the mark of rank 1 while rank 1 makes version 3, and reuses the payload of
// version 2 by that mark; then rank 1 dies, and goes on at version 2.
Directed oldest_slot() {
  Moves m;
  for (const std::uint32_t r : {0, 2, 1, 0, 2, 1}) {
    m.push_back(Move::to(r, Step::kPrepare));
    m.push_back(Move::to(r, Step::kRing));
    if (r == 1) m.push_back(Move::to(1, Step::kAcknowledge));
  }
  m.push_back(Move::to(2, Step::kMark));  // rank 1 keeps version 2, as rank 0 does
  m.push_back(Move::to(0, Step::kAcknowledge));
  m.push_back(Move::to(0, Step::kMark, 4));
  m.push_back(Move::to(1, Step::kPrepare));
  m.push_back(Move::to(0, Step::kRecord));
  m.push_back(Move::death(1));
  m.push_back(Move::agent());
  World world = {"marks", 3, [](Player& p) {
                   Comm all = p.everyone(), pair = p.comm({0, 1});
                   const std::uint64_t from = p.load();
                   p.end_bootstrap_phase();
                   const bool late = p.rank() == 1;
                   if (from > 0 && late) p.bcast(pair, 0, 12);
                   for (std::uint64_t v = from; v < 4; ++v) {
                     if (!late) p.bcast(pair, 0, 12);
                     p.checkpoint(all);
                     if (late) p.bcast(pair, 0, 12);
                   }
                 }};
  world.checkpoints = true;
  return {"OldestVersionSlot",          Rule::kOldestVersionSlot, "", world, false, m,
          Rule::kTruncateBehindAllMarks};
}

// Rank 2 is in checkpoint 2, and needs after it what rank 0 has published before; meanwhile rank 0
// publishes enough for its logs to wrap.
Directed truncated(const char* name, Rule rule) {
  Moves m;
  for (const std::uint32_t r : {0, 1, 2, 0, 1, 2}) {
    m.push_back(Move::to(r, Step::kPrepare));
    m.push_back(Move::to(r, Step::kRing));
  }
  m.push_back(Move::to(2, Step::kAcknowledge));
  m.push_back(Move::to(0, Step::kPrepare));
  World world;
  find_world("wrapping", &world);
  return {name, rule, "", world, false, m};
}

// Rank 1 has broadcast far ahead when the journal is full. Rank 0 takes what was broadcast, and its
// records wrap; rank 2 has died, and still looks there for what it has missed.
Directed unread_records() {
  constexpr unsigned kBroadcasts = 13000, kMessages = 150, kMessageCount = 4096;
  Moves m;
  m.push_back(Move::to(1, Step::kCommit, kBroadcasts));
  m.push_back(Move::to(0, Step::kCommit, 200));
  m.push_back(Move::to(2, Step::kCommit, 100));
  m.push_back(Move::death(2));
  m.push_back(Move::agent());
  m.push_back(Move::to(1, Step::kPosted, kMessages));
  m.push_back(Move::agent());
  m.push_back(Move::to(2, Step::kFlag));  // it has repeated its past, and says that it is full
  m.push_back(Move::agent());
  m.push_back(Move::to(0, Step::kFlag));
  m.push_back(Move::agent());
  m.push_back(Move::to(0, Step::kCommit, kBroadcasts - 400));
  World world = {"unread", 3, [](Player& p) {
                   Comm all = p.everyone();
                   for (unsigned i = 0; i < kBroadcasts; ++i) p.bcast(all, 1, 1);
                   for (unsigned i = 0; i < kMessages; ++i) {
                     if (p.rank() == 1) p.send(all, 2, 0, kMessageCount);
                     if (p.rank() == 2) p.recv(all, 1, 0);
                   }
                 }};
  world.journal_limit_bytes = 4 << 20;
  return {"RecordsUntilRead", Rule::kRecordsUntilRead, "", world, false, m};
}

// Rank 0 has read which image rank 1 keeps, the second one. When it reads the cursors of that
// image, the third image is kept, and the slot of the second contains the cursors of the fourth,
// which never registers. Then rank 0 sends enough for its log to wrap, and rank 1 dies.
Directed kept_read_again() {
  Moves m;
  const auto sends = [&m](unsigned messages) { m.push_back(Move::to(0, Step::kPosted, messages)); };
  // Rank 1 continues; then the agent requests an image of it.
  const auto receives = [&m](unsigned messages) {
    m.push_back(Move::to(1, Step::kConsumed, messages));
    m.push_back(Move::agent());
    m.push_back(Move::to(1, Step::kFreeze));
  };
  const auto is_kept = [&m] {
    m.push_back(Move::to(1, Point::kImage));
    m.push_back(Move::agent());
  };
  sends(8);
  m.push_back(Move::to(1, Step::kReceive));
  m.push_back(Move::agent());  // it knows that the others have begun
  receives(2);
  is_kept();
  sends(60);
  receives(10);
  is_kept();
  m.push_back(Move::to(0, Step::kMark, 2));  // behind the one for records
  receives(10);
  is_kept();
  receives(40);  // more than the third image has received
  sends(260);
  m.push_back(Move::death(1));
  // Rank 2 does not begin, so no round makes a set, which would wait for rank 0.
  World world = {"kept-read-again", 3, [](Player& p) {
                   Comm all = p.everyone();
                   for (int i = 0; i < 400; ++i) {
                     if (p.rank() == 0) p.send(all, 1, 0, 1);
                     if (p.rank() == 1) p.recv(all, 0, 0);
                   }
                 }};
  world.snapshot_every_turns = 1;
  world.unfrozen = 1;  // rank 0
  // Rank 0 has no image, so it would retain all that it has sent.
  return {
      "KeptReadAgain", Rule::kKeptReadAgain, "", world, false, m, Rule::kTruncateMessagesBySender};
}

class DirectedSchedule : public testing::TestWithParam<Directed> {};

TEST_P(DirectedSchedule, PassesAndFailsWithoutTheRule) {
  const Directed& d = GetParam();
  Job job(d.world);
  ASSERT_TRUE(job.reference().good()) << job.reference().why;
  Plan plan;
  plan.options.moves = d.moves;
  plan.options.broken_too = d.uncovered;
  plan.tagged = d.tagged;
  const Result whole = job.run(plan);
  ASSERT_TRUE(whole.good()) << whole.why << "\n" << job.transcript(plan, 60);
  plan.options.broken = d.rule;
  const Result broken = job.run(plan);
  ASSERT_FALSE(broken.good()) << "not noticed\n" << job.transcript(plan, 60);
  EXPECT_EQ(broken.why.find("directed schedule"), std::string::npos) << broken.why;
  EXPECT_NE(broken.why.find(d.says), std::string::npos) << broken.why;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, DirectedSchedule,
    testing::Values(extent(), fresh_extent(), chunk(), stable_chunk(), stable_operand(),
                    oldest_slot(), kept_read_again(), unread_records(),
                    truncated("TruncateBehindAllTails", Rule::kTruncateBehindAllTails),
                    truncated("TruncateMessagesByReceiver", Rule::kTruncateMessagesByReceiver)),
    [](const testing::TestParamInfo<Directed>& d) { return std::string(d.param.name); });

}  // namespace
}  // namespace rejoin::sim
