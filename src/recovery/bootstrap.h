// What operations between the load and the first checkpoint gave a rank, found again by call site:
// a restarted rank asks for them out of order, long after everybody else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "recovery/arena.h"

namespace rejoin::recovery {

class Bootstrap {
 public:
  struct Entry {
    std::uint64_t context;
    std::uint64_t sequence;
    std::uint32_t call;
    std::uint32_t
        used;  // of this call in this context, by this execution; in the first of them only
  };

  // Room for `count` entries, to be add()ed and then sorted, once.
  bool reserve(Arena& arena, std::size_t count) {
    entries_ = arena.make_array<Entry>(count);
    return entries_ != nullptr;
  }
  void add(const Entry& entry) { entries_[count_++] = entry; }
  void sort() {
    std::sort(entries_, entries_ + count_,
              [](const Entry& a, const Entry& b) { return before(a, b); });
  }

  // The first of this call in this context that was not used yet; nullptr: there is none. O(log n).
  Entry* find(std::uint64_t context, std::uint32_t call) {
    Entry* first = first_of(context, call);
    Entry* e = first == nullptr ? nullptr : first + first->used;
    return e != nullptr && e < entries_ + count_ && e->context == context && e->call == call
               ? e
               : nullptr;
  }
  // REQUIRES that find() gave one.
  void use(std::uint64_t context, std::uint32_t call) { ++first_of(context, call)->used; }

 private:
  Entry* first_of(std::uint64_t context, std::uint32_t call) {
    const Entry wanted{context, 0, call, 0};
    Entry* e = std::lower_bound(entries_, entries_ + count_, wanted,
                                [](const Entry& a, const Entry& b) { return before(a, b); });
    const bool found = e != entries_ + count_ && e->context == context && e->call == call;
    return found ? e : nullptr;
  }
  static bool before(const Entry& a, const Entry& b) {
    if (a.context != b.context) return a.context < b.context;
    if (a.call != b.call) return a.call < b.call;
    return a.sequence < b.sequence;
  }

  Entry* entries_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace rejoin::recovery
