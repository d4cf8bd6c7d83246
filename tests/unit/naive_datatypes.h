// Types together with a list of all their elements; and random types.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "datatypes/constructors.h"

namespace rejoin::datatypes {

inline std::size_t in_use = 0;
inline const Memory kMemory = {[](std::size_t bytes) {
                                 in_use += bytes;
                                 return std::malloc(bytes);
                               },
                               [](void* memory, std::size_t bytes) {
                                 in_use -= bytes;
                                 std::free(memory);
                               }};

constexpr Basic kBasics[] = {
    {1, 1, 1, 1, 1, External::kSame},     {2, 2, 2, 1, 2, External::kSame},
    {3, 4, 4, 1, 4, External::kSame},     {4, 8, 8, 1, 4, External::kSigned},
    {5, 8, 8, 1, 4, External::kUnsigned}, {6, 16, 8, 2, 16, External::kSame},
    {7, 8, 8, 1, 8, External::kSame},
};

struct Entry {
  std::int64_t at;
  Basic basic;
};

// The elements of a type.
struct Naive {
  std::vector<Entry> map;
  std::int64_t lower = 0, upper = 0;
  bool lower_set = false, upper_set = false;
  std::int64_t alignment = 1;

  std::int64_t extent() const { return upper - lower; }
  std::uint64_t size() const {
    std::uint64_t bytes = 0;
    for (const Entry& e : map) bytes += e.basic.bytes;
    return bytes;
  }
  std::vector<std::int64_t> bytes(int count) const {
    std::vector<std::int64_t> all;
    for (int i = 0; i < count; ++i) {
      for (const Entry& e : map) {
        for (int b = 0; b < e.basic.bytes; ++b) all.push_back(e.at + i * extent() + b);
      }
    }
    return all;
  }
};

// Returns the elements of copies of types, at displacements, as one type.
inline Naive combine(const std::vector<std::pair<std::int64_t, const Naive*>>& copies) {
  Naive n;
  bool first = true;
  for (const auto& [at, of] : copies) {
    if (of->map.empty() && !of->lower_set && !of->upper_set) continue;
    for (Entry e : of->map) n.map.push_back({e.at + at, e.basic});
    if (!of->map.empty()) n.alignment = std::max(n.alignment, of->alignment);
    const std::int64_t lower = at + of->lower, upper = at + of->upper;
    if (of->lower_set == n.lower_set) {
      const bool alone = n.lower_set ? false : first;
      n.lower = alone ? lower : std::min(n.lower, lower);
    } else if (of->lower_set) {
      n.lower = lower;
    }
    if (of->upper_set == n.upper_set) {
      const bool alone = n.upper_set ? false : first;
      n.upper = alone ? upper : std::max(n.upper, upper);
    } else if (of->upper_set) {
      n.upper = upper;
    }
    n.lower_set |= of->lower_set;
    n.upper_set |= of->upper_set;
    if (!of->map.empty()) first = false;
  }
  if (!n.upper_set && !n.map.empty()) {
    const std::int64_t over = n.extent() % n.alignment;
    if (over > 0) n.upper += n.alignment - over;
  }
  return n;
}

struct Both {
  Type* type;
  Naive naive;
};

// Makes random types, and owns them.
class Types {
 public:
  explicit Types(unsigned seed) : random_(seed) {
    for (const Basic& b : kBasics) {
      Naive n;
      n.map = {{0, b}};
      n.upper = b.bytes;
      n.alignment = b.alignment;
      keep({make_basic(kMemory, b), n});
    }
  }
  ~Types() {
    for (std::size_t i = all_.size(); i > 0; --i) destroy(kMemory, all_[i - 1]->type);
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Makes a type from existing types. Types are nested more deeply the more often it is called.
  const Both& grow() {
    switch (below(8)) {
      case 0:
        return contiguous();
      case 1:
      case 2:
        return vector();
      case 3:
        return indexed();
      case 4:
        return structure();
      case 5:
        return resized();
      case 6:
        return subarray();
      default:
        return darray();
    }
  }
  const Both& any() {
    for (;;) {
      const Both& b = *all_[static_cast<std::size_t>(below(static_cast<int>(all_.size())))];
      if (b.naive.map.size() <= 60) return b;
    }
  }

 private:
  using Copies = std::vector<std::pair<std::int64_t, const Naive*>>;

  const Both& keep(Both b) {
    all_.push_back(std::make_unique<Both>(std::move(b)));
    return *all_.back();
  }

  const Both& contiguous() {
    const Both& old = any();
    const int count = below(5);
    Copies copies;
    for (int i = 0; i < count; ++i) copies.push_back({i * old.naive.extent(), &old.naive});
    return keep(
        {make_contiguous(kMemory, static_cast<unsigned>(count), *old.type), combine(copies)});
  }

  const Both& vector() {
    const Both& old = any();
    const int count = below(5), block = below(4);
    std::int64_t stride = below(2) ? (below(9) - 3) * old.naive.extent() : below(100) - 20;
    if (below(4) == 0) stride = block * old.naive.extent();
    Copies copies;
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < block; ++k) {
        copies.push_back({i * stride + k * old.naive.extent(), &old.naive});
      }
    }
    return keep({make_vector(kMemory, static_cast<unsigned>(count), static_cast<unsigned>(block),
                             stride, *old.type),
                 combine(copies)});
  }

