// What of the payload of a set is named by nothing but a record in pieces. The simulator hardly
// ever comes to that.
#include "journal/needed_payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "journal/pieces.h"
#include "thread_job.h"

namespace rejoin::test {
namespace {

using journal::Offset;
using journal::Rule;

constexpr std::uint64_t kContext = 0x5eed, kSet = 7, kBytes = 5000;
constexpr std::uint32_t kRanks = 3;

// Ranks 0 and 2 are on this node. Rank 0 has the record of an operation, and has passed it when the
// set is made; rank 2 has still to adopt it. Its result lies in rank 1's region, which is a copy
// here. Rank 1 has given those bytes again, elsewhere, because all ranks have gone back.
class RecordInPieces : public ::testing::Test {
 protected:
  RecordInPieces() : job_(kRanks), mine_(job_.base(), 0, -1), theirs_(job_.base(), 1, -1) {
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      journal::control_of(job_.base(), r)->node = r % 2;
      engine::ShmHost host(job_.base(), r, -1);
      journal::region_of(job_.base(), r)
          ->image[0]
          .marks.number.store(host, journal::Step::kMark, kSet);
    }
    first_ = journal::Journal<engine::ShmHost>(theirs_).allocate(kBytes);
  }

  // Gives rank 0 a list of `pieces` that names those bytes. Returns the value of a record.
  std::uint64_t list(std::uint64_t pieces) {
    const Offset at = journal_.allocate(sizeof(journal::PieceList) + sizeof(journal::Piece));
    auto* list = reinterpret_cast<journal::PieceList*>(job_.base() + at);
    *list = {pieces, 0};
    *reinterpret_cast<journal::Piece*>(list + 1) = {first_, kBytes};
    return at | journal::kInPieces;
  }
  // Gives rank 0 the record of operation 0, which is behind rank 0's mark in the set.
  void record(std::uint64_t value) {
    const std::uint32_t all[] = {0, 1, 2};
    journal::ContextBlock* block = journal_.make_block(kContext, all, kRanks, false, true);
    journal::LogWriter<journal::Record, engine::ShmHost> records(mine_, journal_.region(),
                                                                 block->records);
    journal_.commit(records, 0, {0, 0, value});
    journal::Marks& marks = journal::region_of(job_.base(), 0)->image[0].marks;
    const std::uint64_t bytes = sizeof(journal::Cursor) + 3 * kRanks * sizeof(std::uint64_t);
    marks.cursors = {journal_.allocate(bytes), bytes, bytes};
    marks.contexts = 1;
    *reinterpret_cast<journal::Cursor*>(job_.base() + marks.cursors.at) = {kContext, 1, 0, 0};
  }
  bool is_needed(Rule broken = Rule::kNone) {
    const std::uint32_t own[] = {0, 2};
    const auto all = journal::needed_payload(job_.base(), own, 1, kSet, broken);
    return std::any_of(all.begin(), all.end(), [&](const journal::Extent& e) {
      return e.at <= first_ && first_ + kBytes <= e.at + e.bytes;
    });
  }

  ThreadJob job_;
  engine::ShmHost mine_, theirs_;
  journal::Journal<engine::ShmHost> journal_{mine_};
  Offset first_;
};

TEST_F(RecordInPieces, NamesWhatASetNeeds) {
  record(list(1));
  EXPECT_TRUE(is_needed());
  EXPECT_FALSE(is_needed(Rule::kSetNeedsPieces));
}

TEST_F(RecordInPieces, IsNotNeededWhenAllHavePassedIt) {
  record(list(1));
  journal::Marks& late = journal::region_of(job_.base(), 2)->image[0].marks;
  late.cursors = journal::region_of(job_.base(), 0)->image[0].marks.cursors;
  late.contexts = 1;
  EXPECT_FALSE(is_needed());
}

// What a record has is the result itself, if that has up to 8 bytes.
TEST_F(RecordInPieces, IsNotANegativeNumber) {
  record(std::bit_cast<std::uint64_t>(-1.0));
  EXPECT_FALSE(is_needed());
}
TEST_F(RecordInPieces, IsNotTheLeastNumber) {
  record(std::bit_cast<std::uint64_t>(-0.0));
  EXPECT_FALSE(is_needed());
}
TEST_F(RecordInPieces, IsNotMinusOne) {
  record(~std::uint64_t{0});
  EXPECT_FALSE(is_needed());
}
TEST_F(RecordInPieces, HasNoMorePiecesThanRanks) {
  record(list(std::uint64_t{1} << 60));
  EXPECT_FALSE(is_needed());
}

}  // namespace
}  // namespace rejoin::test
