// The loop, and how the cores' actions are carried out.
#include "launcher/job.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/machine.h"

namespace rejoin::launcher {
namespace {

constexpr std::uint64_t kGraceNs = 1'000'000'000;  // from SIGTERM to SIGKILL
constexpr std::uint64_t kUnfinishedLineNs = 250'000'000;
// How long what a rank left in the background may print on. It ends with the job.
constexpr std::uint64_t kLingerNs = 2'000'000'000;

std::uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

Policy policy_of(const JobPlan& plan) {
  return {plan.ranks, plan.options.max_restarts, plan.options.restart, plan.limit_bytes};
}

}  // namespace

Job::Job(JobPlan plan, JobSegment segment, Descriptor listener, Descriptor events,
         std::unique_ptr<Guardian> guardian, const Inherited& inherited, std::uint64_t start_ns)
    : plan_(std::move(plan)),
      segment_(std::move(segment)),
      listener_(std::move(listener)),
      events_(std::move(events)),
      guardian_(std::move(guardian)),
      inherited_(inherited),
      start_ns_(start_ns),
      supervisor_(policy_of(plan_)),
      agent_(plan_.ranks),
      ranks_(plan_.ranks),
      symbolizer_(plan_.library_directory),
      oom_kills_seen_(out_of_memory_kills()) {
  start_wall_s_ = static_cast<double>(clock_ns(CLOCK_REALTIME) - now_ns()) / 1e9;
  for (std::uint32_t r = 0; r < plan_.ranks && plan_.options.tag_output; ++r) {
    ranks_[r].stream[0] = OutputStream("[" + std::to_string(r) + "]<stdout>: ");
    ranks_[r].stream[1] = OutputStream("[" + std::to_string(r) + "]<stderr>: ");
  }
  if (guardian_->pid() > 0) helpers_.push_back(guardian_->pid());
}

std::uint64_t Job::now_ns() const { return clock_ns(CLOCK_MONOTONIC) - start_ns_; }

int Job::run() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
    sigaddset(&wanted, s);
  }
  signals_ = Descriptor(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (plan_.options.timeout_s) {
    timeout_at_ns_ = now_ns() + static_cast<std::uint64_t>(*plan_.options.timeout_s * 1e9);
  }
  const std::string& directory = plan_.options.checkpoint_directory;
  if (!directory.empty()) {
    checkpoints_ = std::make_unique<CheckpointWriter>(segment_, directory, plan_.path);
  }
  start_all();
  while (!finished_) {
    wait();
    on_deadlines();
    sweep();
    write_outputs();
  }
  kill_leftovers();
  flush_writers();
  return exit_code_;
}

void Job::start_all() {
  for (std::uint32_t r = 0; r < plan_.ranks && !supervisor_.stopping(); ++r) {
    for (const AgentAction& action : agent_.spawn(r)) carry_out(action);
    run_queue();
  }
}

// ---------------------------------------------------------------------------------------- waiting

void Job::wait() {
  polled_.clear();
  sources_.clear();
  const auto add = [this](int fd, short events, Source source) {
    polled_.push_back({fd, events, 0});
    sources_.push_back(source);
  };
  using Kind = Source::Kind;
  add(listener_.get(), POLLIN, {Kind::kListener});
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    add(connections_[i]->socket.get(), POLLIN, {Kind::kConnection, i});
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (int stream = 0; stream < 2; ++stream) {
      if (!ranks_[r].output[stream].open() || !may_read_output(stream)) continue;
      add(ranks_[r].output[stream].get(), POLLIN, {Kind::kOutput, r, stream});
    }
    if (ranks_[r].registered.open())
      add(ranks_[r].registered.get(), POLLIN, {Kind::kRegistered, r});
  }
  if (may_read_stdin()) add(0, POLLIN, {Kind::kStdin});
  if (input_pipe_.open()) {
    // Without POLLOUT only its end is told: rank 0 has closed its standard input.
    const short events = input_.pending().empty() ? 0 : POLLOUT;
    add(input_pipe_.get(), events, {Kind::kInput});
  }
  for (const Writer* writer : {&out_, &err_}) {
    if (writer->waiting_bytes() > 0) add(writer->fd(), POLLOUT, {Kind::kWriter});
  }
  if (checkpoints_) add(checkpoints_->descriptor(), POLLIN, {Kind::kCheckpoints});
  // Last: what a rank said and printed before it died is read before its death is looked at.
  add(signals_.get(), POLLIN, {Kind::kSignals});

  const std::uint64_t now = now_ns(), deadline = next_deadline_ns();
  const std::uint64_t left = deadline > now ? deadline - now : 0;
  const timespec limit = {static_cast<time_t>(left / 1'000'000'000),
                          static_cast<long>(left % 1'000'000'000)};
  if (ppoll(polled_.data(), polled_.size(), deadline == UINT64_MAX ? nullptr : &limit, nullptr) <=
      0) {
    return;
  }
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) dispatch(sources_[i], polled_[i].revents);
  }
  std::erase_if(connections_, [](const auto& c) { return !c->socket.open(); });
}

