// mpirun's --map-by: how many ranks each host runs, how many processors each rank has, and whether
// ranks go to the hosts in turn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/result.h"
#include "launcher/cli/raw_options.h"

namespace rejoin::launcher {

// Reads raw.mapping, for example ppr:2:node:pe=4, slot:PE=2 or node. Adds a notice about parts that
// have no effect. Error: it does not say how many ranks there are.
std::optional<Error> read_mapping(RawProgram& raw, std::vector<std::string>& notices);

}  // namespace rejoin::launcher
