// A reduction operator as the engine sees it.
#pragma once

#include <cstddef>

namespace rejoin::engine {

struct Reduction {
  // out[i] = a[i] (op) b[i] for `count` elements; a is the left operand, of lower ranks if the
  // operator does not commute. `out` may be `b`; it is never `a`. Operands are aligned only to the
  // element's own alignment, and may change while they are read (a given-up attempt): the result is
  // then discarded, so a built-in kernel must only be safe, not right. `user` operators always get
  // stable copies.
  void (*combine)(const Reduction& self, const void* a, const void* b, void* out,
                  std::size_t count);
  std::size_t element_bytes;  // distance from one element to the next; contiguous
  bool user;                  // calls the program's code: operands must be stable copies
  const void* context;        // for `combine`
  bool commutative = true;
};

}  // namespace rejoin::engine
