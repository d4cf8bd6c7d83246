// Shared by tests of a rank's observations: incarnations that record and replay.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "libc_recording/observations.h"
#include "thread_job.h"

namespace rejoin::test {

using libc_recording::Event;
using libc_recording::ObservationKind;
using libc_recording::Observations;
using libc_recording::OpenedFile;
using libc_recording::Series;

// A job whose rank 0 is alive within each incarnation().
class ObservationsTest : public testing::Test {
 protected:
  void incarnation(const std::function<void(Observations&)>& body, std::uint32_t rank = 0) {
    job_.run_one(rank, [&](Rank& r, Rank::Comm&) {
      Observations observations(r);
      body(observations);
    });
  }
  journal::Log& log(std::uint32_t rank = 0) {
    return journal::region_of(job_.base(), rank)->observations;
  }
  std::vector<unsigned> bytes() {
    std::vector<unsigned> all;
    for (std::uint64_t i = libc_recording::kHeadBytes; i < log().tail.load(); ++i) {
      all.push_back(static_cast<unsigned>(*journal::log_at<std::byte>(job_.base(), log(), i)));
    }
    return all;
  }

  ThreadJob job_{2};
};

inline void record(Observations& o, Series series, std::int64_t value) {
  std::int64_t given = value;
  EXPECT_FALSE(o.recall(series, &given));
  o.record(series, &given);
  EXPECT_EQ(given, value);
}

inline std::int64_t recalled(Observations& o, Series series) {
  std::int64_t value = -1;
  EXPECT_TRUE(o.recall(series, &value));
  return value;
}

inline Event access(const char* name, int error = 0) {
  Event e{ObservationKind::kAccess, F_OK, name};
  e.error = error;
  return e;
}
}  // namespace rejoin::test
