// Files that ftrun reads, as others may have made them.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "checkpoint_image.h"
#include "elf_image.h"
#include "launcher/inspect/symbolizer.h"
#include "launcher/program/elf.h"
#include "launcher/program/program.h"

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
  // The version that --resume would go on from, or the error; and what is said before.
  std::string resumed() const {
    std::vector<std::string> notices;
    const auto found = CheckpointFile::newest(directory_, "/bin/program", 3, notices);
    std::string said;
    for (const std::string& notice : notices) said += notice + "\n";
    return said + (found.ok() ? std::to_string(found.value().version()) : found.error().text);
  }

  std::string directory_;
};

TEST_F(Files, APipeIsNotWaitedFor) {
  const std::string name = pipe();
  const auto mapped = MappedFile::open(name);
  ASSERT_FALSE(mapped.ok());
  EXPECT_NE(mapped.error().text.find("no regular file"), std::string::npos);
}

TEST_F(Files, AModuleThatIsAPipeIsNotWaitedFor) {
  engine::ModuleEntry module = {};
  std::strcpy(module.path, pipe().c_str());
  EXPECT_EQ(Symbolizer(library_directory()).describe(module, 0x12), "pipe+0x12");
}

TEST_F(Files, AModulesPathIsPartOfOneLine) {
  engine::ModuleEntry module = {};
  std::strcpy(module.path, "a\n\033[2Jb");
  EXPECT_EQ(rough_site(module, 1), "a  [2Jb+0x1");
  module.build_id_bytes = engine::kNamedSite;
  EXPECT_EQ(rough_site(module, 1), "a  [2Jb:1");
}

TEST_F(Files, CheckpointsThatAreWhole) {
  write("checkpoint-0000000005.rejoin", test::checkpoint_image(3, 5));
  write("checkpoint-0000000007.rejoin", test::checkpoint_image(3, 7));
  EXPECT_EQ(resumed(), "7");
}

// Else the older state would be gone on from again and again.
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
  EXPECT_EQ(resumed(), "--resume: there is no whole checkpoint in " + directory_);
}

TEST_F(Files, ACheckpointsProgramIsPartOfOneLine) {
  std::string file = test::checkpoint_image(3, 5);
  const std::size_t at = file.find("program");
  file[at] = '\n';
  test::seal(file, false);
  write("checkpoint-0000000005.rejoin", file);
  EXPECT_NE(resumed().find("was written by  rogram, not by program"), std::string::npos);
}

// Every entry names the same long text: a file of some megabytes would fill the memory.
TEST(Elf, NamesAreShort) {
  EXPECT_EQ(needed_of(test::elf_needing({std::string(255, 'a')})).size(), 1u);
  EXPECT_TRUE(needed_of(test::elf_needing({std::string(256, 'a')})).empty());
}

}  // namespace
}  // namespace rejoin::launcher
