#include "engine/transport/shm/host.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "engine/transport/shm/memory.h"
#include "journal/valgrind.h"
#include "wire/socket.h"

namespace rejoin::engine {
namespace {

constexpr std::uintptr_t kPage = 4096;

// Advises over whole pages around [begin, begin + bytes). 0 or an errno.
int advise(std::byte* begin, std::size_t bytes, int advice) {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) & ~(kPage - 1);
  const std::uintptr_t last =
      (reinterpret_cast<std::uintptr_t>(begin) + bytes + kPage - 1) & ~(kPage - 1);
  const long r = syscall(SYS_madvise, first, last - first, advice);
  return r == 0 ? 0 : errno;
}

// Page faults of this thread, except those that waited for a disk.
std::uint64_t page_faults() {
  rusage u = {};
  syscall(SYS_getrusage, RUSAGE_THREAD, &u);
  return static_cast<std::uint64_t>(u.ru_minflt);
}

}  // namespace

ShmHost::ShmHost(std::byte* base, std::uint32_t rank, int agent_socket, int sleep_limit_ms)
    : base_(base),
      rank_(rank),
      agent_socket_(agent_socket),
      process_(getpid()),
      sleep_limit_ms_(sleep_limit_ms) {
  read_processors();
}

void ShmHost::read_processors() {
  const SegmentHeader* h = header_of(base_);
  light_publish_ = h->light_publish != 0;
  // With a processor for each rank, peers answer within microseconds, or within some tens of them
  // if they have to be woken: a rank that yielded before that would give a foreign program on the
  // same processor its whole time slice, milliseconds, for each message. Later a peer may have been
  // moved to this processor or be preempted: so yield now and then, and sleep after about a
  // millisecond. With more ranks than processors there is always another rank to run. Under
  // valgrind, polling once takes as long as a context switch.
  const bool crowded = h->crowded != 0 || journal::runs_under_valgrind();
  // A receiver that another rank keeps from its processor would hold up the sender.
  may_read_others_ = !crowded;
  first_yield_ = crowded ? 8 : 2048;
  spins_ = first_yield_;
  yield_every_ = crowded ? 1 : 32;
  looks_ = crowded ? 200 : 16384;
}

void ShmHost::woken(int agent_socket) {
  agent_socket_ = agent_socket;
  process_ = getpid();
  read_processors();
  if (carrier_ != nullptr) set_carrier(carrier_);
  if (shared_.load(std::memory_order_relaxed)) spins_.store(0, std::memory_order_relaxed);
  memset(touched_, 0, sizeof touched_);
}

// What comes from another node is here only when a process of this node has looked for it.
void ShmHost::set_carrier(journal::Carrier* carrier) {
  constexpr unsigned kFirstLook = 32, kMostLooks = 4096;  // each takes longer with a carrier
  // A look at a connection takes about a microsecond, and a wait for another host some tens of
  // them. If it lasts longer, that host may be a container that shares this one's processors.
  constexpr unsigned kFirstYield = 256, kLeastYield = 32, kYieldEvery = 8;
  carrier_ = carrier;
  spins_ = std::min(first_yield_, kFirstLook);
  looks_ = std::min(looks_, kMostLooks);
  const std::uint32_t links = std::max(carrier->links(), 1u);  // there may be one host
  first_yield_ = std::min(first_yield_, std::max(kFirstYield / links, kLeastYield));
  yield_every_ = std::min(yield_every_, kYieldEvery);
}

void ShmHost::share() {
  if (shared_.load(std::memory_order_relaxed)) return;
  shared_.store(true, std::memory_order_seq_cst);
  spins_.store(0, std::memory_order_relaxed);
  ring(rank_);  // wakes the thread that sleeps here, the only one until now
}

void ShmHost::enter() {
  const pthread_t me = pthread_self();
  if (inside_.load(std::memory_order_relaxed) != me) {
    pthread_mutex_lock(&mutex_);
    inside_.store(me, std::memory_order_relaxed);
  }
  ++depth_;
}

void ShmHost::leave() {
  if (--depth_ > 0) return;
  inside_.store(pthread_t{}, std::memory_order_relaxed);
  pthread_mutex_unlock(&mutex_);
}

void ShmHost::let_others_in(unsigned turn) {
  constexpr long kSleepNs = 500'000;
  constexpr unsigned kYields = 2000;    // threads may be more than processors, whatever ranks are
  constexpr unsigned kSleepEvery = 64;  // a program that polls comes here, too
  const unsigned depth = depth_;
  depth_ = 0;
  ++waiting_;
  inside_.store(pthread_t{}, std::memory_order_relaxed);
  pthread_mutex_unlock(&mutex_);
  if (turn < kYields || turn % kSleepEvery != 0) {
    syscall(SYS_sched_yield);
  } else {
    const timespec some{0, kSleepNs};
    syscall(SYS_nanosleep, &some, nullptr);
  }
  pthread_mutex_lock(&mutex_);
  inside_.store(pthread_self(), std::memory_order_relaxed);
  depth_ = depth;
  --waiting_;
}

bool ShmHost::poll_slowly(unsigned turn) {
  constexpr unsigned kCarryEvery = 4;
  if (carrier_ != nullptr && turn % std::min(kCarryEvery, yield_every_) == 0) carrier_->look();
  if (shared_.load(std::memory_order_relaxed)) {
    let_others_in(turn);
    return true;
  }
  if (turn >= looks_) return false;
  if (turn >= first_yield_ && turn % yield_every_ == 0) {
    syscall(SYS_sched_yield);
  } else {
    __builtin_ia32_pause();
  }
  return true;
}

