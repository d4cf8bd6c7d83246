// Programs as files: ftrun reads their dynamic sections before it starts them.
#include "launcher/program/elf.h"

#include "elf_image.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rejoin::launcher;
  const std::string_view image(reinterpret_cast<const char*>(data), size);
  std::size_t bytes = 0;
  for (const std::string& soname : needed_of(image)) {
    bytes += soname.size();
    if (is_foreign_mpi(soname)) foreign_mpi_text("program", soname);
  }
  const ElfKind kind = kind_of(image);
  REQUIRE(kind != ElfKind::kDynamic || !interpreter_of(image).empty());
  REQUIRE(interpreter_of(image).size() <= size);
  REQUIRE(imports_of(image).size() * 24 <= size);
  REQUIRE(bytes <= 16 * size);  // an entry has 16 bytes, and a name at most 255
  return 0;
}

namespace rejoin::fuzz {

std::vector<std::string> seeds() {
  return {test::elf_needing({"libm.so.6", "libmpi.so.40", "libc.so.6"}),
          test::elf_needing({"libmpich.so.12"}), test::elf_needing({}), "#!/bin/sh\n"};
}

std::vector<std::string> words() { return {"libmpi.so.12", std::string(16, '\0')}; }

}  // namespace rejoin::fuzz
