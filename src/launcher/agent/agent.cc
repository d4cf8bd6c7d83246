#include "launcher/agent/agent.h"

#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "journal/put_back.h"
#include "launcher/agent/file_changes.h"
#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

using wire::Message;
using wire::MessageType;

constexpr std::uint64_t kGraceNs = 1'000'000'000;  // from SIGTERM to SIGKILL
constexpr std::uint64_t kLookEveryNs = 200'000'000;
constexpr std::uint64_t kLookForMarksNs = 1'000'000, kLongestLookNs = 50'000'000;
const char* const kStreamNames[] = {"standard output", "standard error"};

// Returns whether the user has asked ftrun to end, which also stops copying a journal. The signals
// are blocked, so they stay pending.
bool interrupted() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

}  // namespace

Agent::Agent(Loop& loop, HostPlan plan, SpawnSettings settings, JobSegment segment,
             Descriptor listener, std::unique_ptr<Guardian> guardian, SendReport report)
    : loop_(loop),
      plan_(std::move(plan)),
      settings_(std::move(settings)),
      segment_(std::move(segment)),
      reporter_(loop, segment_, plan_.host, std::move(report)),
      guardian_(std::move(guardian)),
      core_(plan_.local, plan_.is_whole_job()),
      processes_(loop, plan_, settings_, process_calls()),
      outputs_(loop, plan_.ranks, plan_.options.output, output_calls()),
      input_(loop,
             [this] {
               Report wanted;
               wanted.set_input_wanted(true);
               reporter_.send(std::move(wanted));
             }),
      messages_(loop, segment_, outputs_, message_calls()),
      connections_(loop, std::move(listener), plan_.local, plan_.secret, connection_calls()),
      checkpoints_(loop, plan_, segment_, outputs_, reporter_,
                   [this] { written_sets_.remove_superseded(); }),
      written_sets_(
          loop, plan_, segment_, core_, processes_, connections_, input_, checkpoints_, reporter_,
          [this] { return relay_ ? relay_->pid() : -1; },
          std::bind_front(&Agent::part_written, this)),
      protection_(loop, plan_, core_, reporter_),
      snapshots_(loop, plan_, segment_, core_, *this, processes_, reporter_),
      starts_(loop, plan_, segment_, core_, processes_, outputs_, input_, connections_, reporter_),
      ends_(plan_.ranks, segment_, processes_, reporter_),
      positions_(loop, plan_, settings_, segment_, core_, protection_, processes_, reporter_),
      standstill_(loop, plan_, segment_, core_, processes_, reporter_),
      kill_timer_(loop, [this] { carry_out(core_.kill_all()); }),
      look_timer_(loop, [this] { look_around(); }),
      marks_timer_(loop, [this] { look_at_marks(); }) {
  if (guardian_->pid() > 0) processes_.add_helper(guardian_->pid());
}

// --- Orders

void Agent::order(const Order& order) {
  if (order.host() != plan_.host) return;
  switch (order.what_case()) {
    case Order::kStart:
      start();
      break;
    case Order::kRespawn:
      outputs_.forget_late(order.respawn().rank());
      carry_out(core_.respawn(order.respawn().rank(), order.respawn().incarnation()));
      break;
    case Order::kRollBack:
      roll_back(order.roll_back());
      break;
    case Order::kWake:
      wake();
      break;
    case Order::kWantImages:
    case Order::kKeepSet:
    case Order::kGiveUpSet:
    case Order::kStorePart:
    case Order::kWriteNow:
    case Order::kSetStored:
      order_of_set(order);
      break;
    case Order::kLetRecycle:
      segment_.let_recycle(order.let_recycle());
      break;
    case Order::kStop:
      stop();
      break;
    case Order::kKill:
      carry_out(core_.kill_all());
      break;
    case Order::kSignal:
      processes_.signal_all(static_cast<int>(order.signal()));
      break;
    case Order::kWhere:
      positions_.report(order.where());
      break;
    case Order::kInput:
      input_.append(order.input().bytes(), order.input().end());
      break;
    case Order::kHold:
      outputs_.hold(static_cast<int>(order.hold().stream()), order.hold().hold());
      break;
    case Order::kFinish:
      finish();
      break;
    case Order::kRelays:
      connect_relay(order.relays());
      break;
    case Order::kEndSeen:
      --unseen_ends_;
      break;
    case Order::kPlan:
    case Order::kBeat:
    case Order::kRefused:
    case Order::kAdmitted:
    case Order::kLease:
    case Order::WHAT_NOT_SET:
      break;
  }
}

