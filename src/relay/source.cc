#include "relay/source.h"

#include <algorithm>
#include <cstring>

#include "engine/division.h"
#include "journal/contexts.h"
#include "journal/log.h"
#include "journal/not_kept.h"

namespace rejoin::relay {

using journal::ChannelEntry;
using journal::ContextBlock;
using journal::ContextEntry;
using journal::Departure;
using journal::Log;
using journal::Offset;
using journal::RankControl;
using journal::Rule;

namespace {

LogShape shape_of(const Log& log) {
  LogShape s = {};
  s.rings = log.rings.load();
  // A ring behind the tail was made for an entry that never became visible, and is made again.
  const std::uint64_t tail = log.tail.load();
  while (s.rings > 0 && (log.ring[s.rings - 1].from > tail || log.ring[s.rings - 1].at == 0)) {
    --s.rings;
  }
  for (std::uint32_t k = 0; k < journal::kLogChunks; ++k) s.chunk[k] = log.chunk[k].load();
  for (std::uint32_t k = 0; k < s.rings; ++k) s.ring[k] = log.ring[k];
  return s;
}

constexpr std::uint64_t table_size(std::uint64_t table) {
  return std::uint64_t{journal::kFirstTableEntries} << table;
}
constexpr std::uint64_t place_of(std::uint64_t table, std::uint64_t index) {
  return table << 32 | index;
}

}  // namespace

Source::Source(std::byte* base, std::uint32_t node, std::uint32_t to, journal::Arena& arena)
    : arena_(arena), base_(base), to_(to), ranks_(arena), has_(arena), broken_(Rule::kNone) {
  const std::uint32_t ranks = journal::header_of(base)->ranks;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (journal::control_of(base, r)->node != node) continue;
    if (set_wanted_ == nullptr) set_wanted_ = &journal::set_wanted_on(base, r);
    Rank& rank = ranks_.push_back(Rank(r, arena));
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (journal::control_of(base, other)->node != to) continue;
      rank.channels.push_back(Channel(other, arena));
    }
  }
}

Source::ShapeEnd Source::ShapeEnd::of(const LogShape& shape) {
  ShapeEnd end;
  for (const Offset chunk : shape.chunk) {
    if (chunk == 0) continue;
    ++end.chunks;
    end.chunk = chunk;
  }
  end.rings = shape.rings;
  if (end.rings > 0) end.from = shape.ring[end.rings - 1].from;
  if (end.rings > 0) end.ring = shape.ring[end.rings - 1].at;
  return end;
}

Offset Source::offset_of(const void* p) const {
  return static_cast<Offset>(static_cast<const std::byte*>(p) - base_);
}

Log& Source::log_at(Offset at) const { return *reinterpret_cast<Log*>(base_ + at); }

template <class Entry>
Entry& Source::element(Offset log, std::uint64_t index) const {
  return *journal::log_at<Entry>(base_, log_at(log), index);
}

Source::Cursor Source::cursor(Offset log, std::uint64_t context) {
  Cursor c;
  c.log = log;
  const auto has = std::lower_bound(has_.begin(), has_.end(), log,
                                    [](const Has& h, Offset at) { return h.log < at; });
  if (has == has_.end() || has->log != log) return c;
  // The other side may say anything.
  if (has->copy.context == context) c.sent = std::min(has->tail, log_at(log).tail.load());
  if (!holds(Rule::kLogsOfTheirContext)) c.sent = has->tail;
  c.is_whole = has->copy.is_whole != 0;
  has->tail = 0;  // the block may be used again later
  return c;
}

// To be called behind the reading of what is added next. A rank that has shown it behind its image
// of a set has found that number in the word.
void Source::set_wanted() {
  const std::uint64_t number = set_wanted_->load();
  if (number == set_wanted_sent_) return;
  set_wanted_sent_ = number;
  out_->add({Kind::kSetWanted, 0, 0, number}, nullptr);
}

void Source::add(const Head& head, const void* body) {
  if (holds(Rule::kSetCarried)) set_wanted();
  out_->add(head, body);
  bytes_ += sizeof head + head.bytes;
  added_ = true;
}

