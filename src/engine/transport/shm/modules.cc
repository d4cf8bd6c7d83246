#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "engine/transport/shm/host.h"

namespace rejoin::engine {
namespace {

struct Search {
  std::uintptr_t address;
  ModuleEntry* module;
  std::uint64_t* place;
};

void copy_build_id(const dl_phdr_info* info, const ElfW(Phdr) & notes, ModuleEntry* module) {
  const char* p = reinterpret_cast<const char*>(info->dlpi_addr + notes.p_vaddr);
  const char* end = p + notes.p_memsz;
  while (p + sizeof(ElfW(Nhdr)) <= end) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(p);
    const char* name = p + sizeof *note;
    const char* desc = name + (note->n_namesz + 3) / 4 * 4;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      const std::uint32_t bytes = note->n_descsz < sizeof module->build_id
                                      ? note->n_descsz
                                      : static_cast<std::uint32_t>(sizeof module->build_id);
      memcpy(module->build_id, desc, bytes);
      module->build_id_bytes = bytes;
      return;
    }
    p = desc + (note->n_descsz + 3) / 4 * 4;
  }
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  Search* s = static_cast<Search*>(data);
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + h.p_vaddr;
    inside |= h.p_type == PT_LOAD && s->address >= begin && s->address < begin + h.p_memsz;
  }
  if (!inside) return 0;
  *s->place = s->address - info->dlpi_addr;
  static char executable[4096];  // stacks may be small; only ever the same text
  const char* path = info->dlpi_name;
  if (path[0] == '\0') {  // the program itself
    const ssize_t n = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[n > 0 ? n : 0] = '\0';
    path = executable;
  }
  const std::size_t bytes = strlen(path), room = sizeof s->module->path - 1;
  strcpy(s->module->path, bytes > room ? path + (bytes - room) : path);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_NOTE) copy_build_id(info, info->dlpi_phdr[i], s->module);
  }
  return 1;
}

}  // namespace

void ShmHost::locate(const void* address, ModuleEntry* module, std::uint64_t* place) {
  memset(module, 0, sizeof *module);
  *place = reinterpret_cast<std::uintptr_t>(address);
  Search s{*place, module, place};
  dl_iterate_phdr(visit, &s);
}

}  // namespace rejoin::engine
