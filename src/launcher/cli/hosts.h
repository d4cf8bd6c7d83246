// --host and --hostfile: so far there is one host, this one.
#pragma once

#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// How many ranks they allow, as a number; empty: nothing is said of that. An error if another host
// is named, or the file cannot be read. Not given: empty.
Result<std::string> ranks_of_list(const std::string& hosts);
Result<std::string> ranks_of_file(const std::string& path);

}  // namespace rejoin::launcher
