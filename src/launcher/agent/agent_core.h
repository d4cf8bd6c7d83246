// The processes of one host: maps processes to ranks, and orders the clean-up of an incarnation
// before the next one begins.
//
// A pure step function, like the supervisor's, with the words of core_messages.h.
//
//   state         meaning                                 leaves it by
//   kIdle         nothing runs                            spawn()
//   kRunning      the tree runs                           its end -> kDying, or kLingering
//   kLingering    ended well; other processes may write   output ended
//   kDying        the tree is being killed                tree gone
//   kEnded        reported to the supervisor              respawn()
//   kWaking       its image was asked to clone itself     the clone is known -> kRunning
//   kRestoring    a process is being made for its written image   spawned -> kRunning
//   kReleased     ended well; its wrapper continues       the wrapper's end -> kLingering or kDying
//
// After a death: kill the tree, reap it, read its output to the end, report; then, if the
// supervisor says so, publish the death, ring all ranks, admit the next incarnation, and start it:
// from its image; from its written image, if that is the image that was kept last; or from main
// while no image has allowed truncation. A job that resumes from written images begins as if all of
// its ranks had died at once. If a process cannot become its written image, the job ends.
//
// An image is *kept* from the step in which it registers. In that step the previous image is ended
// and the rank's low-water marks move (recovery/PROTOCOL.md, "Snapshots").
//
// Images of all ranks that were requested together, by one number, form a *set*: a consistent state
// of the job. They are kept together, when the last one has registered; until then all ranks keep
// the former set. If a rank dies before that, the images that have registered end. If a rank can
// make no image, the others are kept one by one, and there is no set until the next one is
// complete. While there is one, all ranks can go back to it: all of them are killed first, then the
// segment is put back, and each one is started from its image when the supervisor orders that.
//
// If the job has other hosts, the supervisor decides about sets (supervisor/sets.h). Such a core
// asks for images only when it is ordered to, or when the word of a set has come with what another
// host has shown; it reports that the images of its ranks are made, or why they will not be, and
// keeps them, or gives them up, when it is ordered to.
//
// A rank may be started by a script that waits for it, its *wrapper*. Such a rank moves into a
// clone before its first image is made, and the process that the wrapper waits for stays as the
// *keeper*. Wrapper and keeper outlive deaths and restarts of the clone. When the rank has ended
// well, the keeper exits with the same code, and the wrapper continues. Both die with the rank if
// it has no image, and the rank cannot continue without its keeper.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/core_messages.h"
#include "launcher/agent/snapshot_policy.h"

