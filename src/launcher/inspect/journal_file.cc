#include "launcher/inspect/journal_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "journal/log.h"
#include "journal/pieces.h"
#include "recovery/rank.h"

namespace rejoin::launcher {
namespace {

using journal::Offset;
using recovery::OpKind;

// Returns the size of an operation's result if its signature determines it; else 0.
std::uint64_t result_bytes(const journal::Signature& s, std::uint32_t members) {
  switch (static_cast<OpKind>(s.kind)) {
    case OpKind::kBcast:
    case OpKind::kAllreduce:
    case OpKind::kIbcast:
    case OpKind::kIallreduce:
      return s.bytes;
    case OpKind::kAllgather:
    case OpKind::kIallgather:
    case OpKind::kCommSplit:
      return s.bytes * members;
    default:
      return 0;
  }
}

// The mapped file. Every access is checked; the first bad one is remembered.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  // Returns `count` Ts at `offset`; nullptr if they are not inside the file.
  template <class T>
  const T* at(Offset offset, std::uint64_t count = 1) {
    const bool fits = offset % alignof(T) == 0 && offset <= file_.size() &&
                      count <= (file_.size() - offset) / sizeof(T);
    if (!fits) {
      damaged_at_ = damaged_at_.value_or(offset);
      return nullptr;
    }
    return reinterpret_cast<const T*>(file_.data() + offset);
  }

  // Returns `count` bytes that a record refers to. They may have been overwritten, so nullptr does
  // not mean that the file is damaged.
  const char* bytes(Offset offset, std::uint64_t count) const {
    const bool fits = offset <= file_.size() && count <= file_.size() - offset;
    return fits ? file_.data() + offset : nullptr;
  }

  // Returns whether a log can be walked: its rings are inside the file, one after the other, so
  // that it holds no more elements than there is room for.
  template <class T>
  bool whole(const journal::Log& log) {
    const std::uint32_t rings = log.rings.load();
    std::uint64_t from = 0;
    for (std::uint32_t k = 0; k < std::min(rings, journal::kLogRings); ++k) {
      const journal::LogRing& ring = log.ring[k];
      const bool good = std::has_single_bit(ring.capacity) && ring.from >= from &&
                        ring.from <= log.tail.load() && at<T>(ring.at, ring.capacity) != nullptr;
      if (!good) return damaged(&log);
      from = ring.from;
    }
    return rings <= journal::kLogRings || damaged(&log);
  }

  // Returns element `index` of a log; nullptr if it is not inside the file. REQUIRES whole<T>(log)
  // and kept(log, index).
  template <class T>
  const T* element(const journal::Log& log, std::uint64_t index) {
    if (const int k = ring_of(log, index); k >= 0) {
      const journal::LogRing& ring = log.ring[k];
      return at<T>(ring.at + ((index - ring.from) & (ring.capacity - 1)) * sizeof(T));
    }
    const std::uint32_t chunk = journal::log_chunk(index);
    if (chunk >= journal::kLogChunks || log.chunk[chunk].load() == 0) {
      damaged(&log);
      return nullptr;
    }
    const std::uint64_t skipped = index - journal::log_chunk_begin(chunk);
    return at<T>(log.chunk[chunk].load() + skipped * sizeof(T));
  }

  // Returns false if the element was overwritten, after a checkpoint or when the journal was full.
  static bool kept(const journal::Log& log, std::uint64_t index) {
    const int k = ring_of(log, index);
    return k < 0 || end_of(log, k) - index <= log.ring[k].capacity;
  }
  // Returns the first element from `index` on that is kept, or the number of elements. REQUIRES
  // !kept().
  static std::uint64_t next_kept(const journal::Log& log, std::uint64_t index) {
    const int k = ring_of(log, index);
    return end_of(log, k) - std::min(log.ring[k].capacity, end_of(log, k) - log.ring[k].from);
  }

