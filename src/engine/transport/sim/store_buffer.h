// The store buffer of a simulated process: stores that the process itself sees, and that others see
// later, in the same order (total store order, as on x86-64).
//
// While the process runs, its stores are in memory, so its own loads see them; while others run
// they are taken out again. That is exact because a delayed word has one writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rejoin::engine {

class StoreBuffer {
 public:
  bool empty() const { return stores_.empty(); }
  std::size_t size() const { return stores_.size(); }

  // Called while the process runs.
  void store(void* at, std::uint64_t value, std::size_t bytes) {
    stores_.push_back({at, bytes, word(at, bytes), value});
    put(at, bytes, value);
  }
  // All stores are visible to others: a full fence, or the process's end.
  void drain() { stores_.clear(); }

  // Takes the stores out of memory, and puts them back.
  void hide() {
    for (std::size_t i = stores_.size(); i-- > 0;) put(stores_[i], stores_[i].before);
  }
  void reveal() {
    for (Store& s : stores_) {
      s.before = word(s.at, s.bytes);
      put(s, s.value);
    }
  }
  // Makes the oldest `n` visible to others. REQUIRES that the stores are hidden.
  void commit(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) put(stores_[i], stores_[i].value);
    stores_.erase(stores_.begin(), stores_.begin() + static_cast<std::ptrdiff_t>(n));
  }

 private:
  struct Store {
    void* at;
    std::size_t bytes;
    std::uint64_t before, value;
  };
  static std::uint64_t word(const void* at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
  }
  static void put(void* at, std::size_t bytes, std::uint64_t value) {
    std::memcpy(at, &value, bytes);
  }
  static void put(const Store& s, std::uint64_t value) { put(s.at, s.bytes, value); }

  std::vector<Store> stores_;
};

}  // namespace rejoin::engine
