// Moving a rank out of a process for which a wrapper script waits (keeper.h).
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "process_image/clone_cost.h"
#include "process_image/cloner.h"
#include "process_image/other_threads.h"
#include "process_image/uncloned_state.h"
#include "recovery/attach.h"

namespace rejoin::process_image {

class Mover {
 public:
  // woken() is called in a clone that is the rank, if it replays.
  Mover(recovery::Rank& rank, const UnclonedState& state, OtherThreads& threads, Cloner& cloner,
        CloneCost& cost, void (*woken)())
      : rank_(rank),
        state_(state),
        threads_(threads),
        cloner_(cloner),
        cost_(cost),
        woken_(woken) {}
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // Whether move() has found out that the rank cannot move at all.
  bool is_impossible() const { return impossible_; }

  // Moves the rank into a clone that is the agent's child; this process becomes its keeper. Returns
  // true in the clone, and false in this process if it is still the rank; `why` as in obstacles.h.
  // REQUIRES that all signals are blocked and all other threads are stopped, as they are after it.
  bool move(char* why, std::size_t size);

 private:
  void go_on_as_rank(pid_t from, pid_t agent, int news);
  void become_keeper_if(int news);
  [[noreturn]] void be_keeper_of_rank();

  recovery::Rank& rank_;
  const UnclonedState& state_;
  OtherThreads& threads_;
  Cloner& cloner_;
  CloneCost& cost_;
  void (*const woken_)();
  bool impossible_ = false;
};

}  // namespace rejoin::process_image
