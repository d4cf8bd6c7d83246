#include "launcher/supervisor/supervisor.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/base/result.h"
#include "launcher/supervisor/standing_text.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::uint64_t kRetryInputNs = 500'000'000;
constexpr std::uint64_t kTickNs = 20'000'000;
constexpr std::uint64_t kPatienceNs = 200'000'000;

constexpr int kEndPrograms[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool ends_programs(std::uint32_t signal) {
  return std::ranges::find(kEndPrograms, static_cast<int>(signal)) != std::end(kEndPrograms);
}

int open_signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int s : kEndPrograms) sigaddset(&wanted, s);
  for (const int s : {SIGUSR1, SIGUSR2, SIGTSTP}) sigaddset(&wanted, s);
  return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

std::vector<std::uint32_t> hosts_of_ranks(const JobPlan& plan) {
  std::vector<std::uint32_t> hosts(plan.options.ranks());
  for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
    for (const std::uint32_t rank : plan.hosts[host]) hosts[rank] = host;
  }
  return hosts;
}

void write_hold(Order& order, int stream, bool hold) {
  order.mutable_hold()->set_stream(static_cast<std::uint32_t>(stream));
  order.mutable_hold()->set_hold(hold);
}

double wall_s() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

}  // namespace

Supervisor::Supervisor(Loop& loop, JobPlan plan, EventLog::Target events, SendOrder order)
    : loop_(loop),
      plan_(std::move(plan)),
      order_(std::move(order)),
      host_of_(hosts_of_ranks(plan_)),
      core_(plan_.options, plan_.beginning, static_cast<std::uint32_t>(plan_.hosts.size())),
      sites_(plan_.lib_directory),
      events_(std::move(events), wall_s() - static_cast<double>(loop.now_ns()) / 1e9, sites_),
      signals_(open_signals()),
      input_retry_(loop, [this] { input_watch_.want(EPOLLIN); }),
      timeout_(loop, [this] { step(Event::Timeout{}); }),
      tick_(loop, [this] { step(Event::Tick{}); }),
      stop_timer_(loop, [this] { send_all([](Order& stop) { stop.mutable_stop(); }); }),
      terminal_(loop, {[this](int stream, bool hold) {
                         held_[stream] = hold;
                         send_all([&](Order& held) { write_hold(held, stream, hold); });
                       },
                       [this](int error) {
                         const int code = error == EPIPE ? kExitSignal + SIGPIPE : kExitFailure;
                         step(Event::OutputLost{
                             code, "standard output cannot be written: " + error_text(error) +
                                       "; ending all ranks"});
                       }}) {
  signals_watch_ = Loop::Watch(
      loop_, signals_.get(), EPOLLIN, [this](std::uint32_t) { on_signals(); }, Loop::Turn::kLast);
  events_watch_ =
      Loop::Watch(loop_, events_.ready(), EPOLLIN, [this](std::uint32_t) { show_events(); });
  input_watch_ = Loop::Watch(loop_, 0, EPOLLIN, [this](std::uint32_t) { read_input(); });
  input_watch_.pause();
}

void Supervisor::start() {
  if (plan_.options.survive_host) printed_.resize(2 * std::size_t{plan_.options.ranks()});
  if (plan_.options.timeout_ns) timeout_.set(*plan_.options.timeout_ns);
  Record job{.event = "job", .at_ns = loop_.now_ns()};
  auto facts = std::make_shared<JobFacts>();
  for (const ProgramOptions& program : plan_.options.programs) {
    facts->programs.push_back({*program.ranks, program.command});
  }
  facts->version = plan_.version;
  facts->host = plan_.host;
  job.job = std::move(facts);
  log(job);
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) unfinished_.insert(host);
  send_all([](Order& order) { order.mutable_start(); });
}

int Supervisor::finish() {
  // A signal that ends programs means that the user waits no longer for the process that reads
  // standard output or the event log. No process is left for the other signals.
  bool told = false;
  const auto enough = [&] {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) > 0) {
      if (!ends_programs(info.ssi_signo)) continue;
      told = true;
      if (begins_again_) step(Event::Interrupted{static_cast<int>(info.ssi_signo)});
    }
    return told;
  };
  terminal_.flush(signals_.get(), enough);
  events_.finish(told ? -1 : signals_.get(), enough);
  show_events();
  tell_lost_events();
  terminal_.write();
  if (!told) terminal_.flush(signals_.get(), enough);
  return exit_code_;
}

