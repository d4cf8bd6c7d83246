// Rounds of Max, Broadcast and Sum with a global model and a local one.
//
//   local_recover [ndata=10000] [rounds=3] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
#include "recover.h"

namespace {

using recover::contribution;
using recover::Model;

// The local model of a rank is the global one plus the rank's number, so every rank can compute the
// expected results.
void follow(const Model& global, Model* local) {
  for (std::size_t i = 0; i < global.data.size(); ++i) {
    local->data[i] = global.data[i] + static_cast<float>(rabit::GetRank());
  }
  local->take(local->data);
}

// The prepare function computes the operation's input from the local model.
template <typename OP>
std::vector<float> reduce(const Model& local, int period) {
  std::vector<float> values(local.data.size());
  rabit::Allreduce<OP>(values.data(), values.size(), [&]() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = contribution(i, rabit::GetRank(), period) + local.data[i];
    }
  });
  return values;
}

void check(const Model& global, const std::vector<float>& values, bool is_sum, int period) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    double expected = 0;
    for (int r = 0; r < rabit::GetWorldSize(); ++r) {
      const double one = static_cast<double>(contribution(i, r, period)) + global.data[i] + r;
      expected = is_sum ? expected + one : std::max(expected, one);
    }
    rabit::utils::Check(recover::is_close(expected, values[i]),
                        "[%d] %s: element %zu is %g, not %g", rabit::GetRank(),
                        is_sum ? "Sum" : "Max", i, values[i], expected);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = static_cast<std::size_t>(recover::argument(argc, argv, "ndata", 10000));
  const int rounds = recover::argument(argc, argv, "rounds", 3);
  if (!rabit::Init(argc, argv)) return 1;
  Model global, local;
  const int version = rabit::LoadCheckPoint(&global, &local);
  if (version == 0) {
    global.init(size, 1.0f);
    local.init(size, 1.0f + static_cast<float>(rabit::GetRank()));
  }
  for (int round = version; round < rounds; ++round) {
    recover::rest(argc, argv);
    const std::vector<float> greatest = reduce<rabit::op::Max>(local, 111 + round);
    check(global, greatest, false, 111 + round);
    global.take(greatest);
    global.data = greatest;
    follow(global, &local);
    recover::broadcast_from_several(size, round, &global);
    const std::vector<float> sum = reduce<rabit::op::Sum>(local, 131 + round);
    check(global, sum, true, 131 + round);
    global.take(sum);
    for (std::size_t i = 0; i < size; ++i) global.data[i] = 0.125f * sum[i];
    follow(global, &local);
    rabit::CheckPoint(&global, &local);
  }
  // The local values, so that they are compared as well.
  std::uint64_t locals = local.digest;
  rabit::Allreduce<rabit::op::BitOR>(&locals, 1);
  global.take(&locals, sizeof locals);
  global.take(&local.digest, sizeof local.digest);
  recover::print_final(global);
  return rabit::Finalize() ? 0 : 1;
}
