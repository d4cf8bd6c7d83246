// Rules of a pure core are left out one by one: the actions after the last event with the rule and
// without it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>

#include "agent_transcript.h"

namespace rejoin::launcher {

// Without the rule, a state would follow that cannot follow: an invariant ends the process.
inline constexpr const char* kNoState = nullptr;

template <class Rule>
struct LeftOut {
  const char* name;
  Rule rule;
  std::string events;   // the events before the last one
  const char* last;     // the last event
  const char* with;     // the actions that follow
  const char* without;  // the actions that follow if the rule is left out; kNoState: none
};

template <class Rule>
std::ostream& operator<<(std::ostream& out, const LeftOut<Rule>& c) {
  return out << c.name;
}

template <class Rule>
std::string name_of_left_out(const testing::TestParamInfo<LeftOut<Rule>>& c) {
  return c.param.name;
}

// The agent's core.
template <std::uint32_t kRanks>
struct PlayerOfRanks {
  AgentCore core{all_local(kRanks)};
  template <class Rule>
  void leave_out(Rule rule) {
    core.leave_out(rule);
  }
  std::string play(const std::string& line) {
    std::string text = text_of_actions(launcher::play(core, line));
    if (text.empty() && core.all_over()) text = "all over\n";
    return text;
  }
};

using CorePlayer = PlayerOfRanks<1>;
using PairPlayer = PlayerOfRanks<2>;

template <class Player, class Rule>
std::string last_of(const LeftOut<Rule>& c, Rule left_out) {
  Player player;
  player.leave_out(left_out);
  std::istringstream events(c.events);
  for (std::string line; std::getline(events, line);) player.play(line);
  return player.play(c.last);
}

template <class Player, class Rule>
void expect_noticed(const LeftOut<Rule>& c) {
  EXPECT_EQ(last_of<Player>(c, Rule::kNone), c.with);
  if (c.without == kNoState) {
    EXPECT_DEATH(last_of<Player>(c, c.rule), "cannot follow it");
    return;
  }
  EXPECT_EQ(last_of<Player>(c, c.rule), c.without);
  EXPECT_NE(std::string(c.with), c.without);
}

// Checks that there is a case for each rule, in the order of the rules. `last`: the last rule.
template <class Rule, std::size_t kCount>
void expect_a_case_each(const LeftOut<Rule> (&cases)[kCount], Rule last) {
  ASSERT_EQ(kCount, static_cast<std::size_t>(last));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(cases[i].rule), i + 1) << cases[i].name;
  }
}

}  // namespace rejoin::launcher