  const Both& indexed() {
    const Both& old = any();
    Maker maker(kMemory);
    Copies copies;
    std::int64_t at = below(50) - 10;
    const bool regular = below(2) != 0;
    for (int i = below(6); i > 0; --i) {
      const int block = regular ? 1 : below(4);
      maker.add_block(at, static_cast<unsigned>(block), *old.type);
      for (int k = 0; k < block; ++k) copies.push_back({at + k * old.naive.extent(), &old.naive});
      at += regular ? 24 : below(2) ? block * old.naive.extent() : below(120) - 40;
    }
    return keep({maker.finish(), combine(copies)});
  }

  const Both& structure() {
    Maker maker(kMemory);
    Copies copies;
    std::int64_t at = 0;
    for (int i = below(5); i > 0; --i) {
      const Both& old = any();
      const int block = below(3);
      maker.add_block(at, static_cast<unsigned>(block), *old.type);
      for (int k = 0; k < block; ++k) copies.push_back({at + k * old.naive.extent(), &old.naive});
      at += below(2) ? block * old.naive.extent() : below(90) - 20;
    }
    return keep({maker.finish(), combine(copies)});
  }

  const Both& resized() {
    const Both& old = any();
    const int lower = below(30) - 10, extent = below(80) - 10;
    Naive n = combine({{0, &old.naive}});
    n.lower = lower;
    n.upper = lower + extent;
    n.lower_set = n.upper_set = true;
    return keep({make_resized(kMemory, *old.type, lower, extent), n});
  }

  // Returns the elements of an array that `chosen` selects, in their order in the array.
  template <class Chosen>
  Naive of_array(const Both& old, const std::vector<int>& size, bool row_major, Chosen chosen) {
    std::vector<int> index(size.size());
    Copies copies;
    int total = 1;
    for (const int s : size) total *= s;
    for (int place = 0; place < total; ++place) {
      int rest = place;
      for (std::size_t i = 0; i < size.size(); ++i) {
        const std::size_t d = row_major ? size.size() - 1 - i : i;
        index[d] = rest % size[d];
        rest /= size[d];
      }
      if (chosen(index)) copies.push_back({place * old.naive.extent(), &old.naive});
    }
    Naive n = combine(copies);
    n.lower = 0;
    n.upper = total * old.naive.extent();
    n.lower_set = n.upper_set = true;
    return n;
  }

  const Both& subarray() {
    const Both& old = any();
    const int dimensions = 1 + below(3);
    std::vector<int> size, subsize, start;
    for (int d = 0; d < dimensions; ++d) {
      size.push_back(1 + below(5));
      subsize.push_back(1 + below(size.back()));
      start.push_back(below(size.back() - subsize.back() + 1));
    }
    const bool row_major = below(2) != 0;
    const Naive n = of_array(old, size, row_major, [&](const std::vector<int>& index) {
      for (std::size_t d = 0; d < size.size(); ++d) {
        if (index[d] < start[d] || index[d] >= start[d] + subsize[d]) return false;
      }
      return true;
    });
    return keep({make_subarray(kMemory, dimensions, size.data(), subsize.data(), start.data(),
                               row_major, *old.type),
                 n});
  }

  const Both& darray() {
    const Both& old = any();
    const int dimensions = 1 + below(3);
    std::vector<int> size;
    std::vector<Distribution> dealt;
    for (int i = 0; i < dimensions; ++i) {
      Distribution d = {1 + below(9), 1 + below(4), 1 + below(3), 0};
      d.process = below(d.processes);
      dealt.push_back(d);
      size.push_back(d.size);
    }
    const bool row_major = below(2) != 0;
    const Naive n = of_array(old, size, row_major, [&](const std::vector<int>& index) {
      for (std::size_t i = 0; i < size.size(); ++i) {
        const Distribution& d = dealt[i];
        if (index[i] / d.block % d.processes != d.process) return false;
      }
      return true;
    });
    return keep({make_darray(kMemory, dimensions, dealt.data(), row_major, *old.type), n});
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Both>> all_;
};

}  // namespace rejoin::datatypes
