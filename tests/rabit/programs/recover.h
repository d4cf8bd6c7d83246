// Shared by the recovery programs: arguments, checks that end the job, models with a digest.
//
// Every result is compared with its closed form, and enters the digest in the global model. The
// model is part of each checkpoint, so the digest that is printed at the end covers all rounds,
// including those that this incarnation has not executed.
#pragma once

#include <rabit/rabit.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace recover {

// Returns the number in an argument name=value, or `otherwise`.
inline int argument(int argc, char** argv, const char* name, int otherwise) {
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') {
      return std::atoi(argv[i] + length + 1);
    }
  }
  return otherwise;
}

// Returns the word in an argument name=value, or `otherwise`.
inline std::string argument(int argc, char** argv, const char* name, const char* otherwise) {
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') {
      return argv[i] + length + 1;
    }
  }
  return otherwise;
}

// The least duration of a round, for tests with snapshots of a short program: rest_ms=N.
inline void rest(int argc, char** argv) {
  usleep(static_cast<useconds_t>(1000 * argument(argc, argv, "rest_ms", 0)));
}

struct Model : rabit::Serializable {
  std::uint64_t digest = 0;
  std::vector<float> data;

  void init(std::size_t size, float value) { data.assign(size, value); }
  void Load(rabit::Stream* from) override {
    from->Read(&digest);
    from->Read(&data);
  }
  void Save(rabit::Stream* to) const override {
    to->Write(digest);
    to->Write(data);
  }

  void take(const void* bytes, std::size_t size) {
    const unsigned char* byte = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i) digest = (digest ^ byte[i]) * UINT64_C(1099511628211);
    digest ^= digest >> 29;
  }
  template <typename T>
  void take(const std::vector<T>& values) {
    take(values.data(), values.size() * sizeof(T));
  }
};

// Returns element i of what rank r contributes in a round, without what the model adds.
inline float contribution(std::size_t i, int r, int period) {
  return static_cast<float>(i * static_cast<std::size_t>(r + 1) % static_cast<std::size_t>(period));
}

// Returns whether a sum of floats, whose order is not known, is as expected.
inline bool is_close(double expected, float got) {
  return std::fabs(expected - got) <= 1e-5 * std::max(1.0, std::fabs(expected));
}

// Each of some ranks broadcasts a string of its own, in two operations.
inline void broadcast_from_several(std::size_t size, int round, Model* model) {
  const int step = std::max(rabit::GetWorldSize() / 3, 1);
  for (int root = 0; root < rabit::GetWorldSize(); root += step) {
    std::string expected(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
      expected[i] = static_cast<char>((i + static_cast<std::size_t>(root + round)) % 126 + 1);
    }
    std::string got;
    if (rabit::GetRank() == root) got = expected;
    rabit::Broadcast(&got, root);
    rabit::utils::Check(got == expected, "[%d] Broadcast from %d in round %d is wrong",
                        rabit::GetRank(), root, round);
    model->take(got.data(), got.size());
  }
}

// Gathers a vector, of which every rank has a slice.
inline void allgather(std::size_t size, int round, Model* model) {
  const std::size_t rank = static_cast<std::size_t>(rabit::GetRank());
  const std::size_t ranks = static_cast<std::size_t>(rabit::GetWorldSize());
  const auto begin = [=](std::size_t r) { return size * r / ranks; };
  const std::size_t previous = static_cast<std::size_t>(rabit::GetRingPrevRank());
  const auto expected = [=](std::size_t i) { return static_cast<float>(i * 7 % 1009) + round; };
  std::vector<float> all(size, -1.0f);
  for (std::size_t i = begin(rank); i < begin(rank + 1); ++i) all[i] = expected(i);
  rabit::Allgather(all.data(), size, begin(rank), begin(rank + 1) - begin(rank),
                   begin(previous + 1) - begin(previous));
  for (std::size_t i = 0; i < size; ++i) {
    rabit::utils::Check(all[i] == expected(i), "[%d] Allgather in round %d: element %zu is %g",
                        rabit::GetRank(), round, i, all[i]);
  }
  model->take(all);
}

// Prints the last line of a rank, which the test compares with that of a run without deaths.
inline void print_final(const Model& model) {
  std::printf("[%d] version %d digest %016llx\n", rabit::GetRank(), rabit::VersionNumber(),
              static_cast<unsigned long long>(model.digest));
  std::fflush(stdout);
}

}  // namespace recover
