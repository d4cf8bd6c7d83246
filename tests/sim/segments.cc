#include "segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "journal/contexts.h"
#include "journal/layout.h"
#include "journal/needed_payload.h"
#include "journal/put_back.h"

namespace rejoin::sim {
namespace {

constexpr std::uint32_t kFramesToACut = 64;  // on average
constexpr std::uint64_t kTurnBytes = 256;
constexpr std::size_t kMostFrames = 64;        // on their way, before others are sent
constexpr std::size_t kArenaBytes = 64 << 20;  // virtual

int make_file(std::size_t bytes) {
  const int file = memfd_create("segment", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
  return file;
}

void* check(void* mapped) {
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return mapped;
}

}  // namespace

Mapping::Mapping(std::size_t bytes)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(
          check(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)))) {
  madvise(memory_, bytes, MADV_NOHUGEPAGE);
}
Mapping::Mapping(std::size_t bytes, int file)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(check(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)))) {}
Mapping::~Mapping() { munmap(memory_, bytes_); }

struct Segments::Frame {
  relay::Head head;
  std::vector<std::byte> body;
  // Payload that the receiver reads: from the sender's memory, and then to its own.
  bool is_pulled = false, was_read = false, has_landed = false;
};

// Frames on their way.
class Segments::Queue : public relay::Frames {
 public:
  void add(const relay::Head& head, const void* body) override {
    // The words of control blocks are common to all views.
    using relay::Kind;
    if (head.kind == Kind::kKept || head.kind == Kind::kPrepared || head.kind == Kind::kPosition) {
      return;
    }
    const auto* begin = static_cast<const std::byte*>(body);
    frames.push_back({head, {begin, begin + head.bytes}});
  }
  void add_payload(const relay::Head& head, const std::byte* body) override { add(head, body); }
  std::deque<Frame> frames;
};

// From one node to another.
struct Segments::Link {
  Link(std::byte* from_base, std::uint32_t from, std::byte* to_base, std::uint32_t to,
       journal::Rule rule)
      : base(from_base), node(from), peer(to), broken(rule), sink(to_base, to, from) {
    connect();
  }

  void connect() {
    queue.frames.clear();
    pulls = broken == journal::Rule::kNone && connections++ % 4 == 3;
    source.reset();
    arena.emplace(memory.get(), kArenaBytes);
    source = std::make_unique<relay::Source>(base, node, peer, *arena);
    source->break_rule(broken);
    source->set_turn(kTurnBytes);
    Queue has;
    sink.say_what_it_has(has);
    for (const Frame& f : has.frames) {
      if (f.head.kind != relay::Kind::kHave) continue;
      relay::LogCopy copy;
      std::memcpy(&copy, f.body.data(), sizeof copy);
      source->has(f.head.at, f.head.index, copy);
    }
  }

  std::byte* base;
  std::uint32_t node, peer;
  journal::Rule broken;
  relay::Sink sink;
  Mapping memory{kArenaBytes};
  std::optional<journal::Arena> arena;
  std::unique_ptr<relay::Source> source;
  Queue queue;
  // The receiver reads payload from the memory of the sender, at any time from when it was
  // announced until it is shown. Not over the first connections, and not if a rule is broken: these
  // lend more.
  bool pulls = false;
  std::uint32_t connections = 0;
};

Segments::Segments(std::uint32_t ranks, std::size_t bytes, std::uint32_t nodes)
    : ranks_(ranks), bytes_(bytes) {
  if (nodes == 1) {
    job_ = std::make_unique<Mapping>(bytes);
    return;
  }
  job_file_ = make_file(bytes);
  job_ = std::make_unique<Mapping>(bytes, job_file_);
  for (std::uint32_t n = 0; n < nodes; ++n) files_.push_back(make_file(bytes));
}

Segments::~Segments() {
  links_.clear();
  views_.clear();
  for (const int file : files_) close(file);
  if (job_file_ >= 0) close(job_file_);
}

