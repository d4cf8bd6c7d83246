// The agent of a simulated job: the launcher's own cores, and a driver that handles simulated
// processes as the real driver handles real ones. Ranks take turns between any two of its actions.
// Messages and ends of processes reach the cores with any delay and in any order that the real
// driver allows:
//
//   messages           of one connection in order, of several connections in any order
//   end of a process   after all messages of a registered process; the registration of a process
//                      that died while it registered may still be unread
//   end of a shell     before or after the end of the program that it waits for
//   tree gone, output ended   some time after the core has asked for them
//
// Lists of actions are never interleaved with each other, as in the real driver.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "engine/transport/sim/simulation.h"
#include "launcher/agent/agent_core.h"
#include "launcher/supervisor/supervisor_core.h"
#include "probes.h"
#include "segments.h"

namespace rejoin::sim {

class Agent : public engine::SimAgent, private launcher::AgentDriver {
 public:
  Agent(Segments& segments, Probes& probes)
      : segments_(segments), base_(segments.job()), probes_(probes) {}

  // Sets the options of the next runs. snapshot_every_turns: the number of turns between two
  // snapshots, while ranks make progress; 0: none. If the program makes checkpoints, half of the
  // rounds are kToTruncate. left_out: the rule that the core leaves out.
  void set_options(const launcher::RunOptions& options, std::uint64_t snapshot_every_turns,
                   bool checkpoints, launcher::ImageRule left_out) {
    options_ = options;
    checkpoints_ = checkpoints;
    left_out_ = left_out;
    snapshot_every_turns_ = snapshot_every_turns;
  }

  void begin(engine::Simulation& simulation) override;
  std::uint64_t due() const override;
  void turn() override;
  void on_message(std::uint32_t process, const engine::SimMessage& message) override;
  void on_end(std::uint32_t process, const engine::SimEnd& end) override;
  void on_image(std::uint32_t image, std::uint32_t rank, std::uint64_t number,
                std::uint32_t incarnation) override;
  void on_image_end(std::uint32_t image) override;

