// Parses a rank's report of the signal that is about to end it (MessageType::kFault).
#pragma once

#include <cstdint>
#include <vector>

#include "journal/layout.h"
#include "launcher/base/record.h"
#include "wire/messages.h"

namespace rejoin::launcher {

struct FaultReport {
  int signal = 0;
  Fault fault;
  // Call sites in `fault` refer to element i as module kFirstFaultModule + i.
  std::vector<journal::ModuleEntry> modules;
};
// Larger than any module index of a rank's call sites.
inline constexpr std::uint32_t kFirstFaultModule = 0x80000000u;

// Accepts any bytes; a message without frames gives a fault without a site. The site is the
// innermost frame that belongs neither to the C library nor to Rejoin. Frames of Rejoin, and the
// callers of main or of a thread's function, are not named.
FaultReport fault_report(std::uint32_t rank, const wire::Message& message);

}  // namespace rejoin::launcher
