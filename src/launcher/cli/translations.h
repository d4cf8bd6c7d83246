// Equivalents of the options of mpirun, mpiexec and srun.
#pragma once

#include <span>
#include <string_view>

namespace rejoin::launcher {

struct Translation {
  std::string_view theirs;
  std::string_view ours;  // empty: the option has no meaning here, and is ignored
  unsigned values = 0;    // words that follow it; two of them become one, NAME=VALUE
  // Message for the user: why the option is ignored, or its equivalent. Empty: nothing is lost by
  // ignoring it.
  std::string_view notice = {};
  bool refused = false;  // an error, because the job would not do what is asked for; `notice` names
                         // the alternative
};

std::span<const Translation> translations();
// Returns null if there is none. `name`: the option without a value.
const Translation* find_translation(std::string_view name);

}  // namespace rejoin::launcher
