// LoadCheckPoint, CheckPoint and LazyCheckPoint. Without a job they only count.
#include "rabit/state.h"
#include "rejoin.h"

namespace rabit::internal {

struct LazyTarget {
  rejoin_stream* stream;
};

namespace {

struct LazyModel {
  void (*serialize)(const void* model, LazyTarget* target);
  const void* model;
};

extern "C" void serialize_for_rejoin(void* argument, rejoin_stream* to) {
  const auto* lazy = static_cast<const LazyModel*>(argument);
  LazyTarget target{to};
  lazy->serialize(lazy->model, &target);
}

void announce(const Caller& caller) {
  if (caller.file == nullptr || !state.is_joined) return;
  rejoin_call_site(caller.file, caller.line, caller.function);
}

// Sets the version that was loaded or made.
void go_to(int version, const char* function) {
  if (version < 0) fail("%s: %s", function, rejoin_error());
  state.version = version;
  state.seq = 0;
}

}  // namespace

int load_checkpoint(Bytes* global, Bytes* local) {
  *global = *local = Bytes{nullptr, 0};
  if (!state.is_joined) return 0;
  die_if_mocked("LoadCheckPoint");
  state.mocks.loads_at(state.version, state.seq);
  go_to(rejoin_load(&global->data, &global->size, &local->data, &local->size), "LoadCheckPoint");
  return state.version;
}

void checkpoint(Bytes global, Bytes local, const Caller& caller) {
  die_if_mocked("CheckPoint");
  announce(caller);
  go_to(state.is_joined ? rejoin_checkpoint(global.data, global.size, local.data, local.size)
                        : state.version + 1,
        "CheckPoint");
}

void checkpoint_lazily(void (*serialize)(const void* model, LazyTarget* target), const void* model,
                       const Caller& caller) {
  die_if_mocked("LazyCheckPoint");
  announce(caller);
  LazyModel lazy{serialize, model};
  go_to(state.is_joined ? rejoin_checkpoint_lazy(&serialize_for_rejoin, &lazy) : state.version + 1,
        "LazyCheckPoint");
}

void write_lazily(LazyTarget* target, const void* data, std::size_t size) {
  rejoin_write(target->stream, data, size);
}

}  // namespace rabit::internal
