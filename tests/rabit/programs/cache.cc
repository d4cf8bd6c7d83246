// A program with a bootstrap phase before and after it loads, in every incarnation. The other ranks
// are long past that phase when a restarted rank repeats it, so operations after the load are
// marked.
//
//   cache [rounds=5] [unmarked=1] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
//
// unmarked=1: no operation is marked, which ends a job of versions when a rank is restarted.
//
// There is 1 operation before LoadCheckPoint, and 4 between it and the first round. A round has 2.
#include "recover.h"

namespace {

using recover::Model;

constexpr int kBins = 64;

// Reduces, for the bootstrap phase and for the rounds.
void sum_all(std::vector<float>* values, bool is_bootstrap, const char* file = __builtin_FILE(),
             int line = __builtin_LINE(), const char* caller = __builtin_FUNCTION()) {
  rabit::Allreduce<rabit::op::Sum>(values->data(), values->size(), nullptr, nullptr, is_bootstrap,
                                   file, line, caller);
}

int count_columns() {
  int columns = 10 + rabit::GetRank();
  rabit::Allreduce<rabit::op::Max>(&columns, 1);
  rabit::utils::Check(columns == 9 + rabit::GetWorldSize(), "[%d] %d columns", rabit::GetRank(),
                      columns);
  return columns;
}

struct Histogram {
  std::vector<float> cuts;  // chosen by rank 0
  std::vector<float> rows;  // the number of all ranks' rows in each bin
};

Histogram make_histogram(int columns, int version, bool is_bootstrap) {
  Histogram histogram;
  if (rabit::GetRank() == 0) {
    for (int i = 0; i < columns; ++i) histogram.cuts.push_back(static_cast<float>(i) + 0.5f);
  }
  rabit::Broadcast(&histogram.cuts, 0, is_bootstrap);
  rabit::utils::Check(histogram.cuts.size() == static_cast<std::size_t>(columns) &&
                          histogram.cuts.back() == static_cast<float>(columns) - 0.5f,
                      "[%d] wrong cuts", rabit::GetRank());
  histogram.rows.resize(kBins);
  bool prepared = false;
  const auto prepare = [&]() {
    prepared = true;
    std::fill(histogram.rows.begin(), histogram.rows.end(),
              static_cast<float>(1 + rabit::GetRank()));
  };
  rabit::Allreduce<rabit::op::Sum>(histogram.rows.data(), histogram.rows.size(), prepare,
                                   is_bootstrap);
  rabit::utils::Check(version == 0 || !prepared, "[%d] the histogram was prepared at version %d",
                      rabit::GetRank(), version);
  std::vector<float> more(kBins, 2.0f);
  sum_all(&more, is_bootstrap);
  const int n = rabit::GetWorldSize();
  for (int i = 0; i < kBins; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    rabit::utils::Check(histogram.rows[at] == static_cast<float>(n * (n + 1) / 2) &&
                            more[at] == static_cast<float>(2 * n),
                        "[%d] wrong histogram", rabit::GetRank());
    histogram.rows[at] += more[at];
  }
  return histogram;
}

void do_round(int round, const Histogram& histogram, Model* model) {
  const int n = rabit::GetWorldSize();
  std::vector<float> gradient(kBins, static_cast<float>(rabit::GetRank() + round));
  sum_all(&gradient, false);
  float best = static_cast<float>((rabit::GetRank() * 5 + round) % n);
  rabit::Allreduce<rabit::op::Max>(&best, 1);
  const float expected = static_cast<float>(n * (n - 1) / 2 + n * round);
  rabit::utils::Check(gradient[kBins - 1] == expected && best < static_cast<float>(n),
                      "[%d] round %d: %g, not %g", rabit::GetRank(), round, gradient[kBins - 1],
                      expected);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    model->data[i] += best + gradient[i] * histogram.rows[i];
  }
  model->take(model->data);
  model->take(histogram.cuts);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = recover::argument(argc, argv, "rounds", 5);
  const bool unmarked = recover::argument(argc, argv, "unmarked", 0) != 0;
  if (!rabit::Init(argc, argv)) return 1;
  const int columns = count_columns();
  Model model;
  const int version = rabit::LoadCheckPoint(&model);
  if (version == 0) model.init(kBins, 0.0f);
  const Histogram histogram = make_histogram(columns, version, !unmarked);
  for (int round = version; round < rounds; ++round) {
    recover::rest(argc, argv);
    do_round(round, histogram, &model);
    rabit::CheckPoint(&model);
  }
  recover::print_final(model);
  return rabit::Finalize() ? 0 : 1;
}
