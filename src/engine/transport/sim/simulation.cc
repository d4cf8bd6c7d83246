#include "engine/transport/sim/simulation.h"

#include <algorithm>
#include <optional>

#include "engine/members.h"
#include "engine/transport/sim/half_written.h"

namespace rejoin::engine {
namespace {

// So few that most ranks are back asleep in between, whatever the number of looks.
constexpr std::uint32_t kTurnsPerSpuriousWake = 500;

}  // namespace

struct Simulation::Life {
  enum class State : std::uint8_t { kReady, kAsleep, kDead, kDone };

  Fiber fiber;
  Simulation* simulation = nullptr;
  std::optional<SimHost> host;
  std::uint32_t actor = 0;
  std::size_t ready_index = 0;
  State state = State::kReady;
  Point point = Point::kStart;
  Point waits_at = Point::kStart;  // the last point but polls and the sleep itself
  std::uint64_t steps = 0;
  std::uint64_t priority = 0;
  bool over = false;  // its program has returned
};

SimOptions options_of(std::uint64_t seed) {
  SimOptions o;
  o.seed = seed;
  if (seed == 0) return o;
  SimRandom random(seed * 0x2545f4914f6cdd1d + 1);
  constexpr unsigned kPolls[] = {0, 1, 2, 5, 40};
  constexpr unsigned kBursts[] = {2, 8, 32, 128};
  constexpr std::uint64_t kDelays[] = {0, 0, 10, 40, 200};
  o.schedule = static_cast<Schedule>(random.below(static_cast<unsigned>(Schedule::kCount)));
  o.polls = kPolls[random.below(std::size(kPolls))];
  o.burst_turns = kBursts[random.below(std::size(kBursts))];
  o.agent_delay_turns = kDelays[random.below(std::size(kDelays))];
  o.split_death = random.one_in(3);
  o.spurious_wakes = random.one_in(8);
  o.agent_last = random.one_in(6) && !o.spurious_wakes;  // else somebody always can
  return o;
}

Simulation::Simulation(std::byte* base, SimObserver& observer) : base_(base), observer_(observer) {}
Simulation::~Simulation() = default;

// ----------------------------------------------------------------------------------------------
// runs

void Simulation::prepare(const SimOptions& options, const std::vector<Death>& deaths) {
  const std::uint32_t n = header_of(base_)->ranks;
  options_ = options;
  random_ = SimRandom(options.seed);
  lives_.clear();
  ready_.clear();
  funerals_.clear();
  trace_.clear();
  why_.clear();
  deaths_by_step_.clear();
  deaths_by_time_.clear();
  for (const Death& d : deaths) (d.step > 0 ? deaths_by_step_ : deaths_by_time_).push_back(d);
  std::stable_sort(deaths_by_time_.begin(), deaths_by_time_.end(),
                   [](const Death& a, const Death& b) { return a.time > b.time; });
  newest_.assign(n, nullptr);
  blocks_.assign(n, {});
  ranks_.assign(n, Rank());
  at_last_death_ = ranks_;
  current_ = last_ = kNobody;
  in_turn_ = 0;
  lowest_priority_ = std::uint64_t{1} << 32;
  agent_priority_ = random_.next() | lowest_priority_;
  ended_ = false;
  ending_ = Ending::kFinished;
  deaths_ = 0;
  time_ = last_death_ = last_change_ = spurious_ = hash_ = 0;
  spoilt_ = 0;
  for (std::uint32_t r = 0; r < n; ++r) start(r, 0);
}

Ending Simulation::run(const SimOptions& options, const std::vector<Death>& deaths) {
  prepare(options, deaths);
  while (!ended_) {
    kill_by_time();
    if (options_.spurious_wakes && random_.one_in(kTurnsPerSpuriousWake)) wake_spuriously();
    const std::uint32_t actor = pick();
    if (actor == kNobody) {
      const bool all_done =
          std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.done; });
      if (all_done) break;
      end(Ending::kDeadlock, who_sleeps());
    } else {
      ++time_;
      last_ = actor;
      if (actor == kAgent) {
        agent_turn();
      } else {
        rank_turn(*lives_[actor]);
      }
      if (time_ - last_change_ > options_.turn_limit) end(Ending::kNoProgress, who_sleeps());
    }
  }
  return ending_;
}

