#include "launcher/agent/job_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "engine/transport/shm/host.h"
#include "engine/transport/shm/memory.h"
#include "journal/log.h"
#include "journal/needed_payload.h"
#include "journal/put_back.h"
#include "launcher/agent/checked_files.h"
#include "launcher/agent/compressed_files.h"
#include "launcher/agent/machine.h"
#include "launcher/symbolizer/symbolizer.h"
#include "recovery/rank.h"
#include "relay/link.h"

namespace rejoin::launcher {
namespace {

std::uint64_t now_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

// Sets the wall clock and its offset from the monotonic clock, which ranks read (ShmHost::now_ns).
void set_times(journal::SegmentHeader* header) {
  header->started_wall_ns = now_ns(CLOCK_REALTIME);
  header->wall_offset_ns = header->started_wall_ns - now_ns(CLOCK_MONOTONIC);
}

// Whether a system call failed because a seccomp filter, of a container for example, forbids it.
bool is_forbidden(int error) { return error == EPERM || error == ENOSYS; }

// Returns the reason, and the remedy, for failing to create a file of the segment's size. The file
// is sparse, so a large size by itself costs nothing.
std::string size_error_text(int error) {
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const bool is_limited = error == EFBIG && limit.rlim_cur != RLIM_INFINITY;
  return error_text(error) +
         (is_limited ? " (ulimit -f limits its size; set it to unlimited: the file is sparse and "
                       "occupies little space)"
                     : " (the file is sparse; a smaller --journal-limit makes it smaller)");
}

Result<Descriptor> nameless_file(const std::string& directory, std::uint64_t bytes) {
  if (directory.empty()) {
    Descriptor memory(engine::make_segment_memory(bytes));
    if (memory.open()) return memory;
    if (is_forbidden(errno)) {
      return Error{
          "cannot create shared memory: memfd_create() is forbidden here, as by a seccomp filter; "
          "give a directory with --journal-dir"};
    }
    return Error{"cannot create shared memory: " + size_error_text(errno)};
  }
  Descriptor file(open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!file.open() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string path = directory + "/rejoin-XXXXXX";
    file = Descriptor(mkostemp(path.data(), O_CLOEXEC));
    if (file.open()) unlink(path.c_str());
  }
  if (!file.open()) {
    return Error{"cannot write to --journal-dir " + directory + ": " + error_text(errno)};
  }
  return file;
}

// The payload of each rank of this host, in bytes, that is worth touching before it is used: a
// multiple of a large page, or 0. The limit may be of another host, which has more memory.
std::uint64_t prefaulted_bytes(std::uint64_t journal_limit_bytes, std::uint64_t ranks) {
  constexpr std::uint64_t kLargePage = 2 << 20, kMostOfRank = 32 << 20, kMostOfHost = 256 << 20;
  constexpr std::uint64_t kShareOfLimit = 32;
  std::uint64_t limit = default_journal_limit_bytes("");
  if (journal_limit_bytes != 0) limit = std::min(limit, journal_limit_bytes);
  const std::uint64_t host = std::min(limit / kShareOfLimit, kMostOfHost);
  return std::min(host / std::max<std::uint64_t>(ranks, 1), kMostOfRank) / kLargePage * kLargePage;
}

// Allocates what format_segment() writes, so that a full disk is an error here and no SIGBUS there.
// large: the first memory of a local rank's region is a large page, if there are any: structure
// that every collective uses.
int back_front(const JobSegment& segment, bool large, std::uint32_t ranks,
               std::uint64_t limit_bytes, const LocalRanks& local) {
  constexpr std::uint64_t kPage = 4096;
  const int file = segment.descriptor();
  const auto region_bytes = journal::region_bytes_for(ranks, limit_bytes);
  const auto front = journal::segment_bytes_for(ranks, limit_bytes) - ranks * region_bytes;
  const auto head = sizeof(journal::SegmentHeader) + ranks * sizeof(journal::RankControl);
  if (fallocate(file, 0, 0, static_cast<off_t>(head)) != 0) return errno == EOPNOTSUPP ? 0 : errno;
  if (large) {
    for (const std::uint32_t r : local)
      engine::back_front(segment.base() + front + r * region_bytes);
  }
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto at = static_cast<off_t>(front + r * region_bytes);
    if (fallocate(file, 0, at, kPage) != 0) return errno;
  }
  return 0;
}

// Writes the options that ranks read and that a resumed job may change.
void write_options(journal::SegmentHeader* header, const RunOptions& options) {
  const bool writes = !options.checkpoint_directory.empty() && !options.has_agents();
  header->stop_on_divergence = options.on_divergence != OnDivergence::kWarn;
  header->log_ops = options.log_ops;
  header->bootstrap_limit_bytes = options.bootstrap_limit_bytes;
  header->tell_committed = writes || !options.events_path.empty();
  header->writes_versions = writes;
}

// Agents of several nodes may share this machine.
std::size_t ranks_of_machine(const RunOptions& options, const LocalRanks& local) {
  return options.hosts.empty() ? options.ranks() : local.size();
}

// A job may be resumed on another machine.
void set_processors(journal::SegmentHeader* header, const RunOptions& options,
                    std::uint32_t processors, const LocalRanks& local) {
  const std::size_t here = ranks_of_machine(options, local);
  const bool crowded = here > processors;
  header->ranks_here = static_cast<std::uint32_t>(here);
  header->cores = processors;
  header->crowded = crowded;
  header->light_publish = !crowded;
}

void write_faults(journal::SegmentHeader* header, const std::vector<KillOrder>& kills,
                  std::uint32_t first_incarnation = 0) {
  header->faults = static_cast<std::uint32_t>(kills.size());
  for (std::size_t i = 0; i < kills.size(); ++i) {
    journal::FaultPoint& point = header->fault[i];
    point.ordinal = kills[i].ordinal;
    point.rank = kills[i].rank;
    point.incarnation = first_incarnation + kills[i].incarnation;
    point.kind = kills[i].kind;
    point.moment = kills[i].moment;
  }
}

constexpr char kJournalMagic[8] = {'R', 'E', 'J', 'O', 'I', 'N', 'J', 'O'};
constexpr std::uint64_t kPageBytes = 4096;

std::string place_of(const std::string& directory) {
  return directory.empty() ? "memory" : "--journal-dir " + directory;
}

Error no_room(const std::string& directory, int error) {
  const std::string place = place_of(directory);
  if (is_forbidden(error)) {
    return Error{"cannot allocate a journal in " + place +
                 ": fallocate() is forbidden here, as by a seccomp filter (docs/containers.md)"};
  }
  return Error{"there is no room for a journal in " + place + ": " + error_text(error)};
}

std::uint64_t to_whole_pages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Where the used part of an area of a local rank ends. Behind it there may be memory, too
// (engine::prefault_payload()). The control block of another host's rank may be older than what it
// has written.
std::uint64_t used(const journal::OwnerWord<std::uint64_t>& bump) {
  return to_whole_pages(bump.load());
}

bool is_zero(const std::byte* page) {
  std::uint64_t word;
  for (std::uint64_t at = 0; at < kPageBytes; at += sizeof word) {
    memcpy(&word, page + at, sizeof word);
    if (word != 0) return false;
  }
  return true;
}

void add_page(std::vector<SegmentPiece>& pieces, std::uint64_t at) {
  if (!pieces.empty() && pieces.back().at + pieces.back().bytes == at) {
    pieces.back().bytes += kPageBytes;
  } else {
    pieces.push_back({at, kPageBytes});
  }
}

// Adds a JournalHead and the list of pieces.
void add_list(NewFile& file, std::uint64_t segment_bytes, const std::vector<SegmentPiece>& pieces) {
  JournalHead head = {};
  memcpy(head.magic, kJournalMagic, sizeof head.magic);
  head.segment_bytes = segment_bytes;
  head.pieces = pieces.size();
  file.add(&head, sizeof head);
  file.add(pieces.data(), pieces.size() * sizeof(SegmentPiece));
}

}  // namespace

