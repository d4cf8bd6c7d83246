// Subarrays and distributed arrays, which are made dimension by dimension, the fastest first. Every
// dimension is a type whose extent is that of the whole dimension.
#include "datatypes/constructors.h"

namespace rejoin::datatypes {
namespace {

// Returns the dimension that varies `rank`-th fastest.
int dimension_of(int rank, int dimensions, bool row_major) {
  return row_major ? dimensions - 1 - rank : rank;
}

// Makes a type of elements [begin, begin + count) of a dimension of `size`.
Type* slice(const Memory& memory, int begin, int count, int size, const Type& old) {
  std::int64_t offset, whole;
  if (__builtin_mul_overflow(old.extent(), begin, &offset)) return nullptr;
  if (__builtin_mul_overflow(old.extent(), size, &whole)) return nullptr;
  Maker maker(memory);
  maker.add_block(offset, static_cast<std::uint64_t>(count), old);
  maker.set_bounds(0, whole);
  return maker.finish();
}

// Makes the standard's cyclic(): the elements of a dimension that belong to one process.
Type* deal(const Memory& memory, const Distribution& d, const Type& old) {
  const std::int64_t block = d.block, round = block * d.processes, first = block * d.process;
  const std::int64_t left = d.size - first;  // the elements from this process's first block on
  const std::int64_t whole = left > 0 ? left / round + (left % round >= block ? 1 : 0) : 0;
  const std::int64_t rest = left > 0 && left % round < block ? left % round : 0;
  std::int64_t at, stride, last, size;
  const std::int64_t extent = old.extent();
  if (__builtin_mul_overflow(extent, d.size, &size)) return nullptr;
  if (__builtin_mul_overflow(extent, first, &at)) return nullptr;
  if (__builtin_mul_overflow(extent, round, &stride)) return nullptr;
  if (__builtin_mul_overflow(extent, first + whole * round, &last)) return nullptr;
  Maker maker(memory);
  if (whole > 0) {
    maker.add(
        {at, static_cast<std::uint64_t>(whole), stride, static_cast<std::uint64_t>(block), &old});
  }
  if (rest > 0) maker.add_block(last, static_cast<std::uint64_t>(rest), old);
  maker.set_bounds(0, size);
  return maker.finish();
}

// Wraps `old` in one type for each dimension. slower(d, type) makes that of dimension d.
template <class Dimension>
Type* wrap(const Memory& memory, int dimensions, bool row_major, const Type& old,
           Dimension dimension) {
  Maker maker(memory);
  const Type* inner = &old;
  Type* outer = nullptr;
  for (int i = 0; i < dimensions; ++i) {
    outer = dimension(dimension_of(i, dimensions, row_major), *inner);
    maker.own(outer);
    if (outer == nullptr) return nullptr;
    inner = outer;
  }
  maker.add_block(0, 1, *inner);
  maker.set_bounds(inner->bounds().lower, inner->bounds().upper);
  return maker.finish();
}

}  // namespace

Type* make_subarray(const Memory& memory, int dimensions, const int size[], const int subsize[],
                    const int start[], bool row_major, const Type& old) {
  return wrap(memory, dimensions, row_major, old, [&](int d, const Type& inner) {
    return slice(memory, start[d], subsize[d], size[d], inner);
  });
}

Type* make_darray(const Memory& memory, int dimensions, const Distribution distribution[],
                  bool row_major, const Type& old) {
  return wrap(memory, dimensions, row_major, old,
              [&](int d, const Type& inner) { return deal(memory, distribution[d], inner); });
}

}  // namespace rejoin::datatypes
