#include "oracle.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "journal/log.h"
#include "journal/pieces.h"

namespace rejoin::sim {

using journal::ContextBlock;
using journal::Log;
using journal::Record;

std::uint64_t hash_of_bytes(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t h = 0x51ed270b7a3d1f05u + bytes;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = (h ^ word) * 0x9fb21c651e98df25u;
    h ^= h >> 29;
  }
  std::uint64_t word = 0;
  if (bytes > 0) std::memcpy(&word, p, bytes);
  h = (h ^ word) * 0x9fb21c651e98df25u;
  return (h ^ h >> 32) | 1;
}

const char* Oracle::broken(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
  return text_;
}

void Oracle::begin(std::byte* base, const Oracle* reference) {
  base_ = base;
  reference_ = reference;
  groups_.clear();
  channels_.clear();
  const std::uint32_t ranks = journal::header_of(base)->ranks;
  groups_of_.assign(ranks, {});
  versions_.assign(ranks, {});
  prepared_.assign(ranks, 0);
  safe_.assign(ranks, 0);
  states_.assign(ranks, 0);
  incarnations_.assign(ranks, 0);
  epoch_ = 0;
}

Group& Oracle::group(std::uint64_t context, const std::uint32_t* members, std::uint32_t size) {
  auto [it, fresh] = groups_.try_emplace(context);
  Group& g = it->second;
  if (!fresh) return g;
  g.context = context;
  g.members.assign(members, members + size);
  g.blocks.assign(size, nullptr);
  g.tails.assign(size, 0);
  g.operations.assign(size, 0);
  g.born.assign(size, 0);
  if (reference_ != nullptr) {
    const auto same = reference_->groups_.find(context);
    if (same != reference_->groups_.end()) g.reference = &same->second;
  }
  for (std::uint32_t i = 0; i < size; ++i) groups_of_[members[i]].emplace_back(&g, i);
  return g;
}

void Oracle::made(Group& g, std::uint32_t member, ContextBlock* block) {
  const auto& versions = versions_[g.members[member]];
  if (g.blocks[member] == nullptr && !versions.empty()) g.born[member] = versions.rbegin()->first;
  g.blocks[member] = block;
}

void Oracle::entered(Group& g, std::uint64_t sequence, std::uint32_t member) {
  if (g.keys.size() <= sequence) g.keys.resize(sequence + 1);
  g.keys[sequence].entered[member / 64] |= std::uint64_t{1} << member % 64;
  if (g.operations[member] <= sequence) g.operations[member] = sequence + 1;
}

const char* Oracle::returned_replicated(Group& g, std::uint64_t sequence, std::uint64_t number,
                                        std::uint32_t member, bool failed, bool synchronises,
                                        const void* data, std::size_t bytes) {
  Key& key = g.keys[sequence];
  const std::uint64_t hash = failed ? 1 : hash_of_bytes(data, bytes);
  const auto at = static_cast<unsigned long long>(sequence);
  if (key.replicated && (key.hash != hash || key.failed != failed)) {
    return broken(
        "I1: rank %u is given other bytes for operation %llu of context %llx than another "
        "was before",
        g.members[member], at, static_cast<unsigned long long>(g.context));
  }
  if (!key.replicated) {
    key.replicated = true;
    key.failed = failed;
    key.bytes = bytes;
    key.hash = hash;
  }
  if (g.reference != nullptr) {
    if (g.reference->keys.size() <= number || g.reference->keys[number].hash != hash) {
      return broken(
          "I1: rank %u is given other bytes for operation %llu of context %llx than in the "
          "run without failures",
          g.members[member], at, static_cast<unsigned long long>(g.context));
    }
  }
  for (std::uint32_t i = 0; synchronises && !failed && i < g.members.size(); ++i) {
    if ((key.entered[i / 64] >> i % 64 & 1) == 0) {
      return broken("barrier: rank %u returns from operation %llu before rank %u has entered it",
                    g.members[member], at, g.members[i]);
    }
  }
  if (g.members.size() > 1 && g.blocks[member]->records.tail.load() <= sequence) {
    return broken("I2: rank %u returns from operation %llu without a record", g.members[member],
                  at);
  }
  return nullptr;
}

