#include "job.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>

#include "journal/arena.h"
#include "journal/contexts.h"
#include "player.h"

namespace rejoin::sim {

using engine::is_at;

namespace {

constexpr std::size_t kArenaBytes = std::size_t{8} << 20;  // undefined contents, as in a new arena
constexpr std::size_t kProcessBytes = std::size_t{48} << 20;
constexpr std::uint64_t kSnapshotEveryBytes = 16 * 1024;  // four zones

}  // namespace

Plan plan_of(std::uint64_t seed) {
  Plan plan;
  plan.options = engine::options_of(seed);
  plan.tagged = seed != 0 && engine::SimRandom(seed ^ 0x7a66).one_in(2);
  return plan;
}

Job::Job(const World& world)
    : world_(world),
      segments_(world.ranks, journal::segment_bytes_for(world.ranks, world.journal_limit_bytes),
                world.segments ? world.nodes : 1),
      agent_(segments_, probes_),
      simulation_(segments_.job(), *this, agent_) {
  reference_result_ = run_judged(Plan(), nullptr);
  reference_ = oracle_;
}

Job::~Job() = default;

Result Job::run(const Plan& plan) {
  const bool comparable = !plan.tagged && !world_.bits &&
                          world_.disagreement != Disagreement::kSomewhere && !world_.unordered;
  return run_judged(plan, comparable ? &reference_ : nullptr);
}

Result Job::run_judged(const Plan& plan, const Oracle* reference) {
  std::byte* base = segments_.job();
  if (runs_ > 0) wipe_segment();
  journal::format_segment(base, world_.ranks, 1, world_.journal_limit_bytes, 2);
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    journal::control_of(base, r)->node = r % world_.nodes;
  }
  journal::SegmentHeader* header = journal::header_of(base);
  header->nodes_apart = world_.apart;
  header->snapshots = world_.snapshot_every_turns != 0;
  const auto decision = world_.segments ? journal::Return::kImages : journal::Return::kUndecided;
  if (header->snapshots != 0) journal::put(header->goes_back_to, decision);
  decided_ = header->goes_back_to.load();
  header->writes_versions = world_.writes_versions;
  header->light_publish = plan.options.light_publish;
  header->snapshot_every_bytes = kSnapshotEveryBytes;
  for (const World::Kill& k : world_.kills) {
    journal::FaultPoint& point = header->fault[header->faults++];
    point.rank = k.rank;
    point.incarnation = k.incarnation;
    point.ordinal = k.ordinal;
    point.kind = journal::PointKind::kOperation;
    point.moment = k.moment;
  }
  header->has_relay = world_.segments;
  segments_.begin(plan.options.broken);
  oracle_.begin(base, reference);
  writer_.begin(base);
  messages_.begin(world_.ranks);
  histories_.begin(world_.ranks);
  header->stop_on_divergence = world_.bits;
  tagged_ = plan.tagged && !world_.bits && !world_.untagged && !world_.apart;
  killed_ = !plan.deaths.empty();
  processes_ = 0;
  ++runs_;
  watched_.assign(world_.ranks, Watched());
  first_at_ = {};
  times_back_ = 0;
  private_.assign(world_.ranks, Private());
  launcher::RunOptions job;
  job.programs = {{.ranks = world_.ranks}};
  job.max_restarts = plan.max_restarts;
  job.journal_limit_bytes = world_.journal_limit_bytes;
  job.on_divergence =
      world_.goes_back ? launcher::OnDivergence::kRollBack : launcher::OnDivergence::kStop;
  agent_.set_options(job, world_.snapshot_every_turns, world_.checkpoints, plan.left_out);
  SimOptions options = plan.options;
  options.unfrozen = world_.unfrozen;
  // Where all go back, most sets are complete.
  options.may_read_others = world_.reads_directly && options.seed % 4 != 3;
  options.refuses_images = !world_.never_full && (!world_.goes_back || options.seed % 4 == 0);
  options.ahead_bytes = world_.ahead_bytes;
  if (runs_ > 1) options.turn_limit = turn_limit(plan);
  Result result;
  result.ending = simulation_.run(options, plan.deaths);
  result.why = simulation_.why();
  if (result.good()) {
    if (const char* why = judge_end()) {
      result.ending = Ending::kViolation;
      result.why = why;
    }
  }
  result.diverged = diverged(result);
  result.hash = simulation_.hash();
  result.turns = simulation_.time();
  result.deaths = simulation_.deaths();
  result.lost = agent_.lost();
  if (result.lost) hit(Probe::kLost);
  result.full = result.why.find("the journal was full") != std::string::npos;
  if (result.full) hit(Probe::kEndedFull);
  if (writer_.written() > 0) hit(Probe::kVersionInFile);
  if (result.deaths > 0) {
    result.turns_after_last_death = result.turns - simulation_.time_of_last_death();
  }
  result.ranks = simulation_.ranks();
  result.at_last_death = simulation_.ranks_at_last_death();
  result.first_at = first_at_;
  probes_.count[static_cast<unsigned>(Probe::kWokenForNothing)] += simulation_.spurious_wakes();
  probes_.count[static_cast<unsigned>(Probe::kHalfWritten)] += simulation_.spoilt();
  return result;
}

