#include "launcher/symbolizer/call_sites.h"

namespace rejoin::launcher {

void CallSites::add(std::uint32_t rank, std::uint32_t index, const journal::ModuleEntry& module) {
  const std::lock_guard lock(mutex_);
  modules_.insert_or_assign({rank, index}, module);
}

std::string CallSites::expanded(const std::string& text) {
  return expand_sites(text, [this](std::uint32_t rank, std::uint32_t index, std::uint64_t place) {
    return describe(rank, index, place);
  });
}

std::string CallSites::describe(std::uint32_t rank, std::uint32_t index, std::uint64_t place) {
  journal::ModuleEntry module;
  {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find({rank, index});
    if (found == modules_.end()) return "an unknown place";
    module = found->second;
  }
  return symbolizer_.describe(module, place);
}

}  // namespace rejoin::launcher
