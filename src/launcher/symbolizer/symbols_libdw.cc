#include "launcher/symbolizer/symbols_libdw.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

namespace {

char* no_path = nullptr;
const Dwfl_Callbacks kCallbacks = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                   dwfl_offline_section_address, &no_path};

struct Module {
  Dwfl_Module* module = nullptr;
  Dwarf_Addr bias = 0;  // of libdw's addresses over the file's own
};

// One session for each file, kept until the process ends: opening is the expensive part.
Module open_module(const char* path) {
  // Never ask a server on the network for debug information.
  unsetenv("DEBUGINFOD_URLS");
  // The path comes from a journal: open only what cannot block.
  struct stat info = {};
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  Dwfl* session = dwfl_begin(&kCallbacks);
  if (session == nullptr) return {};
  Module m;
  m.module = dwfl_report_offline(session, "", path, -1);
  dwfl_report_end(session, nullptr, nullptr);
  if (m.module != nullptr && dwfl_module_getelf(m.module, &m.bias) == nullptr) m.module = nullptr;
  if (m.module == nullptr) dwfl_end(session);
  return m;
}

const Module& module_at(const char* path) {
  static auto& modules = *new std::map<std::string, Module>;  // never destroyed
  const auto found = modules.find(path);
  return found != modules.end() ? found->second
                                : modules.emplace(path, open_module(path)).first->second;
}

bool has_build_id(Dwfl_Module* module, const std::uint8_t* id, std::size_t bytes) {
  const unsigned char* theirs = nullptr;
  GElf_Addr where = 0;
  const int n = dwfl_module_build_id(module, &theirs, &where);
  return n >= static_cast<int>(bytes) && memcmp(theirs, id, bytes) == 0;
}

// Returns the innermost function in the source, inlined or not; else the symbol's name.
std::string function_at(Dwfl_Module* module, Dwarf_Addr address) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Die* scopes = nullptr;
  const int n = unit == nullptr ? 0 : dwarf_getscopes(unit, address - bias, &scopes);
  std::string name;
  for (int i = 0; i < n && name.empty(); ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) continue;
    if (const char* text = dwarf_diename(&scopes[i])) name = text;
  }
  free(scopes);
  if (!name.empty()) return name;
  const char* symbol = dwfl_module_addrname(module, address);
  if (symbol == nullptr) return {};
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), free);
  return plain ? plain.get() : symbol;
}

// Returns the file's path as it was passed to the compiler, and the line.
std::string line_at(Dwfl_Module* module, Dwarf_Addr address) {
  Dwfl_Line* line = dwfl_module_getsrc(module, address);
  int number = 0;
  const char* file =
      line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (file == nullptr) return {};
  const char* directory = dwfl_line_comp_dir(line);
  const std::size_t n = directory == nullptr ? 0 : strlen(directory);
  if (n > 0 && strncmp(file, directory, n) == 0 && file[n] == '/') file += n + 1;
  return std::string(file) + ":" + std::to_string(number);
}

}  // namespace

int rejoin_symbolize(const char* path, const std::uint8_t* build_id, std::size_t build_id_bytes,
                     std::uint64_t place, char* text, std::size_t text_bytes) {
  const Module& m = module_at(path);
  if (m.module == nullptr || !has_build_id(m.module, build_id, build_id_bytes)) return -1;
  const Dwarf_Addr address = place + m.bias - 1;  // in the call, not after it
  const std::string function = function_at(m.module, address);
  std::string where = line_at(m.module, address);
  if (where.empty() && function.empty()) return -1;
  if (where.empty()) {
    const char* slash = strrchr(path, '/');
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%llx", static_cast<unsigned long long>(place));
    where = std::string(slash != nullptr ? slash + 1 : path) + offset;
  }
  std::snprintf(text, text_bytes, "%s%s%s", where.c_str(),
                function.empty() ? "" : "::", function.c_str());
  return 0;
}

std::size_t rejoin_build_id(const char* path, std::uint8_t* id, std::size_t capacity) {
  const Module& m = module_at(path);
  if (m.module == nullptr) return 0;
  const unsigned char* found = nullptr;
  GElf_Addr where = 0;
  const int n = dwfl_module_build_id(m.module, &found, &where);
  if (n <= 0 || static_cast<std::size_t>(n) > capacity) return 0;
  memcpy(id, found, static_cast<std::size_t>(n));
  return static_cast<std::size_t>(n);
}
