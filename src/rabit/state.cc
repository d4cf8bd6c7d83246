#include "rabit/state.h"

#include <signal.h>
#include <stdio.h>

#include "rabit/internal/utils.h"
#include "rejoin.h"

namespace rabit::internal {

State state;

namespace {

void die_if(const Mock* mock, const char* before) {
  if (mock == nullptr) return;
  char place[96] = "";
  if (mock->version != state.version || mock->seq != state.seq) {
    snprintf(place, sizeof place, "; it went on from a later snapshot, at version %d, seq %d",
             state.version, state.seq);
  }
  char text[224];
  snprintf(text, sizeof text, "mock: killed before %s at version %d, seq %d, death %d%s", before,
           mock->version, mock->seq, mock->death, place);
  fflush(nullptr);
  rejoin_notice(text);
  raise(SIGKILL);
}

}  // namespace

void die_if_mocked(const char* before) {
  die_if(state.mocks.due(state.version, state.seq, rejoin_incarnation()), before);
}

void die_if_mock_is_behind(const char* before) {
  die_if(state.mocks.due_behind(state.version, state.seq, rejoin_incarnation()), before);
}

Operation::Operation(const char* name, std::size_t element_size, std::size_t count,
                     const Caller& caller)
    : name_(name), element_size_(element_size), count_(count), caller_(caller) {
  die_if_mocked(name);
  if (state.debug) start_s_ = utils::GetTime();
}

Operation::~Operation() {
  if (state.debug) {
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
