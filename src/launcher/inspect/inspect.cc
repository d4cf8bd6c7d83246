#include "launcher/inspect/inspect.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launcher/agent/job_segment.h"
#include "launcher/base/file.h"
#include "launcher/base/grammar.h"
#include "launcher/inspect/values.h"
#include "launcher/inspect/written_sets.h"
#include "launcher/program/program.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {
namespace {

using Out = std::function<void(const std::string&)>;

constexpr std::size_t kMostElements = 4;  // of a result that are printed

std::string bytes_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// "images"
const char* word_for(journal::Return word) {
  switch (word) {
    case journal::Return::kImages:
      return "images";
    case journal::Return::kVersions:
      return "checkpoints";
    case journal::Return::kUndecided:
      break;
  }
  return "undecided";
}

// "image"
const char* word_for(RecoveryFacts::Kind kind) {
  switch (kind) {
    case RecoveryFacts::Kind::kMain:
      return "main";
    case RecoveryFacts::Kind::kImage:
      return "image";
    case RecoveryFacts::Kind::kCheckpoint:
      return "checkpoint";
    case RecoveryFacts::Kind::kNothing:
      break;
  }
  return "nothing";
}

// "would go back to image 12, made 2026-11-24 03:15:00 behind operation 400 (version 7)"
std::string recovery_text(const RecoveryFacts& r) {
  using Kind = RecoveryFacts::Kind;
  if (r.kind == Kind::kMain) return "would go back to the start of the program: " + r.why;
  if (r.kind == Kind::kNothing) return "could not go back: " + r.why;
  std::string text =
      std::string("would go back to ") + word_for(r.kind) + " " + std::to_string(r.number);
  if (!r.is_there) return text + ", which the journal does not contain";
  text += ", made " + time_text(r.made_wall_ns) + " behind operation " + std::to_string(r.behind);
  if (r.version != 0) text += " (version " + std::to_string(r.version) + ")";
  return text;
}

class TextPrinter : public JournalVisitor {
 public:
  explicit TextPrinter(const Out& out) : out_(out) {}

  void job(const JournalFacts& j) override {
    out_("job " + hex_text(j.job) + ": " + counted(j.ranks, "rank") + ", " +
         counted(j.deaths, "death") + ", journals of " + size_text(j.bytes) +
         (j.full ? ", at their limit" : "") +
         (j.started_wall_ns != 0 ? ", started " + time_text(j.started_wall_ns) : "") + "\n");
    const bool decided = j.goes_back_to != journal::Return::kUndecided;
    out_(decided
             ? std::string("the ranks of this job go back to ") + word_for(j.goes_back_to) + "\n"
             : "it is undecided whether the ranks of this job go back to images or to "
               "checkpoints\n");
  }

  void rank(const RankFacts& r) override {
    out_("rank " + std::to_string(r.rank) + ": " + counted(r.incarnations, "incarnation") + ", " +
         counted(r.communicators, "communicator") + ", " + counted(r.operations, "operation") +
         ", " + counted(r.messages, "message") + " sent, " + counted(r.observation_bytes, "byte") +
         " of observations, " + size_text(r.journal_bytes) + "\n");
    out_("rank " + std::to_string(r.rank) + " " + recovery_text(r.recovery) + "\n");
    for (const VersionFacts& v : r.versions) {
      out_("version " + std::to_string(v.number) + " of rank " + std::to_string(r.rank) +
           ": made " + time_text(v.made_wall_ns) + ", behind operation " +
           std::to_string(v.behind) + ", global model " + size_text(v.global_bytes) +
           ", local model " + size_text(v.local_bytes) + "\n");
    }
  }

  void communicator(const CommunicatorFacts& c) override {
    constexpr std::size_t kMostNamed = 16;
    std::string members;
    for (std::size_t i = 0; i < std::min(c.members.size(), kMostNamed); ++i) {
      members += (i == 0 ? "" : " ") + std::to_string(c.members[i]);
    }
    if (c.members.size() > kMostNamed) members += " ...";
    const std::string name = c.name.empty() ? communicator_text(c.context, c.rank) : c.name;
    out_(name + " of rank " + std::to_string(c.rank) + ": member " + std::to_string(c.member) +
         " of " + std::to_string(c.members.size()) + " (" + members + "), " +
         counted(c.operations, "operation") + "\n");
  }

