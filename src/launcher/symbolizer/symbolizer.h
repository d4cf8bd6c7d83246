// Human-readable call sites.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "journal/layout.h"

namespace rejoin::launcher {

// Replaces every {RANK:MODULE:PLACE} (see wire/messages.h) by site(rank, module, place). Anything
// else stays as it is.
using SiteText =
    std::function<std::string(std::uint32_t rank, std::uint32_t module, std::uint64_t place)>;
std::string expand_sites(std::string_view text, const SiteText& site);

// The marker for one call site.
std::string site_marker(std::uint32_t rank, std::uint32_t module, std::uint64_t place);

// Thread-safe.
class Symbolizer {
 public:
  // While a thread holds a Turn, no other thread reads debug information. Needed around a fork() if
  // the child resolves call sites too. Turns are granted in order, so a thread that resolves many
  // sites delays other threads by one site at most.
  class Turn {
   public:
    Turn();

   private:
    std::unique_lock<std::mutex> lock_;
  };

  // `library_directory` contains librejoin_symbols.so, which is loaded at the first describe().
  explicit Symbolizer(std::string library_directory) : directory_(std::move(library_directory)) {}

  // "src/solver.c:12::iterate"; "solver+0x1a2b::iterate" without debug information; else like
  // rough_site().
  // May take milliseconds for a module's first site; remembered afterwards.
  std::string describe(const journal::ModuleEntry& module, std::uint64_t place);

 private:
  using Symbolize = int (*)(const char*, const std::uint8_t*, std::size_t, std::uint64_t, char*,
                            std::size_t);
  std::string directory_;
  bool loaded_ = false;
  Symbolize symbolize_ = nullptr;
  std::mutex known_mutex_;  // protects known_
  std::map<std::pair<std::string, std::uint64_t>, std::string> known_;
  // All symbolizers share these, because libdw is not thread-safe. A thread that waits for reading_
  // holds next_.
  static std::mutex next_;
  static std::mutex reading_;
};

// Returns "solver+0x1a2b" without reading the file, or "src/solver.c:12::iterate" if the program
// has named the place.
std::string rough_site(const journal::ModuleEntry& module, std::uint64_t place);

}  // namespace rejoin::launcher
