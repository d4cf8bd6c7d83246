// Journals that real ranks have written are printed, and damaged ones are refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/inspect/inspect.h"
#include "launcher/symbolizer/symbolizer.h"
#include "thread_job.h"

namespace rejoin::launcher {
namespace {

using recovery::OpKind;

class Inspect : public testing::Test {
 protected:
  Inspect() : job_(2) {
    job_.run([](test::Rank& rank, test::Rank::Comm& comm) {
      bcast(rank, comm, {1, 2, 3, 4, 5, 6, 7, 8});
      bcast(rank, comm, std::vector<unsigned char>(24, 7));
      rank.replicated(comm, test::call(OpKind::kBarrier, 0), {});
    });
  }

  static void bcast(test::Rank& rank, test::Rank::Comm& comm, std::vector<unsigned char> data) {
    recovery::ReplicatedSpec u;
    u.input = data.data();
    u.input_bytes = comm.members.rank == 0 ? data.size() : 0;
    u.result_bytes = data.size();
    rank.replicated(comm, test::call(OpKind::kBcast, data.size(), 0), u);
  }

  std::string_view file() const {
    return {reinterpret_cast<const char*>(job_.base()),
            journal::header_of(job_.base())->segment_bytes};
  }

  // Returns the printed text, or only "error: ...".
  std::string printed(const InspectOptions& options) const {
    std::string text;
    const auto error = print_journal(
        "it", file(), options,
        [](const journal::ModuleEntry&, std::uint64_t) { return "a.c:1::f"; },
        [&text](const std::string& piece) { text += piece; });
    return error ? "error: " + error->text : text;
  }

