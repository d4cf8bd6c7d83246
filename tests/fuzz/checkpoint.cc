// Checkpoint files, as --resume reads them. The first byte of an input determines which checksum is
// corrected after the mutation, so that not every input is rejected for its checksum: 1: that of
// the head, 2: those of the models.
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "checkpoint_image.h"
#include "fuzz.h"
#include "journal/layout.h"
#include "launcher/agent/checkpoint_files.h"

namespace {

using namespace rejoin;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kVersion = 5;

struct Place {
  Place() {
    std::string name = std::filesystem::temp_directory_path() / "rejoin-fuzz-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Place() { std::filesystem::remove_all(path); }
  std::string path;
};

launcher::RunOptions options() {
  launcher::RunOptions options;
  options.programs = {{.ranks = kRanks, .command = {"a.out"}}};
  options.snapshots.when = launcher::SnapshotOptions::When::kOff;
  return options;
}

const launcher::JobSegment& segment() {
  static const auto made =
      launcher::JobSegment::create(options(), 1, 2, launcher::all_local(kRanks));
  REQUIRE(made.ok());
  return made.value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  static const auto owner = test::checkpoint_owner(kRanks);
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] & 1) test::seal(file, data[0] & 2);
  std::ofstream(place.path + "/checkpoint-0000000005.rejoin", std::ios::binary) << file;
  std::vector<std::string> notices;
  const auto found = launcher::CheckpointFile::newest(place.path, owner, notices);
  REQUIRE(found.ok() || !found.error().text.empty());
  if (!found.ok() || !found.value()) return 0;
  const launcher::CheckpointFile& whole = *found.value();
  REQUIRE(whole.version() == kVersion);
  std::uint64_t bumps[kRanks];
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    bumps[r] = journal::control_of(segment().base(), r)->payload_bump.load();
  }
  whole.install(segment());
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    journal::put(journal::control_of(segment().base(), r)->payload_bump, bumps[r]);
  }
  return 0;
}

namespace rejoin::fuzz {

std::vector<std::string> seeds() {
  const std::string file = test::checkpoint_image(kRanks, kVersion);
  return {'\0' + file, '\1' + file, '\3' + file};
}

std::vector<std::string> words() { return {"program", "REJOINCK"}; }

}  // namespace rejoin::fuzz
