// Human-readable call sites of a job's ranks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "journal/layout.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {

// Thread-safe.
class CallSites {
 public:
  // `library_directory`: as for Symbolizer.
  explicit CallSites(std::string library_directory) : symbolizer_(std::move(library_directory)) {}

  // Defines module `index` of the call sites of `rank`.
  void add(std::uint32_t rank, std::uint32_t index, const journal::ModuleEntry& module);
  // Replaces every {RANK:MODULE:PLACE} in `text`. Takes as long as Symbolizer::describe().
  std::string expanded(const std::string& text);

 private:
  std::string describe(std::uint32_t rank, std::uint32_t index, std::uint64_t place);

  std::mutex mutex_;  // of modules_
  std::map<std::pair<std::uint32_t, std::uint32_t>, journal::ModuleEntry> modules_;
  Symbolizer symbolizer_;
};

}  // namespace rejoin::launcher
