#include "engine/transport/sim/host.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/transport/sim/simulation.h"

namespace rejoin::engine {

const char* name_of(Point p) {
  static constexpr const char* kNames[] = {
      "Enter",        "Look",    "Generation", "SlotNone", "SlotContents", "SlotTag",  "Collect",
      "Validate",     "Stage",   "Staged",     "Reduced",  "Far",          "Payload",  "Record",
      "Commit",       "Depart",  "Departed",   "Post",     "Posted",       "Written",  "Opened",
      "Reads",        "Receive", "Match",      "Matched",  "Consumed",     "Ask",      "Outcome",
      "Standing",     "Cancel",  "Announce",   "Ring",     "Intern",       "Model",    "Prepare",
      "Acknowledge",  "Decide",  "Mark",       "Cursors",  "Freeze",       "Position", "Inside",
      "Contribution", "Phase",   "Context",    "Freed",    "Allocate",     "Grow",     "Observe",
      "Notice",       "Flag",    "Death",      "Admit",    "Same",         "start",    "image",
      "register",     "welcome", "poll",       "sleep",    "operator",     "exit"};
  static_assert(sizeof kNames / sizeof *kNames == kPoints);
  return kNames[static_cast<unsigned>(p)];
}

void SimHost::step(Step s) {
  if (s == Step::kSame) return;
  reach(point_of(s));
  const Mutant m = simulation_.options_.mutant;
  if (m == Mutant::kLoadsTooNew && doing_ == Doing::kLoading && s == Step::kLook) lie();
  if (m == Mutant::kPreparesEarly && doing_ == Doing::kCheckpointing && s == Step::kModel) {
    control_of(base_, rank_)->prepared.add(journal::kVacantStores, Step::kSame, 1);
    doing_ = Doing::kNothing;
  }
}

void SimHost::drain() { simulation_.drain(actor_); }

void SimHost::store_bits(void* at, const void* value, std::size_t bytes, std::memory_order order) {
  std::uint64_t word = 0;
  std::memcpy(&word, value, bytes);
  simulation_.store(actor_, at, word, bytes, order == std::memory_order_seq_cst);
}

void SimHost::fence_published() {
  if (simulation_.options_.light_publish || breaks(journal::Rule::kFencePublished)) return;
  drain();
}

void SimHost::fence() {
  if (!breaks(journal::Rule::kFence)) drain();
}

void SimHost::settle_stores() {
  if (!breaks(journal::Rule::kSettle)) simulation_.settle();
}

bool SimHost::settle() {
  if (!simulation_.options_.light_publish || breaks(journal::Rule::kSettle)) return false;
  simulation_.settle();
  return true;
}

bool SimHost::may_read_others() const { return simulation_.options_.may_read_others; }

bool SimHost::open(const std::byte* data, journal::OpenedBytes* opened) {
  if (!may_read_others()) return false;
  *opened = {reinterpret_cast<std::uintptr_t>(data), actor_, 0, simulation_.next_number()};
  return true;
}

// Reads two pieces, between which others may run.
bool SimHost::read_opened(const journal::OpenedBytes& from, std::byte* to, std::size_t bytes) {
  const auto* at = reinterpret_cast<const std::byte*>(from.at);
  const std::size_t half = bytes / 2;
  if (!simulation_.runs(from.process)) return false;
  std::memcpy(to, at, half);
  reach(point_of(Step::kReads));
  if (!simulation_.runs(from.process)) return false;
  std::memcpy(to + half, at + half, bytes - half);
  return true;
}

bool SimHost::touch(std::uint32_t rank, std::byte* begin, std::size_t bytes) {
  plain_store();
  const auto* region = reinterpret_cast<std::byte*>(region_of(base_, rank));
  const std::uint64_t region_bytes = header_of(base_)->region_bytes;
  if (begin < region || begin + bytes > region + region_bytes) {
    simulation_.fail("memory outside of the rank's region is touched");
  }
  return true;
}

bool SimHost::breaks(journal::Rule rule) const {
  const SimOptions& o = simulation_.options_;
  return rule == o.broken || rule == o.broken_too;
}

void SimHost::about_to(Doing doing) {
  take_back();
  doing_ = doing;
}

// Until this turn ends the rank sees false words of other ranks. Only this rank sees them, because
// no other process runs meanwhile.
void SimHost::lie() {
  take_back();
  const std::uint32_t ranks = header_of(base_)->ranks;
  const std::uint64_t mine = control_of(base_, rank_)->prepared.load(std::memory_order_relaxed);
  auto& lies = simulation_.lies_;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (r == rank_) continue;
    RankControl* c = control_of(base_, r);
    lies.push_back({c, c->prepared.load()});
    switch (simulation_.options_.mutant) {
      case Mutant::kLoadsTooNew:
        journal::put(c->prepared, std::max(mine, c->prepared.load()));
        break;
      default:
        break;
    }
  }
}

