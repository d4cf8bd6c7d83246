// Identifies the build of a program file.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// Identifies the program file that was at a path at one moment.
struct ProgramIdentity {
  dev_t device = 0;
  ino_t file = 0;
  off_t bytes = 0;
  timespec written = {};
  std::string build_id;  // written by the linker; empty if there is none
};
// Returns all zeros for a file that cannot be read.
ProgramIdentity identity_of(const std::string& path);
// Compares build ids. Without them, it must be the same inode with the same size and time of
// modification.
bool is_same(const ProgramIdentity& then, const ProgramIdentity& now);

// The file of one of the programs in RunOptions::programs.
struct ProgramFile {
  std::string path;
  ProgramIdentity identity;
  std::string build;  // build_of(path); empty without a checkpoint directory
};

// Returns "build-id 4f3c…", which the linker wrote into the file at `path`, or, for a file without
// one (a script, for example), "hash 81d0…" of all its bytes (XXH3, 128 bits). libdw is loaded here
// from `library_directory`; without it every file is hashed. Errors: the file cannot be read.
Result<std::string> build_of(const std::string& path, const std::string& library_directory);

}  // namespace rejoin::launcher
