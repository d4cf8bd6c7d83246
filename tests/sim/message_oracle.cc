#include "message_oracle.h"

#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace rejoin::sim {

void MessageOracle::begin(std::uint32_t ranks) {
  messages_.clear();
  orders_.clear();
  receives_.assign(ranks, {});
  answers_.assign(ranks, {});
}

const char* MessageOracle::broken(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text_, sizeof text_, format, arguments);
  va_end(arguments);
  return text_;
}

const char* MessageOracle::sent(std::uint32_t from, std::uint32_t to, std::uint64_t index, int tag,
                                std::uint64_t context, std::uint64_t hash) {
  const auto [at, fresh] = messages_.insert({{from, to, index}, {tag, context, hash}});
  const Message& m = at->second;
  if (fresh || (m.tag == tag && m.context == context && m.hash == hash)) return nullptr;
  return broken("messages: rank %u sends rank %u another message %llu than before", from, to,
                static_cast<unsigned long long>(index));
}

const char* MessageOracle::given(std::uint32_t rank, std::uint64_t number, std::uint32_t from,
                                 std::uint64_t index, std::uint64_t hash, bool* again) {
  const auto at = static_cast<unsigned long long>(index);
  const auto n = static_cast<unsigned long long>(number);
  const Place place = {from, rank, index};
  const auto found = messages_.find(place);
  if (found == messages_.end()) {
    return broken(
        "messages: receive %llu of rank %u is given message %llu of rank %u, which was "
        "never sent",
        n, rank, at, from);
  }
  Message& m = found->second;
  if (m.hash != hash) {
    return broken(
        "messages: receive %llu of rank %u gets other bytes than message %llu of rank %u "
        "has",
        n, rank, at, from);
  }
  const auto [before, first] = receives_[rank].insert({number, place});
  *again = !first;
  if (before->second != place) {
    return broken(
        "messages: receive %llu of rank %u is given message %llu of rank %u, and was "
        "given another one before",
        n, rank, at, from);
  }
  if (m.given && m.receive != number) {
    return broken("messages: message %llu of rank %u is given to receives %llu and %llu of rank %u",
                  at, from, static_cast<unsigned long long>(m.receive), n, rank);
  }
  m.given = true;
  m.receive = number;
  // Messages of one tag do not overtake each other: later receives get later messages.
  auto& order = orders_[{from, rank, m.tag, m.context}];
  const auto here = order.insert({number, index}).first;
  const auto next = std::next(here);
  if ((here != order.begin() && std::prev(here)->second > index) ||
      (next != order.end() && next->second < index)) {
    return broken("messages: message %llu of rank %u overtakes one with the same tag to rank %u",
                  at, from, rank);
  }
  return nullptr;
}

const char* MessageOracle::told(std::uint32_t rank, std::uint64_t number, std::uint64_t answer) {
  const auto [then, first] = answers_[rank].insert({number, answer});
  if (first || then->second == answer) return nullptr;
  return broken("messages: question %llu of rank %u is answered otherwise than before",
                static_cast<unsigned long long>(number), rank);
}

std::uint64_t MessageOracle::count(std::uint32_t from, std::uint32_t to) const {
  const auto first = messages_.lower_bound({from, to, 0});
  const auto last = messages_.lower_bound({from, to + 1, 0});
  return static_cast<std::uint64_t>(std::distance(first, last));
}

std::uint64_t MessageOracle::left_over() const {
  std::uint64_t n = 0;
  for (const auto& [place, m] : messages_) n += !m.given;
  return n;
}

}  // namespace rejoin::sim
