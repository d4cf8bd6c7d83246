// doorbell KIND FENCE RANKS WAKE_UPS [MUTANT]: a token visits RANKS ranks in turn, which are
// threads or processes, over the doorbells of the real host, until they have announced WAKE_UPS
// sleeps.
//
// A sleep has no time limit here, so a lost wake-up stops the token. No rank publishes anything
// while the token is elsewhere, so no later ring hides the loss. Random short delays let announcing
// and publishing race. Most sleepers poll their bell for a moment before they call the kernel,
// which takes a hundred times as long as the race.
//
// A lost wake-up is detected by a proof, not by a time limit (see `lost`). If the ranks hang in
// another way, the test hangs, too.
//
//   KIND     threads or processes
//   FENCE    light: publishers have none, and sleepers look twice; full: both sides have one
//   MUTANT   the part that is left out, to check that this is detected: second-look (light),
//            publisher or waiter (full)
//
// Exit code: 0 all were woken, 1 a lost wake-up, 2 wrong usage.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "engine/transport/shm/host.h"
#include "journal/waiting.h"

namespace rejoin::stress {
namespace {

using engine::ShmHost;
using journal::control_of;
using journal::header_of;

constexpr std::uint32_t kMostRanks = 8;
constexpr int kLookMs = 50;  // interval between looks of the watcher

enum class Mutant { kNone, kSecondLook, kPublisher, kWaiter };

struct Options {
  bool processes;
  bool light;
  std::uint32_t ranks;
  std::uint64_t wake_ups;
  Mutant mutant = Mutant::kNone;
};

// Shared by all ranks and the watcher.
struct Board {
  struct alignas(journal::kLine) Seat {
    std::atomic<std::uint64_t> turn;  // number of times that the rank has passed on the token
    // For the watcher: the last turn after which the rank has rung, the turn that it waits for, and
    // the number of the sleep that only a bell ends (0: the rank is awake, or will look again).
    alignas(journal::kLine) std::atomic<std::uint64_t> rung;
    std::atomic<std::uint64_t> wanted;
    std::atomic<std::uint64_t> sleeping;
    // Numbers of announcements, of sleeps, and of tokens that only the second look found.
    alignas(journal::kLine) std::atomic<std::uint64_t> announced;
    std::atomic<std::uint64_t> slept;
    std::atomic<std::uint64_t> found;
  };
  Seat seat[kMostRanks];
  alignas(journal::kLine) std::atomic<bool> enough;
  std::atomic<std::uint32_t> left;  // number of ranks that have seen the end
};

// The real host with other numbers of looks, and with counters. The mutants leave out a fence or a
// look.
class Host : public ShmHost {
 public:
  Host(std::byte* base, std::uint32_t rank, Board::Seat* seat, Mutant mutant)
      : ShmHost(base, rank, -1, ShmHost::kNoLimit), seat_(seat), mutant_(mutant) {}

  // patience: the number of looks before the sleep is announced; watch: the number of looks at the
  // bell before the kernel is called.
  void prepare(unsigned patience, unsigned watch) {
    patience_ = patience;
    watch_ = watch;
    unrung_ = false;
  }

  // Called after a wait: counts a token that was found without a ring.
  void count_found() {
    if (unrung_) seat_->found.store(++found_, std::memory_order_relaxed);
  }

  bool poll(unsigned turn) {
    __builtin_ia32_pause();
    return turn < patience_;
  }

  void fence_published() {
    if (mutant_ == Mutant::kPublisher) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      ShmHost::fence_published();
    }
  }

  void fence() {
    seat_->announced.store(++announced_, std::memory_order_relaxed);
    unrung_ = false;
    if (mutant_ == Mutant::kWaiter) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      ShmHost::fence();
    }
  }

  bool settle() {
    if (mutant_ == Mutant::kSecondLook) return false;
    if (!rung_at_once() && !ShmHost::settle()) return false;
    unrung_ = bell().load(std::memory_order_relaxed) == 0;
    return true;
  }

  void sleep() {
    unrung_ = false;
    seat_->sleeping.store(++slept_, std::memory_order_release);  // after the last look
    seat_->slept.store(slept_, std::memory_order_relaxed);
    if (!rung_at_once()) ShmHost::sleep();
    seat_->sleeping.store(0);
  }

 private:
  const journal::AnyWord<std::uint32_t>& bell() const { return control_of(base(), rank())->bell; }

  bool rung_at_once() const {
    for (unsigned look = 0; look < watch_; ++look) {
      if (bell().load(std::memory_order_relaxed) != 0) return true;
      __builtin_ia32_pause();
    }
    return false;
  }

  Board::Seat* seat_;
  Mutant mutant_;
  unsigned patience_ = 0;
  unsigned watch_ = 0;
  std::uint64_t announced_ = 0;
  std::uint64_t slept_ = 0;
  std::uint64_t found_ = 0;
  bool unrung_ = false;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  unsigned below(unsigned limit) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<unsigned>((state_ >> 33) % limit);
  }

 private:
  std::uint64_t state_;
};

