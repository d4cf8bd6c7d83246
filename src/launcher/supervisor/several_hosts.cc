// What the supervisor decides about jobs on several hosts: sets of images of all ranks, and the
// loss of a host.
#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/base/result.h"
#include "launcher/supervisor/supervisor_core.h"

namespace rejoin::launcher {

// --- Images of several hosts

// All hosts ask for a set at the same time. While a rank is away, their answer is found without a
// look at all others.
bool SupervisorCore::may_make_set() {
  const auto is_ready = [](const Rank& r) {
    return r.state == State::kRunning && !r.starts_back && !r.coming_back;
  };
  if (!is_ready(ranks_[unready_])) return false;
  const auto found = std::find_if_not(ranks_.begin(), ranks_.end(), is_ready);
  if (found == ranks_.end()) return true;
  unready_ = static_cast<std::size_t>(found - ranks_.begin());
  return false;
}

void SupervisorCore::on(const Event::ImagesDue& e) {
  if (stopping_ || goes_back_ || recycles_) return;
  if (sets_.is_idle()) write_if_due();
  // Single images would take the place of those that protect against the loss of a host.
  if (e.truncates && !options_.survive_host) {
    act_on_set(sets_.keep_one_by_one());
    return act(Action::WantImages{host_, sets_.next_number()});
  }
  if (!sets_.is_idle() || !is_time_for_parts(e)) return;
  if (may_make_set()) {
    wanted_at_ns_ = now_ns_;
    act(Action::WantImages{{}, sets_.want()});
  } else if (sets_.newest() == 0) {
    act(Action::WantImages{host_, sets_.next_number()});
  }
}

// Limits what sets cost the job: 3 % of its time; a fifth if the user gives the period of
// snapshots, or if journals are nearly full; half if page faults of growing journals cost more than
// a set does, because journals are truncated only when a set is stored.
bool SupervisorCore::is_time_for_parts(const Event::ImagesDue& e) const {
  constexpr std::uint64_t kSeldom = 32, kOften = 4;
  if (!options_.survive_host || sets_.newest() == 0 || !lost_.empty()) return true;
  const bool often = options_.snapshots.when == SnapshotOptions::When::kPeriod || e.waits;
  const std::uint64_t times = e.growth_cost_ns >= cost_ns_ ? 1 : often ? kOften : kSeldom;
  return now_ns_ >= stored_at_ns_ + times * std::max(cost_ns_, lost_cost_ns_);
}

void SupervisorCore::on(const Event::OfSet& e) {
  if (stopping_ || goes_back_) return;
  const bool of_part = e.news == SetNews::kStored || e.news == SetNews::kNotStored;
  if (of_part && writing_ != 0 && e.number == writing_) {
    return part_is_written(e.news == SetNews::kStored);
  }
  if (e.number == sets_.wanted()) costs_ns_ += e.cost_ns;
  act_on_set(sets_.heard(host_, e.number, e.news));
}

// --- Sets in --checkpoint-dir
//
// With --survive host a set is kept when it is written. Else it is kept first, so that it protects
// while it is being written, and only one of several is written: one each period.

bool SupervisorCore::writes_parts() const {
  return options_.has_agents() && !options_.checkpoint_directory.empty();
}

void SupervisorCore::write_if_due() {
  if (!writes_parts() || options_.survive_host || writing_ != 0) return;
  const std::uint64_t newest = sets_.newest();
  const bool is_due = now_ns_ >= write_again_at_ns_ || (noticed_ && newest > set_before_);
  if (newest == 0 || newest == tried_ || !is_due) return;
  tried_ = newest;
  write_again_at_ns_ = now_ns_ + options_.image_period_ns;
  writing_ = newest;
  for (std::uint32_t host = 0; host < places_.size(); ++host) writes_.insert(host);
  parts_ = {};
  act(Action::StoreParts{newest, partners()});
}

// After a failure, which the host has told, a later set is written soon.
void SupervisorCore::part_is_written(bool is) {
  constexpr std::uint64_t kAgain = 8;
  if (!is) {
    write_again_at_ns_ = now_ns_ + options_.image_period_ns / kAgain;
    writing_ = 0;
    if (noticed_) set_before_ = sets_.newest_number();
    return;
  }
  writes_.erase(host_);
  if (writes_.empty()) set_is_written(std::exchange(writing_, 0));
}

void SupervisorCore::set_is_written(std::uint64_t set) {
  written_ = set;
  has_written_ = true;
  parts_.directory = options_.checkpoint_directory;
  note_written(parts_);
  act(Action::SetStored{set});
  if (noticed_ && set > set_before_) end_by_notice("the job's state was written to");
}

// --- What becomes of a set

// Times of other hosts are known to some milliseconds only.
std::uint64_t SupervisorCore::since_set_was_wanted_ns() const {
  return now_ns_ - std::min(wanted_at_ns_, now_ns_);
}

void SupervisorCore::act_on_set(SetDecision decision) {
  switch (decision) {
    case SetDecision::kNone:
      break;
    case SetDecision::kStore:
      parts_ = {};
      costs_ns_ = 0;
      act(Action::StoreParts{sets_.wanted(), partners()});
      break;
    case SetDecision::kKeep:
      holders_ = partners();
      lost_.clear();
      stored_at_ns_ = now_ns_;
      // Ranks of all hosts may wait for one that lacks its processor, hence the sum over hosts; the
      // elapsed time is a bound.
      cost_ns_ = std::min(std::exchange(costs_ns_, 0), since_set_was_wanted_ns());
      lost_cost_ns_ = 0;
      act(Action::KeepSet{sets_.wanted()});
      if (options_.survive_host) {
        Record& line = record_job("stored");
        line.set = sets_.wanted();
        line.age_ns = since_set_was_wanted_ns();
        line.cost_ns = cost_ns_;
        if (writes_parts()) set_is_written(sets_.wanted());
      }
      write_if_due();
      break;
    case SetDecision::kGiveUp:
    case SetDecision::kKeepOneByOne:
      // Storing the parts has cost the job time although the set is abandoned.
      lost_cost_ns_ += std::min(std::exchange(costs_ns_, 0), since_set_was_wanted_ns());
      act(Action::GiveUpSet{sets_.wanted(), decision == SetDecision::kKeepOneByOne});
      break;
  }
}

// The ranks of the host have ended with their agent, and no other agent can start them again.
void SupervisorCore::on(const Event::AgentLost& e) {
  if (is_over()) return;
  if (options_.survive_host && !stopping_) {
    const std::string why_not = why_not_survived(e.host);
    const std::string lost = host_text(e.host) + " is lost: its agent " + e.why;
    if (why_not.empty()) return replace(e.host, lost);
    const std::string told = lost + "; " + why_not;
    record_job("host_lost").text = told;
    begin_again_or_stop(kExitFailure, told + ", so the job ends");
  } else {
    // Its relay is lost, too: ranks of other hosts may wait for what it had not sent.
    begin_again_or_stop(kExitFailure, "the agent of " + host_text(e.host) + " " + e.why +
                                          ", and its ranks have ended with it, so the job ends");
  }
  if (begins_again_) {
    const std::string place = places_[e.host];
    // Without another place, an agent is tried there again.
    (move(e.host, partners()[e.host]) ? moved_ : gone_).insert(e.host);
    // Hosts that were lost before, and were to go on there.
    for (const std::uint32_t host : moved_) {
      if (host != e.host && places_[host] == place) move(host, partners()[host]);
    }
  }
  host_is_over(e.host);
}

void SupervisorCore::on(const Event::Spare& e) {
  if (!e.left.empty()) {
    std::erase(spares_, e.name);
    return tell("host " + e.name + ", which ran no rank, " + e.left);
  }
  std::string told = "host " + e.name + " has joined";
  if (e.in_place_of) {
    told += " and takes the place of " + lost_[*e.in_place_of];
    places_[*e.in_place_of] = e.name;
  } else {
    told += " as a spare";
    spares_.push_back(e.name);
    // For a host that is about to go: the ranks have gone on since its notice.
    if (!leaving_.empty()) set_before_ = sets_.newest_number();
  }
  record_job("joined").text = told;
  news(told);
}

std::string SupervisorCore::host_text(std::uint32_t host) const {
  const bool is_awaited = options_.agents_join() && places_[host].empty();
  if (is_awaited && lost_.contains(host)) return lost_.at(host);
  return "host " + (places_[host].empty() ? std::to_string(host) : places_[host]);
}

// --- The loss of a host

// The host after it, or the next one behind that which is another machine.
std::vector<std::uint32_t> SupervisorCore::partners() const {
  const auto hosts = static_cast<std::uint32_t>(places_.size());
  std::vector<std::uint32_t> partners;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    std::uint32_t partner = (host + 1) % hosts;
    for (std::uint32_t i = 1; i < hosts; ++i) {
      const std::uint32_t next = (host + i) % hosts;
      if (places_[next] == places_[host]) continue;
      partner = next;
      break;
    }
    partners.push_back(partner);
  }
  return partners;
}

