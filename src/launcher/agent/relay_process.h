// The relay of a host of several, as its agent sees it: a child process, which is started again
// when it has ended, until the job is over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/file.h"
#include "launcher/base/result.h"
#include "relay/socket.h"

namespace rejoin::launcher {

class RelayProcess {
 public:
  // `segment`: which outlives it.
  RelayProcess(const HostPlan& plan, const JobSegment& segment) : plan_(plan), segment_(segment) {}
  RelayProcess(const RelayProcess&) = delete;
  RelayProcess& operator=(const RelayProcess&) = delete;
  ~RelayProcess();

  // Opens the port at which other relays connect. Errors: no port, no library for authentication.
  std::optional<Error> listen();
  std::uint16_t port() const { return port_; }

  // Starts the relay. Returns its process.
  pid_t start(std::vector<relay::Address> nodes);
  pid_t pid() const { return pid_; }
  // The process has ended and was reaped: starts another one, and returns it. -1: they end again
  // and again.
  pid_t start_again();
  // Ends it for good.
  void stop();

 private:
  const HostPlan& plan_;
  const JobSegment& segment_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::vector<relay::Address> nodes_;
  relay::Authenticate authenticate_;
  pid_t pid_ = -1;
  std::uint64_t first_start_ns_ = 0;  // of those that are counted
  unsigned starts_ = 0;
};

}  // namespace rejoin::launcher
