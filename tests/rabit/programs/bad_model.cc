// A model that saves and does not load.
//
//   bad_model short|throws [mock=RANK,VERSION,SEQ,NDEATH...]          1 operation a round
#include <stdexcept>

#include "recover.h"

namespace {

struct BadModel : rabit::Serializable {
  bool throws = false;
  int value = 7;
  void Load(rabit::Stream* from) override {
    if (throws) throw std::runtime_error("weights of another kind");
    double wider;
    from->Read(&wider);
  }
  void Save(rabit::Stream* to) const override { to->Write(value); }
};

}  // namespace

int main(int argc, char** argv) {
  if (!rabit::Init(argc, argv)) return 1;
  BadModel model;
  model.throws = argc > 1 && std::strcmp(argv[1], "throws") == 0;
  for (int round = rabit::LoadCheckPoint(&model); round < 4; ++round) {
    int one = 1;
    rabit::Allreduce<rabit::op::Sum>(&one, 1);
    rabit::CheckPoint(&model);
  }
  std::printf("[%d] it loaded\n", rabit::GetRank());
  return rabit::Finalize() ? 0 : 1;
}