const char* Oracle::returned_channel(Group& g, std::uint64_t sequence, std::uint64_t number,
                                     std::uint32_t member, bool failed, std::uint64_t hash) {
  Key& key = g.keys[sequence];
  if (key.own.empty()) key.own.assign(g.members.size(), 0);
  const auto at = static_cast<unsigned long long>(sequence);
  if (failed) hash = 1;
  if (key.own[member] != 0 && key.own[member] != hash) {
    return broken(
        "I1: rank %u is given other bytes for operation %llu than in a former incarnation",
        g.members[member], at);
  }
  key.own[member] = hash;
  key.failed = key.failed || failed;
  if (g.reference != nullptr &&
      (g.reference->keys.size() <= number || g.reference->keys[number].own.size() <= member ||
       g.reference->keys[number].own[member] != hash)) {
    return broken(
        "I1: rank %u is given other bytes for operation %llu than in the run without "
        "failures",
        g.members[member], at);
  }
  if (g.members.size() > 1 && g.blocks[member]->records.tail.load() <= sequence) {
    return broken("I2: rank %u returns from operation %llu without a record", g.members[member],
                  at);
  }
  return nullptr;
}

// --- Messages

Log& Oracle::log(std::uint32_t from, std::uint32_t to) {
  return reinterpret_cast<Log*>(base_ + journal::region_of(base_, from)->channels)[to];
}

std::uint64_t Oracle::consumed(std::uint32_t by, std::uint32_t from) {
  auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(
      base_ + journal::region_of(base_, by)->consumed);
  return words[from].load();
}

// A message exists when its own word says so; the tail follows.
bool Oracle::is_posted(std::uint32_t from, std::uint32_t to, std::uint64_t k) {
  const std::uint64_t tail = log(from, to).tail.load();
  if (tail != k) return tail > k;
  std::uint64_t run;
  const auto* e = journal::log_place<journal::ChannelEntry>(base_, log(from, to), k, &run);
  return e != nullptr && e->ready.load() == k + 1;
}

bool Oracle::offered(std::uint32_t from, std::uint32_t to, std::uint64_t k, std::uint64_t hash) {
  Channel& c = channels_[{from, to}];
  if (c.messages.size() <= k) c.messages.resize(k + 1);
  if (is_posted(from, to, k)) return false;
  c.offered += c.messages[k].offered == 0;
  c.messages[k].offered = hash;
  return true;
}

const char* Oracle::posted(std::uint32_t from, std::uint32_t to, std::uint64_t k) {
  if (log(from, to).tail.load() > k) return nullptr;
  return broken("messages: rank %u has sent message %llu to rank %u, but it is not posted", from,
                static_cast<unsigned long long>(k), to);
}

const char* Oracle::received(std::uint32_t from, std::uint32_t to, std::uint64_t k,
                             std::uint64_t hash, bool* again) {
  Channel& c = channels_[{from, to}];
  const auto at = static_cast<unsigned long long>(k);
  if (c.messages.size() <= k) {
    return broken("messages: rank %u receives message %llu from rank %u, which never sent it", to,
                  at, from);
  }
  Message& m = c.messages[k];
  if (m.offered != hash) {
    return broken("messages: rank %u receives as message %llu of rank %u not what was posted", to,
                  at, from);
  }
  *again = m.received != 0;
  if (*again && m.received != hash) {
    return broken("messages: message %llu from rank %u to %u is another one than before", at, from,
                  to);
  }
  m.received = hash;
  return nullptr;
}

// --- Words

const char* Oracle::check_tail(Group& g, std::uint32_t member, std::uint32_t mover) {
  if (!g.has_block(member)) return nullptr;
  const std::uint64_t tail = g.blocks[member]->records.tail.load();
  const auto before = static_cast<unsigned long long>(g.tails[member]);
  const auto now = static_cast<unsigned long long>(tail);
  if (tail < g.tails[member]) {
    return broken("I5: the records of rank %u go back from %llu to %llu", g.members[member], before,
                  now);
  }
  if (tail > g.tails[member] && (g.members[member] != mover || tail > g.tails[member] + 1)) {
    return broken("I5: the records of rank %u move from %llu to %llu in a turn of rank %u",
                  g.members[member], before, now, mover);
  }
  g.tails[member] = tail;
  return nullptr;
}