void Job::dispatch(const Source& source, short happened) {
  const auto rank = static_cast<std::uint32_t>(source.index);
  switch (source.kind) {
    case Source::Kind::kSignals:
      on_signals();
      break;
    case Source::Kind::kListener:
      accept_all();
      break;
    case Source::Kind::kConnection:
      read_connection(*connections_[source.index]);
      break;
    case Source::Kind::kOutput:
      read_output(rank, source.stream, false);
      break;
    case Source::Kind::kRegistered:
      on_registered_ended(rank);
      break;
    case Source::Kind::kStdin:
      read_stdin();
      break;
    case Source::Kind::kInput:
      if ((happened & POLLERR) != 0) {
        input_.reader_ended();
        input_pipe_.reset();
      } else {
        write_input();
      }
      break;
    case Source::Kind::kCheckpoints:
      tell_of_checkpoints();
      break;
    case Source::Kind::kWriter:
      break;  // write_outputs() follows every round
  }
  run_queue();
}

std::uint64_t Job::next_deadline_ns() const {
  std::uint64_t next = std::min(timeout_at_ns_, kill_at_ns_);
  if (retry_stdin_at_ns_ != 0) next = std::min(next, retry_stdin_at_ns_);
  for (const RankIo& r : ranks_) {
    if (r.await_output_until_ns != 0) next = std::min(next, r.await_output_until_ns);
    for (const std::uint64_t since : r.unfinished_since_ns) {
      if (since != 0) next = std::min(next, since + kUnfinishedLineNs);
    }
  }
  return next;
}

void Job::on_deadlines() {
  const std::uint64_t now = now_ns();
  if (now >= retry_stdin_at_ns_) retry_stdin_at_ns_ = 0;
  if (now >= timeout_at_ns_) {
    timeout_at_ns_ = UINT64_MAX;
    feed(Event{Event::Kind::kTimeout, now});
  }
  if (now >= kill_at_ns_) {
    kill_at_ns_ = UINT64_MAX;
    carry_out(Action{Action::Kind::kKillNow});
  }
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    for (int stream = 0; stream < 2; ++stream) {
      const std::uint64_t since = ranks_[r].unfinished_since_ns[stream];
      if (since != 0 && now >= since + kUnfinishedLineNs) flush_stale_line(r, stream);
    }
    check_output_ended(r);
  }
  run_queue();
}

// -------------------------------------------------------------------------------------- the cores

void Job::feed(const AgentEvent& event) {
  queue_.push_back([this, event] {
    for (const AgentAction& action : agent_.step(event)) carry_out(action);
  });
}

void Job::feed(const Event& event) {
  queue_.push_back([this, event] {
    for (const Action& action : supervisor_.step(event)) carry_out(action);
  });
}

// An action that causes an event waits for the rest of its list: lists are never interleaved.
void Job::run_queue() {
  if (std::exchange(running_queue_, true)) return;
  while (!finished_) {
    while (!queue_.empty()) {
      const auto next = std::move(queue_.front());
      queue_.pop_front();
      next();
    }
    if (!agent_.all_over() || finished_) break;
    if (last_words()) continue;
    for (const Action& action : supervisor_.step({Event::Kind::kAllOver, now_ns()}))
      carry_out(action);
  }
  running_queue_ = false;
}

