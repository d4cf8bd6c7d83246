// A program with every form of model, of set-up and of call.
//
//   forms [model=global|local|lazy] [lines=1|2] [setup=before|behind|first] [mark=none|all|keys]
//         [rounds=8] [rest_ms=0] [mock=RANK,VERSION,SEQ,NDEATH...]
//
// lines=2: rank 0 calls Broadcast from another line than the others. setup: before LoadCheckPoint,
// after it, or when the first round of a process needs it. mark: how an operation of the set-up is
// marked. The set-up and the rounds call operations through wrappers, from the same lines.
//
// The set-up has 4 operations, a round 5.
#include <memory>

#include "recover.h"
#include "rejoin.h"

namespace {

using recover::argument;
using recover::Model;

struct Form {
  bool two_lines;
  std::string mark;
};
Form form;

// key: that of an operation of the set-up; null for an operation of a round.
bool mark(const char* key) {
  if (key == nullptr || form.mark == "none") return false;
  if (form.mark == "keys") rejoin_bootstrap(key);
  return form.mark == "all";
}

std::vector<float> sum(std::vector<float> values, const char* key = nullptr) {
  rabit::Allreduce<rabit::op::Sum>(values.data(), values.size(), nullptr, nullptr, mark(key));
  return values;
}

float maximum(float value, const char* key = nullptr) {
  rabit::Allreduce<rabit::op::Max>(&value, 1, nullptr, nullptr, mark(key));
  return value;
}

// Broadcasts the size and then the data, as two operations with a key each.
void broadcast(std::string* text, const char* size_key = nullptr, const char* key = nullptr) {
  std::size_t size = text->size();
  if (form.two_lines && rabit::GetRank() == 0) {
    rabit::Broadcast(&size, sizeof size, 0, mark(size_key));
    rabit::Broadcast(&(*text)[0], size, 0, mark(key));
  } else {
    rabit::Broadcast(&size, sizeof size, 0, mark(size_key));
    text->resize(size);
    rabit::Broadcast(&(*text)[0], size, 0, mark(key));
  }
}

struct Setup {
  float scale;
  std::string cuts;
  std::vector<float> histogram;

  Setup() {
    scale = maximum(static_cast<float>(3 + rabit::GetRank()), "scale");
    if (rabit::GetRank() == 0) cuts = std::string(40, 'c') + std::to_string(scale);
    broadcast(&cuts, "cuts.size", "cuts");
    histogram = sum(std::vector<float>(16, 1.0f + static_cast<float>(rabit::GetRank())), "rows");
  }
};

void do_round(int round, const Setup& setup, Model* global, Model* local) {
  std::vector<float> mine(setup.histogram);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = recover::contribution(i, rabit::GetRank(), 7 + round) + local->data[i];
  }
  const std::vector<float> total = sum(mine);
  std::string word;
  if (rabit::GetRank() == 0) word = setup.cuts + std::to_string(total[1]);
  broadcast(&word);
  const float best = maximum(local->data[0] + static_cast<float>(rabit::GetRank() * round % 5));
  recover::allgather(50, round, global);
  for (std::size_t i = 0; i < total.size(); ++i) {
    global->data[i] = std::fmod(total[i] * setup.scale + setup.histogram[i] + best, 1021.0f);
    local->data[i] = std::fmod(local->data[i] + mine[i] + total[i] * 3, 509.0f);
  }
  global->take(global->data);
  global->take(word.data(), word.size());
  local->take(local->data);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argument(argc, argv, "model", "global");
  const std::string setup_place = argument(argc, argv, "setup", "before");
  const int rounds = argument(argc, argv, "rounds", 8);
  form = {argument(argc, argv, "lines", 1) == 2, argument(argc, argv, "mark", "none")};
  if (!rabit::Init(argc, argv)) return 1;
  std::unique_ptr<Setup> setup;
  if (setup_place == "before") setup.reset(new Setup);
  Model global, local;
  global.init(16, 5.0f);
  local.init(16, 1.0f);
  rabit::utils::Check(rabit::VersionNumber() == 0, "a version before the load");
  const int version =
      kind == "local" ? rabit::LoadCheckPoint(&global, &local) : rabit::LoadCheckPoint(&global);
  rabit::utils::Check(rabit::VersionNumber() == version, "another version behind the load");
  rabit::utils::Check(version > 0 || (global.digest == 0 && global.data[0] == 5.0f &&
                                      local.digest == 0 && local.data[0] == 1.0f),
                      "a model was touched by a load of nothing");
  if (setup_place == "behind") setup.reset(new Setup);
  for (int round = version; round < rounds; ++round) {
    recover::rest(argc, argv);
    if (!setup) setup.reset(new Setup);
    // Without a local model, the state follows from the global one.
    if (kind != "local") local = global;
    do_round(round, *setup, &global, &local);
    if (kind == "local") {
      rabit::CheckPoint(&global, &local);
    } else if (kind == "lazy") {
      rabit::LazyCheckPoint(&global);
    } else {
      rabit::CheckPoint(&global);
    }
    rabit::utils::Check(rabit::VersionNumber() == round + 1, "another version behind a checkpoint");
  }
  if (kind == "local") global.take(&local.digest, sizeof local.digest);
  recover::print_final(global);
  return rabit::Finalize() ? 0 : 1;
}
