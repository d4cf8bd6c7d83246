// Rounds of Max, Allgather, Broadcast and Sum with a global model.
//
//   model_recover [ndata=10000] [rounds=3] [lazy=0] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
//
// lazy=1: LazyCheckPoint. The model changes only between the last operation of a round and that
// call.
#include "recover.h"

namespace {

using recover::contribution;
using recover::Model;

std::vector<float> contribute(const Model& model, int rank, int period) {
  std::vector<float> values(model.data.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = contribution(i, rank, period) + model.data[i];
  }
  return values;
}

std::vector<float> do_max(const Model& model, int round) {
  const int period = 111 + round;
  std::vector<float> values = contribute(model, rabit::GetRank(), period);
  rabit::Allreduce<rabit::op::Max>(values.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    float expected = 0;
    for (int r = 0; r < rabit::GetWorldSize(); ++r) {
      expected = std::max(expected, contribution(i, r, period) + model.data[i]);
    }
    rabit::utils::Check(values[i] == expected, "[%d] Max in round %d: element %zu is %g, not %g",
                        rabit::GetRank(), round, i, values[i], expected);
  }
  return values;
}

std::vector<float> do_sum(const Model& model, int round) {
  const int period = 131 + round;
  std::vector<float> values = contribute(model, rabit::GetRank(), period);
  rabit::Allreduce<rabit::op::Sum>(values.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double expected = static_cast<double>(model.data[i]) * rabit::GetWorldSize();
    for (int r = 0; r < rabit::GetWorldSize(); ++r) expected += contribution(i, r, period);
    rabit::utils::Check(recover::is_close(expected, values[i]),
                        "[%d] Sum in round %d: element %zu is %g, not %g", rabit::GetRank(), round,
                        i, values[i], expected);
  }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t size = static_cast<std::size_t>(recover::argument(argc, argv, "ndata", 10000));
  const int rounds = recover::argument(argc, argv, "rounds", 3);
  const bool lazy = recover::argument(argc, argv, "lazy", 0) != 0;
  if (!rabit::Init(argc, argv)) return 1;
  Model model;
  const int version = rabit::LoadCheckPoint(&model);
  if (version == 0) model.init(size, 1.0f);
  rabit::utils::Check(model.data.size() == size, "version %d has %zu elements", version,
                      model.data.size());
  for (int round = version; round < rounds; ++round) {
    recover::rest(argc, argv);
    Model next = model;
    const std::vector<float> greatest = do_max(model, round);
    next.take(greatest);
    recover::allgather(size, round, &next);
    recover::broadcast_from_several(size, round, &next);
    const std::vector<float> sum = do_sum(model, round);
    next.take(sum);
    for (std::size_t i = 0; i < size; ++i) next.data[i] = greatest[i] + 0.125f * sum[i];
    model = next;
    lazy ? rabit::LazyCheckPoint(&model) : rabit::CheckPoint(&model);
  }
  recover::print_final(model);
  return rabit::Finalize() ? 0 : 1;
}
