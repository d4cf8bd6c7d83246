#include "launcher/supervisor/standing_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

namespace rejoin::launcher {
namespace {

std::string numbers_text(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string heading_of(const std::vector<const Stood*>& group) {
  constexpr std::size_t kMostNamed = 4;
  const Stood& first = *group.front();
  std::vector<std::uint32_t> ranks;
  std::string processes;
  for (std::size_t i = 0; i < group.size(); ++i) {
    ranks.push_back(group[i]->rank);
    if (i == kMostNamed) processes += ", ...";
    if (i < kMostNamed) processes += (i == 0 ? "" : ", ") + std::to_string(group[i]->pid);
  }
  const bool one = group.size() == 1;
  const std::string who = (one ? "rejoin: rank " : "rejoin: ranks ") + numbers_text(ranks);
  if (first.pid == 0) return who + (one ? " has ended\n" : " have ended\n");
  std::string where = first.where;
  if (!one && where.starts_with("before its ")) where.replace(7, 3, "their");
  return who + (one ? " (process " : " (processes ") + processes + ", " + first.state +
         (one ? ") is " : ") are ") + where + "\n";
}

}  // namespace

std::string standing_text(const std::vector<Stood>& ranks) {
  using Key = std::tuple<bool, std::string, std::string, std::vector<std::string>>;
  std::map<Key, std::vector<const Stood*>> groups;
  for (const Stood& s : ranks) {
    if (s.pid == 0) {
      groups[{true, "", "", {}}].push_back(&s);
    } else {
      groups[{false, s.where, s.state, s.stack}].push_back(&s);
    }
  }
  std::vector<const std::vector<const Stood*>*> order;
  for (const auto& [key, group] : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tuple(a->size(), a->front()->rank) < std::tuple(b->size(), b->front()->rank);
  });
  std::string text;
  for (const auto* group : order) {
    text += heading_of(*group);
    if (group->front()->pid == 0) continue;
    for (const std::string& line : group->front()->stack) text += "    " + line + "\n";
  }
  return text;
}

std::string ages_text(const std::vector<Stood>& ranks) {
  constexpr std::size_t kMostNamed = 16;
  std::string text = "rejoin: newest images:";
  std::uint64_t oldest_ns = 0;
  std::uint32_t without = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::optional<std::uint64_t>& age_ns = ranks[i].image_age_ns;
    if (!ranks[i].over && !age_ns) ++without;
    if (!ranks[i].over) oldest_ns = std::max(oldest_ns, age_ns.value_or(0));
    if (i >= kMostNamed) continue;
    text += (i == 0 ? " rank " : ", rank ") + std::to_string(ranks[i].rank) + " " +
            (age_ns ? duration_text(*age_ns) + " old" : "none");
  }
  if (ranks.size() <= kMostNamed) return text + "\n";
  return text + "; the oldest of all is " + duration_text(oldest_ns) + " old; " +
         std::to_string(without) + " ranks have none\n";
}

}  // namespace rejoin::launcher
