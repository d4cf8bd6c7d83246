// The simulated host: the members of ShmHost (journal/host.h documents them), for one incarnation
// of one rank. Every place where the real world may interfere is a turn of the scheduler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/names.h"
#include "engine/transport/sim/point.h"
#include "journal/host.h"
#include "journal/layout.h"
#include "journal/payload_stores.h"
#include "journal/rules.h"
#include "journal/step.h"
#include "wire/messages.h"

namespace rejoin::engine {

class Simulation;

class SimHost {
 public:
  // `actor`: what the simulation calls this incarnation.
  SimHost(Simulation& simulation, std::byte* base, std::uint32_t rank, std::uint32_t incarnation,
          std::uint32_t actor)
      : simulation_(simulation),
        base_(base),
        rank_(rank),
        incarnation_(incarnation),
        actor_(actor) {}

  std::byte* base() const { return base_; }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t incarnation() const { return incarnation_; }
  Simulation& simulation() { return simulation_; }

  static constexpr bool writes(journal::Writer w) { return w != journal::Writer::kAgent; }
  void step(Step s);
  // Everything that this process has stored is visible to others.
  void drain();
  // Plain stores are not delayed, so all that were delayed before come first.
  void plain_store() { drain(); }
  template <class T>
  void store(std::atomic<T>& word, T value, std::memory_order order) {
    store_bits(&word, &value, sizeof value, order);
  }
  template <class T>
  void store(T& word, T value, std::memory_order order) {
    store_bits(&word, &value, sizeof value, order);
  }
  bool breaks(journal::Rule rule) const;
  void fence_published();
  void fence();
  bool settle();
  void settle_stores();
  bool poll(unsigned turn);
  void waited() {}
  void give_way() {}
  // Sleeps until the bell is 1, without a time limit: a lost wake-up is a deadlock, and is
  // detected.
  void sleep() { reach(Point::kSleep); }
  static constexpr unsigned kTurnsForAgent = 5000;
  bool wait_for_agent(unsigned turn);
  void ring(std::uint32_t rank);
  bool is_near(std::uint32_t rank) const { return !journal::is_elsewhere(base_, rank_, rank); }
  bool send_from(const journal::Loan*) { return false; }
  bool receive_to(journal::Loan* loan);
  // What this process has lent; null: nothing.
  journal::Loan* loan() const { return loan_; }
  journal::Ahead ahead(std::uint32_t, std::uint64_t) { return {}; }
  bool open(const std::byte* data, journal::OpenedBytes* opened);
  bool may_read_others() const;
  bool read_opened(const journal::OpenedBytes& from, std::byte* to, std::size_t bytes);
  bool back(std::byte*, std::size_t) { return true; }
  // Outside the rank's region this is a violation.
  bool touch(std::uint32_t rank, std::byte* begin, std::size_t bytes);
  journal::PayloadStores& payload_stores() {
    plain_store();
    return payload_stores_;
  }
  std::size_t ahead_bytes() const;
  // There is one module for all code; a call site is its own place.
  void locate(const void* address, ModuleEntry* module, std::uint64_t* place);
  std::uint64_t now_ns();  // a turn is a nanosecond
  MayFreeze may_freeze(std::uint64_t number);
  bool can_be_frozen(char* why, std::size_t bytes) const;
  Frozen freeze(std::uint64_t number);
  [[noreturn]] void die();
  [[noreturn]] void stop(const char* text);
  void tell(wire::MessageType type, std::int32_t code, std::uint64_t value, const char* text,
            std::size_t text_bytes);

  // Called by programs: a point inside a reduction operator.
  void operate() { reach(Point::kOperator); }
  // The request that the program is about to make of its rank: some mutants break a rule only
  // there.
  enum class Doing : std::uint8_t { kNothing, kLoading, kCheckpointing };
  void about_to(Doing doing);

 private:
  friend class Simulation;
  void reach(Point p);
  void lie();
  void store_bits(void* at, const void* value, std::size_t bytes, std::memory_order order);
  void take_back();

  journal::PayloadStores payload_stores_;
  Simulation& simulation_;
  std::byte* base_;
  std::uint32_t rank_;
  std::uint32_t incarnation_;
  std::uint32_t actor_;
  Doing doing_ = Doing::kNothing;
  journal::Loan* loan_ = nullptr;
};

}  // namespace rejoin::engine
