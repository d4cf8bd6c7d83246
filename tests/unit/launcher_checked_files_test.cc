// Files of --checkpoint-dir: how they are written, and a set of images that is made of them.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint_image.h"
#include "engine/transport/shm/memory.h"
#include "launcher/agent/checked_files.h"
#include "launcher/agent/compressed_files.h"
#include "launcher/agent/image_sets.h"
#include "launcher/base/grammar.h"
#include "launcher/program/build.h"
#include "process_image/written_image.h"

namespace rejoin::launcher {
namespace {

class CheckedFiles : public testing::Test {
 protected:
  CheckedFiles() {
    std::string name = std::filesystem::temp_directory_path() / "checked-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~CheckedFiles() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name)) << bytes;
  }
  std::string contents(const std::string& name) const { return read_small_file(path(name)); }

  std::string directory_;
};

TEST_F(CheckedFiles, AChecksumIsOfLengthAndBytes) {
  EXPECT_EQ(checksum_of("model"), checksum_of("model!", 5));
  EXPECT_NE(checksum_of("model"), checksum_of("modem"));
  EXPECT_EQ(checksum_of("").bytes, 0u);
  EXPECT_NE(checksum_of(""), Checksum());  // the sum of no bytes is not 0
}

// Longer than a piece that is read at once, and as long.
TEST_F(CheckedFiles, AFileHasTheChecksumOfItsBytes) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{5}, kReadPieceBytes, 2 * kReadPieceBytes + 1}) {
    std::string text(bytes, 'x');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * i >> 7);
    write("file", text);
    EXPECT_EQ(checksum_of_file(path("file")), checksum_of(text)) << bytes;
  }
  EXPECT_FALSE(checksum_of_file(path("another")));
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(CheckedFiles, AFileConsistsOfWhatWasAdded) {
  write("file", "longer than what replaces it");
  NewFile file(path("file"), O_TRUNC, 0600);
  EXPECT_TRUE(file.add("one "));
  EXPECT_TRUE(file.add("two!", 3));
  EXPECT_TRUE(file.sync());
  EXPECT_EQ(file.bytes(), 7u);
  EXPECT_EQ(contents("file"), "one two");
}

TEST_F(CheckedFiles, AFileThatExistsIsNotTouchedIfThatIsAnError) {
  write("file", "of another job");
  NewFile file(path("file"), O_EXCL, 0600);
  EXPECT_FALSE(file.good());
  EXPECT_EQ(file.error(), EEXIST);
  EXPECT_FALSE(file.add("bytes"));
  EXPECT_EQ(contents("file"), "of another job");
}

TEST_F(CheckedFiles, TheFirstErrorIsRemembered) {
  NewFile file("/dev/full", O_TRUNC, 0600);
  ASSERT_TRUE(file.good());
  EXPECT_FALSE(file.add("bytes"));
  EXPECT_FALSE(file.add("more"));
  errno = 0;
  EXPECT_FALSE(file.sync());
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(file.error(), ENOSPC);
  EXPECT_EQ(file.bytes(), 0u);
}

// Longer than the buffers of the library, and not only zeros.
TEST_F(CheckedFiles, ACompressedFileIsReadAgain) {
  std::string bytes(3 << 20, '\0');
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) bytes[i] = static_cast<char>(i * i >> 7);
  write("file", bytes);
  ASSERT_TRUE(compress_file(path("file")));
  EXPECT_FALSE(std::filesystem::exists(path("file")));
  EXPECT_LT(std::filesystem::file_size(path("file.zst")), bytes.size());
  auto plain = PlainFile::open(path("file"));
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  auto mapped = MappedFile::open(plain.value().path());
  ASSERT_TRUE(mapped.ok()) << mapped.error().text;
  EXPECT_TRUE(mapped.value().bytes() == bytes);
}

