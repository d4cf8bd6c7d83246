// The function of librejoin_authentication.so, which is loaded for jobs on several hosts only.
#pragma once

#include <cstddef>
#include <cstdint>

// Writes the HMAC-SHA256 of `bytes` bytes under a key to digest[32]. Returns 0 on success.
extern "C" int rejoin_hmac_sha256(const void* key, std::size_t key_bytes, const void* data,
                                  std::size_t bytes, std::uint8_t* digest);