  std::optional<Offset> damaged_at() const { return damaged_at_; }
  // Always returns false. `p`: the damaged place in the file.
  bool damaged(const void* p) {
    const Offset at = static_cast<Offset>(static_cast<const char*>(p) - file_.data());
    damaged_at_ = damaged_at_.value_or(at);
    return false;
  }

 private:
  static int rings_of(const journal::Log& log) { return static_cast<int>(log.rings.load()); }
  static int ring_of(const journal::Log& log, std::uint64_t index) {  // -1: it is in a chunk
    int k = rings_of(log) - 1;
    while (k >= 0 && index < log.ring[k].from) --k;
    return k;
  }
  static std::uint64_t end_of(const journal::Log& log, int k) {
    return k + 1 < rings_of(log) ? log.ring[k + 1].from : log.tail.load();
  }

  std::string_view file_;
  std::optional<Offset> damaged_at_;
};

std::vector<VersionFacts> versions_of(const journal::RegionHead& region) {
  std::vector<VersionFacts> versions;
  for (const journal::Version& v : region.version) {
    const std::uint64_t number = v.marks.number.load();
    if (number == 0) continue;
    versions.push_back(
        {number, v.marks.made_wall_ns, v.marks.ordinal, v.global_bytes, v.local.bytes});
  }
  std::sort(versions.begin(), versions.end(),
            [](const VersionFacts& a, const VersionFacts& b) { return a.number < b.number; });
  return versions;
}

// A damaged file, or one of another version, may have an unknown value, which counts as undecided.
journal::Return kind_of_return(const journal::SegmentHeader& header) {
  const journal::Return word = header.goes_back_to.load();
  const bool known = word == journal::Return::kImages || word == journal::Return::kVersions;
  return known ? word : journal::Return::kUndecided;
}

RecoveryFacts main_because(std::string why) {
  RecoveryFacts facts = {};
  facts.why = std::move(why);
  return facts;
}

RecoveryFacts kept_image_of(const journal::RankControl& control,
                            const journal::RegionHead& region) {
  const std::uint64_t kept = control.kept_image.load();
  if (kept == 0) return main_because("it has no image");
  RecoveryFacts facts = {};
  facts.kind = RecoveryFacts::Kind::kImage;
  facts.number = kept;
  for (const journal::Image& image : region.image) {
    if (image.marks.number.load() != kept) continue;
    facts.is_there = true;
    facts.made_wall_ns = image.marks.made_wall_ns;
    // The image was made at the entry of this operation.
    facts.behind = image.marks.ordinal - std::min<std::uint64_t>(image.marks.ordinal, 1);
    facts.version = image.version;
  }
  return facts;
}

const char* why_none_begins_at(journal::VersionFault fault) {
  switch (fault) {
    case journal::VersionFault::kNone:
      break;
    case journal::VersionFault::kNoLoad:
      return "the program makes checkpoints, but did not load one before its first";
    case journal::VersionFault::kOpenRequest:
      return "a request was open at its checkpoint";
    case journal::VersionFault::kLateCommunicator:
      return "a communicator that was created after the first checkpoint existed at its checkpoint";
    case journal::VersionFault::kOverLimit:
      return "the results of its set-up are larger than --bootstrap-limit";
  }
  return "its checkpoint cannot be loaded";
}

// `committed`: the newest checkpoint that all ranks have made.
RecoveryFacts newest_version_of(const journal::RegionHead& region, std::uint64_t committed) {
  const journal::Version* newest = nullptr;
  std::uint64_t number = 0;
  for (const journal::Version& version : region.version) {
    const std::uint64_t other = version.marks.number.load();
    if (other <= number || other > committed) continue;
    newest = &version;
    number = other;
  }
  if (newest == nullptr) return main_because("it has no checkpoint that all ranks have made");
  if (newest->fault != journal::VersionFault::kNone) {
    return main_because(why_none_begins_at(newest->fault));
  }
  RecoveryFacts facts = {};
  facts.kind = RecoveryFacts::Kind::kCheckpoint;
  facts.number = number;
  facts.is_there = true;
  facts.made_wall_ns = newest->marks.made_wall_ns;
  facts.behind = newest->marks.ordinal;
  return facts;
}

class Walk {
 public:
  Walk(std::string_view file, const InspectOptions& options, const DescribeSite& describe,
       JournalVisitor& visitor)
      : reader_(file), options_(options), describe_(describe), visitor_(visitor) {}

