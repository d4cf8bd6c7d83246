#include "sweep.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "worlds.h"

namespace rejoin::sim {

using engine::SimRandom;
using engine::Victim;

namespace {

constexpr char letter_of(Victim victim) {
  return victim == Victim::kRank ? 't' : victim == Victim::kNewestImage ? 'i' : 'k';
}

}  // namespace

std::string text_of(const std::vector<Death>& deaths) {
  std::string text;
  for (const Death& d : deaths) {
    if (!text.empty()) text += ',';
    text += std::to_string(d.rank);
    text += d.step > 0 ? ":" + std::to_string(d.incarnation) + ":" + std::to_string(d.step)
                       : ":" + std::string(1, letter_of(d.victim)) + std::to_string(d.time);
  }
  return text;
}

bool parse_deaths(const std::string& text, std::vector<Death>* deaths) {
  std::istringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    Death d;
    unsigned long long x = 0;
    char letter = 0;
    if (std::sscanf(part.c_str(), "%u:%c%llu", &d.rank, &letter, &x) == 3 &&
        std::strchr("tik", letter) != nullptr) {
      d.time = x;
      if (letter == 'i') d.victim = Victim::kNewestImage;
      if (letter == 'k') d.victim = Victim::kKeptImage;
    } else if (std::sscanf(part.c_str(), "%u:%u:%llu", &d.rank, &d.incarnation, &x) == 3 && x > 0) {
      d.step = x;
    } else {
      return false;
    }
    deaths->push_back(d);
  }
  return true;
}

std::vector<Death> random_deaths(std::uint64_t seed, std::uint32_t ranks, std::uint64_t turns) {
  SimRandom random(seed ^ 0xdea7);
  std::vector<Death> deaths;
  const auto at = [&](std::uint32_t rank, std::uint64_t time) {
    deaths.push_back({rank, 0, 0, time});
  };
  const std::uint64_t longest = turns + turns / 2 + 1;
  switch (random.below(5)) {
    case 0: {  // scattered
      const std::uint32_t count = 1 + random.below(std::min<std::uint32_t>(2 + ranks, 24));
      for (std::uint32_t i = 0; i < count; ++i) at(random.below(ranks), random.below(longest));
      break;
    }
    case 1: {  // together
      const std::uint64_t time = random.below(turns + 1);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        if (random.one_in(2)) at(r, time + random.below(6));
      }
      break;
    }
    case 2: {  // all at once, perhaps twice
      for (std::uint32_t times = 1 + random.below(2); times > 0; --times) {
        const std::uint64_t time = random.below(longest);
        for (std::uint32_t r = 0; r < ranks; ++r) at(r, time);
      }
      break;
    }
    case 3: {  // one rank, in one incarnation after the other
      const std::uint32_t rank = random.below(ranks);
      for (std::uint32_t incarnation = 0; incarnation < 5; ++incarnation) {
        deaths.push_back({rank, incarnation, 1 + random.below(1 + turns / ranks), 0});
      }
      break;
    }
    default: {  // one after another
      std::uint64_t time = random.below(turns + 1);
      for (std::uint32_t i = 0; i < 4; ++i, time += random.below(60)) at(random.below(ranks), time);
    }
  }
  return deaths;
}

double effort() {
#if defined(__SANITIZE_THREAD__)
  constexpr double kUsual = 0.005;  // a run takes a hundred times as long
#elif defined(__SANITIZE_ADDRESS__)
  constexpr double kUsual = 0.05;
#else
  constexpr double kUsual = 1;
#endif
  const char* text = std::getenv("REJOIN_SIM_EFFORT");
  return text == nullptr ? kUsual : kUsual * std::atof(text);
}

// --- Runs

Sweep::Sweep(const World& world) : job_(world) {
  if (!job_.reference().good()) fail(Plan(), job_.reference());
}

