#include "launcher/agent/end_reports.h"

#include <signal.h>

#include <utility>

#include "launcher/agent/machine.h"

namespace rejoin::launcher {

EndReports::EndReports(std::uint32_t ranks, const JobSegment& segment, const Processes& processes,
                       Reporter& reporter)
    : segment_(segment),
      processes_(processes),
      reporter_(reporter),
      faults_(ranks),
      oom_kills_seen_(out_of_memory_kills()) {}

void EndReports::report(std::uint32_t rank, const AgentAction::ReportEnded& a) {
  Event::Ended ended = {a.cause, segment_.position(rank), {}, {}, {}};
  ended.cause.peak_bytes = processes_.peak_bytes(rank);
  if (a.cause.kind == Cause::Kind::kSignal && a.cause.value == SIGKILL) {
    ended.cause.oom = take_oom_kill(processes_.images_being_killed());
  }
  FaultReport fault = std::exchange(faults_[rank], {});
  if (a.cause.same_as({Cause::Kind::kSignal, fault.signal})) {
    reporter_.fault_modules(rank, fault);
    ended.fault = std::move(fault.fault);
  }
  // Deaths that were reported before, and are not published yet, have none of their own so far.
  if (!journal::has_epochs(segment_.base())) {
    ended.why_final =
        "the job has reached the largest number of deaths that Rejoin supports, so it ends";
  }
  if (segment_.would_replay_threads(rank)) {
    ended.not_alone =
        "several of its threads had called MPI (MPI_THREAD_MULTIPLE), in an order that is not "
        "recorded";
  }
  reporter_.happened({a.at_ns, rank, std::move(ended)});
}

bool EndReports::take_oom_kill(std::uint64_t others) {
  const bool taken = out_of_memory_kills() > oom_kills_seen_ + others;
  if (taken) ++oom_kills_seen_;
  return taken;
}

}  // namespace rejoin::launcher