  std::optional<Error> go(const std::string& path);

 private:
  // The functions that return bool return false if the file is damaged.
  bool walk_rank(std::uint32_t rank);
  bool find_blocks(const journal::RegionHead& region,
                   std::vector<const journal::ContextBlock*>* blocks);
  bool walk_communicator(const journal::RegionHead& region, const journal::ContextBlock& block,
                         CommunicatorFacts& facts);
  bool read_operation(const journal::RegionHead& region, std::uint32_t members,
                      const journal::Record& record, OperationFacts* facts);
  bool walk_channels(std::uint32_t rank, const journal::RegionHead& region);

  // Returns the call of a record; nullptr: the file is damaged.
  const journal::CallEntry* call_of(const journal::RegionHead& region,
                                    const journal::Record& record) {
    const std::uint32_t index = record.call & journal::kCallIndex;
    if (index < region.calls.tail.load()) {
      return reader_.element<journal::CallEntry>(region.calls, index);
    }
    reader_.damaged(&record);
    return nullptr;
  }
  // Names the communicators of a rank that its own records describe.
  bool name_children(const journal::RegionHead& region, const journal::ContextBlock& parent);
  std::string site_of(const journal::RegionHead& region, const journal::CallEntry& call);
  // Returns what the rank would restart from if it died.
  RecoveryFacts recovery_of(const journal::RankControl& control, const journal::RegionHead& region);
  // Returns the bytes of a result, which are known to be valid only while no memory of the journal
  // has been reused.
  // Valid until the next call.
  std::string_view result_of(const journal::Record& record, std::uint64_t bytes, Offset* at);
  std::string_view join_pieces(Offset next, std::uint64_t bytes);

  Reader reader_;
  const InspectOptions& options_;
  const DescribeSite& describe_;
  JournalVisitor& visitor_;
  const journal::SegmentHeader* header_ = nullptr;
  std::uint64_t committed_ = 0;                 // newest checkpoint that all ranks have made
  bool full_ = false;                           // nothing is kept for replays any more
  bool given_back_ = false;                     // memory of the journal may have been reused
  std::string joined_;                          // a result that lies in pieces
  std::map<std::uint64_t, std::string> names_;  // of the rank's contexts; empty: not known
};

std::optional<Error> Walk::go(const std::string& path) {
  const Error foreign{path + " is not a journal of this version of Rejoin"};
  header_ = reader_.at<journal::SegmentHeader>(0);
  if (header_ == nullptr || header_->magic != journal::kSegmentMagic) return foreign;
  const std::uint32_t ranks = header_->ranks;
  if (ranks < 1 || ranks > journal::kMaxRanks) return foreign;
  if (options_.rank && *options_.rank >= ranks) {
    return Error{"--rank " + std::to_string(*options_.rank) + ": the job has ranks 0 to " +
                     std::to_string(ranks - 1),
                 kExitUsage};
  }
  const auto* controls = reader_.at<journal::RankControl>(sizeof(journal::SegmentHeader), ranks);
  if (controls == nullptr) return foreign;
  JournalFacts facts = {header_->job,
                        header_->started_wall_ns,
                        ranks,
                        header_->epoch.load(),
                        0,
                        header_->recycles.load() != journal::Recycles::kNot,
                        kind_of_return(*header_)};
  given_back_ = facts.goes_back_to == journal::Return::kImages;
  committed_ = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    facts.bytes += controls[r].backed_bytes.load();
    given_back_ = given_back_ || controls[r].kept.load() != 0;
    committed_ = std::min(committed_, controls[r].prepared.load());
  }
  full_ = facts.full;
  given_back_ = given_back_ || full_;
  visitor_.job(facts);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if ((!options_.rank || *options_.rank == r) && !walk_rank(r)) {
      return Error{path + " is damaged at byte " +
                   std::to_string(reader_.damaged_at().value_or(0))};
    }
  }
  return {};
}

