// Parts of the simulated host in the fuzzer of the agent.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "fuzz.h"
#include "launcher/agent/agent_socket.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/file.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::fuzz {

using launcher::Descriptor;

inline constexpr std::uint32_t kRanks = 3;
inline constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";
static_assert(kSecret.size() == wire::kSecretBytes);

inline std::string socket_name() { return "rejoin-fuzz-agent-" + std::to_string(getpid()); }

inline Descriptor connected() {
  const std::string name = socket_name();
  Descriptor client(wire::connect_to(name.data(), name.size()));
  REQUIRE(client.open());
  REQUIRE(fcntl(client.get(), F_SETFL, O_NONBLOCK) == 0);
  return client;
}

inline launcher::RunOptions options() {
  launcher::RunOptions options;
  options.programs = {{.ranks = kRanks, .command = {"a.out"}}};
  options.snapshots.when = launcher::SnapshotOptions::When::kOff;
  return options;
}

inline launcher::JobSegment made_segment() {
  auto segment = launcher::JobSegment::create(options(), 0, 1, launcher::all_local(kRanks));
  REQUIRE(segment.ok());
  return std::move(segment.value());
}

// One segment serves all inputs, because creating it takes longer than everything else. Only words
// that admit() sets, and the epoch, are read from it.
inline const launcher::JobSegment& the_segment() {
  static const launcher::JobSegment segment = made_segment();
  return segment;
}

inline Descriptor listener() {
  auto made = launcher::listen_at(socket_name());
  REQUIRE(made.ok());
  return std::move(made.value());
}

struct HostRank {
  bool tree = false;  // an incarnation was started, and its end is not reported yet
  bool killing = false, child_over = false, program_over = false;
  std::int64_t child = 0, registered = 0;
  std::uint32_t incarnation = 0;
  Descriptor prints[2];
};

// State of a rank that survives its incarnations.
struct HostImages {
  std::uint64_t wanted = 0, kept = 0;  // numbers of images
  std::int64_t kept_pid = 0;           // process of the kept image; 0: it has ended
  std::int64_t clone = 0;              // process of the clone of the woken image
  bool waking = false;
};

struct HostClient {
  Descriptor socket;
  std::int64_t pid;
};

}  // namespace rejoin::fuzz
