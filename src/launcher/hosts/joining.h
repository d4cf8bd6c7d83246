// How an agent joins ftrun: `ftrun agent --join`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launcher/base/file.h"
#include "launcher/base/result.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {

// A connection at whose other end is ftrun, which has proved that it knows the secret.
struct ControlConnection {
  Descriptor socket;
  std::unique_ptr<Tls> tls;
};

// Connects to ftrun at `address` (HOST:PORT), again and again until `limit_ns` have passed: it may
// not have been started yet. Prints a line now and then. Errors: it cannot be reached in that time;
// or it has another secret, which is found out at once.
Result<ControlConnection> connect_to_ftrun(const std::string& address, const TlsLibrary& tls,
                                           const std::string& secret, std::uint64_t limit_ns);

}  // namespace rejoin::launcher
