// The iterations and the bootstrap phase call the same function from the same place. Only marked
// operations are answered by the bootstrap cache.
//
//   again [rounds=7] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
//
// There are 2 operations before LoadCheckPoint. After it there is 1 that is marked, in every
// incarnation, and at the program's beginning 1 that is not. A round has 2; every third, from the
// first one on, has 1 more.
#include "recover.h"

namespace {

using recover::Model;

// Returns at least 1, so that products of it never vanish.
double objective(double at, Model* model, bool is_bootstrap = false) {
  double value = at + rabit::GetRank();
  rabit::Allreduce<rabit::op::Sum>(&value, 1, nullptr, nullptr, is_bootstrap);
  const int n = rabit::GetWorldSize();
  rabit::utils::Check(value == n * at + n * (n - 1) / 2, "[%d] the objective at %g is %g",
                      rabit::GetRank(), at, value);
  model->take(&value, sizeof value);
  return value;
}

// Rank 0 broadcasts the length of a step, in round 0 from another line than later.
void choose_step(int round, Model* model) {
  double step = rabit::GetRank() == 0 ? 0.5 + round : 0;
  if (rabit::GetRank() != 0) {
    rabit::Broadcast(&step, sizeof step, 0);
  } else if (round == 0) {
    rabit::Broadcast(&step, sizeof step, 0);
  } else {
    rabit::Broadcast(&step, sizeof step, 0);
  }
  rabit::utils::Check(step == 0.5 + round, "[%d] round %d was told a step of %g", rabit::GetRank(),
                      round, step);
  model->take(&step, sizeof step);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = recover::argument(argc, argv, "rounds", 7);
  if (!rabit::Init(argc, argv)) return 1;
  Model bootstrap;
  const double scale = objective(1, &bootstrap) + objective(2, &bootstrap);
  Model model;
  const int version = rabit::LoadCheckPoint(&model);
  const double columns = objective(scale, &bootstrap, true);
  if (version == 0) {
    model.init(1, 1.0f);
    objective(scale + 1, &model);
  }
  for (int round = version; round < rounds; ++round) {
    recover::rest(argc, argv);
    if (round % 3 == 0) choose_step(round, &model);
    const double at = objective(model.data[0] + columns, &model);
    objective(at, &model);
    model.data[0] = static_cast<float>(round + 2) * 3;
    rabit::CheckPoint(&model);
  }
  model.take(&bootstrap.digest, sizeof bootstrap.digest);
  recover::print_final(model);
  return rabit::Finalize() ? 0 : 1;
}
