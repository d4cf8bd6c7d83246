#include "launcher/agent/stacks.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace rejoin::launcher {
namespace {

struct Frame {
  std::string name;    // or the address
  std::string module;  // "libc.so.6"; empty: not known
  std::string place;   // "solver.c:12"; likewise
};

std::string base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

// Removes the last `mark` and the text after it from `text`. Returns the text after it.
std::string cut_behind(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = text.substr(at + mark.size());
  text = text.substr(0, at);
  return std::string(behind);
}

// "void f<int>(long)" -> "void f<int>": up to the parenthesis that opens the arguments.
std::string_view without_arguments(std::string_view name) {
  int depth = 0;
  for (std::size_t i = 1; i < name.size(); ++i) {
    const std::string_view before = name.substr(0, i), rest = name.substr(i);
    if (before.ends_with("operator")) {  // operator(), operator<, operator->
      i += rest.starts_with("()") ? 1 : rest.starts_with("<<") || rest.starts_with(">>") ? 1 : 0;
      continue;
    }
    if (name[i] == '<' || name[i] == '{') ++depth;
    if ((name[i] == '>' && name[i - 1] != '-') || name[i] == '}') --depth;
    if (name[i] != '(' || depth > 0 || rest.starts_with("(anonymous namespace)")) continue;
    return name.substr(0, name[i - 1] == ' ' ? i - 1 : i);
  }
  return name;
}

// The address ranges of libraries in a process.
class Modules {
 public:
  explicit Modules(std::string_view maps) {
    while (!maps.empty()) {
      const std::string line(maps.substr(0, maps.find('\n')));
      maps.remove_prefix(std::min(line.size() + 1, maps.size()));
      Range range = {};
      const std::size_t path = line.find('/');
      if (path == std::string::npos ||
          std::sscanf(line.c_str(), "%llx-%llx", &range.begin, &range.end) != 2) {
        continue;
      }
      range.module = base_name(line);
      ranges_.push_back(std::move(range));
    }
  }
  std::string at(const std::string& address) const {
    const unsigned long long place = std::strtoull(address.c_str(), nullptr, 16);
    for (const Range& range : ranges_) {
      if (range.begin <= place && place < range.end) return range.module;
    }
    return {};
  }

 private:
  struct Range {
    unsigned long long begin, end;
    std::string module;
  };
  std::vector<Range> ranges_;
};

// "#3  0x000055d0 main - /home/u/a.out", "#3  0x000055d0 in main (argc=1) at a.c:3".
std::optional<Frame> parse_frame(std::string_view line, const Modules& modules) {
  if (line.size() < 2 || line[0] != '#' || std::isdigit(static_cast<unsigned char>(line[1])) == 0) {
    return {};
  }
  line.remove_prefix(std::min(line.find(' '), line.size()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  Frame frame;
  std::string address;
  if (line.starts_with("0x")) {
    address = line.substr(0, line.find(' '));
    line.remove_prefix(address.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("in ")) line.remove_prefix(3);
  }
  if (line.starts_with("- ")) {  // of eu-stack, without a name
    frame.module = base_name(line.substr(2));
    line = {};
  } else if (std::string place = cut_behind(line, ") at "); !place.empty()) {  // of gdb
    frame.place = base_name(place);
  } else if (std::string module = cut_behind(line, ") from "); !module.empty()) {
    frame.module = base_name(module);
  } else {
    frame.module = base_name(cut_behind(line, " - "));
  }
  frame.name = without_arguments(line);
  if (frame.module.empty()) frame.module = modules.at(address);
  // Addresses differ from rank to rank, so they are shown only if nothing else is known of a frame.
  if (frame.name.empty() || frame.name == "??") frame.name = frame.module.empty() ? address : "??";
  if (frame.name.empty()) return {};
  return frame;
}

bool is_ours(const Frame& f) {
  return f.module.starts_with("libmpi.so") || f.module.starts_with("librejoin") ||
         f.name.find("rejoin::") != std::string::npos || f.name.starts_with("PMPI_");
}

bool calls_main(const Frame& f) {
  return f.name.starts_with("__libc_start") || f.name == "_start" || f.name == "start_thread" ||
         f.name.starts_with("clone3") || f.name == "__clone3";
}

std::string text_of(const Frame& f) {
  const std::string& where = f.place.empty() ? f.module : f.place;
  return f.name + (where.empty() ? "" : " (" + where + ")");
}

// Functions that our library calls to wait and to copy.
bool is_leaf(const Frame& f) { return f.name == "syscall" || f.module.starts_with("libc.so"); }

void put_frames(const std::vector<Frame>& frames, std::vector<std::string>* lines) {
  constexpr std::size_t kMostLeaves = 2;
  std::size_t end = frames.size();
  while (end > 0 && calls_main(frames[end - 1])) --end;
  for (std::size_t i = 0; i < end;) {
    std::size_t behind = i;
    while (i == 0 && behind < std::min(end, kMostLeaves) && is_leaf(frames[behind])) ++behind;
    const std::size_t first = behind;
    while (behind < end && is_ours(frames[behind])) ++behind;
    const std::string number = "#" + std::to_string(i);
    if (behind == first) {
      lines->push_back(number + " " + text_of(frames[i]));
      ++i;
    } else {
      const bool one = behind == i + 1;
      lines->push_back(number + (one ? "" : " to #" + std::to_string(behind - 1)) + " in Rejoin");
      i = behind;
    }
  }
}

}  // namespace

std::vector<std::string> short_stack(std::string_view debugger_output, std::string_view maps) {
  const Modules modules(maps);
  std::vector<std::vector<Frame>> threads;
  std::vector<std::string> lines;  // Python's frames come first
  while (!debugger_output.empty()) {
    const std::size_t end = std::min(debugger_output.find('\n'), debugger_output.size());
    const std::string_view line = debugger_output.substr(0, end);
    debugger_output.remove_prefix(std::min(end + 1, debugger_output.size()));
    if (line.starts_with("Thread ") || line.starts_with("TID ")) {
      threads.emplace_back();
    } else if (line.starts_with("  File \"")) {
      lines.emplace_back(line.substr(2));
    } else if (auto frame = parse_frame(line, modules); frame) {
      if (threads.empty()) threads.emplace_back();
      threads.back().push_back(std::move(*frame));
    }
  }
  unsigned number = 0;
  for (const std::vector<Frame>& thread : threads) {
    if (threads.size() > 1) lines.push_back("thread " + std::to_string(++number));
    put_frames(thread, &lines);
  }
  return lines;
}

}  // namespace rejoin::launcher