void Segments::begin(journal::Rule broken) {
  broken_ = broken;
  if (files_.empty()) return;
  const journal::SegmentHeader* header = journal::header_of(job());
  links_.clear();
  const auto nodes = static_cast<std::uint32_t>(files_.size());
  if (views_.empty()) {
    for (std::uint32_t n = 0; n < nodes; ++n) {
      views_.push_back(std::make_unique<Mapping>(bytes_, files_[n]));
      std::byte* view = views_[n]->get();
      const auto share = [&](std::uint64_t at, std::uint64_t bytes) {
        check(mmap(view + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                   job_file_, static_cast<off_t>(at)));
      };
      share(0, header->first_region);
      for (std::uint32_t r = n; r < ranks_; r += nodes) {
        share(journal::region_offset(header, r), header->region_bytes);
      }
    }
  }
  for (std::uint32_t n = 0; n < nodes; ++n) {
    fallocate(files_[n], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (r % nodes == n) continue;
      // What format_segment() has written there.
      const std::uint64_t at = journal::region_offset(header, r);
      std::memcpy(views_[n]->get() + at, job() + at, journal::region_of(job(), r)->staging[0] - at);
    }
  }
  for (std::uint32_t from = 0; from < nodes; ++from) {
    for (std::uint32_t to = 0; to < nodes; ++to) {
      if (from == to) continue;
      links_.push_back(
          std::make_unique<Link>(views_[from]->get(), from, views_[to]->get(), to, broken));
    }
  }
}

std::vector<std::uint32_t> Segments::ranks_of(std::uint32_t node) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t r = node; r < ranks_; r += hosts()) ranks.push_back(r);
  return ranks;
}

void Segments::lose_payload(std::uint64_t set) {
  if (views_.empty()) return lose_payload_in(job(), ranks_of(0), set);
  for (std::uint32_t n = 0; n < views_.size(); ++n) {
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      if (r % hosts() != n) copy_marks(views_[n]->get(), r, set);
    }
    lose_payload_in(views_[n]->get(), ranks_of(n), set);
  }
}

void Segments::lose_payload_in(std::byte* view, const std::vector<std::uint32_t>& own,
                               std::uint64_t set) {
  constexpr int kLost = 0xd6;
  const journal::SegmentHeader* header = journal::header_of(view);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const journal::Offset region = journal::region_offset(header, r);
    const journal::Offset end = region + journal::control_of(view, r)->payload_bump.load();
    journal::Offset at = region + journal::payload_begin(header);
    for (const journal::Extent& e : journal::needed_payload(view, own, r, set, broken_)) {
      const journal::Offset next = std::min(e.at, end);
      if (next > at) std::memset(view + at, kLost, next - at);
      at = std::max(at, e.at + e.bytes);
    }
    if (at < end) std::memset(view + at, kLost, end - at);
  }
}

void Segments::go_back(std::uint64_t set) {
  if (links_.empty() || broken_ == journal::Rule::kCopiesGoBack) return;
  for (std::uint32_t n = 0; n < views_.size(); ++n) {
    journal::put_copies_back(views_[n]->get(), ranks_of(n), set);
  }
  for (const auto& link : links_) link->connect();
}

// A set is complete only when every host has the marks of all of its images.
void Segments::copy_marks(std::byte* view, std::uint32_t rank, std::uint64_t set) const {
  const auto& from = journal::region_of(job(), rank)->image;
  auto& to = journal::region_of(view, rank)->image;
  for (std::uint32_t i = 0; i < journal::kImages; ++i) {
    if (from[i].marks.number.load() != set) continue;
    std::memcpy(static_cast<void*>(&to[i]), static_cast<const void*>(&from[i]), sizeof from[i]);
    const journal::Buffer& cursors = from[i].marks.cursors;
    std::memcpy(view + cursors.at, job() + cursors.at, cursors.capacity);
  }
}

