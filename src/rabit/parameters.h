// The parameters of a program, name=value. rabit.h lists them.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rabit::internal {

// The place at which a rank is to be killed.
struct Mock {
  int rank;
  int version;  // the number of checkpoints that were made
  int seq;      // the number of operations since the newest one
  int death;    // the incarnation in which it fires, from 0

  auto operator<=>(const Mock&) const = default;
};

struct Parameters {
  bool debug = false;
  std::vector<Mock> mocks;  // sorted
};

// Reads one name=value. False: it is no parameter of the library. `error` becomes one line if the
// value has the wrong form.
bool read_parameter(std::string_view name, std::string_view value, Parameters& parameters,
                    std::string& error);

// Reads the parameters in argv and in `environment` (null-terminated, like environ). Returns none,
// and puts one line into `error`, if a value has the wrong form.
std::optional<Parameters> read_parameters(int argc, const char* const* argv,
                                          const char* const* environment, std::string& error);

}  // namespace rabit::internal
