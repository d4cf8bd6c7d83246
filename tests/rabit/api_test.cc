// Tests rabit.h and c_api.h in a world of one. schedules.py tests what needs more ranks.
#include <gtest/gtest.h>
#include <rabit/c_api.h>
#include <rabit/rabit.h>
#include <signal.h>

#include <stdexcept>

namespace {

// Joins the job, which a process can do once.
bool init(std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(&argument[0]);
  return rabit::Init(static_cast<int>(argv.size()), argv.data());
}

// Runs `body` in a process of its own, because a process can join a job only once. `printed`: the
// expected standard error.
template <typename Body>
void in_own_process(Body body, const std::string& printed = "^$") {
  const auto run = [&] {
    body();
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), printed);
}

struct Model : rabit::Serializable {
  std::vector<int> values;
  void Load(rabit::Stream* from) override { from->Read(&values); }
  void Save(rabit::Stream* to) const override { to->Write(values); }
};

struct Largest {
  int value;
  int padding;
};
void keep_larger(Largest& kept, const Largest& other) {
  if (other.value > kept.value) kept = other;
}

struct Words {
  std::vector<std::string> words;
  void Save(rabit::Stream& to) const { to.Write(words); }
  void Load(rabit::Stream& from) { from.Read(&words); }
  void Reduce(const Words& other, std::size_t) {
    words.insert(words.end(), other.words.begin(), other.words.end());
  }
};

// Makes the calls that tests make without a job and in a job of one.
void use_everything() {
  EXPECT_EQ(rabit::GetRank(), 0);
  EXPECT_EQ(rabit::GetWorldSize(), 1);
  EXPECT_FALSE(rabit::IsDistributed());
  EXPECT_FALSE(rabit::GetProcessorName().empty());

  std::vector<int> values = {3, 1, 2};
  const std::vector<int> same = values;
  rabit::Broadcast(&values, 0);
  rabit::Broadcast(values.data(), values.size() * sizeof(int), 0, true);
  rabit::Broadcast(&values, 0, "file.cc", 12, "caller");
  rabit::Allreduce<rabit::op::Sum>(values.data(), values.size());
  rabit::Allreduce<rabit::op::BitOR>(values.data(), values.size(), nullptr, nullptr, true);
  rabit::Allreduce<rabit::op::Max>(values.data(), values.size(), nullptr, nullptr, "file.cc", 13,
                                   "caller");
  rabit::Allgather(values.data(), 3, 0, 3, 3);
  EXPECT_EQ(values, same);
  std::string text = "text";
  rabit::Broadcast(&text, 0);
  EXPECT_EQ(text, "text");

  float number = 0;
  rabit::Allreduce<rabit::op::Min>(&number, 1, [&] { number = 1.5f; });
  EXPECT_EQ(number, 1.5f);
  rabit::Allreduce<rabit::op::Min>(
      &number, 1, [](void* to) { *static_cast<float*>(to) = 2.5f; }, &number);
  EXPECT_EQ(number, 2.5f);

  Largest largest{0, 0};
  rabit::Reducer<Largest, keep_larger> reducer;
  reducer.Allreduce(&largest, 1, [&] { largest.value = 9; });
  EXPECT_EQ(largest.value, 9);
  reducer.Allreduce(&largest, 1);
  EXPECT_EQ(largest.value, 9);

  Words words[2];
  words[0].words = {"a"};
  rabit::SerializeReducer<Words> serialize_reducer;
  serialize_reducer.Allreduce(words, 64, 2, [&] { words[1].words = {"b", "c"}; });
  serialize_reducer.Allreduce(words, 64, 2);
  EXPECT_EQ(words[0].words, (std::vector<std::string>{"a"}));
  EXPECT_EQ(words[1].words, (std::vector<std::string>{"b", "c"}));
}

void use_checkpoints() {
  Model global, local;
  EXPECT_EQ(rabit::LoadCheckPoint(&global, &local), 0);
  EXPECT_EQ(rabit::VersionNumber(), 0);
  global.values = {1, 2};
  rabit::CheckPoint(&global, &local);
  rabit::CheckPoint(&global);
  rabit::LazyCheckPoint(&global);
  EXPECT_EQ(rabit::VersionNumber(), 3);
}

TEST(Api, WithoutInit) {
  use_everything();
  use_checkpoints();
  EXPECT_TRUE(rabit::Finalize());
}

TEST(ApiDeathTest, WorldOfOne) {
  const auto join_and_leave = [] {
    ASSERT_TRUE(init());
    EXPECT_TRUE(init());
    use_everything();
    use_checkpoints();
    EXPECT_TRUE(rabit::Finalize());
    EXPECT_EQ(rabit::VersionNumber(), 0);
    use_everything();
    EXPECT_FALSE(init());
  };
  in_own_process(join_and_leave,
                 "^rabit: Init after Finalize; a process can join a job only once\n$");
}

