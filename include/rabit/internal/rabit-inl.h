// The implementation of rabit.h.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "rabit/internal/models.h"
#include "rabit/rabit.h"

namespace rabit {
namespace internal {

template <typename DType>
struct TypeOf;  // not defined: Allreduce has no such element type
#define RABIT_TYPE_OF(type, number)                                               \
  template <>                                                                     \
  struct TypeOf<type> {                                                           \
    static constexpr engine::mpi::DataType value = engine::mpi::DataType::number; \
  };
RABIT_TYPE_OF(char, kChar)
RABIT_TYPE_OF(signed char, kChar)
RABIT_TYPE_OF(unsigned char, kUChar)
RABIT_TYPE_OF(int, kInt)
RABIT_TYPE_OF(unsigned, kUInt)
RABIT_TYPE_OF(long, kLong)
RABIT_TYPE_OF(unsigned long, kULong)
RABIT_TYPE_OF(float, kFloat)
RABIT_TYPE_OF(double, kDouble)
RABIT_TYPE_OF(long long, kLongLong)
RABIT_TYPE_OF(unsigned long long, kULongLong)
#undef RABIT_TYPE_OF

template <typename OP>
struct OperationOf;
#define RABIT_OPERATION_OF(operation, number)                                 \
  template <>                                                                 \
  struct OperationOf<op::operation> {                                         \
    static constexpr engine::mpi::OpType value = engine::mpi::OpType::number; \
  };
RABIT_OPERATION_OF(Max, kMax)
RABIT_OPERATION_OF(Min, kMin)
RABIT_OPERATION_OF(Sum, kSum)
RABIT_OPERATION_OF(BitOR, kBitwiseOR)
#undef RABIT_OPERATION_OF

inline void call_function(void* function) { (*static_cast<std::function<void()>*>(function))(); }

// Valid as long as `function` is.
inline Prepare preparation(std::function<void()>& function) {
  const Prepare prepare = {function ? &call_function : nullptr, &function};
  return prepare;
}

template <typename OP, typename DType>
void allreduce_as(DType* data, std::size_t count, Prepare prepare, const Caller& caller) {
  static_assert(!(std::is_same<OP, op::BitOR>::value && std::is_floating_point<DType>::value),
                "op::BitOR is for integers");
  allreduce(data, count, TypeOf<DType>::value, OperationOf<OP>::value, prepare, caller);
}

// Broadcasts a vector or a string: first its length, then its elements.
template <typename Container>
void broadcast_container(Container* data, int root, const Caller& caller) {
  std::uint64_t length = data->size();
  broadcast(&length, sizeof length, root, caller);
  if (length != data->size()) data->resize(length);
  if (length == 0) return;
  broadcast(&(*data)[0], length * sizeof(typename Container::value_type), root, caller);
}

template <typename DType, void (*freduce)(DType& dst, const DType& src)>
void reduce_elements(const void* source, void* target, int count, std::size_t) {
  const DType* from = static_cast<const DType*>(source);
  DType* to = static_cast<DType*>(target);
  for (int i = 0; i < count; ++i) freduce(to[i], from[i]);
}

template <typename DType>
void reduce_serialized(const void* source, void* target, int count, std::size_t element_size) {
  // MemoryFixSizeBuffer is for reading and writing; the source is only read.
  char* from = static_cast<char*>(const_cast<void*>(source));
  char* to = static_cast<char*>(target);
  for (int i = 0; i < count; ++i, from += element_size, to += element_size) {
    utils::MemoryFixSizeBuffer source_stream(from, element_size);
    utils::MemoryFixSizeBuffer target_stream(to, element_size);
    DType source_object, target_object;
    source_object.Load(source_stream);
    target_object.Load(target_stream);
    target_object.Reduce(static_cast<const DType&>(source_object), element_size);
    target_stream.Seek(0);
    target_object.Save(target_stream);
  }
}

template <typename DType>
void allreduce_serialized(DType* objects, std::size_t max_nbyte, std::size_t count,
                          const Prepare& prepare, std::string* buffer, const Caller& caller) {
  buffer->assign(max_nbyte * count, '\0');
  char* bytes = &(*buffer)[0];
  std::function<void()> save = [=]() {
    if (prepare.function != nullptr) prepare.function(prepare.argument);
    for (std::size_t i = 0; i < count; ++i) {
      utils::MemoryFixSizeBuffer stream(bytes + i * max_nbyte, max_nbyte);
      objects[i].Save(stream);
    }
  };
  allreduce_with(bytes, max_nbyte, count, &reduce_serialized<DType>, preparation(save), caller);
  for (std::size_t i = 0; i < count; ++i) {
    utils::MemoryFixSizeBuffer stream(bytes + i * max_nbyte, max_nbyte);
    objects[i].Load(stream);
  }
}

}  // namespace internal

inline bool Init(int argc, char* argv[]) { return internal::init(argc, argv); }
inline bool Finalize() { return internal::finalize(); }
inline int GetRank() { return internal::rank(); }
inline int GetWorldSize() { return internal::world_size(); }
inline int GetRingPrevRank() { return (GetRank() + GetWorldSize() - 1) % GetWorldSize(); }
inline bool IsDistributed() { return internal::world_size() > 1; }
inline std::string GetProcessorName() { return internal::processor_name(); }
inline void TrackerPrint(const std::string& message) { internal::tracker_print(message.c_str()); }

inline void TrackerPrintf(const char* format, ...) {
  char text[4096];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  internal::tracker_print(text);
}

inline void Broadcast(void* data, std::size_t size, int root, bool is_bootstrap, const char* file,
                      int line, const char* caller) {
  internal::broadcast(data, size, root, internal::Caller{file, line, caller, is_bootstrap});
}

template <typename DType>
void Broadcast(std::vector<DType>* data, int root, bool is_bootstrap, const char* file, int line,
               const char* caller) {
  static_assert(std::is_trivially_copyable<DType>::value && !std::is_same<DType, bool>::value,
                "Broadcast sends elements as bytes");
  internal::broadcast_container(data, root, internal::Caller{file, line, caller, is_bootstrap});
}

inline void Broadcast(std::string* data, int root, bool is_bootstrap, const char* file, int line,
                      const char* caller) {
  internal::broadcast_container(data, root, internal::Caller{file, line, caller, is_bootstrap});
}

template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, void (*prepare)(void*), void* argument,
               bool is_bootstrap, const char* file, int line, const char* caller) {
  internal::allreduce_as<OP>(data, count, internal::Prepare{prepare, argument},
                             internal::Caller{file, line, caller, is_bootstrap});
}

