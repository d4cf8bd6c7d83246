// Sets of images over several hosts: when one is wanted, complete, or given up. Pure.
//
//   idle       want() -> making
//   making     all hosts have made their images -> storing, if the loss of a host is to be
//   survived,
//              else settling, and they are to keep them; one cannot, or a rank has died ->
//              settling, and they are to give them up
//   storing    the parts of all hosts are at their partners -> settling, and they are to keep the
//              images; else as above
//   settling   all hosts have carried that out -> idle
//
// Every order of images has a number of its own, so that no image is taken for another one. Ranks
// may hear of a set from another host (relay::Kind::kSetWanted) before their own agent does. The
// next set is wanted only when all hosts have settled the one before, so what they hear of then is
// that next set.
#pragma once

#include <cstdint>
#include <set>

#include "launcher/base/record.h"

namespace rejoin::launcher {

// What all hosts are to do with a set.
enum class SetDecision : std::uint8_t { kNone, kStore, kKeep, kGiveUp, kKeepOneByOne };

class Sets {
 public:
  // stores: parts are kept by other hosts, or written. newest: the set from which the job goes on;
  // 0: it does not.
  Sets(std::uint32_t hosts, bool stores, std::uint64_t newest = 0)
      : hosts_(hosts), stores_(stores), number_(newest), newest_(newest) {}

  // A new number, for images that are no set.
  std::uint64_t next_number() { return ++number_; }
  std::uint64_t newest_number() const { return number_; }
  bool is_idle() const { return waits_for_.empty(); }
  // The newest set that is complete; 0: there is none, or a host has kept other images since.
  std::uint64_t newest() const { return newest_; }

  // Begins a set. Returns its number. REQUIRES is_idle().
  std::uint64_t want() {
    state_ = State::kMaking;
    await_all();
    return wanted_ = next_number();
  }
  // `host` has reported this.
  SetDecision heard(std::uint32_t host, std::uint64_t number, SetNews news) {
    if (is_idle() || number != wanted_) return SetDecision::kNone;
    const bool settles = news == SetNews::kSettled;
    if (settles != (state_ == State::kSettling)) return SetDecision::kNone;
    if (settles || news == SetNews::kMade || news == SetNews::kStored) {
      const bool of_this_state =
          settles || (news == SetNews::kStored) == (state_ == State::kStoring);
      if (of_this_state) waits_for_.erase(host);
      return is_idle() && !settles ? all_have() : SetDecision::kNone;
    }
    // The set that is there protects against the loss of a host; single images do not.
    const bool former_stays = newest_ != 0 && (news == SetNews::kMissing || stores_);
    if (news == SetNews::kDied || news == SetNews::kNotStored || former_stays) {
      return decide(SetDecision::kGiveUp);
    }
    return keep_one_by_one();
  }
  // A rank waits for its own image, and cannot wait for those of others.
  SetDecision keep_one_by_one() {
    newest_ = 0;
    if (is_idle() || state_ == State::kSettling) return SetDecision::kNone;
    return decide(SetDecision::kKeepOneByOne);
  }
  std::uint64_t wanted() const { return wanted_; }
  // All ranks are going back: what was wanted is void.
  void goes_back() { waits_for_.clear(); }

 private:
  void await_all() {
    for (std::uint32_t host = 0; host < hosts_; ++host) waits_for_.insert(host);
  }
  SetDecision decide(SetDecision decision) {
    state_ = State::kSettling;
    await_all();
    return decision;
  }
  SetDecision all_have() {
    if (state_ == State::kMaking && stores_) {
      state_ = State::kStoring;
      await_all();
      return SetDecision::kStore;
    }
    newest_ = wanted_;
    return decide(SetDecision::kKeep);
  }

  enum class State : std::uint8_t { kMaking, kStoring, kSettling };
  std::uint32_t hosts_;
  bool stores_;
  std::uint64_t number_;
  std::uint64_t wanted_ = 0;
  std::uint64_t newest_;
  State state_ = State::kSettling;     // unless it is idle
  std::set<std::uint32_t> waits_for_;  // hosts
};

}  // namespace rejoin::launcher
