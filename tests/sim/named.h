// Worlds as parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {

// ThreadSanitizer keeps a stack of its own for each fiber, which is not restored when an image is
// woken.
inline bool can_simulate([[maybe_unused]] const World& w) {
#if defined(__SANITIZE_THREAD__)
  return w.snapshot_every_turns == 0;
#else
  return true;
#endif
}

// The worlds in which any rank may die at any time, in one of them also with a full journal.
inline std::vector<std::string> names_of_mortal_worlds(std::uint32_t most_ranks) {
  std::vector<std::string> names;
  for (const World& w : named_worlds()) {
    if (!can_simulate(w)) continue;
    const bool may_die =
        w.journal_limit_bytes == 0 || (w.snapshot_every_turns != 0 && !w.never_full);
    if (w.kills.empty() && may_die && w.ranks <= most_ranks) names.push_back(w.name);
  }
  return names;
}

// Large jobs and large buffers take longer.
inline bool is_slow(const World& w) {
  return w.ranks > 8 || w.journal_limit_bytes != 0 || w.name == "pipelined" || w.name == "chunks" ||
         w.name == "checkpoints-large";
}

// Converts "ring-of-roots" to RingOfRoots.
inline std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  std::string name;
  bool begins = true;
  for (const char c : info.param) {
    if (c != '-') name += begins ? static_cast<char>(std::toupper(c)) : c;
    begins = c == '-';
  }
  return name;
}

inline std::uint64_t scaled(std::uint64_t runs) {
  return 1 + static_cast<std::uint64_t>(static_cast<double>(runs) * effort());
}
// Whether the sweeps must reach all probes.
inline bool thorough() { return effort() >= 1; }

// Points of images, which only worlds with snapshots reach.
inline bool is_of_images(Point p) {
  return is_at(p, Step::kCursors) || is_at(p, Step::kFreeze) || is_at(p, Step::kDecide) ||
         p == Point::kImage;
}

inline bool is_of_image_worlds(Probe p) { return p >= Probe::kWoken && p <= Probe::kLost; }
// Probes of worlds whose programs are not deterministic.
inline bool is_of_bit_worlds(Probe p) { return p == Probe::kDiverged || p == Probe::kStoodStill; }
inline bool is_of_limit_worlds(Probe p) { return p == Probe::kEndedFull; }

// Random programs never test requests, cancel nothing, and have no nonblocking collective
// outstanding, so no rank can die at these points.
inline bool is_of_requests(Point p) {
  return is_at(p, Step::kOutcome) || is_at(p, Step::kCancel) || is_at(p, Step::kStanding);
}

// A rank asks for bytes only if another node has a segment of its own (apart_test.cc).
inline bool is_of_segments(Point p) { return is_at(p, Step::kAsk); }

}  // namespace rejoin::sim
