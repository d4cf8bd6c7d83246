// Judges messages between two ranks by what programs send and are given.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace rejoin::sim {

class MessageOracle {
 public:
  void begin(std::uint32_t ranks);

  // Message `index` of a channel, as a program sends it, perhaps again.
  const char* sent(std::uint32_t from, std::uint32_t to, std::uint64_t index, int tag,
                   std::uint64_t context, std::uint64_t hash);
  // Receive `number` of a rank is given a message: in every incarnation the same, which
  // no other receive is given. It is the first of its sender's that fits and that no earlier
  // receive was given.
  const char* given(std::uint32_t rank, std::uint64_t number, std::uint32_t from,
                    std::uint64_t index, std::uint64_t hash, bool* again);
  // Answer `number` of a rank to a question that depends on when it is asked.
  const char* told(std::uint32_t rank, std::uint64_t number, std::uint64_t answer);
  // Different ones that were sent from one rank to another.
  std::uint64_t count(std::uint32_t from, std::uint32_t to) const;
  // After the end: messages that were not received.
  std::uint64_t left_over() const;

 private:
  struct Message {
    int tag;
    std::uint64_t context;
    std::uint64_t hash;
    bool given = false;
    std::uint64_t receive = 0;
  };
  using Place = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;  // from, to, index
  using Order = std::map<std::uint64_t, std::uint64_t>;                   // receive, index
  const char* broken(const char* format, ...) __attribute__((format(printf, 2, 3)));

  std::map<Place, Message> messages_;
  // Messages that were given, of a sender, a receiver, a tag and a context.
  std::map<std::tuple<std::uint32_t, std::uint32_t, int, std::uint64_t>, Order> orders_;
  std::vector<std::map<std::uint64_t, Place>> receives_;         // of each rank, by number
  std::vector<std::map<std::uint64_t, std::uint64_t>> answers_;  // likewise
  char text_[300] = "";
};

}  // namespace rejoin::sim
