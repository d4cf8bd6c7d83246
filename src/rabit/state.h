// The state of librabit.so in this process.
#pragma once

#include <cstddef>

#include "rabit/internal/engine.h"
#include "rabit/mocks.h"

namespace rabit::internal {

struct State {
  bool is_joined = false;  // between Init and Finalize
  bool owns_mpi = false;   // Init called MPI_Init, so Finalize ends it
  int rank = 0;
  int world_size = 1;
  int version = 0;     // the number of checkpoints that were made
  int seq = 0;         // the number of operations since the newest one
  bool debug = false;  // print every operation
  MockDeaths mocks;
};

// Used by the main thread only.
extern State state;

// One operation of a program: kills this process before it if a mock says so, passes its call site
// to MPI, and counts it.
class Operation {
 public:
  // name: the name that mocks and rabit_debug print.
  Operation(const char* name, std::size_t element_size, std::size_t count, const Caller& caller);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Called before every MPI call of the operation, because a call site holds for one call.
  void announce() const;

 private:
  const char* name_;
  std::size_t element_size_;
  std::size_t count_;
  const Caller& caller_;
  double start_s_ = 0;
};

// Kills this process if a mock of this rank and incarnation fires at this version and seq.
void die_if_mocked(const char* before);
// The same before a call that has no seq of its own, and only for a mock whose place a snapshot has
// passed.
void die_if_mock_is_behind(const char* before);

}  // namespace rabit::internal