// Why the ranks of a host that is lost now cannot go on; empty: they can.
std::string SupervisorCore::why_not_survived(std::uint32_t host) const {
  if (sets_.newest() == 0) return "there is no set of snapshots of all ranks yet";
  if (recycles_) return "the journal was full, and the past cannot be replayed";
  if (replaced_.contains(host)) {
    if (!has_another_place(host)) return "its ranks cannot go on there";
  } else if (!replaced_.empty() && options_.agents_join()) {
    return "it comes while the ranks of another lost host are being started";
  }
  for (const auto& [other, tried] : replaced_) {
    if (other == host || writes_parts() || holders_[other] != host) continue;
    return "it held the part of the snapshots of " + lost_.at(other) +
           ", whose ranks are being started elsewhere";
  }
  const std::uint32_t holder = writes_parts() ? host : holders_[host];
  if (holder != host && lost_.contains(holder)) {
    return lost_.at(holder) + ", which held its part of the snapshots, was lost before it";
  }
  if (hosts_over_ > 0) {
    return "the ranks of a host had ended already, and cannot go back";
  }
  if (has_input_ && options_.first_rank_of(host) == 0) {
    return "it had rank 0, which has read standard input, and that is kept nowhere else (--stdin "
           "none, or a file that the program opens)";
  }
  if (!spares_.empty() || options_.beside || options_.agents_join()) return {};
  return "no spare host is left (--spares, or --oversubscribe-on-loss to go on on another host of "
         "the job)";
}

