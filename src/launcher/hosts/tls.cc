#include "launcher/hosts/tls.h"

#include <dlfcn.h>
#include <stdlib.h>

namespace rejoin::launcher {

Result<TlsLibrary> TlsLibrary::load(const std::string& lib_directory) {
  const std::string path = lib_directory + "/librejoin_tls.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("--listen and --join need OpenSSL (libssl3): ") + dlerror()};
  }
  const auto function = reinterpret_cast<Open>(dlsym(library, "rejoin_open_tls"));
  if (function == nullptr) return Error{path + " is of another build; install them together"};
  return TlsLibrary(function);
}

std::unique_ptr<Tls> TlsLibrary::open(int socket, TlsSide side, const std::string& secret) const {
  std::unique_ptr<Tls> made(open_(socket, side, secret.data(), secret.size()));
  if (!made) abort();
  return made;
}

}  // namespace rejoin::launcher
