// A growing array whose elements lie in an arena. A link's state is such arrays: it lies in shared
// memory that all processes of a node map at one address, and the process that drives the link uses
// it.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <utility>

#include "journal/arena.h"

namespace rejoin::relay {

template <class T>
class Vector {
 public:
  // The arena outlives the array, whose memory may also be given up together with the arena's.
  explicit Vector(journal::Arena& arena) : arena_(&arena) {}
  Vector(Vector&& other) noexcept
      : arena_(other.arena_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Vector& operator=(Vector&& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Vector() {
    clear();
    arena_->release(data_, capacity_ * sizeof(T));
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  T& push_back(T value) {
    reserve(size_ + 1);
    return *new (data_ + size_++) T(std::move(value));
  }
  // Adds elements whose bytes are not set.
  T* add(std::size_t count) {
    reserve(size_ + count);
    size_ += count;
    return data_ + size_ - count;
  }
  // Drops elements from the end. REQUIRES that they need no destructor, and count <= size().
  void shorten(std::size_t count) { size_ = count; }
  void clear() {
    for (T& element : *this) element.~T();
    size_ = 0;
  }
  // Removes those for which `over` is true. The others keep their order.
  template <class Over>
  void remove_if(Over&& over) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (over(data_[i])) continue;
      if (kept != i) data_[kept] = std::move(data_[i]);
      ++kept;
    }
    for (std::size_t i = kept; i < size_; ++i) data_[i].~T();
    size_ = kept;
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    std::size_t capacity = capacity_ == 0 ? 8 : capacity_;
    while (capacity < count) capacity *= 2;
    T* data = static_cast<T*>(arena_->allocate(capacity * sizeof(T)));
    if (data == nullptr) stop();
    for (std::size_t i = 0; i < size_; ++i) {
      new (data + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    arena_->release(data_, capacity_ * sizeof(T));
    data_ = data;
    capacity_ = capacity;
  }

 private:
  [[noreturn]] static void stop() {
    constexpr char kText[] =
        "rejoin: the memory for a connection between two nodes is used up: the job has too many "
        "ranks, or communicators at a time\n";
    if (write(2, kText, sizeof kText - 1) < 0) abort();
    abort();
  }

  journal::Arena* arena_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace rejoin::relay
