// Element types and operators, which are plain numbers in the C interface.
#pragma once

#include <cstddef>

#include "rabit/internal/engine.h"

namespace rabit::internal {

constexpr bool is_type(int type) {
  return type >= engine::mpi::kChar && type <= engine::mpi::kULongLong;
}
constexpr bool is_operator(int operation) {
  return operation >= engine::mpi::kMax && operation <= engine::mpi::kBitwiseOR;
}
constexpr bool is_floating(int type) {
  return type == engine::mpi::kFloat || type == engine::mpi::kDouble;
}

// Returns the size of an element in bytes. REQUIRES: is_type(type).
constexpr std::size_t element_size(int type) {
  switch (type) {
    case engine::mpi::kChar:
    case engine::mpi::kUChar:
      return sizeof(char);
    case engine::mpi::kInt:
    case engine::mpi::kUInt:
      return sizeof(int);
    case engine::mpi::kLong:
    case engine::mpi::kULong:
      return sizeof(long);
    case engine::mpi::kFloat:
      return sizeof(float);
    case engine::mpi::kDouble:
      return sizeof(double);
    default:
      return sizeof(long long);
  }
}

}  // namespace rabit::internal
