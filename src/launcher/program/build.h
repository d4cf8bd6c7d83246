// Which build of a program a file is.
#pragma once

#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// "build-id 4f3c…" of the file at `path`, as its linker wrote it; of one that has none (a script,
// a program linked without) "hash 81d0…" of all its bytes (XXH3, 128 bits). libdw is loaded here,
// from `library_directory`; without it every file is hashed. Errors: the file cannot be read.
Result<std::string> build_of(const std::string& path, const std::string& library_directory);

}  // namespace rejoin::launcher