TEST_F(CheckedFiles, ACompressedFileThatIsDamagedIsRefused) {
  write("file", std::string(100'000, 'x'));
  ASSERT_TRUE(compress_file(path("file")));
  const std::string whole = contents("file.zst");
  for (const std::string& bytes :
       {whole.substr(0, whole.size() - 1), whole + "more", std::string("no zstd file")}) {
    write("file.zst", bytes);
    const auto plain = PlainFile::open(path("file"));
    ASSERT_FALSE(plain.ok());
    EXPECT_NE(plain.error().text.find("file.zst: cannot be decompressed"), std::string::npos);
  }
  EXPECT_FALSE(PlainFile::open(path("another")).ok());
}

TEST_F(CheckedFiles, ADirectoryIsMadeWithThoseAboveIt) {
  EXPECT_EQ(make_directory(path("a/b/c/")), 0);
  EXPECT_TRUE(std::filesystem::is_directory(path("a/b/c")));
  EXPECT_EQ(make_directory(path("a/b")), 0);
  write("file", "");
  EXPECT_EQ(make_directory(path("file/a")), ENOTDIR);
}

// An agent copies one piece in each turn of its loop, and may have to send a beat after it.
TEST_F(CheckedFiles, ThePayloadOfAJournalIsCopiedInSmallPieces) {
  RunOptions options;
  options.programs = {{.ranks = 2, .command = {"a.out"}}};
  const auto segment = JobSegment::create(options, 1, 1, all_local(2));
  ASSERT_TRUE(segment.ok()) << segment.error().text;
  const JobSegment& made = segment.value();
  const std::uint64_t begin =
      journal::region_offset(made.header(), 1) + journal::payload_begin(made.header());
  const std::uint64_t bytes = 2 * JobSegment::kPieceBytes + 4096;
  memset(made.base() + begin, 'x', bytes);
  // Memory that was prefaulted and not used is not copied.
  memset(made.base() + begin + bytes, 'y', bytes);
  journal::put(made.control(1)->payload_bump, journal::payload_begin(made.header()) + bytes);
  SegmentCopy copy = made.room_for_copy();
  std::uint64_t copied = 0;
  for (const SegmentPiece& piece : made.payload(all_local(2), 0)) {
    EXPECT_LE(piece.bytes, JobSegment::kPieceBytes);
    copied += piece.bytes;
    made.copy_payload(copy, piece);
  }
  EXPECT_GE(copied, bytes);
  // How much of another host's rank is used, this host may not know yet.
  std::uint64_t of_other = 0;
  for (const SegmentPiece& piece : made.payload(all_local(1), 0)) of_other += piece.bytes;
  EXPECT_GE(of_other, 2 * bytes);
  ASSERT_TRUE(copy.write(path("journal")));
  auto file = MappedFile::open(path("journal"));
  const auto parts = parts_of(file.value().bytes());
  ASSERT_TRUE(parts);
  std::uint64_t found = 0;
  for (const JournalPart& part : parts->parts) {
    EXPECT_EQ(part.bytes.find_first_not_of('x'), part.bytes.npos);
    found += part.bytes.size();
  }
  EXPECT_EQ(found, bytes);
}

TEST_F(CheckedFiles, StructureThatWasNeverUsedIsNotCopied) {
  RunOptions options;
  options.programs = {{.ranks = 1, .command = {"a.out"}}};
  const auto segment = JobSegment::create(options, 1, 1, all_local(1));
  ASSERT_TRUE(segment.ok()) << segment.error().text;
  const JobSegment& made = segment.value();
  constexpr std::uint64_t kUsed = 1 << 20, kPage = 4096;
  const std::uint64_t region = journal::region_offset(made.header(), 0);
  memset(made.base() + region + kUsed - kPage, 'x', 2 * kPage);
  journal::put(made.control(0)->permanent_bump, kUsed - 1);
  SegmentCopy copy = made.room_for_copy();
  made.copy_structure(copy, all_local(1));
  ASSERT_TRUE(copy.write(path("journal")));
  auto file = MappedFile::open(path("journal"));
  const auto parts = parts_of(file.value().bytes());
  ASSERT_TRUE(parts && !parts->parts.empty());
  const JournalPart& last = parts->parts.back();
  EXPECT_EQ(last.at + last.bytes.size(), region + kUsed);
}

// A job that has a processor for each rank may be resumed where ranks share one, and the reverse.
TEST_F(CheckedFiles, ARestoredJournalIsToldOfTheProcessorsThatAreThere) {
  RunOptions options;
  options.programs = {{.ranks = 2, .command = {"a.out"}}};
  const auto segment = JobSegment::create(options, 1, 2, all_local(2));
  ASSERT_TRUE(segment.ok()) << segment.error().text;
  EXPECT_EQ(segment.value().header()->crowded, 0u);
  ASSERT_TRUE(segment.value().keep(path("journal"), [] { return false; }).ok());
  for (const std::uint32_t processors : {1u, 2u}) {
    const auto restored =
        JobSegment::restore(options, path("journal"), 0, processors, all_local(2));
    ASSERT_TRUE(restored.ok()) << restored.error().text;
    const journal::SegmentHeader* header = restored.value().header();
    EXPECT_EQ(header->cores, processors);
    EXPECT_EQ(header->crowded, processors < 2);
    EXPECT_EQ(header->light_publish, processors >= 2);
    EXPECT_EQ(header->prefaulted_bytes, 0u);
  }
}

// Payload that a rank prefaults: as much as the header says, and nothing in a journal that is a
// file or too small.
class Prefaulting : public CheckedFiles {
 protected:
  static Result<JobSegment> segment(std::uint64_t limit_bytes, const std::string& directory = "") {
    RunOptions options;
    options.programs = {{.ranks = 2, .command = {"a.out"}}};
    options.journal_limit_bytes = limit_bytes;
    options.journal_directory = directory;
    return JobSegment::create(options, 1, 2, all_local(2));
  }
  static std::size_t resident_bytes(const JobSegment& segment, std::uint64_t at,
                                    std::uint64_t bytes) {
    std::vector<unsigned char> pages(bytes / kPage);
    EXPECT_EQ(mincore(segment.base() + at, bytes, pages.data()), 0);
    return kPage * static_cast<std::size_t>(
                       std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; }));
  }
  static constexpr std::size_t kPage = 4096, kLargePage = 2 << 20;
};

