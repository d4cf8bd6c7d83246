// The functions of libc behind the ones that this library replaces.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "libc_recording/hooks.h"

namespace rejoin::libc_recording {

// Looked up at the first call, because constructors of other libraries may call before ours has
// run; and all of them by rejoin_libc_find_all().
class RealAddress {
 public:
  constexpr explicit RealAddress(const char* name) : name_(name) {}
  void* find() {
    void* f = __atomic_load_n(&address_, __ATOMIC_RELAXED);
    if (f == nullptr) {
      f = dlsym(RTLD_NEXT, name_);
      __atomic_store_n(&address_, f, __ATOMIC_RELAXED);
    }
    return f;
  }

 private:
  const char* name_;
  void* address_ = nullptr;
};

template <class Function>
class Real : public RealAddress {
 public:
  constexpr explicit Real(const char* name) : RealAddress(name) {}
  // The second argument gives the type only.
  constexpr Real(const char* name, Function*) : RealAddress(name) {}
  template <class... Args>
  auto operator()(Args... args) {
    return reinterpret_cast<Function*>(find())(args...);
  }
};

template <class Result, class... Args>
Real(const char*, Result (*)(Args...)) -> Real<Result(Args...)>;

inline bool observing(const void* caller) {
  return rejoin_libc_observing != nullptr && rejoin_libc_observing(caller) != 0;
}

}  // namespace rejoin::libc_recording

// A function of libc that this library defines.
#define REJOIN_REPLACES extern "C" __attribute__((visibility("default")))
// real_f: libc's own f.
#define REJOIN_REAL(f)                                         \
  constinit ::rejoin::libc_recording::Real real_##f(#f, &::f); \
  REJOIN_LIST_REAL(f)
// The same for a function with this symbol, and a type that is not that of its declaration, or
// which has none.
#define REJOIN_REAL_AS(f, symbol, ...)                                    \
  constinit ::rejoin::libc_recording::Real<__VA_ARGS__> real_##f(symbol); \
  REJOIN_LIST_REAL(f)
#define REJOIN_LIST_REAL(f)                                                                 \
  __attribute__((section("rejoin_reals"),                                                   \
                 used)) constinit ::rejoin::libc_recording::RealAddress* const listed_##f = \
      &real_##f
// Where the function that this is used in was called from.
#define REJOIN_CALLER __builtin_return_address(0)
