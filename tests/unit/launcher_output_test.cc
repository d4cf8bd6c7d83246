// Output is shown exactly once across restarts, and input is stored for the next incarnation.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "launcher/output/input.h"
#include "launcher/output/output.h"
#include "launcher/output/terminal.h"

namespace rejoin::launcher {
namespace {

std::string fed(OutputStream& stream, std::string_view bytes) {
  std::string show;
  stream.feed(bytes, show);
  return show;
}

std::string flushed(OutputStream& stream) {
  std::string show;
  stream.flush(show);
  return show;
}

TEST(Output, WholeLinesAreShownAndTheRestIsKeptBack) {
  OutputStream stream;
  EXPECT_EQ(fed(stream, "one\ntw"), "one\n");
  EXPECT_TRUE(stream.has_unfinished_line());
  EXPECT_EQ(fed(stream, "o"), "");
  EXPECT_EQ(fed(stream, "\nthree"), "two\n");
  EXPECT_EQ(flushed(stream), "three");
  EXPECT_EQ(fed(stream, "!\n"), "!\n");
}

TEST(Output, AVeryLongLineIsShownBeforeItEnds) {
  OutputStream stream;
  std::string shown;
  for (int i = 0; i < 100; ++i) stream.feed(std::string(1000, 'x'), shown);
  EXPECT_GE(shown.size(), 60000u);
}

TEST(Output, AReplaysLinesAreSwallowed) {
  OutputStream stream;
  EXPECT_EQ(fed(stream, "a\nb\nc"), "a\nb\n");
  stream.restart();
  EXPECT_EQ(fed(stream, "a"), "");
  EXPECT_EQ(fed(stream, "\nb"), "");
  EXPECT_EQ(fed(stream, "\nc and d\n"), "c and d\n");
  EXPECT_FALSE(stream.take_difference(true));
}

TEST(Output, AnUnfinishedLineThatWasShownIsContinued) {
  OutputStream stream;
  EXPECT_EQ(fed(stream, "a\nprompt: "), "a\n");
  EXPECT_EQ(flushed(stream), "prompt: ");
  stream.restart();
  EXPECT_EQ(fed(stream, "a\nprompt: answer\n"), "answer\n");
  EXPECT_FALSE(stream.take_difference(true));
}

TEST(Output, DeathsDuringReplays) {
  OutputStream stream;
  EXPECT_EQ(fed(stream, "1\n2\n3\n"), "1\n2\n3\n");
  stream.restart();
  EXPECT_EQ(fed(stream, "1\n2"), "");
  stream.restart();
  EXPECT_EQ(fed(stream, "1\n2\n3\n4\n"), "4\n");
  stream.restart();
  EXPECT_EQ(fed(stream, "1\n2\n3\n4\n5\n"), "5\n");
  EXPECT_FALSE(stream.take_difference(true));
}

TEST(Output, ADifferenceIsReportedOnce) {
  OutputStream stream;
  fed(stream, "took 1.5 s\nresult\n");
  stream.restart();
  EXPECT_EQ(fed(stream, "took 10.25 s\nresult\nmore\n"), "more\n");
  EXPECT_TRUE(stream.take_difference(false));
  EXPECT_FALSE(stream.take_difference(false));
  stream.restart();
  EXPECT_EQ(fed(stream, "took 3 s\nresult\nmore\n"), "");
  EXPECT_FALSE(stream.take_difference(true));
}

TEST(Output, AShorterLineDoesNotSwallowTheNext) {
  OutputStream stream;
  fed(stream, "12345");
  flushed(stream);
  stream.restart();
  EXPECT_EQ(fed(stream, "12\nnext\n"), "next\n");
  EXPECT_TRUE(stream.take_difference(false));
}

TEST(Output, AReplayThatPrintsLessIsADifferenceAtItsEnd) {
  OutputStream stream;
  fed(stream, "a\nb\n");
  stream.restart();
  fed(stream, "a\n");
  EXPECT_FALSE(stream.take_difference(false));
  EXPECT_TRUE(stream.take_difference(true));
}

TEST(Output, EveryLineBeginsWithItsTag) {
  OutputStream stream([] { return std::string("[3]<stdout>: "); });
  EXPECT_EQ(fed(stream, "a\nb\nc"), "[3]<stdout>: a\n[3]<stdout>: b\n");
  EXPECT_EQ(flushed(stream), "[3]<stdout>: c");
  EXPECT_EQ(fed(stream, "d\n"), "d\n");
  stream.restart();
  EXPECT_EQ(fed(stream, "a\nb\ncd\ne\n"), "[3]<stdout>: e\n");
  EXPECT_FALSE(stream.take_difference(true));
}

// A text is shown once, whatever pieces it arrives in and wherever the process dies.
TEST(Output, RandomDeathsAndPieces) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return random() % n; };
    std::string text;
    for (std::size_t i = below(60); i > 0; --i) text += "\n0123456789"[below(11)];
    OutputStream stream;
    std::string shown;
    const std::size_t incarnations = 1 + below(5);
    for (std::size_t i = 0; i < incarnations; ++i) {
      if (i > 0) stream.restart();
      const std::size_t end = i + 1 == incarnations ? text.size() : below(text.size() + 1);
      for (std::size_t at = 0; at < end;) {
        const std::size_t n = std::min(end - at, 1 + below(8));
        stream.feed(std::string_view(text).substr(at, n), shown);
        if (below(4) == 0) stream.flush(shown);
        at += n;
      }
    }
    stream.flush(shown);
    EXPECT_EQ(shown, text) << "seed " << seed;
    EXPECT_FALSE(stream.take_difference(true)) << "seed " << seed;
  }
}