// The tails are read first and shown last: what a reader concludes from a record, that its owner
// has posted all messages and given all parts of the operation, is so in the copies, too. Calls are
// read behind what names them and shown before it.
bool Source::turn(Frames& out, const journal::Loan* loan) {
  out_ = &out;
  loan_ = loan;
  bytes_ = 0;
  added_ = is_in_message_ = is_behind_ = false;
  if (!has_is_sorted_) {
    has_is_sorted_ = true;
    std::sort(has_.begin(), has_.end(), [](const Has& a, const Has& b) { return a.log < b.log; });
  }
  const std::size_t ranks = ranks_.size(), first = first_;
  for (std::size_t i = 0; i < ranks && !is_full(); ++i) {
    Rank& r = ranks_[(first + i) % ranks];
    first_ = (first + i + 1) % ranks;
    const journal::RegionHead* region = journal::region_of(base_, r.rank);
    if (r.calls.log == 0) {
      r.calls = cursor(offset_of(&region->calls));
      r.modules = cursor(offset_of(&region->modules));
      for (Channel& c : r.channels) {
        c.log = cursor(region->channels + c.to * sizeof(Log));
        // It is not known how much of it has come. If all has, its place may have other bytes by
        // now.
        if (c.log.sent > 0 && !c.log.is_whole) c.open = c.log.sent - 1;
      }
    }
    // A turn may have been too short for what was read before: that comes first.
    const bool reads = has_sent_all(r);
    if (reads) read_tails(r);
    is_behind_ |= !reads;
    read_tail(r.calls);
    read_tail(r.modules);
    elements<journal::ModuleEntry>(r.modules, Kind::kModules);
    elements<journal::CallEntry>(r.calls, Kind::kCalls);
    for (Channel& c : r.channels) {
      bytes_again(c);
      messages(c);
      consumed(r, c);
      asked(r, c);
      matches(r, c);
    }
    for (Context& c : r.contexts) {
      departures(c);
      if (loan_ != nullptr && loan_->context == c.context) ahead(r, c);
    }
    if (has_sent_all(r) || !holds(Rule::kRecordsLast)) {
      for (Context& c : r.contexts) elements<journal::Record>(c.records, Kind::kRecords);
    }
    prepared(r);
    images(r);
  }
  return added_;
}

void Source::read_tails(Rank& r) {
  look_at_contexts(r);
  for (Context& c : r.contexts) {
    read_tail(c.records);
    read_tail(c.departures);
  }
  for (Channel& c : r.channels) read_tail(c.log);
}

void Source::shape(Cursor& c) {
  const LogShape now = shape_of(log_at(c.log));
  if (ShapeEnd::of(now) == c.shape) return;
  c.shape = ShapeEnd::of(now);
  add({Kind::kShape, sizeof now, c.log, 0}, &now);
}

template <class Entry>
void Source::elements(Cursor& c, Kind kind) {
  if (c.sent >= c.tail) return;
  shape(c);
  const journal::LogView<Entry> view(base_, log_at(c.log));
  constexpr std::uint64_t kMost = 64 * 1024 / sizeof(Entry);
  while (c.sent < c.tail) {
    const std::uint64_t n = std::min({c.tail - c.sent, view.piece(c.sent), kMost});
    add({kind, static_cast<std::uint32_t>(n * sizeof(Entry)), c.log, c.sent}, view.at(c.sent));
    c.sent += n;
  }
}

void Source::payload(std::uint64_t at, std::uint64_t bytes) {
  for (std::uint64_t sent = 0; sent < bytes;) {
    const std::uint64_t piece = std::min(bytes - sent, kPieceBytes);
    out_->add_payload({Kind::kPayload, static_cast<std::uint32_t>(piece), at + sent, 0},
                      base_ + at + sent);
    sent += piece;
  }
  bytes_ += bytes;
  added_ = true;
}

