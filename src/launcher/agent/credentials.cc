#include "launcher/agent/credentials.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <string>

#include "launcher/agent/authentication.h"

namespace rejoin::launcher {

Result<Credentials> make_credentials(const HostPlan& plan) {
  const std::string path = plan.lib_directory + "/librejoin_authentication.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{std::string("a job on several hosts needs OpenSSL: ") + dlerror()};
  }
  const auto hmac =
      reinterpret_cast<decltype(&rejoin_hmac_sha256)>(dlsym(library, "rejoin_hmac_sha256"));
  if (hmac == nullptr) return Error{path + " is of another build; install them together"};
  Credentials made;
  made.authenticate = [hmac, secret = plan.secret](const void* data, std::size_t bytes) {
    relay::Digest digest;
    if (hmac(secret.data(), secret.size(), data, bytes, digest.data()) != 0) abort();
    return digest;
  };
  if (!plan.options.encrypt) return made;
  const auto tls = TlsLibrary::load(plan.lib_directory);
  if (!tls.ok()) return tls.error();
  made.tls = tls.value();
  return made;
}

}  // namespace rejoin::launcher
