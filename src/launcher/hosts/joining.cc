#include "launcher/hosts/joining.h"

#include <stdio.h>
#include <time.h>

#include <utility>

#include "launcher/base/loop.h"
#include "launcher/base/record.h"
#include "launcher/hosts/joined_agents.h"
#include "relay/socket.h"

namespace rejoin::launcher {
namespace {

constexpr int kConnectMs = 5'000;
constexpr std::uint64_t kProofNs = 5'000'000'000;
constexpr std::uint64_t kPauseNs = 500'000'000;
constexpr std::uint64_t kProgressNs = 10'000'000'000;

}  // namespace

Result<ControlConnection> connect_to_ftrun(const std::string& address, const TlsLibrary& tls,
                                           const std::string& secret, std::uint64_t limit_ns) {
  const auto [host, port] = host_and_port(address);
  const relay::Address at = {host, static_cast<std::uint16_t>(std::stoul(port))};
  const std::uint64_t end_ns = monotonic_ns() + limit_ns;
  std::uint64_t tell_at_ns = 0;
  for (;;) {
    std::string why;
    ControlConnection made{Descriptor(relay::connect_to(at, kConnectMs, &why)), nullptr};
    if (made.socket.open()) {
      relay::send_at_once(made.socket.get(), kControlSilence_s);
      made.tls = tls.open(made.socket.get(), TlsSide::kConnects, TlsUse::kOrders, secret);
      bool is_final = false;
      const auto failure = prove_within(kProofNs, made.socket.get(), *made.tls, &is_final);
      if (!failure) return made;
      why = "what listens there " + *failure;
      if (is_final) {
        return Error{"--join " + address + ": " + why +
                     "; give both the same --secret-file, and the port of ftrun --listen"};
      }
    }
    const std::uint64_t now_ns = monotonic_ns();
    if (now_ns >= end_ns) {
      return Error{
          "--join " + address + ": ftrun could not be reached within " + duration_text(limit_ns) +
          ": " + why +
          "; start it with --listen there, open that port for this host, or give more time "
          "with --join-timeout"};
    }
    if (now_ns >= tell_at_ns) {
      fprintf(stderr, "rejoin: ftrun cannot be reached yet at %s: %s; trying for %s more\n",
              address.c_str(), why.c_str(), duration_text(end_ns - now_ns).c_str());
      tell_at_ns = now_ns + kProgressNs;
    }
    const timespec pause = {0, static_cast<long>(kPauseNs)};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace rejoin::launcher