const char* Oracle::check_channels(std::uint32_t rank) {
  for (auto& [ends, c] : channels_) {
    const auto [from, to] = ends;
    if (from != rank && to != rank) continue;
    const std::uint64_t tail = log(from, to).tail.load();
    const std::uint64_t taken = consumed(to, from);
    const bool one_more = is_posted(from, to, tail);
    if (!std::exchange(c.watched, true)) {  // it may have advanced operations of others
      c.tail = tail;
      c.consumed = taken;
    }
    if (tail < c.tail || taken < c.consumed || taken > tail + one_more) {
      return broken("I5: the channel from rank %u to %u goes back, or is read past its end", from,
                    to);
    }
    if ((tail != c.tail && from != rank) || (taken != c.consumed && to != rank)) {
      return broken("I5: the channel from rank %u to %u moves in a turn of rank %u", from, to,
                    rank);
    }
    c.tail = tail;
    c.consumed = taken;
  }
  return nullptr;
}

const char* Oracle::words_after_turn(std::uint32_t rank) {
  // In larger jobs only the words that the rank owns.
  constexpr std::size_t kAllRanks = 5, kAllChannels = 8;
  if (groups_of_.size() <= kAllRanks) {
    for (auto& [context, g] : groups_) {
      for (std::uint32_t i = 0; i < g.members.size(); ++i) {
        if (const char* why = check_tail(g, i, rank)) return why;
      }
    }
  } else {
    for (auto& [g, member] : groups_of_[rank]) {
      if (const char* why = check_tail(*g, member, rank)) return why;
    }
  }
  if (groups_of_.size() > kAllChannels) return nullptr;
  const char* why = check_channels(rank);
  return why != nullptr ? why : check_versions(rank);
}

const char* Oracle::words_after_agent(bool all_back) {
  for (std::uint32_t r = 0; all_back && r < prepared_.size(); ++r) {
    if (prepared(r) > prepared_[r]) return broken("I5: the versions of rank %u go ahead", r);
    prepared_[r] = prepared(r);
  }
  const std::uint32_t epoch = journal::header_of(base_)->epoch.load();
  if (epoch < epoch_) return broken("I5: the epoch goes back from %u to %u", epoch_, epoch);
  epoch_ = epoch;
  for (std::uint32_t r = 0; r < incarnations_.size(); ++r) {
    const std::uint32_t now = journal::control_of(base_, r)->incarnation.load();
    if (now < incarnations_[r]) {
      return broken("I5: the incarnation of rank %u goes back from %u to %u", r, incarnations_[r],
                    now);
    }
    incarnations_[r] = now;
  }
  if (groups_of_.size() > 5) return nullptr;
  for (auto& [context, g] : groups_) {
    for (std::uint32_t i = 0; i < g.members.size(); ++i) {
      if (const char* why = check_tail(g, i, kMaxSimRanks)) return why;
    }
  }
  return nullptr;
}

// --- End

// Whether a rank that may go back to version `from` still needs this record.
bool Oracle::is_kept(const Group& g, std::uint32_t member, std::uint64_t sequence,
                     std::uint64_t from) const {
  const std::uint32_t rank = g.members[member];
  // Its block may have been cleared for another context, by a process that died before it was used.
  if (journal::find_context(base_, rank, g.context).reclaimed()) return false;
  if (const std::uint64_t image = journal::control_of(base_, rank)->kept_image.load(); image != 0) {
    const journal::Image* v = journal::find_image(base_, rank, image);
    const journal::Cursor* c =
        v == nullptr ? nullptr : journal::cursor_of(base_, v->marks, g.context);
    if (c != nullptr) return sequence >= c->sequence;
    const journal::ContextBlock* block = g.blocks[member];  // made after the image, or past
    return v != nullptr && block->context == g.context && block->freed.load() == 0;
  }
  const auto& versions = versions_[rank];
  if (from == 0 || versions.empty()) return true;
  const auto next = [&](const Version& v) {
    const auto it = v.next.find(g.context);
    return it == v.next.end() ? 0 : it->second;
  };
  const Version& then = versions.at(from);
  if (sequence < next(versions.begin()->second)) return true;  // bootstrap phase
  if (then.next.contains(g.context)) return sequence >= next(then);
  // Created and freed in the bootstrap phase, or later.
  return g.born[member] == 0 || g.born[member] >= from;
}

