#include "rabit/state.h"

#include <signal.h>
#include <stdio.h>

#include "rabit/internal/utils.h"
#include "rejoin.h"

namespace rabit::internal {

State state;

void die_if_mocked(const char* before) {
  for (const Mock& mock : state.parameters.mocks) {
    const Mock here{state.rank, state.version, state.seq, mock.death};
    if (mock != here || mock.death != rejoin_incarnation()) continue;
    char text[128];
    snprintf(text, sizeof text, "mock: killed before %s at version %d, seq %d, death %d", before,
             mock.version, mock.seq, mock.death);
    fflush(nullptr);
    rejoin_notice(text);
    raise(SIGKILL);
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