namespace rejoin::launcher {

// The core's rules about images, each enforced in one place. Tests disable them one by one, to
// prove that each violation is noticed.
enum class ImageRule : std::uint8_t {
  kNone,
  kKeepRegistered,     // an image is kept when it registers, not when it is wanted
  kFormerUntilThen,    // and until then the previous image stays
  kWakeKept,           // the image that is woken is the one that was kept last
  kKeepFirst,          // the new image is kept before the previous one is ended
  kOfThisIncarnation,  // an image of a former incarnation is refused
  kNumberWanted,       // and one that is not the newest that was wanted
  kOnlyInFlight,       // and one that was given up
  kOneInFlight,        // no other is requested until one has registered, or no longer can
  kMainWhileNoneKept,  // a rank starts from main only while it has never kept an image
  kNewestWake,         // the clone of a former wake is refused
  kAdmitOnce,          // and a second one of the newest
  kDecideAgain,        // if the image that is being woken ends, another start is chosen
  kForgetEnded,        // an image that has ended is not woken
  kAskAgain,           // another one is asked for soon
  kEndedUnregistered,  // an image that ended before it registered is not awaited any more
  kNoneOfFinalized,    // none is requested of a rank that has called MPI_Finalize
  kEndWithRank,        // an image ends when its rank has ended well,
  kStaysForSet,        // unless all ranks may still go back to the set that it belongs to
  kEndWithJob,         // and when the job is stopped
  kKeepTogether,       // the images of a set are kept when the last one has registered
  kGiveUpAtDeath,      // and none of them if a rank has died meanwhile
  kSetStays,           // no single image replaces one of a set while a rank is away
  kKillAllFirst,       // the segment is put back only when no process of any rank is left
};

// The core's rules about wrappers.
enum class WrapperRule : std::uint8_t {
  kNone,
  kOnlyRegistered,     // only the registered process moves,
  kOnlyBehind,         // if it is not the child, and the child waits,
  kOfIncarnation,      // as the incarnation that it is,
  kNotFinalized,       // before it has called MPI_Finalize,
  kNotStopping,        // and not when the job is ending
  kKeepFirst,          // the keeper knows that it is one before the clone continues
  kSpareWithImage,     // a rank's death spares its wrapper if there is an image
  kKillWithout,        // and kills it if there is none, before the rank restarts from main
  kReadOn,             // the rank's output is not closed while the wrapper lives
  kRelease,            // if a rank ends well, its wrapper is released first
  kCauseOfWrapper,     // and the wrapper's end becomes the rank's
  kNeedsKeeper,        // the rank dies with its keeper,
  kNoImageWithout,     // and is not woken again
  kGoesOnWithout,      // if the wrapper has ended by itself, the rank continues without it
  kEndWithJob,         // the wrapper of a rank that is dead ends when the job is stopped
  kTerminateReleased,  // a released wrapper gets SIGTERM when the job is stopped
  kKillReleased,       // and SIGKILL in the end
};

// The core's rules about ranks that are restored from written images.
enum class RestoreRule : std::uint8_t {
  kNone,
  kIfKept,         // what is restored is the image that was kept last
  kOnlyRestored,   // a process that runs from main in its place is refused, and ends the job
  kEndsIfUseless,  // one that reports that it cannot continue ends the job,
  kEndsIfEnded,    // also one that ends before it is the rank,
  kNotIfKilled,    // but if it was killed, it is restored again,
  kNotIfStopping,  // and its end is no failure if the job is being stopped
  kNeverAgain,     // one that ended the job is not restored again,
  kSaidOnce,       // and is reported once
  kUntilWelcome,   // once it is the rank, its end is the rank's
  kOverIfStopped,  // a rank for which there is no process yet is over when the job is stopped
};

// Numbers of images, by rank.
using ImageNumbers = std::map<std::uint32_t, std::uint64_t>;

class AgentCore {
 public:
  // `local`: the ranks of this host. All ranks that are passed to it must be among them.
  // is_whole_job: there are no ranks on other hosts, so this core decides about sets.
  explicit AgentCore(const LocalRanks& local, bool is_whole_job = true);
  const LocalRanks& local() const { return local_; }
  void leave_out(ImageRule rule) { left_out_ = rule; }
  void leave_out(WrapperRule rule) { wrapper_left_out_ = rule; }
  void leave_out(RestoreRule rule) { restore_left_out_ = rule; }

  std::vector<AgentAction> step(const AgentEvent& event);
  // The supervisor's orders.
  std::vector<AgentAction> spawn(std::uint32_t rank);  // REQUIRES kIdle
  // REQUIRES kEnded. `incarnation`: the number of the new one.
  std::vector<AgentAction> respawn(std::uint32_t rank, std::uint32_t incarnation);
  // Replaces spawn() in a job that resumes from written images: admits all ranks, each of which is
  // then to be restored. REQUIRES that all are kIdle.
  std::vector<AgentAction> resume(const ImageNumbers& numbers, std::uint32_t incarnation);
  std::vector<AgentAction> restore(std::uint32_t rank);  // once, after resume()
  // `numbers`: the images in the newest set that is on disk; empty: there is no set. A rank is
  // restored from that set and from no earlier one.
  void written(const ImageNumbers& numbers);
  std::vector<AgentAction> stop();      // SIGTERM to all ranks
  std::vector<AgentAction> kill_all();  // SIGKILL to all ranks that are left
  void give_up(std::uint32_t rank);     // it could not be started
  // Requests a snapshot of every rank that can make one now. If these are all ranks, and the round
  // is not kToTruncate, the snapshots form a set. Requests none while a set is being made, nor
  // while a rank is being started again and there is a set: single images would replace those of
  // the set.
  std::vector<AgentAction> want_snapshots(SnapshotRound round);
  // The same, if the job has other hosts, as the supervisor orders it: images of all ranks that can
  // make one now, each of which is kept by itself; or a set. `number`: of each of the images.
  std::vector<AgentAction> want_each(std::uint64_t number);
  std::vector<AgentAction> want_set(std::uint64_t number);
  // All hosts have made their images of this set: keep them.
  std::vector<AgentAction> keep_set(std::uint64_t number);
  // It will not be complete. one_by_one: its images are kept all the same.
  std::vector<AgentAction> give_up_set(std::uint64_t number, bool one_by_one);
  // The set of images to which all ranks can go back; 0: there is none.
  std::uint64_t set() const { return has_set() ? set_ : 0; }
  bool has_set() const;
  // Whether there is one, or one is being made.
  bool may_have_set() const { return has_set() || pending_set_ != 0; }
  // All ranks go back to it, as this incarnation. REQUIRES has_set().
  std::vector<AgentAction> roll_back(std::uint32_t incarnation);
  bool goes_back() const { return back_as_ != 0; }
  // Starts them. REQUIRES that they have gone back.
  std::vector<AgentAction> wake();
  // Ends all images: a death would end the job, so they are of no use.
  std::vector<AgentAction> end_images();

