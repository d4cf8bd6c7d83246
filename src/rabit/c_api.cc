#include "rabit/c_api.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "rabit/internal/engine.h"
#include "rabit/types.h"

namespace {

using rabit::engine::mpi::DataType;
using rabit::engine::mpi::OpType;
using rabit::internal::Bytes;
using rabit::internal::Caller;
using rabit::internal::element_size;
using rabit::internal::is_floating;
using rabit::internal::is_operator;
using rabit::internal::is_type;
using rabit::internal::Prepare;

struct LazyModel {
  void (*serialize)(void* argument, void* stream);
  void* argument;
};

constexpr Caller kUnknown{nullptr, 0, nullptr, false};

int refuse(const char* function, const char* what, int number) {
  fprintf(stderr, "[%d] rabit: %s: %s %d\n", rabit::internal::rank(), function, what, number);
  return -1;
}

}  // namespace

bool RabitInit(int argc, char* argv[]) { return rabit::internal::init(argc, argv); }
bool RabitFinalize(void) { return rabit::internal::finalize(); }
int RabitGetRank(void) { return rabit::internal::rank(); }
int RabitGetWorldSize(void) { return rabit::internal::world_size(); }
int RabitIsDistributed(void) { return rabit::internal::world_size() > 1; }
int RabitVersionNumber(void) { return rabit::internal::version(); }
int RabitLinkTag(void) { return 0; }

int RabitGetRingPrevRank(void) {
  const int size = rabit::internal::world_size();
  return (rabit::internal::rank() + size - 1) % size;
}

int RabitTrackerPrint(const char* text) {
  rabit::internal::tracker_print(text);
  return 0;
}

int RabitGetProcessorName(char* out_name, rbt_ulong* out_len, rbt_ulong max_len) {
  if (max_len == 0) return refuse("RabitGetProcessorName", "the size of the buffer is", 0);
  const char* name = rabit::internal::processor_name();
  *out_len = std::min<rbt_ulong>(strlen(name), max_len - 1);
  memcpy(out_name, name, *out_len);
  out_name[*out_len] = '\0';
  return 0;
}

int RabitBroadcast(void* data, rbt_ulong size, int root) {
  rabit::internal::broadcast(data, size, root, kUnknown);
  return 0;
}

int RabitAllgather(void* data, size_t total_size, size_t begin, size_t size_node_slice,
                   size_t size_prev_slice, int enum_dtype) {
  if (!is_type(enum_dtype)) return refuse("RabitAllgather", "unknown enum_dtype", enum_dtype);
  rabit::internal::allgather(data, element_size(enum_dtype), total_size, begin, size_node_slice,
                             size_prev_slice, kUnknown);
  return 0;
}

int RabitAllreduce(void* data, size_t count, int enum_dtype, int enum_op,
                   void (*prepare)(void* argument), void* argument) {
  if (!is_type(enum_dtype)) return refuse("RabitAllreduce", "unknown enum_dtype", enum_dtype);
  if (!is_operator(enum_op)) return refuse("RabitAllreduce", "unknown enum_op", enum_op);
  if (enum_op == OpType::kBitwiseOR && is_floating(enum_dtype)) {
    return refuse("RabitAllreduce", "bitwise or is for integers, not for enum_dtype", enum_dtype);
  }
  rabit::internal::allreduce(data, count, static_cast<DataType>(enum_dtype),
                             static_cast<OpType>(enum_op), Prepare{prepare, argument}, kUnknown);
  return 0;
}

int RabitLoadCheckPoint(char** out_global_model, rbt_ulong* out_global_len, char** out_local_model,
                        rbt_ulong* out_local_len) {
  Bytes global, local;
  const int version = rabit::internal::load_checkpoint(&global, &local);
  if (version == 0) return 0;
  // Callers only read, but the type has no const.
  *out_global_model = const_cast<char*>(static_cast<const char*>(global.data));
  *out_global_len = global.size;
  if (out_local_model != nullptr) {
    *out_local_model = const_cast<char*>(static_cast<const char*>(local.data));
  }
  if (out_local_len != nullptr) *out_local_len = local.size;
  return version;
}

int RabitCheckPoint(const char* global_model, rbt_ulong global_len, const char* local_model,
                    rbt_ulong local_len) {
  rabit::internal::checkpoint(Bytes{global_model, global_len}, Bytes{local_model, local_len}, {});
  return 0;
}

int RabitLazyCheckPoint(void (*serialize)(void* argument, void* stream), void* argument) {
  const LazyModel lazy{serialize, argument};
  rabit::internal::checkpoint_lazily(
      [](const void* model, rabit::internal::LazyTarget* target) {
        const auto* self = static_cast<const LazyModel*>(model);
        self->serialize(self->argument, target);
      },
      &lazy, {});
  return 0;
}

void RabitStreamWrite(void* stream, const char* data, rbt_ulong size) {
  rabit::internal::write_lazily(static_cast<rabit::internal::LazyTarget*>(stream), data, size);
}
