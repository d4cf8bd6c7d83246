// The simulated agent and images of processes.
#include <algorithm>
#include <utility>

#include "agent.h"

namespace rejoin::sim {

using launcher::AgentAction;
using launcher::AgentEvent;
using launcher::Event;

void Agent::take_image_coming(const Coming& coming) {
  AgentEvent event{AgentEvent::Kind::kImage, 0, simulation_->time()};
  if (coming.kind == Coming::Kind::kForked) {
    event.kind = AgentEvent::Kind::kForked;
    event.rank = processes_[coming.process].rank;
    event.pid = pid(coming.process);
    event.incarnation = processes_[coming.process].incarnation;
  } else {
    const Image& image = images_[coming.process];
    event.rank = image.rank;
    event.pid = image_pid(coming.process);
    event.number = image.number;
    event.incarnation = image.incarnation;
    if (coming.kind == Coming::Kind::kImageEnded) {
      event.kind = AgentEvent::Kind::kImageEnded;
    } else {
      // What has ended cannot become anything any more.
      if (!simulation_->has_image(coming.process)) return;
      event.connection = static_cast<int>(connections_.size());
      connections_.push_back({coming.process, false});
    }
  }
  queue_.push_back(event);
}

void Agent::on_image(std::uint32_t image, std::uint32_t rank, std::uint64_t number,
                     std::uint32_t incarnation) {
  images_.resize(std::max<std::size_t>(images_.size(), image + 1));
  images_[image] = {rank, number, incarnation};
  expect({Coming::Kind::kImage, image, 0});
}

void Agent::on_image_end(std::uint32_t image) { expect({Coming::Kind::kImageEnded, image, 0}); }

void Agent::carry_out_image(const AgentAction& a) {
  using Kind = AgentAction::Kind;
  engine::SegmentHeader* header = engine::header_of(base_);
  engine::RankControl* control = engine::control_of(base_, a.rank);
  Event event{Event::Kind::kStarted, simulation_->time(), a.rank};
  event.pid = a.pid;
  switch (a.kind) {
    case Kind::kWant:
      control->snapshot_wanted.store(a.number);
      header->notices.fetch_add(1);
      break;
    case Kind::kKeep:
      header->goes_back_to = engine::Return::kImages;
      control->kept_image.store(a.number);
      header->notices.fetch_add(1);
      simulation_->note_agent(a.rank, "its image is kept");
      break;
    case Kind::kEndImage:
      simulation_->end_image(connections_[static_cast<std::size_t>(a.connection)].process);
      break;
    case Kind::kWake:
      wake(a);
      break;
    case Kind::kAdopt:
      queue_.push_back(std::move(event));
      break;
    case Kind::kLost:
      event.kind = Event::Kind::kLost;
      queue_.push_back(std::move(event));
      break;
    default:
      break;
  }
}

void Agent::wake(const AgentAction& a) {
  const std::uint32_t image = connections_[static_cast<std::size_t>(a.connection)].process;
  if (!simulation_->has_image(image)) return;  // its end will be heard of
  Rank& r = ranks_[a.rank];
  const std::uint32_t incarnation = supervisor_.incarnation(a.rank);
  r.process = simulation_->wake_image(image, incarnation);
  r.dying = r.child_over = false;
  processes_.push_back({a.rank, incarnation});
  processes_.back().woken = true;
  expect({Coming::Kind::kForked, r.process, 0});
}

// Not while nobody goes on: a job that stands still must be found out.
bool Agent::snapshot_due() const {
  return snapshot_every_turns_ != 0 && !supervisor_.stopping() && progress() != progress_then_;
}

std::uint64_t Agent::progress() const {
  std::uint64_t all = 0;
  for (std::uint32_t r = 0; r < policy_.ranks; ++r) {
    const engine::RankControl* c = engine::control_of(base_, r);
    all += c->ordinal.load() + (std::uint64_t{c->incarnation.load()} << 32);
  }
  return all;
}

}  // namespace rejoin::sim
