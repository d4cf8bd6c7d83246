// The writer of versions while ranks continue: slots that are reused while the writer reads them,
// versions at which no process can begin, and versions whose state lies in the program's own files.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "checkpoint_image.h"
#include "launcher/agent/checkpoint_files.h"

namespace rejoin::launcher {
namespace {

using journal::Return;
using journal::VersionFault;

constexpr std::uint32_t kRanks = 3;
constexpr std::size_t kModelBytes = 30'000;
constexpr timespec kShort = {0, 20'000};

RunOptions options() {
  RunOptions options;
  options.programs = {{.ranks = kRanks, .command = {"a.out"}}};
  return options;
}

class CheckpointWriting : public testing::Test {
 protected:
  CheckpointWriting()
      : segment_(std::move(JobSegment::create(options(), 1, 1, all_local(kRanks)).value())) {
    std::string name = std::filesystem::temp_directory_path() / "writer-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    decide(Return::kImages);
  }
  ~CheckpointWriting() override {
    writer_.reset();
    std::filesystem::remove_all(directory_);
  }

  void start() {
    writer_ =
        std::make_unique<CheckpointWriter>(segment_, directory_, test::checkpoint_owner(kRanks));
  }
  void decide(Return kind) { journal::put(segment_.header()->goes_back_to, kind); }

  // Writes the rank's models of version v to its oldest slot that is not being written to a file.
  // `spares` false: the slot may be one that is being written.
  void keep(std::uint32_t rank, std::uint64_t v, std::size_t bytes, bool spares = true,
            VersionFault fault = VersionFault::kNone) {
    const std::uint64_t in_file = spares ? segment_.header()->version_in_file.load() : 0;
    journal::RegionHead* region = journal::region_of(segment_.base(), rank);
    journal::Version* slot = nullptr;
    std::uint64_t oldest = v;
    for (journal::Version& other : region->version) {
      const std::uint64_t number = other.marks.number.load();
      if (number >= oldest || (number != 0 && number == in_file)) continue;
      slot = &other;
      oldest = number;
    }
    ASSERT_NE(slot, nullptr);
    journal::put(slot->marks.number, 0);
    const auto index = static_cast<std::uint64_t>(slot - region->version);
    const journal::Offset at = journal::region_offset(segment_.header(), rank) +
                               journal::payload_begin(segment_.header()) + index * 2 * kModelBytes;
    slot->global = {at, kModelBytes, rank == 0 ? bytes : 0};
    slot->local = {at + kModelBytes, kModelBytes, bytes};
    slot->fault = fault;
    std::memset(segment_.base() + at, static_cast<int>(v % 251), 2 * kModelBytes);
    journal::put(slot->marks.number, v);
  }
  void commit(std::uint64_t v, std::size_t bytes = kModelBytes,
              VersionFault fault = VersionFault::kNone) {
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      keep(r, v, bytes, true, r == 1 ? fault : VersionFault::kNone);
    }
    writer_->offer(v);
  }
  std::string file_of(std::uint64_t version) const {
    char name[64];
    snprintf(name, sizeof name, "/checkpoint-%010llu.rejoin",
             static_cast<unsigned long long>(version));
    return directory_ + name;
  }
  bool exists(std::uint64_t version) const { return std::filesystem::exists(file_of(version)); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_), {}));
  }
  // Returns the version from which --resume would go on; 0: there is none, or it has been removed
  // in the meantime.
  std::uint64_t resumed() const {
    std::vector<std::string> notices;
    const auto found = CheckpointFile::newest(directory_, test::checkpoint_owner(kRanks), notices);
    return found.ok() && found.value() ? found.value()->version() : 0;
  }
  // Returns whether the file's models are all of one version, or the file has been removed already.
  bool is_of_one_version(std::uint64_t version) const {
    std::ifstream file(file_of(version), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    const std::size_t models_bytes = (kRanks + 1) * kModelBytes;
    if (all.empty()) return true;
    return all.size() > models_bytes &&
           all.substr(all.size() - models_bytes) ==
               std::string(models_bytes, static_cast<char>(version % 251));
  }
  static bool until(const std::function<bool()>& condition) {
    for (int i = 0; i < 200'000; ++i) {
      if (condition()) return true;
      nanosleep(&kShort, nullptr);
    }
    return false;
  }
  // Waits until the writer has looked at all versions that it was given.
  void settle() {
    const timespec some = {0, 30'000'000};
    nanosleep(&some, nullptr);
  }

  JobSegment segment_;
  std::string directory_;
  std::unique_ptr<CheckpointWriter> writer_;
};