void Simulation::end(Ending ending, const std::string& why) {
  if (ended_) return;
  ended_ = true;
  ending_ = ending;
  why_ = why;
}

void Simulation::fail(const char* why) {
  end(Ending::kViolation, why);
  if (current_ != kNobody) leave_for_good(current_);
}

std::string Simulation::who_sleeps() const {
  std::string text;
  unsigned others = 0;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const Life& l = *newest_[r];
    if (ranks_[r].done) continue;
    if (text.size() > 400) {
      ++others;
      continue;
    }
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(r) + " life " +
            std::to_string(l.host->life()) +
            (l.state == Life::State::kAsleep ? " sleeps in " : " is at ") + name_of(l.waits_at);
  }
  if (others > 0) text += ", and " + std::to_string(others) + " others";
  return text;
}

void Simulation::record(const SimHost& host, Point p, const char* text, std::uint64_t a,
                        std::uint64_t b) {
  const std::uint64_t who = host.rank() * 0x10001u + host.life() * 0x101u + unsigned(p) * 7;
  hash_ = (hash_ ^ (who + a * 31 + b)) * 0x9fb21c651e98df25u;
  hash_ ^= hash_ >> 29;
  if (keeps_trace_) trace_.push_back({time_, host.rank(), host.life(), p, text, a, b});
}

void Simulation::note(const SimHost& host, const char* text, std::uint64_t a, std::uint64_t b) {
  record(host, Point::kCount, text, a, b);
}

void Simulation::add_block(std::uint32_t rank, ContextBlock* block) {
  auto& blocks = blocks_[rank];
  if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
}

// ---------------------------------------------------------------------------------------------
// ranks

void Simulation::start(std::uint32_t rank, std::uint32_t life) {
  const auto actor = static_cast<std::uint32_t>(lives_.size());
  if (actor == pool_.size()) pool_.push_back(std::make_unique<Life>());
  Life& l = *pool_[actor];
  lives_.push_back(&l);
  newest_[rank] = &l;
  ranks_[rank] = {life, 0, false, false};
  l.simulation = this;
  l.host.emplace(*this, base_, rank, life, actor);
  l.actor = actor;
  l.point = l.waits_at = Point::kStart;
  l.steps = 0;
  l.priority = random_.next() | std::uint64_t{1} << 32;
  l.over = false;
  l.fiber.start(&Simulation::live, &l);
  make_ready(l);
  last_change_ = time_;
}

// The body of a fiber.
void Simulation::live(void* life) {
  Life& l = *static_cast<Life*>(life);
  l.simulation->reach(l.actor, Point::kStart);
  l.simulation->observer_.run(*l.host);
  l.simulation->reach(l.actor, Point::kExit);
  l.over = true;
  l.simulation->leave_for_good(l.actor);
}

void Simulation::rank_turn(Life& l) {
  current_ = l.actor;
  l.fiber.resume();
  current_ = kNobody;
  if (ended_) return;
  if (l.over) {
    not_ready(l);
    l.state = Life::State::kDone;
    if (newest_[l.host->rank()] == &l) ranks_[l.host->rank()].done = true;
    record(*l.host, Point::kExit, nullptr, 1, 0);
    return;
  }
  record(*l.host, l.point, nullptr, 0, 0);
  if (l.point != Point::kPoll) {
    ++l.steps;
    if (newest_[l.host->rank()] == &l) ranks_[l.host->rank()].steps = l.steps;
    if (l.point != Point::kSleep) l.waits_at = l.point;
  }
  observer_.on_point(*l.host, l.point);
  if (ended_) return;
  if (l.point != Point::kPoll && is_due(l)) {
    kill(l);
  } else if (l.point == Point::kSleep) {
    sleep_or_go_on(l);
  }
}

void Simulation::sleep_or_go_on(Life& l) {
  auto& bell = control_of(base_, l.host->rank())->bell;
  if (options_.mutant == Mutant::kForgetfulSleep) bell.store(0, std::memory_order_relaxed);
  if (bell.load(std::memory_order_relaxed) != 0) return;
  not_ready(l);
  l.state = Life::State::kAsleep;
}