void Source::messages(Channel& c) {
  if (c.open != kNone) rest_of_message(c);
  if (c.log.sent >= c.log.tail) return;
  shape(c.log);
  while (c.log.sent < c.log.tail && c.open == kNone && !is_full()) {
    const std::uint64_t index = c.log.sent++;
    const auto& entry = element<ChannelEntry>(c.log.log, index);
    ChannelEntry copy;
    std::memcpy(static_cast<void*>(&copy), static_cast<const void*>(&entry), sizeof copy);
    copy.matched.store(journal::kRelayStores, journal::Step::kSame, 0);
    const bool has_payload = copy.bytes > journal::kInlineBytes;
    const std::uint64_t written = entry.written.load();
    const bool is_whole = !has_payload || (written == copy.bytes && written <= kPieceBytes);
    if (is_whole && has_payload) payload(copy.value, copy.bytes);
    copy.written.store(journal::kRelayStores, journal::Step::kSame, is_whole ? copy.bytes : 0);
    add({Kind::kMessage, sizeof copy, c.log.log, index}, &copy);
    if (is_whole) continue;
    c.open = index;
    c.written = 0;
    rest_of_message(c);
  }
}

void Source::rest_of_message(Channel& c) {
  const auto& entry = element<ChannelEntry>(c.log.log, c.open);
  // It is truncated, or its bytes are in it.
  if (entry.ready.load() != c.open + 1 || entry.bytes <= journal::kInlineBytes) {
    c.open = kNone;
    return;
  }
  const std::uint64_t until = to_send_of(entry);
  while (c.written < until && !is_full()) {
    const std::uint64_t piece = std::min(until - c.written, kPieceBytes);
    payload(entry.value + c.written, piece);
    c.written += piece;
    add({Kind::kWritten, sizeof c.written, c.log.log, c.open}, &c.written);
    is_in_message_ = c.written < entry.bytes;
  }
  if (c.written >= entry.bytes) {
    c.open = kNone;
    c.written = 0;
  }
}

// How many of a message's bytes there are.
std::uint64_t Source::to_send_of(const ChannelEntry& entry) const {
  const bool is_lent = loan_ != nullptr && loan_->at == entry.value && loan_->bytes == entry.bytes;
  return is_lent ? entry.bytes : entry.written.load();
}

bool Source::asks(Offset log, std::uint64_t index) {
  for (Rank& r : ranks_) {
    for (Channel& c : r.channels) {
      if (journal::region_of(base_, r.rank)->channels + c.to * sizeof(Log) != log) continue;
      if (index >= log_at(log).tail.load()) return true;  // it was sent before all ranks went back
      const bool is_known = std::any_of(c.again.begin(), c.again.end(),
                                        [&](const Again& a) { return a.index == index; });
      if (!is_known) c.again.push_back({index, 0});
      return true;
    }
  }
  return false;
}

// The message counts as kept when all of its bytes have been sent: an answer that is cut off is
// none.
void Source::bytes_again(Channel& c) {
  c.again.remove_if([&](Again& a) {
    if (a.index >= c.log.sent) return false;
    const auto& entry = element<ChannelEntry>(c.log.log, a.index);
    const bool has_bytes = entry.ready.load() == a.index + 1 && entry.bytes > journal::kInlineBytes;
    if (!has_bytes) return true;
    if (c.open == a.index) c.open = kNone;
    for (const std::uint64_t until = to_send_of(entry); a.sent < until && !is_full();) {
      const std::uint64_t piece = std::min(until - a.sent, kPieceBytes);
      payload(entry.value + a.sent, piece);
      a.sent += piece;
    }
    if (a.sent < entry.bytes) return false;
    add({Kind::kAgain, 0, c.log.log, a.index}, nullptr);
    return true;
  });
}

// A message whose bytes one of this node's ranks asks for.
void Source::asked(const Rank& r, Channel& c) {
  const std::uint64_t word = journal::asked_of(base_, r.rank)[c.to].load();
  if (word == c.asked) return;
  c.asked = word;
  if (!journal::AskWord::asks(word)) return;
  const Offset log = journal::region_of(base_, c.to)->channels + r.rank * sizeof(Log);
  add({Kind::kAsk, 0, log, journal::AskWord::index(word)}, nullptr);
}

void Source::consumed(Rank& r, Channel& c) {
  const std::uint64_t now = journal::consumed_of(base_, r.rank)[c.to].load();
  if (now == c.consumed) return;
  c.consumed = now;
  add({Kind::kConsumed, sizeof now, r.rank, c.to}, &now);
}

