// The relay of a host of several, as its agent sees it: a child process, which is started again
// when it has ended, until the job is over.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/credentials.h"
#include "launcher/agent/host_plan.h"
#include "launcher/agent/job_segment.h"
#include "launcher/base/file.h"
#include "relay/fabric.h"
#include "relay/socket.h"

namespace rejoin::launcher {

class RelayProcess {
 public:
  // `segment`: which outlives it.
  RelayProcess(const HostPlan& plan, const JobSegment& segment) : plan_(plan), segment_(segment) {}
  RelayProcess(const RelayProcess&) = delete;
  RelayProcess& operator=(const RelayProcess&) = delete;
  ~RelayProcess();

  // Opens the port at which other relays connect. Errors: no port, no library for the credentials;
  // no provider of libfabric, where that is asked for.
  std::optional<Error> listen();
  std::uint16_t port() const { return port_; }

  // REQUIRES listen().
  const Credentials& credentials() const { return credentials_; }
  // Sets where the relay of a node is, for the next one that is started here.
  void set_node(std::uint32_t node, relay::Address address) {
    nodes_.resize(std::max<std::size_t>(nodes_.size(), node + 1));
    nodes_[node] = std::move(address);
  }
  pid_t pid() const { return pid_; }
  // The process has ended and was reaped: starts another one, and returns it. -1: they end again
  // and again.
  pid_t start_again();
  // Ends it until start_again(). The next one speaks only with relays that have been paused with
  // the same `timeline`. Returns the process that has ended, or -1.
  pid_t pause(std::uint32_t timeline);
  bool is_paused() const { return is_paused_; }
  // Ends it for good.
  void stop();

 private:
  std::optional<Error> load_fabric();
  void set_environment() const;

  const HostPlan& plan_;
  const JobSegment& segment_;
  Descriptor listener_;
  std::uint16_t port_ = 0;
  std::vector<relay::Address> nodes_;
  Credentials credentials_;
  relay::Fabric* fabric_ = nullptr;
  pid_t pid_ = -1;
  bool is_paused_ = false;
  std::uint32_t timeline_ = 0;
  std::uint64_t first_start_ns_ = 0;  // of those that are counted
  unsigned starts_ = 0;
};

}  // namespace rejoin::launcher
