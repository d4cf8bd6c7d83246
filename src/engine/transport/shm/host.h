// The real host: a mapped segment, futex doorbells. journal/host.h documents the members.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/names.h"
#include "journal/carrier.h"
#include "journal/host.h"
#include "journal/layout.h"
#include "journal/payload_stores.h"
#include "journal/step.h"
#include "wire/messages.h"

namespace rejoin::engine {

// Clones the process of a rank, with the necessary checks and messages before. src/process_image.
class ProcessImage {
 public:
  virtual MayFreeze may_freeze(std::uint64_t number) = 0;
  virtual Frozen freeze(std::uint64_t number) = 0;
  virtual bool can_be_frozen(char* why, std::size_t bytes) = 0;

 protected:
  ~ProcessImage() = default;
};

class ShmHost {
 public:
  // No protocol needs the limit; a lost wake-up costs this instead of a hang.
  static constexpr int kSleepLimitMs = 200;
  // A store buffer drains by itself before its processor runs anything else, within the time of
  // some tens of cache misses. This limit is a thousand times as long, and short beside a sleep.
  static constexpr std::uint64_t kSettleNs = 1'000'000;
  static constexpr int kNoLimit = -1;  // for the test that there is none

  // `agent_socket`: connected descriptor, or -1 (a world of one without an agent).
  ShmHost(std::byte* base, std::uint32_t rank, int agent_socket,
          int sleep_limit_ms = kSleepLimitMs);
  ShmHost(const ShmHost&) = delete;
  ShmHost& operator=(const ShmHost&) = delete;

  std::byte* base() const { return base_; }
  std::uint32_t rank() const { return rank_; }
  bool has_agent() const { return agent_socket_ >= 0; }

  static constexpr bool writes(journal::Writer w) { return w != journal::Writer::kAgent; }
  void step(Step) {}
  void drain() {}
  void plain_store() {}
  template <class Word, class T>
  void store(Word& word, T value, std::memory_order order) {
    journal::DirectStores::store(word, value, order);
  }

  // Publishing is frequent, sleeping is not: where each rank has a processor, this is only a
  // compiler barrier. settle() waits for a word that is still in its publisher's store buffer,
  // behind a load that did not see the sleeper.
  void fence_published() {
    if (light_publish_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full_fence();
    }
  }
  void fence() { full_fence(); }
  bool settle();
  void settle_stores();

  bool poll(unsigned turn) {
    payload_stores_.prefetch().fetch_some();
    if (turn < spins_.load(std::memory_order_relaxed)) {
      __builtin_ia32_pause();
      return true;
    }
    return poll_slowly(turn);
  }

  // A wait is over.
  void waited() {
    if (carrier_ != nullptr) [[unlikely]]
      carrier_->waited();
  }

  void give_way() {
    constexpr int kPauses = 32;  // one to two microseconds
    for (int i = 0; i < kPauses; ++i) __builtin_ia32_pause();
  }

  // A recursive lock for the threads of this process.
  void enter();
  void leave();
  // Announces a second thread; called by a thread before it enters, at any time. From then on a
  // thread that waits releases the lock meanwhile. All threads share one bell, so none sleeps until
  // it is rung: they look again after a short time.
  void share();
  // Whether another thread waits inside an operation. REQUIRES that the caller has entered.
  bool has_waiting_thread() const { return waiting_ != 0; }

  void sleep();
  bool wait_for_agent(unsigned turn);  // one second, or some on a busy machine
  void ring(std::uint32_t rank);
  bool is_near(std::uint32_t rank) const { return !journal::is_elsewhere(base_, rank_, rank); }
  bool send_from(const journal::Loan* loan) {
    return carrier_ != nullptr && carrier_->send_from(loan);
  }
  bool receive_to(journal::Loan* loan) { return carrier_ != nullptr && carrier_->receive_to(loan); }
  journal::Ahead ahead(std::uint32_t rank, std::uint64_t key) {
    const bool far = carrier_ != nullptr && !is_near(rank);
    return far ? carrier_->ahead(journal::control_of(base_, rank)->node, key) : journal::Ahead{};
  }
  bool open(const std::byte* data, journal::OpenedBytes* opened);
  bool may_read_others() const { return may_read_others_; }
  bool read_opened(const journal::OpenedBytes& from, std::byte* to, std::size_t bytes);
  bool back(std::byte* begin, std::size_t bytes);
  bool touch(std::uint32_t rank, std::byte* begin, std::size_t bytes);
  journal::PayloadStores& payload_stores() { return payload_stores_; }
  // A few times the size of a processor's cache.
  static constexpr std::size_t ahead_bytes() { return 4 << 20; }
  void locate(const void* address, ModuleEntry* module, std::uint64_t* place);
  std::uint64_t now_ns();
  MayFreeze may_freeze(std::uint64_t number) {
    if (carrier_ != nullptr) carrier_->let_go();
    return image_ != nullptr ? image_->may_freeze(number) : MayFreeze::kNo;
  }
  Frozen freeze(std::uint64_t number) {
    if (carrier_ != nullptr) carrier_->let_go();
    return image_->freeze(number);
  }
  bool can_be_frozen(char* why, std::size_t bytes);
  // Without `image`, which must outlive the host, no image of the process can be made.
  void set_image(ProcessImage* image) { image_ = image; }
  int agent_socket() const { return agent_socket_; }
  // Without `carrier`, which must outlive the host, the relay alone carries what is published for
  // other nodes.
  void set_carrier(journal::Carrier* carrier);
  // Called in a process that was woken, perhaps on another machine: the segment is mapped anew, and
  // its agent is connected.
  void woken(int agent_socket);
  [[noreturn]] void die();
  [[noreturn]] void stop(const char* text);
  void tell(wire::MessageType type, std::int32_t code, std::uint64_t value, const char* text,
            std::size_t text_bytes);

 private:
  bool poll_slowly(unsigned turn);
  void let_others_in(unsigned turn);
  void full_fence() {
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer does not model fences; a read-modify-write on a private word orders as much.
    tsan_fence_.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  // Whether ranks share processors. A process that was woken may be on another machine.
  void read_processors();

  std::byte* base_;
  journal::PayloadStores payload_stores_;
  std::uint32_t rank_;
  int agent_socket_;
  ProcessImage* image_ = nullptr;
  journal::Carrier* carrier_ = nullptr;
  std::int64_t process_;     // this one
  std::uint64_t check_ = 0;  // journal::OpenedBytes
  bool may_read_others_;     // until the system has refused it
  int sleep_limit_ms_;
  bool light_publish_;
  std::atomic<unsigned> spins_;  // looks with only a pause between them
  unsigned first_yield_;         // looks before the first yield
  unsigned looks_;               // looks before sleep
  unsigned yield_every_;         // looks between two yields
  std::atomic<bool> shared_{false};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<pthread_t> inside_{};  // the thread that holds the mutex
  unsigned depth_ = 0;               // how often that thread has entered
  unsigned waiting_ = 0;             // threads that have let others in; under the mutex
  // Pieces of kTouchBytes of the segment that this process has touched: piece i is noted at place i
  // mod kTouched.
  static constexpr std::size_t kTouchBytes = 512 * 1024;
  static constexpr std::size_t kTouched = 1024;
  std::uint32_t touched_[kTouched] = {};  // number of the piece + 1
#if defined(__SANITIZE_THREAD__)
  std::atomic<unsigned> tsan_fence_{0};
#endif
};

}  // namespace rejoin::engine