TEST_F(CheckpointWriting, AVersionIsWrittenAndTheNewestTwoAreKept) {
  start();
  for (const std::uint64_t v : {4, 5, 9}) {
    commit(v);
    EXPECT_TRUE(until([&] { return resumed() == v; })) << v;
  }
  EXPECT_TRUE(until([&] { return writer_->has_written(); }));
  EXPECT_TRUE(until([&] { return files() == 2; }));
  EXPECT_TRUE(exists(5) && exists(9));
  EXPECT_TRUE(writer_->news().empty());
  EXPECT_TRUE(until([&] { return segment_.header()->version_in_file.load() == 0; }));
}

TEST_F(CheckpointWriting, TheMarkOfAFormerWriterIsCleared) {
  // Left by a job whose journal was copied at that moment.
  journal::put(segment_.header()->version_in_file, 7);
  start();
  EXPECT_EQ(segment_.header()->version_in_file.load(), 0u);
}

// Versions are offered far faster than a file is synced.
TEST_F(CheckpointWriting, TheWriterMakesProgressAsLongAsRanksSpareItsSlots) {
  start();
  std::uint64_t v = 0, written = 0, newest = 0;
  for (; written < 10 && v < 200'000; nanosleep(&kShort, nullptr)) {
    for (int i = 0; i < 8; ++i) commit(++v);
    const std::uint64_t found = resumed();
    if (found == newest) continue;
    newest = found;
    ++written;
    EXPECT_TRUE(is_of_one_version(found)) << found;
  }
  EXPECT_EQ(written, 10u);
}

TEST_F(CheckpointWriting, ASlotThatIsReusedMeanwhileIsNeverPublishedAsAFile) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "reads what is written meanwhile, and looks afterwards whether it was";
#endif
  start();
  for (std::uint64_t v = 1; v < 500; ++v) {
    for (std::uint32_t r = 0; r < kRanks; ++r) keep(r, v, kModelBytes, false);
    writer_->offer(v);
    const std::uint64_t found = resumed();
    if (found == 0) continue;
    EXPECT_TRUE(is_of_one_version(found)) << found;
  }
  writer_->finish();
  EXPECT_EQ(resumed(), 499u);
}

TEST_F(CheckpointWriting, AVersionAtWhichNoProcessCanBeginIsReportedOnceForEachKindOfFault) {
  start();
  std::vector<std::string> told;
  const auto with = [&](std::uint64_t v, VersionFault fault) {
    commit(v, kModelBytes, fault);
    settle();
    for (const std::string& line : writer_->news()) told.push_back(line);
  };
  with(3, VersionFault::kOpenRequest);
  with(4, VersionFault::kOpenRequest);
  EXPECT_FALSE(writer_->has_written());
  with(5, VersionFault::kNone);
  with(6, VersionFault::kOpenRequest);
  with(7, VersionFault::kLateCommunicator);
  with(8, VersionFault::kOverLimit);
  with(9, VersionFault::kLateCommunicator);
  EXPECT_TRUE(writer_->has_written());
  EXPECT_EQ(resumed(), 5u);
  const std::string in = "no checkpoint was written to " + directory_ + ": rank 1 ";
  const std::string so = ", so a job cannot be resumed from this version (docs/checkpoints.md)";
  EXPECT_EQ(
      told,
      (std::vector<std::string>{
          in + "has a request that is not complete at checkpoint 3" + so,
          in +
              "has a communicator that was created after the first checkpoint at "
              "checkpoint 7" +
              so,
          in + "has a set-up whose results are larger than --bootstrap-limit at checkpoint 8" +
              so}));
}

// Such a job goes on from its sets of images.
TEST_F(CheckpointWriting, InAJobOfImagesAVersionInOwnFilesIsNotWritten) {
  start();
  for (const std::uint64_t v : {2, 4}) {
    commit(v, 0);
    settle();
  }
  writer_->finish();
  EXPECT_EQ(files(), 0u);
  EXPECT_FALSE(writer_->has_written());
  EXPECT_TRUE(writer_->news().empty());
}

TEST_F(CheckpointWriting, InAJobOfVersionsItIsWritten) {
  decide(Return::kVersions);
  start();
  commit(3, 0);
  EXPECT_TRUE(until([&] { return resumed() == 3; }));
}

TEST_F(CheckpointWriting, AModelInOneLocalModelIsAModel) {
  start();
  for (std::uint32_t r = 0; r < kRanks; ++r) keep(r, 3, r == 2 ? 10 : 0);
  writer_->offer(3);
  EXPECT_TRUE(until([&] { return resumed() == 3; }));
}

}  // namespace
}  // namespace rejoin::launcher