  // No process of any rank is left.
  bool all_over() const;
  // Its registered process is alive, as far as is known.
  bool running(std::uint32_t rank) const {
    const Rank& r = ranks_.at(rank);
    return r.state == State::kRunning && r.registered != 0 && !r.registered_over;
  }
  struct Image {
    std::int64_t pid = 0;  // 0: there is none
    std::uint64_t number = 0;
    int connection = -1;
  };
  const Image& image(std::uint32_t rank) const { return ranks_.at(rank).image; }
  bool has_image(std::uint32_t rank) const { return image(rank).pid != 0; }
  // Its image of the set that is being made.
  const Image& pending_image(std::uint32_t rank) const { return ranks_.at(rank).pending; }
  std::uint64_t pending_set() const { return pending_set_; }
  // The rank runs, and its image may be asked to write itself.
  bool can_be_written(std::uint32_t rank) const {
    return running(rank) && has_image(rank) && !ranks_.at(rank).finalized;
  }
  // If it died now, it would be restored from its written image.
  bool needs_written(std::uint32_t rank) const {
    const Rank& r = ranks_.at(rank);
    return r.image.pid == 0 && r.written != 0 && r.kept == r.written;
  }
  bool waking(std::uint32_t rank) const { return ranks_.at(rank).state == State::kWaking; }
  bool has_wrapper(std::uint32_t rank) const { return ranks_.at(rank).wrapper.pid != 0; }
  bool dying(std::uint32_t rank) const { return ranks_.at(rank).state == State::kDying; }
  std::int64_t child(std::uint32_t rank) const { return ranks_.at(rank).child; }
  // The number of the rank's newest incarnation.
  std::uint32_t incarnation(std::uint32_t rank) const { return ranks_.at(rank).incarnation; }
  // 0: no process has registered.
  std::int64_t registered(std::uint32_t rank) const { return ranks_.at(rank).registered; }

 private:
  enum class State { kIdle, kRunning, kLingering, kDying, kEnded, kWaking, kRestoring, kReleased };
  static bool may_follow(State from, State to);
  struct Wrapper {
    std::int64_t pid = 0;  // 0: the rank has not moved
    int keeper = -1;       // connection
  };
  // State of a rank that survives its incarnations.
  struct OfRank {
    std::uint32_t incarnation = 0;
    Image image;
    Image pending;  // of the set that is not complete yet
    Wrapper wrapper;
    std::uint64_t kept = 0;      // number of the newest kept image; 0: none, it restarts from main
    std::uint64_t written = 0;   // number of the newest that can be restored
    std::uint64_t wanted = 0;    // number of the newest that was requested
    bool in_flight = false;      // `wanted` may still register
    bool files_go_back = false;  // since all ranks have gone back, no incarnation was live
    std::string why_lost;
    Cause wrapper_killed = {};  // by a signal, while the rank went on
  };
  struct Rank : OfRank {
    State state = State::kIdle;
    std::int64_t child = 0;
    std::int64_t registered = 0;
    int connection = -1;  // of the registered process
    bool child_over = false;
    bool registered_over = false;
    bool initialized = false;
    bool live = false;  // of a later incarnation: it repeats nothing any more
    bool finalized = false;
    Cause child_cause = {};
    std::uint64_t ended_at_ns = 0;
    Cause cause = {};
    bool woken = false;       // comes from an image: a clone of it, or restored
    bool restoring = false;   // has not yet become its written image
    bool unrestored = false;  // and will not
  };