// A job that makes progress needs fewer turns than this without a death or a start.
std::uint64_t Job::turn_limit(const Plan& plan) const {
  // For each death the agent rings all ranks, and all of them look and sleep again.
  const std::uint64_t after_a_ring = 2 * (plan.options.polls + 5);
  return 60 * reference_result_.turns + 50000 +
         2 * plan.deaths.size() * world_.ranks * after_a_ring;
}

// Resets the memory to its state after mmap, as far as the code relies on it. Pages remain, because
// new ones would take longer than the rest of a small run.
void Job::wipe_segment() {
  constexpr std::uint64_t kKeptBytes = 4 * 1024 * 1024;
  std::byte* base = segments_.job();
  const journal::SegmentHeader* header = journal::header_of(base);
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    journal::RegionHead* head = journal::region_of(base, r);
    auto* region = reinterpret_cast<std::byte*>(head);
    const journal::RankControl* control = journal::control_of(base, r);
    // Staging buffers are overwritten before they are read, and remain in place.
    const journal::Offset staging[] = {head->staging[0], head->staging[1]};
    static_assert(std::size(staging) == journal::kFirstStagingBuffers);
    std::byte* from = region;
    for (const journal::Offset at : staging) {
      std::memset(from, 0, static_cast<std::size_t>(base + at - from));
      auto* s = reinterpret_cast<journal::StagingBuffer*>(base + at);
      journal::put(s->owner, 0);
      from = reinterpret_cast<std::byte*>(s + 1);
    }
    std::memset(from, 0, static_cast<std::size_t>(region + control->permanent_bump.load() - from));
    const std::uint64_t payload = journal::payload_begin(header);
    const std::uint64_t used = control->payload_bump.load() - payload;
    if (used <= kKeptBytes) {
      std::memset(region + payload, 0, used);
    } else {
      madvise(region + payload, used, MADV_DONTNEED);
    }
  }
  std::memset(base, 0, sizeof *header + world_.ranks * sizeof(journal::RankControl));
}

const char* Job::judge_end() {
  // With deaths of other incarnations the kills would not match.
  for (std::size_t i = 0; !killed_ && i < world_.kills.size(); ++i) {
    if (journal::header_of(segments_.job())->fault[i].fired.load() == 0) {
      return "a --kill has not fired";
    }
  }
  why_not_ = histories_.judge([this](std::uint32_t from, std::uint32_t to) {
    const auto* logs = reinterpret_cast<const journal::Log*>(
        segments_.job() + journal::region_of(segments_.job(), from)->channels);
    return world_.bits ? logs[to].tail.load() : 0;
  });
  if (!why_not_.empty()) return why_not_.c_str();
  if (messages_.left_over() > 0) return "messages: one was not received";
  for (std::uint32_t r = 0; world_.most_journal_bytes != 0 && r < world_.ranks; ++r) {
    const std::uint64_t used = journal::control_of(segments_.job(), r)->backed_bytes.load();
    if (used > world_.most_journal_bytes) return "the journal grows, although it is full";
  }
  return oracle_.end(world_.disagreement == Disagreement::kNone, messages_);
}

