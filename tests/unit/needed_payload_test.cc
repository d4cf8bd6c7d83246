// Payload that a set needs, and of which the simulator sees too little: it is named by nothing but
// a record in pieces.
#include "journal/needed_payload.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "journal/pieces.h"
#include "thread_job.h"

namespace rejoin::test {
namespace {

using journal::Offset;
using journal::Rule;

constexpr std::uint64_t kContext = 0x5eed, kSet = 7, kBytes = 5000;

// Rank 0, on this node, has a record of an operation whose result lies in rank 1's region, which is
// a copy here. Rank 1 has given those bytes twice, because all ranks have gone back in between, so
// its departure names other ones. No rank's mark has passed the operation.
class RecordInPieces : public ::testing::Test {
 protected:
  RecordInPieces() : job_(2), hosts_{{job_.base(), 0, -1}, {job_.base(), 1, -1}} {
    for (std::uint32_t r = 0; r < 2; ++r) {
      journal::control_of(job_.base(), r)->node = r;
      journal::region_of(job_.base(), r)
          ->image[0]
          .marks.number.store(hosts_[r], journal::Step::kMark, kSet);
    }
    journal::Journal<engine::ShmHost> mine(hosts_[0]), theirs(hosts_[1]);
    const std::uint32_t both[] = {0, 1};
    journal::ContextBlock* block = mine.make_block(kContext, both, 2, false, true);
    theirs.make_block(kContext, both, 2, false, true);
    first_ = theirs.allocate(kBytes);
    const Offset at = mine.allocate(sizeof(journal::PieceList) + sizeof(journal::Piece));
    auto* list = reinterpret_cast<journal::PieceList*>(job_.base() + at);
    *list = {1, 0};
    *reinterpret_cast<journal::Piece*>(list + 1) = {first_, kBytes};
    journal::LogWriter<journal::Record, engine::ShmHost> records(hosts_[0], mine.region(),
                                                                 block->records);
    mine.commit(records, 0, {0, 0, at | journal::kInPieces});
  }
  bool is_needed(Rule broken) {
    const std::uint32_t own[] = {0};
    const auto all = journal::needed_payload(job_.base(), own, 1, kSet, broken);
    return std::any_of(all.begin(), all.end(), [&](const journal::Extent& e) {
      return e.at <= first_ && first_ + kBytes <= e.at + e.bytes;
    });
  }

  ThreadJob job_;
  engine::ShmHost hosts_[2];
  Offset first_;
};

TEST_F(RecordInPieces, NamesWhatASetNeeds) {
  EXPECT_TRUE(is_needed(Rule::kNone));
  EXPECT_FALSE(is_needed(Rule::kSetNeedsPieces));
}

}  // namespace
}  // namespace rejoin::test
