#include "history.h"

#include <map>
#include <utility>

namespace rejoin::sim {
namespace {

using Kind = Happened::Kind;
using Message = std::pair<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t>;  // ends, index

// One execution of all histories, in an order in which each event has what it depends on.
class Rerun {
 public:
  explicit Rerun(const std::vector<std::vector<Happened>>& of) : of_(of), at_(of.size(), 0) {
    for (std::uint32_t r = 0; r < of.size(); ++r) {
      for (const Happened& e : of[r]) {
        if (e.kind == Kind::kReceived) receive_of_[{{e.peer, r}, e.message}] = e.index;
      }
    }
  }

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t r = 0; r < of_.size(); ++r) {
        while (at_[r] < of_[r].size() && happens(r, of_[r][at_[r]])) {
          ++at_[r];
          moved = true;
        }
        if (!wrong_.empty()) return wrong_;
      }
    }
    for (std::uint32_t r = 0; r < of_.size(); ++r) {
      if (at_[r] == of_[r].size()) continue;
      return "bits: no run without deaths comes behind step " + std::to_string(at_[r]) +
             " of rank " + std::to_string(r);
    }
    return "";
  }

 private:
  // Returns false if the event cannot happen yet.
  bool happens(std::uint32_t rank, const Happened& e) {
    switch (e.kind) {
      case Kind::kSent:
        sent_[{{rank, e.peer}, e.index}] = e.value;
        return true;
      case Kind::kMatched: {
        const auto by = receive_of_.find({{rank, e.peer}, e.index});
        return by != receive_of_.end() && posted_.contains({e.peer, by->second});
      }
      case Kind::kPosted:
        posted_[{rank, e.index}] = true;
        return true;
      case Kind::kReceived: {
        const auto m = sent_.find({{e.peer, rank}, e.message});
        if (m == sent_.end()) return false;
        return same(m->second, e.value, "a message of rank ", e.peer);
      }
      case Kind::kContributed:
        sum_[e.index] += e.value;
        ++contributions_[e.index];
        return true;
      case Kind::kSum:
        return contributions_[e.index] == of_.size() &&
               same(sum_[e.index], e.value, "the sum that is given to rank ", rank);
      case Kind::kBroadcast:
        broadcast_[e.index] = e.value;
        return true;
      case Kind::kHeard:
        return broadcast_.contains(e.index) &&
               same(broadcast_[e.index], e.value, "the broadcast of rank ", e.peer);
    }
    return false;
  }

  bool same(std::uint64_t then, std::uint64_t now, const char* what, std::uint32_t of) {
    if (then == now) return true;
    wrong_ = "bits: " + std::string(what) + std::to_string(of) + " is not what was contributed";
    return false;
  }

  const std::vector<std::vector<Happened>>& of_;
  std::vector<std::size_t> at_;
  std::map<Message, std::uint64_t> receive_of_, sent_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, bool> posted_;
  std::map<std::uint64_t, std::uint64_t> sum_, contributions_, broadcast_;
  std::string wrong_;
};

}  // namespace

std::uint64_t Histories::count_sent(std::uint32_t from, std::uint32_t to) const {
  std::uint64_t n = 0;
  for (const Happened& e : of_[from]) n += e.kind == Kind::kSent && e.peer == to;
  return n;
}

std::string Histories::run_again() const { return Rerun(of_).run(); }

}  // namespace rejoin::sim
