#include "launcher/agent/fault_report.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {
namespace {

constexpr std::size_t kMostFrames = 32;

enum class Owner { kProgram, kLibc, kRejoin, kNone };

std::string_view name_of(const journal::ModuleEntry& module) {
  const std::string_view path(module.path, strnlen(module.path, sizeof module.path));
  return path.substr(path.rfind('/') + 1);
}

Owner owner_of(const journal::ModuleEntry& module) {
  const std::string_view name = name_of(module);
  if (name == "?") return Owner::kNone;
  if (name.starts_with("libmpi.so") || name.starts_with("librejoin")) return Owner::kRejoin;
  return name.starts_with("libc.so") || name.starts_with("ld-linux") ? Owner::kLibc
                                                                     : Owner::kProgram;
}

struct Frame {
  std::uint64_t place;
  std::uint32_t module;  // index into FaultReport::modules
};

// Parses hexadecimal digits into `id`. Returns the number of bytes read.
std::uint32_t read_id(std::string_view text, std::uint8_t (&id)[20]) {
  std::uint32_t bytes = 0;
  for (; bytes < sizeof id && 2 * bytes + 2 <= text.size(); ++bytes) {
    unsigned value = 0;
    const std::string digits(text.substr(2 * std::size_t{bytes}, 2));
    if (std::sscanf(digits.c_str(), "%2x", &value) != 1) break;
    id[bytes] = static_cast<std::uint8_t>(value);
  }
  return bytes;
}

// Parses a line "PLACE BUILD-ID PATH".
bool read_frame(const std::string& line, FaultReport& report, std::vector<Frame>& frames) {
  unsigned long long place = 0;
  char id[64] = "";
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%llx %63s %n", &place, id, &path_at) != 2 || path_at == 0) {
    return false;
  }
  if (line[static_cast<std::size_t>(path_at)] == '\0') return false;
  journal::ModuleEntry module = {};
  module.build_id_bytes = read_id(id, module.build_id);
  const std::string path = line.substr(static_cast<std::size_t>(path_at));
  path.copy(module.path, sizeof module.path - 1);
  const auto known =
      std::find_if(report.modules.begin(), report.modules.end(),
                   [&](const journal::ModuleEntry& m) { return strcmp(m.path, module.path) == 0; });
  frames.push_back({place, static_cast<std::uint32_t>(known - report.modules.begin())});
  if (known == report.modules.end()) report.modules.push_back(module);
  return true;
}

// Removes the outermost frames, which run before main or before a thread's function: those of libc,
// and the program's entry code that calls libc.
void drop_callers_of_main(const FaultReport& report, std::vector<Frame>& frames) {
  const auto is_libc = [&](const Frame& f) {
    return owner_of(report.modules[f.module]) == Owner::kLibc;
  };
  std::size_t end = frames.size();
  if (end >= 3 && is_libc(frames[end - 2])) --end;
  while (end > 1 && is_libc(frames[end - 1])) --end;
  if (std::all_of(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(end), is_libc)) {
    return;
  }
  frames.resize(end);
}

std::string hexadecimal(unsigned long long value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", value);
  return text;
}

// Describes the fault from the kernel's si_code and address. Returns an empty string if they add
// nothing to the signal's name.
std::string text_of(int signal, int code, unsigned long long address,
                    unsigned long long stack_pointer) {
  constexpr unsigned long long kNear = 64 * 1024;
  const std::string name = "address " + hexadecimal(address);
  if (signal == SIGSEGV && code == SEGV_MAPERR) {
    // An unmapped address next to the stack pointer means that the stack has reached its limit.
    const bool is_stack = address + kNear > stack_pointer && address < stack_pointer + kNear;
    return is_stack ? "the stack is full (ulimit -s)" : name + " is not mapped";
  }
  if (signal == SIGSEGV && code == SEGV_ACCERR) return name + " does not allow this access";
  if (signal == SIGSEGV && code > 0) return "an invalid (non-canonical) address";
  if (signal == SIGBUS && code == BUS_ADRERR) return name + " is beyond the end of its mapped file";
  if (signal == SIGBUS && code == BUS_ADRALN) return name + " is not aligned";
  if (signal == SIGBUS && code > 0) return name;
  if (signal == SIGFPE && code == FPE_INTDIV) return "an integer was divided by zero";
  if (signal == SIGFPE && code == FPE_FLTDIV) return "a floating-point number was divided by zero";
  if (signal == SIGFPE && code == FPE_FLTINV) return "an invalid floating-point operation";
  if (signal == SIGFPE && code == FPE_FLTOVF) return "a floating-point overflow";
  return {};
}

// Lists the places of the innermost `count` frames: "libmpi.so.40 +0x1f2 +0x80".
std::string places(const FaultReport& report, const std::vector<Frame>& frames, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || frames[i].module != frames[i - 1].module) {
      if (i > 0) text += ", ";
      text += name_of(report.modules[frames[i].module]);
    }
    text += " +" + hexadecimal(frames[i].place - 1);
  }
  return text;
}

}  // namespace

FaultReport fault_report(std::uint32_t rank, const wire::Message& message) {
  FaultReport report;
  report.signal = message.code;
  const std::string text(message.text, std::min(message.text_bytes, wire::kMaxText));
  int code = 0;
  unsigned long long address = 0, stack_pointer = 0;
  if (std::sscanf(text.c_str(), "%d %llx %llx", &code, &address, &stack_pointer) != 3) {
    return report;
  }
  std::vector<Frame> frames;
  for (std::size_t at = text.find('\n'); at != std::string::npos && frames.size() < kMostFrames;) {
    const std::size_t end = text.find('\n', at + 1);
    if (!read_frame(text.substr(at + 1, end == std::string::npos ? end : end - at - 1), report,
                    frames)) {
      break;
    }
    at = end;
  }
  if (frames.empty()) return report;
  drop_callers_of_main(report, frames);
  report.fault.text = text_of(report.signal, code, address, stack_pointer);
  const auto site = [&](const Frame& f) {
    if (owner_of(report.modules[f.module]) == Owner::kNone) {
      return hexadecimal(f.place - 1) + " (in no file)";
    }
    return site_marker(rank, kFirstFaultModule + f.module, f.place);
  };
  const auto owner = [&](const Frame& f) { return owner_of(report.modules[f.module]); };
  const auto blamed = std::find_if(frames.begin(), frames.end(),
                                   [&](const Frame& f) { return owner(f) == Owner::kProgram; });
  report.fault.site = site(blamed == frames.end() ? frames.front() : *blamed);
  for (std::size_t i = 0; i < frames.size();) {
    std::size_t end = i;
    while (end < frames.size() && owner(frames[end]) == Owner::kRejoin) ++end;
    const std::string number = "#" + std::to_string(i);
    if (end == i) {
      report.fault.stack.push_back(number + " " + site(frames[i]));
      ++i;
    } else {
      std::string line = number + (end == i + 1 ? "" : " to #" + std::to_string(end - 1));
      line += " in Rejoin";
      // The fault is in Rejoin's code, perhaps by its own mistake: these places find it.
      if (i == 0) line += " (" + places(report, frames, end) + ")";
      report.fault.stack.push_back(std::move(line));
      i = end;
    }
  }
  return report;
}

}  // namespace rejoin::launcher