  void operation(const CommunicatorFacts&, const OperationFacts& o) override {
    std::string name = o.name;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string line = "[" + std::to_string(o.rank) + "] " + name + " (" + o.site + "#" +
                       std::to_string(o.element_bytes) + "x" + std::to_string(o.count);
    if (o.root >= 0) line += " root " + std::to_string(o.root);
    line += o.failed ? ") failed, seq " : ") finished, seq ";
    line += std::to_string(o.sequence);
    const std::string what = name_of(o.reduces);
    const std::string values = elements_text(o.element, o.result, kMostElements);
    if (!values.empty()) {
      line += ", " + (what.empty() ? "value" : what) + " " + values;
    } else if (!o.result.empty() && o.result.size() <= journal::kInlineBytes) {
      line += ", bytes " + bytes_text(o.result);
    }
    if (o.at != 0) line += ", at byte " + std::to_string(o.at);
    out_(line + "\n");
  }

  void not_kept(const CommunicatorFacts&, std::uint64_t sequence) override {
    out_(
        "... not in the journal any more (truncated after a checkpoint or an image, or when the "
        "journal was full): all before seq " +
        std::to_string(sequence) + "\n");
  }
  void more(const CommunicatorFacts&, std::uint64_t operations) override {
    out_("... and " + std::to_string(operations) + " more\n");
  }
  void channel(const ChannelFacts& c) override {
    out_("channel of rank " + std::to_string(c.from) + " to rank " + std::to_string(c.to) + ": " +
         counted(c.messages, "message") + ", " + size_text(c.bytes) + "\n");
  }

 private:
  const Out& out_;
};

class JsonPrinter : public JournalVisitor {
 public:
  JsonPrinter(const Out& out, const std::string& path) : out_(out), path_(path) {}

  void job(const JournalFacts& j) override {
    Json json = {{"kind", "job"},          {"format", 2},       {"file", path_},
                 {"job", hex_text(j.job)}, {"ranks", j.ranks},  {"deaths", j.deaths},
                 {"bytes", j.bytes},       {"at_limit", j.full}};
    json["started"] = seconds(j.started_wall_ns);
    json["goes_back_to"] = word_for(j.goes_back_to);
    put(json);
  }
  void rank(const RankFacts& r) override {
    Json json = {{"kind", "rank"},
                 {"rank", r.rank},
                 {"incarnations", r.incarnations},
                 {"communicators", r.communicators},
                 {"operations", r.operations},
                 {"messages", r.messages},
                 {"observation_bytes", r.observation_bytes},
                 {"bytes", r.journal_bytes}};
    json["versions"] = Json::array();
    for (const VersionFacts& v : r.versions) {
      json["versions"].push_back({{"version", v.number},
                                  {"made", seconds(v.made_wall_ns)},
                                  {"ordinal", v.behind},
                                  {"global_bytes", v.global_bytes},
                                  {"local_bytes", v.local_bytes}});
    }
    json["goes_back_to"] = to_json(r.recovery);
    put(json);
  }
  void communicator(const CommunicatorFacts& c) override {
    Json json = {{"kind", "communicator"}, {"rank", c.rank}, {"context", hex_text(c.context)}};
    if (!c.name.empty()) json["name"] = c.name;
    json["member"] = c.member;
    json["members"] = c.members;
    json["operations"] = c.operations;
    put(json);
  }
  void operation(const CommunicatorFacts& c, const OperationFacts& o) override {
    Json json = {{"kind", "operation"},
                 {"rank", o.rank},
                 {"context", hex_text(c.context)},
                 {"sequence", o.sequence},
                 {"operation", "MPI_" + o.name},
                 {"site", o.site},
                 {"element_bytes", o.element_bytes},
                 {"count", o.count}};
    if (o.root >= 0) json["root"] = o.root;
    if (*name_of(o.element) != 0) json["element"] = name_of(o.element);
    if (*name_of(o.reduces) != 0) json["reduction"] = name_of(o.reduces);
    json["failed"] = o.failed;
    const std::string values = elements_text(o.element, o.result, kMostElements);
    if (!values.empty()) {
      json["values"] = values;
    } else if (!o.result.empty() && o.result.size() <= journal::kInlineBytes) {
      json["bytes"] = bytes_text(o.result);
    }
    if (o.at != 0) json["at"] = o.at;
    put(json);
  }
  void not_kept(const CommunicatorFacts& c, std::uint64_t sequence) override {
    put({{"kind", "not_kept"},
         {"rank", c.rank},
         {"context", hex_text(c.context)},
         {"before", sequence}});
  }
  void more(const CommunicatorFacts& c, std::uint64_t operations) override {
    put({{"kind", "more"},
         {"rank", c.rank},
         {"context", hex_text(c.context)},
         {"operations", operations}});
  }
  void channel(const ChannelFacts& c) override {
    put({{"kind", "channel"},
         {"rank", c.from},
         {"to", c.to},
         {"messages", c.messages},
         {"bytes", c.bytes}});
  }