void Agent::order_of_set(const Order& order) {
  switch (order.what_case()) {
    case Order::kWantImages:
      want_images(order.want_images());
      break;
    case Order::kKeepSet:
      keep_set(order.keep_set());
      break;
    case Order::kGiveUpSet:
      written_sets_.give_up_part(order.give_up_set().number());
      if (parts_) parts_->give_up();
      carry_out(core_.give_up_set(order.give_up_set().number(), order.give_up_set().one_by_one()));
      break;
    case Order::kStorePart:
      partner_ = order.store_part().partner();
      written_sets_.write_part(order.store_part().set());
      break;
    case Order::kWriteNow:
      written_sets_.write_now();
      carry_out(core_.want_snapshots(SnapshotRound::kTogether));
      break;
    case Order::kSetStored:
      written_sets_.settled(order.set_stored());
      break;
    default:
      break;
  }
}

void Agent::start() {
  started_ = true;
  reporter_.losses(plan_);
  if (plan_.resumed) {
    starts_.resume(*plan_.resumed);
    carry_out(core_.resume(plan_.resumed->numbers_of(plan_.local), plan_.first_incarnation));
  }
  start_ranks_from(0);
  if (relay_ && relay_->is_paused()) watch_relay(relay_->start_again());
  written_sets_.start();
  look_timer_.set(loop_.now_ns() + kLookEveryNs);
  snapshots_.start();
  protection_.start();
}

// Starts ranks one by one, so that no rank is started after the first failure.
void Agent::start_ranks_from(std::size_t i) {
  if (i == plan_.local.size() || stopping_ || core_.goes_back()) return;
  const std::uint32_t rank = plan_.local[i];
  carry_out(plan_.resumed ? core_.restore(rank) : core_.spawn(rank));
  loop_.post([this, i] { start_ranks_from(i + 1); });
}

std::optional<Error> Agent::open_relay() {
  relay_.emplace(plan_, segment_);
  if (const auto error = relay_->listen()) return error;
  if (plan_.resumed) relay_->pause(plan_.first_incarnation);
  if (!plan_.gives_parts()) return {};
  parts_.emplace(PartStore::Identity{plan_.job, plan_.host, relay_->credentials()},
                 plan_.directory + "/parts");
  parts_watch_ = Loop::Watch(loop_, parts_->descriptor(), EPOLLIN,
                             [this](std::uint32_t) { on_part_stored(); });
  return parts_->listen(!plan_.options.hosts.empty());
}

void Agent::report_restored() {
  if (!plan_.takes_over) return;
  const std::uint64_t set = plan_.resumed->put_back_to;
  reporter_.happened(0,
                     Event::RolledBack{set, segment_.age_of_set_ns(set), plan_.first_incarnation});
}

void Agent::connect_relay(const Order::Relays& relays) {
  const int hosts = relays.host_size();
  if (!relay_ || hosts != relays.port_size() || hosts != relays.part_port_size()) return;
  const std::size_t all = plan_.options.layout.size();
  if (relays.first() > all || static_cast<std::size_t>(hosts) > all - relays.first()) return;
  holders_.resize(all);
  for (int i = 0; i < hosts; ++i) {
    const std::uint32_t node = relays.first() + static_cast<std::uint32_t>(i);
    relay_->set_node(node, {relays.host(i), static_cast<std::uint16_t>(relays.port(i))});
    holders_[node] = {node, {relays.host(i), static_cast<std::uint16_t>(relays.part_port(i))}};
  }
  if (!relay_->is_paused() && relay_->pid() <= 0) watch_relay(relay_->start_again());
}

void Agent::watch_relay(pid_t pid) {
  if (pid > 0) return processes_.add_helper(pid);
  Report lost;
  lost.set_agent_lost("cannot start its relay, or it ends again and again");
  reporter_.send(std::move(lost));
}