  void on(std::uint32_t rank, const AgentEvent::Spawned& event);
  void on(std::uint32_t rank, const AgentEvent::Registers& event);
  void on(std::uint32_t rank, const AgentEvent::Woken& event);
  void on(std::uint32_t rank, const AgentEvent::Useless& event);
  void on(std::uint32_t rank, const AgentEvent::Moves& event);
  void on(std::uint32_t rank, const AgentEvent::ImageRegisters& event);
  void on(std::uint32_t rank, const AgentEvent::NotFrozen& event);
  void on(std::uint32_t rank, const AgentEvent::Forked& event);
  void on(std::uint32_t rank, const AgentEvent::ImageEnded& event);
  void on(std::uint32_t rank, const AgentEvent::Initialized& event);
  void on(std::uint32_t rank, const AgentEvent::Live& event);
  void on(std::uint32_t rank, const AgentEvent::Finalized& event);
  void on(std::uint32_t rank, const AgentEvent::ChildEnded& event);
  void on(std::uint32_t rank, const AgentEvent::RegisteredEnded& event);
  void on(std::uint32_t rank, const AgentEvent::KeeperEnded& event);
  void on(std::uint32_t rank, const AgentEvent::WrapperEnded& event);
  void on(std::uint32_t rank, const AgentEvent::TreeGone& event);
  void on(std::uint32_t rank, const AgentEvent::OutputEnded& event);
  // Changes the state of a rank; an invariant is that the table above allows it.
  static void enter(Rank& rank, State to);
  // The same for a new incarnation: of the former one, only what survives incarnations is left.
  static void enter_incarnation(Rank& rank);
  // The rank's incarnation has ended.
  void ended(std::uint32_t rank, const Cause& cause);
  void report(std::uint32_t rank);
  void start_again(std::uint32_t rank);
  void not_restored(std::uint32_t rank, const std::string& why);
  void adopt(std::uint32_t rank, std::int64_t pid);
  Cause script_killed(const Rank& rank) const;
  void kill_wrapper(std::uint32_t rank);
  void stop_wrapper(std::uint32_t rank);
  void end_image(std::uint32_t rank);
  // The rank is being started again, or has not repeated its past yet.
  bool is_away(std::uint32_t rank) const;
  bool is_to_be_asked(std::uint32_t rank) const;
  void want(std::uint32_t rank, std::uint64_t number);
  void keep(std::uint32_t rank, const Image& image);
  void replace(std::uint32_t rank, const Image& image);
  bool is_pending_set(std::uint64_t number) const { return number != 0 && number == pending_set_; }
  void keep_set_if_complete();
  void begin_set(std::uint64_t number);
  void tell_of_set(std::uint64_t number, SetNews news);
  void drop_set();
  void one_is_missing();
  void keep_one_by_one();
  void put_back_if_all_ended();
  bool holds(ImageRule rule) const { return rule != left_out_; }
  bool holds(WrapperRule rule) const { return rule != wrapper_left_out_; }
  bool holds(RestoreRule rule) const { return rule != restore_left_out_; }
  template <class What>
  void act(std::uint32_t rank, What what) {
    actions_.push_back({rank, std::move(what)});
  }

  LocalRanks local_;
  bool is_whole_job_;
  std::map<std::uint32_t, Rank> ranks_;
  std::vector<AgentAction> actions_;
  std::uint64_t now_ns_ = 0;         // of the newest event
  std::uint64_t set_ = 0;            // the newest that was complete
  std::uint64_t pending_set_ = 0;    // that is being made; 0: none
  std::uint32_t missed_ = 0;         // sets in a row of which some rank could not make its image
  std::uint64_t newest_missed_ = 0;  // the newest of them
  std::uint64_t newest_wanted_ = 0;  // number that was ordered, or has come from another host
  std::uint32_t back_as_ = 0;  // all ranks are going back, as this incarnation; 0: they are not
  bool is_back_ = false;       // and await the order to begin
  bool stopping_ = false;
  ImageRule left_out_ = ImageRule::kNone;
  WrapperRule wrapper_left_out_ = WrapperRule::kNone;
  RestoreRule restore_left_out_ = RestoreRule::kNone;
};

}  // namespace rejoin::launcher