bool Walk::walk_rank(std::uint32_t rank) {
  const auto* region =
      reader_.at<journal::RegionHead>(header_->first_region + rank * header_->region_bytes);
  if (region == nullptr || !reader_.whole<journal::CallEntry>(region->calls) ||
      !reader_.whole<journal::ModuleEntry>(region->modules)) {
    return false;
  }
  const auto* control = reader_.at<journal::RankControl>(sizeof(journal::SegmentHeader) +
                                                         rank * sizeof(journal::RankControl));
  const auto* channels = reader_.at<journal::Log>(region->channels, header_->ranks);
  std::vector<const journal::ContextBlock*> blocks;
  if (control == nullptr || channels == nullptr || !find_blocks(*region, &blocks)) return false;
  RankFacts facts = {};
  facts.rank = rank;
  facts.incarnations = control->incarnation.load() + 1;
  facts.communicators = blocks.size();
  for (const journal::ContextBlock* b : blocks) facts.operations += b->records.tail.load();
  for (std::uint32_t to = 0; to < header_->ranks; ++to) facts.messages += channels[to].tail.load();
  facts.observation_bytes = region->observations.tail.load();
  facts.journal_bytes = control->backed_bytes.load();
  facts.versions = versions_of(*region);
  facts.recovery = recovery_of(*control, *region);
  visitor_.rank(facts);
  names_.clear();
  for (const journal::ContextBlock* block : blocks) names_[block->context];
  names_[journal::world_context()] = "MPI_COMM_WORLD";
  names_[journal::self_context(rank)] = "MPI_COMM_SELF";
  for (const journal::ContextBlock* block : blocks) {
    const bool all_named = std::none_of(names_.begin(), names_.end(),
                                        [](const auto& name) { return name.second.empty(); });
    if (all_named) break;
    if (!name_children(*region, *block)) return false;
  }
  for (const journal::ContextBlock* block : blocks) {
    CommunicatorFacts communicator = {};
    communicator.rank = rank;
    if (!walk_communicator(*region, *block, communicator)) return false;
  }
  return walk_channels(rank, *region);
}

RecoveryFacts Walk::recovery_of(const journal::RankControl& control,
                                const journal::RegionHead& region) {
  RecoveryFacts facts = main_because("the job has neither an image nor a checkpoint yet");
  if (full_) {
    facts = main_because("the journal was full");
    facts.kind = RecoveryFacts::Kind::kNothing;
    return facts;
  }
  const journal::Return to = kind_of_return(*header_);
  if (to == journal::Return::kImages) facts = kept_image_of(control, region);
  if (to == journal::Return::kVersions) facts = newest_version_of(region, committed_);
  if (facts.kind == RecoveryFacts::Kind::kMain && header_->first_version != 0) {
    facts.why += "; from there it loads checkpoint " + std::to_string(header_->first_version) +
                 ", from which the job was resumed";
  }
  return facts;
}

bool Walk::find_blocks(const journal::RegionHead& region,
                       std::vector<const journal::ContextBlock*>* blocks) {
  const std::uint32_t tables = std::min(region.contexts.tables.load(), journal::kContextTables);
  for (std::uint32_t k = 0; k < tables; ++k) {
    const std::size_t size = std::size_t{journal::kFirstTableEntries} << k;
    const auto* table = reader_.at<journal::ContextEntry>(region.contexts.at[k], size);
    if (table == nullptr) return false;
    for (std::size_t i = 0; i < size; ++i) {
      const journal::Offset at = table[i].block.load();
      if (table[i].context.load() == 0 || at == journal::kReclaimed) continue;
      const auto* block = reader_.at<journal::ContextBlock>(at);
      if (block == nullptr || !reader_.whole<journal::Record>(block->records)) return false;
      if (block->size < 1 || block->size > header_->ranks) return reader_.damaged(block);
      blocks->push_back(block);
    }
  }
  // Sorts them in the order in which the program made them.
  std::sort(blocks->begin(), blocks->end());
  return true;
}