void Agent::stop() {
  stopping_ = true;
  kill_timer_.set(loop_.now_ns() + kGraceNs);
  look_timer_.clear();
  snapshots_.stop();
  protection_.stop();
  written_sets_.stop();
  carry_out(core_.stop());
}

// The relay and all ranks end before the journal is put back, and with them the connections: what
// another host has shown before it went back must not arrive afterwards.
void Agent::roll_back(const Order::RollBack& order) {
  const bool is_newest = order.set() == 0 || order.set() == core_.set();
  if (segment_.recycles() || !core_.has_set() || !is_newest || all_over_) {
    return reporter_.happened(0, Event::NoSet{});
  }
  awaits_marks_of_ = 0;
  written_sets_.give_up_part();
  if (parts_) parts_->give_up();
  if (relay_) processes_.forget_helper(relay_->pause(order.incarnation()));
  carry_out(core_.roll_back(order.incarnation()));
}

void Agent::wake() {
  if (stopping_) return;
  if (started_) {
    carry_out(core_.wake());
  } else {
    start();
  }
  if (relay_ && relay_->is_paused()) watch_relay(relay_->start_again());
}

// --- Sets of several hosts

void Agent::want_images(const Order::WantImages& order) {
  snapshots_.begins();
  carry_out(order.as_set() ? core_.want_set(order.number()) : core_.want_each(order.number()));
}

// All ranks can go back to a set only when every host knows how far the images of all hosts are.
void Agent::act(std::uint32_t, const Do::TellOfSet& a) {
  awaits_marks_of_ = a.news == SetNews::kMade ? a.number : 0;
  look_for_marks_ns_ = kLookForMarksNs;
  if (awaits_marks_of_ != 0) return look_at_marks();
  reporter_.happened(0, Event::OfSet{a.number, a.news});
}

void Agent::part_written(std::uint64_t set, const std::string& path, const std::string& fault) {
  if (!fault.empty() || !parts_ || partner_ >= holders_.size()) return tell_of_part(set, fault);
  if (parts_->send(holders_[partner_], set, path)) return;
  reporter_.happened(0,
                     Event::OfSet{set, SetNews::kNotStored});  // the one before is being given up
}

// Once for each reason.
void Agent::tell_not_stored(const std::string& why) {
  if (stopping_ || plan_.forbidden.personality || std::exchange(not_stored_, why) == why) return;
  const std::string& directory = plan_.options.checkpoint_directory;
  reporter_.tell(
      "the newest snapshots of host " + std::to_string(plan_.host) + " could not be " +
      (directory.empty() ? "given to another host" : "written to " + directory) + ": " + why +
      (plan_.options.survive_host ? "; if a host is lost now, all ranks go back to those before"
                                  : ""));
}

void Agent::on_part_stored() {
  if (const auto stored = parts_->outcome()) tell_of_part(stored->set, stored->fault);
}

void Agent::tell_of_part(std::uint64_t set, const std::string& fault) {
  Event::OfSet said = {set, SetNews::kStored, {}, written_sets_.cost_ns()};
  if (!fault.empty()) {
    tell_not_stored(fault);
    said.news = SetNews::kNotStored;
  }
  for (const std::uint32_t r : plan_.local) {
    const std::uint64_t mark = set | wire::kMarkOfImage;
    for (int s = 0; s < 2; ++s) said.printed.push_back(outputs_.bytes_before(r, s, mark));
  }
  reporter_.happened(0, said);
}

void Agent::keep_set(std::uint64_t set) {
  carry_out(core_.keep_set(set));
  snapshots_.kept_set();
  if (!parts_) return;
  parts_->forget_before(set);
  written_sets_.settled(set);
}

void Agent::look_at_marks() {
  if (awaits_marks_of_ == 0) return;
  if (!journal::has_marks(segment_.base(), awaits_marks_of_)) {
    look_for_marks_ns_ = std::min(2 * look_for_marks_ns_, kLongestLookNs);
    return marks_timer_.set(loop_.now_ns() + look_for_marks_ns_);
  }
  reporter_.happened(0, Event::OfSet{std::exchange(awaits_marks_of_, 0), SetNews::kMade});
}

