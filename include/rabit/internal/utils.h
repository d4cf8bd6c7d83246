// Checks and small helpers that programs written for rabit use.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rabit/internal/timer.h"
#include "rabit/serializable.h"

namespace rabit {
namespace utils {

namespace internal {

[[noreturn]] inline void stop(const char* kind, const char* format, std::va_list arguments) {
  std::fflush(stdout);
  std::fputs(kind, stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputs("; this process ends\n", stderr);
  std::exit(-1);
}

}  // namespace internal

// Prints to standard output, as printf.
inline void Printf(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
}

// snprintf under another name.
inline int SPrintf(char* buffer, std::size_t size, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(buffer, size, format, arguments);
  va_end(arguments);
  return length;
}

// If the condition does not hold, prints the message to standard error and ends the process with
// exit code 255. Assert is for errors of the program, Check for errors of its input.
inline void Assert(bool condition, const char* format, ...) {
  if (condition) return;
  std::va_list arguments;
  va_start(arguments, format);
  internal::stop("AssertError: ", format, arguments);
}
inline void Check(bool condition, const char* format, ...) {
  if (condition) return;
  std::va_list arguments;
  va_start(arguments, format);
  internal::stop("", format, arguments);
}
[[noreturn]] inline void Error(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  internal::stop("", format, arguments);
}

// Opens a file by fopen, and checks the result.
inline std::FILE* FopenCheck(const char* name, const char* mode) {
  std::FILE* file = std::fopen(name, mode);
  Check(file != nullptr, "cannot open file \"%s\"", name);
  return file;
}

}  // namespace utils

// Returns the address of the elements; null if there are none.
template <typename T>
inline T* BeginPtr(std::vector<T>& values) {
  return values.empty() ? nullptr : &values[0];
}
template <typename T>
inline const T* BeginPtr(const std::vector<T>& values) {
  return values.empty() ? nullptr : &values[0];
}
inline char* BeginPtr(std::string& text) { return text.empty() ? nullptr : &text[0]; }
inline const char* BeginPtr(const std::string& text) { return text.empty() ? nullptr : &text[0]; }

}  // namespace rabit