// The job was ended because a replay diverged, or it is blocked because of that.
bool Job::diverged(const Result& result) {
  if (!world_.bits) return false;
  if (result.ending == Ending::kStopped && result.why.find("replay") != std::string::npos) {
    hit(Probe::kDiverged);
    return true;
  }
  if (result.ending != Ending::kDeadlock) return false;
  bool repeating = world_.may_deadlock;
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    repeating |= journal::control_of(segments_.job(), r)->repeating.load() != 0;
  }
  if (repeating) hit(Probe::kStoodStill);
  return repeating;
}

Mapping& Job::memory_of_next_process() {
  if (processes_ == memory_.size()) memory_.push_back(std::make_unique<Mapping>(kProcessBytes));
  return *memory_[processes_++];
}

// This runs inside a fiber: no object that owns memory may be on this stack.
void Job::run(SimHost& host) {
  std::byte* memory = memory_of_next_process().get();
  journal::Arena arena(memory, kArenaBytes);
  SimRank rank(host, arena);
  Player player(*this, rank, memory + kArenaBytes);
  rank.set_initialized(1);
  watched_[host.rank()].player = &player;
  private_[host.rank()] = {&player, &arena, memory};
  world_.body(player);
  watched_[host.rank()].player = nullptr;
  fail_if(oracle_.finished(host.rank(), player.state()));
  rank.set_initialized(2);
}

// --- Observing

void Job::begin_operation(const SimHost& host, Group& g, std::uint64_t sequence, bool bcast,
                          bool follower) {
  Watched& w = watched_[host.rank()];
  w.contributed = w.progressed = w.recorded = false;
  w.inside = true;
  w.bcast = bcast;
  w.follower = follower;
  w.group = &g;
  w.sequence = sequence;
  simulation_.note(host, "enters operation", sequence, g.context);
}

void Job::end_operation(const SimHost& host, bool mismatch) {
  Watched& w = watched_[host.rank()];
  w.inside = false;
  const bool replayed = !w.recorded && w.group->members.size() > 1;
  if (replayed) hit(Probe::kReplayed);
  if (mismatch) hit(Probe::kMismatch);
  if (mismatch && replayed) hit(Probe::kMismatchReplayed);
}

void Job::on_point(SimHost& host, Point p) {
  ++probes_.reached[static_cast<unsigned>(p)];
  Death& first = first_at_[static_cast<unsigned>(p)];
  if (first.step == 0 && host.incarnation() == 0)
    first = {host.rank(), 0, simulation_.ranks()[host.rank()].steps, 0};
  // Polls follow each other without a store in between.
  bool& polls = watched_[host.rank()].polls;
  const bool nothing_new = p == Point::kPoll && polls;
  polls = p == Point::kPoll;
  if (nothing_new) return;
  if (polls) return fail_if(oracle_.words_after_turn(host.rank()));
  const journal::RankControl* control = journal::control_of(segments_.job(), host.rank());
  if (control->incarnation.load() != host.incarnation()) {
    simulation_.fail("I6: an incarnation runs that is not the newest");
  }
  if (simulation_.ranks()[host.rank()].dead) {
    simulation_.fail("I6: a process runs on whose death is known");
  }
  fail_if(oracle_.words_after_turn(host.rank()));
  look_at_decision(false);
  fail_if(writer_.look(simulation_.time(), oracle_));
  Watched& w = watched_[host.rank()];
  if (is_at(p, Step::kSlotNone) && w.player != nullptr) w.player->retag();
  if (p == Point::kSleep) {
    if (control->bell.load() == 0) hit(Probe::kSlept);
  } else if (w.before == Point::kSleep && control->bell.load() != 0) {
    hit(Probe::kRung);
  }
  if (w.inside) probe(host, w, p);
  w.before = p;
}