// The other direction: which synchronous messages of the other node's rank were matched here.
void Source::matches(Rank& r, Channel& c) {
  const Offset log = journal::region_of(base_, c.to)->channels + r.rank * sizeof(Log);
  for (const std::uint64_t tail = log_at(log).tail.load(); c.looked_at < tail; ++c.looked_at) {
    const auto& entry = element<ChannelEntry>(log, c.looked_at);
    if (entry.ready.load() != c.looked_at + 1) continue;  // it is truncated
    if ((entry.key & journal::kPointToPoint) == 0) continue;
    if ((entry.key & journal::kSynchronous) != 0) c.unmatched.push_back(c.looked_at);
  }
  c.unmatched.remove_if([&](std::uint64_t index) {
    const std::uint32_t by = element<ChannelEntry>(log, index).matched.load();
    if (by == 0) return false;
    add({Kind::kMatched, sizeof by, log, index}, &by);
    return true;
  });
}

void Source::departures(Context& c) {
  if (c.departures.sent >= c.departures.tail) return;
  const auto& block = *reinterpret_cast<const ContextBlock*>(base_ + c.block);
  if (block.context != c.context) {  // no rank needs more of it
    c.departures.sent = c.departures.tail;
    return;
  }
  shape(c.departures);
  while (c.departures.sent < c.departures.tail && !is_full()) {
    const std::uint64_t index = c.departures.sent++;
    Departure d;
    std::memcpy(static_cast<void*>(&d), &element<Departure>(c.departures.log, index), sizeof d);
    journal::order_stores();  // and loads
    // It is truncated, so no reader looks for it: what goes in its place is of no operation.
    const auto& now = element<Departure>(c.departures.log, index);
    if (d.ready.load() != index + 1 || now.ready.load() != index + 1) {
      std::memset(static_cast<void*>(&d), 0, sizeof d);
    }
    if (holds(Rule::kPayloadBeforeItem)) payload_of(d, c);
    add({Kind::kDeparture, sizeof d, c.departures.log, index}, &d);
    if (!holds(Rule::kPayloadBeforeItem)) payload_of(d, c);
  }
}

void Source::payload_of(const Departure& d, const Context& c) {
  const std::uint64_t bytes = d.bytes.load(), at = d.value.load();
  if (bytes <= journal::kInlineBytes) return;
  const journal::Division division = {d.element_bytes.load(), d.readers.load()};
  engine::Slice range = engine::slice_for(c.to, c.nodes, bytes, division);
  const bool is_ahead = c.ahead.at == at && c.ahead.sequence == d.sequence.load() &&
                        c.ahead.incarnation == d.incarnation.load();
  if (is_ahead) range.begin += c.ahead.sent;
  payload(at + range.begin, range.end - range.begin);
}

// The driver has bytes that it will give, but they may not lie in the segment yet. They mean
// nothing to the other node before their departure, which is published when they do.
void Source::ahead(const Rank& r, Context& c) {
  const journal::Loan& loan = *loan_;
  const Offset region = journal::region_offset(journal::header_of(base_), r.rank);
  if (loan.at < region || loan.at >= region + journal::header_of(base_)->region_bytes) return;
  const engine::Slice range = engine::slice_for(c.to, c.nodes, loan.bytes, loan.division);
  if (range.begin == range.end) return;
  if (c.ahead.at != loan.at || c.ahead.sequence != loan.sequence ||
      c.ahead.incarnation != loan.incarnation) {
    c.ahead = {loan.at, loan.sequence, loan.incarnation, 0};
    const std::uint64_t key = journal::ahead_key(loan.context, loan.sequence, loan.part);
    add({Kind::kAhead, sizeof loan.incarnation, loan.at + range.begin, key}, &loan.incarnation);
  }
  while (range.begin + c.ahead.sent < range.end && !is_full()) {
    const std::uint64_t begin = range.begin + c.ahead.sent;
    const std::uint64_t piece = std::min(range.end - begin, kPieceBytes);
    payload(loan.at + begin, piece);
    c.ahead.sent += piece;
  }
}

