// --host and --hostfile: so far there is one host, this one.
#pragma once

#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// Returns the number of ranks that the list or file allows; empty: no limit, or no list or file was
// given. Errors: another host is named, or the file cannot be read.
Result<std::string> ranks_of_list(const std::string& hosts);
Result<std::string> ranks_of_file(const std::string& path);

}  // namespace rejoin::launcher