bool Walk::name_children(const journal::RegionHead& region, const journal::ContextBlock& parent) {
  constexpr std::size_t kLongest = 200;  // each name has its parent's in it
  const std::string known = names_[parent.context];
  if (known.empty() || known.size() > kLongest) return true;
  const std::uint64_t count = parent.records.tail.load();
  const std::uint64_t read = options_.limit == 0 ? count : std::min(count, options_.limit);
  for (std::uint64_t i = 0; i < read; ++i) {
    if (!Reader::kept(parent.records, i)) i = Reader::next_kept(parent.records, i);
    if (i >= read) break;
    const auto* record = reader_.element<journal::Record>(parent.records, i);
    const auto* call = record == nullptr ? nullptr : call_of(region, *record);
    if (call == nullptr) return false;
    const auto kind = static_cast<OpKind>(call->signature.kind);
    const bool split = kind == OpKind::kCommSplit;
    const bool failed = (record->call & journal::kRecordFailed) != 0;
    if (failed) continue;
    if (!split && kind != OpKind::kCommDup && kind != OpKind::kCommIdup &&
        kind != OpKind::kCartCreate && kind != OpKind::kGraphCreate) {
      continue;
    }
    std::uint32_t colour = 0;
    if (split) {
      constexpr std::uint64_t kColourAndKey = 8;  // of each member, 4 bytes each
      Offset at = 0;
      const std::string_view all = result_of(*record, parent.size * kColourAndKey, &at);
      if (all.empty() || parent.rank >= parent.size) continue;
      std::memcpy(&colour, all.data() + parent.rank * kColourAndKey, sizeof colour);
    }
    // A child that was freed, or has a name already, is skipped.
    const auto child = names_.find(journal::derive_context(parent.context, i, colour));
    if (child == names_.end() || !child->second.empty()) continue;
    child->second =
        std::string("MPI_") + recovery::name_of(kind) + " " + std::to_string(i) + " of " + known;
    if (split) child->second += ", colour " + std::to_string(static_cast<std::int32_t>(colour));
  }
  return true;
}

bool Walk::walk_communicator(const journal::RegionHead& region, const journal::ContextBlock& block,
                             CommunicatorFacts& facts) {
  const auto* members = reader_.at<std::uint32_t>(block.members, block.size);
  if (members == nullptr) return false;
  const std::uint64_t count = block.records.tail.load();
  facts.context = block.context;
  facts.name = names_[block.context];
  facts.member = block.rank;
  facts.members.assign(members, members + block.size);
  facts.operations = count;
  visitor_.communicator(facts);
  const std::uint64_t shown = options_.limit == 0 ? count : std::min(count, options_.limit);
  for (std::uint64_t i = 0; i < shown; ++i) {
    if (!Reader::kept(block.records, i)) {
      i = Reader::next_kept(block.records, i);
      visitor_.not_kept(facts, i);
      if (i >= shown) break;
    }
    const auto* record = reader_.element<journal::Record>(block.records, i);
    OperationFacts operation = {};
    operation.rank = facts.rank;
    operation.sequence = i;
    if (record == nullptr || !read_operation(region, block.size, *record, &operation)) return false;
    visitor_.operation(facts, operation);
  }
  if (shown < count) visitor_.more(facts, count - shown);
  return true;
}