void Agent::act(std::uint32_t, const Do::PutBack& a) {
  put_back_age_ns_ = segment_.age_of_set_ns(a.set);
  journal::put_back(segment_.base(), plan_.local, a.set);
  journal::put_copies_back(segment_.base(), plan_.local, a.set);
  for (const std::uint32_t rank : plan_.local) outputs_.make_void(rank, a.set | wire::kMarkOfImage);
  put_files_back(a.set);
}

// Restores names of files as they were at the set. The ranks restore the lengths of files that they
// have appended to since.
void Agent::put_files_back(std::uint64_t set) {
  if (plan_.file_logs.empty()) return;
  std::vector<std::uint64_t> observations(plan_.ranks, 0);
  for (const std::uint32_t r : plan_.local) {
    observations[r] = journal::region_of(segment_.base(), r)->observations.tail.load();
  }
  const auto changes = FileChanges::read_since(set, plan_.file_logs, observations);
  if (!changes.ok()) return reporter_.tell(changes.error().text);
  if (const auto lost = changes.value().lost(); !lost.empty()) {
    const std::size_t others = lost.size() - 1;
    reporter_.tell(
        one_line(lost.front()) +
        (others == 0 ? " was" : " and " + std::to_string(others) + " more were") +
        " removed or replaced after the snapshots to which all ranks go back, and cannot "
        "be restored (docs/snapshots.md)");
  }
  std::vector<std::string> notices;
  if (const auto error = changes.value().undo(notices)) notices.push_back(error->text);
  for (const std::string& notice : notices) reporter_.tell(notice);
}

void Agent::act(std::uint32_t, const Do::ReportBack& a) {
  reporter_.happened(0, Event::RolledBack{a.set, put_back_age_ns_, a.back_as});
}

void Agent::idle() {
  processes_.sweep();
  checkpoints_.idle();
  outputs_.show_withheld();
  if (all_over_ || unseen_ends_ > 0 || !core_.all_over()) return;
  all_over_ = true;
  carry_out(core_.end_images());
  outputs_.finish(!stopping_);
  protection_.stop();
  report_unfired();
  Totals totals = protection_.totals();
  totals.journal_peak_bytes = std::max(journal_peak_bytes_, segment_.backed_bytes());
  totals.snapshot_cost_ns = snapshots_.highest_cost_ns();
  totals.images_peak_bytes = snapshots_.image_peak_bytes();
  reporter_.happened(0, Event::AllOver{plan_.host, totals});
}

std::vector<KillOrder> Agent::unfired_kills() const {
  std::vector<KillOrder> unfired;
  for (std::uint32_t i = 0; i < segment_.header()->faults; ++i) {
    if (segment_.header()->fault[i].fired.load() == 0) unfired.push_back(plan_.options.kills[i]);
  }
  return unfired;
}

void Agent::report_unfired() {
  const journal::SegmentHeader* header = segment_.header();
  for (std::uint32_t i = 0; i < header->faults && !stopping_; ++i) {
    if (header->fault[i].fired.load() != 0) continue;
    const std::uint32_t rank = header->fault[i].rank;
    if (!std::binary_search(plan_.local.begin(), plan_.local.end(), rank)) continue;
    reporter_.happened(rank,
                       Event::Unfired{to_text(plan_.options.kills[i]), segment_.position(rank)});
  }
}

void Agent::finish() {
  if (std::exchange(finished_, true)) return;
  Report finished;
  checkpoints_.finish();
  written_sets_.finish();
  if (plan_.options.keep) keep_journal(*finished.mutable_finished());
  positions_.finish();
  // The ranks of the other nodes have ended, too.
  if (relay_) relay_->stop();
  processes_.await_helpers(guardian_->pid());  // a report that has begun is finished
  processes_.kill_leftovers(guardian_->pid());
  parts_watch_.reset();
  parts_.reset();         // no agent stores a part here any more
  std::error_code error;  // behind the last process, which could make it again
  if (!plan_.writes_sets) std::filesystem::remove_all(plan_.file_logs, error);
  if (!plan_.directory.empty()) std::filesystem::remove_all(plan_.directory, error);
  finished.mutable_finished();
  reporter_.send(std::move(finished));
}