// Whether what the rank had posted and given when its tails were read was sent. In a full turn
// there may be more.
bool Source::has_sent_all(const Rank& r) const {
  const auto all = [](const Cursor& c) { return c.sent >= c.tail; };
  return std::all_of(r.channels.begin(), r.channels.end(), [&](auto& c) { return all(c.log); }) &&
         std::all_of(r.contexts.begin(), r.contexts.end(),
                     [&](auto& c) { return all(c.departures); });
}

// Returns whether ranks of the other node are members of a context whose nodes are apart.
bool Source::find_nodes(const ContextBlock& block, Context& c) {
  if (block.departures == 0) return false;
  Vector<std::uint32_t> nodes(arena_);
  const auto* world = reinterpret_cast<const std::uint32_t*>(base_ + block.members);
  for (std::uint32_t i = 0; i < block.size; ++i) {
    const std::uint32_t node = journal::control_of(base_, world[i])->node;
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  c.nodes = static_cast<std::uint32_t>(nodes.size());
  c.to = static_cast<std::uint32_t>(std::find(nodes.begin(), nodes.end(), to_) - nodes.begin());
  return c.to < c.nodes;
}

void Source::look_at_contexts(Rank& r) {
  const journal::ContextTables& all = journal::region_of(base_, r.rank)->contexts;
  const std::uint64_t changes = all.changes.load();
  if (changes == r.changes) return;
  r.changes = changes;
  for (const std::uint32_t tables = all.tables.load(); r.tables.size() < tables;) {
    const std::uint64_t at = all.at[r.tables.size()];
    add({Kind::kTable, sizeof at, r.rank, r.tables.size()}, &at);
    Vector<bool> sent(arena_);
    std::fill_n(sent.add(table_size(r.tables.size())), table_size(r.tables.size()), false);
    r.tables.push_back(std::move(sent));
  }
  // A block that is used again is reclaimed before.
  r.contexts.remove_if([&](const Context& c) {
    const std::uint64_t table = c.place >> 32, index = c.place & 0xffffffff;
    const auto& entry = reinterpret_cast<const ContextEntry*>(base_ + all.at[table])[index];
    if (entry.block.load() != journal::kReclaimed) return false;
    past(r, c.place, c.context);
    return true;
  });
  for (Context& c : r.contexts) {
    const auto& block = *reinterpret_cast<const ContextBlock*>(base_ + c.block);
    const std::uint64_t freed = block.freed.load();
    const std::uint64_t number = block.free_number.load();
    if (freed != c.freed) add({Kind::kFreed, sizeof number, c.block, freed}, &number);
    c.freed = freed;
  }
  for (std::uint64_t table = 0; table < r.tables.size(); ++table) {
    const auto* entries = reinterpret_cast<const ContextEntry*>(base_ + all.at[table]);
    for (std::uint64_t i = 0; i < table_size(table); ++i) {
      if (r.tables[table][i] || entries[i].context.load() == 0) continue;
      r.tables[table][i] = true;
      new_context(r, place_of(table, i), entries[i]);
    }
  }
}

void Source::past(Rank& r, std::uint64_t place, std::uint64_t id) {
  add({Kind::kPast, sizeof id, r.rank, place}, &id);
}

void Source::new_context(Rank& r, std::uint64_t place, const ContextEntry& entry) {
  const std::uint64_t id = entry.context.load();
  const Offset at = entry.block.load();
  if (at == journal::kReclaimed) return past(r, place, id);
  const auto& block = *reinterpret_cast<const ContextBlock*>(base_ + at);
  const std::uint64_t freed = block.freed.load();
  Context c;
  if (!find_nodes(block, c)) return past(r, place, id);
  c.block = at;
  c.context = id;
  c.freed = freed;
  c.place = place;
  c.departures = cursor(block.departures, id);
  c.records = cursor(offset_of(&block.records), id);
  const std::uint32_t size = block.size;
  const Offset members = block.members;
  const ContextCopy copy = {
      id, at, members, block.departures, freed, block.free_number.load(), size, block.rank};
  Vector<std::byte> body(arena_);
  body.add(sizeof copy + size * sizeof(std::uint32_t));
  std::memcpy(body.data(), &copy, sizeof copy);
  std::memcpy(body.data() + sizeof copy, base_ + members, body.size() - sizeof copy);
  journal::order_stores();  // and loads
  // It may have been reclaimed meanwhile, and its block be used again.
  if (entry.block.load() != at) return past(r, place, id);
  add({Kind::kContext, static_cast<std::uint32_t>(body.size()), r.rank, place}, body.data());
  r.contexts.push_back(c);
}

void Source::prepared(Rank& r) {
  const RankControl* control = journal::control_of(base_, r.rank);
  const std::uint64_t now = control->prepared.load();
  if (now == r.prepared) return;
  r.prepared = now;
  const std::uint64_t written = control->written_versions.load();
  add({Kind::kPrepared, sizeof written, r.rank, now}, &written);
}

// The marks of an image are sent as soon as they are there: all ranks can go back to a set only
// when every host has those of all its images. Those of the kept image come first, then that it is
// kept, then the others: each of them may take the place of the one that was kept before.
void Source::images(Rank& r) {
  const auto& kept = journal::control_of(base_, r.rank)->kept_image;
  const std::uint64_t now = kept.load();
  for (std::uint64_t slot = 0; slot < journal::kImages; ++slot) marks(r, slot, now, true);
  const std::uint64_t* const end = r.images + journal::kImages;
  if (now != r.kept && std::find<const std::uint64_t*>(r.images, end, now) != end) {
    add({Kind::kKept, 0, r.rank, now}, nullptr);
    r.kept = now;
  }
  if (now != r.kept) return;
  for (std::uint64_t slot = 0; slot < journal::kImages; ++slot) marks(r, slot, now, false);
}

// Sends the marks of the image in this slot, if they were not sent. of_kept: only if it is the one
// that is kept; else only if it is not.
void Source::marks(Rank& r, std::uint64_t slot, std::uint64_t kept, bool of_kept) {
  const journal::Image& image = journal::region_of(base_, r.rank)->image[slot];
  const journal::Marks& marks = image.marks;
  const std::uint64_t number = marks.number.load();
  if (number == 0 || number == r.images[slot] || (number == kept) != of_kept) return;
  const std::uint64_t ranks = journal::header_of(base_)->ranks;
  const std::uint64_t bytes = std::min(marks.contexts * sizeof(journal::Cursor) +
                                           (3 * ranks + marks.waiting) * sizeof(std::uint64_t),
                                       marks.cursors.capacity);
  if (bytes > kMostBytes - sizeof image) return;
  Vector<std::byte> body(arena_);
  body.add(sizeof image + bytes);
  std::memcpy(body.data(), static_cast<const void*>(&image), sizeof image);
  std::memcpy(body.data() + sizeof image, base_ + marks.cursors.at, bytes);
  journal::order_stores();  // and loads
  // The slot may be another image's by now, or another image be kept.
  if (marks.number.load() != number) return;
  if (journal::control_of(base_, r.rank)->kept_image.load() != kept) return;
  add({Kind::kImage, static_cast<std::uint32_t>(body.size()), r.rank, slot}, body.data());
  r.images[slot] = number;
}

bool Source::positions(Frames& out) {
  out_ = &out;
  added_ = false;
  for (Rank& r : ranks_) {
    if (r.calls.log == 0) continue;  // its first turn comes before
    prepared(r);
    const RankControl& c = *journal::control_of(base_, r.rank);
    PositionCopy p = {};
    p.ordinal = c.ordinal.load();
    p.moves = c.moves.load();
    p.inside = static_cast<std::uint32_t>(c.phase.load());
    p.context = c.context.load();
    p.sequence = c.sequence.load();
    p.call = c.call.load();
    p.prepared = r.prepared;
    p.told_full = c.told_full.load();
    p.incarnation = c.incarnation.load();
    const bool moved = c.ordinal.load() != p.ordinal || c.moves.load() != p.moves ||
                       static_cast<std::uint32_t>(c.phase.load()) != p.inside;
    if (moved || (p.moves & 1) != 0 || p == r.position) continue;
    // The call that it names was published before.
    read_tail(r.calls);
    read_tail(r.modules);
    elements<journal::ModuleEntry>(r.modules, Kind::kModules);
    elements<journal::CallEntry>(r.calls, Kind::kCalls);
    r.position = p;
    add({Kind::kPosition, sizeof p, r.rank, 0}, &p);
  }
  return added_;
}

}  // namespace rejoin::relay