// --- Reports

void Supervisor::report(const Report& report) {
  if (report.host() >= plan_.hosts.size()) return;
  switch (report.what_case()) {
    case Report::kHappened:
      if (const auto event = to_event(report)) {
        if (const auto* of_set = std::get_if<Event::OfSet>(&event->what)) {
          note_printed(report.host(), *of_set);
        }
        step(*event);
      }
      break;
    case Report::kOutput:
      note_output(report.output());
      terminal_.add(report.output().stream() == 0 ? 0 : 1, report.output().bytes());
      break;
    case Report::kInputWanted:
      if (!core_.stopping() && !input_retry_.is_set()) input_watch_.want(EPOLLIN);
      break;
    case Report::kModule: {
      const Report::Module& m = report.module();
      journal::ModuleEntry entry{};
      memcpy(&entry, m.entry().data(), std::min(sizeof entry, m.entry().size()));
      sites_.add(m.rank(), m.index(), entry);
      break;
    }
    case Report::kLogLine:
      terminal_.add(1, sites_.expanded(report.log_line()) + "\n");
      break;
    case Report::kTell:
      tell(report.tell());
      break;
    case Report::kNotice:
      step(Event::HostNotice{report.host()});
      break;
    case Report::kAgentLost:
      on_agent_lost(report.host(), report.agent_lost());
      break;
    case Report::kSpare: {
      const Report::Spare& spare = report.spare();
      Event::Spare event = {spare.name(), spare.left(), {}};
      if (spare.takes_place()) event.in_place_of = report.host();
      step(std::move(event));
      break;
    }
    case Report::kReady:
    case Report::kBeat:
    case Report::kJoined:
      break;  // handled by hosts/agents.h
    case Report::kFinished:
      on_finished(report.host(), report.finished());
      break;
    case Report::kStanding:
      on_standing(report.host(), report.standing());
      break;
    case Report::WHAT_NOT_SET:
      break;
  }
}

void Supervisor::on_agent_lost(std::uint32_t host, const std::string& why) {
  if (!unfinished_.contains(host)) return;
  if (finishing_) {
    tell("the agent of node " + std::to_string(host) + " " + why + " before it had cleaned up");
  }
  step(Event::AgentLost{host, why});
  if (core_.is_replaced(host) && !core_.stopping()) return;
  // It will neither report where its ranks stand nor finish.
  if (unreported_.erase(host) > 0 && unreported_.empty()) {
    terminal_.add(1, std::exchange(held_lines_, {}));
  }
  Report::Finished finished;
  finished.set_failed(true);
  on_finished(host, finished);
}

void Supervisor::on_finished(std::uint32_t host, const Report::Finished& finished) {
  for (const std::string& line : finished.lines()) tell(line);
  if (finished.failed() && exit_code_ == 0) exit_code_ = kExitFailure;
  const bool is_new = unfinished_.erase(host) > 0;  // it may have counted as lost before
  if (is_new && unfinished_.empty()) end();
}

void Supervisor::end() {
  stop_timer_.clear();
  if (begins_again_) return loop_.stop();
  Record end{.event = "end", .at_ns = loop_.now_ns()};
  end.epoch = epoch_;
  end.code = exit_code_;
  end.totals = totals_;
  log(end);
  loop_.stop();
}

void Supervisor::on_standing(std::uint32_t host, const Report::Standing& standing) {
  const StoodOnHost found = to_stood(standing);
  std::string text = standing_text(found.ranks);
  if (!found.remark.empty()) text += "rejoin: " + found.remark + "\n";
  if (found.images) text += ages_text(found.ranks);
  terminal_.add(1, text);
  // A report that the user has asked for is no answer to Action::ReportPositions.
  if (!found.awaited || unreported_.erase(host) == 0 || !unreported_.empty()) return;
  terminal_.add(1, std::exchange(held_lines_, {}));
}

void Supervisor::send(std::uint32_t host, Order order) {
  order.set_host(host);
  order_(std::move(order));
}

void Supervisor::send_all(const std::function<void(Order&)>& write) {
  Order order;
  write(order);
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) send(host, order);
}

// --- The core

void Supervisor::step(decltype(Event::what) what) { step({loop_.now_ns(), 0, std::move(what)}); }