void Agent::keep_journal(Report::Finished& finished) {
  const std::string& directory = plan_.options.journal_directory;
  const std::string path =
      (directory.empty() ? "." : directory) + "/rejoin-" + hex_text(plan_.job) + ".journal";
  guardian_->unlink_on_death(path);
  const auto kept = segment_.keep(path, interrupted);
  guardian_->unlink_on_death("");
  finished.set_failed(!kept.ok());
  finished.add_lines(kept.ok() ? "the journal was written to " + path + " (" +
                                     size_text(kept.value()) + "); ftrun inspect prints it"
                               : kept.error().text);
}

// --- Actions

void Agent::act(std::uint32_t rank, const Do::Welcome& a) {
  auto process = connections_.welcome(a.connection, rank, core_.incarnation(rank),
                                      segment_.descriptor(), processes_.standard(rank));
  if (!process) return;
  processes_.registered(rank, process->pid, std::move(process->process));
  starts_.registered(rank);
  reporter_.happened(rank, Event::Registered{process->pid});
}

void Agent::act(std::uint32_t rank, const Do::Drain&) {
  outputs_.drain(rank);
  if (rank == 0) input_.close();
  connections_.close_all(rank);
  processes_.clear(rank);
}

void Agent::act(std::uint32_t rank, const Do::Read&) {
  outputs_.read_all(rank);
  connections_.close_all(rank);
  processes_.clear(rank);
}

void Agent::act(std::uint32_t rank, const Do::Keep& a) {
  processes_.add_image(rank, static_cast<pid_t>(a.pid));
  outputs_.keep(rank, a.number | wire::kMarkOfImage);
  if (rank == 0) input_.keep(a.number | wire::kMarkOfImage);
  snapshots_.keep(rank, a);
  protection_.image_kept(rank);
  written_sets_.remove_superseded();
  if (!plan_.writes_sets && core_.set() == a.number && rank == plan_.local.back()) {
    remove_file_logs(plan_.file_logs, std::vector(plan_.ranks, a.number));
  }
  segment_.give_notice();
}

void Agent::act(std::uint32_t rank, const Do::Adopt& a) {
  processes_.adopt_clone(rank, static_cast<pid_t>(a.pid));
  reporter_.happened(rank, Event::Started{a.pid});
}

void Agent::act(std::uint32_t rank, const Do::Move& a) {
  connections_.keep(a.keeper, rank);
  processes_.move(rank, static_cast<pid_t>(a.pid));
}

void Agent::act(std::uint32_t rank, const Do::Release& a) {
  processes_.release_keeper(rank);
  connections_.release(a.keeper, rank, a.cause.value);
}

void Agent::act(std::uint32_t rank, const Do::EndKeeper& a) {
  processes_.release_keeper(rank);
  connections_.close(a.keeper);
}

// --- Events

void Agent::feed(const AgentEvent& event) {
  loop_.post([this, event] { carry_out(core_.step(event)); });
}

void Agent::feed(std::uint32_t rank, decltype(AgentEvent::what) what) {
  feed({rank, loop_.now_ns(), std::move(what)});
}

RankOutputs::Calls Agent::output_calls() {
  RankOutputs::Calls calls;
  calls.keeps_raw = plan_.options.survive_host;
  calls.show = [this](int stream, std::string bytes, const RankOutputs::Printed& of) {
    Report shown;
    Report::Output& output = *shown.mutable_output();
    output.set_stream(static_cast<std::uint32_t>(stream));
    output.set_bytes(std::move(bytes));
    if (plan_.options.survive_host) {
      output.set_rank(of.rank);
      output.set_of_rank(static_cast<std::uint32_t>(of.stream));
      output.set_begin(of.begin);
      output.set_raw(of.bytes);
    }
    reporter_.send(std::move(shown));
  };
  // A shell may print about its program's death before ftrun kills the shell.
  calls.is_late = [this](std::uint32_t rank) {
    if (processes_.killed(rank) || processes_.keeper_is_dead(rank)) return true;
    const auto* control = segment_.control(rank);
    const bool orderly = control->initialized.load(std::memory_order_relaxed) == 2;
    return !orderly && processes_.program_is_dead(rank);
  };
  calls.ended = [this](std::uint32_t rank) { feed(rank, AgentEvent::OutputEnded{}); };
  calls.differs = [this](std::uint32_t rank, int stream) {
    reporter_.notice(rank, std::string("its replay wrote other bytes to ") + kStreamNames[stream] +
                               " than the first execution; they are discarded");
  };
  calls.is_void = [this](std::uint32_t rank, int stream, std::uint64_t lines) {
    const std::string last =
        lines == 1 ? "the last line" : "the last " + count_text(lines) + " lines";
    reporter_.notice(
        rank, last + " of its " + kStreamNames[stream] + (lines == 1 ? " is void" : " are void") +
                  ", because all ranks have gone back; what it prints now comes instead");
  };
  calls.may_be_void = [this] { return core_.may_have_set(); };
  calls.lost = [this](std::uint32_t rank, int error) {
    reporter_.notice(
        rank, "--output-filename: the output of ranks is no longer written: " + error_text(error));
  };
  return calls;
}

