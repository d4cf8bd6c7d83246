// Memory that the user of this folder provides, and arrays in it.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

namespace rejoin::datatypes {

// The user's allocator. Neither function may fail. It must outlive everything that was made with
// it.
struct Memory {
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* memory, std::size_t bytes);
};

template <class T, class... Arguments>
T* make(const Memory& memory, Arguments&&... arguments) {
  return new (memory.allocate(sizeof(T))) T(static_cast<Arguments&&>(arguments)...);
}
template <class T>
void destroy(const Memory& memory, T* object) {
  object->~T();
  memory.release(object, sizeof(T));
}

// An array that grows at its end.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Array(const Memory& memory) : memory_(memory) {}
  ~Array() {
    if (capacity_ > 0) memory_.release(data_, capacity_ * sizeof(T));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* moved = static_cast<T*>(memory_.allocate(capacity * sizeof(T)));
    if (size_ > 0) std::memcpy(moved, data_, size_ * sizeof(T));
    if (capacity_ > 0) memory_.release(data_, capacity_ * sizeof(T));
    data_ = moved;
    capacity_ = capacity;
  }
  void push(const T& value) {
    const T copy = value;  // it may be an element of this array
    if (size_ == capacity_) reserve(capacity_ == 0 ? 4 : 2 * capacity_);
    data_[size_++] = copy;
  }
  void shrink(std::size_t size) { size_ = size; }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  const Memory& memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace rejoin::datatypes