const char* Oracle::check_records(const Group& g, std::uint32_t member, std::uint64_t from) {
  Log& records = g.blocks[member]->records;
  const std::uint64_t tail = records.tail.load();
  for (std::uint64_t s = 0; s < tail && s < g.keys.size(); ++s) {
    const Key& key = g.keys[s];
    if (!key.replicated || key.failed || !is_kept(g, member, s, from)) continue;
    const Record& r = *journal::log_at<Record>(base_, records, s);
    const bool small = key.bytes <= journal::kInlineBytes;
    const std::uint64_t at = r.value & ~journal::kInPieces;
    if (!small && at >= journal::header_of(base_)->segment_bytes) {
      return broken("journal: rank %u's record of operation %llu of context %llx leads nowhere",
                    g.members[member], static_cast<unsigned long long>(s),
                    static_cast<unsigned long long>(g.context));
    }
    const void* data = small ? static_cast<const void*>(&r.value) : base_ + at;
    std::vector<std::byte> together;
    if (!small && journal::is_in_pieces(r.value)) {
      journal::for_each_piece(base_, r.value, key.bytes,
                              [&](std::uint64_t, const std::byte* bytes, std::uint64_t n) {
                                together.insert(together.end(), bytes, bytes + n);
                              });
      data = together.data();
    }
    if ((r.call & journal::kRecordFailed) != 0 || hash_of_bytes(data, key.bytes) != key.hash) {
      return broken(
          "journal: rank %u's record of operation %llu of context %llx leads to other bytes "
          "than were handed out",
          g.members[member], static_cast<unsigned long long>(s),
          static_cast<unsigned long long>(g.context));
    }
  }
  return nullptr;
}

const char* Oracle::check_journal(const Group& g) {
  if (journal::header_of(base_)->recycles.load() != journal::Recycles::kNot)
    return nullptr;  // nothing is retained
  std::uint64_t line = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < versions_.size(); ++r) {
    line = std::min(line, journal::control_of(base_, r)->kept.load());
  }
  for (std::uint32_t i = 0; i < g.members.size(); ++i) {
    if (!g.has_block(i)) continue;
    const std::uint64_t tail = g.blocks[i]->records.tail.load();
    if (tail != g.operations[i]) {
      return broken("journal: rank %u has %llu records of %llu operations", g.members[i],
                    static_cast<unsigned long long>(tail),
                    static_cast<unsigned long long>(g.operations[i]));
    }
    if (const char* why = check_records(g, i, line)) return why;
  }
  return nullptr;
}

// --- Checkpoints

std::uint64_t Oracle::prepared(std::uint32_t rank) const {
  return journal::control_of(base_, rank)->prepared.load();
}

std::uint64_t Oracle::committed() const {
  std::uint64_t least = prepared(0);
  for (std::uint32_t r = 1; r < versions_.size(); ++r) least = std::min(least, prepared(r));
  return least;
}

const char* Oracle::comes_to(std::uint32_t rank, std::uint64_t v, std::uint64_t state) {
  const auto [it, fresh] = versions_[rank].try_emplace(v);
  const auto number = static_cast<unsigned long long>(v);
  if (!fresh && it->second.state != state) {
    return broken("checkpoints: rank %u comes to checkpoint %llu with another state than before",
                  rank, number);
  }
  const auto* then = reference_ == nullptr ? nullptr : &reference_->versions_[rank];
  if (then != nullptr && (!then->contains(v) || then->at(v).state != state)) {
    return broken(
        "checkpoints: rank %u comes to checkpoint %llu with another state than in the run "
        "without failures",
        rank, number);
  }
  it->second.state = state;
  return nullptr;
}

const char* Oracle::saves(std::uint32_t rank, std::uint64_t v, std::uint64_t state,
                          const Models& models, const Count* counts, std::size_t count) {
  if (const char* why = comes_to(rank, v, state)) return why;
  if (prepared(rank) >= v) return nullptr;
  Version& version = versions_[rank].at(v);
  version.models = models;
  version.next.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (counts[i].context != 0) version.next[counts[i].context] = counts[i].next;
  }
  return nullptr;
}

const char* Oracle::saved(std::uint32_t rank, std::uint64_t v) {
  const auto number = static_cast<unsigned long long>(v);
  if (committed() < v) {
    return broken("checkpoints: rank %u returns from checkpoint %llu before all have prepared it",
                  rank, number);
  }
  using journal::Return;
  const Return decided = journal::header_of(base_)->goes_back_to.load();
  if (decided == Return::kUndecided) {
    return broken("checkpoints: rank %u returns from checkpoint %llu and nothing is decided", rank,
                  number);
  }
  if (decided == Return::kVersions && journal::control_of(base_, rank)->kept.load() < v) {
    return broken("checkpoints: rank %u returns from checkpoint %llu and may go back behind it",
                  rank, number);
  }
  return nullptr;
}

