#include "launcher/inspect/inspect.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "journal/log.h"
#include "launcher/base/file.h"
#include "launcher/base/grammar.h"
#include "launcher/inspect/symbolizer.h"
#include "launcher/program/program.h"
#include "recovery/rank.h"

namespace rejoin::launcher {
namespace {

using engine::Offset;

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Bytes of an element and their number: "8x1000".
std::string shape_text(const engine::Signature& signature) {
  const recovery::Shape shape = recovery::shape_of(signature);
  return std::to_string(shape.element_bytes) + "x" + std::to_string(shape.count);
}

// Bytes of an operation's result, where its signature tells; else 0.
std::uint64_t result_bytes(const engine::Signature& s, std::uint32_t members) {
  switch (static_cast<recovery::OpKind>(s.kind)) {
    case recovery::OpKind::kBcast:
    case recovery::OpKind::kAllreduce:
      return s.bytes;
    case recovery::OpKind::kAllgather:
    case recovery::OpKind::kCommSplit:
      return s.bytes * members;
    default:
      return 0;
  }
}

// The mapped file. Every look is checked; the first bad one is remembered.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  // `count` Ts at `offset`; nullptr if they do not lie in the file.
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

  // Whether a log can be walked: its rings lie in the file, one behind the other, so that no more
  // elements are kept than there is room for.
  template <class T>
  bool whole(const engine::Log& log) {
    const std::uint32_t rings = log.rings.load();
    std::uint64_t from = 0;
    for (std::uint32_t k = 0; k < std::min(rings, engine::kLogRings); ++k) {
      const engine::LogRing& ring = log.ring[k];
      const bool good = std::has_single_bit(ring.capacity) && ring.from >= from &&
                        ring.from <= log.tail.load() && at<T>(ring.at, ring.capacity) != nullptr;
      if (!good) return damaged(&log);
      from = ring.from;
    }
    return rings <= engine::kLogRings || damaged(&log);
  }

  // Element `index` of a log; nullptr if it does not lie in the file. REQUIRES whole<T>(log) and
  // kept(log, index).
  template <class T>
  const T* element(const engine::Log& log, std::uint64_t index) {
    if (const int k = ring_of(log, index); k >= 0) {
      const engine::LogRing& ring = log.ring[k];
      return at<T>(ring.at + ((index - ring.from) & (ring.capacity - 1)) * sizeof(T));
    }
    const std::uint32_t chunk = engine::log_chunk(index);
    if (chunk >= engine::kLogChunks || log.chunk[chunk] == 0) {
      damaged(&log);
      return nullptr;
    }
    const std::uint64_t skipped = index - engine::log_chunk_begin(chunk);
    return at<T>(log.chunk[chunk] + skipped * sizeof(T));
  }

  // False: it was overwritten, behind a checkpoint or after the journal was full.
  static bool kept(const engine::Log& log, std::uint64_t index) {
    const int k = ring_of(log, index);
    return k < 0 || end_of(log, k) - index <= log.ring[k].capacity;
  }
  // The first element from `index` on that is kept, or the number of elements. REQUIRES !kept().
  static std::uint64_t next_kept(const engine::Log& log, std::uint64_t index) {
    const int k = ring_of(log, index);
    return end_of(log, k) - std::min(log.ring[k].capacity, end_of(log, k) - log.ring[k].from);
  }

  std::optional<Offset> damaged_at() const { return damaged_at_; }

 private:
  bool damaged(const void* p) {
    const Offset at = static_cast<Offset>(static_cast<const char*>(p) - file_.data());
    damaged_at_ = damaged_at_.value_or(at);
    return false;
  }
  static int rings_of(const engine::Log& log) { return static_cast<int>(log.rings.load()); }
  static int ring_of(const engine::Log& log, std::uint64_t index) {  // -1: it lies in a chunk
    int k = rings_of(log) - 1;
    while (k >= 0 && index < log.ring[k].from) --k;
    return k;
  }
  static std::uint64_t end_of(const engine::Log& log, int k) {
    return k + 1 < rings_of(log) ? log.ring[k + 1].from : log.tail.load();
  }

  std::string_view file_;
  std::optional<Offset> damaged_at_;
};

class Printer {
 public:
  Printer(Reader& reader, const InspectOptions& options, const DescribeSite& describe,
          const std::function<void(const std::string&)>& out)
      : reader_(reader), options_(options), describe_(describe), out_(out) {}

  std::optional<Error> print();

 private:
  bool print_rank(std::uint32_t rank);
  bool print_context(std::uint32_t rank, const engine::RegionHead& region,
                     const engine::ContextBlock& block);
  bool print_messages(std::uint32_t rank, const engine::RegionHead& region);
  std::string record_line(std::uint32_t rank, const engine::RegionHead& region,
                          std::uint32_t members, std::uint64_t sequence,
                          const engine::Record& record);
  std::string site_of(const engine::RegionHead& region, const engine::CallEntry& call);

