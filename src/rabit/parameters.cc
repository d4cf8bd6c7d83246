#include "rabit/parameters.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <set>

namespace rabit::internal {
namespace {

std::optional<std::uint64_t> read_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> read_switch(std::string_view text) {
  const std::string word(text);
  if (word == "1" || strcasecmp(word.c_str(), "true") == 0) return true;
  if (word == "0" || strcasecmp(word.c_str(), "false") == 0) return false;
  return std::nullopt;
}

// Reads a size in bytes: 4096, 128K, 256MB, 1G.
std::optional<std::uint64_t> read_size(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = read_number(text.substr(0, digits));
  const std::string unit(text.substr(digits));
  static constexpr std::array<std::array<const char*, 2>, 4> kUnits = {
      {{"", "B"}, {"K", "KB"}, {"M", "MB"}, {"G", "GB"}}};
  for (std::size_t power = 0; number && power < kUnits.size(); ++power) {
    for (const char* name : kUnits[power]) {
      if (strcasecmp(unit.c_str(), name) != 0) continue;
      const unsigned shift = 10 * static_cast<unsigned>(power);
      if (*number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
      return *number << shift;
    }
  }
  return std::nullopt;
}

std::optional<Mock> read_mock(std::string_view text) {
  Mock mock{};
  const std::array<int*, 4> fields = {&mock.rank, &mock.version, &mock.seq, &mock.death};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t comma = text.find(',');
    const bool is_last = i + 1 == fields.size();
    if ((comma == text.npos) != is_last) return std::nullopt;
    const auto number = read_number(text.substr(0, comma));
    if (!number || *number > std::numeric_limits<int>::max()) return std::nullopt;
    *fields[i] = static_cast<int>(*number);
    if (!is_last) text.remove_prefix(comma + 1);
  }
  return mock;
}

// A parameter that is checked and has no effect.
struct CheckedOnly {
  std::string_view name;
  bool (*is_right)(std::string_view value);
  const char* expected;
};

bool is_anything(std::string_view) { return true; }
bool is_switch(std::string_view value) { return read_switch(value).has_value(); }
bool is_number(std::string_view value) { return read_number(value).has_value(); }
bool is_count(std::string_view value) { return read_number(value).value_or(0) >= 1; }
bool is_buffer_size(std::string_view value) { return read_size(value).value_or(0) >= 8; }

constexpr const char* kSwitchExpected = "0 or 1";
constexpr CheckedOnly kCheckedOnly[] = {
    {"rabit_task_id", is_anything, ""},
    {"rabit_reduce_buffer", is_buffer_size,
     "a size of at least 8 bytes, such as 1048576, 128M or 256MB"},
    {"rabit_global_replica", is_count, "a number of replicas, at least 1"},
    {"rabit_local_replica", is_count, "a number of replicas, at least 1"},
    {"rabit_bootstrap_cache", is_switch, kSwitchExpected},
    {"rabit_reduce_ring_mincount", is_number, "a number of elements"},
    {"rabit_timeout", is_switch, kSwitchExpected},
    {"rabit_timeout_sec", is_number, "a number of seconds"},
};

std::string wrong(std::string_view name, std::string_view value, const char* expected) {
  std::string text = "parameter ";
  return text.append(name).append("=").append(value).append(": expected ").append(expected);
}

}  // namespace

bool read_parameter(std::string_view name, std::string_view value, Parameters& parameters,
                    std::string& error) {
  if (name == "mock") {
    const auto mock = read_mock(value);
    if (!mock) {
      error = wrong(name, value, "RANK,VERSION,SEQ,NDEATH, four numbers such as 1,0,2,0");
    } else {
      parameters.mocks.push_back(*mock);
    }
    return true;
  }
  if (name == "rabit_debug") {
    const auto value_read = read_switch(value);
    if (!value_read) error = wrong(name, value, kSwitchExpected);
    parameters.debug = value_read.value_or(false);
    return true;
  }
  for (const CheckedOnly& known : kCheckedOnly) {
    if (known.name != name) continue;
    if (!known.is_right(value)) error = wrong(name, value, known.expected);
    return true;
  }
  return false;
}

std::optional<Parameters> read_parameters(int argc, const char* const* argv,
                                          const char* const* environment, std::string& error) {
  Parameters parameters;
  std::set<std::string_view> given;
  // The first argument is the program's name, unless the caller passes none.
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    if (equals == word.npos) continue;
    const std::string_view name = word.substr(0, equals);
    if (read_parameter(name, word.substr(equals + 1), parameters, error)) given.insert(name);
    if (!error.empty()) return std::nullopt;
  }
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view word = *environment;
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals == word.npos || given.contains(name)) continue;
    read_parameter(name, word.substr(equals + 1), parameters, error);
    if (!error.empty()) return std::nullopt;
  }
  std::sort(parameters.mocks.begin(), parameters.mocks.end());
  return parameters;
}

}  // namespace rabit::internal