void Supervisor::step(const Event& event) {
  for (const Action& action : core_.step(event)) {
    std::visit([this](const auto& what) { act(what); }, action.what);
  }
  if (core_.awaits_ticks() && !tick_.is_set()) tick_.set(loop_.now_ns() + kTickNs);
  if (!std::holds_alternative<Event::Ended>(event.what)) return;
  Order seen;
  seen.set_end_seen(event.rank);
  send(host_of_[event.rank], std::move(seen));
}

void Supervisor::act(const Action::Respawn& a) {
  Order order;
  order.mutable_respawn()->set_rank(a.rank);
  order.mutable_respawn()->set_incarnation(a.incarnation);
  send(host_of_[a.rank], std::move(order));
}

void Supervisor::act(const Action::RollBack& a) {
  Order order;
  order.mutable_roll_back()->set_incarnation(a.incarnation);
  order.mutable_roll_back()->set_set(a.set);
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) {
    if (!core_.is_replaced(host)) send(host, order);
  }
}

void Supervisor::act(const Action::Replace& a) {
  // A message has at most 64 MiB. What a stream has printed is not compared if it does not fit.
  constexpr std::size_t kMostBytes = 32 << 20;
  std::vector<std::string> printed;
  std::size_t bytes = 0;
  for (const std::uint32_t rank : plan_.hosts[a.host]) {
    for (std::size_t i = 2 * rank; i < 2 * (rank + 1); ++i) {
      bytes += printed_[i].since.size();
      if (bytes > kMostBytes) bytes -= std::exchange(printed_[i].since, {}).size();
      printed.push_back(printed_[i].since);
      printed_[i].before = 0;  // its agent counts from the set on
    }
  }
  plan_.replace(a, printed);
}

void Supervisor::act(const Action::StoreParts& a) {
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) {
    Order order;
    order.mutable_store_part()->set_set(a.set);
    order.mutable_store_part()->set_partner(a.partners[host]);
    send(host, std::move(order));
  }
}

// The rank's stream has this behind output().begin() bytes, whatever it had there before.
void Supervisor::note_output(const Report::Output& output) {
  constexpr std::size_t kMostBytes = 4 << 20;  // OutputStream compares no more
  const std::size_t i = 2 * std::size_t{output.rank()} + output.of_rank();
  if (i >= printed_.size()) return;
  Printed& p = printed_[i];
  p.before = std::min(p.before, output.begin());
  p.since.resize(std::min<std::uint64_t>(p.since.size(), output.begin() - p.before));
  p.since += output.raw();
  if (p.since.size() <= kMostBytes) return;
  p.before += p.since.size();
  p.since.clear();
}

void Supervisor::note_printed(std::uint32_t host, const Event::OfSet& stored) {
  const LocalRanks& ranks = plan_.hosts[host];
  if (stored.printed.size() != 2 * ranks.size() || printed_.empty()) return;
  for (std::size_t i = 0; i < stored.printed.size(); ++i) {
    printed_[2 * ranks[i / 2] + i % 2].at_image = stored.printed[i];
  }
}

// The agent of a host that was replaced has not heard what is held.
void Supervisor::act(const Action::Wake&) {
  for (int stream = 0; stream < 2; ++stream) {
    if (held_[stream]) send_all([&](Order& order) { write_hold(order, stream, true); });
  }
  send_all([](Order& order) { order.mutable_wake(); });
}

void Supervisor::act(const Action::WantImages& a) {
  const auto write = [&](Order& order) {
    order.mutable_want_images()->set_number(a.number);
    order.mutable_want_images()->set_as_set(!a.host);
  };
  if (!a.host) return send_all(write);
  Order order;
  write(order);
  send(*a.host, std::move(order));
}

void Supervisor::act(const Action::KeepSet& a) {
  for (Printed& p : printed_) {
    const std::uint64_t more = p.at_image - std::min(p.at_image, p.before);
    p.since.erase(0, std::min<std::uint64_t>(more, p.since.size()));
    p.before += more;
  }
  send_all([&](Order& order) { order.set_keep_set(a.number); });
}

void Supervisor::act(const Action::SetStored& a) {
  send_all([&](Order& order) { order.set_set_stored(a.number); });
}

