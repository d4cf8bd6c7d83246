// Reads a kept journal file. The contents are not trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kernels.h"
#include "journal/layout.h"
#include "launcher/base/options.h"
#include "launcher/base/result.h"

namespace rejoin::launcher {

using DescribeSite = std::function<std::string(const journal::ModuleEntry&, std::uint64_t place)>;

struct JournalFacts {
  std::uint64_t job;
  std::uint64_t started_wall_ns;  // since 1970; 0: not known
  std::uint32_t ranks;
  std::uint32_t deaths;
  std::uint64_t bytes;  // of memory
  bool full;            // a death could not be repaired any more
  journal::Return goes_back_to;
};

// What a rank would restart from if it died: an image, a checkpoint, or main; or nothing is left.
struct RecoveryFacts {
  enum class Kind : std::uint8_t { kMain, kImage, kCheckpoint, kNothing };
  Kind kind;
  std::uint64_t number;        // of the image or checkpoint
  bool is_there;               // the journal describes it, so the next three are set
  std::uint64_t made_wall_ns;  // since 1970
  std::uint64_t behind;        // operations of the rank
  std::uint64_t version;       // of an image: checkpoints that the rank had made
  std::string why;             // kMain, kNothing
};

// A checkpoint whose models are in the journal.
struct VersionFacts {
  std::uint64_t number;
  std::uint64_t made_wall_ns;
  std::uint64_t behind;  // operations of the rank
  std::uint64_t global_bytes, local_bytes;
};

struct RankFacts {
  std::uint32_t rank;
  std::uint32_t incarnations;
  std::uint64_t communicators, operations, messages;
  std::uint64_t observation_bytes, journal_bytes;
  std::vector<VersionFacts> versions;  // by number
  RecoveryFacts recovery;
};

struct CommunicatorFacts {
  std::uint32_t rank;
  std::uint64_t context;
  std::string name;  // "MPI_COMM_WORLD", "MPI_Comm_split 3 of MPI_COMM_WORLD, colour 1"; or empty
  std::uint32_t member;
  std::vector<std::uint32_t> members;  // ranks of the job
  std::uint64_t operations;
};

struct OperationFacts {
  std::uint32_t rank;
  std::uint64_t sequence;
  std::string name;  // "Allreduce"
  std::string site;  // "solver.c:12::iterate"
  std::uint64_t element_bytes, count;
  std::int32_t root;         // -1: none
  engine::Element element;   // kNone: not known, as for all data movement
  engine::Operator reduces;  // kNull: it is no reduction
  bool failed;               // the members disagreed
  std::uint64_t result_bytes;
  journal::Offset at;       // of the result in the file; 0: it is in `result`, or there is none
  std::string_view result;  // empty: not in the journal any more, or not known
};

struct ChannelFacts {
  std::uint32_t from, to;
  std::uint64_t messages;
  std::uint64_t bytes;  // of the messages that are still in the journal
};

// Called for the parts of a journal in order: the job; for each rank, the rank itself, its
// communicators, each with its operations, and its channels.
class JournalVisitor {
 public:
  virtual void job(const JournalFacts&) = 0;
  virtual void rank(const RankFacts&) = 0;
  virtual void communicator(const CommunicatorFacts&) = 0;
  virtual void operation(const CommunicatorFacts&, const OperationFacts&) = 0;
  // The communicator's operations before `sequence` were overwritten, after a checkpoint or image
  // or because the journal was full.
  virtual void not_kept(const CommunicatorFacts&, std::uint64_t sequence) = 0;
  // Because of --limit, this number of further operations is not shown.
  virtual void more(const CommunicatorFacts&, std::uint64_t operations) = 0;
  virtual void channel(const ChannelFacts&) = 0;

 protected:
  ~JournalVisitor() = default;
};

// Reads `file`, the contents of the file at `path`, which errors name: it is no journal of this
// version, has no such rank, or is damaged, and where. Before an error, the visitor may have been
// called for some parts. O(file).
std::optional<Error> read_journal(const std::string& path, std::string_view file,
                                  const InspectOptions& options, const DescribeSite& describe,
                                  JournalVisitor& visitor);

}  // namespace rejoin::launcher
