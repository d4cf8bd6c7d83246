// How processes of a job on several hosts prove to each other that they know its secret, and
// whether what they say then is encrypted.
#pragma once

#include <optional>

#include "launcher/agent/host_plan.h"
#include "launcher/base/result.h"
#include "launcher/hosts/tls.h"
#include "relay/socket.h"

namespace rejoin::launcher {

struct Credentials {
  relay::Authenticate authenticate;
  std::optional<TlsLibrary> tls;  // --encrypt
};

// Errors: a library is not there.
Result<Credentials> make_credentials(const HostPlan& plan);

}  // namespace rejoin::launcher
