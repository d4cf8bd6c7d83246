#include "launcher/program/elf.h"

#include <elf.h>

#include <cstring>
#include <optional>

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostName = 255;  // bytes of a file's name

// Returns a copy of the T at `offset`; nothing if it is not inside the image.
template <class T>
std::optional<T> read_at(std::string_view image, std::uint64_t offset) {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return {};
  T value;
  std::memcpy(&value, image.data() + offset, sizeof(T));
  return value;
}

// Returns the file offset of a virtual address.
std::optional<std::uint64_t> file_offset(std::string_view image, const Elf64_Ehdr& header,
                                         std::uint64_t address) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto p = read_at<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!p || p->p_type != PT_LOAD) continue;
    if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) {
      return p->p_offset + (address - p->p_vaddr);
    }
  }
  return {};
}

std::optional<Elf64_Phdr> dynamic_segment(std::string_view image, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto p = read_at<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (p && p->p_type == PT_DYNAMIC) return p;
  }
  return {};
}

// Returns the header of a 64-bit little-endian image; nothing for any other.
std::optional<Elf64_Ehdr> header_of(std::string_view image) {
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return {};
  }
  return header;
}

bool is_truncated(std::string_view image, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto p = read_at<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!p) return true;
    const bool inside = p->p_offset <= image.size() && p->p_filesz <= image.size() - p->p_offset;
    if (p->p_type == PT_LOAD && !inside) return true;
  }
  return false;
}

// Distinguishes a program from a shared library in a position-independent image.
bool is_program(std::string_view image, const Elf64_Ehdr& header) {
  const auto dynamic = dynamic_segment(image, header);
  if (!dynamic) return true;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(image, dynamic->p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) return false;
    if (entry->d_tag == DT_FLAGS_1) return (entry->d_un.d_val & DF_1_PIE) != 0;
  }
  return false;
}

// Returns the text at `offset`, up to its NUL; nothing if there is no NUL within `most_bytes`.
std::optional<std::string> text_at(std::string_view image, std::uint64_t offset,
                                   std::size_t most_bytes) {
  if (offset >= image.size()) return {};
  const std::string_view rest = image.substr(offset, most_bytes + 1);
  const std::size_t size = rest.find('\0');
  if (size == std::string_view::npos) return {};
  return std::string(rest.substr(0, size));
}

// Returns the interpreter that the kernel would start for "#! /usr/bin/env python3": /usr/bin/env.
std::string interpreter_of_script(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  text = text.substr(2, text.find('\n') - 2);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  return std::string(text.substr(0, text.find_first_of(" \t")));
}

}  // namespace

ElfKind kind_of(std::string_view image) {
  if (image.size() <= EI_CLASS || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0) {
    return ElfKind::kNone;
  }
  if (image[EI_CLASS] == ELFCLASS32) return ElfKind::k32Bit;
  const auto header = header_of(image);
  if (!header || (header->e_type != ET_EXEC && header->e_type != ET_DYN)) return ElfKind::kNone;
  if (is_truncated(image, *header)) return ElfKind::kTruncated;
  if (!interpreter_of(image).empty()) return ElfKind::kDynamic;
  return header->e_type == ET_DYN && !is_program(image, *header) ? ElfKind::kLibrary
                                                                 : ElfKind::kStatic;
}

std::string interpreter_of(std::string_view image) {
  const auto header = header_of(image);
  if (!header) return interpreter_of_script(image);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto p = read_at<Elf64_Phdr>(image, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (p && p->p_type == PT_INTERP) return text_at(image, p->p_offset, 4096).value_or("");
  }
  return {};
}

bool has_windows_line_end(std::string_view image) {
  return image.starts_with("#!") && image.substr(0, image.find('\n')).ends_with('\r');
}

std::string_view build_id_in(std::string_view image) {
  constexpr std::string_view kGnu("GNU\0", 4);  // with its terminating NUL
  const auto header = header_of(image);
  for (unsigned i = 0; header && i < header->e_phnum; ++i) {
    const auto p = read_at<Elf64_Phdr>(image, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!p || p->p_type != PT_NOTE || p->p_offset > image.size()) continue;
    std::string_view notes = image.substr(p->p_offset, p->p_filesz);
    while (const auto note = read_at<Elf64_Nhdr>(notes, 0)) {
      const std::uint64_t id_at = sizeof *note + (std::uint64_t{note->n_namesz} + 3) / 4 * 4;
      const std::uint64_t end = id_at + (std::uint64_t{note->n_descsz} + 3) / 4 * 4;
      if (end > notes.size()) break;
      if (note->n_type == NT_GNU_BUILD_ID && notes.substr(sizeof *note, note->n_namesz) == kGnu) {
        return notes.substr(id_at, note->n_descsz);
      }
      notes.remove_prefix(end);
    }
  }
  return {};
}

std::vector<std::string> imports_of(std::string_view image) {
  constexpr std::size_t kMostSymbol = 4096;
  const auto header = header_of(image);
  std::vector<std::string> imports;
  for (unsigned i = 0; header && i < header->e_shnum; ++i) {
    const auto table = read_at<Elf64_Shdr>(image, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const auto strings =
        read_at<Elf64_Shdr>(image, header->e_shoff + table->sh_link * sizeof(Elf64_Shdr));
    if (!strings || strings->sh_offset > image.size()) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(image, table->sh_offset + at);
      if (!symbol) break;
      if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0) continue;
      const auto name = text_at(image, strings->sh_offset + symbol->st_name, kMostSymbol);
      if (name && !name->empty()) imports.push_back(*name);
    }
    break;
  }
  return imports;
}

std::vector<std::string> needed_of(std::string_view image) {
  const auto header = header_of(image);
  if (!header) return {};
  const auto dynamic = dynamic_segment(image, *header);
  if (!dynamic) return {};
  std::vector<std::uint64_t> names;
  std::uint64_t strings = 0;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(image, dynamic->p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
  }
  const auto table = file_offset(image, *header, strings);
  std::vector<std::string> needed;
  for (const std::uint64_t name : names) {
    if (!table || name >= image.size()) return {};
    const auto text = text_at(image, *table + name, kMostName);
    if (!text) return {};
    needed.push_back(*text);
  }
  return needed;
}

namespace {
// Open MPI's Fortran bindings. Those of version 40 work with our libmpi_mpifh.so.40, or are it.
bool is_fortran_mpi(std::string_view soname) {
  return soname.starts_with("libmpi_mpifh.so") || soname.starts_with("libmpi_usempi");
}
}  // namespace

bool is_foreign_mpi(std::string_view soname) {
  if (soname.starts_with("libmpich") || soname.starts_with("libmpi_mt.so")) return true;
  if (is_fortran_mpi(soname)) return !soname.ends_with(".so.40");
  // libmpi.so.12 is MPICH and Intel MPI, libmpi.so.1 and .20 are Open MPI before 3.
  return soname.starts_with("libmpi.so") && soname != "libmpi.so.40";
}

std::string foreign_mpi_text(std::string_view program, std::string_view soname) {
  std::string whose = "another MPI";
  if (soname.starts_with("libmpich") || soname == "libmpi.so.12") whose = "MPICH or Intel MPI";
  if (soname == "libmpi.so.1" || soname == "libmpi.so.20" || is_fortran_mpi(soname)) {
    whose = "an old Open MPI";
  }
  return std::string(program) + " was built for " + whose + " (" + std::string(soname) +
         "), whose binaries Rejoin cannot run; compile it again with ftmpicc, ftmpicxx or "
         "ftmpifort, or with mpicc of Open MPI 4 or 5 (libmpi.so.40)";
}

}  // namespace rejoin::launcher
