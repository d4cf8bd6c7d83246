#include "launcher/agent/reporter.h"

#include <algorithm>

#include "launcher/symbolizer/symbolizer.h"
#include "recovery/hash.h"

namespace rejoin::launcher {

void Reporter::happened(const Event& event) {
  std::visit([this](const auto& what) { modules_of(what); }, event.what);
  Event counted = event;
  counted.epoch = segment_.header()->epoch.load();
  send(to_report(counted));
}

void Reporter::modules_of(const Event::Ended& e) { modules(e.position.site); }
void Reporter::modules_of(const Event::Aborted& e) { modules(e.what); }
void Reporter::modules_of(const Event::Diverged& e) { modules(e.how); }
void Reporter::modules_of(const Event::Notice& e) { modules(e.text); }
void Reporter::modules_of(const Event::CatchingUp& e) { modules(e.position.site); }
void Reporter::modules_of(const Event::Finalized& e) { modules(e.position.site); }
void Reporter::modules_of(const Event::Unfired& e) { modules(e.position.site); }

void Reporter::log_line(const std::string& line) {
  modules(line);
  Report report;
  report.set_log_line(line);
  send(std::move(report));
}

void Reporter::losses(const HostPlan& plan) {
  std::string text = losses_text(plan.forbidden, plan.options);
  if (text.empty()) return;
  if (!plan.options.hosts.empty()) text = plan.options.hosts[plan.host] + ": " + text;
  const std::uint64_t number = recovery::hash_bytes(text.data(), text.size());
  happened(0, Event::Notice{std::move(text), std::max<std::uint64_t>(number, 1)});
}

void Reporter::tell(const std::string& line) const {
  Report report;
  report.set_tell(line);
  send(std::move(report));
}

void Reporter::modules(const std::string& text) {
  expand_sites(text, [this](std::uint32_t rank, std::uint32_t index, std::uint64_t) {
    const journal::ModuleEntry* module = segment_.module(rank, index);
    if (module == nullptr || !sent_.insert({rank, index}).second) return std::string();
    this->module(rank, index, *module);
    return std::string();
  });
}

void Reporter::module(std::uint32_t rank, std::uint32_t index,
                      const journal::ModuleEntry& entry) const {
  Report report;
  report.mutable_module()->set_rank(rank);
  report.mutable_module()->set_index(index);
  report.mutable_module()->set_entry(&entry, sizeof entry);
  send(std::move(report));
}

void Reporter::fault_modules(std::uint32_t rank, const FaultReport& fault) const {
  for (std::uint32_t i = 0; i < fault.modules.size(); ++i) {
    module(rank, kFirstFaultModule + i, fault.modules[i]);
  }
}

}  // namespace rejoin::launcher