 private:
  using Json = nlohmann::ordered_json;

  static Json to_json(const RecoveryFacts& r) {
    Json json = {{"kind", word_for(r.kind)}};
    const bool numbered =
        r.kind == RecoveryFacts::Kind::kImage || r.kind == RecoveryFacts::Kind::kCheckpoint;
    if (numbered) json["number"] = r.number;
    if (r.is_there) {
      json["made"] = seconds(r.made_wall_ns);
      json["ordinal"] = r.behind;
    }
    if (r.is_there && r.kind == RecoveryFacts::Kind::kImage) json["version"] = r.version;
    if (!r.why.empty()) json["why"] = r.why;
    return json;
  }
  static double seconds(std::uint64_t ns) {
    const std::uint64_t us = ns / 1000;
    return static_cast<double>(us) / 1e6;
  }
  void put(const Json& json) {
    out_(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  const Out& out_;
  const std::string& path_;
};

// Expands a kept journal to the whole segment; pages that were not stored are zero.
class Segment {
 public:
  explicit Segment(const JournalParts& journal) : bytes_(journal.segment_bytes) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    base_ = static_cast<char*>(p);
    for (const JournalPart& part : journal.parts) {
      memcpy(base_ + part.at, part.bytes.data(), part.bytes.size());
    }
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  // Returns null if there was not enough memory.
  const char* base() const { return base_; }

 private:
  std::size_t bytes_;
  char* base_ = nullptr;
};

std::optional<Error> print_file(const std::string& path, const InspectOptions& options,
                                const DescribeSite& describe) {
  std::error_code no_matter;
  if (std::filesystem::is_directory(path, no_matter)) {
    return print_image_sets(path, options.json,
                            [](const std::string& text) { std::fputs(text.c_str(), stdout); });
  }
  const auto file = MappedFile::open(path);
  if (!file.ok()) return file.error();
  if (options.files.size() > 1 && !options.json) std::printf("%s:\n", one_line(path).c_str());
  const auto journal = parts_of(file.value().bytes());
  if (!journal) {
    return Error{path +
                 " is not a journal that --keep of this version has written, or it is damaged"};
  }
  const Segment segment(*journal);
  if (segment.base() == nullptr) {
    return Error{path + ": cannot map " + size_text(journal->segment_bytes) + ": " +
                 error_text(errno)};
  }
  return print_journal(path, {segment.base(), journal->segment_bytes}, options, describe,
                       [](const std::string& text) { std::fputs(text.c_str(), stdout); });
}

}  // namespace

std::optional<Error> print_journal(const std::string& path, std::string_view file,
                                   const InspectOptions& options, const DescribeSite& describe,
                                   const Out& out) {
  if (options.json) {
    JsonPrinter json(out, path);
    return read_journal(path, file, options, describe, json);
  }
  TextPrinter text(out);
  return read_journal(path, file, options, describe, text);
}

int run_inspect(const InspectOptions& options) {
  Symbolizer symbolizer(library_directory());
  const DescribeSite describe = [&symbolizer](const journal::ModuleEntry& module,
                                              std::uint64_t place) {
    return symbolizer.describe(module, place);
  };
  std::optional<Error> first;
  for (const std::string& path : options.files) {
    auto error = print_file(path, options, describe);
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!written && !error) error = Error{"standard output cannot be written"};
    if (!error) continue;
    std::fprintf(stderr, "rejoin: %s\n", error->text.c_str());
    if (!first) first = std::move(error);
  }
  return first ? first->exit_code : 0;
}

}  // namespace rejoin::launcher