template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, std::function<void()> prepare, bool is_bootstrap,
               const char* file, int line, const char* caller) {
  internal::allreduce_as<OP>(data, count, internal::preparation(prepare),
                             internal::Caller{file, line, caller, is_bootstrap});
}

template <typename DType>
void Allgather(DType* data, std::size_t total_size, std::size_t slice_begin, std::size_t size_slice,
               std::size_t size_prev_slice, bool is_bootstrap, const char* file, int line,
               const char* caller) {
  static_assert(std::is_trivially_copyable<DType>::value, "Allgather sends elements as bytes");
  internal::allgather(data, sizeof(DType), total_size, slice_begin, size_slice, size_prev_slice,
                      internal::Caller{file, line, caller, is_bootstrap});
}

inline void Broadcast(void* data, std::size_t size, int root, const char* file, int line,
                      const char* caller) {
  Broadcast(data, size, root, false, file, line, caller);
}

template <typename DType>
void Broadcast(std::vector<DType>* data, int root, const char* file, int line, const char* caller) {
  Broadcast(data, root, false, file, line, caller);
}

inline void Broadcast(std::string* data, int root, const char* file, int line, const char* caller) {
  Broadcast(data, root, false, file, line, caller);
}

template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, void (*prepare)(void*), void* argument,
               const char* file, int line, const char* caller) {
  Allreduce<OP>(data, count, prepare, argument, false, file, line, caller);
}

template <typename OP, typename DType>
void Allreduce(DType* data, std::size_t count, std::function<void()> prepare, const char* file,
               int line, const char* caller) {
  Allreduce<OP>(data, count, std::move(prepare), false, file, line, caller);
}

template <typename DType>
void Allgather(DType* data, std::size_t total_size, std::size_t slice_begin, std::size_t size_slice,
               std::size_t size_prev_slice, const char* file, int line, const char* caller) {
  Allgather(data, total_size, slice_begin, size_slice, size_prev_slice, false, file, line, caller);
}

inline int LoadCheckPoint(Serializable* global_model, Serializable* local_model) {
  internal::Bytes global, local;
  const int version = internal::load_checkpoint(&global, &local);
  if (version == 0) return 0;
  internal::load_model(global_model, global, version, "global");
  internal::load_model(local_model, local, version, "local");
  return version;
}

inline void CheckPoint(const Serializable* global_model, const Serializable* local_model,
                       const char* file, int line, const char* caller) {
  static internal::ModelWriter global, local;
  const internal::Bytes global_bytes = global.take(global_model);
  internal::checkpoint(global_bytes, local.take(local_model), {file, line, caller, false});
}

inline void LazyCheckPoint(const Serializable* global_model, const char* file, int line,
                           const char* caller) {
  if (global_model == nullptr) internal::fail("LazyCheckPoint: the model is a null pointer");
  internal::checkpoint_lazily(&internal::save_lazily, global_model, {file, line, caller, false});
}

inline int VersionNumber() { return internal::version(); }

template <typename DType, void (*freduce)(DType& dst, const DType& src)>
void Reducer<DType, freduce>::Allreduce(DType* data, std::size_t count, void (*prepare)(void*),
                                        void* argument, bool is_bootstrap, const char* file,
                                        int line, const char* caller) {
  static_assert(std::is_trivially_copyable<DType>::value, "Reducer sends elements as bytes");
  internal::allreduce_with(data, sizeof(DType), count, &internal::reduce_elements<DType, freduce>,
                           internal::Prepare{prepare, argument},
                           internal::Caller{file, line, caller, is_bootstrap});
}

template <typename DType, void (*freduce)(DType& dst, const DType& src)>
void Reducer<DType, freduce>::Allreduce(DType* data, std::size_t count,
                                        std::function<void()> prepare, bool is_bootstrap,
                                        const char* file, int line, const char* caller) {
  const internal::Prepare call = internal::preparation(prepare);
  Allreduce(data, count, call.function, call.argument, is_bootstrap, file, line, caller);
}

template <typename DType>
void SerializeReducer<DType>::Allreduce(DType* objects, std::size_t max_nbyte, std::size_t count,
                                        void (*prepare)(void*), void* argument, bool is_bootstrap,
                                        const char* file, int line, const char* caller) {
  internal::allreduce_serialized(objects, max_nbyte, count, internal::Prepare{prepare, argument},
                                 &buffer_, internal::Caller{file, line, caller, is_bootstrap});
}

template <typename DType>
void SerializeReducer<DType>::Allreduce(DType* objects, std::size_t max_nbyte, std::size_t count,
                                        std::function<void()> prepare, bool is_bootstrap,
                                        const char* file, int line, const char* caller) {
  const internal::Prepare call = internal::preparation(prepare);
  Allreduce(objects, max_nbyte, count, call.function, call.argument, is_bootstrap, file, line,
            caller);
}

}  // namespace rabit
