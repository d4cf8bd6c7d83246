// What tests of encrypted connections share.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <string>

#include "launcher/base/file.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {

// As ftrun, its agents and relays do: the other end may be gone.
[[maybe_unused]] inline const auto kFormerHandler = signal(SIGPIPE, SIG_IGN);

inline const std::string kSecret = "00112233445566778899aabbccddeeff",
                         kOther = "another secret of 32 characters!";

inline const TlsLibrary& library() {
  static const Result<TlsLibrary> loaded = TlsLibrary::load(REJOIN_TLS_DIRECTORY);
  EXPECT_TRUE(loaded.ok()) << loaded.error().text;
  return loaded.value();
}

// The two ends of a connection. flags: 0 or SOCK_NONBLOCK.
struct Pair {
  Descriptor ends[2];
  explicit Pair(int flags = 0) {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, both), 0);
    for (int i = 0; i < 2; ++i) ends[i] = Descriptor(both[i]);
  }
};

}  // namespace rejoin::launcher
