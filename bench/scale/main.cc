// Scale in virtual time, and the worth of restarting only what died. Prints tables with tabs;
// bench/scale_tables makes those of docs/scale.md from them.
//
//     scale protocol HOSTS...            what a job on so many hosts is to its supervisor
//     scale worth SHAPE RUNS HOSTS...    time to finish for several ways to go on; SHAPE: of the
//                                        Weibull distribution of failures
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol.h"
#include "worth.h"

namespace rejoin::scale {
namespace {

int run_protocol(int count, char** hosts) {
  printf(
      "hosts\tranks\tphase\treports\torders\tbytes_in\tbytes_out\tcode_ms\tbusy_ms\ttime_"
      "ms\treceive_ns\tsend_ns\tstreams\n");
  constexpr std::uint32_t kRanksEach = 8;
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<std::uint32_t>(strtoul(hosts[i], nullptr, 10));
    Constants constants;
    calibrate(constants, n);
    for (const Phase& p : simulate_protocol(n, kRanksEach, constants, thread_time_ns)) {
      printf("%u\t%u\t%s\t%llu\t%llu\t%llu\t%llu\t%.3f\t%.3f\t%.3f\t%llu\t%llu\t%u\n", n,
             n * kRanksEach, p.name.c_str(), static_cast<unsigned long long>(p.reports),
             static_cast<unsigned long long>(p.orders), static_cast<unsigned long long>(p.bytes_in),
             static_cast<unsigned long long>(p.bytes_out), static_cast<double>(p.code_ns) / 1e6,
             static_cast<double>(p.busy_ns) / 1e6, static_cast<double>(p.time_ns) / 1e6,
             static_cast<unsigned long long>(constants.receive_ns),
             static_cast<unsigned long long>(constants.send_ns), constants.streams);
    }
    fflush(stdout);
  }
  return 0;
}

// --- Worth. docs/scale.md says where these are from.

constexpr double kHour_s = 3600;
constexpr Job kJob = {24 * kHour_s, 0};
constexpr double kLink = 1.25;       // GB/s, of a host
constexpr double kPutBack_s = 0.83;  // for a GB
constexpr double kStartAgent_s = 0.45, kStore_s = 0.24, kLease_s = 5;
constexpr double kSupervisor_s = 3e-5;  // for each host, for a loss
constexpr Files kFiles = {300, 600}, kFastFiles = {30, 60};
constexpr Sets kImages = {1, 0, 0.01, 0.006};  // of one rank

// Sets of a job whose hosts use this many GB each. Storing takes a fifth of the time at most, as
// with --snapshots 1.
Sets sets_of(double gigabytes, std::uint32_t hosts) {
  Sets sets = {};
  sets.store_s = kStore_s + gigabytes / kLink;
  sets.period_s = std::max(1.0, 5 * sets.store_s);
  sets.share = 0.05;
  sets.back_s =
      kLease_s + kStartAgent_s + gigabytes * (1 / kLink + kPutBack_s) + kSupervisor_s * hosts;
  return sets;
}

struct Way {
  const char* name;
  Files files;
  bool has_sets = false;
  GoesBack who = GoesBack::kAll;
  Sets sets = {};
};

std::vector<Way> ways(std::uint32_t hosts) {
  const Sets large = sets_of(8, hosts), small = sets_of(1, hosts);
  return {{"files", kFiles},
          {"fast files", kFastFiles},
          {"all back", kFiles, true, GoesBack::kAll, large},
          {"all back, 1 GB", kFiles, true, GoesBack::kAll, small},
          {"one host", kFiles, true, GoesBack::kHost, large},
          {"one rank", kFiles, true, GoesBack::kRank, kImages}};
}

void print_way(const Way& way, Job job, double mtbf_h, double shape, int runs) {
  const double mtbf_s = mtbf_h * kHour_s / job.hosts;
  const double period_s = daly_period_s(
      way.files, way.has_sets ? fall_distance_s(job, way.sets, way.who, mtbf_s) : mtbf_s);
  double time = 0, redone = 0, losses = 0, falls = 0;
  bool finished = true;
  for (int run = 0; run < runs && finished; ++run) {
    RandomFailures failures(job.hosts, mtbf_h * kHour_s, shape, static_cast<std::uint64_t>(run));
    const Outcome o = way.has_sets ? go_back(job, way.sets, way.files, period_s, way.who, failures)
                                   : fail_all(job, way.files, period_s, failures);
    finished = o.finished;
    time += o.time_s / job.work_s / runs;
    redone += o.redone_s / job.work_s / job.hosts / runs;
    losses += static_cast<double>(o.losses) / runs;
    falls += static_cast<double>(o.falls) / runs;
  }
  printf("%u\t%g\t%g\t%s\t%d\t%.4f\t%.6f\t%.2f\t%.3f\t%.0f\n", job.hosts, mtbf_h, shape, way.name,
         finished, time, redone, losses, falls, std::min(period_s, 1e9));
}

int run_worth(double shape, int runs, int count, char** hosts) {
  printf("hosts\tmtbf_h\tshape\tway\tfinished\ttime\tredone\tlosses\tfalls\tperiod_s\n");
  for (int i = 0; i < count; ++i) {
    Job job = kJob;
    job.hosts = static_cast<std::uint32_t>(strtoul(hosts[i], nullptr, 10));
    for (const double mtbf_h : {1.0, 10.0, 100.0, 1000.0, 10'000.0}) {
      for (const Way& way : ways(job.hosts)) print_way(way, job, mtbf_h, shape, runs);
      fflush(stdout);
    }
  }
  return 0;
}

int usage() {
  fprintf(stderr, "scale protocol HOSTS...\nscale worth SHAPE RUNS HOSTS...\n");
  return 2;
}

}  // namespace
}  // namespace rejoin::scale

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "protocol") == 0) {
    return rejoin::scale::run_protocol(argc - 2, argv + 2);
  }
  if (argc > 4 && strcmp(argv[1], "worth") == 0) {
    return rejoin::scale::run_worth(strtod(argv[2], nullptr), atoi(argv[3]), argc - 4, argv + 4);
  }
  return rejoin::scale::usage();
}
