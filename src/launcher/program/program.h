// The program to run: where it is, whether it can run, and with which environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/options.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

// Searches PATH for `name`; empty if it is not found.
std::string find_program(const std::string& name);

// Returns the file to execute for `name`, which is relative to `directory` if that is not empty.
// Errors, with exit codes: 127 not found, 126 not executable, 1 built for another MPI.
Result<std::string> check_program(const std::string& name, const std::string& directory);

// Returns the paths of the libraries that the dynamic linker would load for the program at `path`.
// Empty if it does not list them. REQUIRES glibc's dynamic linker: another would run the program.
std::vector<std::string> libraries_of(const std::string& path);

// Returns the directory of the libraries that belong to this ftrun: "../lib/rejoin" from its
// executable if it is installed, else "../lib" in the build. The path is usable in LD_PRELOAD.
std::string library_directory();

// The part of the environment that all ranks share, the same bytes for every incarnation.
struct Surroundings {
  std::string socket;
  std::string secret;
  std::string lib_directory;
};

// Returns the environment of a rank, made from this process's and complete() options. Errors: a
// library is missing.
Result<std::vector<std::string>> environment_of(std::uint32_t rank, const Surroundings& all,
                                                const RunOptions& options);

}  // namespace rejoin::launcher
