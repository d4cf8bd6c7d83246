#pragma once

#include <cstdint>

namespace rejoin::recovery {

// Values are part of the journal's format.
enum class OutcomeKind : std::uint8_t {
  kNotYet = 1,  // nothing is over, or has come: possible instead of any other answer
  kDone,        // all that was asked about is over
  kIndex,       // VALUE: which one is
  kCount,       // VALUE: how many are; as many kIndex follow
  kPair,        // a message has come: the next word is its MatchWord
};
const char* name_of(OutcomeKind kind);

}  // namespace rejoin::recovery
