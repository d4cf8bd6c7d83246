#include "worth.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rejoin::scale {

// --- Failures

RandomFailures::RandomFailures(std::uint32_t hosts, double mtbf_s, double shape, std::uint64_t seed)
    : scale_s_(mtbf_s / std::tgamma(1 + 1 / shape)), shape_(shape), random_(seed) {
  // What is left of the time of a host that has run for long: a share of one that is chosen by its
  // length.
  std::gamma_distribution<double> length(1 + 1 / shape);
  std::uniform_real_distribution<double> share;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    const double lasts_s = scale_s_ * std::pow(length(random_), 1 / shape);
    next_.emplace_back(lasts_s * share(random_), host);
  }
  std::make_heap(next_.begin(), next_.end(), std::greater<>());
}

Failure RandomFailures::operator()() {
  std::pop_heap(next_.begin(), next_.end(), std::greater<>());
  auto& [at_s, host] = next_.back();
  const Failure failure = {at_s, host};
  at_s += std::weibull_distribution<double>(shape_, scale_s_)(random_);
  std::push_heap(next_.begin(), next_.end(), std::greater<>());
  return failure;
}

// --- Daly

double daly_period_s(const Files& files, double mtbf_s) {
  const double x = files.write_s / (2 * mtbf_s);
  if (x >= 1) return mtbf_s;
  return std::sqrt(2 * files.write_s * mtbf_s) * (1 + std::sqrt(x) / 3 + x / 9) - files.write_s;
}

double daly_time_s(double work_s, const Files& files, double period_s, double mtbf_s) {
  return mtbf_s * std::exp(files.restart_s / mtbf_s) *
         std::expm1((period_s + files.write_s) / mtbf_s) * work_s / period_s;
}

namespace {

// What both simulations share: the clock, the work that is done, and the restart files.
class Run {
 public:
  Run(const Job& job, const Files& files, double period_s, Failures failures)
      : job_(job), files_(files), period_s_(period_s), failures_(std::move(failures)) {
    next_ = failures_();
  }

 protected:
  bool is_over() const {
    return done_s_ >= job_.work_s || outcome_.time_s > kMostTimes * job_.work_s;
  }
  // To be called at the time of next_.
  Failure take() {
    const Failure failure = next_;
    outcome_.time_s = failure.at_s;
    ++outcome_.losses;
    next_ = failures_();
    return failure;
  }
  // All begin again from the newest file, after a failure. Another one meanwhile begins that again.
  void restart() {
    while (next_.at_s < outcome_.time_s + files_.restart_s && !is_over()) take();
    outcome_.time_s += files_.restart_s;
    outcome_.redone_s += (done_s_ - filed_s_) * job_.hosts;
    done_s_ = filed_s_;
  }
  // The work at which the next file is due, or the job ends.
  double due_s() const { return std::min(filed_s_ + period_s_, job_.work_s); }
  Outcome result() {
    outcome_.finished = done_s_ >= job_.work_s;
    return outcome_;
  }

  const Job job_;
  const Files files_;
  const double period_s_;
  const Failures failures_;
  Failure next_ = {};
  double done_s_ = 0;   // work
  double filed_s_ = 0;  // work that the newest file has
  Outcome outcome_;
};

class FailAll : Run {
 public:
  using Run::Run;
  Outcome run() {
    while (!is_over()) {
      const double begun_s = outcome_.time_s, due = due_s();
      const double written_s = begun_s + (due - done_s_) + (due < job_.work_s ? files_.write_s : 0);
      if (next_.at_s >= written_s) {
        outcome_.time_s = written_s;
        done_s_ = filed_s_ = due;
        continue;
      }
      done_s_ = std::min(due, done_s_ + next_.at_s - begun_s);
      take();
      restart();
    }
    return result();
  }
};

class GoBack : Run {
 public:
  GoBack(const Job& job, const Sets& sets, const Files& files, double period_s, GoesBack who,
         Failures failures)
      : Run(job, files, period_s, std::move(failures)), sets_(sets), who_(who) {}

