// One incarnation of a rank whose program is not deterministic: it asks for bits that are not
// records. All that it shows to others, and is given, goes into its history (history.h).
//
// It lies on the stack of its fiber, so an image has the history that led to it.
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

  // A bit: 0 in each first incarnation, mostly 0 in later ones.
  bool bit();
  // A number below `n`, likewise.
  std::uint32_t number(std::uint32_t n);

  void sum(std::uint64_t contribution);
  // Begun now, and complete by finish_sum(); one at a time.
  void begin_sum(std::uint64_t contribution);
  void finish_sum();
  void broadcast(std::uint32_t root, std::uint64_t value);
  void barrier() { sum(0); }
  void send(std::uint32_t to, std::uint64_t value);
  void send_synchronously(std::uint32_t to, std::uint64_t value);
  // from < 0: of any rank.
  void receive(int from);
  // Whether a message of `from` is there.
  bool asks(std::uint32_t from);
  // A hash over all that it was given.
  std::uint64_t state() const { return state_; }
  // The program has ended.
  void end();

 private:
  class Sum;
  recovery::Call call(recovery::OpKind kind, std::size_t bytes, int root) const;
  std::uint32_t begin_message(recovery::OpKind kind);
  void summed(std::uint64_t sequence, std::uint64_t sum);
  void happened(Happened::Kind kind, std::uint32_t peer, std::uint64_t index, std::uint64_t message,
                std::uint64_t value);
  recovery::SentMessage post(std::uint32_t to, std::uint64_t value, bool synchronous);

  static constexpr std::size_t kMostEvents = 160;
  Job& job_;
  SimRank& rank_;
  SimRank::Comm* comm_;
  std::uint64_t state_ = 1;
  std::uint64_t operations_ = 0;
  std::uint64_t receives_ = 0;
  std::uint64_t bits_ = 0;
  std::uint64_t sent_[kMaxSimRanks] = {};
  alignas(16) std::byte sum_[1024];  // a Sum, while one is begun
  std::size_t count_ = 0;
  Happened events_[kMostEvents];
};

}  // namespace rejoin::sim
