// What mpirun's, mpiexec's and srun's options are called here.
#pragma once

#include <span>
#include <string_view>

namespace rejoin::launcher {

struct Translation {
  std::string_view theirs;
  std::string_view ours;  // empty: it has no meaning here, and is passed over
  unsigned values = 0;    // words that follow it; two of them become one, NAME=VALUE
  // Why it is passed over, where a user would expect it to do something; empty: nothing is lost.
  std::string_view notice = {};
};

std::span<const Translation> translations();
// Null: none. `name`: without a value.
const Translation* find_translation(std::string_view name);

}  // namespace rejoin::launcher
