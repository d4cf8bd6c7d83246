// One object of a type in every thread.
#pragma once

#define MX_TREAD_LOCAL __thread  // the ancestor's spelling

namespace rabit {

template <typename T>
class ThreadLocalStore {
 public:
  // The calling thread's T, made by the first call in it; deleted when the thread ends.
  static T* Get() {
    static thread_local T object;
    return &object;
  }
};

}  // namespace rabit
