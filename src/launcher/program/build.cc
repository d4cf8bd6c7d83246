#include "launcher/program/build.h"

#define XXH_INLINE_ALL
#include <dlfcn.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "launcher/base/file.h"
#include "launcher/program/elf.h"
#include "launcher/symbolizer/symbols_libdw.h"

namespace rejoin::launcher {
namespace {

std::string hexadecimal(const std::uint8_t* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string build_id_of(const std::string& path, const std::string& library_directory) {
  void* library =
      dlopen((library_directory + "/librejoin_symbols.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto read = reinterpret_cast<decltype(&rejoin_build_id)>(dlsym(library, "rejoin_build_id"));
  std::uint8_t id[64];
  return read == nullptr ? "" : hexadecimal(id, read(path.c_str(), id, sizeof id));
}

}  // namespace

ProgramIdentity identity_of(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  ProgramIdentity identity = {info.st_dev, info.st_ino, info.st_size, info.st_mtim, {}};
  if (const auto file = MappedFile::open(path); file.ok()) {
    const std::string_view id = build_id_in(file.value().bytes());
    identity.build_id = hexadecimal(reinterpret_cast<const std::uint8_t*>(id.data()), id.size());
  }
  return identity;
}

bool is_same(const ProgramIdentity& then, const ProgramIdentity& now) {
  if (!then.build_id.empty() && !now.build_id.empty()) return then.build_id == now.build_id;
  return then.device == now.device && then.file == now.file && then.bytes == now.bytes &&
         then.written.tv_sec == now.written.tv_sec && then.written.tv_nsec == now.written.tv_nsec;
}

Result<std::string> build_of(const std::string& path, const std::string& library_directory) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return file.error();
  const std::string id = build_id_of(path, library_directory);
  if (!id.empty()) return "build-id " + id;
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash,
                           XXH3_128bits(file.value().bytes().data(), file.value().bytes().size()));
  return "hash " + hexadecimal(hash.digest, sizeof hash.digest);
}

}  // namespace rejoin::launcher
