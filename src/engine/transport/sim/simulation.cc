#include "engine/transport/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "engine/transport/sim/half_written.h"
#include "engine/transport/sim/process.h"
#include "journal/contexts.h"

namespace rejoin::engine {
namespace {

// Few enough that most ranks sleep again in between, whatever the number of looks.
constexpr std::uint32_t kTurnsPerSpuriousWake = 500;

}  // namespace

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
  o.agent_last = random.one_in(6) && !o.spurious_wakes;  // else some process always can
  o.behind_shell = random.one_in(4);
  o.registers_twice = random.one_in(4);
  o.second_process = random.one_in(4);
  o.delays_stores = random.one_in(3);
  o.light_publish = o.delays_stores && random.one_in(2);
  o.lends = random.one_in(2);
  return o;
}

// A process that was woken from an image is there under its former actor's number, too.
template <class Visit>
void Simulation::for_each_process(Visit&& visit) {
  for (std::uint32_t actor = 0; actor < processes_.size(); ++actor) {
    if (processes_[actor]->actor == actor) visit(*processes_[actor]);
  }
}

template <class Look>
void Simulation::with_all_stores(Look&& look) {
  if (!options_.delays_stores) return look();
  for_each_process([](Process& p) { p.stores.reveal(); });
  look();
  for_each_process([](Process& p) { p.stores.hide(); });
}

Simulation::Simulation(std::byte* base, SimObserver& observer, SimAgent& agent)
    : base_(base), observer_(observer), agent_(agent) {}
Simulation::~Simulation() = default;

// --- Runs

void Simulation::prepare(const SimOptions& options, const std::vector<Death>& deaths) {
  const std::uint32_t n = header_of(base_)->ranks;
  options_ = options;
  random_ = SimRandom(options.seed);
  numbers_ = 0;
  processes_.clear();
  for (Image& image : images_) {
    if (image.alive) spare_.push_back(std::move(image.memory));
  }
  images_.clear();
  ready_.clear();
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
  move_ = 0;
  reached_ = 0;
  lowest_priority_ = std::uint64_t{1} << 32;
  agent_priority_ = random_.next() | lowest_priority_;
  ended_ = agent_awaited_ = fair_ = false;
  ending_ = Ending::kFinished;
  deaths_ = 0;
  time_ = last_death_ = last_change_ = spurious_ = hash_ = 0;
  spoilt_ = 0;
  agent_.begin(*this);
}

Ending Simulation::run(const SimOptions& options, const std::vector<Death>& deaths) {
  prepare(options, deaths);
  while (!ended_) {
    kill_by_time();
    if (options_.fair_from != 0 && time_ >= options_.fair_from && !fair_) become_fair();
    if (options_.delays_stores) commit_some_stores();
    if (options_.spurious_wakes && random_.one_in(kTurnsPerSpuriousWake)) wake_spuriously();
    std::uint32_t actor = kNobody;
    if (observer_.has_relays()) run_relays();
    if (!ended_ && !make_moves(&actor)) actor = pick();
    if (ended_) break;
    if (actor == kNobody) {
      end(Ending::kDeadlock, who_sleeps());
      break;
    }
    ++time_;
    last_ = actor;
    if (actor == kAgent) {
      agent_awaited_ = false;
      agent_.turn();
      with_all_stores([this] { observer_.on_agent(); });
    } else {
      process_turn(*processes_[actor]);
      count_move(actor);
    }
    if (time_ - last_change_ > options_.turn_limit) end(Ending::kNoProgress, who_sleeps());
    if (fair_ && time_ - std::max(options_.fair_from, last_change_) > options_.finish_within) {
      end(Ending::kNoProgress, "I7: not finished in time; " + who_sleeps());
    }
  }
  return ending_;
}

// Relays take some steps between two turns. If no process can take one, they go on until one can,
// or they have nothing left to do.
void Simulation::run_relays() {
  constexpr std::uint64_t kMostSteps = 6;
  for (std::uint64_t left = random_.below(kMostSteps); !ended_; left -= left > 0 ? 1 : 0) {
    if (left == 0 && !ready_.empty()) return;
    if (!observer_.on_relay(random_)) return;
  }
}

