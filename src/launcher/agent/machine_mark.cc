#include "launcher/agent/machine_mark.h"

#define XXH_INLINE_ALL
#include <stdlib.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "launcher/base/file.h"
#include "launcher/base/grammar.h"

namespace rejoin::launcher {
namespace {

// Instruction set extensions by which user programs choose their code. /proc/cpuinfo also names
// features that only kernels use.
constexpr const char* kInstructions[] = {
    "fxsr",
    "sse",
    "sse2",
    "pni",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "popcnt",
    "abm",
    "aes",
    "pclmulqdq",
    "movbe",
    "cx16",
    "lahf_lm",
    "rdrand",
    "rdseed",
    "xsave",
    "xsaveopt",
    "xsavec",
    "avx",
    "f16c",
    "fma",
    "fma4",
    "xop",
    "avx2",
    "bmi1",
    "bmi2",
    "adx",
    "sha_ni",
    "erms",
    "fsrm",
    "clflushopt",
    "clwb",
    "rdpid",
    "fsgsbase",
    "rtm",
    "hle",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "avx512f",
    "avx512dq",
    "avx512cd",
    "avx512bw",
    "avx512vl",
    "avx512ifma",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_bitalg",
    "avx512_vpopcntdq",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vp2intersect",
    "avx_vnni",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "movdiri",
    "movdir64b",
    "serialize",
    "waitpkg",
    "pku",
    "rdtscp",
};

std::vector<std::string> features_here() {
  std::istringstream info(read_small_file("/proc/cpuinfo"));
  std::vector<std::string> found;
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) {
      const bool wanted = std::find(std::begin(kInstructions), std::end(kInstructions), word) !=
                          std::end(kInstructions);
      if (wanted) found.push_back(word);
    }
    break;
  }
  return found;
}

}  // namespace

MachineMark machine_mark() {
  MachineMark mark;
  mark.cpu_features = features_here();
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::istringstream maps(read_small_file("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t name = line.find("[v");
    if (name == std::string::npos || line.find("[vsyscall]") != std::string::npos) continue;
    char* end = nullptr;
    const std::uint64_t from = strtoull(line.c_str(), &end, 16);
    const std::uint64_t bytes = strtoull(end + 1, nullptr, 16) - from;
    XXH3_64bits_update(&state, line.data() + name, line.size() - name);
    XXH3_64bits_update(&state, &bytes, sizeof bytes);
    if (line.find("[vdso]") == std::string::npos) continue;
    XXH3_64bits_update(&state, reinterpret_cast<const void*>(from), bytes);
  }
  mark.vdso = hex_text(XXH3_64bits_digest(&state));
  return mark;
}

std::string lacking(const MachineMark& then, const MachineMark& here) {
  if (then.vdso != here.vdso) return "another kernel (its vdso differs)";
  for (const std::string& feature : then.cpu_features) {
    const bool there = std::find(here.cpu_features.begin(), here.cpu_features.end(), feature) !=
                       here.cpu_features.end();
    if (!there) return "the processor feature " + feature + ", which this one lacks";
  }
  return {};
}

}  // namespace rejoin::launcher
