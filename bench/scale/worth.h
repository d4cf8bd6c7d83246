// What it is worth to restart only what died: jobs on many hosts that fail at random times, in
// virtual time, with the ways to go on. Times are in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace rejoin::scale {

// A host, or a process on it, that ends at this time.
struct Failure {
  double at_s;
  std::uint32_t host;
};
// The failures of a job in the order of their times, without an end.
using Failures = std::function<Failure()>;

// Each host fails by itself, a Weibull distribution of this shape apart (1: exponential), and goes
// on as a new one. At time 0 the hosts have run for long.
class RandomFailures {
 public:
  RandomFailures(std::uint32_t hosts, double mtbf_s, double shape, std::uint64_t seed);
  Failure operator()();

 private:
  double scale_s_, shape_;
  std::mt19937_64 random_;
  std::vector<std::pair<double, std::uint32_t>> next_;  // a heap, the next failure in front
};

// Restart files: all ranks write them, and all processes begin again from them.
struct Files {
  double write_s;
  double restart_s;
};
// Sets of images in the memory of other hosts.
struct Sets {
  double period_s;
  double store_s;  // from the moment of a set until it protects
  double share;    // of the job's time that they take
  double back_s;   // from the loss of a host until its ranks run, without what they then repeat
};

struct Job {
  double work_s;  // without failures and protection
  std::uint32_t hosts;
};

struct Outcome {
  bool finished = true;  // not: it took kMostTimes as long as its work
  double time_s = 0;
  double redone_s = 0;       // host-seconds of work that was done again
  std::uint64_t losses = 0;  // failures
  std::uint64_t falls = 0;   // from sets to files
};
inline constexpr double kMostTimes = 20;

// All ranks begin again from the newest restart file.
Outcome fail_all(const Job& job, const Files& files, double period_s, Failures failures);

enum class GoesBack : std::uint8_t {
  kAll,   // all ranks, if a host is lost
  kHost,  // that host alone, and the others wait for it
  kRank,  // a process has died, and its host was not lost: it alone
};
// With sets, and restart files beneath them, for losses that sets do not survive: with kAll a
// second one while ranks go back; always one of a host whose part lay with a host that was lost
// since the newest set. `period_s`: of files.
Outcome go_back(const Job& job, const Sets& sets, const Files& files, double period_s, GoesBack who,
                Failures failures);

// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", 2006:
// the period of files for failures of the whole job at this distance, and the time that it takes.
double daly_period_s(const Files& files, double mtbf_s);
double daly_time_s(double work_s, const Files& files, double period_s, double mtbf_s);

// The distance of losses that sets do not survive, if failures are `mtbf_s` apart.
double fall_distance_s(const Job& job, const Sets& sets, GoesBack who, double mtbf_s);

}  // namespace rejoin::scale