bool Simulation::is_due(const Life& l) const {
  for (const Death& d : deaths_by_step_) {
    if (d.rank == l.host->rank() && d.life == l.host->life() && d.step == l.steps) return true;
  }
  return false;
}

void Simulation::kill_by_time() {
  while (!deaths_by_time_.empty() && deaths_by_time_.back().time <= time_) {
    Life& l = *newest_[deaths_by_time_.back().rank];
    deaths_by_time_.pop_back();
    if (l.state == Life::State::kReady || l.state == Life::State::kAsleep) kill(l);
  }
}

void Simulation::kill(Life& l) {
  using enum Act;
  static constexpr Act kRules[] = {kBreak, kRing, kAdmit, kEnd};
  static constexpr Act kRespawnFirst[] = {kAdmit, kBreak, kRing, kEnd};
  static constexpr Act kSilent[] = {kBreak, kAdmit, kEnd};
  static constexpr Act kNoBreak[] = {kRing, kAdmit, kEnd};
  const std::uint32_t rank = l.host->rank();
  record(*l.host, l.point, "dies", 0, 0);
  ++deaths_;
  last_death_ = last_change_ = time_;
  observer_.on_death(*l.host, l.point);
  if (options_.mutant != Mutant::kNotReaped) {
    if (l.state == Life::State::kReady) not_ready(l);
    l.state = Life::State::kDead;
    spoilt_ += leave_half_written(base_, rank, blocks_[rank], random_);
    if (options_.mutant == Mutant::kTornCommit && is_at(l.point, Step::kCommit)) tear_commit(rank);
  }
  ranks_[rank].dead = true;
  at_last_death_ = ranks_;
  const Act* acts = options_.mutant == Mutant::kRespawnBeforeBreak ? kRespawnFirst
                    : options_.mutant == Mutant::kSilentDeath      ? kSilent
                    : options_.mutant == Mutant::kNoEpoch          ? kNoBreak
                                                                   : kRules;
  funerals_.push_back({rank, acts, time_ + random_.below(options_.agent_delay_turns + 1)});
}

void Simulation::tear_commit(std::uint32_t rank) {
  const RankControl* c = control_of(base_, rank);
  if (c->phase.load() != Phase::kInside) return;
  ContextBlock* block = find_block(base_, rank, c->context.load());
  if (block != nullptr) block->records.tail.fetch_add(1);
}

void Simulation::make_ready(Life& l) {
  l.state = Life::State::kReady;
  l.ready_index = ready_.size();
  ready_.push_back(l.actor);
}

void Simulation::not_ready(Life& l) {
  const std::uint32_t moved = ready_.back();
  ready_[l.ready_index] = moved;
  lives_[moved]->ready_index = l.ready_index;
  ready_.pop_back();
}

void Simulation::wake(std::uint32_t rank) {
  control_of(base_, rank)->bell.store(1, std::memory_order_seq_cst);
  Life& l = *newest_[rank];
  if (l.state == Life::State::kAsleep) make_ready(l);
}

void Simulation::wake_spuriously() {
  Life& l = *lives_[random_.below(lives_.size())];
  if (l.state != Life::State::kAsleep) return;
  ++spurious_;
  make_ready(l);
}

void Simulation::reach(std::uint32_t actor, Point p) {
  Life& l = *lives_[actor];
  l.point = p;
  l.fiber.suspend();
}

void Simulation::leave_for_good(std::uint32_t actor) {
  Life& l = *lives_[actor];
  for (;;) l.fiber.suspend();
}

// ---------------------------------------------------------------------------------------------
// agent

bool Simulation::agent_is_due() const {
  if (options_.agent_last && !all_only_ask()) return false;
  return std::any_of(funerals_.begin(), funerals_.end(),
                     [this](const Funeral& f) { return f.due <= time_; });
}

// Who asks for its set-up again never sleeps, and yet does nothing.
bool Simulation::all_only_ask() const {
  return std::all_of(ready_.begin(), ready_.end(), [this](std::uint32_t actor) {
    return is_at(lives_[actor]->waits_at, Step::kAsk);
  });
}

