#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "launcher/agent/authentication.h"
#include "launcher/hosts/openssl_call.h"

extern "C" int rejoin_hmac_sha256(const void* key, std::size_t key_bytes, const void* data,
                                  std::size_t bytes, std::uint8_t* digest) {
  rejoin::launcher::OpenSslCall call;
  unsigned int digest_bytes = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key, static_cast<int>(key_bytes), static_cast<const unsigned char*>(data),
           bytes, digest, &digest_bytes);
  call.forget_thread();
  return made != nullptr && digest_bytes == 32 ? 0 : -1;
}