void Sweep::fail(const Plan& plan, const Result& result) {
  static constexpr const char* kEndings[] = {"finished", "stopped", "deadlock", "no progress",
                                             "violation"};
  failure_ = std::string(kEndings[static_cast<unsigned>(result.ending)]) + ": " + result.why +
             "\nto see it again: simulate " + job_.world().name + " --seed " +
             std::to_string(plan.options.seed);
  if (!plan.deaths.empty()) failure_ += " --deaths " + text_of(plan.deaths);
  if (plan.options.fair_from != 0) {
    failure_ += " --fair " + std::to_string(plan.options.fair_from) + ":" +
                std::to_string(plan.options.finish_within);
  }
  if (mutant_ != engine::Mutant::kNone) {
    failure_ += " --mutant " + std::to_string(static_cast<unsigned>(mutant_));
  }
  if (broken_ != journal::Rule::kNone) {
    failure_ += " --break " + std::to_string(static_cast<unsigned>(broken_));
  }
  if (left_out_ != launcher::ImageRule::kNone) {
    failure_ += " --leave-out " + std::to_string(static_cast<unsigned>(left_out_));
  }
  if (!job_.world().says.empty()) failure_ += " \n" + job_.world().says;
  failure_ += " \n" + job_.transcript(plan, job_.world().ranks <= 8 ? 12 : 3);
}

Result Sweep::run(const Plan& plan) {
  constexpr std::uint64_t kTwiceEvery = 32;
  Plan p = plan;
  p.options.mutant = mutant_;
  p.options.broken = broken_;
  p.left_out = left_out_;
  Result result = job_.run(p);
  if (result.acceptable() && job_.runs() % kTwiceEvery == 0) {
    const Result again = job_.run(p);
    if (again.hash != result.hash || again.turns != result.turns) {
      result.ending = Ending::kViolation;
      result.why = "the same run twice is not the same";
    }
  }
  if (result.acceptable()) {
    slowest_recovery_ = std::max(
        slowest_recovery_, double(result.turns_after_last_death) / double(job_.reference().turns));
  } else {
    fail(p, result);
  }
  return result;
}

bool Sweep::try_plan(const Plan& plan) { return failure_.empty() && run(plan).acceptable(); }

bool Sweep::undisturbed(std::uint64_t seed) { return try_plan(plan_of(seed)); }

bool Sweep::by_chance(std::uint64_t seed) {
  Plan plan = plan_of(seed);
  plan.deaths = random_deaths(seed, job_.world().ranks, job_.reference().turns);
  return try_plan(plan);
}

namespace {

// Runs every place of `places`, or an even share of them that is shifted by the seed.
class Share {
 public:
  Share(std::uint64_t places, std::uint64_t most, std::uint64_t seed)
      : every_(most == 0 ? places + 1 : (places + most - 1) / most),
        at_(every_ > 0 ? seed % every_ : 0) {}
  bool wants_next() { return every_ <= 1 || at_++ % every_ == 0; }

 private:
  std::uint64_t every_;
  std::uint64_t at_;
};

}  // namespace

constexpr std::uint64_t kStartUpSteps = 3;  // start, register, welcome: always swept, as is exit

bool Sweep::each_point(std::uint64_t seed) {
  if (!failure_.empty()) return false;
  Plan plan = plan_of(seed);
  const Result base = run(plan);
  if (!base.good()) return false;
  for (const Death& death : base.first_at) {
    plan.deaths = {death};
    if (death.step != 0 && !run(plan).acceptable()) return false;
  }
  return true;
}

bool Sweep::singles(std::uint64_t seed, std::uint64_t most_runs) {
  if (!failure_.empty()) return false;
  Plan plan = plan_of(seed);
  const Result base = run(plan);
  if (!base.good()) return false;
  std::uint64_t places = 0;
  for (const auto& r : base.ranks) places += r.steps;
  Share share(places, most_runs, seed);
  for (std::uint32_t r = 0; r < base.ranks.size(); ++r) {
    for (std::uint64_t step = 1; step <= base.ranks[r].steps; ++step) {
      const bool wanted = share.wants_next();
      if (!wanted && step > kStartUpSteps && step < base.ranks[r].steps) continue;
      plan.deaths = {{r, 0, step, 0}};
      if (!run(plan).acceptable()) return false;
    }
  }
  return true;
}

