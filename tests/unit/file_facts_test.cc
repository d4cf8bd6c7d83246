#include "libc_recording/file_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "observations_job.h"

namespace rejoin::test {
namespace {

using FileFactsTest = ObservationsTest;

TEST_F(FileFactsTest, OneNoticeAPath) {
  incarnation([](Observations& o) {
    o.record(access("x"));
    EXPECT_FALSE(o.told("x"));
    for (int i = 0; i < 300; ++i) o.record(access(std::to_string(i).c_str()));
    EXPECT_FALSE(o.told("299"));
    EXPECT_TRUE(o.told("x"));
  });
  incarnation([](Observations& o) {
    Event e = access("x");
    EXPECT_TRUE(o.recall(e));
    EXPECT_FALSE(o.told("x"));
  });
}

TEST_F(FileFactsTest, WhatIsRewrittenIsKnownInOneIncarnation) {
  incarnation([](Observations& o) {
    for (const std::uint32_t file : {5u, 9u, 0xffffffff, 5u}) o.files().set_rewritten(file, "/b");
    char path[8];
    for (const std::uint32_t file : {5u, 9u, 0xffffffff}) {
      EXPECT_TRUE(o.files().rewritten(file, path, sizeof path));
      EXPECT_STREQ(path, "/b");
    }
    EXPECT_FALSE(o.files().rewritten(6, nullptr, 0));
    EXPECT_FALSE(o.files().rewritten(0xfffffffe, nullptr, 0));
  });
  incarnation([](Observations& o) { EXPECT_FALSE(o.files().rewritten(5, nullptr, 0)); });
}

// The notes of an incarnation that dies during its replay are kept for the next incarnation.
TEST_F(FileFactsTest, AReplayLeavesNotesToTheNextOne) {
  const auto replay = [](Observations& o, int answers) {
    for (int i = 0; i < answers; ++i) {
      Event e = access(i % 2 == 0 ? "a" : "b");
      EXPECT_TRUE(o.recall(e));
    }
  };
  const auto expect_note = [](Observations& o, std::size_t n, std::uint32_t file,
                              const char* expected) {
    char path[100];
    std::uint32_t found;
    ASSERT_TRUE(o.files().noted(n, path, sizeof path, &found));
    EXPECT_EQ(found, file);
    EXPECT_STREQ(path, expected);
  };
  const auto expect_no_note = [](Observations& o, std::size_t n) {
    char path[100];
    std::uint32_t file;
    EXPECT_FALSE(o.files().noted(n, path, sizeof path, &file));
  };
  incarnation([](Observations& o) {
    o.record(access("a"));
    o.record(access("b"));
  });
  incarnation([&](Observations& o) {
    replay(o, 1);
    EXPECT_FALSE(o.files().ghost(0xffffffff));
    o.files().note_ghost(0xffffffff, "/first");
    o.files().note_aside("/aside");
    o.files().note_ghost(7, "/seven");
    EXPECT_TRUE(o.files().ghost(7));
  });
  incarnation([&](Observations& o) {
    replay(o, 1);
    for (const std::uint32_t file : {7u, 0xffffffff}) EXPECT_TRUE(o.files().ghost(file));
    EXPECT_FALSE(o.files().ghost(8));
    expect_note(o, 0, 7, "/seven");
    expect_note(o, 1, 0, "/aside");
    expect_note(o, 2, 0xffffffff, "/first");
    expect_no_note(o, 3);
    o.files().note_ghost(8, "/eight");
  });
  incarnation([&](Observations& o) {
    replay(o, 2);
    for (const std::uint32_t file : {7u, 8u}) EXPECT_TRUE(o.files().ghost(file));
    expect_note(o, 0, 8, "/eight");
    Event e = access("c");
    EXPECT_FALSE(o.recall(e));  // live: the program decides what happens to existing files
    o.record(e);
  });
  incarnation([&](Observations& o) {
    replay(o, 2);
    EXPECT_FALSE(o.files().ghost(7));
    expect_no_note(o, 0);
    Event e = access("c");
    EXPECT_TRUE(o.recall(e));
  });
}

TEST_F(FileFactsTest, FindsWhatOthersOpenedForWriting) {
  const auto opened = [](Observations& o, const char* name, int flags, std::uint32_t file) {
    OpenedFile answer = {file, 0, 0};
    Event e{ObservationKind::kOpen, static_cast<std::uint32_t>(flags), name};
    e.data = &answer;
    e.data_bytes = sizeof answer;
    o.record(e);
  };
  incarnation(
      [&](Observations& o) {
        for (std::uint32_t file = 500; file > 100; file -= 2)
          opened(o, "a", O_WRONLY | O_APPEND, file);
        opened(o, "r", O_RDONLY, 1001);
        opened(o, "+", O_RDWR, 1003);
        opened(o, "w", O_WRONLY | O_CREAT | O_TRUNC, 1007);
      },
      1);
  incarnation([&](Observations& o) {
    opened(o, "mine", O_WRONLY, 1005);
    for (const bool kept : {false, true}) {
      for (const std::uint32_t file : {102, 300, 500, 1003}) {
        EXPECT_TRUE(o.files().written_elsewhere(file, kept)) << file;
      }
      for (const std::uint32_t file : {101, 1001, 1005}) {
        EXPECT_FALSE(o.files().written_elsewhere(file, kept)) << file;
      }
    }
    EXPECT_TRUE(o.files().written_elsewhere(1007, false));
    EXPECT_FALSE(o.files().written_elsewhere(1007, true));
  });
}

}  // namespace
}  // namespace rejoin::test
