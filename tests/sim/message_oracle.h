// Judges messages between two ranks by what programs send and receive.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace rejoin::sim {

class MessageOracle {
 public:
  void begin(std::uint32_t ranks);

  // A program sends message `index` of a channel, perhaps again.
  const char* sent(std::uint32_t from, std::uint32_t to, std::uint64_t index, int tag,
                   std::uint64_t context, std::uint64_t hash);
  // Receive `number` of a rank gets a message. It must be the same message in every incarnation, no
  // other receive may get it, and it must be the first matching message of its sender that no
  // earlier receive got.
  const char* given(std::uint32_t rank, std::uint64_t number, std::uint32_t from,
                    std::uint64_t index, std::uint64_t hash, bool* again);
  // A call whose outcome depends on time (for example MPI_Test) returns outcome `number` of a rank.
  const char* told(std::uint32_t rank, std::uint64_t number, std::uint64_t answer);
  // Returns the number of different messages that were sent from one rank to another.
  std::uint64_t count(std::uint32_t from, std::uint32_t to) const;
  // Returns, after the end, the number of messages that were not received.
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
  // The messages that were received, by sender, receiver, tag and context.
  std::map<std::tuple<std::uint32_t, std::uint32_t, int, std::uint64_t>, Order> orders_;
  std::vector<std::map<std::uint64_t, Place>> receives_;         // of each rank, by number
  std::vector<std::map<std::uint64_t, std::uint64_t>> answers_;  // likewise
  char text_[300] = "";
};

}  // namespace rejoin::sim
