// The command line as CLI11 parses it, and its help texts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/base/options.h"

namespace rejoin::launcher {

// Values from the command line, before they are checked.
struct RawProgram {
  std::string ranks;
  std::string ranks_option = "-n";  // the option that gave `ranks`
  std::string on_each_host;
  std::string on_each_host_option = "--npernode";  // the option that gave `on_each_host`
  std::string hosts;
  std::string host_file;
  std::vector<std::string> exports;
  std::string working_directory;
  std::string processors_each;
  std::string processors_option = "--cpus-per-rank";  // that gave `processors_each`
  std::string mapping;                                // --map-by
  bool by_node = false;                               // it says so
  std::string nodes;
  std::string c;  // value of -c: ranks or processors_each, see read_c()
};
struct Raw {
  RunOptions options;
  RawProgram first;
  std::vector<std::string> kills;
  std::string max_restarts;
  std::string journal_limit;
  std::string bootstrap_limit;
  std::string images_every;
  std::string grace;
  std::string keep_sets;
  std::string snapshots = "auto";
  std::string snapshot_every;
  std::string memory_for_images;
  std::string on_divergence = "rollback";
  std::string libc_recording = "on";
  std::string layout;
  std::string between_nodes = "memory";
  std::string survive = "process";
  std::string spares;
  std::string lease;
  std::string remote_shell;
  std::string join_timeout;
  std::string binding = "auto";
  std::string output_directory;
  std::string standard_input;
  std::string processors;
  std::string timeout;
  std::string heartbeat;
  bool no_restart = false;
  bool begin_again = false;
  bool ignored = false;
};

// Adds the options that are also allowed after a ":".
void describe_program(CLI::App& app, RawProgram& raw);
// Adds the other options, with description and examples.
void describe_job(CLI::App& app, Raw& raw);

}  // namespace rejoin::launcher