std::optional<JournalParts> parts_of(std::string_view file) {
  JournalHead head = {};
  if (file.size() < sizeof head) return {};
  memcpy(&head, file.data(), sizeof head);
  const std::size_t most = (file.size() - sizeof head) / sizeof(SegmentPiece);
  if (memcmp(head.magic, kJournalMagic, sizeof head.magic) != 0 || head.pieces > most) return {};
  JournalParts all = {head.segment_bytes, {}};
  std::size_t at = sizeof head + head.pieces * sizeof(SegmentPiece);
  for (std::uint64_t i = 0; i < head.pieces; ++i) {
    SegmentPiece piece;
    memcpy(&piece, file.data() + sizeof head + i * sizeof piece, sizeof piece);
    if (piece.bytes > file.size() - at || piece.at > head.segment_bytes ||
        piece.bytes > head.segment_bytes - piece.at) {
      return {};
    }
    all.parts.push_back({piece.at, file.substr(at, piece.bytes)});
    at += piece.bytes;
  }
  return all;
}

SegmentCopy::SegmentCopy(std::uint64_t segment_bytes, std::size_t most_bytes)
    : segment_bytes_(segment_bytes), most_bytes_(std::max(most_bytes, std::size_t{1})) {
  void* p = mmap(nullptr, most_bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

SegmentCopy::~SegmentCopy() {
  if (memory_ != nullptr) munmap(memory_, most_bytes_);
}

void SegmentCopy::populate(std::size_t bytes) {
  if (memory_ == nullptr) return;
  madvise(memory_ + bytes_, std::min(bytes, most_bytes_ - bytes_) / kPageBytes * kPageBytes,
          MADV_POPULATE_WRITE);
}

void SegmentCopy::add(const std::byte* base, std::uint64_t at, std::uint64_t bytes) {
  for (const std::uint64_t end = at + bytes; at < end && good(); at += kPageBytes) {
    if (is_zero(base + at)) continue;
    is_full_ = most_bytes_ - bytes_ < kPageBytes;
    if (is_full_) return;
    memcpy(memory_ + bytes_, base + at, kPageBytes);
    bytes_ += kPageBytes;
    add_page(pieces_, at);
  }
}

bool SegmentCopy::write(const std::string& path) const {
  NewFile file(path, O_TRUNC, 0600);
  add_list(file, segment_bytes_, pieces_);
  file.add(memory_, bytes_);
  return file.sync();
}

Result<JobSegment> JobSegment::map(const std::string& directory, std::uint64_t bytes) {
  auto file = nameless_file(directory, bytes);
  if (!file.ok()) return file.error();
  const int fd = file.value().get();
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return Error{"cannot reserve a journal of " + size_text(bytes) + " in " + place_of(directory) +
                 ": " + size_error_text(errno)};
  }
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) {
    return Error{"cannot reserve " + size_text(bytes) +
                 " of address space for the journal: " + error_text(errno) +
                 " (ulimit -v may limit it; a smaller --journal-limit needs less)"};
  }
  madvise(p, bytes, MADV_DONTDUMP);
  return JobSegment(std::move(file.value()), static_cast<std::byte*>(p), bytes);
}