void SimHost::take_back() {
  for (const Simulation::Lie& l : simulation_.lies_) {
    journal::put(l.control->prepared, l.prepared);
  }
  simulation_.lies_.clear();
}

void SimHost::reach(Point p) {
  take_back();
  simulation_.reach(actor_, p);
}

bool SimHost::poll(unsigned turn) {
  reach(Point::kPoll);
  return turn < simulation_.options_.polls;
}

bool SimHost::wait_for_agent(unsigned turn) {
  drain();
  simulation_.agent_awaited_ = true;
  reach(Point::kPoll);
  return turn < kTurnsForAgent;
}

void SimHost::ring(std::uint32_t rank) {
  drain();
  // Relays of the simulator never sleep.
  if (!is_near(rank)) return;
  if (simulation_.options_.mutant != Mutant::kLostRing) simulation_.wake(rank);
}

void SimHost::locate(const void* address, ModuleEntry* module, std::uint64_t* place) {
  std::strcpy(module->path, "program");
  *place = reinterpret_cast<std::uint64_t>(address);
}

void SimHost::die() {
  const std::uint64_t step = simulation_.ranks_[rank_].steps + 1;
  simulation_.deaths_by_step_.push_back({rank_, incarnation_, step});
  for (;;) reach(Point::kOperator);
}

void SimHost::stop(const char* text) {
  tell(wire::MessageType::kDiverged, 0, 0, text, std::strlen(text));
  for (;;) simulation_.await_agent(actor_, Point::kSleep);  // it ends the job
}

// Now and then an image is refused.
MayFreeze SimHost::may_freeze(std::uint64_t number) {
  SimRandom& random = simulation_.random_;
  const bool refuses = simulation_.options_.refuses_images;
  if (refuses && random.one_in(16)) return MayFreeze::kNotNow;
  char why[32];
  if (can_be_frozen(why, sizeof why) && !(refuses && random.one_in(24))) return MayFreeze::kYes;
  constexpr std::string_view kWhy = "is not frozen now";
  tell(wire::MessageType::kNotFrozen, 0, number, kWhy.data(), kWhy.size());
  return MayFreeze::kNo;
}

bool SimHost::can_be_frozen(char* why, std::size_t bytes) const {
  const bool never = rank_ < 64 && (simulation_.options_.unfrozen >> rank_ & 1) != 0;
  std::snprintf(why, bytes, "%s", never ? "is never frozen" : "");
  return !never;
}

Frozen SimHost::freeze(std::uint64_t number) {
  drain();
  return simulation_.freeze(*this, number);
}

bool SimHost::receive_to(journal::Loan* loan) {
  if (loan != nullptr && (loan_ != nullptr || !simulation_.options_.lends)) return false;
  loan_ = loan;
  return true;
}

std::uint64_t SimHost::now_ns() { return simulation_.time(); }

std::size_t SimHost::ahead_bytes() const { return simulation_.options_.ahead_bytes; }

void SimHost::tell(wire::MessageType type, std::int32_t code, std::uint64_t value, const char* text,
                   std::size_t text_bytes) {
  drain();  // a message is a system call
  char copy[wire::kMaxText];
  const std::size_t bytes = text_bytes < sizeof copy ? text_bytes : sizeof copy - 1;
  if (bytes > 0) std::memcpy(copy, text, bytes);
  copy[bytes] = 0;
  simulation_.observer_.on_tell(*this, type, copy);
  simulation_.agent_.on_message(actor_, {type, code, value, copy});
}

}  // namespace rejoin::engine
