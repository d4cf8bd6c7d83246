// The parameters of a program, name=value; rabit.h has the list.
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
  int version;  // checkpoints made
  int seq;      // operations since
  int death;    // the incarnation it happens in, from 0

  auto operator<=>(const Mock&) const = default;
};

struct Parameters {
  bool debug = false;
  std::vector<Mock> mocks;  // sorted
};

// One name=value; false: it is none of ours. `error` is one line if the value has the wrong form.
bool read_parameter(std::string_view name, std::string_view value, Parameters& parameters,
                    std::string& error);

// All of argv and of `environment` (null-terminated, as environ), or nothing and one line in
// `error`.
std::optional<Parameters> read_parameters(int argc, const char* const* argv,
                                          const char* const* environment, std::string& error);

}  // namespace rabit::internal