bool Oracle::gave(std::uint32_t rank, std::uint64_t v, const void* global, std::size_t global_bytes,
                  const void* local, std::size_t local_bytes) const {
  const auto given = versions_[rank].find(v);
  if (given == versions_[rank].end()) return false;
  const Models& models = given->second.models;
  return (global == nullptr || hash_of_bytes(global, global_bytes) == models.global) &&
         hash_of_bytes(local, local_bytes) == models.local;
}

const char* Oracle::loaded(std::uint32_t rank, std::uint64_t committed_before,
                           const recovery::Loaded& loaded) {
  const std::uint64_t v = loaded.version;
  const auto number = static_cast<unsigned long long>(v);
  if (journal::header_of(base_)->goes_back_to.load() != journal::Return::kVersions) {
    if (v == 0) return nullptr;
    return broken("checkpoints: rank %u loads version %llu in a job that has no versions", rank,
                  number);
  }
  if (v > committed()) {
    return broken("checkpoints: rank %u loads version %llu, which some rank has not prepared", rank,
                  number);
  }
  if (v < committed_before || v < journal::control_of(base_, rank)->kept.load()) {
    return broken("checkpoints: rank %u loads version %llu, and there is a newer one", rank,
                  number);
  }
  if (v == 0) return nullptr;
  if (!versions_[rank].contains(v) || !versions_[0].contains(v)) {
    return broken("checkpoints: rank %u loads version %llu, which it never gave", rank, number);
  }
  const Models given = {hash_of_bytes(loaded.global, loaded.global_bytes),
                        hash_of_bytes(loaded.local, loaded.local_bytes)};
  const Models expected = {versions_[0].at(v).models.global, versions_[rank].at(v).models.local};
  if (given != expected) {
    return broken(
        "checkpoints: rank %u loads version %llu with other models than were given for it", rank,
        number);
  }
  for (const auto& [g, member] : groups_of_[rank]) {
    if (!g->has_block(member) || g->members.size() == 1) continue;
    if (const char* why = check_records(*g, member, v)) return why;
  }
  return nullptr;
}

const char* Oracle::finished(std::uint32_t rank, std::uint64_t state) {
  const bool differs = (states_[rank] != 0 && states_[rank] != state) ||
                       (reference_ != nullptr && reference_->states_[rank] != state);
  states_[rank] = state;
  return differs ? broken("checkpoints: rank %u ends in another state", rank) : nullptr;
}

const char* Oracle::check_versions(std::uint32_t rank) {
  const std::uint64_t all = committed();
  for (std::uint32_t r = 0; r < prepared_.size(); ++r) {
    const std::uint64_t prepared_now = prepared(r);
    const std::uint64_t safe_now = journal::control_of(base_, r)->kept.load();
    if (prepared_now < prepared_[r] || safe_now < safe_[r] || safe_now > all) {
      return broken("I5: the versions of rank %u go back, or it is past one that some rank lacks",
                    r);
    }
    const auto decided = journal::header_of(base_)->goes_back_to.load();
    if (safe_now != 0 && decided != journal::Return::kVersions) {
      return broken("S2: rank %u keeps a version, to which no rank goes back in this job", r);
    }
    if (r != rank && (prepared_now != prepared_[r] || safe_now != safe_[r])) {
      return broken("I5: the versions of rank %u move in a turn of rank %u", r, rank);
    }
    prepared_[r] = prepared_now;
    safe_[r] = safe_now;
  }
  return nullptr;
}

const char* Oracle::end(bool complete, const MessageOracle& others) {
  for (const auto& [context, g] : groups_) {
    if (g.members.size() == 1) continue;
    if (const char* why = check_journal(g)) return why;
  }
  for (const auto& [ends, c] : channels_) {
    const auto [from, to] = ends;
    const std::uint64_t tail = log(from, to).tail.load();
    const std::uint64_t all = c.offered + others.count(from, to);
    if (complete && (tail != all || consumed(to, from) != tail)) {
      return broken("messages: %llu posted and %llu received of %llu from rank %u to %u",
                    static_cast<unsigned long long>(tail),
                    static_cast<unsigned long long>(consumed(to, from)),
                    static_cast<unsigned long long>(all), from, to);
    }
  }
  return nullptr;
}

bool Oracle::only_done_hold(const Group& g, std::uint64_t sequence,
                            const std::vector<bool>& done) const {
  bool held = false;
  for (std::uint32_t i = 0; i < g.members.size(); ++i) {
    if (!g.has_block(i) || g.blocks[i]->records.tail.load() <= sequence) continue;
    if (!done[g.members[i]]) return false;
    held = true;
  }
  return held;
}

}  // namespace rejoin::sim
