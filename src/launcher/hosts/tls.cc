#include "launcher/hosts/tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "launcher/base/loop.h"
#include "launcher/base/record.h"

namespace rejoin::launcher {

std::optional<std::string> prove_within(std::uint64_t limit_ns, int socket, Tls& tls,
                                        bool* is_final) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  const std::uint64_t end_ns = monotonic_ns() + limit_ns;
  for (std::uint64_t now_ns; (now_ns = monotonic_ns()) < end_ns;) {
    const int n = tls.prove();
    if (n > 0) return {};
    if (n == 0) return "has closed the connection";
    if (errno == EPROTO) {
      if (is_final != nullptr) *is_final = true;
      return tls.why();
    }
    if (errno != EAGAIN && errno != EINTR) return "cannot be read: " + error_text(errno);
    pollfd ready = {socket, tls.wants(), 0};
    poll(&ready, 1, static_cast<int>((end_ns - now_ns) / 1'000'000) + 1);
  }
  return "does not answer";
}

Result<TlsLibrary> TlsLibrary::load(const std::string& lib_directory) {
  const std::string path = lib_directory + "/librejoin_tls.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("--listen, --join and --encrypt need OpenSSL (libssl3): ") +
                 dlerror()};
  }
  const auto function = reinterpret_cast<Open>(dlsym(library, "rejoin_open_tls"));
  if (function == nullptr) return Error{path + " is of another build; install them together"};
  return TlsLibrary(function);
}

std::unique_ptr<Tls> TlsLibrary::open(int socket, TlsSide side, TlsUse use,
                                      const std::string& secret) const {
  std::unique_ptr<Tls> made(open_(socket, side, use, secret.data(), secret.size()));
  if (!made) abort();
  return made;
}

}  // namespace rejoin::launcher