void Supervisor::act(const Action::GiveUpSet& a) {
  send_all([&](Order& order) {
    order.mutable_give_up_set()->set_number(a.number);
    order.mutable_give_up_set()->set_one_by_one(a.one_by_one);
  });
}

void Supervisor::act(const Action::LetRecycle& a) {
  send_all([&](Order& order) { order.set_let_recycle(a.results); });
}

void Supervisor::act(const Action::Stop& a) {
  timeout_.clear();
  input_watch_.pause();
  if (begins_again_) return;  // no process is left
  if (a.patient) return stop_timer_.set(loop_.now_ns() + kPatienceNs);
  send_all([](Order& order) { order.mutable_stop(); });
}

void Supervisor::act(const Action::KillNow& a) {
  send_all([&](Order& order) { order.set_kill(a.hurried); });
}

void Supervisor::act(const Action::WriteNow&) {
  send_all([](Order& order) { order.set_write_now(true); });
}

void Supervisor::act(const Action::ReportPositions&) {
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) unreported_.insert(host);
  send_all([](Order& order) { order.set_where(true); });
}

void Supervisor::act(const Action::News& a) {
  if (!plan_.options.quiet) tell(a.text);
}

void Supervisor::act(const Action::Tell& a) { tell(a.text); }

void Supervisor::act(const Action::Detail& a) {
  if (plan_.options.verbose) tell(a.text);
}

void Supervisor::act(const Action::Log& a) { log(a.record); }

void Supervisor::act(const Action::BeginAgain& a) {
  begins_again_ = a.beginning;
  send_all([](Order& order) { order.mutable_finish()->set_again(true); });
}

void Supervisor::act(const Action::Finish& a) {
  exit_code_ = a.code;
  finishing_ = true;
  totals_ = a.totals;
  // Agents that are finishing already learn that nothing follows.
  const bool were_told = begins_again_.has_value();
  begins_again_.reset();
  send_all([](Order& order) { order.mutable_finish(); });
  if (were_told && unfinished_.empty()) end();
}

// --- Signals, and input

void Supervisor::on_signals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1) {
      send_all([](Order& order) { order.set_where(false); });
    } else if (signal == SIGUSR2) {
      signal_ranks(SIGUSR2);
    } else if (signal == SIGTSTP) {
      stop_and_continue();
    } else {
      step(Event::Interrupted{signal});
    }
  }
}

void Supervisor::signal_ranks(int signal) {
  send_all([signal](Order& order) { order.set_signal(static_cast<std::uint32_t>(signal)); });
}

void Supervisor::stop_and_continue() {
  signal_ranks(SIGSTOP);
  send_all([](Order& order) { order.set_lease(false); });
  loop_.post([this] {
    raise(SIGSTOP);
    send_all([](Order& order) { order.set_lease(true); });
    signal_ranks(SIGCONT);
  });
}

void Supervisor::read_input() {
  input_watch_.pause();
  char buffer[kReadBytes];
  const ssize_t got = read(0, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
    input_watch_.want(EPOLLIN);
    return;
  }
  if (got < 0 && errno == EIO) {
    // Reading a terminal in the background is an error, because SIGTTIN is blocked: retry later.
    input_retry_.set(loop_.now_ns() + kRetryInputNs);
    return;
  }
  Order order;
  has_read_input_ |= got > 0;
  if (got > 0) core_.note_input();
  if (got > 0) order.mutable_input()->set_bytes(buffer, static_cast<std::size_t>(got));
  order.mutable_input()->set_end(got <= 0);
  send(host_of_[0], std::move(order));
}

// --- Messages and the event log

void Supervisor::tell(const std::string& text) {
  const std::string line = message_for_terminal("rejoin: " + sites_.expanded(text) + "\n");
  if (unreported_.empty()) {
    terminal_.add(1, line);
  } else {
    held_lines_ += line;
  }
}

void Supervisor::log(const Record& record) {
  epoch_ = record.epoch;
  events_.add(record);
  tell_lost_events();
}

void Supervisor::show_events() { terminal_.add(0, events_.take_lines()); }

void Supervisor::tell_lost_events() {
  const int error = events_.take_error();
  if (error == 0) return;
  tell("--events " + plan_.options.events_path + ": " +
       (error == ENXIO ? "no process reads it"
                       : error_text(error) + "; no more events are written"));
}

}  // namespace rejoin::launcher
