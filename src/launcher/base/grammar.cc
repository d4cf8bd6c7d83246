#include "launcher/base/grammar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <optional>
#include <sstream>
#include <utility>

namespace rejoin::launcher {
namespace {

// Parses all of `text` as a number; nothing if it is not one.
template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

std::optional<journal::Moment> moment_of(std::string_view word) {
  if (word == "before") return journal::Moment::kBefore;
  if (word == "inside") return journal::Moment::kInside;
  if (word == "after") return journal::Moment::kAfter;
  return {};
}

const char* name_of(journal::Moment moment) {
  switch (moment) {
    case journal::Moment::kBefore:
      return "before";
    case journal::Moment::kInside:
      return "inside";
    case journal::Moment::kAfter:
      return "after";
  }
  return "?";
}

Error bad_kill(std::string_view text, const std::string& why) {
  return {
      "--kill " + std::string(text) + ": " + why +
          "; give RANK@POINT[#INCARNATION], where POINT is the number of an operation (from 1), "
          "init or finalize, with an optional .before, .inside or .after (for example 2@1000, "
          "0@init.after, 1@20.before#1)",
      kExitUsage};
}

}  // namespace

Result<KillOrder> parse_kill(std::string_view text) {
  KillOrder order;
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return bad_kill(text, "there is no @");
  const auto rank = number<std::uint32_t>(text.substr(0, at));
  if (!rank) return bad_kill(text, "the rank in front of @ is not a number");
  order.rank = *rank;

  std::string_view point = text.substr(at + 1);
  if (const std::size_t hash = point.find('#'); hash != std::string_view::npos) {
    const auto incarnation = number<std::uint32_t>(point.substr(hash + 1));
    if (!incarnation) return bad_kill(text, "the incarnation after # is not a number");
    order.incarnation = *incarnation;
    point = point.substr(0, hash);
  }
  if (const std::size_t dot = point.find('.'); dot != std::string_view::npos) {
    const auto moment = moment_of(point.substr(dot + 1));
    if (!moment) return bad_kill(text, "the moment is not before, inside or after");
    order.moment = *moment;
    point = point.substr(0, dot);
  }
  if (point == "init") {
    order.kind = journal::PointKind::kInit;
  } else if (point == "finalize") {
    order.kind = journal::PointKind::kFinalize;
  } else {
    const auto ordinal = number<std::uint64_t>(point);
    if (!ordinal || *ordinal == 0) {
      return bad_kill(text, "the point is not a number from 1, init or finalize");
    }
    order.ordinal = *ordinal;
  }
  return order;
}

std::string to_text(const KillOrder& order) {
  std::string point = std::to_string(order.ordinal);
  if (order.kind == journal::PointKind::kInit) point = "init";
  if (order.kind == journal::PointKind::kFinalize) point = "finalize";
  return std::to_string(order.rank) + "@" + point + "." + name_of(order.moment) + "#" +
         std::to_string(order.incarnation);
}

Result<std::uint64_t> parse_number(const std::string& option, const std::string& text,
                                   const std::string& what, std::uint64_t least,
                                   std::uint64_t most) {
  const auto value = number<std::uint64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  return Error{option + " " + text + ": not a " + what + "; give a whole number from " +
                   std::to_string(least) + " to " + std::to_string(most),
               kExitUsage};
}

Result<std::uint64_t> parse_size_bytes(std::string_view text) {
  const Error bad{"\"" + std::string(text) +
                      "\" is not a size; give a whole number from 1, in bytes or with K, M, G or T "
                      "(for example 512M)",
                  kExitUsage};
  const std::size_t digits = text.find_first_not_of("0123456789");
  const auto count = number<std::uint64_t>(text.substr(0, digits));
  if (!count || *count == 0) return bad;
  std::string_view suffix = digits == std::string_view::npos ? "" : text.substr(digits);
  unsigned shift = 0;
  if (!suffix.empty()) {
    constexpr std::string_view kLetters = "kKmMgGtT";
    const std::size_t letter = kLetters.find(suffix[0]);
    if (letter != std::string_view::npos) {
      shift = static_cast<unsigned>(letter / 2 + 1) * 10;
      suffix.remove_prefix(1);
      if (!suffix.empty() && suffix[0] == 'i') suffix.remove_prefix(1);
    }
    if (!suffix.empty() && (suffix[0] == 'b' || suffix[0] == 'B')) suffix.remove_prefix(1);
    if (!suffix.empty()) return bad;
  }
  if (*count > (UINT64_MAX >> shift)) return bad;
  return *count << shift;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text,
                value < 10 && value != static_cast<int>(value) ? "%.1f %s" : "%.0f %s", value,
                kUnits[unit]);
  return text;
}

