// The interface between the headers and librabit.so. It consists only of plain memory, numbers and
// functions. Programs use rabit.h.
#pragma once

#include <cstddef>

#include "rabit/base.h"

namespace rabit {
namespace engine {
namespace mpi {

// The numbers are those of c_api.h.
enum OpType { kMax = 0, kMin = 1, kSum = 2, kBitwiseOR = 3 };
enum DataType {
  kChar = 0,
  kUChar = 1,
  kInt = 2,
  kUInt = 3,
  kLong = 4,
  kULong = 5,
  kFloat = 6,
  kDouble = 7,
  kLongLong = 8,
  kULongLong = 9
};

}  // namespace mpi
}  // namespace engine

namespace internal {

// The call site of an operation. The texts must stay valid. file == null: no call site is given.
struct Caller {
  const char* file;
  int line;
  const char* function;
  bool is_bootstrap;
};

// Fills the buffer of an Allreduce; null: there is nothing to prepare.
struct Prepare {
  void (*function)(void*);
  void* argument;
};

// target[i] = target[i] (reduced with) source[i], for `count` elements of `element_size` bytes.
typedef void (*ReduceFunction)(const void* source, void* target, int count,
                               std::size_t element_size);

struct Bytes {
  const void* data;
  std::size_t size;
};

// The destination of a checkpoint that is written lazily.
struct LazyTarget;

RABIT_API bool init(int argc, char** argv);
RABIT_API bool finalize();
RABIT_API int rank();
RABIT_API int world_size();
RABIT_API int version();
// Valid until the process ends.
RABIT_API const char* processor_name();
RABIT_API void tracker_print(const char* text);
// Prints an error after this rank's number, and ends the job with exit code 1.
[[noreturn]] RABIT_API void fail(const char* format, ...);

RABIT_API void broadcast(void* data, std::size_t size, int root, const Caller& caller);
// total, begin, size, previous_size: in elements; see rabit::Allgather.
RABIT_API void allgather(void* data, std::size_t element_size, std::size_t total, std::size_t begin,
                         std::size_t size, std::size_t previous_size, const Caller& caller);
RABIT_API void allreduce(void* data, std::size_t count, engine::mpi::DataType type,
                         engine::mpi::OpType operation, Prepare prepare, const Caller& caller);
RABIT_API void allreduce_with(void* data, std::size_t element_size, std::size_t count,
                              ReduceFunction reduce, Prepare prepare, const Caller& caller);

// Returns the version; 0: there is none, and the models are empty. They are valid until the second
// checkpoint from here.
RABIT_API int load_checkpoint(Bytes* global, Bytes* local);
RABIT_API void checkpoint(Bytes global, Bytes local, const Caller& caller);
// Calls serialize(model, target) within this call or not at all.
RABIT_API void checkpoint_lazily(void (*serialize)(const void* model, LazyTarget* target),
                                 const void* model, const Caller& caller);
RABIT_API void write_lazily(LazyTarget* target, const void* data, std::size_t size);

}  // namespace internal
}  // namespace rabit