void Job::probe(const SimHost&, Watched& w, Point p) {
  if (is_at(p, Step::kSlotNone)) {
    if (w.contributed) hit(Probe::kAttemptAgain);
    if (w.progressed) hit(Probe::kProgressLost);
    w.contributed = true;
    w.progressed = false;
  } else if (is_at(p, Step::kStaged) || is_at(p, Step::kReduced)) {
    w.progressed = true;
  } else if (is_at(p, Step::kPost)) {
    ++w.posts;
  } else if (is_at(p, Step::kLook)) {
    if (w.contributed && is_at(w.before, Step::kValidate)) hit(Probe::kOverwritten);
  } else if (is_at(p, Step::kRecord)) {
    w.recorded = true;
    if (is_at(w.before, Step::kLook)) probe_record(w);
  }
}

// Another member's record is about to be adopted.
void Job::probe_record(Watched& w) {
  std::vector<bool> done;
  for (const auto& r : simulation_.ranks()) done.push_back(r.done);
  if (oracle_.only_done_hold(*w.group, w.sequence, done)) hit(Probe::kExitedAsked);
  if (w.bcast) return;
  if (!w.contributed) {
    hit(Probe::kAdoptedEntering);
  } else if (w.follower) {
    hit(Probe::kFollowed);
  } else {
    hit(Probe::kAdoptedWaiting);
  }
  if (w.progressed) hit(Probe::kProgressLost);
}

void Job::on_death(SimHost& host, Point p) {
  ++probes_.killed[static_cast<unsigned>(p)];
  Watched& w = watched_[host.rank()];
  if (host.incarnation() > 0) {
    hit(Probe::kReplacementDied);
    const auto& control = *journal::control_of(segments_.job(), host.rank());
    if (control.live_since.load() == 0) hit(Probe::kDiedReplaying);
    if (w.player != nullptr && w.player->is_restored()) hit(Probe::kDiedRestored);
  }
  if (p == Point::kSleep) hit(Probe::kDiedAsleep);
  std::size_t dead = 1;
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    dead += r != host.rank() && simulation_.ranks()[r].dead;
  }
  if (dead > 1) hit(Probe::kTwoDead);
  if (dead == world_.ranks) hit(Probe::kAllDead);
  const std::uint64_t posts = w.posts;
  w = Watched();
  w.posts = posts;
}

std::vector<std::span<std::byte>> Job::on_image(SimHost& host, std::uint32_t image) {
  images_.resize(image + 1);
  images_[image] = watched_[host.rank()];
  const Private& p = private_[host.rank()];
  fail_if(p.player->forbids_image());
  fail_if(forbids_image(host.rank()));
  std::vector<std::span<std::byte>> all = p.player->memory_in_use();
  all.emplace_back(p.memory, p.arena->used_bytes());
  return all;
}

// Its predecessor has cancelled a receive that this incarnation has not posted when the cursors are
// taken, although it will not go back behind everything that was cancelled.
const char* Job::forbids_image(std::uint32_t rank) const {
  journal::RegionHead* head = journal::region_of(segments_.job(), rank);
  const journal::Marks& newest =
      std::max_element(std::begin(head->image), std::end(head->image),
                       [](const journal::Image& a, const journal::Image& b) {
                         return a.marks.number.load() < b.marks.number.load();
                       })
          ->marks;
  const std::uint64_t cancelled = head->cancelled.tail.load();
  if (cancelled == 0) return nullptr;
  const auto last =
      *journal::log_at<std::uint64_t>(segments_.job(), head->cancelled, cancelled - 1);
  return last >= newest.receives ? "S1: an image is made before what was cancelled is posted"
                                 : nullptr;
}

// The objects have the same addresses as in the process of the image.
void Job::on_woken(SimHost& host, std::uint32_t image) {
  hit(Probe::kWoken);
  Watched& w = watched_[host.rank()];
  const std::uint64_t posts = w.posts;
  w = images_[image];
  w.posts = posts;
}

