// Where a simulated rank is: at a Step of the protocol (the same numbers), or at one of the
// simulator's own points.
#pragma once

#include <cstdint>

#include "engine/names.h"
#include "journal/layout.h"
#include "journal/step.h"

namespace rejoin::engine {

enum class Point : std::uint8_t {
  kStart = static_cast<std::uint8_t>(Step::kCount),  // the process has just begun
  kImage,                                            // an image of it is made
  kRegister,                                         // has asked to be the rank
  kWelcome,                                          // and may be
  kPoll,                                             // between two looks
  kSleep,                                            // waiting for its bell
  kOperator,                                         // inside the program's reduction operator
  kExit,                                             // its program is over
  kCount,
};
inline constexpr unsigned kPoints = static_cast<unsigned>(Point::kCount);

constexpr Point point_of(Step s) { return static_cast<Point>(s); }
constexpr bool is_at(Point p, Step s) { return p == point_of(s); }

// No simulated rank stops there.
constexpr bool is_of_no_rank(Point p) {
  return is_at(p, Step::kNotice) || is_at(p, Step::kDeath) || is_at(p, Step::kAdmit) ||
         is_at(p, Step::kObserve) || is_at(p, Step::kSame);
}

// "Collect" for Step::kCollect.
const char* name_of(Point p);

}  // namespace rejoin::engine
