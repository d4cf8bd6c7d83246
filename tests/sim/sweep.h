// Many runs of one world: every rank killed at every step, pairs of deaths, random deaths. Stops at
// the first run that fails, and prints the command that reproduces it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job.h"

namespace rejoin::sim {

// The text of deaths, separated by commas: "1:0:17": rank 1's incarnation 0 dies at its 17th point;
// "2:t300": rank 2 dies at turn 300; "2:i300": its newest image dies then; "2:k300": its kept image
// does.
std::string text_of(const std::vector<Death>& deaths);
bool parse_deaths(const std::string& text, std::vector<Death>* deaths);

// Random deaths within `turns`: scattered, together, all ranks at once, or one rank again and
// again.
std::vector<Death> random_deaths(std::uint64_t seed, std::uint32_t ranks, std::uint64_t turns);

class Sweep {
 public:
  explicit Sweep(const World& world);

  void set_mutant(engine::Mutant mutant) { mutant_ = mutant; }
  void set_broken(journal::Rule rule) { broken_ = rule; }
  void leave_out(launcher::ImageRule rule) { left_out_ = rule; }

  // All of these functions return false if a run failed, with the reason in failure(). They do
  // nothing after that.

  // A run without deaths.
  bool undisturbed(std::uint64_t seed);
  // One death, at the first time that a rank reaches each point.
  bool each_point(std::uint64_t seed);
  // One death, at every step of every rank in the schedule that follows from `seed`. At most about
  // `most_runs` runs, evenly distributed; other seeds then choose other steps.
  bool singles(std::uint64_t seed, std::uint64_t most_runs);
  // Two deaths: the second at any later step of any rank, the replacement included.
  bool pairs(std::uint64_t seed, std::uint64_t most_runs);
  bool by_chance(std::uint64_t seed);
  // Images die at every turn, alone or with ranks. A job may end in that case, if a rank and its
  // image are dead together.
  bool images(std::uint64_t seed, std::uint64_t most_runs);
  // Deaths of ranks and images at a random rate. After the last death the scheduler is fair, and
  // the job finishes within a bounded number of turns.
  bool swarm(std::uint64_t seed);
  bool try_plan(const Plan& plan);

  const std::string& failure() const { return failure_; }
  Job& job() { return job_; }
  const Probes& probes() const { return job_.probes(); }
  // The longest way from a last death to the end, in runs without failures.
  double slowest_recovery() const { return slowest_recovery_; }

  // Returns what was not reached, as text: probes that the world requires, and a death at each of
  // the points that its runs reach. Empty: everything was reached.
  std::string unreached() const;

 private:
  Result run(const Plan& plan);
  void fail(const Plan& plan, const Result& result);
  bool second_deaths(const Plan& first, const Result& result, std::uint64_t most_runs);

  Job job_;
  engine::Mutant mutant_ = engine::Mutant::kNone;
  journal::Rule broken_ = journal::Rule::kNone;
  launcher::ImageRule left_out_ = launcher::ImageRule::kNone;
  std::string failure_;
  double slowest_recovery_ = 0;
};

// A random world, mostly of a few ranks, sometimes of up to `most_ranks`, under several schedules
// with random deaths. Returns an empty string, or what failed. Adds to `probes`.
std::string sweep_random_world(std::uint64_t seed, std::uint32_t most_ranks, Probes* probes);

// The world of a swarm under several schedules. Returns an empty string, or what failed. Adds to
// `probes`. *slowest: raised to the longest way from a last death to the end, in runs without
// failures.
std::string sweep_swarm(std::uint64_t seed, Probes* probes, double* slowest);

// The factor by which the tests sweep more (or, under sanitizers, less) than usual: 1 by default;
// the environment variable REJOIN_SIM_EFFORT multiplies it.
double effort();

}  // namespace rejoin::sim
