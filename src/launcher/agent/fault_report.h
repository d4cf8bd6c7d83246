// What a rank says of the signal that is about to end it (MessageType::kFault).
#pragma once

#include <cstdint>
#include <vector>

#include "journal/layout.h"
#include "launcher/supervisor/record.h"
#include "wire/messages.h"

namespace rejoin::launcher {

struct FaultReport {
  int signal = 0;
  Fault fault;
  // Sites of the fault speak of element i as module kFirstFaultModule + i.
  std::vector<engine::ModuleEntry> modules;
};
// Behind those of a rank's call sites.
inline constexpr std::uint32_t kFirstFaultModule = 0x80000000u;

// Whatever the message holds: without frames, the fault has no site. The site is that of the
// innermost frame that is neither the C library's nor Rejoin's; frames of Rejoin, and those that
// call main or a thread's function, are not named.
FaultReport fault_report(std::uint32_t rank, const wire::Message& message);

}  // namespace rejoin::launcher
