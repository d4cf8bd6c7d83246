// Words of shared memory. The type of a word says which processes write it; everything else reads.
//
// A store goes through a seam of its writer: the host of a rank (journal/host.h), or AgentStores.
// The seam of a simulated rank may stop or kill the rank in front of the store, and may let other
// processes see the store later than the rank itself does (a store buffer). Nothing else stores to
// shared words; the test lint.shared looks for stores that go around this.
#pragma once

#include <atomic>
#include <cstdint>

#include "journal/step.h"

namespace rejoin::journal {

enum class Writer : std::uint8_t {
  kOwner,  // processes of the rank in whose control block or region the word lies
  kAgent,  // the agent of this host
  kAny,    // several; PROTOCOL.md, "Words with several writers", names each and its reason
};

template <class T, Writer W>
class Shared {
  static_assert(std::atomic<T>::is_always_lock_free);

 public:
  Shared() = default;  // zero in fresh memory of a segment
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T load(std::memory_order order = std::memory_order_acquire) const { return word_.load(order); }

  // `step`: where a simulated rank may be stopped, in front of the store.
  template <class Seam>
  [[gnu::always_inline]] void store(Seam& seam, Step step, T value,
                                    std::memory_order order = std::memory_order_release) {
    static_assert(Seam::writes(W), "this word has another writer");
    seam.step(step);
    seam.store(word_, value, order);
  }
  // Adds to the word and returns its former value. A full fence. For a word that several threads of
  // its owner, or several processes, count in.
  template <class Seam>
  T add(Seam& seam, Step step, T value) {
    static_assert(Seam::writes(W), "this word has another writer");
    seam.step(step);
    seam.drain();  // as a read-modify-write does
    return word_.fetch_add(value, std::memory_order_seq_cst);
  }
  // Stores `value` if the word is `*expected`. False: *expected is the word. A full fence.
  template <class Seam>
  bool decide(Seam& seam, Step step, T* expected, T value) {
    static_assert(Seam::writes(W), "this word has another writer");
    seam.step(step);
    seam.drain();
    return word_.compare_exchange_strong(*expected, value, std::memory_order_seq_cst);
  }

  // For futex calls.
  const void* address() const { return &word_; }

 private:
  std::atomic<T> word_;
};

template <class T>
using OwnerWord = Shared<T, Writer::kOwner>;
template <class T>
using AgentWord = Shared<T, Writer::kAgent>;
template <class T>
using AnyWord = Shared<T, Writer::kAny>;

// An element of a log of the owner's that changes after it was published. Elements are plain words,
// because logs copy them.
template <class T, class Seam>
void store_element(Seam& seam, Step step, T& element, T value) {
  static_assert(Seam::writes(Writer::kOwner));
  seam.step(step);
  seam.store(element, value, std::memory_order_release);
}
template <class T>
T load_element(const T& element) {
  return std::atomic_ref(const_cast<T&>(element)).load(std::memory_order_acquire);
}

// A seam without steps.
struct DirectStores {
  static void step(Step) {}
  static void drain() {}
  template <class T>
  static void store(std::atomic<T>& word, T value, std::memory_order order) {
    word.store(value, order);
  }
  template <class T>
  static void store(T& word, T value, std::memory_order order) {
    std::atomic_ref(word).store(value, order);
  }
};

// The agent's seam.
struct AgentStores : DirectStores {
  static constexpr bool writes(Writer w) { return w != Writer::kOwner; }
};
inline constexpr AgentStores kAgentStores;

// The relay's seam: in its node's segment it writes all words of ranks on other nodes, which are
// copies, and the words of its own.
struct RelayStores : DirectStores {
  static constexpr bool writes(Writer) { return true; }
};
inline constexpr RelayStores kRelayStores;

// For words of a rank that has no process: the agent prepares them for the next one. The simulator
// and tests use it for defects that they plant.
struct VacantStores : DirectStores {
  static constexpr bool writes(Writer) { return true; }
};
inline constexpr VacantStores kVacantStores;

// Sets a word while no process of the job acts on it: before the job starts, in tests, and for
// defects that the simulator plants.
template <class T, Writer W, class Value>
void put(Shared<T, W>& word, Value value) {
  word.store(kVacantStores, Step::kSame, static_cast<T>(value), std::memory_order_seq_cst);
}

}  // namespace rejoin::journal
