// Runs a target over inputs that are found by mutation: those that reach new code (where the build
// says what is reached) are kept and changed further. The same seed gives the same inputs.
//
// The input that ended the process, by a sanitizer's report, a broken promise or after
// kInputLimitS, is written to ./NAME.found; `fuzz_NAME FILE` runs it again.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz.h"

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));
extern "C" const char* __asan_default_options() {
  // A larger allocation is reported, as if there were no more memory.
  return "max_allocation_size_mb=512:detect_leaks=0";
}

namespace rejoin::fuzz {
namespace {

constexpr unsigned kInputLimitS = 10;
constexpr std::size_t kMostKept = 4096;
constexpr std::size_t kMostBytes = 1 << 18;

using Clock = std::chrono::steady_clock;

struct Options {
  std::uint64_t runs = 100000;
  double seconds = 8;
  std::uint64_t seed = 1;
  std::vector<std::string> files;
};

std::string found_path;
std::string_view current;

// Only what a signal handler may call.
void save_input() {
  const int file = open(found_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, current.data(), current.size()) < 0) return;
  constexpr std::string_view kSaid = "fuzz: the input is in ";
  if (write(2, kSaid.data(), kSaid.size()) < 0) return;
  if (write(2, found_path.data(), found_path.size()) < 0 || write(2, "\n", 1) < 0) return;
}

void on_alarm(int) {
  constexpr std::string_view kSaid = "fuzz: no end of this input\n";
  if (write(2, kSaid.data(), kSaid.size()) > 0) save_input();
  _exit(1);
}

void on_death(int signal_number) {
  save_input();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(std::string_view input) {
  current = input;
  alarm(kInputLimitS);
  // A copy of its own, so that reading beyond it is seen.
  std::vector<std::uint8_t> data(input.begin(), input.end());
  LLVMFuzzerTestOneInput(data.data(), data.size());
  alarm(0);
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed), words_(words()) {}

  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }

  std::string mutated(std::string input, const std::string& other) {
    for (std::uint64_t changes = 1 + below(4); changes > 0; --changes) change(input, other);
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    return input;
  }

 private:
  void change(std::string& input, const std::string& other) {
    switch (below(9)) {
      case 0:
        if (!input.empty()) input[below(input.size())] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        if (!input.empty()) input[below(input.size())] = static_cast<char>(below(256));
        break;
      case 2:
      case 3:
        change_number(input);
        break;
      case 4:
        input.erase(below(input.size() + 1), 1 + below(16));
        break;
      case 5:
        input.insert(below(input.size() + 1), 1 + below(16), static_cast<char>(below(256)));
        break;
      case 6: {  // a piece of itself or of another input
        const std::string& from = below(2) == 0 ? input : other;
        const std::string piece = from.substr(below(from.size() + 1), 1 + below(64));
        place(input, piece);
        break;
      }
      case 7:
        if (!words_.empty()) place(input, words_[below(words_.size())]);
        break;
      case 8:
        input.resize(below(input.size() + 1));
        break;
    }
  }

  void place(std::string& input, const std::string& piece) {
    const std::size_t at = below(input.size() + 1);
    if (below(2) == 0) {
      input.insert(at, piece);
    } else {
      input.replace(at, piece.size(), piece);
    }
  }

  // A little-endian number of 2, 4 or 8 bytes, mostly where one would lie.
  void change_number(std::string& input) {
    const std::size_t bytes = std::size_t{2} << below(3);
    if (input.size() < bytes) return;
    std::size_t at = below(input.size() - bytes + 1);
    if (below(4) != 0) at = at / bytes * bytes;
    std::uint64_t number = 0;
    std::memcpy(&number, input.data() + at, bytes);
    switch (below(4)) {
      case 0:
        number += below(33) - 16;
        break;
      case 1:
        number = std::uint64_t{1} << below(64);
        break;
      case 2:
        number = ~std::uint64_t{0} - below(64);
        break;
      case 3:
        number = below(2) == 0 ? below(256) : below(input.size() + 1);
        break;
    }
    std::memcpy(input.data() + at, &number, bytes);
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

class Corpus {
 public:
  // Runs the input; keeps it if it reached something new.
  void add(const std::string& input) {
    const std::uint64_t before = places_reached;
    run(input);
    if (places_reached > before && kept_.size() < kMostKept) kept_.push_back(input);
  }
  void keep(const std::string& input) { kept_.push_back(input); }
  const std::string& any(Mutator& mutator) const { return kept_[mutator.below(kept_.size())]; }
  std::size_t size() const { return kept_.size(); }

 private:
  std::vector<std::string> kept_;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// Files, and all files in directories, by name.
std::vector<std::string> inputs_of(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) inputs.push_back(content_of(file));
  return inputs;
}

int fuzz(const Options& options) {
  Corpus corpus;
  for (const std::string& input : inputs_of(options.files)) corpus.add(input);
  for (const std::string& input : seeds()) {
    corpus.add(input);
    corpus.keep(input);
  }
  Mutator mutator(options.seed);
  const auto start = Clock::now();
  std::uint64_t runs = 0;
  double took_s = 0;
  while (runs < options.runs && took_s < options.seconds) {
    const std::string& first = corpus.any(mutator);
    corpus.add(mutator.mutated(first, corpus.any(mutator)));
    ++runs;
    took_s = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::printf("fuzz: %llu inputs in %.1f s, %zu kept, %llu places reached\n",
              static_cast<unsigned long long>(runs), took_s, corpus.size(),
              static_cast<unsigned long long>(places_reached));
  return 0;
}

template <class T>
bool parsed(const char* text, T& value) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc{} && at == end && at != text;
}

int usage() {
  std::fprintf(
      stderr,
      "usage: fuzz_NAME [--runs N] [--seconds S] [--seed N] [FILE...]\n"
      "Runs the FILEs (of a directory all), then mutations of them and of the seeds, until "
      "N inputs\nor S seconds are over. --runs 0: only the FILEs and the seeds.\n");
  return 2;
}

}  // namespace

void fail(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  std::abort();
}

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      options.files.emplace_back(word);
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    const bool good = word == "--runs"      ? parsed(value, options.runs)
                      : word == "--seconds" ? parsed(value, options.seconds)
                                            : word == "--seed" && parsed(value, options.seed);
    if (!good) return usage();
  }
  found_path = std::filesystem::path(argv[0]).filename().string() + ".found";
  signal(SIGALRM, on_alarm);
  signal(SIGABRT, on_death);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(save_input);
  } else {
    signal(SIGSEGV, on_death);
    signal(SIGBUS, on_death);
  }
  return fuzz(options);
}

}  // namespace rejoin::fuzz

int main(int argc, char** argv) { return rejoin::fuzz::main(argc, argv); }