bool ShmHost::open(const std::byte* data, journal::OpenedBytes* opened) {
  if (!may_read_others_) return false;  // then others may not read this one's either
  // The next incarnation, or another rank's process with this number, has another one there.
  const std::uint64_t incarnation = control_of(base_, rank_)->incarnation.load();
  check_ = journal::mix(check_ ^ incarnation << 32 ^ rank_ ^ static_cast<std::uint64_t>(process_));
  *opened = {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint64_t>(process_),
             reinterpret_cast<std::uintptr_t>(&check_), check_};
  return true;
}

bool ShmHost::read_opened(const journal::OpenedBytes& from, std::byte* to, std::size_t bytes) {
  const int saved = errno;
  std::uint64_t check = 0;
  const iovec local[] = {{to, bytes}, {&check, sizeof check}};
  const iovec remote[] = {{reinterpret_cast<void*>(from.at), bytes},
                          {reinterpret_cast<void*>(from.check_at), sizeof check}};
  const long n = syscall(SYS_process_vm_readv, from.process, local, 2, remote, 2, 0);
  if (n < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES)) may_read_others_ = false;
  errno = saved;
  return n == static_cast<long>(bytes + sizeof check) && check == from.check;
}

void ShmHost::settle_stores() {
  constexpr timespec kTime{0, kSettleNs};
  const int saved = errno;
  syscall(SYS_nanosleep, &kTime, nullptr);
  errno = saved;
}

bool ShmHost::settle() {
  if (!light_publish_) return false;
  const auto& bell = control_of(base_, rank_)->bell;
  const std::uint64_t end = now_ns() + kSettleNs;
  const timespec until{static_cast<time_t>(end / 1'000'000'000),
                       static_cast<long>(end % 1'000'000'000)};
  const int saved = errno;
  // Signals may end the wait early.
  while (bell.load(std::memory_order_relaxed) == 0) {
    if (syscall(SYS_futex, bell.address(), FUTEX_WAIT_BITSET, 0, &until, nullptr,
                FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT) {
      break;
    }
  }
  errno = saved;
  return true;
}

void ShmHost::sleep() {
  RankControl* me = control_of(base_, rank_);
  // The ring of share() may have come before the bell was cleared.
  if (shared_.load(std::memory_order_seq_cst)) return;
  if (carrier_ != nullptr) carrier_->sleeps();
  const timespec limit{sleep_limit_ms_ / 1000, sleep_limit_ms_ % 1000 * 1000000L};
  syscall(SYS_futex, me->bell.address(), FUTEX_WAIT, 0, sleep_limit_ms_ < 0 ? nullptr : &limit,
          nullptr, 0);
}

bool ShmHost::wait_for_agent(unsigned turn) {
  constexpr unsigned kTurns = 5000;
  constexpr timespec kPause{0, 200'000};
  if (turn == kTurns) return false;
  const int saved = errno;
  syscall(SYS_nanosleep, &kPause, nullptr);
  errno = saved;
  return true;
}

void ShmHost::ring(std::uint32_t rank) {
  const bool near = is_near(rank);
  if (!near && carrier_ != nullptr) return carrier_->carry(control_of(base_, rank)->node);
  auto& bell = near ? control_of(base_, rank)->bell : header_of(base_)->relay_bell;
  bell.store(*this, Step::kSame, 1, std::memory_order_seq_cst);
  syscall(SYS_futex, bell.address(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool ShmHost::back(std::byte* begin, std::size_t bytes) {
  const int saved = errno;
  const std::uint64_t before = page_faults();
  int e;
  do {
    e = advise(begin, bytes, kPopulateWrite);
  } while (e == EINTR || e == EAGAIN);
  control_of(base_, rank_)->journal_faults.add(*this, Step::kSame, page_faults() - before);
  errno = saved;
  return e == 0;
}

bool ShmHost::touch(std::uint32_t, std::byte* begin, std::size_t bytes) {
  const auto offset = static_cast<std::uint64_t>(begin - base_);
  const auto first = offset / kTouchBytes, last = (offset + bytes - 1) / kTouchBytes;
  for (std::uint64_t piece = first; piece <= last; ++piece) {
    std::uint32_t& known = touched_[piece % kTouched];
    if (known == piece + 1) continue;
    // Backs a whole piece, so that a sequence of chunks needs few system calls; if there is no
    // memory for that, only the bytes that are needed now.
    if (back(base_ + piece * kTouchBytes, kTouchBytes)) {
      known = static_cast<std::uint32_t>(piece + 1);
    } else if (!back(begin, bytes)) {
      return false;
    }
  }
  return true;
}

std::uint64_t ShmHost::now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

bool ShmHost::can_be_frozen(char* why, std::size_t bytes) {
  if (carrier_ != nullptr) carrier_->let_go();
  if (image_ != nullptr) return image_->can_be_frozen(why, bytes);
  snprintf(why, bytes, "was started without snapshots");
  return false;
}

void ShmHost::die() {
  for (;;) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

void ShmHost::stop(const char* text) {
  if (agent_socket_ < 0) {
    const char* line[] = {"rejoin: ", text, "\n"};
    for (const char* part : line) {
      if (write(2, part, strlen(part)) < 0) break;
    }
    _exit(1);
  }
  tell(wire::MessageType::kDiverged, 0, 0, text, strlen(text));
  for (;;) pause();  // the agent ends the job
}

void ShmHost::tell(wire::MessageType type, std::int32_t code, std::uint64_t value, const char* text,
                   std::size_t text_bytes) {
  if (agent_socket_ < 0) return;
  wire::Message m;
  wire::begin_message(m, type, rank_);
  m.code = code;
  m.incarnation = control_of(base_, rank_)->incarnation.load(std::memory_order_relaxed);
  m.value = value;
  wire::set_text(m, text, text_bytes);
  const int saved = errno;
  wire::send_message(agent_socket_, m);
  errno = saved;
}

}  // namespace rejoin::engine