void Simulation::become_fair() {
  fair_ = true;
  for_each_process([](Process& p) { p.stores.commit(p.stores.size()); });
  options_.delays_stores = options_.spurious_wakes = options_.agent_last = false;
  options_.schedule = Schedule::kRoundRobin;
  options_.agent_delay_turns = 0;
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

void Simulation::finish(int code, const std::string& why) {
  if (code == 0 && move_ < options_.moves.size())
    fail("directed schedule: the job ended before the last move");
  end(code == 0 ? Ending::kFinished : Ending::kStopped, why);
}

std::string Simulation::who_sleeps() const {
  using State = Process::State;
  std::string text;
  unsigned others = 0;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].done) continue;
    if (text.size() > 400) {
      ++others;
      continue;
    }
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(r);
    if (newest_[r] == nullptr) {
      text += " is not started";
      continue;
    }
    const Process& p = *newest_[r];
    text += " incarnation " + std::to_string(ranks_[r].incarnation);
    text += p.state == State::kAsleep    ? " sleeps in "
            : p.state == State::kWaiting ? " waits for the agent in "
            : p.state == State::kReady   ? " is at "
                                         : " is gone, from ";
    text += name_of(p.waits_at);
  }
  if (others > 0) text += ", and " + std::to_string(others) + " others";
  return text;
}

void Simulation::record(std::uint32_t rank, std::uint32_t incarnation, Point p, const char* text,
                        std::uint64_t a, std::uint64_t b) {
  const std::uint64_t who = rank * 0x10001u + incarnation * 0x101u + unsigned(p) * 7;
  hash_ = (hash_ ^ (who + a * 31 + b)) * 0x9fb21c651e98df25u;
  hash_ ^= hash_ >> 29;
  if (keeps_trace_) trace_.push_back({time_, rank, incarnation, p, text, a, b});
}

void Simulation::note(const SimHost& host, const char* text, std::uint64_t a, std::uint64_t b) {
  record(host.rank(), host.incarnation(), Point::kCount, text, a, b);
}

void Simulation::note_agent(std::uint32_t rank, const char* text) {
  record(rank, ranks_[rank].incarnation, Point::kStart, text, 0, 0);
}

journal::Loan* Simulation::loan_of(std::uint32_t rank) const {
  const Process* p = newest_[rank];
  return p != nullptr && p->runs() ? p->host->loan() : nullptr;
}

bool Simulation::runs(std::uint64_t process) const {
  const Process* p = process < processes_.size() ? processes_[process] : nullptr;
  return p != nullptr && p->actor == process && p->runs();
}

void Simulation::add_block(std::uint32_t rank, ContextBlock* block) {
  auto& blocks = blocks_[rank];
  if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
}

// --- Processes

std::uint32_t Simulation::start(std::uint32_t rank, std::uint32_t incarnation) {
  if (ranks_[rank].done) fail("a rank that has ended successfully is started again");
  const auto actor = static_cast<std::uint32_t>(processes_.size());
  while (actor >= pool_.size()) pool_.push_back(std::make_unique<Process>());
  Process& p = *pool_[actor];
  processes_.push_back(&p);
  newest_[rank] = &p;
  ranks_[rank] = {incarnation, 0, false, false};
  p.simulation = this;
  std::byte* const view = observer_.segment_of(rank);
  p.host.emplace(*this, view != nullptr ? view : base_, rank, incarnation, actor);
  p.actor = actor;
  p.point = p.waits_at = Point::kStart;
  p.steps = 0;
  p.priority = random_.next() | std::uint64_t{1} << 32;
  p.awaits_agent = p.refused = p.over = p.woken = false;
  p.freezing = 0;
  p.stores.drain();
  p.fiber.start(&Simulation::live, &p);
  make_ready(p);
  last_change_ = time_;
  note_agent(rank, "is started");
  return actor;
}

// The body of a fiber.
void Simulation::live(void* process) {
  Process& p = *static_cast<Process*>(process);
  Simulation& s = *p.simulation;
  s.reach(p.actor, Point::kStart);
  if (s.join(p) && (!s.options_.registers_twice || s.join(p))) {
    s.observer_.run(*p.host);
    s.reach(p.actor, Point::kExit);
  }
  p.over = true;
  s.leave_for_good(p.actor);
}

// Asks to be the rank; false: it may not.
bool Simulation::join(Process& p) {
  agent_.on_message(p.actor, {wire::MessageType::kRegister});
  await_agent(p.actor, Point::kRegister);
  if (p.refused) return false;
  reach(p.actor, Point::kWelcome);
  return true;
}

void Simulation::welcome(std::uint32_t process) {
  Process& p = *processes_[process];
  if (!p.runs()) return;
  p.awaits_agent = false;
  if (p.state == Process::State::kWaiting) make_ready(p);
}

void Simulation::refuse(std::uint32_t process) {
  processes_[process]->refused = true;
  welcome(process);
}

