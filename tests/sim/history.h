// The histories of programs that are not deterministic, and a check whether some run without deaths
// could have produced them. Such a program's contributions depend on bits that are not recorded, so
// there is no reference run. Instead, the executions that count at the end are run once more from
// scratch, each rank according to its own history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rejoin::sim {

struct Happened {
  enum class Kind : std::uint8_t {
    kSent,         // message `index` to `peer`, with `value`
    kMatched,      // a synchronous send of message `index` to `peer` is complete
    kPosted,       // receive `index`
    kReceived,     // receive `index` got message `message` of `peer`, with `value`
    kContributed,  // `value` was contributed to the sum of operation `index`
    kSum,          // `value` is the sum of operation `index`
    kBroadcast,    // `value` was broadcast in operation `index`
    kHeard,        // `value` was received in operation `index` from `peer`
  };
  Kind kind;
  std::uint32_t peer;
  std::uint64_t index;
  std::uint64_t message;
  std::uint64_t value;
};

class Histories {
 public:
  void begin(std::uint32_t ranks) { of_.assign(ranks, {}); }
  // A rank's execution has ended. The history of a later incarnation replaces that of an earlier
  // one.
  void ended(std::uint32_t rank, const Happened* events, std::size_t count) {
    of_[rank].assign(events, events + count);
  }

  // Returns an empty string, or the reason why no run without deaths has these histories.
  // posted(from, to): the number of messages in the journal.
  template <class Posted>
  std::string judge(Posted&& posted) const {
    for (std::uint32_t from = 0; from < of_.size(); ++from) {
      for (std::uint32_t to = 0; to < of_.size(); ++to) {
        if (posted(from, to) == count_sent(from, to)) continue;
        return "bits: a message to rank " + std::to_string(to) + " is there that rank " +
               std::to_string(from) + " has not sent";
      }
    }
    return run_again();
  }

 private:
  std::uint64_t count_sent(std::uint32_t from, std::uint32_t to) const;
  std::string run_again() const;

  std::vector<std::vector<Happened>> of_;
};

}  // namespace rejoin::sim