void Job::on_agent() {
  const std::uint64_t back = agent_.times_back();
  fail_if(oracle_.words_after_agent(std::exchange(times_back_, back) != back));
  look_at_decision(true);
}

// The decision is made once.
void Job::look_at_decision(bool by_agent) {
  using journal::Return;
  const Return now = journal::header_of(segments_.job())->goes_back_to.load();
  if (now == decided_) return;
  if (decided_ != Return::kUndecided || (by_agent && now != Return::kImages)) {
    simulation_.fail("S2: what the job goes back to is decided a second time");
  }
  decided_ = now;
  hit(now == Return::kVersions ? Probe::kVersionsDecided
      : by_agent               ? Probe::kImagesFirst
                               : Probe::kImagesByCheckpoint);
}

bool Job::on_relay(engine::SimRandom& random) {
  const std::uint32_t changed =
      segments_.step(random, [this](std::uint32_t r) { return simulation_.loan_of(r); });
  if (changed == Segments::kIdle) return false;
  if (changed == Segments::kNobody) return true;
  if ((changed & Segments::kRefused) != 0) simulation_.fail("a relay refuses a frame");
  for (std::uint32_t r = changed % world_.nodes; r < world_.ranks; r += world_.nodes) {
    if (journal::header_of(segments_.job())->asleep[r].load() != 0) simulation_.wake(r);
  }
  return true;
}

void Job::on_tell(SimHost& host, wire::MessageType type, const char* text) {
  using wire::MessageType;
  switch (type) {
    case MessageType::kNotice:
      if (!tagged_ && world_.unfrozen == 0) simulation_.fail(text);
      break;
    case MessageType::kLive:
      if (host.incarnation() == 0) {
        simulation_.fail("a first incarnation tells that it is live again");
      }
      break;
    case MessageType::kLimit:
      if (world_.journal_limit_bytes == 0) simulation_.fail("a journal limit where there is none");
      if (world_.never_full) simulation_.fail("the journal is full");
      break;
    case MessageType::kJournalStep:
      if (world_.journal_limit_bytes == 0) simulation_.fail("a journal limit where there is none");
      break;
    case MessageType::kSnapshotDue:
    case MessageType::kNotFrozen:
      if (world_.snapshot_every_turns == 0) simulation_.fail("a snapshot where there are none");
      break;
    case MessageType::kInitialized:
    case MessageType::kFinalized:
    case MessageType::kDiverged:  // the supervisor ends the job
      break;
    default:
      simulation_.fail("a message that no simulated rank should send");
  }
}

// --- Diagnostics

std::string Job::transcript(const Plan& plan, std::size_t lines_a_rank) {
  simulation_.keep_trace(true);
  run(plan);
  simulation_.keep_trace(false);
  const auto& trace = simulation_.trace();
  std::vector<std::size_t> left(world_.ranks, lines_a_rank);
  std::vector<bool> shown(trace.size());
  for (std::size_t i = trace.size(); i-- > 0;) {
    const bool poll = trace[i].point == Point::kPoll;
    if (!poll && left[trace[i].rank] > 0) {
      --left[trace[i].rank];
      shown[i] = true;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (!shown[i]) continue;
    const auto& e = trace[i];
    char line[160];
    if (e.point == Point::kCount) {
      std::snprintf(line, sizeof line, "  %7llu  rank %u.%u  -- %s %llu (%llx)\n",
                    static_cast<unsigned long long>(e.time), e.rank, e.incarnation, e.text,
                    static_cast<unsigned long long>(e.a), static_cast<unsigned long long>(e.b));
    } else {
      std::snprintf(line, sizeof line, "  %7llu  rank %u.%u  %s%s%s\n",
                    static_cast<unsigned long long>(e.time), e.rank, e.incarnation,
                    name_of(e.point), e.text != nullptr ? ": " : "",
                    e.text != nullptr ? e.text : "");
    }
    text += line;
  }
  return text;
}

}  // namespace rejoin::sim
