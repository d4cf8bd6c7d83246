// Images of simulated processes: copies of a fiber's stack and of its process's memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/transport/sim/process.h"

namespace rejoin::engine {
namespace {

// Calls visit(page) for each page of the places, the last of a place perhaps shorter.
template <class Visit>
void for_each_page(const std::vector<std::span<std::byte>>& places, Visit&& visit) {
  constexpr std::size_t kPageBytes = 4096;
  for (const auto& place : places) {
    for (std::size_t at = 0; at < place.size(); at += kPageBytes) {
      visit(place.subspan(at, std::min(kPageBytes, place.size() - at)));
    }
  }
}

bool is_zero(std::span<const std::byte> page) {
  // Its first byte, and each other one is the one before it.
  return page[0] == std::byte{0} && std::memcmp(page.data(), page.data() + 1, page.size() - 1) == 0;
}

}  // namespace

// Called in a fiber. Returns in the process, and again whenever the image has cloned itself.
Frozen Simulation::freeze(SimHost& host, std::uint64_t number) {
  Process& p = *processes_[host.actor_];
  p.freezing = number;
  reach(host.actor_, Point::kImage);
  if (!std::exchange(p.woken, false)) return Frozen::kGoesOn;
  agent_.on_message(p.actor, {wire::MessageType::kWoken});
  await_agent(p.actor, Point::kRegister);
  if (p.refused) {
    p.over = true;
    leave_for_good(p.actor);
  }
  reach(p.actor, Point::kWelcome);
  return Frozen::kWoken;
}

void Simulation::make_image(Process& p) {
  const auto name = static_cast<std::uint32_t>(images_.size());
  const std::uint64_t number = std::exchange(p.freezing, 0);
  Image image = {
      &p,     p.fiber.freeze(), observer_.on_image(*p.host, name), {}, {}, p.host->rank(),
      number, p.host->loan()};
  if (!spare_.empty()) {
    image.memory = std::move(spare_.back());
    spare_.pop_back();
    image.memory.clear();
  }
  for_each_page(image.places, [&image](std::span<std::byte> page) {
    image.is_zero.push_back(is_zero(page));
    if (!image.is_zero.back()) image.memory.insert(image.memory.end(), page.begin(), page.end());
  });
  images_.push_back(std::move(image));
  agent_.on_image(name, p.host->rank(), number, p.host->incarnation());
}

std::uint32_t Simulation::wake_image(std::uint32_t name, std::uint32_t incarnation) {
  const Image& image = images_[name];
  Process& p = *image.process;
  if (p.runs()) fail("an image is woken while its rank runs");
  const auto actor = static_cast<std::uint32_t>(processes_.size());
  // Its own fiber stays unused: the clone has the fiber of the process that it is a copy of.
  while (actor >= pool_.size()) pool_.push_back(std::make_unique<Process>());
  processes_.push_back(&p);
  newest_[image.rank] = &p;
  ranks_[image.rank] = {incarnation, 0, false, false};
  p.fiber.thaw(image.fiber);
  auto from = image.memory.begin();
  auto zero = image.is_zero.begin();
  for_each_page(image.places, [&from, &zero](std::span<std::byte> page) {
    if (*zero++) {
      std::fill(page.begin(), page.end(), std::byte{0});
    } else {
      std::copy_n(from, page.size(), page.begin());
      from += static_cast<std::ptrdiff_t>(page.size());
    }
  });
  p.host->incarnation_ = incarnation;
  p.host->loan_ = image.loan;
  p.host->actor_ = p.actor = actor;
  p.point = p.waits_at = Point::kStart;
  p.steps = 0;
  p.priority = random_.next() | std::uint64_t{1} << 32;
  p.awaits_agent = p.refused = p.over = false;
  p.woken = true;
  make_ready(p);
  last_change_ = time_;
  observer_.on_woken(*p.host, name);
  note_agent(image.rank, "is woken");
  return actor;
}

void Simulation::end_image(std::uint32_t image) {
  if (!std::exchange(images_[image].alive, false)) return;
  images_[image].fiber.stack.clear();
  spare_.push_back(std::move(images_[image].memory));
  agent_.on_image_end(image);
}

void Simulation::kill_image(const Death& death) {
  const std::uint64_t kept = control_of(base_, death.rank)->kept_image.load();
  for (std::size_t i = images_.size(); i-- > 0;) {
    Image& image = images_[i];
    if (image.rank != death.rank || !image.alive) continue;
    if (death.victim == Victim::kKeptImage && image.number != kept) continue;
    image.killed = true;
    note_agent(death.rank, "an image of the rank dies");
    return end_image(static_cast<std::uint32_t>(i));
  }
}

}  // namespace rejoin::engine
