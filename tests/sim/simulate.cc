// The simulator's command line: reproduces a failed run of a test, or sweeps for longer.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sweep.h"
#include "worlds.h"

namespace rejoin::sim {
namespace {

constexpr const char* kHelp = R"(usage: simulate [WORLD] [options]

Runs a world's program under the simulator. Without WORLD: lists the worlds. "random:RANKS:SEED",
"small:RANKS:SEED" and "swarm:SEED" are worlds too, and "apart:NAME" is world NAME on two nodes
that share only messages.

  --seed S          schedule, agent's delays, tagged or not (default 0: all ranks in turn)
  --deaths LIST     RANK:INCARNATION:STEP or RANK:tTURN, with commas; RANK:iTURN of the rank's
                    newest image, RANK:kTURN of the one that is kept
  --mutant N        breaks rule N of enum Mutant
  --break N         breaks rule N of enum Rule (src/journal/rules.h)
  --leave-out N     rule N of enum ImageRule (src/launcher/agent/agent_core.h)
  --lines N         of the transcript, a rank (default 30)
  --fair T:N        fair from turn T on, and finished within N turns of that or of the last death
  --sweep KIND      singles, pairs, chance or images, instead of one run; random or swarm (without
                    WORLD): a random world for each seed
  --seeds A-B       of the sweep (default 0-9)
  --most N          runs a seed (default: all)
)";

struct Arguments {
  std::string world;
  Plan plan;
  std::uint64_t seed = 0;
  std::size_t lines = 30;
  std::string sweep;
  unsigned long long from = 0, to = 9, fair_from = 0, finish_within = 0;
  std::uint64_t most = ~std::uint64_t{0};
  engine::Mutant mutant = engine::Mutant::kNone;
  journal::Rule broken = journal::Rule::kNone;
  launcher::ImageRule left_out = launcher::ImageRule::kNone;
};

bool parse(int count, char** words, Arguments* a) {
  std::vector<Death> deaths;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word[0] != '-') {
      a->world = word;
      continue;
    }
    if (i + 1 == count) return false;
    const char* value = words[++i];
    if (word == "--seed") {
      a->seed = std::strtoull(value, nullptr, 10);
    } else if (word == "--deaths") {
      if (!parse_deaths(value, &deaths)) return false;
    } else if (word == "--mutant") {
      a->mutant = static_cast<engine::Mutant>(std::atoi(value));
    } else if (word == "--break") {
      a->broken = static_cast<journal::Rule>(std::atoi(value));
    } else if (word == "--leave-out") {
      a->left_out = static_cast<launcher::ImageRule>(std::atoi(value));
    } else if (word == "--fair") {
      if (std::sscanf(value, "%llu:%llu", &a->fair_from, &a->finish_within) != 2) return false;
    } else if (word == "--lines") {
      a->lines = std::strtoull(value, nullptr, 10);
    } else if (word == "--sweep") {
      a->sweep = value;
    } else if (word == "--seeds") {
      if (std::sscanf(value, "%llu-%llu", &a->from, &a->to) != 2) return false;
    } else if (word == "--most") {
      a->most = std::strtoull(value, nullptr, 10);
    } else {
      return false;
    }
  }
  a->plan = plan_of(a->seed);
  a->plan.deaths = deaths;
  a->plan.options.fair_from = a->fair_from;
  a->plan.options.finish_within = a->finish_within;
  a->plan.options.mutant = a->mutant;
  a->plan.options.broken = a->broken;
  a->plan.left_out = a->left_out;
  return true;
}

void show_probes(const Probes& probes) {
  for (unsigned i = 0; i < kProbeCount; ++i) {
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(probes.count[i]),
                name_of(static_cast<Probe>(i)));
  }
  for (unsigned i = 0; i < engine::kPoints; ++i) {
    std::printf("%12llu  times at %s, %llu deaths there\n",
                static_cast<unsigned long long>(probes.reached[i]), name_of(static_cast<Point>(i)),
                static_cast<unsigned long long>(probes.killed[i]));
  }
}

int run_once(const World& world, const Arguments& a) {
  Job job(world);
  const Result r = job.run(a.plan);
  std::fputs(job.transcript(a.plan, a.lines).c_str(), stdout);
  std::printf("%s; %llu turns, %u deaths, trace %016llx\n", r.good() ? "good" : r.why.c_str(),
              static_cast<unsigned long long>(r.turns), r.deaths,
              static_cast<unsigned long long>(r.hash));
  return r.good() ? 0 : 1;
}

int run_random(const Arguments& a) {
  Probes probes;
  std::string failure;
  for (std::uint64_t seed = a.from; failure.empty() && seed <= a.to; ++seed) {
    failure = sweep_random_world(seed, kMaxSimRanks, &probes);
  }
  show_probes(probes);
  std::printf("%s\n", failure.empty() ? "all good" : failure.c_str());
  return failure.empty() ? 0 : 1;
}

int run_swarm(const Arguments& a) {
  Probes probes;
  double slowest = 0;
  for (std::uint64_t seed = a.from; seed <= a.to; ++seed) {
    const World world = swarm_world(seed);
    std::printf("swarm:%llu  %s\n", static_cast<unsigned long long>(seed), world.says.c_str());
    const std::string failure = sweep_swarm(seed, &probes, &slowest);
    if (failure.empty()) continue;
    std::printf("%s\n", failure.c_str());
    return 1;
  }
  show_probes(probes);
  std::printf("slowest recovery %.1f undisturbed runs; all good\n", slowest);
  return 0;
}

int run_sweep(const World& world, const Arguments& a) {
  const auto begin = std::chrono::steady_clock::now();
  Sweep sweep(world);
  sweep.set_mutant(a.mutant);
  sweep.set_broken(a.broken);
  sweep.leave_out(a.left_out);
  bool good = sweep.failure().empty();
  for (std::uint64_t seed = a.from; good && seed <= a.to; ++seed) {
    if (a.sweep == "singles") {
      good = sweep.singles(seed, a.most);
    } else if (a.sweep == "pairs") {
      good = sweep.pairs(seed, a.most);
    } else if (a.sweep == "images") {
      good = sweep.images(seed, a.most);
    } else {
      good = sweep.by_chance(seed);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  show_probes(sweep.probes());
  std::printf("%llu runs in %.1f s, slowest recovery %.1f undisturbed runs; %s\n",
              static_cast<unsigned long long>(sweep.job().runs()), seconds.count(),
              sweep.slowest_recovery(), good ? "all good" : sweep.failure().c_str());
  return good ? 0 : 1;
}

int main(int count, char** words) {
  Arguments a;
  if (!parse(count, words, &a)) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  if (a.sweep == "random") return run_random(a);
  if (a.sweep == "swarm") return run_swarm(a);
  if (a.world.empty()) {
    for (const World& w : named_worlds()) std::printf("%-20s %u ranks\n", w.name.c_str(), w.ranks);
    return 0;
  }
  World world;
  if (!find_world(a.world, &world)) {
    std::fprintf(stderr, "simulate: there is no world '%s'\n", a.world.c_str());
    return 2;
  }
  return a.sweep.empty() ? run_once(world, a) : run_sweep(world, a);
}

}  // namespace
}  // namespace rejoin::sim

int main(int count, char** words) { return rejoin::sim::main(count, words); }
