#include "engine/fold.h"

#include <algorithm>

namespace rejoin::engine {

// Until the end, `closes` of member i is the lowest member of its node.
void fold_by_nodes(const std::uint32_t* node, std::uint32_t n, FoldStep* order) {
  for (std::uint32_t i = 0; i < n; ++i) order[i] = {i, 0};
  std::sort(order, order + n, [node](const FoldStep& a, const FoldStep& b) {
    return node[a.member] != node[b.member] ? node[a.member] < node[b.member] : a.member < b.member;
  });
  for (std::uint32_t i = 0; i < n; ++i) {
    const bool first = i == 0 || node[order[i].member] != node[order[i - 1].member];
    order[i].closes = first ? order[i].member : order[i - 1].closes;
  }
  std::sort(order, order + n, [](const FoldStep& a, const FoldStep& b) {
    return a.closes != b.closes ? a.closes > b.closes : a.member > b.member;
  });
  std::uint32_t nodes = 0;
  for (std::uint32_t i = n; i-- > 0;) {
    FoldStep& step = order[i];
    const bool first = step.member == step.closes;
    step.closes = !first ? 0 : nodes % kNodesInBlock == 0 ? 2 : 1;
    nodes += first;
  }
}

void fold_blocks(std::uint32_t nodes, FoldStep* order) {
  for (std::uint32_t k = 0; k < nodes; ++k) {
    const std::uint32_t i = nodes - 1 - k;
    order[k] = {i, i % kNodesInBlock == 0 ? 2u : 1u};
  }
}

void fold_by_runs(const std::uint32_t* node, std::uint32_t n, FoldStep* order) {
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t i = n - 1 - k;
    const bool first = i == 0 || node[i] != node[i - 1];
    order[k] = {i, i == 0 ? 2u : first ? 1u : 0u};
  }
}

}  // namespace rejoin::engine
