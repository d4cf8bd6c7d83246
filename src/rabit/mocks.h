// Decides where mock deaths fire.
#pragma once

#include <utility>
#include <vector>

#include "rabit/parameters.h"

namespace rabit::internal {

// The mock deaths of one rank, as its process sees them. Not thread-safe.
//
// A mock fires where its incarnation reaches its version and sequence number. A process that goes
// on from a snapshot is a copy of an earlier one, this object included. It may begin after the
// place of a mock of the new incarnation; that mock then fires at the first call, as ftrun --kill
// does. Other incarnations, including those that load a checkpoint, reach all their places in
// order. A place that they do not reach exactly does not exist, and its mock never fires.
class MockDeaths {
 public:
  MockDeaths() = default;
  // incarnation: that of the process that is being initialized.
  MockDeaths(std::vector<Mock> mocks, int rank, int incarnation) : incarnation_(incarnation) {
    for (const Mock& mock : mocks) {
      if (mock.rank == rank) mocks_.push_back(mock);
    }
  }

  // Returns the mock that fires before the call at this place; null if there is none. Must be
  // called once before each call, with the incarnation that the process has now.
  const Mock* due(int version, int seq, int incarnation) {
    const Mock* passed = due_behind(version, seq, incarnation);
    for (const Mock& mock : mocks_) {
      if (mock.death != incarnation) continue;
      if (mock.version == version && mock.seq == seq) return &mock;
    }
    return passed;
  }

  // due() for a call that is no place of its own, such as Finalize: returns a mock only if a
  // snapshot has passed its place.
  const Mock* due_behind(int version, int seq, int incarnation) {
    if (std::exchange(incarnation_, incarnation) == incarnation) return nullptr;
    for (const Mock& mock : mocks_) {
      if (mock.death == incarnation && is_passed(mock, version, seq)) return &mock;
    }
    return nullptr;
  }

  // Called when LoadCheckPoint is called at this place. Sequence numbers begin again after it, so a
  // version may have the same place twice; the first one counts.
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
