// Gradient boosting of decision stumps over rows that are spread over the ranks, in the style of
// users of the ancestor: everything is made when it is first used, nothing is marked, the set-up
// and the rounds use one wrapper, rank 0 broadcasts from another line than the others, and
// checkpoints are lazy.
//
//   boost [rounds=100] [rows=4000] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
//
// Rank 0 prints its error in some of the rounds, and every rank prints the whole model's digest at
// the end. A process that loads a model computes the margins of its rows from it.
#include <rabit/rabit.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recover.h"

namespace {

constexpr std::size_t kColumns = 12;
constexpr std::size_t kBins = 32;
constexpr int kReportEvery = 10;
constexpr int kFirstValidation = 15;

// --- Communication. Callers' lines are not passed on, so each operation has one line.

template <typename OP, typename T>
void reduce(std::vector<T>* values) {
  rabit::Allreduce<OP>(values->data(), values->size());
}

template <typename T>
void from_root(std::vector<T>* values) {
  std::uint64_t size = values->size();
  if (rabit::GetRank() == 0) {
    rabit::Broadcast(&size, sizeof size, 0);
    if (size != 0) rabit::Broadcast(values->data(), size * sizeof(T), 0);
    return;
  }
  rabit::Broadcast(&size, sizeof size, 0);
  values->resize(size);
  if (size != 0) rabit::Broadcast(values->data(), size * sizeof(T), 0);
}

// --- Data

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }

 private:
  std::uint64_t state_;
};

struct Rows {
  std::vector<float> values;  // by column
  std::vector<float> labels;
  std::size_t count;

  Rows(std::size_t size, std::uint64_t seed) : values(size * kColumns), labels(size), count(size) {
    Random random(seed);
    for (std::size_t row = 0; row < size; ++row) {
      double score = -0.4;
      for (std::size_t column = 0; column < kColumns; ++column) {
        const double value = random.next() * static_cast<double>(column + 1);
        values[column * size + row] = static_cast<float>(value);
        const double part = value / static_cast<double>(column + 1);
        score += (column % 3 == 0 ? part - 0.5 : column % 3 == 1 ? 0.5 - part * part : 0) * 3;
      }
      labels[row] = random.next() < 1 / (1 + std::exp(-score)) ? 1.0f : 0.0f;
    }
  }
  float at(std::size_t column, std::size_t row) const { return values[column * count + row]; }
};

// --- Model

struct Stump {
  std::uint32_t column;
  float cut, low, high;
};

struct Model : rabit::Serializable {
  std::vector<Stump> stumps;
  double base = 0;
  void Load(rabit::Stream* from) override {
    from->Read(&base, sizeof base);
    from->Read(&stumps);
  }
  void Save(rabit::Stream* to) const override {
    to->Write(&base, sizeof base);
    to->Write(stumps);
  }
  std::uint64_t digest() const {
    recover::Model digest;
    digest.take(&base, sizeof base);
    digest.take(stumps);
    return digest.digest;
  }
};

float value_of(const Stump& stump, const Rows& rows, std::size_t row) {
  return rows.at(stump.column, row) < stump.cut ? stump.low : stump.high;
}

// --- Data that is made when it is first used

// The places at which columns are cut. Rank 0 chooses them between the least and the greatest value
// of all ranks' rows.
struct Cuts {
  std::vector<float> at;  // kBins - 1 for each column

  explicit Cuts(const Rows& rows) {
    std::vector<float> least(kColumns), greatest(kColumns);
    for (std::size_t column = 0; column < kColumns; ++column) {
      const auto begin = rows.values.begin() + static_cast<std::ptrdiff_t>(column * rows.count);
      const auto both = std::minmax_element(begin, begin + static_cast<std::ptrdiff_t>(rows.count));
      least[column] = *both.first;
      greatest[column] = *both.second;
    }
    reduce<rabit::op::Min>(&least);
    reduce<rabit::op::Max>(&greatest);
    if (rabit::GetRank() == 0) {
      for (std::size_t column = 0; column < kColumns; ++column) {
        for (std::size_t bin = 1; bin < kBins; ++bin) {
          at.push_back(least[column] + (greatest[column] - least[column]) *
                                           static_cast<float>(bin) / static_cast<float>(kBins));
        }
      }
    }
    from_root(&at);
  }
};

// The bin of every value.
struct Binned {
  std::vector<std::uint8_t> bins;

  Binned(const Rows& rows, const Cuts& cuts) : bins(rows.values.size()) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      const auto first = cuts.at.begin() + static_cast<std::ptrdiff_t>(column * (kBins - 1));
      const auto last = first + static_cast<std::ptrdiff_t>(kBins - 1);
      for (std::size_t row = 0; row < rows.count; ++row) {
        bins[column * rows.count + row] =
            static_cast<std::uint8_t>(std::upper_bound(first, last, rows.at(column, row)) - first);
      }
    }
  }
};

struct Validation {
  Rows rows;
  std::vector<double> margins;
  double total_rows;

  explicit Validation(std::size_t size)
      : rows(size / 4, 1000 + static_cast<std::uint64_t>(rabit::GetRank())), margins(rows.count) {
    std::vector<double> count(1, static_cast<double>(rows.count));
    reduce<rabit::op::Sum>(&count);
    total_rows = count[0];
  }
};

class Learner {
 public:
  Learner(std::size_t size, Model* model)
      : size_(size),
        rows_(size, static_cast<std::uint64_t>(rabit::GetRank())),
        margins_(size),
        model_(model) {}