TEST(Api, TrackerPrint) {
  testing::internal::CaptureStdout();
  rabit::TrackerPrint("one\n");
  rabit::TrackerPrintf("%s %d\n", "two", 2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "one\ntwo 2\n");
}

TEST(ApiDeathTest, DebugPrintsEveryOperation) {
  const auto operate = [] {
    ASSERT_TRUE(init({"rabit_debug=1"}));
    int value = 1;
    rabit::Allreduce<rabit::op::Sum>(&value, 1, nullptr, nullptr, "src/learner.cc", 734, "Lazy");
    rabit::Broadcast(&value, sizeof value, 0);
    rabit::Finalize();
  };
  in_own_process(operate,
                 "^\\[0\\] allreduce \\(src/learner.cc:734::Lazy#4x1\\) finished version 0, seq 0, "
                 "take 0.[0-9]+ seconds\n"
                 "\\[0\\] broadcast \\(.*api_test.cc:[0-9]+::.*#1x4\\) finished version 0, seq 1, "
                 "take 0.[0-9]+ seconds\n$");
}

TEST(ApiDeathTest, WrongParametersEndTheProcess) {
  EXPECT_EXIT(init({"mock=1,2"}), testing::ExitedWithCode(2),
              "^rabit: parameter mock=1,2: expected RANK,VERSION,SEQ,NDEATH, four numbers such as "
              "1,0,2,0\n$");
  EXPECT_EXIT(init({"rabit_reduce_buffer=4"}), testing::ExitedWithCode(2), "at least 8 bytes");
  setenv("rabit_local_replica", "none", 1);
  EXPECT_EXIT(init(), testing::ExitedWithCode(2), "rabit_local_replica=none");
  unsetenv("rabit_local_replica");
}

TEST(ApiDeathTest, WrongCallsEndTheJob) {
  int value = 0;
  EXPECT_EXIT(rabit::Broadcast(&value, sizeof value, 1), testing::ExitedWithCode(1),
              "Broadcast: root 1 is not one of the ranks 0 to 0");
  EXPECT_EXIT(
      rabit::Allgather(&value, 1, 0, 2, 2), testing::ExitedWithCode(1),
      "rank 0's slice of 2 elements from 0 on is not within the 1 elements of the array; the "
      "fourth argument is the slice's size, not its end");
  EXPECT_EXIT(rabit::Allgather(&value, 1, 0, 1, 0), testing::ExitedWithCode(1), "has 0 elements");
  EXPECT_EXIT(rabit::LazyCheckPoint(nullptr), testing::ExitedWithCode(1),
              "the model is a null pointer");
}

TEST(ApiDeathTest, AnObjectThatNeedsMoreThanItSaid) {
  Words words;
  words.words = {"longer than eight bytes"};
  rabit::SerializeReducer<Words> reducer;
  EXPECT_EXIT(reducer.Allreduce(&words, 24, 1), testing::ExitedWithCode(255),
              "past the end of a buffer of 24");
}

TEST(ApiDeathTest, MocksKill) {
  const auto run = [](const char* mock) {
    init({"rabit_debug=0", mock});
    Model model;
    rabit::LoadCheckPoint(&model);
    for (int round = 0; round < 2; ++round) {
      int value = 1;
      rabit::Allreduce<rabit::op::Sum>(&value, 1);
      rabit::Broadcast(&value, sizeof value, 0);
      round == 0 ? rabit::CheckPoint(&model) : rabit::LazyCheckPoint(&model);
    }
    rabit::Finalize();
    std::exit(0);
  };
  const std::pair<const char*, const char*> deaths[] = {
      {"mock=0,0,0,0", "before LoadCheckPoint at version 0, seq 0, death 0"},
      {"mock=0,0,1,0", "before broadcast at version 0, seq 1, death 0"},
      {"mock=0,0,2,0", "before CheckPoint at version 0, seq 2, death 0"},
      {"mock=0,1,0,0", "before allreduce at version 1, seq 0, death 0"},
      {"mock=0,1,2,0", "before LazyCheckPoint at version 1, seq 2, death 0"},
  };
  for (const auto& [mock, where] : deaths) {
    EXPECT_EXIT(run(mock), testing::KilledBySignal(SIGKILL),
                std::string("^rejoin: mock: killed ") + where + "\n$");
  }
  for (const char* mock : {"mock=1,0,1,0", "mock=0,0,1,1", "mock=0,0,3,0", "mock=0,2,1,0"}) {
    EXPECT_EXIT(run(mock), testing::ExitedWithCode(0), "^$") << mock;
  }
}

// Tests loading without a checkpoint, because only a restarted rank has one to load.
TEST(Models, Load) {
  Model model;
  model.values = {4, 5, 6};
  rabit::internal::ModelWriter writer;
  const rabit::internal::Bytes bytes = writer.take(&model);
  Model got;
  rabit::internal::load_model(&got, bytes, 3, "global");
  EXPECT_EQ(got.values, model.values);
  rabit::internal::load_model(nullptr, bytes, 3, "local");
  EXPECT_EQ(writer.take(nullptr).size, 0u);
}

