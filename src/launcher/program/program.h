// The program to run: where it is, whether it can run, and with which environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/result.h"
#include "launcher/cli/options.h"

namespace rejoin::launcher {

// `name` along PATH; empty if there is none.
std::string find_program(const std::string& name);

// The file to execute for `name`, which is relative to `directory` if that is not empty. Errors say
// what is wrong with it: exit code 127 not found, 126 not executable, 1 built for another MPI.
Result<std::string> check_program(const std::string& name, const std::string& directory);

// The libraries that the dynamic linker would load for the program at `path`, as paths. Empty where
// it does not say. REQUIRES glibc's: another one would run the program.
std::vector<std::string> libraries_of(const std::string& path);

// Where the libraries lie that belong to this very ftrun: "../lib/rejoin" from its executable if
// it is installed, "../lib" where it was built. A name that ranks can preload files by.
std::string library_directory();

// What all ranks have in common; the same bytes for every incarnation.
struct Surroundings {
  std::string socket;
  std::string secret;
  std::string lib_directory;
  std::uint32_t ranks = 1;
};

// The environment of a rank of program number `program`, entry by entry, from this process's and
// `options`. Errors: a library is missing.
Result<std::vector<std::string>> environment_of(std::uint32_t rank, std::size_t program,
                                                const Surroundings& all, const RunOptions& options);

}  // namespace rejoin::launcher