  Outcome run() {
    while (!is_over()) {
      const double rate = 1 - sets_.share, begun_s = outcome_.time_s, due = due_s();
      const double due_at_s = begun_s + (due - done_s_) / rate;
      const double written_s = due_at_s + (due < job_.work_s ? files_.write_s : 0);
      if (next_.at_s >= written_s) {
        outcome_.time_s = written_s;
        done_s_ = filed_s_ = due;
        continue;
      }
      done_s_ = std::min(due, done_s_ + (next_.at_s - begun_s) * rate);
      lose();
    }
    return result();
  }

 private:
  // The work that the newest set has that was stored `at_s`.
  double kept_s(double at_s) const {
    const double since_s = at_s - resumed_at_s_ - sets_.store_s;
    const double sets = since_s < 0 ? 0 : std::floor(since_s / sets_.period_s);
    // While a file is written, no work is done, and the set is the same.
    return std::min(done_s_, resumed_s_ + sets * sets_.period_s * (1 - sets_.share));
  }

  // Whether the part of a host is gone that is lost now.
  bool is_gone(const Failure& failure) {
    if (who_ == GoesBack::kRank) return false;
    const std::uint32_t holder = (failure.host + 1) % job_.hosts;
    const std::uint32_t held = (failure.host + job_.hosts - 1) % job_.hosts;
    const auto other = lost_.find(held);
    const bool is_fetched_from = other != lost_.end() && failure.at_s < other->second;
    const bool is_gone = lost_.contains(holder) || (is_fetched_from && held != failure.host);
    lost_[failure.host] = failure.at_s + sets_.back_s;
    return is_gone;
  }

  // A failure, and all those until the job goes on.
  void lose() {
    const Failure first = take();
    if (first.at_s > resumed_at_s_ + sets_.store_s) lost_.clear();  // there is a newer set
    const double kept = kept_s(first.at_s), again_s = done_s_ - kept;
    bool falls = is_gone(first);
    double until_s = first.at_s + sets_.back_s;
    const double repeats_s = who_ == GoesBack::kAll ? 0 : again_s / (1 - sets_.share);
    outcome_.redone_s += again_s * (who_ == GoesBack::kAll ? job_.hosts : 1);
    until_s += repeats_s;
    while (!falls && next_.at_s < until_s && !is_over()) {
      const Failure other = take();
      falls = who_ == GoesBack::kAll || is_gone(other);
      outcome_.redone_s += again_s;
      until_s = std::max(until_s, other.at_s + sets_.back_s + repeats_s);
    }
    if (falls) {
      ++outcome_.falls;
      lost_.clear();
      // What was to be repeated since the set is repeated from the file, with all before it.
      if (who_ == GoesBack::kAll) done_s_ = kept;
      restart();
    } else {
      outcome_.time_s = until_s;
      if (who_ == GoesBack::kAll) done_s_ = kept;
    }
    resumed_s_ = done_s_;
    resumed_at_s_ = outcome_.time_s;
  }

  const Sets sets_;
  const GoesBack who_;
  double resumed_s_ = 0, resumed_at_s_ = 0;  // work and time at which the job last went on
  std::map<std::uint32_t, double> lost_;     // hosts since the newest set, and when they are back
};

}  // namespace

Outcome fail_all(const Job& job, const Files& files, double period_s, Failures failures) {
  return FailAll(job, files, period_s, std::move(failures)).run();
}

Outcome go_back(const Job& job, const Sets& sets, const Files& files, double period_s, GoesBack who,
                Failures failures) {
  return GoBack(job, sets, files, period_s, who, std::move(failures)).run();
}

double fall_distance_s(const Job& job, const Sets& sets, GoesBack who, double mtbf_s) {
  if (who == GoesBack::kRank) return INFINITY;
  const double exposed_s = sets.back_s + sets.period_s + sets.store_s;
  const double neighbours = std::min(1.0, 2.0 / job.hosts);
  const double second = 1 - std::exp(-sets.back_s / mtbf_s);
  const double near = 1 - std::exp(-exposed_s * neighbours / mtbf_s);
  return mtbf_s / std::min(1.0, (who == GoesBack::kAll ? second : 0) + near);
}

}  // namespace rejoin::scale