bool Walk::read_operation(const journal::RegionHead& region, std::uint32_t members,
                          const journal::Record& record, OperationFacts* facts) {
  const journal::CallEntry* call = call_of(region, record);
  if (call == nullptr) return false;
  const recovery::Shape shape = recovery::shape_of(call->signature);
  facts->name = recovery::name_of(static_cast<OpKind>(call->signature.kind));
  facts->site = site_of(region, *call);
  facts->element_bytes = shape.element_bytes;
  facts->count = shape.count;
  facts->root = call->signature.root;
  if (call->signature.type < engine::kElements) {
    facts->element = static_cast<engine::Element>(call->signature.type);
  }
  if (call->signature.operation < engine::kOperators) {
    facts->reduces = static_cast<engine::Operator>(call->signature.operation);
  }
  facts->failed = (record.call & journal::kRecordFailed) != 0;
  facts->result_bytes = facts->failed ? 0 : result_bytes(call->signature, members);
  facts->result = result_of(record, facts->result_bytes, &facts->at);
  return true;
}

std::string_view Walk::result_of(const journal::Record& record, std::uint64_t bytes, Offset* at) {
  if (bytes <= journal::kInlineBytes) {
    return {reinterpret_cast<const char*>(&record.value), static_cast<std::size_t>(bytes)};
  }
  *at = record.value & ~journal::kInPieces;
  if (given_back_) return {};
  if (journal::is_in_pieces(record.value)) return join_pieces(*at, bytes);
  const char* first = reader_.bytes(record.value, bytes);
  return first == nullptr ? std::string_view() : std::string_view(first, bytes);
}

std::string_view Walk::join_pieces(Offset next, std::uint64_t bytes) {
  joined_.clear();
  const char* head = reader_.bytes(next, sizeof(journal::PieceList));
  if (head == nullptr) return {};
  journal::PieceList list;
  std::memcpy(&list, head, sizeof list);
  if (list.pieces > header_->ranks) return {};  // there is one of each node at most
  next += sizeof list;
  for (std::uint64_t left = list.pieces; joined_.size() < bytes; --left) {
    const char* entry = left == 0 ? nullptr : reader_.bytes(next, sizeof(journal::Piece));
    if (entry == nullptr) return {};
    next += sizeof(journal::Piece);
    journal::Piece piece;
    std::memcpy(&piece, entry, sizeof piece);
    if (piece.bytes > bytes - joined_.size()) return {};
    const bool is_inline = piece.bytes <= journal::kInlineBytes;
    const char* first = is_inline ? reinterpret_cast<const char*>(&piece.value)
                                  : reader_.bytes(piece.value, piece.bytes);
    if (first == nullptr) return {};
    joined_.append(first, piece.bytes);
  }
  return joined_;
}

std::string Walk::site_of(const journal::RegionHead& region, const journal::CallEntry& call) {
  if (call.module >= region.modules.tail.load()) return "unknown place";
  const auto* module = reader_.element<journal::ModuleEntry>(region.modules, call.module);
  return module == nullptr ? "unknown place" : describe_(*module, call.place);
}

bool Walk::walk_channels(std::uint32_t rank, const journal::RegionHead& region) {
  const auto* channels = reader_.at<journal::Log>(region.channels, header_->ranks);
  for (std::uint32_t to = 0; channels != nullptr && to < header_->ranks; ++to) {
    const std::uint64_t count = channels[to].tail.load();
    if (count == 0) continue;
    if (!reader_.whole<journal::ChannelEntry>(channels[to])) return false;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!Reader::kept(channels[to], i)) i = Reader::next_kept(channels[to], i);
      if (i >= count) break;
      const auto* entry = reader_.element<journal::ChannelEntry>(channels[to], i);
      if (entry == nullptr) return false;
      bytes += entry->bytes;
    }
    visitor_.channel({rank, to, count, bytes});
  }
  return channels != nullptr;
}

}  // namespace

std::optional<Error> read_journal(const std::string& path, std::string_view file,
                                  const InspectOptions& options, const DescribeSite& describe,
                                  JournalVisitor& visitor) {
  return Walk(file, options, describe, visitor).go(path);
}

}  // namespace rejoin::launcher
