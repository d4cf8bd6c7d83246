// A job on many hosts in virtual time: the real supervisor, with its real orders and reports, and
// agents that are simulated. Counts what the supervisor receives and sends, and what that takes.
//
// Real: Supervisor and SupervisorCore (launcher/supervisor), the encoding of every message, and the
// processor time of both. Modelled: the links, what the system calls of a message take (measured by
// calibrate()), and what agents and ranks do meanwhile (Constants).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rejoin::scale {

// docs/scale.md has the source of each.
struct Constants {
  std::uint64_t latency_ns = 50'000;    // of a message, one way
  double link_bytes_a_second = 1.25e9;  // at the supervisor's host, in each direction
  std::uint64_t receive_ns = 1'000;     // a message from a pipe, when all agents have sent one
  std::uint64_t send_ns = 1'000;        // a message to a pipe
  std::uint32_t streams = 0;            // with which these two were measured; 0: they are assumed
  std::uint64_t agent_start_ns = 300'000'000;  // remote shell and agent, until it is ready
  std::uint64_t rank_start_ns = 2'000'000;     // until it has registered
  std::uint64_t images_ns = 10'000'000;        // until all images of a host are made
  std::uint64_t store_ns = 280'000'000;        // until a part lies with its partner
  std::uint64_t settle_ns = 1'000'000;         // until former images have ended
  std::uint64_t go_back_ns = 20'000'000;       // until all ranks of a host are put back
  std::uint64_t take_over_ns = 150'000'000;    // until a new agent has fetched and put back a part
  std::uint64_t lease_ns = 5'000'000'000;
};

// What a part of the job is to the supervisor.
struct Phase {
  std::string name;
  std::uint64_t reports = 0, orders = 0;      // messages
  std::uint64_t bytes_in = 0, bytes_out = 0;  // with their sizes' 4 bytes each
  std::uint64_t code_ns = 0;                  // processor time of the supervisor's code
  std::uint64_t busy_ns = 0;                  // the same with system calls
  std::uint64_t time_ns = 0;  // virtual time from the phase's begin to its last message
};

// Processor time of this thread so far.
using Stopwatch = std::function<std::uint64_t()>;
std::uint64_t thread_time_ns();

// The phases, in this order: agents, ranks, set, rank, host, beats, end. `beats`: one lease.
// REQUIRES hosts > 1.
std::vector<Phase> simulate_protocol(std::uint32_t hosts, std::uint32_t ranks_each,
                                     const Constants& constants, const Stopwatch& stopwatch);

// Measures receive_ns and send_ns with the launcher's MessageStream over pipes, of so many agents
// or as many as this process may have descriptors for.
void calibrate(Constants& constants, std::uint32_t hosts);

}  // namespace rejoin::scale