TEST(Input, IsKeptForTheNextIncarnation) {
  Input input;
  EXPECT_TRUE(input.wants_more());
  input.append("abc");
  EXPECT_FALSE(input.wants_more());
  input.given(2);
  EXPECT_EQ(input.pending(), "c");
  input.restart();
  EXPECT_EQ(input.pending(), "abc");
  input.given(3);
  EXPECT_TRUE(input.wants_more());
  EXPECT_FALSE(input.finished());
  input.source_ended();
  EXPECT_FALSE(input.wants_more());
  EXPECT_TRUE(input.finished());
  input.restart();
  EXPECT_FALSE(input.finished());
  EXPECT_EQ(input.pending(), "abc");
}

TEST(Input, GoesOnFromTheMarkThatIsKept) {
  Input input;
  input.append("abcdef");
  input.given(4);
  input.mark(1, 1);
  input.keep(1);
  // Images that were not kept do not count, however many there are.
  input.given(2);
  input.mark(2, 0);
  input.mark(2, 0);
  input.mark(3, 0);
  input.restart(1);
  EXPECT_EQ(input.pending(), "def");
  input.given(3);
  input.mark(4, 1);
  input.keep(4);
  input.restart(4);
  EXPECT_EQ(input.pending(), "f");
  input.restart();
  EXPECT_EQ(input.pending(), "abcdef");
}

TEST(OutputStream, GoesOnFromTheMarkThatIsKept) {
  OutputStream stream;
  std::string shown;
  stream.feed("a\nb\n", shown);
  stream.mark(1, shown);
  stream.keep(1);
  for (std::uint64_t other = 2; other < 20; ++other) {
    stream.feed("c\n", shown);
    stream.mark(other, shown);
  }
  const std::string before = shown;
  stream.restart();
  stream.jump(1);
  for (std::uint64_t other = 2; other < 20; ++other) stream.feed("c\n", shown);
  EXPECT_EQ(shown, before);
  stream.feed("d\n", shown);
  EXPECT_EQ(shown, before + "d\n");
  EXPECT_FALSE(stream.take_difference(true));
}

// Marks at the beginning, and prints three lines.
void print_abc(OutputStream& stream, std::string& shown) {
  stream.mark(1, shown);
  stream.keep(1);
  stream.feed("a\nb\nc\n", shown);
}
void goes_back(OutputStream& stream, bool was_shown = true) {
  stream.go_back(1, was_shown);
  stream.restart();
  stream.jump(1);
}

TEST(Output, WhatComesAgainWhenAllRanksHaveGoneBackIsShownOnce) {
  OutputStream stream;
  std::string shown;
  print_abc(stream, shown);
  goes_back(stream);
  stream.feed("a\nb\n", shown);
  EXPECT_EQ(shown, "a\nb\nc\n");
  stream.feed("c\nd\n", shown);
  EXPECT_EQ(shown, "a\nb\nc\nd\n");
  EXPECT_EQ(stream.take_void_lines(true), 0u);
}

TEST(Output, FromTheFirstLineThatDiffersOnAllIsShown) {
  OutputStream stream;
  std::string shown;
  print_abc(stream, shown);
  goes_back(stream);
  stream.feed("a\nx\nc\n", shown);
  EXPECT_EQ(shown, "a\nb\nc\nx\nc\n");
  EXPECT_EQ(stream.take_void_lines(false), 2u);
  EXPECT_EQ(stream.take_void_lines(true), 0u);
}

// The ranks go back once more before all has come again.
TEST(Output, WhatComesAgainAfterTwoReturnsIsShownOnce) {
  OutputStream stream;
  std::string shown;
  print_abc(stream, shown);
  goes_back(stream);
  stream.feed("a\n", shown);
  goes_back(stream);
  stream.feed("a\nb\nc\n", shown);
  EXPECT_EQ(shown, "a\nb\nc\n");
  goes_back(stream);
  goes_back(stream);
  EXPECT_EQ(stream.take_void_lines(true), 3u);
}

TEST(Output, WhatWasWithheldIsShownWhenItComesAgain) {
  OutputStream stream;
  std::string shown;
  print_abc(stream, shown);
  shown.clear();
  EXPECT_EQ(stream.bytes_before(1), 0u);
  EXPECT_EQ(stream.shown_bytes(), 6u);
  goes_back(stream, false);
  stream.feed("a\nb\n", shown);
  EXPECT_EQ(shown, "a\nb\n");
  EXPECT_EQ(stream.take_void_lines(true), 0u);
}

TEST(Wrapped, BreaksAtWords) {
  EXPECT_EQ(wrapped("ab cd", 5), "ab cd");
  EXPECT_EQ(wrapped("ab cd ef", 7), "ab cd\n    ef");
  EXPECT_EQ(wrapped("  ab cd", 6), "  ab\n    cd");
  EXPECT_EQ(wrapped("µµ µµ", 5), "µµ µµ");
  EXPECT_EQ(wrapped("abcdefgh ij", 6), "abcdefgh\n    ij");
}

TEST(Input, IsNotReadForARankThatReadsNoMore) {
  Input input;
  input.reader_ended();
  EXPECT_FALSE(input.wants_more());
  EXPECT_TRUE(input.finished());
}

}  // namespace
}  // namespace rejoin::launcher