bool Sweep::pairs(std::uint64_t seed, std::uint64_t most_runs) {
  if (!failure_.empty()) return false;
  Plan plan = plan_of(seed);
  const Result base = run(plan);
  if (!base.good()) return false;
  std::uint64_t steps = 0;
  for (const auto& r : base.ranks) steps += r.steps;
  // On average, half of the steps follow a first death, and so do the replacement's.
  const std::uint64_t all = steps * steps;
  const std::uint64_t firsts =
      most_runs >= all ? steps : std::max<std::uint64_t>(1, most_runs / 40);
  Share share(steps, firsts, seed);
  const std::uint64_t seconds = most_runs >= all ? all : 40;
  for (std::uint32_t r = 0; r < base.ranks.size(); ++r) {
    for (std::uint64_t step = 1; step <= base.ranks[r].steps; ++step) {
      if (!share.wants_next()) continue;
      // If the job may end at this death, because the journal is full, an earlier one comes first.
      for (std::uint64_t at = step; at > 0; at /= 2) {
        plan.deaths = {{r, 0, at, 0}};
        const Result first = run(plan);
        if (!first.acceptable()) return false;
        if (!first.good()) continue;
        if (!second_deaths(plan, first, seconds)) return false;
        break;
      }
    }
  }
  return true;
}

bool Sweep::second_deaths(const Plan& first, const Result& result, std::uint64_t most_runs) {
  struct Range {
    std::uint32_t rank, incarnation;
    std::uint64_t begin, end;
  };
  // Half of the runs are for the steps right after the first death, in which it is repaired: of a
  // long job, an even share would leave them out.
  constexpr std::uint64_t kRepair = 150;
  std::vector<Range> ranges[2];
  std::uint64_t places[2] = {};
  const auto add = [&](int part, const Range& range) {
    places[part] += range.end - range.begin;
    ranges[part].push_back(range);
  };
  for (std::uint32_t r = 0; r < result.ranks.size(); ++r) {
    const auto& then = result.at_last_death[r];
    const auto& last = result.ranks[r];
    const std::uint64_t begin = last.incarnation == then.incarnation ? then.steps : 0;
    const std::uint64_t middle = std::min(begin + kRepair, last.steps);
    add(0, {r, last.incarnation, begin, middle});
    add(1, {r, last.incarnation, middle, last.steps});
  }
  Plan plan = first;
  for (int part = 0; part < 2; ++part) {
    Share share(places[part], (most_runs + 1) / 2, first.deaths[0].step);
    for (const Range& range : ranges[part]) {
      for (std::uint64_t step = range.begin + 1; step <= range.end; ++step) {
        if (!share.wants_next()) continue;
        plan.deaths = first.deaths;
        plan.deaths.push_back({range.rank, range.incarnation, step, 0});
        if (!run(plan).acceptable()) return false;
      }
    }
  }
  return true;
}

namespace {

// Deaths around a time: images of a rank die, alone, or before, after or with the rank; another
// rank dies as well, or the same rank once more.
std::vector<Death> deaths_of_images(std::uint32_t rank, std::uint32_t ranks, std::uint64_t time,
                                    SimRandom& random) {
  static constexpr std::uint64_t kApart[] = {0, 0, 1, 3, 8, 20, 60, 150, 300, 600};
  const auto apart = [&random] { return kApart[random.below(std::size(kApart))]; };
  const Victim image = random.one_in(2) ? Victim::kNewestImage : Victim::kKeptImage;
  std::vector<Death> deaths = {{rank, 0, 0, time, 9, image}};
  if (random.one_in(3)) return deaths;
  if (random.one_in(4)) deaths.push_back({rank, 0, 0, time + apart(), 9, Victim::kNewestImage});
  const bool before = random.one_in(2);
  const std::uint64_t other = apart();
  deaths.push_back({rank, 0, 0, before ? time - std::min(time, other) : time + other});
  if (random.one_in(3)) deaths.push_back({random.below(ranks), 0, 0, time + apart()});
  return deaths;
}

}  // namespace

