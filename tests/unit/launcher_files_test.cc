// Files that ftrun reads, damaged or hostile ones included.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "checkpoint_image.h"
#include "elf_image.h"
#include "launcher/program/build.h"
#include "launcher/program/elf.h"
#include "launcher/program/program.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {
namespace {

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = std::filesystem::temp_directory_path() / "files-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~Files() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string pipe() const {
    EXPECT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    return path("pipe");
  }
  // Returns the version from which --resume would go on, "none", or the error, after the notices.
  std::string resumed(const CheckpointOwner& by = test::checkpoint_owner(3)) const {
    std::vector<std::string> notices;
    const auto found = CheckpointFile::newest(directory_, by, notices);
    std::string said;
    for (const std::string& notice : notices) said += notice + "\n";
    if (!found.ok()) return said + found.error().text;
    return said + (found.value() ? std::to_string(found.value()->version()) : "none");
  }

  std::string directory_;
};

TEST_F(Files, APipeIsNotWaitedFor) {
  const std::string name = pipe();
  const auto mapped = MappedFile::open(name);
  ASSERT_FALSE(mapped.ok());
  EXPECT_NE(mapped.error().text.find("not a regular file"), std::string::npos);
}

TEST_F(Files, AModuleThatIsAPipeIsNotWaitedFor) {
  journal::ModuleEntry module = {};
  std::strcpy(module.path, pipe().c_str());
  EXPECT_EQ(Symbolizer(library_directory()).describe(module, 0x12), "pipe+0x12");
}

TEST_F(Files, AModulesPathIsPartOfOneLine) {
  journal::ModuleEntry module = {};
  std::strcpy(module.path, "a\n\033[2Jb");
  EXPECT_EQ(rough_site(module, 1), "a  [2Jb+0x1");
  module.build_id_bytes = journal::kNamedSite;
  EXPECT_EQ(rough_site(module, 1), "a  [2Jb:1");
}

TEST_F(Files, CheckpointsThatAreWhole) {
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(3, 5));
  write("checkpoint-0000000007.rejoin", test::checkpoint_image(3, 7));
  EXPECT_EQ(resumed(), "7");
}

// If this were accepted, every resume would begin at the older state.
TEST_F(Files, ACheckpointUnderAnotherName) {
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(3, 5));
  write("checkpoint-0000000009.rejoin", test::checkpoint_image(3, 5));
  EXPECT_EQ(resumed(),
            path("checkpoint-0000000009.rejoin") +
                " holds another version than its name says; looking for an older one\n5");
}

TEST_F(Files, NamesThatAreNoVersions) {
  for (const char* name : {"99999999999999999999999", "", "-1", "0x5", "5.rejoin.part"}) {
    write("checkpoint-" + std::string(name) + ".rejoin", "");
  }
  EXPECT_EQ(resumed(), "none");
}

TEST_F(Files, ACheckpointsProgramIsPartOfOneLine) {
  CheckpointOwner other = test::checkpoint_owner(3);
  other.program = "\nrogram";
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(other, 5));
  EXPECT_EQ(resumed(),
            "--resume: " + path("checkpoint-0000000005.rejoin") +
                " was written by  rogram, not by program: run that one, or start the job anew "
                "in another directory");
}

TEST_F(Files, ACheckpointOfAnotherNumberOfRanks) {
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(4, 5));
  EXPECT_EQ(resumed(), "--resume: " + path("checkpoint-0000000005.rejoin") +
                           " was written by 4 ranks; go on with -n 4");
}

TEST_F(Files, ACheckpointOfAnotherBuild) {
  CheckpointOwner other = test::checkpoint_owner(3);
  other.build = "hash 89\nab";
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(other, 5));
  EXPECT_EQ(resumed(),
            "--resume: " + path("checkpoint-0000000005.rejoin") +
                " was written by another build of program (hash 89 ab, this is "
                "build-id 0123): run that one, or start the job anew in another directory");
}