void Job::carry_out(const AgentAction& a) {
  switch (a.kind) {
    case AgentAction::Kind::kSpawn:
      spawn(a.rank);
      break;
    case AgentAction::Kind::kWelcome:
    case AgentAction::Kind::kRefuse: {
      const auto found =
          std::find_if(connections_.begin(), connections_.end(),
                       [&a](const auto& c) { return c->socket.get() == a.connection; });
      if (found != connections_.end()) answer(**found, a);
      break;
    }
    case AgentAction::Kind::kTerminate:
      kill(-ranks_[a.rank].child, SIGCONT);
      kill(-ranks_[a.rank].child, SIGTERM);
      break;
    case AgentAction::Kind::kKillTree:
      kill_tree(a.rank);
      break;
    case AgentAction::Kind::kAwaitOutput:
      ranks_[a.rank].await_output_until_ns = now_ns() + kLingerNs;
      check_output_ended(a.rank);
      break;
    case AgentAction::Kind::kDrain:
      drain_output(a.rank);
      close_connections(a.rank);
      break;
    case AgentAction::Kind::kPublishDeath:
      engine::publish_death(segment_.base(), a.rank);
      break;
    case AgentAction::Kind::kRingAll:
      segment_.ring_all();
      break;
    case AgentAction::Kind::kAdmit:
      engine::admit(segment_.base(), a.rank, supervisor_.incarnation(a.rank));
      break;
    case AgentAction::Kind::kReportEnded: {
      Event event{Event::Kind::kEnded, a.at_ns, a.rank};
      event.cause = complete(a.cause, a.rank);
      event.position = segment_.position(a.rank);
      if (segment_.header()->limit_reached.load() != 0)
        feed({Event::Kind::kLimit, a.at_ns, a.rank});
      feed(event);
      break;
    }
  }
}

void Job::carry_out(const Action& a) {
  switch (a.kind) {
    case Action::Kind::kRespawn:
      for (std::string& late : ranks_[a.rank].late) late.clear();
      for (const AgentAction& action : agent_.respawn(a.rank)) carry_out(action);
      break;
    case Action::Kind::kStop:
      kill_at_ns_ = now_ns() + kGraceNs;
      timeout_at_ns_ = UINT64_MAX;
      for (const AgentAction& action : agent_.stop()) carry_out(action);
      break;
    case Action::Kind::kKillNow:
      for (const AgentAction& action : agent_.kill_all()) carry_out(action);
      break;
    case Action::Kind::kReport:
      print_where_all_stand(true);
      break;
    case Action::Kind::kNews:
      if (!plan_.options.quiet) tell(a.text);
      break;
    case Action::Kind::kTell:
      tell(a.text);
      break;
    case Action::Kind::kRecord:
      log(a.record);
      break;
    case Action::Kind::kFinish:
      finish(a.code);
      break;
  }
}

// What remains to be said about ranks when all have ended. True if there was something.
bool Job::last_words() {
  if (std::exchange(last_words_said_, true)) return false;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    show_late_output(r);
    for (int stream = 0; stream < 2; ++stream) {
      flush_output(r, stream);
      if (!supervisor_.stopping()) tell_difference(r, stream, true);
    }
  }
  const engine::SegmentHeader* header = segment_.header();
  for (std::uint32_t i = 0; i < header->kills && !supervisor_.stopping(); ++i) {
    if (header->kill[i].fired.load() != 0) continue;
    Event event{Event::Kind::kUnfired, now_ns(), header->kill[i].rank};
    event.text = to_text(plan_.options.kills[i]);
    event.position = segment_.position(event.rank);
    feed(event);
  }
  return !queue_.empty();
}

void Job::tell_of_checkpoints() {
  const std::string news = checkpoints_->news();
  if (!news.empty()) tell("no checkpoint: " + news);
}

void Job::finish(int code) {
  exit_code_ = code;
  if (checkpoints_) {
    checkpoints_->finish();
    tell_of_checkpoints();
  }
  if (plan_.options.keep && !keep_journal() && exit_code_ == 0) exit_code_ = kExitFailure;
  finished_ = true;
}

}  // namespace rejoin::launcher