bool Sweep::images(std::uint64_t seed, std::uint64_t most_runs) {
  if (!failure_.empty()) return false;
  Plan plan = plan_of(seed);
  const Result base = run(plan);
  if (!base.good()) return false;
  SimRandom random(seed ^ 0x1a6e);
  Share share(base.turns * job_.world().ranks, most_runs, seed);
  for (std::uint64_t turn = 0; turn < base.turns; ++turn) {
    for (std::uint32_t r = 0; r < job_.world().ranks; ++r) {
      if (!share.wants_next()) continue;
      plan.deaths = deaths_of_images(r, job_.world().ranks, turn, random);
      if (!run(plan).acceptable()) return false;
    }
  }
  return true;
}

bool Sweep::swarm(std::uint64_t seed) {
  if (!failure_.empty()) return false;
  const World& world = job_.world();
  const std::uint64_t turns = job_.reference().turns;
  // The agent rings all ranks for each death, and each of them looks and sleeps again.
  constexpr std::uint64_t kAfterARing = 100;
  SimRandom random(seed ^ 0x5e1f);
  Plan plan = plan_of(seed);
  const std::uint32_t deaths = random.one_in(8) ? 0 : 1 + random.below(1 << random.below(6));
  const std::uint64_t within = 1 + turns / (1 + random.below(4)) * 2;
  std::uint64_t last = 1;
  for (std::uint32_t i = 0; i < deaths; ++i) {
    Death death = {random.below(world.ranks), 0, 0, 1 + random.below(within)};
    if (world.snapshot_every_turns != 0 && random.one_in(6)) {
      death.victim = random.one_in(2) ? engine::Victim::kNewestImage : engine::Victim::kKeptImage;
    }
    last = std::max(last, death.time);
    plan.deaths.push_back(death);
  }
  plan.options.fair_from = last + 1;
  plan.options.finish_within = 6 * turns + world.ranks * kAfterARing + 1000;
  // At each step of a nearly full journal a rank waits for the agent, which may refuse its image.
  constexpr std::uint64_t kSteps = 20;
  if (world.journal_limit_bytes != 0) {
    plan.options.finish_within += kSteps * engine::SimHost::kTurnsForAgent;
  }
  return try_plan(plan);
}

std::string sweep_random_world(std::uint64_t seed, std::uint32_t most_ranks, Probes* probes) {
  SimRandom random(seed ^ 0x3a9d);
  std::uint32_t ranks = 1 + random.below(8);
  if (random.one_in(6)) ranks = 9 + random.below(24);
  if (random.one_in(25)) ranks = 33 + random.below(224);
  ranks = std::min(ranks, most_ranks);
  Sweep sweep(random_world(ranks, seed, false));
  const std::uint64_t schedules = ranks <= 8 ? 12 : ranks <= 32 ? 4 : 2;
  sweep.undisturbed(seed * 100 + 99);
  for (std::uint64_t i = 0; i < schedules; ++i) sweep.by_chance(seed * 100 + i);
  probes->add(sweep.probes());
  return sweep.failure();
}

std::string sweep_swarm(std::uint64_t seed, Probes* probes, double* slowest) {
  constexpr std::uint64_t kSchedules = 6;
  Sweep sweep(swarm_world(seed));
  for (std::uint64_t i = 0; i < kSchedules; ++i) sweep.swarm(seed * 100 + i);
  probes->add(sweep.probes());
  *slowest = std::max(*slowest, sweep.slowest_recovery());
  return sweep.failure();
}

std::string Sweep::unreached() const {
  std::string text;
  const Probes& probes = job_.probes();
  for (const Probe p : job_.world().must_reach) {
    if (probes[p] == 0) text += std::string(text.empty() ? "" : ", ") + name_of(p);
  }
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    const auto p = static_cast<Point>(i);
    if (p != Point::kPoll && probes.reached[i] >= job_.runs() && probes.killed[i] == 0) {
      text += std::string(text.empty() ? "" : ", ") + "a death at " + name_of(p);
    }
  }
  return text;
}

}  // namespace rejoin::sim