  test::ThreadJob job_;
};

TEST_F(Inspect, PrintsEveryRecordOfARank) {
  InspectOptions options;
  options.rank = 1;
  const std::string text = printed(options);
  const auto first = text.find("[1]");
  ASSERT_NE(first, std::string::npos) << text;
  const std::string records = text.substr(first);
  EXPECT_TRUE(
      records.starts_with("[1] bcast (a.c:1::f#1x8 root 0) finished, seq 0, "
                          "bytes 0102030405060708\n"
                          "[1] bcast (a.c:1::f#1x24 root 0) finished, seq 1, at byte "))
      << text;
  EXPECT_TRUE(records.ends_with("[1] barrier (a.c:1::f#1x0) finished, seq 2\n")) << text;
  EXPECT_NE(text.find("member 1 of 2 (0 1), 3 operations"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1: 1 incarnation, 1 communicator, 3 operations"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("[0]"), std::string::npos);
}

TEST_F(Inspect, PrintsAtMostTheLimit) {
  InspectOptions options;
  options.limit = 1;
  const std::string text = printed(options);
  EXPECT_NE(text.find("[0] bcast"), std::string::npos);
  EXPECT_NE(text.find("... and 2 more\n"), std::string::npos);
  EXPECT_EQ(text.find("seq 1"), std::string::npos);
}

TEST_F(Inspect, ARankThatIsNotThere) {
  InspectOptions options;
  options.rank = 2;
  EXPECT_EQ(printed(options), "error: --rank 2: the job has ranks 0 to 1");
}

// Every word of the structures that lead to records gets a random value. The result is an error or
// another text, never a crash.
TEST_F(Inspect, SurvivesAnyDamage) {
  const std::string whole = printed({});
  journal::RegionHead* region = journal::region_of(job_.base(), 0);
  std::vector<std::uint64_t*> words;
  const auto add = [&words](void* begin, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / 8; ++i)
      words.push_back(static_cast<std::uint64_t*>(begin) + i);
  };
  add(region, sizeof *region);
  auto* entries = reinterpret_cast<journal::ContextEntry*>(job_.base() + region->contexts.at[0]);
  for (std::uint32_t i = 0; i < journal::kFirstTableEntries; ++i) {
    if (entries[i].context.load() == 0) continue;
    add(&entries[i], sizeof entries[i]);
    add(job_.base() + entries[i].block.load(), sizeof(journal::ContextBlock));
  }
  for (std::uint64_t* word : words) {
    const std::uint64_t right = *word;
    for (const std::uint64_t wrong :
         {~std::uint64_t{0}, std::uint64_t{1} << 40, right + 4, std::uint64_t{1}}) {
      if (wrong == right) continue;
      // Without a check, a tail of that size would be printed for hours.
      InspectOptions options;
      options.limit = 10;
      *word = wrong;
      printed(options);
    }
    *word = right;
  }
  EXPECT_EQ(printed({}), whole);
}

// Without a check, all of the memory would be printed.
TEST_F(Inspect, MoreMembersThanRanks) {
  journal::RegionHead* region = journal::region_of(job_.base(), 0);
  auto* entries = reinterpret_cast<journal::ContextEntry*>(job_.base() + region->contexts.at[0]);
  for (std::uint32_t i = 0; i < journal::kFirstTableEntries; ++i) {
    if (entries[i].context.load() == 0) continue;
    auto* block = reinterpret_cast<journal::ContextBlock*>(job_.base() + entries[i].block.load());
    for (const std::uint32_t size : {0u, 3u, 0xf0000000u}) {
      block->size = size;
      EXPECT_NE(printed({}).find("is damaged at byte"), std::string::npos) << size;
    }
  }
}

// Without a check, the elements of these rings would be printed again and again.
TEST_F(Inspect, InvalidRings) {
  journal::RegionHead* region = journal::region_of(job_.base(), 0);
  const journal::Offset inside = journal::region_offset(journal::header_of(job_.base()), 0);
  auto* channel = reinterpret_cast<journal::Log*>(job_.base() + region->channels);
  std::vector<journal::Log*> logs = {&region->calls, &region->modules, channel};
  auto* entries = reinterpret_cast<journal::ContextEntry*>(job_.base() + region->contexts.at[0]);
  for (std::uint32_t i = 0; i < journal::kFirstTableEntries; ++i) {
    if (entries[i].context.load() == 0) continue;
    logs.push_back(
        &reinterpret_cast<journal::ContextBlock*>(job_.base() + entries[i].block.load())->records);
  }
  ASSERT_EQ(logs.size(), 4u);
  for (journal::Log* log : logs) {
    const std::uint64_t tail = log->tail.load();
    journal::put(log->tail, ~std::uint64_t{0} / 2);
    journal::put(log->rings, 1);
    for (const journal::LogRing ring : {journal::LogRing{0, (std::uint64_t{1} << 62) + 1, inside},
                                        {0, 3, inside},
                                        {0, 0, inside},
                                        {0, ~std::uint64_t{0}, inside},
                                        {~std::uint64_t{0}, 64, inside}}) {
      log->ring[0] = ring;
      EXPECT_NE(printed({}).find("is damaged at byte"), std::string::npos) << ring.capacity;
    }
    journal::put(log->rings, ~std::uint32_t{0});
    EXPECT_NE(printed({}).find("is damaged at byte"), std::string::npos);
    journal::put(log->tail, tail);
    journal::put(log->rings, 0);
  }
}

// The sum of the last possible index and a capacity overflows to a small number.
TEST_F(Inspect, ARingAtTheEndOfAllIndexes) {
  journal::RegionHead* region = journal::region_of(job_.base(), 0);
  auto* channel = reinterpret_cast<journal::Log*>(job_.base() + region->channels);
  const std::uint64_t end = ~std::uint64_t{0};
  channel->ring[0] = {0, 64, journal::region_offset(journal::header_of(job_.base()), 0)};
  journal::put(channel->rings, 1);
  journal::put(channel->tail, end);
  EXPECT_NE(printed({}).find(std::to_string(end) + " messages"), std::string::npos) << printed({});
}

// Call sites that rejoin_call_site() has given; a long file name is cut at its front.
TEST_F(Inspect, NamedSites) {
  const std::string file_far_away = std::string(300, 'd').append("/model.cc");
  test::ThreadJob job(2);
  job.run([&file_far_away](test::Rank& rank, test::Rank::Comm& comm) {
    recovery::Call call = test::call(OpKind::kBarrier, 0);
    call.function = "iterate";
    call.site = "src/solver.c";
    call.line = 12;
    rank.replicated(comm, call, {});
    call.site = file_far_away.c_str();
    rank.replicated(comm, call, {});
  });
  const std::string_view file(reinterpret_cast<const char*>(job.base()),
                              journal::header_of(job.base())->segment_bytes);
  std::string text;
  print_journal("it", file, {}, rough_site, [&text](const std::string& piece) { text += piece; });
  EXPECT_NE(text.find("[0] barrier (src/solver.c:12::iterate#1x0)"), std::string::npos) << text;
  EXPECT_NE(text.find("/model.cc:12::iterate#1x0)"), std::string::npos) << text;
}

// --- Recovery points of ranks

class InspectReturns : public Inspect {
 protected:
  InspectReturns() {
    setenv("TZ", "UTC", 1);
    tzset();
    // The 24 bytes of the second operation's result are numbers.
    const journal::Offset calls = region(0)->calls.chunk[0].load();
    auto* entries = reinterpret_cast<journal::CallEntry*>(job_.base() + calls);
    entries[1].signature.type = static_cast<std::uint16_t>(engine::Element::kUint8);
  }
  static constexpr std::uint64_t kMadeNs = 1'795'489'200'000'000'000;  // 2026-11-24 03:00:00

  void decide(journal::Return to) {
    journal::put(journal::header_of(job_.base())->goes_back_to, to);
  }
  journal::RankControl* control(std::uint32_t rank) {
    return journal::control_of(job_.base(), rank);
  }
  journal::RegionHead* region(std::uint32_t rank) { return journal::region_of(job_.base(), rank); }
  void put_version(std::uint32_t rank, int slot, std::uint64_t number,
                   journal::VersionFault fault = journal::VersionFault::kNone) {
    journal::Version& version = region(rank)->version[slot];
    version.marks.ordinal = 10 * number;
    version.marks.made_wall_ns = kMadeNs;
    version.fault = fault;
    journal::put(version.marks.number, number);
  }
  // Returns the lines of the output that name recovery points.
  std::string returns(bool json = false) const {
    InspectOptions options;
    options.json = json;
    std::istringstream lines(printed(options));
    std::string shown;
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find(json ? "\"goes_back_to\"" : " go back");
      if (at != std::string::npos) shown += (json ? line.substr(at) : line) + "\n";
    }
    return shown;
  }
  bool prints_long_results() const {
    return printed({}).find("seq 1, value 7 7 7 7 ...") != std::string::npos;
  }
};

TEST_F(InspectReturns, Undecided) {
  decide(journal::Return::kUndecided);
  EXPECT_EQ(returns(),
            "it is undecided whether the ranks of this job go back to images or to checkpoints\n"
            "rank 0 would go back to the start of the program: the job has neither an image nor a "
            "checkpoint yet\n"
            "rank 1 would go back to the start of the program: the job has neither an image nor a "
            "checkpoint yet\n");
  EXPECT_TRUE(prints_long_results());
  journal::header_of(job_.base())->first_version = 6;
  EXPECT_NE(
      returns().find("yet; from there it loads checkpoint 6, from which the job was resumed\n"),
      std::string::npos)
      << returns();
}

TEST_F(InspectReturns, Images) {
  decide(journal::Return::kImages);
  journal::Image& image = region(1)->image[1];
  journal::put(image.marks.number, 12);
  image.marks.ordinal = 401;  // the image was made at the entry of this operation
  image.marks.made_wall_ns = kMadeNs;
  image.version = 7;
  journal::put(control(1)->kept_image, 12);
  journal::put(control(1)->prepared, 7);
  put_version(1, 0, 7);  // its models have contents
  EXPECT_EQ(returns(),
            "the ranks of this job go back to images\n"
            "rank 0 would go back to the start of the program: it has no image\n"
            "rank 1 would go back to image 12, made 2026-11-24 03:00:00 behind operation 400 "
            "(version 7)\n");
  EXPECT_EQ(returns(true),
            "\"goes_back_to\":\"images\"}\n"
            "\"goes_back_to\":{\"kind\":\"main\",\"why\":\"it has no image\"}}\n"
            "\"goes_back_to\":{\"kind\":\"image\",\"number\":12,\"made\":1795489200.0,"
            "\"ordinal\":400,\"version\":7}}\n");
  EXPECT_FALSE(prints_long_results());
  journal::put(control(1)->kept_image, 13);
  EXPECT_NE(returns().find("image 13, which the journal does not contain\n"), std::string::npos);
}

// Ranks go back to the newest checkpoint that all ranks have made.
TEST_F(InspectReturns, Checkpoints) {
  decide(journal::Return::kVersions);
  EXPECT_TRUE(prints_long_results());
  for (const std::uint32_t rank : {0u, 1u}) {
    put_version(rank, 0, 5);
    put_version(rank, 2, 4);
    journal::put(control(rank)->kept, 4);
    journal::put(control(rank)->prepared, 5);
  }
  put_version(0, 1, 6);
  journal::put(control(0)->prepared, 6);
  EXPECT_EQ(returns(),
            "the ranks of this job go back to checkpoints\n"
            "rank 0 would go back to checkpoint 5, made 2026-11-24 03:00:00 behind operation 50\n"
            "rank 1 would go back to checkpoint 5, made 2026-11-24 03:00:00 behind operation 50\n");
  EXPECT_EQ(returns(true),
            "\"goes_back_to\":\"checkpoints\"}\n"
            "\"goes_back_to\":{\"kind\":\"checkpoint\",\"number\":5,\"made\":1795489200.0,"
            "\"ordinal\":50}}\n"
            "\"goes_back_to\":{\"kind\":\"checkpoint\",\"number\":5,\"made\":1795489200.0,"
            "\"ordinal\":50}}\n");
  EXPECT_FALSE(prints_long_results());
}

TEST_F(InspectReturns, NoCheckpointThatARankCouldBeginAt) {
  decide(journal::Return::kVersions);
  put_version(0, 0, 5);
  put_version(1, 0, 5, journal::VersionFault::kNoLoad);
  EXPECT_EQ(returns(),
            "the ranks of this job go back to checkpoints\n"
            "rank 0 would go back to the start of the program: it has no checkpoint that all ranks "
            "have made\n"
            "rank 1 would go back to the start of the program: it has no checkpoint that all ranks "
            "have made\n");
  for (const std::uint32_t r : {0, 1}) journal::put(control(r)->prepared, 5);
  EXPECT_NE(returns().find("rank 1 would go back to the start of the program: the program makes "
                           "checkpoints, but did not load one before its first\n"),
            std::string::npos);
  region(1)->version[0].fault = static_cast<journal::VersionFault>(99);
  EXPECT_NE(returns().find("program: its checkpoint cannot be loaded\n"), std::string::npos);
}

TEST_F(InspectReturns, AFullJournal) {
  journal::let_recycle(job_.base(), journal::Recycles::kAll);
  EXPECT_NE(returns().find("rank 0 could not go back: the journal was full\n"), std::string::npos)
      << returns();
  EXPECT_FALSE(prints_long_results());
}

TEST_F(InspectReturns, AnInvalidWord) {
  decide(static_cast<journal::Return>(99));
  EXPECT_NE(returns().find("it is undecided whether "), std::string::npos);
}

TEST_F(Inspect, NoJournal) {
  journal::header_of(job_.base())->magic = 1;
  EXPECT_NE(printed({}).find("is not a journal"), std::string::npos);
}

}  // namespace
}  // namespace rejoin::launcher