TEST_F(Prefaulting, TakesAShareOfTheLimit) {
  const auto prefaulted = [&](std::uint64_t limit_bytes, const std::string& directory = "") {
    const auto made = segment(limit_bytes, directory);
    EXPECT_TRUE(made.ok());
    return made.ok() ? made.value().header()->prefaulted_bytes : 1;
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  const std::uint64_t most = prefaulted(0);  // less where there is little memory
  EXPECT_LE(most, 32 * kMiB);
  EXPECT_EQ(most % kLargePage, 0u);
  EXPECT_EQ(prefaulted(64 * 1024 * kMiB), most);
  EXPECT_EQ(prefaulted(1024 * kMiB), std::min(most, 16 * kMiB));
  EXPECT_EQ(prefaulted(64 * kMiB), 0u);
  EXPECT_EQ(prefaulted(0, path("")), 0u);
}

TEST_F(Prefaulting, TouchesItsOwnPayloadAlone) {
  const auto made = segment(1 << 30);
  ASSERT_TRUE(made.ok()) << made.error().text;
  const JobSegment& s = made.value();
  if (s.header()->prefaulted_bytes == 0) GTEST_SKIP() << "there is little memory";
  const auto payload = [&](std::uint32_t rank) {
    return journal::region_offset(s.header(), rank) + journal::payload_begin(s.header());
  };
  engine::prefault_payload(s.base(), 1);
  const std::size_t found = resident_bytes(s, payload(1), 2 * s.header()->prefaulted_bytes);
  EXPECT_GE(found, kLargePage);
  EXPECT_LE(found, s.header()->prefaulted_bytes);
  EXPECT_EQ(resident_bytes(s, payload(0), kLargePage), 0u);
  // What a former incarnation has used is not touched again.
  journal::put(s.control(0)->payload_bump,
               journal::payload_begin(s.header()) + s.header()->prefaulted_bytes);
  engine::prefault_payload(s.base(), 0);
  EXPECT_EQ(resident_bytes(s, payload(0), s.header()->prefaulted_bytes), 0u);
}

// A set of two images that map nothing.
class ImageSetWriting : public CheckedFiles {
 protected:
  static constexpr std::uint32_t kRanks = 2;

  // Writes a set and returns its fault. `file_log_bytes`: of rank 1.
  std::string written(std::uint64_t file_log_bytes, bool compress = false) {
    ImageSetWriter writer(directory_, directory_, {2, false}, compress);
    begin_to_complete(writer, file_log_bytes);
    return fault_of(writer);
  }
  static std::string fault_of(ImageSetWriter& writer) {
    pollfd outcome = {writer.descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&outcome, 1, -1), 1);
    return writer.outcome()->fault;
  }
  void begin_to_complete(ImageSetWriter& writer, std::uint64_t file_log_bytes) {
    ImageSet set;
    set.number = writer.next_number();
    set.owner = test::checkpoint_owner(kRanks);
    set.images = {{7, ""}, {kImage, ""}};
    set.file_logs = {{}, {file_log_bytes, 0}};
    set.machine = machine_mark();
    write("program", "no ELF file");
    set.libraries[path("program")] = build_of(path("program"), directory_).value();
    const auto files = writer.begin(set.number, all_local(kRanks));
    EXPECT_TRUE(files.ok());
    for (const Descriptor& file : files.value()) {
      const process_image::ImageHead head = {};
      process_image::MappingHead end = {};
      end.kind = process_image::MappingHead::Kind::kEnd;
      EXPECT_TRUE(write_all(file.get(), &head, sizeof head));
      EXPECT_TRUE(write_all(file.get(), &end, sizeof end));
    }
    writer.add(SegmentCopy(0, 0), "rest of the input");
    while (!added()) poll(nullptr, 0, 1);
    writer.complete(set);
  }
  // The journal and the input, which are added first.
  bool added() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (std::filesystem::exists(entry.path() / "input")) return true;
    }
    return false;
  }

  static constexpr std::uint64_t kImage = 9;
};

