// paced.c with the API of rabit: paced_rabit CHECKPOINTS KIB [US]
#include <rabit/rabit.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ticks.h"

namespace {

struct Model : rabit::Serializable {
  std::vector<char> bytes;
  void Load(rabit::Stream* from) override { from->Read(&bytes); }
  void Save(rabit::Stream* to) const override { to->Write(bytes); }
};

}  // namespace

int main(int argc, char* argv[]) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: paced_rabit CHECKPOINTS KIB [US]\n");
    return 2;
  }
  rabit::Init(argc, argv);
  const int checkpoints = std::atoi(argv[1]);
  const double us = argc > 3 ? std::atof(argv[3]) : 1000;
  const double ticks = measure_ticks_per_us();
  Model model;
  const int version = rabit::LoadCheckPoint(&model);
  if (version == 0) model.bytes.assign(static_cast<std::size_t>(std::atol(argv[2])) << 10, 1);
  double sum = 1;
  const unsigned long long begin = __rdtsc();
  for (int i = version; i < checkpoints; ++i) {
    const unsigned long long from = __rdtsc();
    while (static_cast<double>(__rdtsc() - from) < us * ticks) __builtin_ia32_pause();
    rabit::Allreduce<rabit::op::Max>(&sum, 1);
    model.bytes[static_cast<std::size_t>(i) % model.bytes.size()] = static_cast<char>(i);
    rabit::CheckPoint(&model);
  }
  const double took_s = static_cast<double>(__rdtsc() - begin) / ticks * 1e-6;
  if (rabit::GetRank() == 0) std::printf("%.6f\n", took_s);
  rabit::Finalize();
}
