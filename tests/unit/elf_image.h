// The smallest ELF file with DT_NEEDED entries: header, two segments, dynamic section, strings.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace rejoin::test {

inline std::string elf_needing(const std::vector<std::string>& sonames) {
  std::string strings(1, '\0');
  std::vector<Elf64_Dyn> dynamic;
  for (const std::string& soname : sonames) {
    dynamic.push_back({DT_NEEDED, {strings.size()}});
    strings += soname + '\0';
  }
  const std::uint64_t dynamic_at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  const std::uint64_t strings_at = dynamic_at + (dynamic.size() + 2) * sizeof(Elf64_Dyn);
  constexpr std::uint64_t kBase = 0x400000;
  dynamic.push_back({DT_STRTAB, {kBase + strings_at}});
  dynamic.push_back({DT_NULL, {0}});
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phnum = 2;
  Elf64_Phdr segments[2] = {};
  segments[0].p_type = PT_LOAD;
  segments[0].p_vaddr = kBase;
  segments[0].p_filesz = strings_at + strings.size();
  segments[1].p_type = PT_DYNAMIC;
  segments[1].p_offset = dynamic_at;
  segments[1].p_filesz = dynamic.size() * sizeof(Elf64_Dyn);
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  image.append(reinterpret_cast<const char*>(segments), sizeof segments);
  image.append(reinterpret_cast<const char*>(dynamic.data()), dynamic.size() * sizeof(Elf64_Dyn));
  return image + strings;
}

}  // namespace rejoin::test
