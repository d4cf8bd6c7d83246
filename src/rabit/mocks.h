// Decides where mock deaths fire.
#pragma once

#include <utility>
#include <vector>

#include "rabit/parameters.h"

namespace rabit::internal {

// The mock deaths of one rank, as its process sees them. Not thread-safe.
//
// A mock fires where its version and sequence number are reached in its incarnation. A process that
// goes on from a snapshot is a copy of an earlier one, this object included: it may begin behind
// the place of a mock of the new incarnation, which then fires at the first call, as ftrun --kill
// does. Other incarnations run through all their places in order, so a place that they do not reach
// exactly does not exist, and its mock never fires. That holds for one that loads a checkpoint,
// too.
class MockDeaths {
 public:
  MockDeaths() = default;
  // incarnation: of the process that is being initialized.
  MockDeaths(std::vector<Mock> mocks, int rank, int incarnation) : incarnation_(incarnation) {
    for (const Mock& mock : mocks) {
      if (mock.rank == rank) mocks_.push_back(mock);
    }
  }

  // The mock that fires before the call at this place; null if there is none. To be asked once
  // before each call, with the incarnation that the process has now.
  const Mock* due(int version, int seq, int incarnation) {
    const Mock* passed = due_behind(version, seq, incarnation);
    for (const Mock& mock : mocks_) {
      if (mock.death != incarnation) continue;
      if (mock.version == version && mock.seq == seq) return &mock;
    }
    return passed;
  }

  // The same for a call that is no place of its own, such as Finalize.
  const Mock* due_behind(int version, int seq, int incarnation) {
    if (std::exchange(incarnation_, incarnation) == incarnation) return nullptr;
    for (const Mock& mock : mocks_) {
      if (mock.death == incarnation && is_passed(mock, version, seq)) return &mock;
    }
    return nullptr;
  }

  // LoadCheckPoint was called at this place. Sequence numbers begin again behind it, so a version's
  // place may come twice; the first one counts.
  void loads_at(int version, int seq) {
    version_at_load_ = version;
    seq_at_load_ = seq;
  }

 private:
  bool is_passed(const Mock& mock, int version, int seq) const {
    if (mock.version != version) return mock.version < version;
    return mock.seq < seq || (mock.version == version_at_load_ && mock.seq <= seq_at_load_);
  }

  std::vector<Mock> mocks_;
  int incarnation_ = 0;  // at the last call
  int version_at_load_ = 0;
  int seq_at_load_ = -1;  // not loaded yet
};

}  // namespace rabit::internal
