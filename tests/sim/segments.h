// The memory of a simulated job: one segment, or one for each node, joined by relays.
//
// With a segment for each node, a node's view has the regions of its own ranks and copies of the
// others', which only relays write (src/relay). Header and control blocks are common to all views:
// what the simulator delays, loses and repeats are logs, payload, contexts and marks. The view of
// the job, which the agent and the oracle read, has every rank's own region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/transport/sim/random.h"
#include "journal/carrier.h"
#include "journal/rules.h"
#include "relay/sink.h"
#include "relay/source.h"

namespace rejoin::sim {

class Mapping {
 public:
  // Private memory.
  explicit Mapping(std::size_t bytes);
  // The whole of a file.
  Mapping(std::size_t bytes, int file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

class Segments {
 public:
  // nodes: of which each has a segment; 1: one for all. Rank r is on node r % nodes.
  Segments(std::uint32_t ranks, std::size_t bytes, std::uint32_t nodes);
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  std::byte* job() const { return job_->get(); }
  std::byte* of(std::uint32_t rank) const {
    return views_.empty() ? job() : views_[rank % views_.size()]->get();
  }
  // To be called when the job's view was formatted: makes all copies, with nothing in them.
  void begin(journal::Rule broken);
  // Overwrites all payload that the set does not need, as if every host had been restored from its
  // part. Call before all ranks go back.
  void lose_payload(std::uint64_t set);
  // All ranks go back to a set, and so do the copies, while there is no connection. Call when the
  // job's view was put back.
  void go_back(std::uint64_t set);
  // The hosts of the job, as far as they have memory of their own; 1: there is one segment for all.
  std::uint32_t hosts() const {
    return views_.empty() ? 1 : static_cast<std::uint32_t>(views_.size());
  }
  // One step of a relay: reads what is new, or shows a frame, or loses the connection and begins
  // again. Returns the node whose copies it has changed, or kNobody; kIdle: nothing is to be done;
  // with kRefused: a frame was refused, which is a violation.
  static constexpr std::uint32_t kIdle = ~std::uint32_t{0}, kNobody = kIdle - 1;
  static constexpr std::uint32_t kRefused = 1 << 16;
  // loan_of(rank): what that rank has lent for bytes that come; null: nothing. Some of them are
  // written there alone, as if the rank had driven the connection.
  using LoanOf = std::function<journal::Loan*(std::uint32_t rank)>;
  std::uint32_t step(engine::SimRandom& random, const LoanOf& loan_of);

 private:
  struct Frame;
  class Queue;
  struct Link;
  Link& back_of(const Link& link) const;
  static bool pull(const Link& link, Frame& f);
  bool show(Link& link, engine::SimRandom& random, const LoanOf& loan_of);
  bool lend(const Link& link, std::uint64_t at, std::span<const std::byte> bytes,
            const LoanOf& loan_of) const;
  std::vector<std::uint32_t> ranks_of(std::uint32_t node) const;
  void lose_payload_in(std::byte* view, const std::vector<std::uint32_t>& own, std::uint64_t set);
  void copy_marks(std::byte* view, std::uint32_t rank, std::uint64_t set) const;

  std::uint32_t ranks_;
  std::size_t bytes_;
  int job_file_ = -1;
  std::vector<int> files_;  // by node: of its copies
  std::unique_ptr<Mapping> job_;
  std::vector<std::unique_ptr<Mapping>> views_;  // by node; empty: one segment for all
  std::vector<std::unique_ptr<Link>> links_;
  journal::Rule broken_ = journal::Rule::kNone;
};

}  // namespace rejoin::sim