TEST_F(ImageSetWriting, ASetIsWrittenAndFoundAgain) {
  EXPECT_EQ(written(0), "");
  std::vector<std::string> notices;
  const auto found =
      newest_image_set(directory_, test::checkpoint_owner(kRanks), directory_, notices);
  EXPECT_TRUE(notices.empty());
  ASSERT_TRUE(found.ok()) << found.error().text;
  EXPECT_EQ(found.value().number, 1u);
  EXPECT_EQ(found.value().input().value(), "rest of the input");
  EXPECT_FALSE(std::filesystem::exists(path("images-1.rejoin.part")));
}

// The images contain Rejoin's library, so an older set cannot be gone on from by a newer one.
TEST_F(ImageSetWriting, ASetOfAnotherFormatIsRefusedByName) {
  EXPECT_EQ(written(0), "");
  const std::string list = path("images-1.rejoin/set");
  std::string json = read_small_file(list).substr(17);
  const std::string format = "\"format\": 4";
  ASSERT_NE(json.find(format), std::string::npos);
  json.replace(json.find(format), format.size(), "\"format\": 3");
  write("images-1.rejoin/set", hex_text(checksum_of(json).sum) + "\n" + json);
  std::vector<std::string> notices;
  EXPECT_FALSE(
      newest_image_set(directory_, test::checkpoint_owner(kRanks), directory_, notices).ok());
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("was written by another version of Rejoin"), std::string::npos);
}

TEST_F(ImageSetWriting, ACompressedSetHasThePlainContents) {
  EXPECT_EQ(written(0, true), "");
  std::vector<std::string> notices;
  const auto found =
      newest_image_set(directory_, test::checkpoint_owner(kRanks), directory_, notices);
  ASSERT_TRUE(found.ok()) << found.error().text;
  const std::string image = found.value().path_of_image(1);
  EXPECT_FALSE(std::filesystem::exists(image));
  auto plain = PlainFile::open(image);
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  auto mapped = MappedFile::open(plain.value().path());
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped.value().bytes().size(),
            sizeof(process_image::ImageHead) + sizeof(process_image::MappingHead));
}

// A part of which the job has gone back to an earlier set. On one host, the earlier set may be
// gone.
TEST_F(ImageSetWriting, AnAbandonedPartIsNotFoundAgain) {
  {
    ImageSetWriter writer(directory_, directory_, {2, true}, false);
    begin_to_complete(writer, 0);
    EXPECT_EQ(fault_of(writer), "");
    EXPECT_TRUE(holds_image_sets(directory_));
    writer.abandon();
    EXPECT_FALSE(holds_image_sets(directory_));
  }
  EXPECT_FALSE(std::filesystem::exists(path("images-1.rejoin.part")));
  ImageSetWriter alone(directory_, directory_, {1, false}, false);
  begin_to_complete(alone, 0);
  EXPECT_EQ(fault_of(alone), "");
  alone.abandon();
  alone.finish();
  EXPECT_TRUE(holds_image_sets(directory_));
}

TEST_F(ImageSetWriting, APartThatIsAbandonedWhileItIsPutInPlaceIsNotFoundAgain) {
  for (int i = 0; i < 20; ++i) {
    ImageSetWriter writer(directory_, directory_, {2, true}, false);
    begin_to_complete(writer, 0);
    poll(nullptr, 0, i % 5);
    writer.abandon();
    writer.finish();
    ASSERT_TRUE(image_sets_at(directory_).empty());
  }
}

TEST_F(ImageSetWriting, ASetIsNotWholeUnlessTheFileLogsThatItNeedsAreDurable) {
  const std::string log = file_log_in(file_logs_in(directory_), 1, kImage);
  EXPECT_EQ(written(4), log + ": No such file or directory");
  EXPECT_FALSE(holds_image_sets(directory_));
  EXPECT_FALSE(std::filesystem::exists(path("images-1.rejoin.part")));
  std::filesystem::create_directory(path("opened"));
  std::ofstream(log) << "log of a rank";
  // The writer removes the logs in a directory without sets, so there is one already.
  std::filesystem::create_directory(path("images-1.rejoin"));
  EXPECT_EQ(written(4), "");
}

}  // namespace
}  // namespace rejoin::launcher
