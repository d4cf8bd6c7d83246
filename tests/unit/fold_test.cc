// The order in which reductions combine contributions, for all layouts.
#include "engine/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace rejoin::engine {
namespace {

using Nodes = std::vector<std::uint32_t>;

// An operator that writes down what it combines. An element is an index into `terms`.
std::vector<std::string> terms;
void combine(const Reduction&, const void* a, const void* b, void* out, std::size_t count) {
  EXPECT_NE(out, a);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t left = static_cast<const std::uint32_t*>(a)[i];
    const std::uint32_t right = static_cast<const std::uint32_t*>(b)[i];
    terms.push_back("(" + terms.at(left) + " " + terms.at(right) + ")");
    static_cast<std::uint32_t*>(out)[i] = static_cast<std::uint32_t>(terms.size() - 1);
  }
}
const Reduction kTerms = {combine, sizeof(std::uint32_t), true, nullptr};

using Order = void (*)(const std::uint32_t*, std::uint32_t, FoldStep*);

// Returns the term that all contributions are combined to. copied: bit i % 8 is set if contribution
// i lies in a place that is used for the next one; the others stay where they are.
std::string folded(const Nodes& nodes, Order order, unsigned copied) {
  const auto n = static_cast<std::uint32_t>(nodes.size());
  std::vector<FoldStep> steps(n);
  order(nodes.data(), n, steps.data());
  constexpr std::size_t kCount = 3;  // elements
  terms.clear();
  for (std::uint32_t i = 0; i < n; ++i) terms.push_back(std::to_string(i));
  std::vector<std::vector<std::uint32_t>> contribution(n, std::vector<std::uint32_t>(kCount));
  for (std::uint32_t i = 0; i < n; ++i) contribution[i].assign(kCount, i);
  std::vector<std::uint32_t> out(kCount, ~0u), more(2 * kCount, ~0u), place(kCount);
  Fold fold;
  fold.begin(kTerms, kCount, reinterpret_cast<std::byte*>(out.data()),
             reinterpret_cast<std::byte*>(more.data()));
  for (const FoldStep& step : steps) {
    const auto& mine = contribution[step.member];
    const bool copies = (copied >> step.member % 8 & 1) != 0;
    if (copies) std::memcpy(place.data(), mine.data(), kCount * sizeof mine[0]);
    fold.add(copies ? place.data() : mine.data(), copies, step.closes);
    place.assign(kCount, ~0u);
  }
  for (std::size_t k = 1; k < kCount; ++k) EXPECT_EQ(terms.at(out[k]), terms.at(out[0]));
  for (std::uint32_t i = 0; i < n; ++i) {
    EXPECT_EQ(contribution[i], std::vector<std::uint32_t>(kCount, i)) << "an operand is written to";
  }
  return terms.at(out[0]);
}

// Combines from the right: (a (b c)).
std::string nested(const std::vector<std::string>& parts) {
  std::string all = parts.back();
  for (std::size_t i = parts.size() - 1; i-- > 0;) all = "(" + parts[i] + " " + all + ")";
  return all;
}

// The same as fold_by_nodes(), by the definition.
std::string by_nodes(const Nodes& nodes) {
  std::vector<std::vector<std::string>> members;
  std::map<std::uint32_t, std::size_t> index;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [at, is_new] = index.try_emplace(nodes[i], members.size());
    if (is_new) members.emplace_back();
    members[at->second].push_back(std::to_string(i));
  }
  std::vector<std::string> blocks;
  for (std::size_t first = 0; first < members.size(); first += 16) {
    std::vector<std::string> block;
    for (std::size_t k = first; k < members.size() && k < first + 16; ++k) {
      block.push_back(nested(members[k]));
    }
    blocks.push_back(nested(block));
  }
  return nested(blocks);
}

std::string by_runs(const Nodes& nodes) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < nodes.size();) {
    std::vector<std::string> run;
    const std::uint32_t node = nodes[i];
    for (; i < nodes.size() && nodes[i] == node; ++i) run.push_back(std::to_string(i));
    runs.push_back(nested(run));
  }
  return nested(runs);
}

TEST(FoldOrder, TheOrderIsAsDocumented) {
  EXPECT_EQ(folded({0, 0, 0}, fold_by_nodes, 0), "(0 (1 2))");
  EXPECT_EQ(folded({0, 0, 1, 1}, fold_by_nodes, 0), "((0 1) (2 3))");
  EXPECT_EQ(folded({7, 2, 7, 2, 2}, fold_by_nodes, 0), "((0 2) (1 (3 4)))");
  EXPECT_EQ(folded({7, 2, 7, 2, 2}, fold_by_runs, 0), "(0 (1 (2 (3 4))))");
  EXPECT_EQ(folded({0, 0, 1, 1, 0, 0}, fold_by_runs, 0), "((0 1) ((2 3) (4 5)))");
}

TEST(FoldOrder, EveryLayoutOfUpToSixMembers) {
  for (std::uint32_t n = 2; n <= 6; ++n) {
    Nodes nodes(n, 0);
    for (bool more = true; more;) {
      for (const unsigned copied : {0u, 0xffu, 0xfbu, 0x55u}) {
        ASSERT_EQ(folded(nodes, fold_by_nodes, copied), by_nodes(nodes));
        ASSERT_EQ(folded(nodes, fold_by_runs, copied), by_runs(nodes));
      }
      std::uint32_t i = 0;
      while (i < n && ++nodes[i] == 4) nodes[i++] = 0;
      more = i < n;
    }
  }
}

TEST(FoldOrder, BlocksOfSixteenNodes) {
  std::uint64_t random = 1;
  for (std::uint32_t round = 0; round < 150; ++round) {
    Nodes nodes(2 + round);
    for (std::uint32_t& node : nodes) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      node = static_cast<std::uint32_t>(random >> 33) % (1 + round % 70);
    }
    if (round % 3 == 0) std::sort(nodes.begin(), nodes.end());
    for (const unsigned copied : {0u, 0xffu, 0xdfu, 0x92u}) {
      ASSERT_EQ(folded(nodes, fold_by_nodes, copied), by_nodes(nodes)) << round;
      ASSERT_EQ(folded(nodes, fold_by_runs, copied), by_runs(nodes)) << round;
    }
  }
}

}  // namespace
}  // namespace rejoin::engine