  // Whether a rank could not be restarted because its image had been killed.
  bool lost() const { return lost_; }
  std::uint64_t times_back() const { return times_back_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A process that was started as a rank; its index is the simulation's name for it.
  struct Process {
    std::uint32_t rank;
    std::uint32_t incarnation;
    bool registered = false;
    bool finalized = false;  // its message about MPI_Finalize was sent
    bool woken = false;      // a clone of an image; there is no shell between it and the agent
    bool over = false;
    std::uint32_t image = kNone;  // the image of which it is a clone
    launcher::Cause cause = {};
  };
  struct Connection {
    std::uint32_t process;  // index of the process or the image
    bool second;            // made by another process of the same tree
    bool image;
  };
  struct Image {
    std::uint32_t rank;
    std::uint64_t number;
    std::uint32_t incarnation;    // of the process from which it was made
    std::uint32_t wanted_as = 0;  // the incarnation that it was woken as
    bool registered = false;
  };
  struct Rank {
    std::uint32_t process = 0;  // the newest process
    bool dying = false;         // its tree is being killed
    bool child_over = false;
    bool half_broken = false;
    std::uint32_t back_as = 0;       // the incarnation after the newest return of all ranks
    std::uint32_t kept = kNone;      // image
    bool lost_image = false;         // an image was lost, and none was kept since
    bool lost_unregistered = false;  // likewise, and it had not registered
  };
  // An occurrence that the cores do not know yet.
  struct Coming {
    enum class Kind : std::uint8_t {
      kMessage,
      kRegisteredEnded,
      kChildEnded,
      kTreeGone,
      kOutputEnded,
      kImage,  // for these three kinds `process` is the image
      kImageEnded,
      kClones,  // the image has been woken
      kForked,
    };
    Kind kind;
    std::uint32_t process;
    std::uint64_t due;
    engine::SimMessage message = {wire::MessageType::kNotice};
    bool second = false;
  };
  struct Spawn {  // at the start of the job
    std::uint32_t rank;
  };
  using Occurrence = std::variant<launcher::AgentEvent, launcher::Event, Spawn>;
  using Action = std::variant<launcher::AgentAction, launcher::Action>;

  bool breaks(engine::Mutant mutant) const { return simulation_->options().mutant == mutant; }
  std::uint64_t some_time();
  void expect(Coming coming);
  std::size_t next_coming();
  void set_first_coming();
  void take_coming();
  launcher::Cause cause_of_child(const Process& process) const;
  void read_all(std::uint32_t process);
  void read(const Coming& coming);
  void read_registration(const Coming& coming);
  void decide();
  // Return whether other processes can see the action. False: they cannot, or it is not complete
  // yet.
  bool carry_out_next(launcher::AgentAction& action);
  bool carry_out_next(launcher::Action& action);
  void happened(std::uint32_t rank, decltype(launcher::Event::what) what);
  void act(std::uint32_t rank, const launcher::AgentAction::Spawn&) override { spawn(rank); }
  void act(std::uint32_t rank, const launcher::AgentAction::Welcome& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::Refuse& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::Terminate&) override;
  void act(std::uint32_t rank, const launcher::AgentAction::KillTree&) override;
  void act(std::uint32_t rank, const launcher::AgentAction::AwaitOutput&) override;
  void act(std::uint32_t rank, const launcher::AgentAction::Drain&) override;
  void act(std::uint32_t, const launcher::AgentAction::PublishDeath&) override {
  }                                                                           // done by publish()
  void act(std::uint32_t, const launcher::AgentAction::RingAll&) override {}  // done by ring_next()
  void act(std::uint32_t rank, const launcher::AgentAction::Admit&) override;
  void act(std::uint32_t rank, const launcher::AgentAction::WantSet& action) override;
  void want_set_on(std::uint32_t rank, std::uint64_t number);
  bool has_not_heard(std::uint32_t rank, std::uint64_t number) const;
  void act(std::uint32_t rank, const launcher::AgentAction::Want& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::PutBack& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::ReportBack& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::Keep& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::EndImage& action) override;
  void act(std::uint32_t, const launcher::AgentAction::AskImages&) override {}
  void act(std::uint32_t rank, const launcher::AgentAction::Wake& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::Adopt& action) override;
  void act(std::uint32_t, const launcher::AgentAction::Notice&) override {}
  void act(std::uint32_t rank, const launcher::AgentAction::Lost& action) override;
  void act(std::uint32_t rank, const launcher::AgentAction::ReportEnded& action) override;
  // No simulated rank has a wrapper or a written image.
  void act(std::uint32_t, const launcher::AgentAction::TellOfSet&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::Spare&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::Read&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::Restore&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::Move&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::Release&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::KillWrapper&) override { not_here(); }
  void act(std::uint32_t, const launcher::AgentAction::EndKeeper&) override { not_here(); }
  void not_here() { simulation_->fail("an action for wrappers or written images"); }
  void push_front(std::vector<launcher::AgentAction> actions);
  std::vector<launcher::AgentAction> mutated(std::vector<launcher::AgentAction> actions);
  bool publish(std::uint32_t rank);
  bool ring_next();
  void spawn(std::uint32_t rank);
  bool snapshot_due() const;
  std::uint64_t progress() const;
  void take_image_coming(const Coming& coming);
  void make_clone(std::uint32_t image, std::uint64_t incarnation);
  void read_forked(std::uint32_t process);
  void read_image_end(std::uint32_t image);
  std::uint32_t image_of(int connection) const;
  void answer(std::uint32_t rank, const Connection& connection, bool welcome);
  void kill_tree(std::uint32_t rank);
  launcher::Position position(std::uint32_t rank) const;
  std::int64_t pid(std::uint32_t process) const { return 2 * std::int64_t{process} + 2; }
  std::int64_t child(std::uint32_t process) const;
  std::int64_t image_pid(std::uint32_t image) const { return 1'000'000'000 + std::int64_t{image}; }

  Segments& segments_;
  std::byte* base_;
  Probes& probes_;
  engine::Simulation* simulation_ = nullptr;
  launcher::RunOptions options_;
  launcher::ImageRule left_out_ = launcher::ImageRule::kNone;
  std::uint64_t snapshot_every_turns_ = 0;
  bool checkpoints_ = false;
  std::uint64_t pending_set_ = 0;  // the newest that was wanted
  std::uint64_t late_set_ = 0;     // the newest of which a host has heard late
  bool is_late_ = false;
  std::uint64_t next_snapshot_ = 0;  // time
  std::uint64_t progress_then_ = 0;  // at the last snapshot
  std::vector<Image> images_;
  launcher::SupervisorCore supervisor_{launcher::RunOptions()};
  launcher::AgentCore core_{launcher::LocalRanks()};
  std::vector<Process> processes_;
  std::vector<Connection> connections_;
  std::vector<Rank> ranks_;
  std::vector<Coming> coming_;
  std::uint64_t first_coming_ = kNever;  // time at which the first of them is due
  std::deque<Occurrence> queue_;         // occurrences that are read, but not yet passed to a core
  std::deque<Action> actions_;
  std::uint64_t not_before_ = 0;
  std::uint32_t rung_ = 0;  // number of ranks that were rung in this round
  bool ringing_ = false;
  bool seen_ = false;                           // other processes can see the last action
  std::vector<launcher::AgentAction> put_off_;  // kRespawnBeforeBreak: until the welcome
  std::uint64_t times_back_ = 0;                // all ranks went back so often
  std::uint32_t back_as_ = 0;                   // the incarnation that all ranks went back as
  std::string why_;                             // the reason for the stop of the job
  bool all_over_said_ = false;
  bool lost_ = false;
  bool asked_ = false;  // a rank has asked for images
};

}  // namespace rejoin::sim