Result<JobSegment> JobSegment::create(const RunOptions& options, std::uint64_t job,
                                      std::uint32_t processors, const LocalRanks& local) {
  const std::uint32_t ranks = options.ranks();
  const std::uint64_t limit_bytes = options.journal_limit_bytes;
  const std::string& directory = options.journal_directory;
  const std::uint64_t regions_end = journal::segment_bytes_for(ranks, limit_bytes);
  const std::uint64_t nodes = options.has_agents() ? options.layout.size() : 0;
  auto mapped = map(directory, regions_end + nodes * relay::kLinkBytes);
  if (!mapped.ok()) return mapped;
  const std::size_t here = ranks_of_machine(options, local);
  const std::uint64_t prefaulted = directory.empty() ? prefaulted_bytes(limit_bytes, here) : 0;
  // The agent finds these pages for all ranks one after the other, which takes it 0.25 ms each, and
  // where memory has several nodes they would all be near its own processor.
  constexpr std::size_t kMostLargeFronts = 16;
  const bool large = prefaulted != 0 && local.size() <= kMostLargeFronts && is_memory_uniform();
  if (const int error = back_front(mapped.value(), large, ranks, limit_bytes, local); error != 0) {
    return no_room(directory, error);
  }
  std::byte* base = mapped.value().base();
  journal::format_segment(base, ranks, job, limit_bytes, processors);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    journal::control_of(base, r)->node = options.place_of(r).node;
  }
  journal::SegmentHeader* header = journal::header_of(base);
  header->nodes_apart = options.between_nodes != BetweenNodes::kMemory;
  header->has_relay = options.has_agents();
  header->links = regions_end;
  header->link_bytes = relay::kLinkBytes;
  header->segment_bytes += nodes * relay::kLinkBytes;
  header->snapshots = options.snapshots.on();
  // Agents of several nodes would have to decide together.
  const auto decision =
      options.has_agents() ? journal::Return::kImages : journal::Return::kUndecided;
  if (options.snapshots.on()) journal::put(header->goes_back_to, decision);
  header->snapshot_every_bytes = options.snapshots.every_bytes / ranks;
  set_processors(header, options, processors, local);
  header->prefaulted_bytes = prefaulted;
  write_options(header, options);
  set_times(header);
  write_faults(header, options.kills);
  return mapped;
}