// The owner's arguments are --size '' 7.
TEST_F(Files, ACheckpointOfOtherArguments) {
  const auto said = [this](std::vector<std::string> arguments) {
    CheckpointOwner other = test::checkpoint_owner(3);
    other.arguments = std::move(arguments);
    write("checkpoint-0000000005.rejoin", test::checkpoint_image(other, 5));
    const std::string all = resumed();
    const std::string before = "--resume: " + path("checkpoint-0000000005.rejoin") +
                               " was written by program with other arguments (";
    const std::string behind =
        "): give the same arguments, or start the job anew in another directory";
    if (!all.starts_with(before) || !all.ends_with(behind)) return all;
    return all.substr(before.size(), all.size() - before.size() - behind.size());
  };
  EXPECT_EQ(said({"--size", "", "7"}), "5");
  EXPECT_EQ(said({"--size", "", "8"}), "argument 3 was '8' and is '7'");
  EXPECT_EQ(said({"--size", "", "7", "-v"}), "argument 4 was '-v' and is none");
  EXPECT_EQ(said({"--size", ""}), "argument 3 was none and is '7'");
  EXPECT_EQ(said({"--size", "7"}), "argument 2 was '7' and is ''");
  EXPECT_EQ(said({}), "argument 1 was none and is '--size'");
  EXPECT_EQ(said({"a\n\033[2J" + std::string(100, 'b')}),
            "argument 1 was 'a  [2J" + std::string(74, 'b') + "…' and is '--size'");
}

// The former format names only the program, so the file's owner cannot be determined.
TEST_F(Files, ACheckpointOfTheFormerFormat) {
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(3, 5));
  write("checkpoint-0000000007.rejoin", test::checkpoint_image(test::checkpoint_owner(3), 7, 1));
  EXPECT_EQ(resumed(), path("checkpoint-0000000007.rejoin") +
                           " has another format (1, not 2): it was written by another version of "
                           "Rejoin; looking for an older one\n5");
}

// Files that were written by ftrun when their format was made. A newer Rejoin must read all of
// them, or docs/checkpoints.md must no longer say so.
TEST_F(Files, ACheckpointOfEachFormatThatIsRead) {
  const CheckpointOwner owner = {
      "pcontrol", "build-id 08af9757325c64ac8e4265f7c40f06c851bf3a51", {"model", "versions=3"}, 2};
  for (const char* format : {"2"}) {
    const std::string kept =
        std::string("/tests/unit/files/checkpoint-format-") + format + ".rejoin";
    std::filesystem::copy_file(REJOIN_SOURCE_DIR + kept, path("checkpoint-0000000003.rejoin"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(resumed(owner), "3");
  }
}

TEST_F(Files, ACheckpointWithoutTexts) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    std::string file = test::checkpoint_image(3, 5);
    std::memcpy(file.data() + offsetof(CheckpointHead, texts_bytes), &bytes, sizeof bytes);
    test::seal(file, true);
    write("checkpoint-0000000005.rejoin", file);
    EXPECT_NE(resumed().find(bytes > 1 ? "is cut off" : "is damaged"), std::string::npos);
  }
}

TEST_F(Files, ABuildIsTheBuildIdOrAHash) {
  const auto build = [](const std::string& of) {
    const auto found = build_of(of, library_directory());
    return found.ok() ? found.value() : "no: " + found.error().text;
  };
  const std::string mine = build("/proc/self/exe");
  EXPECT_TRUE(mine.starts_with("build-id ") && mine.size() == 9 + 40) << mine;
  write("script", "#!/bin/sh\necho 1\n");
  const std::string script = build(path("script"));
  EXPECT_TRUE(script.starts_with("hash ") && script.size() == 5 + 32) << script;
  EXPECT_EQ(build(path("script")), script);
  write("script", "#!/bin/sh\necho 2\n");
  EXPECT_NE(build(path("script")), script);
  EXPECT_EQ(build(path("none")).substr(0, 4), "no: ");
  EXPECT_EQ(build(pipe()).substr(0, 4), "no: ");
}

// Every entry names the same long text. Without a limit a file of some megabytes would fill the
// memory.
TEST(Elf, NamesAreShort) {
  EXPECT_EQ(needed_of(test::elf_needing({std::string(255, 'a')})).size(), 1u);
  EXPECT_TRUE(needed_of(test::elf_needing({std::string(256, 'a')})).empty());
}

}  // namespace
}  // namespace rejoin::launcher
