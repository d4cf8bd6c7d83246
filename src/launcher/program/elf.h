// Which MPI a program was linked against, read from its ELF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// The DT_NEEDED entries of a 64-bit little-endian ELF image, in order. Empty for anything else: a
// script, a static program, a damaged file.
std::vector<std::string> needed_of(std::string_view image);

enum class ElfKind {
  kNone,  // another file, or a damaged one
  k32Bit,
  kStatic,  // without a dynamic linker
  kLibrary,
  kTruncated,  // shorter than its headers say
  kDynamic,
};
ElfKind kind_of(std::string_view image);
// Returns the dynamic linker of a kDynamic image, or the interpreter that a script's first line
// names. Empty: none.
std::string interpreter_of(std::string_view image);
// Returns whether a script's first line ends with a carriage return, which would be passed on.
bool has_windows_line_end(std::string_view image);
// Returns the undefined symbols of such an image, in the order of its table.
std::vector<std::string> imports_of(std::string_view image);

// Returns the build id that the linker wrote into the image, or an empty string.
std::string_view build_id_in(std::string_view image);

// Returns whether `soname` is an MPI library that ours cannot replace: it has another ABI than
// libmpi.so.40, or is the Fortran bindings of such a library.
bool is_foreign_mpi(std::string_view soname);

// Returns the message to the user about a program linked against `soname`.
// REQUIRES is_foreign_mpi(soname).
std::string foreign_mpi_text(std::string_view program, std::string_view soname);

}  // namespace rejoin::launcher
