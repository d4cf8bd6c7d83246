// Joining and leaving a job, and what can be asked about it.
#include "rabit/internal/engine.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "rabit/parameters.h"
#include "rabit/state.h"
#include "rejoin.h"

namespace rabit::internal {

bool init(int argc, char** argv) {
  if (state.is_joined) return true;
  std::string error;
  auto parameters = read_parameters(argc, argv, environ, error);
  if (!parameters) {
    fprintf(stderr, "rabit: %s\n", error.c_str());
    exit(2);
  }
  int is_finalized = 0, is_initialized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized) {
    fputs("rabit: Init after Finalize; a process can join a job only once\n", stderr);
    return false;
  }
  MPI_Initialized(&is_initialized);
  if (!is_initialized) MPI_Init(nullptr, nullptr);
  state = State{};
  state.is_joined = true;
  state.owns_mpi = !is_initialized;
  state.debug = parameters->debug;
  MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state.world_size);
  state.mocks = MockDeaths(std::move(parameters->mocks), state.rank, rejoin_incarnation());
  return true;
}

bool finalize() {
  if (!state.is_joined) return true;
  die_if_mock_is_behind("Finalize");
  const bool owns_mpi = state.owns_mpi;
  state = State{};
  return !owns_mpi || MPI_Finalize() == MPI_SUCCESS;
}

int rank() { return state.rank; }
int world_size() { return state.world_size; }
int version() { return state.version; }

const char* processor_name() {
  static char name[MPI_MAX_PROCESSOR_NAME] = "";
  if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
  return name;
}

void tracker_print(const char* text) {
  fputs(text, stdout);
  fflush(stdout);
}

void fail(const char* format, ...) {
  fflush(stdout);
  fprintf(stderr, "[%d] rabit: ", state.rank);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  // A restart would fail the same way.
  if (state.is_joined) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

}  // namespace rabit::internal
