#include "engine/transport/sim/host.h"

#include <cstring>
#include <string>

#include "engine/transport/sim/simulation.h"

namespace rejoin::engine {

const char* name_of(Point p) {
  static constexpr const char* kNames[] = {
      "Enter", "Look",    "Generation", "SlotNone", "SlotContents", "SlotTag", "Collect",
      "Validate", "Stage", "Staged",    "Reduced",  "Payload",      "Record",  "Commit",
      "Post",  "Receive", "Consumed",   "Announce", "Ring",         "Intern",  "Model",
      "Prepare", "Acknowledge", "Ask",  "start",    "poll",         "sleep",   "operator",
      "exit"};
  static_assert(sizeof kNames / sizeof *kNames == kPoints);
  return kNames[static_cast<unsigned>(p)];
}

void SimHost::reach(Point p) { simulation_.reach(actor_, p); }

bool SimHost::poll(unsigned turn) {
  reach(Point::kPoll);
  return turn < simulation_.options_.polls;
}

void SimHost::ring(std::uint32_t rank) {
  if (simulation_.options_.mutant != Mutant::kLostRing) simulation_.wake(rank);
}

void SimHost::locate(const void* address, ModuleEntry* module, std::uint64_t* place) {
  std::strcpy(module->path, "program");
  *place = reinterpret_cast<std::uint64_t>(address);
}

void SimHost::die() {
  simulation_.deaths_by_step_.push_back({rank_, life_, simulation_.ranks_[rank_].steps + 1, 0});
  for (;;) reach(Point::kOperator);
}

void SimHost::stop(const char* text) {
  simulation_.end(Ending::kStopped, text);
  simulation_.leave_for_good(actor_);
}

void SimHost::tell(MessageType type, std::int32_t, std::uint64_t value, const char* text,
                   std::size_t text_bytes) {
  char copy[kMaxText];
  const std::size_t bytes = text_bytes < sizeof copy ? text_bytes : sizeof copy - 1;
  if (bytes > 0) std::memcpy(copy, text, bytes);
  copy[bytes] = 0;
  simulation_.observer_.on_tell(*this, type, copy, value);
}

}  // namespace rejoin::engine
