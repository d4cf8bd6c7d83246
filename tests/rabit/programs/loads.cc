// Models with unusual Load functions.
//
//   loads pieces|throws [mock=RANK,VERSION,SEQ,NDEATH...]          1 operation in each round
//
// pieces: reads until a short read, because the model does not store its length. throws: Load
// throws an exception.
#include <stdexcept>

#include "recover.h"

namespace {

constexpr int kRounds = 4;

struct Growing : rabit::Serializable {
  bool throws = false;
  std::string text = "begin";
  void Load(rabit::Stream* from) override {
    if (throws) throw std::runtime_error("weights of another kind");
    text.clear();
    char piece[800];
    for (std::size_t size = sizeof piece; size == sizeof piece;) {
      size = from->Read(piece, sizeof piece);
      text.append(piece, size);
    }
  }
  void Save(rabit::Stream* to) const override { to->Write(text.data(), text.size()); }
};

}  // namespace

int main(int argc, char** argv) {
  if (!rabit::Init(argc, argv)) return 1;
  Growing model;
  model.throws = argc > 1 && std::strcmp(argv[1], "throws") == 0;
  for (int round = rabit::LoadCheckPoint(&model); round < kRounds; ++round) {
    int sum = round + rabit::GetRank();
    rabit::Allreduce<rabit::op::Sum>(&sum, 1);
    model.text += std::string(250, static_cast<char>('a' + round)) + std::to_string(sum);
    rabit::CheckPoint(&model);
  }
  std::printf("[%d] it went on to %s\n", rabit::GetRank(), model.text.c_str());
  return rabit::Finalize() ? 0 : 1;
}
