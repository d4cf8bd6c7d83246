// What the supervisor does when the job, or one of its hosts, is given notice that it is about to
// end: --grace, and --survive host.
#include <utility>

#include "launcher/base/grammar.h"
#include "launcher/base/result.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {
namespace {

constexpr const char* kStayBecauseFull =
    "stay there: the journal is full, and the past cannot be replayed elsewhere";

}  // namespace

// --- The job

void SupervisorCore::take_notice(const std::string& what) {
  noticed_ = true;
  noticed_at_ns_ = now_ns_;
  set_before_ = sets_.newest_number();
  const std::string told = what + " is taken for a notice: the job's state is being written to " +
                           options_.checkpoint_directory + ", for " +
                           duration_text(*options_.grace_ns) +
                           " at most, and the job ends; another signal ends it at once";
  record_job("notice").text = told;
  tell(told);
  if (options_.has_agents()) {
    want_newer_set();
  } else {
    act(Action::WriteNow{});
  }
}

void SupervisorCore::on(const Event::HasVersions&) {
  if (noticed_ && !is_over()) end_by_notice("the program's newest checkpoint is in");
}

void SupervisorCore::end_by_notice(const std::string& what) {
  stop(kExitRequeue, what + " " + options_.checkpoint_directory +
                         ", and the job ends; --resume goes on from there");
}

void SupervisorCore::on(const Event::Tick&) {
  if (!awaits_ticks()) return;
  if (noticed_ && now_ns_ > noticed_at_ns_ + *options_.grace_ns) {
    const std::string late = "no state was written within " + duration_text(*options_.grace_ns);
    if (has_state()) return end_by_notice(late + "; an earlier one is in");
    constexpr int kSigterm = 15;
    return stop(kExitSignal + kSigterm, late + ", so the job ends, and has to begin anew");
  }
  if (options_.has_agents()) {
    want_newer_set();
    leave_hosts();
  }
}

// --- Several hosts

// Wants a set that was made after the notice, as soon as that is possible.
void SupervisorCore::want_newer_set() {
  if (goes_back_ || recycles_) return;
  if (sets_.newest() > set_before_) return write_if_due();
  if (!sets_.is_idle() || !may_make_set()) return;
  wanted_at_ns_ = now_ns_;
  act(Action::WantImages{{}, sets_.want()});
}

void SupervisorCore::on(const Event::HostNotice& e) {
  if (stopping_ || is_over() || replaced_.contains(e.host)) return;
  if (options_.survive_host && recycles_) {
    return tell(host_text(e.host) + " is about to go (its agent has got SIGTERM), but its ranks " +
                kStayBecauseFull);
  }
  if (options_.survive_host) {
    const std::string told = host_text(e.host) +
                             " is about to go (its agent has got SIGTERM): its "
                             "ranks will go on elsewhere as soon as their state is stored";
    record_job("notice").text = told;
    tell(told);
    leaving_.insert(e.host);
    set_before_ = sets_.newest_number();
    return want_newer_set();
  }
  if (options_.grace_ns && !noticed_) {
    noticed_by_host_ = true;  // batch systems send it to all
    return take_notice("SIGTERM to the agent of " + host_text(e.host));
  }
  if (!options_.grace_ns) {
    tell(host_text(e.host) +
         " is about to go (its agent has got SIGTERM); with --survive host its "
         "ranks would go on elsewhere, and with --grace the job's state would "
         "be written first");
  }
}

// Moves the ranks of one host to another one: all ranks go back to the set that was just stored.
void SupervisorCore::leave_hosts() {
  if (recycles_) {
    for (const std::uint32_t host : std::exchange(leaving_, {})) {
      tell("the ranks of " + host_text(host) + " " + kStayBecauseFull);
    }
  }
  if (leaving_.empty() || goes_back_ || sets_.newest() <= set_before_) return;
  if (options_.agents_join() && spares_.empty()) return;  // until one joins, or the host is gone
  const std::uint32_t host = *leaving_.begin();
  if (!writes_parts() && lost_.contains(holders_[host])) {
    set_before_ = sets_.newest();  // its part has another place with the next one
    return;
  }
  leaving_.erase(host);
  const std::string why_not = why_not_survived(host);
  set_before_ = sets_.newest_number();  // the next one needs a set of its own
  if (why_not.empty()) {
    return replace(host, host_text(host) + " was given notice, and is left");
  }
  tell("the ranks of " + host_text(host) + " stay there: " + why_not);
}

}  // namespace rejoin::launcher
