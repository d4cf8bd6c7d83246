// Sends reports to the supervisor, preceded by the modules to which their call sites refer.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "launcher/agent/fault_report.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/loop.h"
#include "launcher/orders/orders.h"

namespace rejoin::launcher {

class Reporter {
 public:
  // `loop` and `segment` outlive it.
  Reporter(const Loop& loop, const JobSegment& segment, std::uint32_t host, SendReport send)
      : loop_(loop), segment_(segment), host_(host), send_(std::move(send)) {}

  void send(Report report) const {
    report.set_host(host_);
    send_(std::move(report));
  }
  void happened(const Event& event);
  // Reports an event of this moment.
  void happened(std::uint32_t rank, decltype(Event::what) what) {
    happened({loop_.now_ns(), rank, std::move(what)});
  }
  // Reports a message about the rank for the user.
  void notice(std::uint32_t rank, std::string text) {
    happened(rank, Event::Notice{std::move(text), 0});
  }
  // Reports what a job loses on this host; once if several agents of one machine report it.
  void losses(const HostPlan& plan);
  // Sends the modules to which the sites of `fault` refer. To be called before the event that
  // contains the fault.
  void fault_modules(std::uint32_t rank, const FaultReport& fault) const;
  void log_line(const std::string& line);  // of --log-ops
  void tell(const std::string& line) const;

 private:
  // Sends the modules to which the event's call sites refer, as modules() does.
  void modules_of(const Event::Ended& e);
  void modules_of(const Event::Aborted& e);
  void modules_of(const Event::Diverged& e);
  void modules_of(const Event::Notice& e);
  void modules_of(const Event::CatchingUp& e);
  void modules_of(const Event::Finalized& e);
  void modules_of(const Event::Unfired& e);
  template <class What>
  void modules_of(const What&) {}  // the others have none
  // Sends the modules to which the call sites in a text refer, each module once.
  void modules(const std::string& text);
  void module(std::uint32_t rank, std::uint32_t index, const journal::ModuleEntry& entry) const;

  const Loop& loop_;
  const JobSegment& segment_;
  const std::uint32_t host_;  // of the agent
  const SendReport send_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> sent_;  // modules: rank, index
};

}  // namespace rejoin::launcher