// The place that was tried for the ranks of a lost host has failed, too.
bool SupervisorCore::has_another_place(std::uint32_t host) const {
  return !spares_.empty() || (options_.beside && find_beside(host, host));
}

// Another host of the job that is on another machine, is not about to go, and was not tried in
// vain. Begins to look at `from`.
std::optional<std::uint32_t> SupervisorCore::find_beside(std::uint32_t host,
                                                         std::uint32_t from) const {
  const auto hosts = static_cast<std::uint32_t>(places_.size());
  const auto replaced = replaced_.find(host);
  for (std::uint32_t i = 0; i < hosts; ++i) {
    const std::uint32_t other = (from + i) % hosts;
    const bool has_failed =
        replaced != replaced_.end() && replaced->second.contains(places_[other]);
    const bool is_elsewhere = other != host && places_[other] != places_[host];
    if (is_elsewhere && !leaving_.contains(other) && !has_failed) return other;
  }
  return {};
}

// Gives the ranks of a host another place. Returns whether there is one.
bool SupervisorCore::move(std::uint32_t host, std::uint32_t holder) {
  if (!spares_.empty()) {
    places_[host] = spares_.front();
    spares_.erase(spares_.begin());
  } else if (options_.beside) {
    places_[host] = places_[find_beside(host, holder).value_or(holder)];
  } else {
    return false;
  }
  return true;
}

// If agents join, the place of one that is gone is empty, and a spare may have joined since.
Beginning SupervisorCore::next_beginning() {
  for (std::uint32_t host = 0; host < places_.size() && options_.agents_join(); ++host) {
    const bool is_gone = gone_.contains(host) || places_[host].empty();
    if (is_gone && !move(host, host)) places_[host] = "";
  }
  Losses losses = losses_;
  losses.begins_again(now_ns_);
  return {0, 0, std::move(losses), totals_, places_, spares_};
}

void SupervisorCore::replace(std::uint32_t host, const std::string& why) {
  const auto holder_of = [&](std::uint32_t h) {
    return writes_parts() ? partners()[h] : holders_[h];
  };
  const std::uint32_t holder = holder_of(host);
  const std::string former = host_text(host), place = places_[host];
  if (goes_back_ && !replaced_.empty()) news(goes_back_->why);  // it has not been said yet
  leaving_.erase(host);
  // The places where it was tried in vain.
  if (const auto tried = replaced_.find(host); tried != replaced_.end()) {
    tried->second.insert(places_[host]);
  }
  if (options_.agents_join() && spares_.empty()) {
    places_[host] = "";
  } else {
    move(host, holder);
  }
  lost_[host] = former;
  replaced_.try_emplace(host);
  const std::string where = !places_[host].empty()   ? "host " + places_[host]
                            : options_.agents_join() ? "the next host that joins, within " +
                                                           duration_text(options_.join_ns)
                                                     : "this machine";
  const std::string told = why + "; its ranks go on on " + where;
  record_job("host_lost").text = told;
  go_back({options_.first_rank_of(host),
           told,
           told + "; another host has lost its snapshots, so the job ends",
           kExitFailure,
           {}});
  // Those that are being started for another lost host know an earlier incarnation, and may not be
  // there yet: they are started anew, and elsewhere if they were to be on the host that is lost
  // now.
  for (auto& [each, tried] : replaced_) {
    if (each != host && !place.empty() && places_[each] == place) {
      tried.insert(place);
      move(each, holder_of(each));
    }
    act(Action::Replace{each, places_[each], sets_.newest(), holder_of(each), back_as_});
  }
}

}  // namespace rejoin::launcher
