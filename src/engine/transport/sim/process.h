// A simulated process: one incarnation of a rank.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/names.h"
#include "engine/transport/sim/simulation.h"
#include "engine/transport/sim/store_buffer.h"

namespace rejoin::engine {

struct Simulation::Process {
  // kWaiting: it waits for the agent.
  enum class State : std::uint8_t { kReady, kAsleep, kWaiting, kDead, kDone };

  Fiber fiber;
  Simulation* simulation = nullptr;
  std::optional<SimHost> host;
  std::uint32_t actor = 0;
  std::size_t ready_index = 0;
  State state = State::kReady;
  Point point = Point::kStart;
  Point waits_at = Point::kStart;  // the last point but polls and the sleep itself
  std::uint64_t steps = 0;
  std::uint64_t priority = 0;
  bool awaits_agent = false;
  bool refused = false;
  bool over = false;           // it has returned
  std::uint64_t freezing = 0;  // number of the image that is to be made of it
  bool woken = false;          // it is a clone of an image
  StoreBuffer stores;          // with SimOptions::delays_stores

  bool runs() const {
    return state == State::kReady || state == State::kAsleep || state == State::kWaiting;
  }
};

}  // namespace rejoin::engine
