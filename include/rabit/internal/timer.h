// rabit::utils::GetTime().
#pragma once

#include <chrono>

namespace rabit {
namespace utils {

// Returns the seconds since an arbitrary moment.
inline double GetTime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace utils
}  // namespace rabit