Result<JobSegment> JobSegment::restore(const RunOptions& options, const std::string& journal,
                                       std::uint64_t set, std::uint32_t processors,
                                       const LocalRanks& local) {
  const std::string& directory = options.journal_directory;
  auto plain = PlainFile::open(journal);
  if (!plain.ok()) return plain.error();
  auto file = MappedFile::open(plain.value().path());
  if (!file.ok()) return file.error();
  const Error other{"--resume: " + journal + " was written by another version of Rejoin"};
  const auto written = parts_of(file.value().bytes());
  if (!written) return other;
  auto mapped = map(directory, written->segment_bytes);
  if (!mapped.ok()) return mapped;
  std::byte* base = mapped.value().base();
  for (const JournalPart& part : written->parts) {
    const int error = fallocate(mapped.value().descriptor(), 0, static_cast<off_t>(part.at),
                                static_cast<off_t>(part.bytes.size())) == 0
                          ? 0
                          : errno;
    if (error != 0 && error != EOPNOTSUPP) return no_room(directory, error);
    memcpy(base + part.at, part.bytes.data(), part.bytes.size());
  }
  journal::SegmentHeader* header = journal::header_of(base);
  if (header->magic != journal::kSegmentMagic || header->ranks != options.ranks()) return other;
  if (set != 0) {
    if (!journal::has_marks(base, set)) {
      return Error{"--resume: " + journal + " does not have the marks of its images"};
    }
    journal::put_back(base, local, set);
    journal::put_copies_back(base, local, set);
  }
  for (const std::uint32_t r : local) journal::back_again(base, r);
  set_processors(header, options, processors, local);
  header->prefaulted_bytes = 0;  // what was restored comes first
  write_options(header, options);
  set_times(header);
  memset(static_cast<void*>(header->fault), 0, sizeof header->fault);
  write_faults(header, options.kills, mapped.value().next_incarnation());
  return mapped;
}

JobSegment::~JobSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

std::uint32_t JobSegment::next_incarnation() const {
  std::uint32_t next = 0;
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    next = std::max(next, control(r)->incarnation.load() + 1);
  }
  return next;
}

bool JobSegment::would_replay_threads(std::uint32_t rank) const {
  const journal::RankControl* c = control(rank);
  return c->kept_image.load() < c->several_threads_before.load();
}

std::uint64_t JobSegment::age_of_set_ns(std::uint64_t set) const {
  timespec t = {};
  clock_gettime(CLOCK_REALTIME, &t);
  const auto now_ns =
      static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
  std::uint64_t oldest_ns = now_ns;
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    const journal::Image* image = journal::find_image(base_, r, set);
    if (image != nullptr) oldest_ns = std::min(oldest_ns, image->marks.made_wall_ns);
  }
  return now_ns - oldest_ns;
}

std::vector<SegmentPiece> JobSegment::populated(std::uint64_t begin, std::uint64_t end) const {
  std::vector<SegmentPiece> pieces;
  const auto last = static_cast<off_t>(end);
  for (auto at = static_cast<off_t>(begin); at < last;) {
    at = lseek(file_.get(), at, SEEK_DATA);
    if (at < 0 || at >= last) break;
    const off_t hole = std::min(lseek(file_.get(), at, SEEK_HOLE), last);
    pieces.push_back({static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(hole - at)});
    at = hole;
  }
  return pieces;
}

// All but the payload, which is at the end of each rank's region: of the ranks of other hosts, or
// the rest.
std::vector<SegmentPiece> JobSegment::populated_structure(const LocalRanks& local,
                                                          bool is_of_others) const {
  std::vector<SegmentPiece> pieces;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    const auto more = populated(begin, end);
    pieces.insert(pieces.end(), more.begin(), more.end());
  };
  const std::uint64_t front = journal::region_offset(header(), 0);
  if (!is_of_others) add(0, front);
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    const std::uint64_t region = journal::region_offset(header(), r);
    const bool is_local = std::binary_search(local.begin(), local.end(), r);
    if (is_local == is_of_others) continue;
    const std::uint64_t most = journal::payload_begin(header());
    add(region, region + (is_local ? std::min(used(control(r)->permanent_bump), most) : most));
  }
  // Connections with other hosts are not part of it.
  const std::uint64_t behind = front + header()->ranks * header()->region_bytes;
  if (!is_of_others) add(behind, std::max(behind, header()->links));
  return pieces;
}

