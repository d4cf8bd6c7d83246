#include "launcher/orders/orders.h"

#include <type_traits>

namespace rejoin::launcher {
namespace {

using Happened = Report::Happened;

// --- Parts of events, in both directions. read() returns false for values that the part cannot
// have.

void write(const Cause& from, orders::Cause* to) {
  to->set_kind(static_cast<std::uint32_t>(from.kind));
  to->set_value(from.value);
  to->set_oom(from.oom);
  to->set_peak_bytes(from.peak_bytes);
}

bool read(const orders::Cause& from, Cause* to) {
  if (from.kind() > static_cast<std::uint32_t>(Cause::Kind::kUnknown)) return false;
  *to = {static_cast<Cause::Kind>(from.kind()), from.value(), from.oom(), from.peak_bytes()};
  return true;
}

void write(const Position& from, orders::Position* to) {
  to->set_context(from.context);
  to->set_sequence(from.sequence);
  to->set_ordinal(from.ordinal);
  to->set_inside(from.inside);
  to->set_live(from.live);
  to->set_replayed(from.replayed);
  to->set_operation(from.operation);
  to->set_site(from.site);
}

Position position(const orders::Position& from) {
  return {from.context(), from.sequence(), from.ordinal(),   from.inside(),
          from.live(),    from.replayed(), from.operation(), from.site()};
}

void write(const Fault& from, orders::Fault* to) {
  to->set_text(from.text);
  to->set_site(from.site);
  for (const std::string& frame : from.stack) to->add_stack(frame);
}

Fault fault(const orders::Fault& from) {
  return {from.text(), from.site(), {from.stack().begin(), from.stack().end()}};
}

void write(const RecoveryPoint& from, orders::RecoveryPoint* to) {
  to->set_kind(static_cast<std::uint32_t>(from.kind));
  to->set_value(from.value);
}

bool read(const orders::RecoveryPoint& from, RecoveryPoint* to) {
  if (from.kind() >= RecoveryPoint::kKinds) return false;
  *to = {static_cast<RecoveryPoint::Kind>(from.kind()), from.value()};
  return true;
}

void write(const Totals& from, orders::Totals* to) {
  to->set_journal_peak_bytes(from.journal_peak_bytes);
  to->set_snapshots(from.snapshots);
  to->set_snapshot_cost_ns(from.snapshot_cost_ns);
  to->set_exposed_ns(from.exposed_ns);
  to->set_images_peak_bytes(from.images_peak_bytes);
}

Totals totals(const orders::Totals& from) {
  return {from.journal_peak_bytes(), from.snapshots(), from.snapshot_cost_ns(), from.exposed_ns(),
          from.images_peak_bytes()};
}

void write(const Protection& from, orders::Protection* to) {
  to->set_snapshots(from.snapshots);
  to->set_oldest_ns(from.oldest_ns);
  to->set_ranks_without(from.ranks_without);
  to->set_image_bytes(from.image_bytes);
  to->set_journal_bytes(from.journal_bytes);
}

Protection protection(const orders::Protection& from) {
  return {from.snapshots(), from.oldest_ns(), from.ranks_without(), from.image_bytes(),
          from.journal_bytes()};
}

// --- Events

void put(Happened& h, const Event::Started& e) { h.mutable_started()->set_pid(e.pid); }
void put(Happened& h, const Event::SpawnFailed& e) {
  h.mutable_spawn_failed()->set_code(e.code);
  h.mutable_spawn_failed()->set_why(e.why);
}
void put(Happened& h, const Event::Registered& e) { h.mutable_registered()->set_pid(e.pid); }
void put(Happened& h, const Event::Initialized& e) { h.set_initialized(e.threads_may_call); }
void put(Happened& h, const Event::Live& e) {
  h.mutable_live()->set_replayed(e.replayed);
  write(e.from, h.mutable_live()->mutable_from());
  h.mutable_live()->set_replay_ns(e.replay_ns);
}
void put(Happened& h, const Event::Finalized& e) {
  write(e.position, h.mutable_finalized()->mutable_position());
  write(e.from, h.mutable_finalized()->mutable_from());
  h.mutable_finalized()->set_replay_ns(e.replay_ns);
}
void put(Happened& h, const Event::Ended& e) {
  write(e.cause, h.mutable_ended()->mutable_cause());
  write(e.position, h.mutable_ended()->mutable_position());
  write(e.fault, h.mutable_ended()->mutable_fault());
  h.mutable_ended()->set_why_final(e.why_final);
  h.mutable_ended()->set_not_alone(e.not_alone);
}
void put(Happened& h, const Event::Aborted& e) {
  h.mutable_aborted()->set_code(e.code);
  h.mutable_aborted()->set_what(e.what);
}
void put(Happened& h, const Event::Lost& e) { h.set_lost(e.why); }
void put(Happened& h, const Event::Diverged& e) { h.set_diverged(e.how); }
void put(Happened& h, const Event::RolledBack& e) {
  h.mutable_rolled_back()->set_set(e.set);
  h.mutable_rolled_back()->set_age_ns(e.age_ns);
  h.mutable_rolled_back()->set_back_as(e.back_as);
}
void put(Happened& h, const Event::NoSet&) { h.mutable_no_set(); }
void put(Happened& h, const Event::ImagesDue& e) {
  h.mutable_images_due()->set_truncates(e.truncates);
  h.mutable_images_due()->set_waits(e.waits);
  h.mutable_images_due()->set_growth_cost_ns(e.growth_cost_ns);
}
void put(Happened& h, const Event::OfSet& e) {
  h.mutable_of_set()->set_number(e.number);
  h.mutable_of_set()->set_news(static_cast<std::uint32_t>(e.news));
  for (const std::uint64_t bytes : e.printed) h.mutable_of_set()->add_printed(bytes);
  h.mutable_of_set()->set_cost_ns(e.cost_ns);
}
void put(Happened& h, const Event::JournalFull&) { h.mutable_journal_full(); }
void put(Happened& h, const Event::Notice& e) {
  h.mutable_notice()->set_text(e.text);
  h.mutable_notice()->set_of_job(e.of_job);
}
void put(Happened& h, const Event::CatchingUp& e) { write(e.position, h.mutable_catching_up()); }
void put(Happened& h, const Event::ForeignMpi& e) { h.set_foreign_mpi(e.soname); }
void put(Happened& h, const Event::Unfired& e) {
  h.mutable_unfired()->set_kill(e.kill);
  write(e.position, h.mutable_unfired()->mutable_position());
}
void put(Happened& h, const Event::ImagesWritten& e) {
  h.mutable_images_written()->set_directory(e.directory);
  h.mutable_images_written()->set_bytes(e.bytes);
  h.mutable_images_written()->set_took_ns(e.took_ns);
  h.mutable_images_written()->set_stopped_ns(e.stopped_ns);
}
void put(Happened& h, const Event::HasVersions&) { h.mutable_has_versions(); }
void put(Happened& h, const Event::Snapshot& e) { write(e.protection, h.mutable_snapshot()); }
void put(Happened& h, const Event::Heartbeat& e) { write(e.protection, h.mutable_heartbeat()); }
void put(Happened& h, const Event::Committed& e) { h.set_committed(e.checkpoint); }
void put(Happened& h, const Event::Deadlock& e) { h.set_deadlock(e.diverged); }
void put(Happened& h, const Event::AllOver& e) { write(e.totals, h.mutable_all_over()); }

std::optional<decltype(Event::what)> of_set(const Happened::OfSet& of) {
  if (of.news() >= kSetNewsKinds) return {};
  return Event::OfSet{of.number(),
                      static_cast<SetNews>(of.news()),
                      {of.printed().begin(), of.printed().end()},
                      of.cost_ns()};
}
std::optional<decltype(Event::what)> finalized(const Happened::Finalized& f) {
  Event::Finalized finalized = {position(f.position()), {}, f.replay_ns()};
  if (!read(f.from(), &finalized.from)) return {};
  return finalized;
}
std::optional<decltype(Event::what)> ended(const Happened::Ended& e) {
  Event::Ended ended = {{}, position(e.position()), fault(e.fault()), e.why_final(), e.not_alone()};
  if (!read(e.cause(), &ended.cause)) return {};
  return ended;
}

std::optional<decltype(Event::what)> what_of(const Happened& h, std::uint32_t host) {
  switch (h.what_case()) {
    case Happened::kStarted:
      return Event::Started{h.started().pid()};
    case Happened::kRolledBack:
      return Event::RolledBack{h.rolled_back().set(), h.rolled_back().age_ns(),
                               h.rolled_back().back_as()};
    case Happened::kNoSet:
      return Event::NoSet{};
    case Happened::kImagesDue:
      return Event::ImagesDue{h.images_due().truncates(), h.images_due().waits(),
                              h.images_due().growth_cost_ns()};
    case Happened::kOfSet:
      return of_set(h.of_set());
    case Happened::kSpawnFailed:
      return Event::SpawnFailed{h.spawn_failed().code(), h.spawn_failed().why()};
    case Happened::kRegistered:
      return Event::Registered{h.registered().pid()};
    case Happened::kInitialized:
      return Event::Initialized{h.initialized()};
    case Happened::kLive: {
      Event::Live live = {h.live().replayed(), {}, h.live().replay_ns()};
      if (!read(h.live().from(), &live.from)) return {};
      return live;
    }
    case Happened::kFinalized:
      return finalized(h.finalized());
    case Happened::kEnded:
      return ended(h.ended());
    case Happened::kAborted:
      return Event::Aborted{h.aborted().code(), h.aborted().what()};
    case Happened::kLost:
      return Event::Lost{h.lost()};
    case Happened::kDiverged:
      return Event::Diverged{h.diverged()};
    case Happened::kJournalFull:
      return Event::JournalFull{};
    case Happened::kNotice:
      return Event::Notice{h.notice().text(), h.notice().of_job()};
    case Happened::kCatchingUp:
      return Event::CatchingUp{position(h.catching_up())};
    case Happened::kForeignMpi:
      return Event::ForeignMpi{h.foreign_mpi()};
    case Happened::kUnfired:
      return Event::Unfired{h.unfired().kill(), position(h.unfired().position())};
    case Happened::kImagesWritten: {
      const Happened::ImagesWritten& w = h.images_written();
      return Event::ImagesWritten{w.directory(), w.bytes(), w.took_ns(), w.stopped_ns()};
    }
    case Happened::kHasVersions:
      return Event::HasVersions{};
    case Happened::kSnapshot:
      return Event::Snapshot{protection(h.snapshot())};
    case Happened::kHeartbeat:
      return Event::Heartbeat{protection(h.heartbeat())};
    case Happened::kCommitted:
      return Event::Committed{h.committed()};
    case Happened::kDeadlock:
      return Event::Deadlock{h.deadlock()};
    case Happened::kAllOver:
      return Event::AllOver{host, totals(h.all_over())};
    case Happened::WHAT_NOT_SET:
      break;
  }
  return {};
}

}  // namespace

Report to_report(const Event& event) {
  Report report;
  Happened& h = *report.mutable_happened();
  h.set_at_ns(event.at_ns);
  h.set_rank(event.rank);
  h.set_epoch(event.epoch);
  std::visit(
      [&h](const auto& what) {
        // No agent reports the events of the supervisor's own driver.
        using What = std::decay_t<decltype(what)>;
        if constexpr (!std::is_same_v<What, Event::Timeout> &&
                      !std::is_same_v<What, Event::Interrupted> &&
                      !std::is_same_v<What, Event::HostNotice> &&
                      !std::is_same_v<What, Event::Tick> &&
                      !std::is_same_v<What, Event::OutputLost> &&
                      !std::is_same_v<What, Event::AgentLost> &&
                      !std::is_same_v<What, Event::Spare>) {
          put(h, what);
        }
      },
      event.what);
  return report;
}

Report to_report(const StoodOnHost& found) {
  Report report;
  Report::Standing& standing = *report.mutable_standing();
  for (const Stood& s : found.ranks) {
    Report::Standing::Rank& rank = *standing.add_ranks();
    rank.set_rank(s.rank);
    rank.set_pid(s.pid);
    rank.set_state(s.state);
    rank.set_where(s.where);
    for (const std::string& line : s.stack) rank.add_stack(line);
    rank.set_over(s.over);
    if (s.image_age_ns) rank.set_image_age_ns(*s.image_age_ns);
  }
  standing.set_images(found.images);
  standing.set_remark(found.remark);
  standing.set_awaited(found.awaited);
  return report;
}

StoodOnHost to_stood(const Report::Standing& standing) {
  StoodOnHost found = {{}, standing.images(), standing.remark(), standing.awaited()};
  for (const Report::Standing::Rank& rank : standing.ranks()) {
    found.ranks.push_back({rank.rank(),
                           rank.pid(),
                           rank.state(),
                           rank.where(),
                           {rank.stack().begin(), rank.stack().end()},
                           rank.over(),
                           {}});
    if (rank.has_image_age_ns()) found.ranks.back().image_age_ns = rank.image_age_ns();
  }
  return found;
}

std::optional<Event> to_event(const Report& report) {
  const Happened& h = report.happened();
  auto what = what_of(h, report.host());
  if (!what) return {};
  return Event{h.at_ns(), h.rank(), std::move(*what), h.epoch(), report.host()};
}

}  // namespace rejoin::launcher