  Reader& reader_;
  const InspectOptions& options_;
  const DescribeSite& describe_;
  const std::function<void(const std::string&)>& out_;
  const engine::SegmentHeader* header_ = nullptr;
};

std::optional<Error> Printer::print() {
  const Error foreign{options_.file + " is no journal of this version of Rejoin"};
  header_ = reader_.at<engine::SegmentHeader>(0);
  if (header_ == nullptr || header_->magic != engine::kSegmentMagic) return foreign;
  const std::uint32_t ranks = header_->ranks;
  if (ranks < 1 || ranks > engine::kMaxRanks) return foreign;
  if (options_.rank && *options_.rank >= ranks) {
    return Error{"--rank " + std::to_string(*options_.rank) + ": the job has ranks 0 to " +
                     std::to_string(ranks - 1),
                 kExitUsage};
  }
  const auto* controls = reader_.at<engine::RankControl>(sizeof(engine::SegmentHeader), ranks);
  if (controls == nullptr) return foreign;
  std::uint64_t bytes = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) bytes += controls[r].backed_bytes.load();
  out_("job " + hexadecimal(header_->job) + ": " + counted(ranks, "rank") + ", " +
       counted(header_->epoch.load(), "death") + ", journals of " + size_text(bytes) + "\n");
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if ((!options_.rank || *options_.rank == r) && !print_rank(r)) {
      return Error{options_.file + " is damaged at byte " +
                   std::to_string(reader_.damaged_at().value_or(0))};
    }
  }
  return {};
}

bool Printer::print_rank(std::uint32_t rank) {
  const auto* region =
      reader_.at<engine::RegionHead>(header_->first_region + rank * header_->region_bytes);
  if (region == nullptr || !reader_.whole<engine::CallEntry>(region->calls) ||
      !reader_.whole<engine::ModuleEntry>(region->modules)) {
    return false;
  }
  std::vector<const engine::ContextBlock*> blocks;
  std::uint64_t operations = 0;
  const std::uint32_t tables = std::min(region->contexts.tables.load(), journal::kContextTables);
  for (std::uint32_t k = 0; k < tables; ++k) {
    const std::size_t size = std::size_t{journal::kFirstTableEntries} << k;
    const auto* table = reader_.at<journal::ContextEntry>(region->contexts.at[k], size);
    if (table == nullptr) return false;
    for (std::size_t i = 0; i < size; ++i) {
      const engine::Offset at = table[i].block.load();
      if (table[i].context.load() == 0 || at == journal::kReclaimed) continue;
      const auto* block = reader_.at<engine::ContextBlock>(at);
      if (block == nullptr || !reader_.whole<engine::Record>(block->records)) return false;
      blocks.push_back(block);
      operations += block->records.tail.load();
    }
  }
  // In the order in which the program made them.
  std::sort(blocks.begin(), blocks.end());
  const auto* channels = reader_.at<engine::Log>(region->channels, header_->ranks);
  if (channels == nullptr) return false;
  std::uint64_t messages = 0;
  for (std::uint32_t to = 0; to < header_->ranks; ++to) messages += channels[to].tail.load();
  const auto* control = reader_.at<engine::RankControl>(sizeof(engine::SegmentHeader) +
                                                        rank * sizeof(engine::RankControl));
  if (control == nullptr) return false;
  out_("rank " + std::to_string(rank) + ": " + std::to_string(control->incarnation.load() + 1) +
       (control->incarnation.load() == 0 ? " incarnation, " : " incarnations, ") +
       counted(blocks.size(), "communicator") + ", " + counted(operations, "operation") + ", " +
       counted(messages, "message") + " sent, " + std::to_string(region->observations.tail.load()) +
       " bytes of observations, " + size_text(control->backed_bytes.load()) + "\n");
  for (const engine::ContextBlock* block : blocks) {
    if (!print_context(rank, *region, *block)) return false;
  }
  return print_messages(rank, *region);
}

