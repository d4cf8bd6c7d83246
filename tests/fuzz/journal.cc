// Journals of --keep, as `ftrun inspect` reads them. An input consists of the nonempty cache lines
// of a real journal (of each run of such lines the first few); the first 8 bytes determine where
// the file is truncated.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/collectives.h"
#include "fuzz.h"
#include "launcher/inspect/inspect.h"
#include "launcher/symbolizer/symbolizer.h"
#include "thread_job.h"

namespace {

using namespace rejoin;
using recovery::OpKind;

constexpr std::size_t kLine = 64;
constexpr std::size_t kRunLines = 48;

void bcast(test::Rank& rank, test::Rank::Comm& comm, std::size_t bytes) {
  const std::vector<unsigned char> data(bytes, 7);
  recovery::ReplicatedSpec u;
  u.input = data.data();
  u.input_bytes = comm.members.rank == 0 ? bytes : 0;
  u.result_bytes = bytes;
  rank.replicated(comm, test::call(OpKind::kBcast, bytes, 0), u);
}

void send(test::Rank& rank, test::Rank::Comm& comm) {
  const std::uint64_t word = 5;
  std::uint64_t sum = 0;
  const engine::Reduction op = test::sum_of_int64();
  engine::Reduce fold(1, &word, sizeof word, op, &sum, nullptr, nullptr, nullptr);
  rank.channel(comm, test::call(OpKind::kReduce, sizeof word, 1), &word, sizeof word, fold);
}

// A journal of two ranks. When it is full, logs wrap.
class Journal {
 public:
  Journal(std::uint64_t limit_bytes, int rounds)
      : bytes_(journal::segment_bytes_for(2, limit_bytes)), file_(bytes_, MAP_PRIVATE) {
    test::ThreadJob job(2, limit_bytes);
    job.run([rounds](test::Rank& rank, test::Rank::Comm& comm) {
      for (int i = 0; i < rounds; ++i) {
        bcast(rank, comm, i % 2 == 0 ? 8 : 3000);
        send(rank, comm);
      }
    });
    copy(reinterpret_cast<const char*>(job.base()));
    for (const std::size_t line : lines_) contents_.append(base() + line, kLine);
  }

  std::string contents() const { return std::string(8, '\xff') + contents_; }

  // Reads the journal as if the lines had been `text`.
  void read_as(std::string_view text) const {
    std::uint64_t cut = ~std::uint64_t{0};
    text.copy(reinterpret_cast<char*>(&cut), sizeof cut);
    text.remove_prefix(std::min(sizeof cut, text.size()));
    put(text);
    print(std::min(cut, bytes_));
    put(contents_);
  }

 private:
  char* base() const { return reinterpret_cast<char*>(file_.get()); }
  void put(std::string_view text) const {
    for (const std::size_t line : lines_) {
      text.copy(base() + line, kLine);
      text.remove_prefix(std::min(kLine, text.size()));
    }
  }
  void copy(const char* from);
  void print(std::uint64_t bytes) const;

  const std::uint64_t bytes_;
  test::Mapping file_;  // private, because then reading a hole needs no memory
  std::vector<std::size_t> lines_;
  std::string contents_;
};

// Copies the existing parts of a journal; the rest remains a hole.
void Journal::copy(const char* from) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(bytes_ / page);
  REQUIRE(mincore(const_cast<char*>(from), bytes_, resident.data()) == 0);
  std::size_t run = 0;
  for (std::size_t at = 0; at < bytes_; at += kLine) {
    if ((resident[at / page] & 1) == 0) {
      at += page - kLine;
      run = 0;
      continue;
    }
    const bool empty = std::all_of(from + at, from + at + kLine, [](char c) { return c == 0; });
    run = empty ? 0 : run + 1;
    if (!empty) std::memcpy(base() + at, from + at, kLine);
    if (!empty && run <= kRunLines) lines_.push_back(at);
  }
}

void Journal::print(std::uint64_t bytes) const {
  std::uint64_t printed = 0;
  launcher::InspectOptions options;
  options.limit = 40;
  const auto count = [&printed](const std::string& text) {
    printed += text.size();
    const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n'; };
    REQUIRE(std::none_of(text.begin(), text.end(), control));
  };
  for (const bool json : {false, true}) {
    options.json = json;
    launcher::print_journal("journal", {base(), bytes}, options, launcher::rough_site, count);
  }
  REQUIRE(printed < 128 << 20);
}

const Journal& journal_of(bool wrapped) {
  static const Journal plain(0, 20);
  static const Journal beyond(1 << 20, 3000);
  return wrapped ? beyond : plain;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  journal_of(text[0] == 'w').read_as(text.substr(1));
  return 0;
}

namespace rejoin::fuzz {

std::vector<std::string> seeds() {
  return {'p' + journal_of(false).contents(), 'w' + journal_of(true).contents()};
}

std::vector<std::string> words() { return {std::string(8, '\0'), std::string(64, '\xff')}; }

}  // namespace rejoin::fuzz
