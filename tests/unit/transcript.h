// Transcripts of a core: a line that begins with ">" is an event, and the lines below it are the
// actions that follow.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace rejoin::launcher {

// Runs a transcript again: the result must equal the text. `play` is called with the text after
// ">", and writes a line for each action.
template <class Play>
void expect_played(const std::string& transcript, Play play) {
  std::istringstream lines(transcript);
  std::ostringstream played;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty()) played << "\n";
    if (!line.starts_with("> ")) continue;
    played << line << "\n";
    play(line.substr(2), played);
  }
  EXPECT_EQ(transcript, "\n" + played.str().substr(1));
}

}  // namespace rejoin::launcher
