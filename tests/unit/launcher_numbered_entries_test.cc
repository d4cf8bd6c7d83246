// The versions and sets of --checkpoint-dir as entries with numbers.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "launcher/agent/numbered_entries.h"

namespace rejoin::launcher {
namespace {

using Numbers = std::vector<std::uint64_t>;

class Entries : public testing::Test {
 protected:
  Entries() {
    std::string name = std::filesystem::temp_directory_path() / "entries-test-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  ~Entries() override { std::filesystem::remove_all(directory_); }

  void make_file(const std::string& path) { std::ofstream(path) << "bytes"; }
  void make_directory(const std::string& path) {
    std::filesystem::create_directory(path);
    make_file(path + "/file");
  }
  bool exists(const std::string& path) const { return std::filesystem::exists(path); }

  std::string directory_;
};

TEST_F(Entries, AreFoundByTheirNamesNewestFirst) {
  const NumberedEntries files(directory_, "checkpoint", 10);
  EXPECT_EQ(files.path_of(12), directory_ + "/checkpoint-0000000012.rejoin");
  for (const std::uint64_t number : {9, 12, 10}) make_file(files.path_of(number));
  make_file(files.part_of(13));
  for (const char* name : {"checkpoint-.rejoin", "checkpoint-1x.rejoin", "images-4.rejoin",
                           "checkpoint-99999999999999999999.rejoin", "checkpoint-5"}) {
    make_file(directory_ + "/" + name);
  }
  EXPECT_EQ(files.numbers(), (Numbers{12, 10, 9}));
  EXPECT_EQ(NumberedEntries(directory_, "images", 1).numbers(), Numbers{4});
  EXPECT_TRUE(NumberedEntries(directory_ + "/none", "images", 1).numbers().empty());
}

TEST_F(Entries, APartBecomesWholeWhenItIsPutInPlace) {
  const NumberedEntries sets(directory_, "images", 1);
  EXPECT_FALSE(sets.put_in_place(3));
  make_directory(sets.part_of(3));
  EXPECT_TRUE(sets.numbers().empty());
  EXPECT_TRUE(sets.put_in_place(3));
  EXPECT_EQ(sets.numbers(), Numbers{3});
  EXPECT_FALSE(exists(sets.part_of(3)));
  EXPECT_TRUE(exists(sets.path_of(3) + "/file"));
}

TEST_F(Entries, TheNewestAreKept) {
  const NumberedEntries sets(directory_, "images", 1);
  for (const std::uint64_t number : {1, 2, 3, 4, 7}) make_directory(sets.path_of(number));
  sets.remove_old(4, 2);
  EXPECT_EQ(sets.numbers(), (Numbers{7, 4, 3}));
  EXPECT_FALSE(exists(sets.part_of(1)));
}

TEST_F(Entries, TheNewestThatIsAcceptedIsFound) {
  const NumberedEntries sets(directory_, "images", 1);
  std::vector<std::string> notices;
  const auto below_4 = [](std::uint64_t number) -> Result<std::uint64_t> {
    if (number < 4) return number;
    return Error{std::to_string(number) + " is damaged"};
  };
  EXPECT_FALSE(sets.newest<std::uint64_t>(below_4, notices));
  for (const std::uint64_t number : {2, 3, 4, 7}) make_directory(sets.path_of(number));
  make_directory(sets.part_of(8));
  EXPECT_EQ(sets.newest<std::uint64_t>(below_4, notices), 3u);
  EXPECT_EQ(notices, (std::vector<std::string>{"7 is damaged; looking for an older one",
                                               "4 is damaged; looking for an older one"}));
}

TEST_F(Entries, OnePartIsRemoved) {
  const NumberedEntries sets(directory_, "images", 1);
  for (const std::uint64_t number : {3, 5}) make_directory(sets.part_of(number));
  sets.remove_part(3);
  EXPECT_FALSE(exists(sets.part_of(3)));
  EXPECT_TRUE(exists(sets.part_of(5)));
}

TEST_F(Entries, AllAreRemovedAndPartsToo) {
  const NumberedEntries sets(directory_, "images", 1);
  for (const std::uint64_t number : {1, 2}) make_directory(sets.path_of(number));
  make_directory(sets.part_of(5));
  make_file(directory_ + "/other");
  EXPECT_FALSE(sets.remove_all());
  EXPECT_TRUE(sets.numbers().empty());
  EXPECT_FALSE(exists(sets.part_of(5)));
  EXPECT_TRUE(exists(directory_ + "/other"));
}

TEST_F(Entries, WhatCannotBeRemovedIsAnError) {
  const NumberedEntries files(directory_, "checkpoint", 10);
  const auto error = files.remove(4);
  ASSERT_TRUE(error);
  EXPECT_NE(error->text.find("checkpoint-0000000004.rejoin: No such file"), std::string::npos);
  const NumberedEntries nowhere(directory_ + "/none", "images", 1);
  EXPECT_TRUE(nowhere.remove_all());  // there is no directory to sync
}

}  // namespace
}  // namespace rejoin::launcher