void Simulation::process_turn(Process& p) {
  const std::uint32_t rank = p.host->rank();
  current_ = p.actor;
  p.stores.reveal();
  p.fiber.resume();
  if (p.over) p.stores.drain();
  p.stores.hide();
  current_ = kNobody;
  if (ended_) return;
  if (p.over) {
    not_ready(p);
    p.state = Process::State::kDone;
    if (newest_[rank] == &p) ranks_[rank].done = !p.refused && !ranks_[rank].dead;
    record(rank, p.host->incarnation(), Point::kExit, nullptr, 1, 0);
    agent_.on_end(p.actor, {0, p.refused ? 1 : 0});
    return;
  }
  record(rank, p.host->incarnation(), p.point, nullptr, 0, 0);
  if (p.point != Point::kPoll) {
    ++p.steps;
    if (newest_[rank] == &p) ranks_[rank].steps = p.steps;
    if (p.point != Point::kSleep) p.waits_at = p.point;
  }
  if (p.freezing != 0) make_image(p);
  with_all_stores([&] { observer_.on_point(*p.host, p.point); });
  if (ended_) return;
  const Death* death = p.point == Point::kPoll ? nullptr : due_death(p);
  if (death != nullptr) {
    die(p, death->signal);
  } else if (p.awaits_agent) {
    not_ready(p);
    p.state = Process::State::kWaiting;
  } else if (p.point == Point::kSleep) {
    sleep_or_go_on(p);
  }
}

void Simulation::sleep_or_go_on(Process& p) {
  auto& bell = control_of(base_, p.host->rank())->bell;
  if (options_.mutant == Mutant::kForgetfulSleep) journal::put(bell, 0);
  if (bell.load(std::memory_order_relaxed) != 0) return;
  not_ready(p);
  p.state = Process::State::kAsleep;
}

const Death* Simulation::due_death(const Process& p) const {
  for (const Death& d : deaths_by_step_) {
    const bool it = d.rank == p.host->rank() && d.incarnation == p.host->incarnation();
    if (it && d.step == p.steps) return &d;
  }
  return nullptr;
}

void Simulation::kill_by_time() {
  while (!deaths_by_time_.empty() && deaths_by_time_.back().time <= time_) {
    const Death d = deaths_by_time_.back();
    deaths_by_time_.pop_back();
    if (d.victim != Victim::kRank) {
      kill_image(d);
      continue;
    }
    Process* p = newest_[d.rank];
    if (p != nullptr && p->runs()) die(*p, d.signal);
  }
}

// The process dies by a fault of its own, or by a signal from outside the job.
void Simulation::die(Process& p, int signal) {
  const std::uint32_t rank = p.host->rank();
  record(rank, p.host->incarnation(), p.point, "dies", 0, 0);
  ++deaths_;
  last_death_ = last_change_ = time_;
  with_all_stores([&] { observer_.on_death(*p.host, p.point); });
  if (options_.mutant != Mutant::kNotReaped) stop_running(p);
  ranks_[rank].dead = true;
  at_last_death_ = ranks_;
  agent_.on_end(p.actor, {signal, 0});
}

void Simulation::kill(std::uint32_t process) {
  Process& p = *processes_[process];
  if (!p.runs() || p.actor != process) return;
  stop_running(p);
  if (newest_[p.host->rank()] == &p) ranks_[p.host->rank()].dead = true;
  agent_.on_end(process, {9, 0});
}

void Simulation::stop_running(Process& p) {
  const std::uint32_t rank = p.host->rank();
  if (p.state == Process::State::kReady) not_ready(p);
  p.state = Process::State::kDead;
  p.stores.commit(p.stores.size());
  spoilt_ += leave_half_written(base_, rank, blocks_[rank], random_);
  if (options_.mutant == Mutant::kTornCommit && is_at(p.point, Step::kCommit)) tear_commit(rank);
}

void Simulation::tear_commit(std::uint32_t rank) {
  const RankControl* c = control_of(base_, rank);
  if (c->phase.load() != Phase::kInside) return;
  ContextBlock* block = find_block(base_, rank, c->context.load());
  if (block != nullptr) journal::put(block->records.tail, block->records.tail.load() + 1);
}

void Simulation::lose_journal(std::uint32_t rank) {
  for (ContextBlock* block : blocks_[rank]) journal::put(block->records.tail, 0);
}

// A processor keeps few stores for itself, and none for long.
void Simulation::commit_some_stores() {
  constexpr std::size_t kMost = 12;
  constexpr std::uint32_t kTurns = 8;  // on average, for each
  for_each_process([this](Process& p) {
    while (!p.stores.empty() && (p.stores.size() > kMost || random_.one_in(kTurns))) {
      p.stores.commit(1);
    }
  });
}

