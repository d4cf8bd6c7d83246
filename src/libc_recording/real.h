// The functions of libc behind the ones that this library replaces.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "libc_recording/hooks.h"

namespace rejoin::libc_recording {

// Looked up at the first call, because constructors of other libraries may call before ours has
// run.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}
  // The second argument gives the type only.
  constexpr Real(const char* name, Function*) : name_(name) {}
  template <class... Args>
  auto operator()(Args... args) {
    Function* f = __atomic_load_n(&function_, __ATOMIC_RELAXED);
    if (f == nullptr) {
      f = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      __atomic_store_n(&function_, f, __ATOMIC_RELAXED);
    }
    return f(args...);
  }

 private:
  const char* name_;
  Function* function_ = nullptr;
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
#define REJOIN_REAL(f) constinit ::rejoin::libc_recording::Real real_##f(#f, &::f)
// Where the function that this is used in was called from.
#define REJOIN_CALLER __builtin_return_address(0)