SegmentCopy JobSegment::room_for_copy() const {
  constexpr std::size_t kGrowth = 64 << 20;  // while the copy is made; addresses, not memory
  std::size_t bytes = kGrowth;
  for (const SegmentPiece& p : populated(0, bytes_)) bytes += p.bytes;
  return SegmentCopy(header()->segment_bytes, bytes);
}

std::vector<SegmentPiece> JobSegment::payload(const LocalRanks& local, std::uint64_t set) const {
  std::vector<SegmentPiece> pieces;
  const std::uint64_t begins = journal::payload_begin(header());
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    const std::uint64_t region = journal::region_offset(header(), r);
    const bool is_local = std::binary_search(local.begin(), local.end(), r);
    const std::uint64_t last =
        region + (is_local ? used(control(r)->payload_bump) : header()->region_bytes);
    std::uint64_t from = region + begins;  // extents may share a page
    const auto needed = set != 0 ? journal::needed_payload(base_, local, r, set)
                                 : std::vector<journal::Extent>{{from, last - from}};
    for (const journal::Extent& e : needed) {
      const std::uint64_t begin = std::max(from, e.at / kPageBytes * kPageBytes);
      from = std::max(begin, std::min(last, to_whole_pages(e.at + e.bytes)));
      for (SegmentPiece p : populated(begin, from)) {
        for (; p.bytes > kPieceBytes; p.at += kPieceBytes, p.bytes -= kPieceBytes) {
          pieces.push_back({p.at, kPieceBytes});
        }
        pieces.push_back(p);
      }
    }
  }
  return pieces;
}

std::uint64_t JobSegment::bytes_with(const std::vector<SegmentPiece>& payload,
                                     const LocalRanks& local) const {
  std::uint64_t bytes = 0;
  for (const SegmentPiece& p : payload) bytes += p.bytes;
  for (const bool is_of_others : {false, true}) {
    for (const SegmentPiece& p : populated_structure(local, is_of_others)) bytes += p.bytes;
  }
  return bytes;
}

void JobSegment::make_room(SegmentCopy& copy, const LocalRanks& local, bool is_of_others) const {
  std::size_t bytes = 0;
  for (const SegmentPiece& p : populated_structure(local, is_of_others)) bytes += p.bytes;
  copy.populate(bytes);
}

void JobSegment::copy_structure_of_others(SegmentCopy& copy, const LocalRanks& local) const {
  for (const SegmentPiece& p : populated_structure(local, true)) copy.add(base_, p.at, p.bytes);
}

void JobSegment::copy_structure(SegmentCopy& copy, const LocalRanks& local) const {
  for (const SegmentPiece& p : populated_structure(local, false)) copy.add(base_, p.at, p.bytes);
  // Labels of zones lie among the payload, and a zone may have been closed since that was copied.
  for (const std::uint32_t r : local) {
    const journal::RegionHead* head = journal::region_of(base_, r);
    for (std::uint32_t i = 0; i < head->zones; ++i) {
      const journal::Buffer& label = head->zone[i].label;
      const std::uint64_t from = label.at / kPageBytes * kPageBytes;
      copy.add(base_, from, label.at + label.bytes - from);
    }
  }
}

