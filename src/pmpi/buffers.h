// Checks of the buffers and counts of collectives. All of them return MPI_SUCCESS, or the code of
// the error that was raised through the communicator's handler. REQUIRE is_comm(comm).
#pragma once

#include "pmpi/context.h"
#include "pmpi/errors.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// Whether [a, a + a_bytes) and [b, b + b_bytes) have no byte in common.
inline bool apart(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto pa = reinterpret_cast<std::uintptr_t>(a), pb = reinterpret_cast<std::uintptr_t>(b);
  return pa + a_bytes <= pb || pb + b_bytes <= pa;
}

// Returns where members' blocks may be gathered before all of them have arrived: `to`, or null.
// This rank's contribution must lie apart from them, or at its own place, `before` bytes from the
// first.
inline std::byte* early_gathered(const void* input, std::size_t input_bytes, std::byte* to,
                                 std::size_t bytes, std::size_t before) {
  if (to == nullptr) return nullptr;
  return input == to + before || apart(input, input_bytes, to, bytes) ? to : nullptr;
}

// Returns the bytes of data in `count` values.
inline std::size_t bytes_of(MPI_Datatype type, int count) {
  return static_cast<std::size_t>(count) * type->size_bytes;
}
// Returns the bytes of `count` operands of a reduction.
inline std::size_t reduced_bytes_of(MPI_Datatype type, int count) {
  return static_cast<std::size_t>(count) * type->reduced_bytes;
}
// Returns the address of value `index` of a buffer.
inline std::byte* value_at(const void* buffer, MPI_Datatype type, std::ptrdiff_t index) {
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + index * type->extent_bytes;
}
// A null pointer is MPI_BOTTOM, and derived types may hold addresses.
inline bool needs_buffer(MPI_Datatype type, std::size_t bytes) {
  return bytes > 0 && type->predefined;
}

int fail_count(const char* function, MPI_Comm comm, int count);
int fail_type(const char* function, MPI_Comm comm, MPI_Datatype type);
int fail_buffer(const char* function, MPI_Comm comm, const char* what, const void* buffer);
int fail_aliased(const char* function, MPI_Comm comm);
int fail_root(const char* function, MPI_Comm comm, int root);

// Checks a buffer of `count` elements that must not be MPI_IN_PLACE. `what`: its name in the
// message.
inline int check_buffer(const char* function, MPI_Comm comm, const char* what, const void* buffer,
                        int count, MPI_Datatype type) {
  if (count < 0) [[unlikely]]
    return fail_count(function, comm, count);
  if (!is_committed(type)) [[unlikely]]
    return fail_type(function, comm, type);
  if (buffer == MPI_IN_PLACE || (buffer == nullptr && needs_buffer(type, bytes_of(type, count))))
      [[unlikely]] {
    return fail_buffer(function, comm, what, buffer);
  }
  return MPI_SUCCESS;
}

// Checks the buffer of a message. MPI_BOTTOM is a null pointer, and derived types may hold
// addresses.
inline int check_message_buffer(const char* function, MPI_Comm comm, const char* what,
                                const void* buffer, int count, MPI_Datatype type) {
  if (count < 0) [[unlikely]]
    return fail_count(function, comm, count);
  if (!is_committed(type)) [[unlikely]]
    return fail_type(function, comm, type);
  if (buffer == nullptr && type->predefined && count > 0) [[unlikely]]
    return fail_buffer(function, comm, what, buffer);
  return MPI_SUCCESS;
}

// Checks the source and tag of a receive. MPI_ANY_SOURCE, MPI_ANY_TAG and MPI_PROC_NULL are
// allowed.
int check_source(const char* function, MPI_Comm comm, int source, int tag);

inline int check_root(const char* function, MPI_Comm comm, int root) {
  if (root < 0 || root >= comm->size()) [[unlikely]]
    return fail_root(function, comm, root);
  return MPI_SUCCESS;
}

// Checks the buffers of a reduction after its arguments were bound. `send` may be MPI_IN_PLACE. It
// has `bytes` of operands; `received`: what this rank is given.
inline int check_reduction_buffers(const char* function, MPI_Comm comm, const void* send,
                                   const void* receive, MPI_Datatype type, std::size_t bytes,
                                   std::size_t received) {
  const std::size_t there = send == MPI_IN_PLACE ? bytes : received;
  if (receive == MPI_IN_PLACE || (receive == nullptr && needs_buffer(type, there))) [[unlikely]] {
    return fail_buffer(function, comm, "receive", receive);
  }
  if (send == nullptr && needs_buffer(type, bytes)) [[unlikely]] {
    return fail_buffer(function, comm, "send", send);
  }
  return MPI_SUCCESS;
}

// Checks the counts of one buffer of a v-variant, of `comm->size()` blocks. A null `displs` is an
// error; its values are not checked, because displacements may be negative.
int check_counts(const char* function, MPI_Comm comm, const char* what, const void* buffer,
                 const int counts[], const int displs[], MPI_Datatype type);

}  // namespace rejoin::pmpi
