// rabit::utils::GetTime().
#pragma once

#include <chrono>

namespace rabit {
namespace utils {

// Seconds since an arbitrary moment.
inline double GetTime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace utils
}  // namespace rabit