void JobSegment::ring(std::uint32_t rank) const {
  auto& bell = control(rank)->bell;
  bell.store(journal::kAgentStores, journal::Step::kSame, 1, std::memory_order_seq_cst);
  syscall(SYS_futex, bell.address(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void JobSegment::set_output_mark(std::uint32_t rank, std::uint64_t value) const {
  control(rank)->output_mark.store(journal::kAgentStores, journal::Step::kSame, value,
                                   std::memory_order_seq_cst);
  ring(rank);
}

void JobSegment::ring_all() const {
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    ring(r);
  }
}

Position JobSegment::position(std::uint32_t rank) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const journal::RankControl* c = control(rank);
  Position p;
  p.ordinal = c->ordinal.load(std::memory_order_acquire);
  p.live = c->live_since.load(kRelaxed) != 0;
  p.replayed = c->replayed.load(kRelaxed);
  if (p.ordinal == 0) return p;
  p.context = c->context.load(kRelaxed);
  p.sequence = c->sequence.load(kRelaxed);
  p.inside = c->phase.load(kRelaxed) == journal::Phase::kInside;
  journal::Log& calls = journal::region_of(base_, rank)->calls;
  const std::uint32_t call = c->call.load(std::memory_order_acquire);
  if (call >= calls.tail.load(std::memory_order_acquire)) return p;
  const journal::CallEntry* entry = journal::log_at<journal::CallEntry>(base_, calls, call);
  p.operation = recovery::name_of(static_cast<recovery::OpKind>(entry->signature.kind));
  p.site = site_marker(rank, entry->module, entry->place);
  return p;
}

bool JobSegment::threads_may_call(std::uint32_t rank) const {
  return control(rank)->threads_may_call.load() != 0;
}

bool JobSegment::recycles() const { return header()->recycles.load() != journal::Recycles::kNot; }

void JobSegment::let_recycle(bool results) const {
  using journal::Recycles;
  journal::let_recycle(base_, results ? Recycles::kAll : Recycles::kAllButResults);
}

void JobSegment::give_notice() const {
  header()->notices.add(journal::kAgentStores, journal::Step::kNotice, 1);
}

std::uint64_t JobSegment::backed_bytes() const {
  std::uint64_t all = 0;
  for (std::uint32_t r = 0; r < header()->ranks; ++r) {
    all += control(r)->backed_bytes.load(std::memory_order_relaxed);
  }
  return all;
}

std::string JobSegment::waits_for(std::uint32_t rank) const {
  using journal::Waiting;
  const std::uint64_t word = control(rank)->waits_for.load(std::memory_order_relaxed);
  const std::uint32_t peer = Waiting::rank(word), tag = Waiting::tag(word);
  const std::string tagged =
      tag == Waiting::kAnyTag ? " with any tag" : " with tag " + std::to_string(tag);
  if ((word & Waiting::kForMessage) != 0) {
    return "a message from " +
           (peer == Waiting::kAnyRank ? "any rank" : "rank " + std::to_string(peer)) + tagged;
  }
  if ((word & Waiting::kForReceive) != 0) {
    return "a receive in rank " + std::to_string(peer) + " that takes its message" + tagged;
  }
  return "";
}

const journal::ModuleEntry* JobSegment::module(std::uint32_t rank, std::uint32_t index) const {
  if (rank >= header()->ranks) return nullptr;
  journal::Log& modules = journal::region_of(base_, rank)->modules;
  if (index >= modules.tail.load(std::memory_order_acquire)) return nullptr;
  return journal::log_at<journal::ModuleEntry>(base_, modules, index);
}

Result<std::uint64_t> JobSegment::keep(const std::string& path,
                                       const std::function<bool()>& interrupted) const {
  constexpr std::uint64_t kStepBytes = 16 << 20;
  // A file or link that exists already belongs to another user or job.
  NewFile out(path, O_EXCL | O_NOFOLLOW, 0600);
  const auto failed = [&path](int error) {
    unlink(path.c_str());
    return Error{"cannot write the journal to " + path + ": " + error_text(error)};
  };
  if (!out.good()) {
    return Error{"cannot write the journal to " + path + ": " + error_text(out.error())};
  }
  std::vector<SegmentPiece> pieces;
  for (const SegmentPiece& p : populated(0, bytes_)) {
    for (std::uint64_t at = p.at; at < p.at + p.bytes; at += kPageBytes) {
      if (!is_zero(base_ + at)) add_page(pieces, at);
    }
    if (interrupted()) return failed(EINTR);
  }
  add_list(out, header()->segment_bytes, pieces);
  for (const SegmentPiece& p : pieces) {
    for (std::uint64_t done = 0; done < p.bytes;) {
      if (interrupted()) return failed(EINTR);
      const std::uint64_t n = std::min(p.bytes - done, kStepBytes);
      if (!out.add(base_ + p.at + done, n)) return failed(out.error());
      done += n;
    }
  }
  if (!out.good()) return failed(out.error());
  return out.bytes();
}

}  // namespace rejoin::launcher
