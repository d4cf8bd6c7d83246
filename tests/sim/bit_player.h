// One incarnation of a rank whose program is not deterministic: it draws bits that are not
// recorded. All that it sends and receives is added to its history (history.h).
//
// The object lies on the stack of its fiber, so an image contains the history that led to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "history.h"
#include "player.h"

namespace rejoin::sim {

class BitPlayer {
 public:
  explicit BitPlayer(Player& player);
  BitPlayer(const BitPlayer&) = delete;
  BitPlayer& operator=(const BitPlayer&) = delete;

  std::uint32_t rank() const;
  std::uint32_t ranks() const;

  // Draws a bit: 0 in the first incarnation, mostly 0 in later ones.
  bool bit();
  // Draws a number below `n` in the same way.
  std::uint32_t number(std::uint32_t n);

  void sum(std::uint64_t contribution);
  // A sum of many numbers, each contribution + its index. early: to a buffer that is offered.
  void large_sum(std::uint64_t contribution, bool early);
  // Begins a sum, which finish_sum() completes; only one operation may be outstanding.
  void begin_sum(std::uint64_t contribution);
  void finish_sum();
  // Likewise. Gives rank `root` a value of each other rank, by messages.
  void begin_gather(std::uint32_t root, std::uint64_t value);
  void finish_gather();
  // Makes two communicators of all ranks, computes a sum in each, and frees them.
  void sums_elsewhere(std::uint64_t contribution);
  void broadcast(std::uint32_t root, std::uint64_t value);
  // The same with so many numbers, value + index, that six nodes scatter it. early: to a buffer
  // that is offered.
  void large_broadcast(std::uint32_t root, std::uint64_t value, bool early);
  void barrier() { sum(0); }
  // Makes a checkpoint. The global model is the newest sum, the local one the state.
  void checkpoint();
  // Makes all later messages longer than fits a channel entry: kLongWords numbers, value + index.
  void lengthen_messages() { words_ = kLongWords; }
  // late: a receive that is not late does not get it.
  void send(std::uint32_t to, std::uint64_t value, bool late = false);
  void send_synchronously(std::uint32_t to, std::uint64_t value);
  // Receives a message. from < 0: from any rank.
  // Returns the value.
  std::uint64_t receive(int from, bool late = false);
  // Returns whether a message of `from` has arrived.
  bool asks(std::uint32_t from);
  // Returns a hash over all that the program has received.
  std::uint64_t state() const { return state_; }
  // Called at the end of the program.
  void end();

 private:
  class Sum;
  class Gather;
  recovery::Call call(recovery::OpKind kind, std::size_t bytes, int root) const;
  std::uint32_t begin_message(recovery::OpKind kind);
  template <class Operation, class End>
  void finish(End&& end);
  std::uint64_t count_sent(std::uint32_t to) const;
  void summed(std::uint64_t sequence, std::uint64_t sum);
  void broadcast(std::uint32_t root, std::uint64_t* words, std::size_t count, bool early);
  void happened(Happened::Kind kind, std::uint32_t peer, std::uint64_t index, std::uint64_t message,
                std::uint64_t value);
  SimRank::Comm* communicator(std::uint64_t context);
  recovery::SentMessage post(std::uint32_t to, std::uint64_t value, bool synchronous, int tag);

  static constexpr std::size_t kMostEvents = 400, kLongWords = 40;
  Job& job_;
  SimRank& rank_;
  SimRank::Comm* comm_;
  std::uint64_t state_ = 1;
  std::uint64_t newest_sum_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t receives_ = 0;
  std::uint64_t bits_ = 0;
  std::size_t words_ = 1;                    // of a message
  alignas(16) std::byte outstanding_[2048];  // a Sum or a Gather
  std::size_t count_ = 0;
  Happened events_[kMostEvents];
};

}  // namespace rejoin::sim
