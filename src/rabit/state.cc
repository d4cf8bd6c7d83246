#include "rabit/state.h"

#include <signal.h>
#include <stdio.h>

#include <set>

#include "rabit/internal/utils.h"
#include "rejoin.h"

namespace rabit::internal {

State state;

void plan_deaths() {
  const int life = rejoin_incarnation();
  std::set<int> lives;
  for (const Mock& mock : state.parameters.mocks) {  // in the order in which a program comes by
    if (mock.rank != state.rank || mock.death > life) continue;
    // The first of a life ended it; the others found the rank dead.
    if (mock.death == life || lives.insert(mock.death).second) state.deaths.push_back(mock);
  }
}

void die_if_mocked(const char* before) {
  for (auto mock = state.deaths.begin(); mock != state.deaths.end();) {
    if (mock->version != state.version || mock->seq != state.seq) {
      ++mock;
      continue;
    }
    // A later life prints what an earlier one printed when it comes by: ftrun takes a replacement
    // to repeat the output of its predecessors, and shows only what is printed after that.
    fprintf(stderr, "[%d] mock: killed before %s at version %d, seq %d, death %d\n", mock->rank,
            before, mock->version, mock->seq, mock->death);
    if (mock->death == rejoin_incarnation()) {
      fflush(nullptr);
      raise(SIGKILL);
    }
    mock = state.deaths.erase(mock);
  }
}

Operation::Operation(const char* name, std::size_t element_size, std::size_t count,
                     const Caller& caller)
    : name_(name), element_size_(element_size), count_(count), caller_(caller) {
  die_if_mocked(name);
  if (state.parameters.debug) start_s_ = utils::GetTime();
}

Operation::~Operation() {
  if (state.parameters.debug) {
    fprintf(stderr, "[%d] %s (%s:%d::%s#%zux%zu) finished version %d, seq %d, take %f seconds\n",
            state.rank, name_, caller_.file ? caller_.file : "", caller_.line,
            caller_.function ? caller_.function : "", element_size_, count_, state.version,
            state.seq, utils::GetTime() - start_s_);
  }
  ++state.seq;
}

void Operation::announce() const {
  if (caller_.file != nullptr) rejoin_call_site(caller_.file, caller_.line, caller_.function);
  if (caller_.is_bootstrap) rejoin_bootstrap(nullptr);
}

}  // namespace rabit::internal