void Simulation::agent_turn() {
  // One that it is in the middle of; else any that is due; else (nobody else can do anything) any.
  std::size_t chosen = funerals_.size();
  std::uint32_t seen = 0;
  for (std::size_t i = 0; i < funerals_.size(); ++i) {
    if (funerals_[i].half_broken) {
      chosen = i;
      break;
    }
    if (funerals_[i].due <= time_ && random_.one_in(++seen)) chosen = i;
  }
  if (chosen == funerals_.size()) chosen = random_.below(funerals_.size());
  act(funerals_[chosen]);
  if (*funerals_[chosen].act == Act::kEnd) {
    funerals_.erase(funerals_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  observer_.on_agent();
}

void Simulation::act(Funeral& f) {
  RankControl* control = control_of(base_, f.rank);
  switch (*f.act) {
    case Act::kBreak:
      if (options_.split_death && !f.half_broken) {
        // The first half of publish_death(); the whole of it follows.
        f.half_broken = true;
        control->death_epoch.store(header_of(base_)->epoch.load() + 1, std::memory_order_release);
        return;
      }
      f.half_broken = false;
      publish_death(base_, f.rank);
      record(*newest_[f.rank]->host, Point::kStart, "death is published", 0, 0);
      break;
    case Act::kRing:
      wake(f.rung++);
      if (f.rung < ranks_.size()) return;
      break;
    case Act::kAdmit:
      if (options_.mutant == Mutant::kJournalLost) lose_journal(f.rank);
      admit(base_, f.rank, control->incarnation.load() + 1);
      start(f.rank, control->incarnation.load());
      record(*newest_[f.rank]->host, Point::kStart, "is started", 0, 0);
      break;
    case Act::kEnd:
      return;
  }
  ++f.act;
  if (options_.agent_delay_turns > 0 && random_.one_in(2)) {
    f.due = time_ + random_.below(options_.agent_delay_turns + 1);
  }
}

void Simulation::lose_journal(std::uint32_t rank) {
  for (ContextBlock* block : blocks_[rank]) block->records.tail.store(0);
}

// -----------------------------------------------------------------------------------------
// scheduler

std::uint32_t Simulation::pick() {
  const bool agent_can = ready_.empty() ? !funerals_.empty() : agent_is_due();
  if (ready_.empty()) return agent_can ? kAgent : kNobody;
  switch (options_.schedule) {
    case Schedule::kRoundRobin:
      return pick_in_turn(agent_can);
    case Schedule::kBursts: {
      const bool may_stay = last_ == kAgent
                                ? agent_can
                                : last_ != kNobody && lives_[last_]->state == Life::State::kReady;
      if (may_stay && !random_.one_in(options_.burst_turns)) return last_;
      return pick_any(agent_can);
    }
    case Schedule::kPriorities:
      return pick_first(agent_can);
    case Schedule::kRandom:
    case Schedule::kCount:
      break;
  }
  return pick_any(agent_can);
}

std::uint32_t Simulation::pick_in_turn(bool agent_can) {
  if (agent_can && last_ != kAgent) return kAgent;
  const auto actors = static_cast<std::uint32_t>(lives_.size());
  do {
    in_turn_ = in_turn_ + 1 < actors ? in_turn_ + 1 : 0;
  } while (lives_[in_turn_]->state != Life::State::kReady);
  return in_turn_;
}

std::uint32_t Simulation::pick_any(bool agent_can) {
  const std::uint32_t i = random_.below(ready_.size() + (agent_can ? 1 : 0));
  return i == ready_.size() ? kAgent : ready_[i];
}

std::uint32_t Simulation::pick_first(bool agent_can) {
  std::uint32_t first = agent_can ? kAgent : ready_[0];
  std::uint64_t best = agent_can ? agent_priority_ : 0;
  for (const std::uint32_t actor : ready_) {
    if (lives_[actor]->priority > best) {
      best = lives_[actor]->priority;
      first = actor;
    }
  }
  if (random_.one_in(2 * options_.burst_turns)) {
    (first == kAgent ? agent_priority_ : lives_[first]->priority) = --lowest_priority_;
  }
  return first;
}

}  // namespace rejoin::engine