void pass_the_token(std::byte* base, std::uint32_t rank, Board* board, const Options& o) {
  constexpr unsigned kLooks = 48;  // most looks before a sleep is announced, or a word published
  Board::Seat* mine = &board->seat[rank];
  Random random(rank + 1);
  Host host(base, rank, mine, o.mutant);
  std::uint32_t world[kMostRanks];
  for (std::uint32_t r = 0; r < o.ranks; ++r) world[r] = r;
  const std::atomic<std::uint64_t>& given = board->seat[(rank + o.ranks - 1) % o.ranks].turn;
  for (std::uint64_t turn = 1;; ++turn) {
    const std::uint64_t wanted = rank == 0 ? turn - 1 : turn;
    host.prepare(random.below(kLooks), random.below(16) == 0 ? 0 : 2000);
    mine->wanted.store(wanted, std::memory_order_relaxed);
    journal::wait_until(host,
                        [&](bool) { return given.load(std::memory_order_acquire) >= wanted; });
    host.count_found();
    const bool enough = board->enough.load(std::memory_order_relaxed);
    for (unsigned delay = random.below(kLooks); delay > 0; --delay) {
      __builtin_ia32_pause();
      // After this read the ring needs no time to read the word, so the publication is still on its
      // way.
      header_of(base)->asleep[0].load(std::memory_order_relaxed);
    }
    mine->turn.store(turn, std::memory_order_release);
    journal::ring_sleepers(host, world, o.ranks);
    mine->rung.store(turn, std::memory_order_release);
    if (enough) break;
  }
  board->left.fetch_add(1, std::memory_order_relaxed);
}

template <class T>
T* shared(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) {
    perror("doorbell: mmap");
    exit(2);
  }
  return static_cast<T*>(p);
}

class Stress {
 public:
  explicit Stress(const Options& o)
      : options_(o),
        base_(shared<std::byte>(journal::segment_bytes_for(o.ranks, 0))),
        board_(shared<Board>(sizeof(Board))) {
    journal::format_segment(base_, o.ranks, 1, 0, o.ranks);
    header_of(base_)->light_publish = o.light;
  }

  int run() {
    for (std::uint32_t r = 0; r < options_.ranks; ++r) start(r);
    const int code = watch();
    if (code != 0) {
      for (const pid_t child : children_) kill(child, SIGKILL);
      fflush(stdout);
      if (!options_.processes) _exit(code);  // some threads sleep for ever
    }
    for (std::thread& t : threads_) t.join();
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
    return code;
  }

 private:
  void start(std::uint32_t r) {
    if (!options_.processes) {
      threads_.emplace_back([this, r] { pass_the_token(base_, r, board_, options_); });
      return;
    }
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pass_the_token(base_, r, board_, options_);
      _exit(0);
    }
    if (child < 0) {
      perror("doorbell: fork");
      exit(2);
    }
    children_.push_back(child);
  }

  std::uint64_t sum(std::atomic<std::uint64_t> Board::Seat::*what) const {
    std::uint64_t all = 0;
    for (const Board::Seat& s : board_->seat) all += (s.*what).load(std::memory_order_relaxed);
    return all;
  }

  // Returns whether rank r sleeps for ever: it has had its last look, the rank that had to wake it
  // has done everything for that turn, and the bell, which only r clears, is silent. The samples
  // are not taken at one instant, but all within one sleep of r.
  bool lost(std::uint32_t r) const {
    const Board::Seat& s = board_->seat[r];
    const std::uint64_t sleep = s.sleeping.load();
    if (sleep == 0) return false;
    const std::uint64_t wanted = s.wanted.load();
    const Board::Seat& giver = board_->seat[(r + options_.ranks - 1) % options_.ranks];
    return giver.rung.load() >= wanted && control_of(base_, r)->bell.load() == 0 &&
           s.sleeping.load() == sleep;
  }

  void show(const char* what) const {
    printf("%s: %llu turns, %llu sleeps announced, %llu slept, %llu ended by the second look\n",
           what, static_cast<unsigned long long>(sum(&Board::Seat::turn)),
           static_cast<unsigned long long>(sum(&Board::Seat::announced)),
           static_cast<unsigned long long>(sum(&Board::Seat::slept)),
           static_cast<unsigned long long>(sum(&Board::Seat::found)));
  }

  int watch() {
    while (board_->left.load() < options_.ranks) {
      usleep(kLookMs * 1000);
      if (sum(&Board::Seat::announced) >= options_.wake_ups) board_->enough.store(true);
      for (std::uint32_t r = 0; r < options_.ranks; ++r) {
        if (!lost(r)) continue;
        show("lost wake-up");
        return 1;
      }
    }
    show("all woken");
    return 0;
  }

  Options options_;
  std::byte* base_;
  Board* board_;
  std::vector<std::thread> threads_;
  std::vector<pid_t> children_;
};

bool read_options(int argc, char** argv, Options* o) {
  if (argc < 5 || argc > 6) return false;
  const std::string who = argv[1], fence = argv[2], mutant = argc > 5 ? argv[5] : "";
  o->processes = who == "processes";
  o->light = fence == "light";
  o->ranks = static_cast<std::uint32_t>(strtoul(argv[3], nullptr, 10));
  o->wake_ups = strtoull(argv[4], nullptr, 10);
  if (mutant == "second-look") o->mutant = Mutant::kSecondLook;
  if (mutant == "publisher") o->mutant = Mutant::kPublisher;
  if (mutant == "waiter") o->mutant = Mutant::kWaiter;
  const bool known = mutant.empty() || o->mutant != Mutant::kNone;
  return known && (o->processes || who == "threads") && (o->light || fence == "full") &&
         o->ranks >= 2 && o->ranks <= kMostRanks && o->wake_ups > 0;
}

int stress(int argc, char** argv) {
  Options o;
  if (!read_options(argc, argv, &o)) {
    fprintf(stderr,
            "usage: doorbell threads|processes light|full RANKS WAKE_UPS "
            "[second-look|publisher|waiter]\n");
    return 2;
  }
  return Stress(o).run();
}

}  // namespace
}  // namespace rejoin::stress

int main(int argc, char** argv) { return rejoin::stress::stress(argc, argv); }
