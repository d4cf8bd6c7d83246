// Fault injection: where a rank kills itself (--kill).
#pragma once

#include <cstdint>

#include "journal/shared.h"

namespace rejoin::journal {

enum class Moment : std::uint8_t { kBefore, kInside, kAfter };
enum class PointKind : std::uint8_t { kOperation, kInit, kFinalize };

// One --kill RANK@POINT#INCARNATION. Written by the launcher before the start; `fired` by the rank.
struct FaultPoint {
  std::uint64_t ordinal;  // of the operation in program order, from 1; unused for init, finalize
  std::uint32_t rank;
  std::uint32_t incarnation;  // in which it fires
  PointKind kind;
  Moment moment;
  OwnerWord<std::uint8_t> fired;
};

}  // namespace rejoin::journal
