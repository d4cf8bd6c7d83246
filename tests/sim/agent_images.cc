// The simulated agent and images of processes.
#include <algorithm>
#include <utility>

#include "agent.h"
#include "journal/put_back.h"

namespace rejoin::sim {

using launcher::AgentAction;
using launcher::AgentEvent;
using launcher::Event;
using wire::MessageType;

void Agent::take_image_coming(const Coming& coming) {
  if (coming.kind == Coming::Kind::kClones) return make_clone(coming.process, coming.message.value);
  if (coming.kind == Coming::Kind::kForked) return read_forked(coming.process);
  if (coming.kind == Coming::Kind::kImageEnded) return read_image_end(coming.process);
  // An image that has ended cannot register any more.
  if (!simulation_->has_image(coming.process)) return;
  Image& image = images_[coming.process];
  image.registered = true;
  // The first image decides unless a checkpoint has decided.
  auto now = journal::Return::kUndecided;
  auto& word = journal::header_of(base_)->goes_back_to;
  word.decide(journal::kAgentStores, journal::Step::kDecide, &now, journal::Return::kImages);
  if (word.load() == journal::Return::kVersions) return simulation_->end_image(coming.process);
  const auto connection = static_cast<int>(connections_.size());
  connections_.push_back({coming.process, false, true});
  queue_.push_back(AgentEvent{image.rank, simulation_->time(),
                              AgentEvent::ImageRegisters{image_pid(coming.process), connection,
                                                         image.number, image.incarnation}});
}

void Agent::read_forked(std::uint32_t process) {
  const Process& clone = processes_[process];
  queue_.push_back(AgentEvent{clone.rank, simulation_->time(),
                              AgentEvent::Forked{pid(process), clone.incarnation}});
}

void Agent::read_image_end(std::uint32_t image) {
  // The image's messages are read before its end. It may have died before it could report its
  // clone.
  const auto forked = std::find_if(coming_.begin(), coming_.end(), [&](const Coming& c) {
    return c.kind == Coming::Kind::kForked && processes_[c.process].image == image;
  });
  if (forked != coming_.end()) {
    const std::uint32_t process = forked->process;
    coming_.erase(forked);
    set_first_coming();
    if (simulation_->random().one_in(2)) read_forked(process);
  }
  const Image& ended = images_[image];
  if (simulation_->image_was_killed(image)) {
    const bool kept = ranks_[ended.rank].kept == image;
    probes_.hit(kept ? Probe::kImageDied : Probe::kOtherImageDied);
    if (kept && core_.waking(ended.rank)) probes_.hit(Probe::kImageDiedWaking);
    ranks_[ended.rank].lost_image = true;
    // An image of a later incarnation may have been made for a request to its predecessor.
    const bool wanted = ended.incarnation == 0 && core_.incarnation(ended.rank) == 0;
    if (wanted && !ended.registered) ranks_[ended.rank].lost_unregistered = true;
  }
  queue_.push_back(AgentEvent{ended.rank, simulation_->time(),
                              AgentEvent::ImageEnded{image_pid(image), ended.number, {}}});
}

void Agent::on_image(std::uint32_t image, std::uint32_t rank, std::uint64_t number,
                     std::uint32_t incarnation) {
  images_.resize(std::max<std::size_t>(images_.size(), image + 1));
  images_[image] = {rank, number, incarnation};
  expect({Coming::Kind::kImage, image, 0});
}

void Agent::on_image_end(std::uint32_t image) { expect({Coming::Kind::kImageEnded, image, 0}); }

// The following actions check rules of the snapshots that hold whatever the core decides.

// Each host hears of a set at another time: the first one here, the others when the first of their
// ranks is asked for its image. Now and then the ranks that sleep are not rung: they find the set
// when they take something.
void Agent::act(std::uint32_t rank, const AgentAction::WantSet& a) {
  pending_set_ = a.number;
  want_set_on(rank, a.number);
}

bool Agent::has_not_heard(std::uint32_t rank, std::uint64_t number) const {
  return number == pending_set_ && journal::set_wanted_on(base_, rank).load() < number;
}

void Agent::want_set_on(std::uint32_t rank, std::uint64_t number) {
  const std::uint32_t hosts = segments_.hosts();
  journal::want_set(journal::set_wanted_on(base_, rank), number);
  if (simulation_->random().one_in(4)) return;
  for (std::uint32_t r = rank % hosts; r < options_.ranks(); r += hosts) simulation_->wake(r);
}

void Agent::act(std::uint32_t rank, const AgentAction::Want& a) {
  if (has_not_heard(rank, a.number)) want_set_on(rank, a.number);
  journal::control_of(base_, rank)
      ->snapshot_wanted.store(journal::kAgentStores, journal::Step::kNotice, a.number);
  journal::header_of(base_)->notices.add(journal::kAgentStores, journal::Step::kNotice, 1);
}

void Agent::act(std::uint32_t, const AgentAction::PutBack& a) {
  for (Rank& r : ranks_) {
    const Process& p = processes_[r.process];
    if (p.registered && !p.over) simulation_->fail("a rank runs while all go back");
    r.back_as = back_as_;
  }
  segments_.lose_payload(a.set);
  journal::put_back(base_, launcher::all_local(options_.ranks()), a.set,
                    simulation_->options().broken);
  segments_.go_back(a.set);
  simulation_->note_agent(0, "all ranks go back");
  probes_.hit(Probe::kWentBack);
  ++times_back_;
}

void Agent::act(std::uint32_t, const AgentAction::ReportBack& a) {
  happened(0, Event::RolledBack{a.set, 0, a.back_as});
}

void Agent::act(std::uint32_t rank, const AgentAction::Keep& a) {
  const std::uint32_t kept = ranks_[rank].kept;
  const std::uint32_t image = image_of(a.connection);
  if (image == kNone) return simulation_->fail("S1: an image is kept that is not there yet");
  if (images_[image].incarnation != core_.incarnation(rank)) {
    return simulation_->fail("S1: an image of a former incarnation is kept");
  }
  if (kept != kNone && a.number <= images_[kept].number) {
    simulation_->fail("S1: a rank's marks go back");
  }
  journal::control_of(base_, rank)
      ->kept_image.store(journal::kAgentStores, journal::Step::kNotice, a.number);
  journal::header_of(base_)->notices.add(journal::kAgentStores, journal::Step::kNotice, 1);
  ranks_[rank].kept = image;
  if (std::exchange(ranks_[rank].lost_image, false)) probes_.hit(Probe::kImageAgain);
  if (std::exchange(ranks_[rank].lost_unregistered, false)) {
    probes_.hit(Probe::kImageAfterUnregistered);
  }
  simulation_->note_agent(rank, "its image is kept");
}

void Agent::act(std::uint32_t rank, const AgentAction::EndImage& a) {
  const std::uint32_t image = image_of(a.connection);
  const bool in_use = !supervisor_.stopping() && !simulation_->ranks()[rank].done;
  if (image == ranks_[rank].kept && in_use) {
    simulation_->fail("S1: an image is ended that is kept");
  }
  simulation_->end_image(image);
}

void Agent::act(std::uint32_t rank, const AgentAction::Adopt& a) {
  happened(rank, Event::Started{a.pid});
}

void Agent::act(std::uint32_t rank, const AgentAction::Lost&) {
  const std::uint32_t kept = ranks_[rank].kept;
  if (kept == kNone || !simulation_->image_was_killed(kept)) {
    simulation_->fail("S3: a rank is lost, but its image was not killed");
  }
  lost_ = true;
  happened(rank, Event::Lost{});
}

std::uint32_t Agent::image_of(int connection) const {
  return connection < 0 ? kNone : connections_[static_cast<std::size_t>(connection)].process;
}

// The image clones itself some time later, and reports its clone some time after that. It may die
// before either.
void Agent::act(std::uint32_t rank, const AgentAction::Wake& a) {
  const std::uint32_t image = image_of(a.connection);
  if (image != ranks_[rank].kept) simulation_->fail("S1: an image is woken that is not kept");
  images_[image].wanted_as = core_.incarnation(rank);
  // A clone of a former wake would be refused. Two clones of one image cannot be simulated at once.
  const std::uint32_t former = ranks_[rank].process;
  if (!processes_[former].over && !processes_[former].registered) simulation_->kill(former);
  expect({Coming::Kind::kClones, image, 0, {MessageType::kWake, 0, images_[image].wanted_as}});
}

void Agent::make_clone(std::uint32_t image, std::uint64_t incarnation) {
  if (!simulation_->has_image(image)) return;  // its end will be reported
  const Image& mould = images_[image];
  // All ranks went back meanwhile. The clone of the former wake would be refused.
  if (mould.wanted_as != incarnation) return;
  Rank& r = ranks_[mould.rank];
  r.process = simulation_->wake_image(image, mould.wanted_as);
  r.dying = r.child_over = r.lost_unregistered = false;
  processes_.push_back({mould.rank, mould.wanted_as});
  processes_.back().woken = true;
  processes_.back().image = image;
  expect({Coming::Kind::kForked, r.process, 0});
}

// There are no snapshots while no rank makes progress, because a job in which all ranks are blocked
// must be detected.
bool Agent::snapshot_due() const {
  const bool versions =
      journal::header_of(base_)->goes_back_to.load() == journal::Return::kVersions;
  return snapshot_every_turns_ != 0 && !versions && !supervisor_.stopping() &&
         progress() != progress_then_;
}

std::uint64_t Agent::progress() const {
  std::uint64_t all = 0;
  for (std::uint32_t r = 0; r < options_.ranks(); ++r) {
    const journal::RankControl* c = journal::control_of(base_, r);
    all += c->ordinal.load() + (std::uint64_t{c->incarnation.load()} << 32);
  }
  return all;
}

}  // namespace rejoin::sim