  void round() {
    if (!cuts_) cuts_.reset(new Cuts(rows_));
    if (!binned_) binned_.reset(new Binned(rows_, *cuts_));
    if (model_->stumps.empty()) choose_base();
    follow(rows_, &margins_, &margins_follow_);
    const Stump best = best_split(histogram());
    std::vector<Stump> chosen;
    if (rabit::GetRank() == 0) chosen.push_back(best);
    from_root(&chosen);
    model_->stumps.push_back(chosen.at(0));
  }

  void report(int round) {
    follow(rows_, &margins_, &margins_follow_);
    std::vector<double> loss(2);
    loss[0] = loss_of(rows_, margins_);
    loss[1] = static_cast<double>(rows_.count);
    reduce<rabit::op::Sum>(&loss);
    double validated = 0;
    if (round >= kFirstValidation) {
      if (!validation_) validation_.reset(new Validation(size_));
      follow(validation_->rows, &validation_->margins, &validation_follows_);
      std::vector<double> of_all(1, loss_of(validation_->rows, validation_->margins));
      reduce<rabit::op::Sum>(&of_all);
      validated = of_all[0] / validation_->total_rows;
    }
    if (rabit::GetRank() == 0) {
      std::printf("round %d: loss %.12f, validated %.12f\n", round, loss[0] / loss[1], validated);
      std::fflush(stdout);
    }
  }

 private:
  struct Cell {
    double gradient, hessian;
  };

  void choose_base() {
    std::vector<double> sums(2);
    for (float label : rows_.labels) sums[0] += static_cast<double>(label);
    sums[1] = static_cast<double>(rows_.count);
    reduce<rabit::op::Sum>(&sums);
    model_->base = std::log(sums[0] / (sums[1] - sums[0]));
  }

  // Adds the values of the model's newest stumps to the margins of the rows.
  void follow(const Rows& rows, std::vector<double>* margins, std::size_t* done) const {
    for (; *done < model_->stumps.size(); ++*done) {
      const Stump& stump = model_->stumps[*done];
      for (std::size_t row = 0; row < rows.count; ++row) {
        (*margins)[row] += static_cast<double>(value_of(stump, rows, row));
      }
    }
  }

  std::vector<Cell> histogram() const {
    std::vector<double> sums(2 * kColumns * kBins);
    for (std::size_t row = 0; row < rows_.count; ++row) {
      const double p = 1 / (1 + std::exp(-model_->base - margins_[row]));
      const double gradient = p - static_cast<double>(rows_.labels[row]), hessian = p * (1 - p);
      for (std::size_t column = 0; column < kColumns; ++column) {
        const std::size_t cell = column * kBins + binned_->bins[column * rows_.count + row];
        sums[2 * cell] += gradient;
        sums[2 * cell + 1] += hessian;
      }
    }
    reduce<rabit::op::Sum>(&sums);
    std::vector<Cell> cells(kColumns * kBins);
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = {sums[2 * i], sums[2 * i + 1]};
    return cells;
  }

  Stump best_split(const std::vector<Cell>& cells) const {
    Stump best = {0, 0, 0, 0};
    double best_gain = -1;
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      const Cell* bins = &cells[column * kBins];
      Cell all = {0, 0}, low = {0, 0};
      for (std::size_t bin = 0; bin < kBins; ++bin) {
        all = {all.gradient + bins[bin].gradient, all.hessian + bins[bin].hessian};
      }
      for (std::size_t bin = 0; bin + 1 < kBins; ++bin) {
        low = {low.gradient + bins[bin].gradient, low.hessian + bins[bin].hessian};
        const Cell high = {all.gradient - low.gradient, all.hessian - low.hessian};
        const double gain = low.gradient * low.gradient / (low.hessian + 1) +
                            high.gradient * high.gradient / (high.hessian + 1);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = {column, cuts_->at[column * (kBins - 1) + bin],
                static_cast<float>(-0.3 * low.gradient / (low.hessian + 1)),
                static_cast<float>(-0.3 * high.gradient / (high.hessian + 1))};
      }
    }
    return best;
  }

  double loss_of(const Rows& rows, const std::vector<double>& margins) const {
    double loss = 0;
    for (std::size_t row = 0; row < rows.count; ++row) {
      const double margin = model_->base + margins[row];
      loss += std::log1p(std::exp(rows.labels[row] > 0.5f ? -margin : margin));
    }
    return loss;
  }

  std::size_t size_;
  Rows rows_;
  std::vector<double> margins_;
  std::size_t margins_follow_ = 0;
  Model* model_;
  std::unique_ptr<Cuts> cuts_;
  std::unique_ptr<Binned> binned_;
  std::unique_ptr<Validation> validation_;
  std::size_t validation_follows_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = recover::argument(argc, argv, "rounds", 100);
  const std::size_t size = static_cast<std::size_t>(recover::argument(argc, argv, "rows", 4000));
  if (!rabit::Init(argc, argv)) return 1;
  Model model;
  const int version = rabit::LoadCheckPoint(&model);
  Learner learner(size, &model);
  for (int round = version; round < rounds; ++round) {
    learner.round();
    if (round % kReportEvery == 0) learner.report(round);
    recover::rest(argc, argv);
    rabit::LazyCheckPoint(&model);
  }
  std::printf("[%d] version %d, %zu stumps, digest %016llx\n", rabit::GetRank(),
              rabit::VersionNumber(), model.stumps.size(),
              static_cast<unsigned long long>(model.digest()));
  std::fflush(stdout);
  return rabit::Finalize() ? 0 : 1;
}
