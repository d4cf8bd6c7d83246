#include "launcher/orders/orders.h"

namespace rejoin::launcher {

Report to_report(const Event& event) {
  Report report;
  Report::Happened& h = *report.mutable_happened();
  h.set_kind(static_cast<std::uint32_t>(event.kind));
  h.set_at_ns(event.at_ns);
  h.set_rank(event.rank);
  h.set_pid(event.pid);
  h.set_code(event.code);
  h.set_value(event.value);
  h.set_text(event.text);
  orders::Cause& cause = *h.mutable_cause();
  cause.set_kind(static_cast<std::uint32_t>(event.cause.kind));
  cause.set_value(event.cause.value);
  cause.set_oom(event.cause.oom);
  cause.set_peak_bytes(event.cause.peak_bytes);
  orders::Position& position = *h.mutable_position();
  position.set_context(event.position.context);
  position.set_sequence(event.position.sequence);
  position.set_ordinal(event.position.ordinal);
  position.set_inside(event.position.inside);
  position.set_live(event.position.live);
  position.set_replayed(event.position.replayed);
  position.set_operation(event.position.operation);
  position.set_site(event.position.site);
  h.mutable_fault()->set_text(event.fault.text);
  h.mutable_fault()->set_site(event.fault.site);
  for (const std::string& frame : event.fault.stack) h.mutable_fault()->add_stack(frame);
  h.mutable_from()->set_kind(static_cast<std::uint32_t>(event.from.kind));
  h.mutable_from()->set_value(event.from.value);
  h.set_replay_ns(event.replay_ns);
  h.set_took_ns(event.took_ns);
  orders::Totals& totals = *h.mutable_totals();
  totals.set_journal_peak_bytes(event.totals.journal_peak_bytes);
  totals.set_snapshots(event.totals.snapshots);
  totals.set_snapshot_cost_ns(event.totals.snapshot_cost_ns);
  totals.set_exposed_ns(event.totals.exposed_ns);
  return report;
}

std::optional<Event> to_event(const Report::Happened& h) {
  if (h.kind() > static_cast<std::uint32_t>(Event::Kind::kAllOver)) return {};
  if (h.cause().kind() > static_cast<std::uint32_t>(Cause::Kind::kUnknown)) return {};
  if (h.from().kind() >= RecoveryPoint::kKinds) return {};
  Event event{static_cast<Event::Kind>(h.kind()), h.at_ns(), h.rank()};
  event.pid = h.pid();
  event.code = h.code();
  event.value = h.value();
  event.text = h.text();
  event.cause.kind = static_cast<Cause::Kind>(h.cause().kind());
  event.cause.value = h.cause().value();
  event.cause.oom = h.cause().oom();
  event.cause.peak_bytes = h.cause().peak_bytes();
  event.position.context = h.position().context();
  event.position.sequence = h.position().sequence();
  event.position.ordinal = h.position().ordinal();
  event.position.inside = h.position().inside();
  event.position.live = h.position().live();
  event.position.replayed = h.position().replayed();
  event.position.operation = h.position().operation();
  event.position.site = h.position().site();
  event.fault.text = h.fault().text();
  event.fault.site = h.fault().site();
  event.fault.stack = {h.fault().stack().begin(), h.fault().stack().end()};
  event.from = {static_cast<RecoveryPoint::Kind>(h.from().kind()), h.from().value()};
  event.replay_ns = h.replay_ns();
  event.took_ns = h.took_ns();
  event.totals.journal_peak_bytes = h.totals().journal_peak_bytes();
  event.totals.snapshots = h.totals().snapshots();
  event.totals.snapshot_cost_ns = h.totals().snapshot_cost_ns();
  event.totals.exposed_ns = h.totals().exposed_ns();
  return event;
}

}  // namespace rejoin::launcher