std::string communicator_text(std::uint64_t context, std::uint32_t rank) {
  if (context == journal::world_context()) return "MPI_COMM_WORLD";
  if (context == journal::self_context(rank)) return "MPI_COMM_SELF";
  return "communicator " + hex_text(context);
}

std::string hex_text(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string time_text(std::uint64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts = {};
  char text[32] = "?";
  if (localtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  }
  return text;
}

bool is_this_host(std::string_view name, std::string_view own_name) {
  return name == "localhost" || name == "127.0.0.1" || name == own_name ||
         name == own_name.substr(0, own_name.find('.'));
}

namespace {

// Returns HOST or HOST:N; nothing: it is neither.
std::optional<HostSlots> host_of(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  HostSlots host{std::string(text.substr(0, colon)), {}};
  // What a shell or ssh would take for something else is no name.
  const bool good = !host.name.empty() && host.name.front() != '-' &&
                    std::all_of(host.name.begin(), host.name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '@';
                    });
  if (!good) return {};
  if (colon == text.size()) return host;
  host.slots = number<std::uint32_t>(text.substr(colon + 1));
  return host.slots.value_or(0) == 0 ? std::nullopt : std::optional(host);
}

}  // namespace

std::optional<std::vector<HostSlots>> hosts_of_list(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    auto host = host_of(text.substr(0, comma));
    if (!host) return {};
    hosts.push_back(std::move(*host));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return hosts;
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::optional<std::vector<std::uint32_t>> tasks_of_slurm(std::string_view text) {
  constexpr std::string_view kTimes = "(x";
  std::vector<std::uint32_t> tasks;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    std::uint32_t times = 1;
    if (const std::size_t open = part.find(kTimes); open != std::string_view::npos) {
      if (!part.ends_with(')')) return {};
      const std::size_t from = open + kTimes.size();
      times = number<std::uint32_t>(part.substr(from, part.size() - from - 1)).value_or(0);
      part = part.substr(0, open);
    }
    const auto each = number<std::uint32_t>(part);
    if (each.value_or(0) == 0 || times == 0 || times > journal::kMaxRanks - tasks.size()) return {};
    tasks.insert(tasks.end(), times, *each);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return tasks;
}

namespace {

// Takes NAME=VALUE of a line of a host file. False: it is none that is known.
bool set_of_host(std::string_view setting, HostSlots& host) {
  // About processors, which --bind-to knows, or networks.
  constexpr std::string_view kIgnored[] = {"max_slots", "max-slots", "boards", "sockets",
                                           "cores",     "binding",   "ifname"};
  const std::size_t end = setting.find('=');
  if (end == setting.npos || end + 1 == setting.size()) return false;
  const std::string_view name = setting.substr(0, end), value = setting.substr(end + 1);
  if (name == "slots") {
    const bool is_new = !host.slots;
    host.slots = number<std::uint32_t>(value);
    return is_new && host.slots.value_or(0) > 0;
  }
  if (name == "user" || name == "username") {
    const bool is_new = host.name.find('@') == host.name.npos;
    host.name = std::string(value) + "@" + host.name;
    const auto again = host_of(host.name);
    return is_new && again && again->name == host.name;
  }
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}

}  // namespace

Result<std::vector<HostSlots>> hosts_of_file(std::string_view text) {
  std::vector<HostSlots> hosts;
  std::istringstream lines{std::string(text)};
  std::size_t number_of_line = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number_of_line;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    auto host = host_of(word);
    bool good = host.has_value();
    while (good && words >> word) good = set_of_host(word, *host);
    if (!good) {
      return Error{", line " + std::to_string(number_of_line) + ": \"" + one_line(line) +
                   "\" is not a host; write HOST, HOST:RANKS or HOST slots=RANKS"};
    }
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return Error{": names no host; write a line of HOST slots=RANKS for each"};
  return hosts;
}

}  // namespace rejoin::launcher