// Some programs do not store the length of their model, and read until a short read.
TEST(Models, LoadReadsUntilAShortRead) {
  struct Bytes : rabit::Serializable {
    std::string text;
    void Load(rabit::Stream* from) override {
      char part[8];
      for (std::size_t size = sizeof part; size == sizeof part;) {
        size = from->Read(part, sizeof part);
        text.append(part, size);
      }
    }
    void Save(rabit::Stream* to) const override { to->Write(text.data(), text.size()); }
  };
  for (const char* text : {"", "eight ch", "not a multiple of eight"}) {
    Bytes model, got;
    model.text = text;
    rabit::internal::ModelWriter writer;
    rabit::internal::load_model(&got, writer.take(&model), 3, "global");
    EXPECT_EQ(got.text, text);
  }
}

TEST(ModelsDeathTest, ThatDoNotLoad) {
  struct Throws : Model {
    void Load(rabit::Stream*) override { throw std::runtime_error("wrong kind"); }
  } throws;
  Model model;
  model.values = {4, 5, 6};
  rabit::internal::ModelWriter writer;
  const rabit::internal::Bytes bytes = writer.take(&model);
  EXPECT_EXIT(
      rabit::internal::load_model(&throws, bytes, 3, "local"), testing::ExitedWithCode(1),
      "^\\[0\\] rabit: LoadCheckPoint: the local model of version 3 \\(20 bytes\\) does not "
      "load: wrong kind\n$");
}

void use_c_api() {
  char program[] = "program";
  char* argv[] = {program, nullptr};
  ASSERT_TRUE(RabitInit(1, argv));
  EXPECT_EQ(RabitGetRank(), 0);
  EXPECT_EQ(RabitGetWorldSize(), 1);
  EXPECT_EQ(RabitGetRingPrevRank(), 0);
  EXPECT_EQ(RabitIsDistributed(), 0);
  EXPECT_EQ(RabitLinkTag(), 0);

  char name[256];
  rbt_ulong length = 0;
  EXPECT_EQ(RabitGetProcessorName(name, &length, sizeof name), 0);
  EXPECT_EQ(name, rabit::GetProcessorName());
  EXPECT_EQ(length, rabit::GetProcessorName().size());
  EXPECT_EQ(RabitGetProcessorName(name, &length, 3), 0);
  EXPECT_LE(length, 2u);

  double values[2] = {1, 2};
  EXPECT_EQ(RabitBroadcast(values, sizeof values, 0), 0);
  EXPECT_EQ(RabitAllgather(values, 2, 0, 2, 2, 7), 0);
  for (int type = 0; type <= 9; ++type) {
    for (int op = 0; op <= 3; ++op) {
      if (op == 3 && (type == 6 || type == 7)) continue;
      EXPECT_EQ(RabitAllreduce(values, 2, type, op, nullptr, nullptr), 0) << type << " " << op;
    }
  }
  EXPECT_EQ(values[1], 2);
  const auto prepare = [](void* to) { *static_cast<double*>(to) = 5; };
  EXPECT_EQ(RabitAllreduce(values, 2, 7, 2, prepare, values), 0);
  EXPECT_EQ(values[0], 5);

  char *global = program, *local = nullptr;
  rbt_ulong global_size = 77;
  EXPECT_EQ(RabitLoadCheckPoint(&global, &global_size, &local, nullptr), 0);
  EXPECT_EQ(global, program);
  EXPECT_EQ(global_size, 77u);
  EXPECT_EQ(RabitCheckPoint("model", 5, nullptr, 0), 0);
  EXPECT_EQ(RabitVersionNumber(), 1);
  EXPECT_TRUE(RabitFinalize());
}

TEST(CApiDeathTest, WorldOfOne) { in_own_process(use_c_api); }

TEST(CApi, UnknownNumbersAreRefused) {
  int value = 3;
  const auto refused = [&](int type, int op) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RabitAllreduce(&value, 1, type, op, nullptr, nullptr), -1);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(refused(10, 2), "[0] rabit: RabitAllreduce: unknown enum_dtype 10\n");
  EXPECT_EQ(refused(-1, 2), "[0] rabit: RabitAllreduce: unknown enum_dtype -1\n");
  EXPECT_EQ(refused(2, 4), "[0] rabit: RabitAllreduce: unknown enum_op 4\n");
  EXPECT_NE(refused(6, 3).find("bitwise or is for integers"), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(RabitAllgather(&value, 1, 0, 1, 1, 10), -1);
  rbt_ulong length = 0;
  EXPECT_EQ(RabitGetProcessorName(nullptr, &length, 0), -1);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(value, 3);
}

}  // namespace