bool Printer::print_context(std::uint32_t rank, const engine::RegionHead& region,
                            const engine::ContextBlock& block) {
  const auto* members = reader_.at<std::uint32_t>(block.members, block.size);
  if (members == nullptr) return false;
  constexpr std::uint32_t kMostNamed = 16;
  std::string names;
  for (std::uint32_t i = 0; i < std::min(block.size, kMostNamed); ++i) {
    names += (i == 0 ? "" : " ") + std::to_string(members[i]);
  }
  if (block.size > kMostNamed) names += " ...";
  const std::uint64_t count = block.records.tail.load();
  out_("communicator " + hexadecimal(block.context) + " of rank " + std::to_string(rank) +
       ": member " + std::to_string(block.rank) + " of " + std::to_string(block.size) + " (" +
       names + "), " + counted(count, "operation") + "\n");
  const std::uint64_t shown = options_.limit == 0 ? count : std::min(count, options_.limit);
  for (std::uint64_t i = 0; i < shown; ++i) {
    if (!Reader::kept(block.records, i)) {
      i = Reader::next_kept(block.records, i);
      out_("... not kept, behind a checkpoint or beyond the journal limit: all before seq " +
           std::to_string(i) + "\n");
      if (i >= shown) break;
    }
    const auto* record = reader_.element<engine::Record>(block.records, i);
    if (record == nullptr) return false;
    const std::string line = record_line(rank, region, block.size, i, *record);
    if (line.empty()) return false;
    out_(line);
  }
  if (shown < count) out_("... and " + std::to_string(count - shown) + " more\n");
  return true;
}

// [0] allreduce (solver.c:12::iterate#8x1) finished version 0, seq 0, value 000000000000f03f
std::string Printer::record_line(std::uint32_t rank, const engine::RegionHead& region,
                                 std::uint32_t members, std::uint64_t sequence,
                                 const engine::Record& record) {
  const std::uint32_t index = record.call & ~engine::kRecordFailed;
  const bool failed = (record.call & engine::kRecordFailed) != 0;
  if (index >= region.calls.tail.load()) return {};
  const auto* call = reader_.element<engine::CallEntry>(region.calls, index);
  if (call == nullptr) return {};
  std::string name = recovery::name_of(static_cast<recovery::OpKind>(call->signature.kind));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string line = "[" + std::to_string(rank) + "] " + name + " (" + site_of(region, *call) +
                     "#" + shape_text(call->signature);
  if (call->signature.root >= 0) line += " root " + std::to_string(call->signature.root);
  line += failed ? ") failed version 0, seq " : ") finished version 0, seq ";
  line += std::to_string(sequence);
  const std::uint64_t bytes = failed ? 0 : result_bytes(call->signature, members);
  if (bytes > 0 && bytes <= engine::kInlineBytes) {
    unsigned char value[engine::kInlineBytes];
    std::memcpy(value, &record.value, sizeof value);
    line += ", value ";
    for (std::uint64_t i = 0; i < bytes; ++i) {
      char digits[4];
      std::snprintf(digits, sizeof digits, "%02x", value[i]);
      line += digits;
    }
  } else if (bytes > 0) {
    line += ", at byte " + std::to_string(record.value);
  }
  return line + "\n";
}

std::string Printer::site_of(const engine::RegionHead& region, const engine::CallEntry& call) {
  if (call.module >= region.modules.tail.load()) return "unknown place";
  const auto* module = reader_.element<engine::ModuleEntry>(region.modules, call.module);
  return module == nullptr ? "unknown place" : describe_(*module, call.place);
}

bool Printer::print_messages(std::uint32_t rank, const engine::RegionHead& region) {
  const auto* channels = reader_.at<engine::Log>(region.channels, header_->ranks);
  for (std::uint32_t to = 0; channels != nullptr && to < header_->ranks; ++to) {
    const std::uint64_t count = channels[to].tail.load();
    if (count == 0) continue;
    if (!reader_.whole<engine::ChannelEntry>(channels[to])) return false;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!Reader::kept(channels[to], i)) i = Reader::next_kept(channels[to], i);
      if (i >= count) break;
      const auto* entry = reader_.element<engine::ChannelEntry>(channels[to], i);
      if (entry == nullptr) return false;
      bytes += entry->bytes;
    }
    out_("channel of rank " + std::to_string(rank) + " to rank " + std::to_string(to) + ": " +
         counted(count, "message") + ", " + size_text(bytes) + "\n");
  }
  return channels != nullptr;
}

}  // namespace

std::optional<Error> print_journal(std::string_view file, const InspectOptions& options,
                                   const DescribeSite& describe,
                                   const std::function<void(const std::string&)>& out) {
  Reader reader(file);
  return Printer(reader, options, describe, out).print();
}

int run_inspect(const InspectOptions& options) {
  const auto file = MappedFile::open(options.file);
  std::optional<Error> error;
  if (file.ok()) {
    Symbolizer symbolizer(library_directory());
    error = print_journal(
        file.value().bytes(), options,
        [&symbolizer](const engine::ModuleEntry& module, std::uint64_t place) {
          return symbolizer.describe(module, place);
        },
        [](const std::string& text) { std::fputs(text.c_str(), stdout); });
  } else {
    error = file.error();
  }
  if (std::fflush(stdout) != 0 && !error) error = Error{"standard output cannot be written"};
  if (!error) return 0;
  std::fprintf(stderr, "rejoin: %s\n", error->text.c_str());
  return error->exit_code;
}

}  // namespace rejoin::launcher