Processes::Calls Agent::process_calls() {
  Processes::Calls calls;
  calls.feed = [this](const AgentEvent& event) {
    if (const auto* image = std::get_if<AgentEvent::ImageEnded>(&event.what)) {
      written_sets_.image_ended(static_cast<pid_t>(image->pid), image->cause);
    }
    feed(event);
  };
  calls.writer_ended = [this](pid_t pid, const Cause& cause, std::uint64_t cpu_ns) {
    if (cause.kind == Cause::Kind::kSignal && cause.value == SIGKILL) ends_.take_oom_kill();
    written_sets_.writer_ended(pid, cause, cpu_ns);
  };
  calls.before_end = std::bind_front(&Connections::read_all, &connections_);
  calls.registered_ended = std::bind_front(&Agent::on_registered_ended, this);
  calls.stranger_ended = std::bind_front(&Agent::on_stranger_ended, this);
  calls.helper_ended = std::bind_front(&Agent::on_helper_ended, this);
  calls.keeper_ended = [this](std::uint32_t rank) {
    const std::optional<Cause> cause = processes_.take_keeper_end(rank);
    if (cause) feed(rank, AgentEvent::KeeperEnded{*cause});
  };
  calls.image_killed = [this](std::optional<std::uint32_t> rank) {
    if (ends_.take_oom_kill() && rank) snapshots_.image_killed(*rank);
  };
  return calls;
}

void Agent::on_helper_ended(pid_t pid) {
  if (relay_ && pid == relay_->pid() && !relay_->is_paused()) {
    watch_relay(relay_->start_again());
  } else if (pid == guardian_->pid()) {
    guardian_->lost();
    reporter_.tell("the guardian of this job (process " + std::to_string(pid) +
                   ") has ended; the job goes on, but if ftrun is killed now, processes that left "
                   "their rank's process group are not killed");
  }
}

Connections::Calls Agent::connection_calls() {
  Connections::Calls calls;
  calls.asks = std::bind_front(&Agent::on_registration, this);
  calls.image_says = std::bind_front(&Agent::on_image_message, this);
  calls.foreign = [this](std::uint32_t rank, const std::string& soname) {
    reporter_.happened(rank, Event::ForeignMpi{soname});
  };
  calls.says = std::bind_front(&RankMessages::read, &messages_);
  return calls;
}

RankMessages::Calls Agent::message_calls() {
  RankMessages::Calls calls;
  calls.feed = [this](const AgentEvent& event) { feed(event); };
  calls.report = [this](Event said) {
    // The process knows only which checkpoint it has loaded.
    const auto complete = [&](RecoveryPoint& from) {
      if (from.kind == RecoveryPoint::Kind::kMain) from = starts_.from(said.rank);
    };
    if (auto* live = std::get_if<Event::Live>(&said.what)) complete(live->from);
    if (auto* finalized = std::get_if<Event::Finalized>(&said.what)) {
      protection_.finalized(said.rank);
      complete(finalized->from);
    }
    reporter_.happened(said);
  };
  calls.log = std::bind_front(&Reporter::log_line, &reporter_);
  calls.snapshot_due = std::bind_front(&SnapshotDriver::journal_grown, &snapshots_);
  calls.not_frozen = [this](std::uint32_t rank, const Message& message) {
    feed(rank, AgentEvent::NotFrozen{message.value, message.text_bytes == 0});
    snapshots_.not_frozen(rank, message);
  };
  calls.fault = std::bind_front(&EndReports::signalled, &ends_);
  calls.input_mark = std::bind_front(&RankInput::mark, &input_);
  calls.committed = [this](std::uint64_t version, bool kept) {
    if (kept) checkpoints_.offer(version);
    reporter_.happened(0, Event::Committed{version});
  };
  return calls;
}

