// The command line: --kill, sizes, and whole command lines (words end with a NUL).
#include "launcher/base/grammar.h"

#include "fuzz.h"
#include "launcher/cli/options.h"

namespace {

using namespace rejoin::launcher;

void read_kill(std::string_view text) {
  const auto order = parse_kill(text);
  if (order.ok()) {
    const auto again = parse_kill(to_text(order.value()));
    REQUIRE(again.ok() && again.value() == order.value());
  } else {
    REQUIRE(order.error().exit_code == kExitUsage);
  }
}

void read_command_line(std::string_view text) {
  std::vector<std::string> words = {"ftrun"};
  while (!text.empty() && words.size() < 64) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  parse_command_line(static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data),
                              std::min<std::size_t>(size, 4096));
  read_kill(text);
  const auto bytes = parse_size_bytes(text);
  REQUIRE(!bytes.ok() || (bytes.value() > 0 && !size_text(bytes.value()).empty()));
  if (text.find('\0') != std::string_view::npos) read_command_line(text);
  return 0;
}

namespace rejoin::fuzz {

std::vector<std::string> seeds() {
  using std::string_literals::operator""s;
  return {"2@1000",
          "1@20.before#1",
          "0@init.after",
          "3@finalize",
          "512M",
          "4KiB",
          "-n\0"
          "4\0--kill\0"
          "1@5\0a.out\0-n\0"
          "2"s,
          "-np\0"
          "2\0--journal-limit=1G\0--timeout\0"
          "2.5\0-x\0A=b\0x"s,
          "--checkpoint-dir\0d\0--resume\0--libc-recording\0off\0--on-divergence\0warn\0x"s,
          "inspect\0file\0--rank\0"
          "2\0--limit\0"
          "10"s};
}

std::vector<std::string> words() {
  using std::string_literals::operator""s;
  return {"@",        "#",      ".before",   ".inside",
          ".after",   "init",   "finalize",  "18446744073709551615",
          "-n",       "-np",    "--kill",    "-x",
          "--events", "--keep", "--",        "--max-restarts",
          "\0"s,      "-wdir",  "inspect",   "--rank",
          "--limit",  "-h",     "--timeout", "4294967296"};
}

}  // namespace rejoin::fuzz
