#include "launcher/symbolizer/symbolizer.h"

#include <dlfcn.h>
#include <string.h>

#include <cstdio>
#include <cstdlib>

#include "launcher/base/result.h"

namespace rejoin::launcher {
namespace {

std::string module_path(const journal::ModuleEntry& module) {
  return one_line(std::string(module.path, strnlen(module.path, sizeof module.path)));
}

}  // namespace

std::string expand_sites(std::string_view text, const SiteText& site) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('{', at), text.size());
    result += text.substr(at, open - at);
    at = open;
    if (open == text.size()) break;
    const std::size_t close = text.find('}', open);
    const std::string marker(
        text.substr(open, close == std::string_view::npos ? 1 : close - open + 1));
    unsigned rank = 0, module = 0;
    unsigned long long place = 0;
    int length = 0;
    const int fields =
        std::sscanf(marker.c_str(), "{%u:%u:%llx}%n", &rank, &module, &place, &length);
    if (fields == 3 && static_cast<std::size_t>(length) == marker.size()) {
      result += site(rank, module, place);
      at += marker.size();
    } else {
      result += '{';
      ++at;
    }
  }
  return result;
}

std::string site_marker(std::uint32_t rank, std::uint32_t module, std::uint64_t place) {
  char text[64];
  std::snprintf(text, sizeof text, "{%u:%u:%llx}", rank, module,
                static_cast<unsigned long long>(place));
  return text;
}

std::mutex Symbolizer::next_;
std::mutex Symbolizer::reading_;

Symbolizer::Turn::Turn() {
  const std::lock_guard next(next_);
  lock_ = std::unique_lock(reading_);
}

std::string Symbolizer::describe(const journal::ModuleEntry& module, std::uint64_t place) {
  if (module.build_id_bytes == journal::kNamedSite) return rough_site(module, place);
  const std::string path = module_path(module);
  const std::pair key(path, place);
  {
    const std::lock_guard lock(known_mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const Turn turn;
  if (!loaded_) {
    loaded_ = true;
    void* library = dlopen((directory_ + "/librejoin_symbols.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      symbolize_ = reinterpret_cast<Symbolize>(dlsym(library, "rejoin_symbolize"));
    }
  }
  char text[1024];
  const std::size_t id_bytes = std::min<std::size_t>(module.build_id_bytes, sizeof module.build_id);
  const bool told = symbolize_ != nullptr && symbolize_(path.c_str(), module.build_id, id_bytes,
                                                        place, text, sizeof text) == 0;
  const std::lock_guard lock(known_mutex_);
  return known_[key] = told ? one_line(text) : rough_site(module, place);
}

std::string rough_site(const journal::ModuleEntry& module, std::uint64_t place) {
  const std::string path = module_path(module);
  if (module.build_id_bytes == journal::kNamedSite) {
    const std::size_t function = std::min(path.find("::"), path.size());
    return path.substr(0, function) + ":" + std::to_string(place) + path.substr(function);
  }
  char text[32];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(place));
  return path.substr(path.rfind('/') + 1) + text;
}

}  // namespace rejoin::launcher
