// The host of a job with simulated processes, and its supervisor. Everything else is real: the
// loop, connections, messages, both cores, output, reports, and the segment.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent_parts.h"
#include "fuzz.h"
#include "launcher/agent/agent_core.h"
#include "launcher/agent/connections.h"
#include "launcher/agent/rank_messages.h"
#include "launcher/agent/reporter.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::fuzz {

using launcher::AgentAction;
using launcher::AgentEvent;
using launcher::Cause;
using launcher::Event;
using launcher::Report;
using launcher::SnapshotRound;

// Checks what must hold whatever ranks and their images send: one process at a time is a rank, each
// end is reported once, the image that was kept last is the one that is woken, main is not started
// after an image was kept, and the job can be ended.
class Host : private launcher::AgentDriver {
 public:
  // step(): performs one more step; returns false if there are no more, and the job is then ended.
  explicit Host(std::function<bool()> step)
      : step_(std::move(step)),
        loop_(launcher::monotonic_ns()),
        segment_(the_segment()),
        epoch_before_(epoch()),
        outputs_(loop_, kRanks, {}, output_calls()),
        connections_(loop_, listener(), launcher::all_local(kRanks), std::string(kSecret),
                     connection_calls()),
        reporter_(loop_, segment_, 0, [this](Report report) { post_report(report); }),
        messages_(loop_, segment_, outputs_, message_calls()),
        always_(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void run() {
    spawn_from(0);
    // Runs after everything else that is ready.
    launcher::Loop::Watch turns(
        loop_, always_.get(), EPOLLIN, [this](std::uint32_t) { turn(); },
        launcher::Loop::Turn::kLast);
    loop_.run([this] { idle(); });
    for (const Rank& r : ranks_) REQUIRE(!r.tree);
    REQUIRE(epoch() - epoch_before_ == respawns_);
  }

  // --- Steps. A process that does not exist, or has ended, does nothing.

  enum class Who { kChild, kOther, kImage, kClone };
  // A process connects: the agent's child, another process of the rank's tree, an image of the
  // rank, or the clone of a woken image.
  void connect(std::uint32_t rank, Who who) {
    if (clients_.size() == kMostClients) return;
    const std::int64_t child = std::max<std::int64_t>(ranks_[rank].child, 1);
    std::int64_t pid = who == Who::kChild ? child : child + 1;
    if (who == Who::kImage) pid = take_pid();
    if (who == Who::kClone) pid = std::max<std::int64_t>(images_[rank].clone, 1);
    clients_.push_back({connected(), pid});
  }
  void say(std::uint32_t client, const void* data, std::size_t bytes) {
    if (clients_.empty()) return;
    const Descriptor& to = clients_[client % clients_.size()].socket;
    if (to.open()) send(to.get(), data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void hang_up(std::uint32_t client) {
    if (!clients_.empty()) clients_[client % clients_.size()].socket.reset();
  }
  void print(std::uint32_t rank, std::uint32_t stream, std::string_view bytes) {
    const Descriptor& to = ranks_[rank].prints[stream];
    if (to.open() && write(to.get(), bytes.data(), bytes.size()) < 0) hang_up_output(rank);
  }
  void hang_up_output(std::uint32_t rank) {
    for (Descriptor& to : ranks_[rank].prints) to.reset();
  }
  // The registered process ends, in cases where the agent's child is another one.
  void program_ends(std::uint32_t rank, const Cause& cause) {
    Rank& r = ranks_[rank];
    if (!r.tree || r.program_over || r.registered == 0 || r.registered == r.child) return;
    connections_.read_all(rank);
    r.program_over = true;
    feed(rank, AgentEvent::RegisteredEnded{cause});
  }

  void child_ends(std::uint32_t rank, const Cause& cause) {
    Rank& r = ranks_[rank];
    if (!r.tree || r.child_over) return;
    connections_.read_all(rank);
    r.child_over = true;
    feed(rank, AgentEvent::ChildEnded{cause});
  }

  void tree_gone(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    if (!r.killing) return;
    r.killing = false;
    feed(rank, AgentEvent::TreeGone{});
  }
  // A round of snapshots is due.
  void want() {
    const SnapshotRound round =
        rounds_++ % 3 == 2 ? SnapshotRound::kToTruncate : SnapshotRound::kTogether;
    loop_.post([this, round] { carry_out(core_.want_snapshots(round)); });
  }
  void end_images() {
    loop_.post([this] { carry_out(core_.end_images()); });
  }
  // The woken image reports its clone, or that it could not make one.
  void forks(std::uint32_t rank, bool could) {
    const Images& images = images_[rank];
    wire::Message m = {};
    m.type = wire::MessageType::kForked;
    m.rank = rank;
    m.incarnation = ranks_[rank].incarnation;
    m.value = could ? static_cast<std::uint64_t>(images.clone) : 0;
    for (const Client& c : clients_) {
      if (c.pid != images.kept_pid || !c.socket.open()) continue;
      send(c.socket.get(), &m, wire::kMessageHeadBytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }
  // The kept image ends, or one that has not registered.
  void image_ends(std::uint32_t rank, bool kept) {
    const Images& images = images_[rank];
    connections_.read_all(rank);
    if (kept && images.kept_pid == 0) return;
    image_ended(rank, kept ? images.kept_pid : take_pid(), kept ? 0 : images.wanted);
  }
  void signal_ftrun() { happened({loop_.now_ns(), 0, Event::Interrupted{SIGTERM}}); }
  void next_spawn_fails() { spawn_fails_ = true; }

 private:
  using Rank = HostRank;
  using Images = HostImages;
  using Client = HostClient;
  static constexpr std::size_t kMostClients = 16;

  std::uint32_t epoch() const { return segment_.header()->epoch.load(); }

  std::int64_t take_pid() { return std::exchange(next_pid_, next_pid_ + 2); }

  void image_ended(std::uint32_t rank, std::int64_t pid, std::uint64_t number) {
    loop_.post([this, rank, pid, number] {
      std::int64_t& kept = images_[rank].kept_pid;
      if (kept == pid) kept = 0;
      carry_out(core_.step({rank, loop_.now_ns(), AgentEvent::ImageEnded{pid, number, {}}}));
    });
  }

  void turn() {
    if (turns_at_end_ > 0 || !step_()) end();
  }

  // Ends the job, which must be possible at any time.
  void end() {
    constexpr int kEnough = 60;
    REQUIRE(++turns_at_end_ < kEnough);
    if (!supervisor_.stopping()) signal_ftrun();
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      const Cause killed = {Cause::Kind::kSignal, SIGTERM};
      program_ends(r, killed);
      child_ends(r, killed);
      tree_gone(r);
      hang_up_output(r);
    }
  }

  void idle() {
    if (all_over_ || !core_.all_over()) return;
    all_over_ = true;
    outputs_.finish(true);
    report(0, Event::AllOver{0, {}});
  }

  void report(std::uint32_t rank, decltype(Event::what) what) {
    reporter_.happened(rank, std::move(what));
  }

  // --- The agent's core

  void feed(const AgentEvent& event) {
    loop_.post([this, event] { carry_out(core_.step(event)); });
  }

  void feed(std::uint32_t rank, decltype(AgentEvent::what) what) {
    feed({rank, loop_.now_ns(), std::move(what)});
  }

  std::int64_t pid_behind(int connection) const {
    return clients_[static_cast<std::size_t>(connection - 1)].pid;
  }

  void act(std::uint32_t rank, const AgentAction::Spawn&) override { spawn(rank); }
  void act(std::uint32_t rank, const AgentAction::Welcome& a) override {
    Rank& r = ranks_[rank];
    const std::int64_t pid = pid_behind(a.connection);
    const bool taken = r.registered != 0 && !r.program_over && r.registered != pid;
    REQUIRE(r.tree && !taken);
    if (!connections_.welcome(a.connection, rank, r.incarnation, segment_.descriptor())) return;
    r.registered = pid;
    r.program_over = false;
    report(rank, Event::Registered{pid});
  }
  void act(std::uint32_t rank, const AgentAction::Refuse& a) override {
    connections_.refuse(a.connection, rank, a.why);
  }
  void act(std::uint32_t rank, const AgentAction::Terminate&) override {
    REQUIRE(ranks_[rank].tree && !ranks_[rank].child_over);
  }
  void act(std::uint32_t rank, const AgentAction::KillTree&) override {
    REQUIRE(ranks_[rank].tree && !ranks_[rank].killing);
    ranks_[rank].killing = true;
  }
  void act(std::uint32_t rank, const AgentAction::AwaitOutput&) override {
    REQUIRE(ranks_[rank].tree && !ranks_[rank].killing);
    outputs_.await_end(rank);
  }
  void act(std::uint32_t rank, const AgentAction::Drain&) override {
    outputs_.drain(rank);
    connections_.close_all(rank);
  }
  void act(std::uint32_t rank, const AgentAction::PublishDeath&) override {
    REQUIRE(!ranks_[rank].tree);
    journal::publish_death(segment_.base(), rank);
  }
  void act(std::uint32_t, const AgentAction::RingAll&) override { segment_.ring_all(); }
  void act(std::uint32_t rank, const AgentAction::Admit&) override {
    journal::admit(segment_.base(), rank, ranks_[rank].incarnation);
  }
  void act(std::uint32_t, const AgentAction::WantSet& a) override {
    REQUIRE(a.number > set_wanted_);
    set_wanted_ = a.number;
  }
  // The segment has no images: only the death of all ranks is published.
  void act(std::uint32_t, const AgentAction::PutBack& a) override {
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      REQUIRE(!ranks_[r].killing && images_[r].kept == a.set && images_[r].kept_pid != 0);
      ranks_[r].tree = images_[r].waking = false;
      ranks_[r].incarnation = back_as_;
    }
    journal::publish_all_deaths(segment_.base());
    ++respawns_;
  }
  void act(std::uint32_t, const AgentAction::ReportBack& a) override {
    report(0, Event::RolledBack{a.set, 0, a.back_as});
  }
  void act(std::uint32_t, const AgentAction::TellOfSet&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::Spare&) override { REQUIRE(false); }
  void act(std::uint32_t rank, const AgentAction::Want& a) override {
    Images& images = images_[rank];
    REQUIRE(ranks_[rank].tree && !ranks_[rank].killing);
    REQUIRE(a.number > images.wanted);
    images.wanted = a.number;
  }
  void act(std::uint32_t rank, const AgentAction::Keep& a) override {
    Images& images = images_[rank];
    REQUIRE(ranks_[rank].tree && !ranks_[rank].killing);
    REQUIRE(a.number == images.wanted && a.number > images.kept);
    REQUIRE(a.pid == pid_behind(a.connection));
    images.kept = a.number;
    images.kept_pid = a.pid;
    outputs_.keep(rank, a.number | wire::kMarkOfImage);
  }
  void act(std::uint32_t rank, const AgentAction::EndImage& a) override {
    connections_.close(a.connection);
    image_ended(rank, a.pid, 0);
    if (images_[rank].kept_pid == a.pid) images_[rank].kept_pid = 0;
  }
  void act(std::uint32_t, const AgentAction::AskImages&) override {
    REQUIRE(!supervisor_.stopping());
  }
  void act(std::uint32_t rank, const AgentAction::Wake& a) override {
    Rank& r = ranks_[rank];
    Images& images = images_[rank];
    REQUIRE(!r.tree && a.pid == images.kept_pid && a.number == images.kept);
    begin(rank);
    outputs_.jump(rank, a.number | wire::kMarkOfImage);
    images.waking = true;
    images.clone = take_pid();
    const int pipes[3] = {always_.get(), always_.get(), always_.get()};
    connections_.wake(a.connection, rank, r.incarnation, pipes, a.files_go_back);
  }
  void act(std::uint32_t rank, const AgentAction::Adopt& a) override {
    REQUIRE(!ranks_[rank].tree && std::exchange(images_[rank].waking, false));
    ranks_[rank].tree = true;
    ranks_[rank].child = a.pid;
    started(rank);
  }
  void act(std::uint32_t, const AgentAction::Notice& a) override { REQUIRE(!a.text.empty()); }
  void act(std::uint32_t rank, const AgentAction::Lost&) override {
    Images& images = images_[rank];
    REQUIRE(!ranks_[rank].tree && images.kept != 0 && images.kept_pid == 0);
    images.waking = false;
    report(rank, Event::Lost{});
  }
  void act(std::uint32_t rank, const AgentAction::ReportEnded& a) override {
    Rank& r = ranks_[rank];
    REQUIRE(r.tree && !r.killing);
    r.tree = false;
    images_[rank].waking = false;
    reporter_.happened({a.at_ns, rank, Event::Ended{a.cause, segment_.position(rank), {}, {}, {}}});
  }
  // No simulated rank has a wrapper or a written image.
  void act(std::uint32_t, const AgentAction::Read&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::Restore&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::Move&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::Release&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::KillWrapper&) override { REQUIRE(false); }
  void act(std::uint32_t, const AgentAction::EndKeeper&) override { REQUIRE(false); }

  void spawn_from(std::uint32_t rank) {
    if (rank == kRanks || supervisor_.stopping()) return;
    carry_out(core_.spawn(rank));
    loop_.post([this, rank] { spawn_from(rank + 1); });
  }

  void spawn(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    REQUIRE(!r.tree && images_[rank].kept == 0);
    if (std::exchange(spawn_fails_, false)) {
      core_.give_up(rank);
      report(rank, Event::SpawnFailed{1, ""});
      return;
    }
    begin(rank);
    r.tree = true;
    r.child = take_pid();
    core_.step({rank, loop_.now_ns(), AgentEvent::Spawned{r.child}});
    started(rank);
  }

  // Creates the pipes of the next incarnation.
  void begin(std::uint32_t rank) {
    Rank& r = ranks_[rank];
    const std::uint32_t incarnation = r.incarnation;
    r = Rank();
    r.incarnation = incarnation;
    Descriptor reads[2];
    for (int s = 0; s < 2; ++s) {
      int ends[2];
      REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
      reads[s] = Descriptor(ends[0]);
      r.prints[s] = Descriptor(ends[1]);
    }
    outputs_.open(rank, std::move(reads[0]), std::move(reads[1]));
  }

  void started(std::uint32_t rank) { report(rank, Event::Started{ranks_[rank].child}); }

  // --- The supervisor, which receives only bytes

  void post_report(const Report& report) {
    loop_.post([this, bytes = report.SerializeAsString()] {
      Report read;
      REQUIRE(read.ParseFromString(bytes));
      on_report(read);
    });
  }

  void on_report(const Report& report) {
    if (report.has_module()) {
      const Report::Module& m = report.module();
      REQUIRE(m.rank() < kRanks && m.entry().size() == sizeof(journal::ModuleEntry));
    }
    if (!report.has_happened()) return;
    const auto event = launcher::to_event(report);
    REQUIRE(event && event->rank < kRanks);
    happened(*event);
  }

  void happened(const Event& event) {
    using launcher::Action;
    for (const Action& action : supervisor_.step(event)) {
      if (const auto* respawn = std::get_if<Action::Respawn>(&action.what)) {
        REQUIRE(!supervisor_.stopping());
        ++respawns_;
        REQUIRE(respawn->incarnation == supervisor_.incarnation(respawn->rank));
        ranks_[respawn->rank].incarnation = respawn->incarnation;
        outputs_.forget_late(respawn->rank);
        carry_out(core_.respawn(respawn->rank, respawn->incarnation));
      } else if (const auto* back = std::get_if<Action::RollBack>(&action.what)) {
        REQUIRE(!supervisor_.stopping());
        back_as_ = back->incarnation;
        if (core_.has_set()) {
          carry_out(core_.roll_back(back_as_));
        } else {
          report(0, Event::NoSet{});
        }
      } else if (std::holds_alternative<Action::Wake>(action.what)) {
        carry_out(core_.wake());
      } else if (std::holds_alternative<Action::Stop>(action.what)) {
        carry_out(core_.stop());
      } else if (std::holds_alternative<Action::KillNow>(action.what)) {
        carry_out(core_.kill_all());
      } else if (std::holds_alternative<Action::Finish>(action.what)) {
        REQUIRE(all_over_);
        loop_.stop();
      }
    }
  }

  // --- Callbacks of the parts

  launcher::RankOutputs::Calls output_calls() {
    launcher::RankOutputs::Calls calls;
    calls.show = [](int stream, const std::string& bytes, const auto&) {
      REQUIRE((stream == 0 || stream == 1) && !bytes.empty());
    };
    calls.is_late = [this](std::uint32_t rank) {
      return ranks_[rank].killing || ranks_[rank].program_over;
    };
    calls.ended = [this](std::uint32_t rank) { feed(rank, AgentEvent::OutputEnded{}); };
    calls.differs = [](std::uint32_t rank, int) { REQUIRE(rank < kRanks); };
    return calls;
  }

  launcher::Connections::Calls connection_calls() {
    launcher::Connections::Calls calls;
    calls.asks = [this](std::uint32_t rank, pid_t, int connection, const wire::Message& first) {
      const std::int64_t pid = pid_behind(connection);
      const std::string why = launcher::text_of(first).substr(wire::kSecretBytes);
      if (first.type == wire::MessageType::kImage) {
        feed(rank, AgentEvent::ImageRegisters{pid, connection, first.value, first.incarnation});
      } else if (first.type != wire::MessageType::kWoken) {
        feed(rank, AgentEvent::Registers{pid, connection});
      } else if (why.empty()) {
        feed(rank, AgentEvent::Woken{pid, connection, first.incarnation});
      } else {
        feed(rank, AgentEvent::Useless{pid, connection, first.incarnation, why});
      }
    };
    calls.image_says = [this](std::uint32_t rank, const wire::Message& m) {
      REQUIRE(rank < kRanks);
      if (m.type != wire::MessageType::kForked) return;
      feed(rank, AgentEvent::Forked{static_cast<std::int64_t>(m.value), m.incarnation});
    };
    calls.foreign = [this](std::uint32_t rank, const std::string& soname) {
      report(rank, Event::ForeignMpi{soname});
    };
    calls.says = [this](std::uint32_t rank, const wire::Message& m) {
      REQUIRE(ranks_[rank].tree);
      messages_.read(rank, m);
    };
    return calls;
  }

  launcher::RankMessages::Calls message_calls() {
    return {[this](const AgentEvent& event) { feed(event); },
            [this](const Event& event) { reporter_.happened(event); },
            [this](const std::string& line) { reporter_.log_line(line); },
            [](std::uint64_t, bool) {},
            [this](bool) { want(); },
            [this](std::uint32_t rank, const wire::Message& m) {
              feed(rank, AgentEvent::NotFrozen{m.value, m.text_bytes == 0});
            },
            [](std::uint32_t rank, const wire::Message& m) { launcher::fault_report(rank, m); },
            [](std::uint64_t, int) {}};
  }

  const std::function<bool()> step_;
  launcher::Loop loop_;
  const launcher::JobSegment& segment_;
  const std::uint32_t epoch_before_;
  std::uint32_t respawns_ = 0;
  Rank ranks_[kRanks];
  Images images_[kRanks];
  std::uint64_t set_wanted_ = 0;
  std::uint32_t back_as_ = 0;  // the incarnation that all ranks go back as
  launcher::RankOutputs outputs_;
  launcher::Connections connections_;
  launcher::Reporter reporter_;
  launcher::RankMessages messages_;
  launcher::AgentCore core_{launcher::all_local(kRanks)};
  launcher::SupervisorCore supervisor_{options()};
  Descriptor always_;  // always readable
  std::vector<Client> clients_;
  std::int64_t next_pid_ = 100;
  int turns_at_end_ = 0;
  std::size_t rounds_ = 0;  // rounds of snapshots
  bool spawn_fails_ = false, all_over_ = false;
};

}  // namespace rejoin::fuzz