void Agent::on_registration(std::uint32_t rank, pid_t pid, int connection, const Message& first) {
  // The messages and the end of the rank's previous process came earlier: handle them first.
  on_registered_ended(rank);
  const std::uint32_t incarnation = first.incarnation;
  switch (first.type) {
    case MessageType::kWoken: {
      std::string why = text_of(first).substr(wire::kSecretBytes);
      if (why.empty()) return feed(rank, AgentEvent::Woken{pid, connection, incarnation});
      return feed(rank, AgentEvent::Useless{pid, connection, incarnation, std::move(why)});
    }
    case MessageType::kMoves: {
      processes_.expect_clone(rank);
      const auto from = static_cast<std::int64_t>(first.value);
      return feed(rank, AgentEvent::Moves{pid, connection, incarnation, from});
    }
    case MessageType::kImage: {
      // The first image decides that ranks return to images, unless a checkpoint has decided.
      auto now = journal::Return::kUndecided;
      auto& word = segment_.header()->goes_back_to;
      word.decide(journal::kAgentStores, journal::Step::kDecide, &now, journal::Return::kImages);
      if (word.load() == journal::Return::kVersions) {
        return connections_.refuse(connection, rank, "ranks of this job go on from checkpoints");
      }
      return feed(rank, AgentEvent::ImageRegisters{pid, connection, first.value, incarnation});
    }
    default:
      feed(rank, AgentEvent::Registers{pid, connection});
  }
}

void Agent::on_registered_ended(std::uint32_t rank) {
  if (!processes_.program_is_dead(rank)) return;
  connections_.read_all(rank);
  const std::optional<Cause> cause = processes_.take_registered_end(rank);
  if (!cause) return;
  feed(rank, AgentEvent::RegisteredEnded{*cause});
  // If that was no death, the parent process continues, and its output is shown.
  loop_.post([this, rank] {
    if (!processes_.killed(rank)) outputs_.show_late(rank);
  });
}

// Finds the rank of an image that ended before it registered, by the pid in the rank's control
// words. The pid cannot belong to another process yet, because the image is reaped later.
void Agent::on_stranger_ended(pid_t pid) {
  for (const std::uint32_t r : plan_.local) {
    const auto* control = segment_.control(r);
    const std::uint64_t number = control->image_number.load(std::memory_order_acquire);
    if (number == 0 || control->image_pid.load(std::memory_order_relaxed) != pid) continue;
    feed(r, AgentEvent::ImageEnded{pid, number, {}});
  }
}

void Agent::on_image_message(std::uint32_t rank, const Message& message) {
  if (message.type == MessageType::kWriting) return written_sets_.writing(rank, message);
  if (message.type == MessageType::kNotWritten) return written_sets_.not_written(rank, message);
  if (message.type == MessageType::kSignalled && !stopping_) {
    processes_.signal_rank(rank, message.code);
  }
  if (message.type != MessageType::kForked) return;
  feed(rank, AgentEvent::Forked{static_cast<std::int64_t>(message.value), message.incarnation});
}

void Agent::look_around() {
  look_timer_.set(loop_.now_ns() + kLookEveryNs);
  const std::uint64_t journal_bytes = segment_.backed_bytes();
  journal_peak_bytes_ = std::max(journal_peak_bytes_, journal_bytes);
  starts_.look_at_wakes();
  snapshots_.look_at_memory();
  protection_.measured(snapshots_.image_bytes(), journal_bytes);
  starts_.look_at_replays();
  if (standstill_.look()) look_timer_.clear();
}

}  // namespace rejoin::launcher
