// Measures packing by the plan of a datatype, beside a memcpy of as many bytes.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "datatypes/constructors.h"
#include "datatypes/copy.h"

namespace {

using namespace rejoin::datatypes;

const Memory kMemory = {[](std::size_t bytes) { return std::malloc(bytes); },
                        [](void* memory, std::size_t) { std::free(memory); }};

void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(bytes);
  std::vector<std::byte> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}

// Packs or unpacks every other block of `state.range(1)` bytes.
void vector(benchmark::State& state, bool unpacks) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto block = static_cast<std::size_t>(state.range(1));
  Type* byte = make_basic(kMemory, {1, 1, 1, 1, 1, External::kSame});
  Type* type =
      make_vector(kMemory, bytes / block, block, static_cast<std::int64_t>(2 * block), *byte);
  std::vector<std::byte> data(2 * bytes), packed(bytes);
  for (auto _ : state) {
    if (unpacks) {
      unpack(*type, packed.data(), bytes, data.data(), 1, 0);
    } else {
      pack(*type, data.data(), 1, 0, packed.data(), bytes);
    }
    benchmark::ClobberMemory();
  }
  report(state, bytes);
  destroy(kMemory, type);
  destroy(kMemory, byte);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int bytes : {1 << 12, 1 << 16, 1 << 22}) {
    for (const int block : {4, 8, 16, 48, 256}) b->Args({bytes / block * block, block});
  }
}
BENCHMARK(copy)->Arg(1 << 12)->Arg(1 << 16)->Arg(1 << 22);
BENCHMARK_CAPTURE(vector, pack, false)->Apply(sizes);
BENCHMARK_CAPTURE(vector, unpack, true)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
