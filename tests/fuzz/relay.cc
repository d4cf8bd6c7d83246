// Frames of another node's relay. An input is a sequence of frames: kind, place, index, number of
// bytes of the body, and the body; places and indexes are chosen among those that a relay could
// name, or are any.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.h"
#include "journal/contexts.h"
#include "journal/layout.h"
#include "relay/sink.h"

namespace {

using namespace rejoin;

constexpr std::uint32_t kRanks = 4;  // two on each node
constexpr std::size_t kOwnBytes = 64 * 1024;

class Segment {
 public:
  Segment() : bytes_(journal::segment_bytes_for(kRanks, 0)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(p != MAP_FAILED);
    base = static_cast<std::byte*>(p);
    journal::format_segment(base, kRanks, 1, 0, 2);
    for (std::uint32_t r = 0; r < kRanks; ++r) journal::control_of(base, r)->node = r / 2;
  }
  ~Segment() { munmap(base, bytes_); }
  Segment(const Segment&) = delete;

  // Everything that the relay of node 1 must not change in node 0's segment.
  std::vector<std::byte> own() const {
    std::vector<std::byte> all(base, reinterpret_cast<std::byte*>(journal::control_of(base, 2)));
    for (std::uint32_t r = 0; r < 2; ++r) {
      const auto* region = reinterpret_cast<const std::byte*>(journal::region_of(base, r));
      all.insert(all.end(), region, region + kOwnBytes);
    }
    // Any host may say that a set of images is wanted.
    const auto* wanted = reinterpret_cast<const std::byte*>(&journal::set_wanted_on(base, 0));
    std::fill_n(all.begin() + (wanted - base), sizeof(std::uint64_t), std::byte{0});
    return all;
  }

  std::byte* base;

 private:
  std::size_t bytes_;
};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    bytes = std::min(bytes, size_);
    std::memcpy(&value, data_, bytes);
    skip(bytes);
    return value;
  }
  // Zeros behind the end of the input.
  std::vector<std::byte> take(std::size_t bytes) {
    std::vector<std::byte> taken(bytes);
    const std::size_t there = std::min(bytes, size_);
    if (there > 0) std::memcpy(taken.data(), data_, there);
    skip(there);
    return taken;
  }

 private:
  void skip(std::size_t bytes) {
    data_ += bytes;
    size_ -= bytes;
  }
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Segment segment;
  const auto before = segment.own();
  relay::Sink sink(segment.base, 0, 1);
  journal::RegionHead& theirs = *journal::region_of(segment.base, 2);
  const std::uint64_t region = journal::region_offset(journal::header_of(segment.base), 2);
  const std::uint64_t calls = region + offsetof(journal::RegionHead, calls);
  const std::uint64_t places[] = {
      0,
      1,
      2,
      3,
      calls,
      region + offsetof(journal::RegionHead, modules),
      theirs.channels,
      theirs.channels + sizeof(journal::Log),
      theirs.staging[1],
      region + 0x100000,
      region + journal::header_of(segment.base)->region_bytes / 4,
      region - 64,
      region + offsetof(journal::RegionHead, consumed),
      region + offsetof(journal::RegionHead, channels),
      region + offsetof(journal::RegionHead, contexts),
      journal::region_of(segment.base, 0)->channels,
      journal::region_of(segment.base, 0)->channels + 2 * sizeof(journal::Log)};
  constexpr std::size_t kMostFrames = 64, kBodies[] = {0,
                                                       4,
                                                       8,
                                                       sizeof(journal::Record),
                                                       64,
                                                       sizeof(relay::PositionCopy),
                                                       sizeof(relay::ContextCopy) + 8,
                                                       sizeof(journal::CallEntry),
                                                       sizeof(journal::ModuleEntry),
                                                       sizeof(relay::LogShape),
                                                       sizeof(journal::Image) + 256};
  Input input(data, size);
  for (std::size_t i = 0; i < kMostFrames && !input.empty(); ++i) {
    relay::Head head = {};
    head.kind = static_cast<relay::Kind>(input.number(1) %
                                         (static_cast<std::uint32_t>(relay::Kind::kCount) + 1));
    const std::uint64_t place = input.number(1), index = input.number(1), body = input.number(1);
    head.at = place < std::size(places) ? places[place] : input.number(8);
    head.index = index < 0xf0 ? index : input.number(8);
    head.bytes = static_cast<std::uint32_t>(body < std::size(kBodies) ? kBodies[body] : body);
    const std::vector<std::byte> bytes = input.take(head.bytes);
    if (head.kind == relay::Kind::kPayload) {
      std::byte* to = sink.place(head);
      if (to != nullptr && !bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    } else {
      static_cast<void>(sink.apply(head, bytes.data()));
    }
  }
  REQUIRE(segment.own() == before);
  return 0;
}

namespace rejoin::fuzz {
namespace {

// `place` and `body`: which of places and kBodies. The bytes of the body follow.
std::string frame(relay::Kind kind, int place, int index, int body, const std::string& bytes) {
  std::string text;
  for (const int part : {static_cast<int>(kind), place, index, body}) {
    text += static_cast<char>(part);
  }
  return text + bytes;
}

// A log whose first chunk lies in a region of the sender's.
std::string shape() {
  relay::LogShape s = {};
  s.chunk[0] = journal::segment_bytes_for(kRanks, 0) - 0x10000;
  return {reinterpret_cast<const char*>(&s), sizeof s};
}

}  // namespace

std::vector<std::string> seeds() {
  using relay::Kind;
  const std::string line(64, '\0');
  return {frame(Kind::kShape, 4, 0, 9, shape()) +
              frame(Kind::kCalls, 4, 0, 7, std::string(sizeof(journal::CallEntry), 'c')),
          frame(Kind::kShape, 6, 0, 9, shape()) + frame(Kind::kMessage, 6, 0, 4, line) +
              frame(Kind::kWritten, 6, 0, 2, line.substr(0, 8)) +
              frame(Kind::kMatched, 6, 0, 1, line.substr(0, 4)),
          frame(Kind::kConsumed, 2, 1, 2, line.substr(0, 8)) +
              frame(Kind::kPosition, 2, 0, 5, std::string(sizeof(relay::PositionCopy), '\1')) +
              frame(Kind::kPrepared, 3, 1, 2, line.substr(0, 8)),
          frame(Kind::kPayload, 10, 0, 4, line) +
              frame(Kind::kImage, 2, 1, 10, std::string(sizeof(journal::Image) + 256, '\0'))};
}

std::vector<std::string> words() { return {std::string(8, '\0'), std::string(8, '\xff')}; }

}  // namespace rejoin::fuzz
