// Every operator with every element type, user-defined reductions, and empty operations.
//
//   kinds [rounds=2] [mock=RANK,VERSION,SEQ,NDEATH...]
#include "recover.h"

namespace {

using recover::Model;

constexpr std::size_t kCount = 1000;

// Returns a value that is small enough for a sum over many ranks in a char.
template <typename T>
T value(std::size_t i, int rank, int round) {
  return static_cast<T>((i + static_cast<std::size_t>(rank + round)) % 5);
}

template <typename OP, typename T, typename Combine>
void check_one(const char* name, int round, Combine combine, Model* model) {
  std::vector<T> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = value<T>(i, rabit::GetRank(), round);
  rabit::Allreduce<OP>(values.data(), values.size());
  for (std::size_t i = 0; i < kCount; ++i) {
    T expected = value<T>(i, 0, round);
    for (int r = 1; r < rabit::GetWorldSize(); ++r) {
      expected = static_cast<T>(combine(expected, value<T>(i, r, round)));
    }
    rabit::utils::Check(values[i] == expected, "[%d] %s of elements of %zu bytes: element %zu",
                        rabit::GetRank(), name, sizeof(T), i);
  }
  model->take(values);
}

template <typename T>
void check_ordered(int round, Model* model) {
  check_one<rabit::op::Max, T>(
      "Max", round, [](T a, T b) { return std::max(a, b); }, model);
  check_one<rabit::op::Min, T>(
      "Min", round, [](T a, T b) { return std::min(a, b); }, model);
  check_one<rabit::op::Sum, T>(
      "Sum", round, [](T a, T b) { return a + b; }, model);
}

template <typename T>
void check_integer(int round, Model* model) {
  check_ordered<T>(round, model);
  check_one<rabit::op::BitOR, T>(
      "BitOR", round, [](T a, T b) { return a | b; }, model);
}

struct Extreme {
  double value;
  int rank;
  char tag[4];
};

void keep_greater(Extreme& kept, const Extreme& other) {
  if (other.value > kept.value || (other.value == kept.value && other.rank < kept.rank)) {
    kept = other;
  }
}

void check_reducer(int round, Model* model) {
  rabit::Reducer<Extreme, keep_greater> reducer;
  std::vector<Extreme> extremes(kCount);
  const int n = rabit::GetWorldSize();
  reducer.Allreduce(extremes.data(), extremes.size(), [&]() {
    for (std::size_t i = 0; i < kCount; ++i) {
      std::memset(&extremes[i], 0, sizeof(Extreme));
      extremes[i].value = static_cast<double>((static_cast<int>(i) + rabit::GetRank() + round) % n);
      extremes[i].rank = rabit::GetRank();
      std::memcpy(extremes[i].tag, "abc", 4);
    }
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    const int rank = ((n - 1 - static_cast<int>(i) - round) % n + n) % n;
    rabit::utils::Check(extremes[i].value == n - 1 && extremes[i].rank == rank &&
                            std::strcmp(extremes[i].tag, "abc") == 0,
                        "[%d] Reducer: element %zu is %g of rank %d, not of %d", rabit::GetRank(),
                        i, extremes[i].value, extremes[i].rank, rank);
  }
  model->take(extremes);
}

// A set of ranks, as a list of any length.
struct Seen {
  std::vector<int> ranks;
  template <typename TStream>
  void Save(TStream& to) const {
    static_cast<rabit::Stream&>(to).Write(ranks);
  }
  template <typename TStream>
  void Load(TStream& from) {
    static_cast<rabit::Stream&>(from).Read(&ranks);
  }
  void Reduce(const Seen& other, std::size_t max_nbyte) {
    ranks.insert(ranks.end(), other.ranks.begin(), other.ranks.end());
    std::sort(ranks.begin(), ranks.end());
    rabit::utils::Check(8 + 4 * ranks.size() <= max_nbyte, "too many ranks were seen");
  }
};

void check_serialize_reducer(Model* model) {
  rabit::SerializeReducer<Seen> reducer;
  std::vector<Seen> seen(7);
  for (Seen& one : seen) one.ranks.assign(1, rabit::GetRank());
  const std::size_t most = 8 + 4 * static_cast<std::size_t>(rabit::GetWorldSize());
  reducer.Allreduce(seen.data(), most, seen.size());
  for (const Seen& one : seen) {
    bool is_right = one.ranks.size() == static_cast<std::size_t>(rabit::GetWorldSize());
    for (std::size_t i = 0; is_right && i < one.ranks.size(); ++i) {
      is_right = one.ranks[i] == static_cast<int>(i);
    }
    rabit::utils::Check(is_right, "[%d] SerializeReducer: not all ranks", rabit::GetRank());
    model->take(one.ranks);
  }
}

void check_nothing() {
  float unused = 1.0f;
  rabit::Allreduce<rabit::op::Sum>(&unused, 0);
  rabit::Broadcast(&unused, 0, rabit::GetWorldSize() - 1);
  std::vector<double> empty;
  rabit::Broadcast(&empty, 0);
  rabit::Allgather(&unused, 0, 0, 0, 0);
  rabit::utils::Check(unused == 1.0f && empty.empty(), "[%d] something came out of nothing",
                      rabit::GetRank());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = recover::argument(argc, argv, "rounds", 2);
  if (!rabit::Init(argc, argv)) return 1;
  Model model;
  for (int round = rabit::LoadCheckPoint(&model); round < rounds; ++round) {
    check_integer<char>(round, &model);
    check_integer<signed char>(round, &model);
    check_integer<unsigned char>(round, &model);
    check_integer<int>(round, &model);
    check_integer<unsigned>(round, &model);
    check_integer<long>(round, &model);
    check_integer<unsigned long>(round, &model);
    check_integer<long long>(round, &model);
    check_integer<unsigned long long>(round, &model);
    check_ordered<float>(round, &model);
    check_ordered<double>(round, &model);
    check_reducer(round, &model);
    check_serialize_reducer(&model);
    check_nothing();
    rabit::CheckPoint(&model);
  }
  recover::print_final(model);
  return rabit::Finalize() ? 0 : 1;
}
