// A value, or one line for the user that says what is wrong and what to do.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace rejoin::launcher {

// Exit codes of ftrun that are its own; `ftrun -h` lists them.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitRequeue = 75;   // EX_TEMPFAIL: the job can go on from what was written
inline constexpr int kExitTimeout = 110;  // as mpirun's
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignal = 128;  // + the signal

// Makes foreign text safe inside one of ftrun's lines: no newlines, no terminal control characters.
inline std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return text;
}

struct Error {
  std::string text;
  int exit_code = kExitFailure;
};

template <class T>
class Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  // REQUIRES ok().
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  // REQUIRES !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace rejoin::launcher
