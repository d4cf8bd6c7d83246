#include "journal/put_back.h"

#include <algorithm>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/log.h"
#include "journal/shared.h"

namespace rejoin::journal {
namespace {

using Ranks = std::span<const std::uint32_t>;

bool contains(Ranks ranks, std::uint32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Goes back with one rank, whose image has these marks. Its region is a copy unless it is one of
// `own`: then it has only what the ranks `own` read, and its logs may end earlier.
class OneRank {
 public:
  OneRank(std::byte* base, Ranks own, std::uint32_t rank, std::uint64_t set, Rule broken)
      : base_(base),
        own_(own),
        rank_(rank),
        is_copy_(!contains(own, rank)),
        set_(set),
        broken_(broken),
        head_(*region_of(base, rank)),
        control_(*control_of(base, rank)),
        image_(*find_image(base, rank, set)),
        marks_(image_.marks) {}

  void go_back() {
    contexts();
    for (std::uint32_t to = 0; to < header_of(base_)->ranks; ++to) {
      if (!is_copy_ || contains(own_, to)) channel(to);
    }
    for (std::uint32_t from = 0; from < header_of(base_)->ranks; ++from) {
      put(consumed_of(base_, rank_)[from], received_of(base_, marks_)[from]);
    }
    checkpoints();
    put(control_.kept_image, set_);
    if (is_copy_) return;
    matches();
    put(head_.outcomes.tail, marks_.outcomes);
    put(head_.cancelled.tail, marks_.cancelled);
    put(head_.synchronous, marks_.synchronous);
    put(head_.observations.tail, marks_.observations);
    for (Image& image : head_.image) {
      if (image.marks.number.load() != set_) put(image.marks.number, 0);
    }
    put(control_.repeating, 0);
    control_.snapshot_wanted.store(kAgentStores, Step::kSame, set_);
  }

 private:
  // --- Contexts

  void contexts() {
    const ContextTables& all = head_.contexts;
    for (std::uint32_t k = 0; k < all.tables.load(); ++k) {
      auto* table = reinterpret_cast<ContextEntry*>(base_ + all.at[k]);
      for (std::uint64_t i = 0; i < std::uint64_t{kFirstTableEntries} << k; ++i) context(table[i]);
    }
  }
  void context(ContextEntry& entry) {
    const std::uint64_t id = entry.context.load();
    if (id == 0 || id == kForgottenContext || entry.block.load() == kReclaimed) return;
    auto& block = *reinterpret_cast<ContextBlock*>(base_ + entry.block.load());
    for (Slot& slot : block.slot) put(slot.tag, 0);
    for (Contribution& c : block.contribution) {
      if (holds(Rule::kForgetContributions)) put(c.sequence, 0);
    }
    if (const Cursor* cursor = cursor_of(base_, marks_, id)) {
      const std::uint64_t there = is_copy_ ? block.records.tail.load() : cursor->sequence;
      const std::uint64_t end = std::min(there, cursor->sequence);
      if (holds(Rule::kRecordsGoBack)) put(block.records.tail, end);
      if (block.departures != 0) departures(block, cursor->sequence);
      put(block.freed, 0);
      return;
    }
    // It was past then, too. The ordinal does not tell: the image may have been made inside the
    // operation behind which the context was freed.
    if (block.freed.load() != 0 && block.free_number.load() <= marks_.frees) return;
    put(entry.context, kForgottenContext);
    put(entry.block, kReclaimed);
    if (is_copy_) {
      // The owner may use the block again, for a context with this id.
      put(block.records.tail, 0);
      if (block.departures != 0) put(reinterpret_cast<Log*>(base_ + block.departures)->tail, 0);
      block.context = 0;
      return;
    }
    block.next_reclaimed = head_.reclaimed_blocks;
    head_.reclaimed_blocks = static_cast<Offset>(reinterpret_cast<std::byte*>(&block) - base_);
  }

  // What was given in an operation that has no record is given again.
  void departures(const ContextBlock& block, std::uint64_t sequence) {
    if (!holds(Rule::kDeparturesGoBack)) return;
    Log& log = *reinterpret_cast<Log*>(base_ + block.departures);
    std::uint64_t k = log.tail.load();
    for (; k > 0; --k) {
      const Departure& d = *log_at<Departure>(base_, log, k - 1);
      if (d.ready.load() != k || d.sequence.load() < sequence) break;
    }
    put(log.tail, k);
  }

  // --- Messages

  void channel(std::uint32_t to) {
    Log& log = reinterpret_cast<Log*>(base_ + head_.channels)[to];
    const std::uint64_t tail = log.tail.load();
    const std::uint64_t all_sent = sent_of(base_, marks_)[to];
    // A copy may end earlier, and have one more message.
    const std::uint64_t sent = is_copy_ ? std::min(all_sent, tail + 1) : all_sent;
    // One more message may be posted than the tail says.
    for (std::uint64_t k = sent; k <= tail; ++k) {
      ChannelEntry* e = entry(log, k);
      const bool is_void = e != nullptr && e->ready.load() == k + 1;
      if (is_void && holds(Rule::kVoidMessagesUnready)) put(e->ready, 0);
    }
    // A receiver that has matched a message, and has not received it, shows that again. What it has
    // received already, perhaps behind others that it has not, stays matched.
    const Marks& receiver = find_image(base_, to, set_)->marks;
    const std::uint64_t* received = received_of(base_, receiver);
    const std::uint64_t* looked_at = received + header_of(base_)->ranks;
    const std::uint64_t* waiting = looked_at + header_of(base_)->ranks;
    for (std::uint64_t i = 0; i < receiver.waiting; ++i) {
      if (MatchWord::from(waiting[i]) == rank_) match_is_void(log, MatchWord::index(waiting[i]));
    }
    const bool all = !holds(Rule::kReceivedStaysMatched);
    for (std::uint64_t k = all ? received[rank_] : looked_at[rank_]; k < sent; ++k) {
      match_is_void(log, k);
    }
    put(log.tail, is_copy_ ? std::min(all_sent, tail) : all_sent);
  }
  void match_is_void(Log& log, std::uint64_t k) {
    ChannelEntry* e = entry(log, k);
    const bool is_there = e != nullptr && e->ready.load() == k + 1;
    if (is_there && holds(Rule::kMatchesVoid)) put(e->matched, 0);
  }
  ChannelEntry* entry(Log& log, std::uint64_t k) const {
    std::uint64_t run;
    return log_place<ChannelEntry>(base_, log, k, &run);
  }

  // Which message a receive of any source is given is open again. A receive that was given one
  // before the image has that in its memory.
  void matches() {
    Log& log = head_.matches;
    if (!holds(Rule::kReceivesOpenAgain)) return put(log.tail, marks_.wildcards);
    for (std::uint64_t i = marks_.open_matches; i < marks_.wildcards; ++i) {
      store_element(kVacantStores, Step::kSame, *log_at<std::uint64_t>(base_, log, i),
                    std::uint64_t{0});
    }
    put(log.tail, marks_.wildcards);
  }

  // --- Checkpoints that the program makes: in a job of images they are no recovery points

  void checkpoints() {
    if (!holds(Rule::kCheckpointsGoBack)) return;
    put(control_.prepared, image_.prepared);
    put(control_.written_versions, image_.written_versions);
    for (ModelHash& h : head_.model_hash) {
      if (h.version.load() > image_.prepared) put(h.version, 0);
    }
    for (Version& v : head_.version) {
      if (v.marks.number.load() > image_.prepared) put(v.marks.number, 0);
    }
  }

  bool holds(Rule rule) const { return rule != broken_; }

  std::byte* const base_;
  const Ranks own_;
  const std::uint32_t rank_;
  const bool is_copy_;
  const std::uint64_t set_;
  const Rule broken_;
  RegionHead& head_;
  RankControl& control_;
  const Image& image_;
  const Marks& marks_;
};

}  // namespace

bool keeps_set(std::byte* base, std::uint64_t set) {
  if (set == 0) return false;
  for (std::uint32_t r = 0; r < header_of(base)->ranks; ++r) {
    const bool kept = control_of(base, r)->kept_image.load() == set;
    if (!kept || find_image(base, r, set) == nullptr) return false;
  }
  return true;
}

bool has_marks(std::byte* base, std::uint64_t set) {
  for (std::uint32_t r = 0; r < header_of(base)->ranks; ++r) {
    if (find_image(base, r, set) == nullptr) return false;
  }
  return true;
}

void put_back(std::byte* base, Ranks own, std::uint64_t set, Rule broken) {
  for (const std::uint32_t r : own) {
    OneRank(base, own, r, set, broken).go_back();
    set_wanted_on(base, r).store(kAgentStores, Step::kSame, set);
  }
  publish_all_deaths(base);
}

void put_copies_back(std::byte* base, Ranks own, std::uint64_t set, Rule broken) {
  for (std::uint32_t r = 0; r < header_of(base)->ranks; ++r) {
    if (!contains(own, r)) OneRank(base, own, r, set, broken).go_back();
  }
}

}  // namespace rejoin::journal