// Writes payload to the buffer of the rank that has lent it, and nowhere else. False: none has.
bool Segments::lend(const Link& link, std::uint64_t at, std::span<const std::byte> bytes,
                    const LoanOf& loan_of) const {
  for (std::uint32_t r = link.peer; r < ranks_; r += hosts()) {
    journal::Loan* loan = loan_of(r);
    if (loan == nullptr || loan->message == 0 || !loan->has(at)) continue;
    const std::uint64_t begin = at - loan->at;
    if (loan->from != loan->to && begin != loan->to) return false;
    link.sink.note_not_kept(loan->message);
    const std::uint64_t n = std::min<std::uint64_t>(bytes.size(), loan->bytes - begin);
    std::memcpy(loan->data + begin, bytes.data(), n);
    loan->extend(begin, n);
    return true;
  }
  return false;
}

// The other direction of a connection.
Segments::Link& Segments::back_of(const Link& link) const {
  return **std::find_if(links_.begin(), links_.end(), [&](const auto& other) {
    return other->node == link.peer && other->peer == link.node;
  });
}

// Takes a step of reading payload: its bytes as they are in the memory of the sender now, or to
// their place. Returns false if the other side refuses it.
bool Segments::pull(const Link& link, Frame& f) {
  if (f.has_landed) return true;
  std::byte* to = link.sink.place(f.head);
  if (to == nullptr) return false;
  if (std::exchange(f.was_read, true)) {
    std::memcpy(to, f.body.data(), f.body.size());
    f.has_landed = true;
  } else {
    const std::byte* from = link.base + f.head.at;
    f.body.assign(from, from + f.head.bytes);
  }
  return true;
}

// Shows the frame that was sent first. Returns false if the other side refuses it.
bool Segments::show(Link& link, engine::SimRandom& random, const LoanOf& loan_of) {
  using relay::Kind;
  Frame f = std::move(link.queue.frames.front());
  link.queue.frames.pop_front();
  if (f.head.kind == Kind::kAsk) return back_of(link).source->asks(f.head.at, f.head.index);
  if (f.head.kind != Kind::kPayload) return link.sink.apply(f.head, f.body.data());
  while (f.is_pulled && !f.has_landed) {
    if (!pull(link, f)) return false;
  }
  if (f.is_pulled) return true;
  std::byte* to = link.sink.place(f.head);
  if (to == nullptr) return false;
  if (random.one_in(2) && lend(link, f.head.at, f.body, loan_of)) return true;
  std::memcpy(to, f.body.data(), f.body.size());
  return true;
}

std::uint32_t Segments::step(engine::SimRandom& random, const LoanOf& loan_of) {
  if (links_.empty()) return kIdle;
  const auto first = static_cast<std::uint32_t>(random.below(links_.size()));
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[(first + i) % links_.size()];
    const std::size_t before = link.queue.frames.size();
    if (before == 0 || (link.pulls && before < kMostFrames && random.one_in(4))) {
      if (!link.source->turn(link.queue) && before == 0) continue;
      if (link.queue.frames.empty()) continue;  // words that are common anyway
      for (std::size_t k = before; k < link.queue.frames.size(); ++k) {
        Frame& f = link.queue.frames[k];
        f.is_pulled = link.pulls && f.head.kind == relay::Kind::kPayload && random.one_in(2);
      }
      return kNobody;
    }
    if (random.one_in(kFramesToACut)) {
      link.connect();
      back_of(link).connect();
      return kNobody;
    }
    if (link.pulls && random.one_in(2)) {
      Frame& f = link.queue.frames[random.below(link.queue.frames.size())];
      if (f.is_pulled && !pull(link, f)) return link.peer | kRefused;
    }
    if (!show(link, random, loan_of)) return link.peer | kRefused;
    return link.peer;
  }
  return kIdle;
}

}  // namespace rejoin::sim
