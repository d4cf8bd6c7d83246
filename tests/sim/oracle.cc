#include "oracle.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "engine/region.h"

namespace rejoin::sim {

using engine::ContextBlock;
using engine::Log;
using engine::Record;

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
  groups_of_.assign(engine::header_of(base)->ranks, {});
  incarnations_.assign(engine::header_of(base)->ranks, 0);
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
  if (reference_ != nullptr) {
    const auto same = reference_->groups_.find(context);
    if (same != reference_->groups_.end()) g.reference = &same->second;
  }
  for (std::uint32_t i = 0; i < size; ++i) groups_of_[members[i]].emplace_back(&g, i);
  return g;
}

void Oracle::made(Group& g, std::uint32_t member, ContextBlock* block) { g.blocks[member] = block; }

void Oracle::entered(Group& g, std::uint64_t sequence, std::uint32_t member) {
  if (g.keys.size() <= sequence) g.keys.resize(sequence + 1);
  g.keys[sequence].entered[member / 64] |= std::uint64_t{1} << member % 64;
  if (g.operations[member] <= sequence) g.operations[member] = sequence + 1;
}

const char* Oracle::returned_uniform(Group& g, std::uint64_t sequence, std::uint32_t member,
                                     bool failed, bool synchronises, const void* data,
                                     std::size_t bytes) {
  Key& key = g.keys[sequence];
  const std::uint64_t hash = failed ? 1 : hash_of_bytes(data, bytes);
  const auto at = static_cast<unsigned long long>(sequence);
  if (key.uniform && (key.hash != hash || key.failed != failed)) {
    return broken(
        "I1: rank %u is given other bytes for operation %llu of context %llx than somebody "
        "was before",
        g.members[member], at, static_cast<unsigned long long>(g.context));
  }
  if (!key.uniform) {
    key.uniform = true;
    key.failed = failed;
    key.bytes = bytes;
    key.hash = hash;
  }
  if (g.reference != nullptr) {
    if (g.reference->keys.size() <= sequence || g.reference->keys[sequence].hash != hash) {
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

const char* Oracle::returned_channel(Group& g, std::uint64_t sequence, std::uint32_t member,
                                     bool failed, std::uint64_t hash) {
  Key& key = g.keys[sequence];
  if (key.own.empty()) key.own.assign(g.members.size(), 0);
  const auto at = static_cast<unsigned long long>(sequence);
  if (failed) hash = 1;
  if (key.own[member] != 0 && key.own[member] != hash) {
    return broken("I1: rank %u is given other bytes for operation %llu than in its former life",
                  g.members[member], at);
  }
  key.own[member] = hash;
  key.failed = key.failed || failed;
  if (g.reference != nullptr &&
      (g.reference->keys.size() <= sequence || g.reference->keys[sequence].own.size() <= member ||
       g.reference->keys[sequence].own[member] != hash)) {
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

// ------------------------------------------------------------------------------------------
// messages

Log& Oracle::log(std::uint32_t from, std::uint32_t to) {
  return reinterpret_cast<Log*>(base_ + engine::region_of(base_, from)->channels)[to];
}

std::uint64_t Oracle::consumed(std::uint32_t by, std::uint32_t from) {
  auto* words =
      reinterpret_cast<std::atomic<std::uint64_t>*>(base_ + engine::region_of(base_, by)->consumed);
  return words[from].load();
}

bool Oracle::offered(std::uint32_t from, std::uint32_t to, std::uint64_t k, std::uint64_t hash) {
  Channel& c = channels_[{from, to}];
  if (c.messages.size() <= k) c.messages.resize(k + 1);
  if (log(from, to).tail.load() > k) return false;
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
  if (consumed(to, from) <= k) {
    return broken("I2: rank %u has received message %llu from rank %u without a record", to, at,
                  from);
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------
// words

const char* Oracle::check_tail(Group& g, std::uint32_t member, std::uint32_t mover) {
  if (g.blocks[member] == nullptr) return nullptr;
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
    if (tail < c.tail || taken < c.consumed || taken > tail) {
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
  constexpr std::size_t kAllRanks = 5, kAllChannels = 8;  // in larger jobs only what the rank owns
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
  return groups_of_.size() <= kAllChannels ? check_channels(rank) : nullptr;
}

const char* Oracle::words_after_agent() {
  const std::uint32_t epoch = engine::header_of(base_)->epoch.load();
  if (epoch < epoch_) return broken("I5: the epoch goes back from %u to %u", epoch_, epoch);
  epoch_ = epoch;
  for (std::uint32_t r = 0; r < incarnations_.size(); ++r) {
    const std::uint32_t now = engine::control_of(base_, r)->incarnation.load();
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

// -----------------------------------------------------------------------------------------------
// end

const char* Oracle::check_journal(const Group& g) {
  for (std::uint32_t i = 0; i < g.members.size(); ++i) {
    if (g.blocks[i] == nullptr) continue;
    Log& records = g.blocks[i]->records;
    if (records.rings.load() != 0) continue;  // beyond the journal limit nothing is kept
    if (records.tail.load() != g.operations[i]) {
      return broken("journal: rank %u has %llu records of %llu operations", g.members[i],
                    static_cast<unsigned long long>(records.tail.load()),
                    static_cast<unsigned long long>(g.operations[i]));
    }
    for (std::uint64_t s = 0; s < g.operations[i]; ++s) {
      const Key& key = g.keys[s];
      if (!key.uniform || key.failed) continue;
      const Record& r = *engine::log_at<Record>(base_, records, s);
      const void* data =
          key.bytes <= engine::kInlineBytes ? static_cast<const void*>(&r.value) : base_ + r.value;
      if ((r.call & engine::kFailed) != 0 || hash_of_bytes(data, key.bytes) != key.hash) {
        return broken(
            "journal: rank %u's record of operation %llu of context %llx leads to other bytes "
            "than were handed out",
            g.members[i], static_cast<unsigned long long>(s),
            static_cast<unsigned long long>(g.context));
      }
    }
  }
  return nullptr;
}

const char* Oracle::end(bool complete) {
  for (const auto& [context, g] : groups_) {
    if (g.members.size() == 1) continue;
    if (const char* why = check_journal(g)) return why;
  }
  for (const auto& [ends, c] : channels_) {
    const auto [from, to] = ends;
    const std::uint64_t tail = log(from, to).tail.load();
    if (complete && (tail != c.messages.size() || consumed(to, from) != tail)) {
      return broken("messages: %llu posted and %llu received of %zu from rank %u to %u",
                    static_cast<unsigned long long>(tail),
                    static_cast<unsigned long long>(consumed(to, from)), c.messages.size(), from,
                    to);
    }
  }
  return nullptr;
}

bool Oracle::only_done_hold(const Group& g, std::uint64_t sequence,
                            const std::vector<bool>& done) const {
  bool held = false;
  for (std::uint32_t i = 0; i < g.members.size(); ++i) {
    if (g.blocks[i] == nullptr || g.blocks[i]->records.tail.load() <= sequence) continue;
    if (!done[g.members[i]]) return false;
    held = true;
  }
  return held;
}

}  // namespace rejoin::sim