void Simulation::store(std::uint32_t actor, void* at, std::uint64_t value, std::size_t bytes,
                       bool fenced) {
  StoreBuffer& stores = processes_[actor]->stores;
  stores.store(at, value, bytes);
  if (fenced || !options_.delays_stores) stores.drain();
}

void Simulation::drain(std::uint32_t actor) { processes_[actor]->stores.drain(); }

void Simulation::settle() {
  for_each_process([this](Process& p) {
    if (p.actor == current_) {
      p.stores.drain();
    } else {
      p.stores.commit(p.stores.size());
    }
  });
}

void Simulation::make_ready(Process& p) {
  p.state = Process::State::kReady;
  p.ready_index = ready_.size();
  ready_.push_back(p.actor);
}

void Simulation::not_ready(Process& p) {
  const std::uint32_t moved = ready_.back();
  ready_[p.ready_index] = moved;
  processes_[moved]->ready_index = p.ready_index;
  ready_.pop_back();
}

void Simulation::wake(std::uint32_t rank) {
  journal::put(control_of(base_, rank)->bell, 1);
  Process* p = newest_[rank];
  if (p != nullptr && p->state == Process::State::kAsleep) make_ready(*p);
}

void Simulation::wake_spuriously() {
  if (processes_.empty()) return;
  Process& p = *processes_[random_.below(processes_.size())];
  if (p.state != Process::State::kAsleep) return;
  ++spurious_;
  make_ready(p);
}

void Simulation::reach(std::uint32_t actor, Point p) {
  processes_[actor]->point = p;
  processes_[actor]->fiber.suspend();
}

void Simulation::await_agent(std::uint32_t actor, Point p) {
  processes_[actor]->awaits_agent = true;
  reach(actor, p);
}

void Simulation::leave_for_good(std::uint32_t actor) {
  Process& p = *processes_[actor];
  for (;;) p.fiber.suspend();
}

// --- Scheduler

// Finds the process that takes the next turn of the directed schedule. False: it is over.
bool Simulation::make_moves(std::uint32_t* actor) {
  for (; move_ < options_.moves.size(); ++move_) {
    const Move& m = options_.moves[move_];
    const bool agent_can = agent_.due() != SimAgent::kNever;
    Process* p = newest_[m.rank];
    switch (m.kind) {
      case Move::Kind::kAgent:
        if (!agent_can) continue;
        *actor = kAgent;
        return true;
      case Move::Kind::kDies:
        die(*p, 9);
        continue;
      case Move::Kind::kRuns:
        const bool can = p != nullptr && p->state == Process::State::kReady;
        if (!can && !agent_can) {
          fail(("directed schedule: move " + std::to_string(move_) + " cannot be made").c_str());
        }
        *actor = can ? p->actor : kAgent;
        return true;
    }
  }
  return false;
}

void Simulation::count_move(std::uint32_t actor) {
  if (move_ == options_.moves.size()) return;
  const Move& m = options_.moves[move_];
  if (m.kind != Move::Kind::kRuns || processes_[actor]->point != m.until) return;
  if (processes_[actor]->host->rank() != m.rank || ++reached_ < m.times) return;
  ++move_;
  reached_ = 0;
}

bool Simulation::agent_is_due() const {
  if (options_.agent_last && !agent_awaited_) return false;
  return agent_.due() <= time_;
}

std::uint32_t Simulation::pick() {
  const bool agent_can = ready_.empty() ? agent_.due() != SimAgent::kNever : agent_is_due();
  if (ready_.empty()) return agent_can ? kAgent : kNobody;
  switch (options_.schedule) {
    case Schedule::kRoundRobin:
      return pick_in_turn(agent_can);
    case Schedule::kBursts: {
      const bool may_stay =
          last_ == kAgent ? agent_can
                          : last_ != kNobody && processes_[last_]->state == Process::State::kReady;
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
  const auto actors = static_cast<std::uint32_t>(processes_.size());
  do {
    in_turn_ = in_turn_ + 1 < actors ? in_turn_ + 1 : 0;
  } while (processes_[in_turn_]->state != Process::State::kReady);
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
    if (processes_[actor]->priority > best) {
      best = processes_[actor]->priority;
      first = actor;
    }
  }
  if (random_.one_in(2 * options_.burst_turns)) {
    (first == kAgent ? agent_priority_ : processes_[first]->priority) = --lowest_priority_;
  }
  return first;
}

}  // namespace rejoin::engine
