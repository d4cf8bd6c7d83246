// Measures the reduction kernels alone: bytes of the vector that are combined in a second.
#include "engine/kernels.h"

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

namespace {

using rejoin::engine::Element;
using rejoin::engine::Operator;

void combine(benchmark::State& state, Operator op, Element element) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> left(bytes), right(bytes);
  std::vector<std::byte> result(bytes);
  const rejoin::engine::Reduction reduction = {rejoin::engine::kernel_for(op, element),
                                               rejoin::engine::element_bytes(element), false,
                                               nullptr};
  for (auto _ : state) {
    reduction.combine(reduction, left.data(), right.data(), result.data(),
                      bytes / reduction.element_bytes);
    benchmark::DoNotOptimize(result.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(16)->Arg(1 << 12)->Arg(1 << 17)->Arg(1 << 24);
}

#define KERNEL(op, element) \
  BENCHMARK_CAPTURE(combine, op##_##element, Operator::op, Element::element)->Apply(sizes)
KERNEL(kSum, kDouble);
KERNEL(kSum, kFloat);
KERNEL(kSum, kInt32);
KERNEL(kMax, kDouble);
KERNEL(kProd, kInt64);
KERNEL(kSum, kComplexDouble);
KERNEL(kProd, kComplexDouble);
KERNEL(kLand, kInt32);
KERNEL(kBxor, kUint64);
KERNEL(kMaxloc, kDoubleInt);
KERNEL(kSum, kLongDouble);

}  // namespace

BENCHMARK_MAIN();
