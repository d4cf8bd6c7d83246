#include "rabit/parameters.h"

#include <gtest/gtest.h>

namespace {

using rabit::internal::Mock;
using rabit::internal::Parameters;
using rabit::internal::read_parameters;

std::optional<Parameters> read(std::vector<const char*> arguments, std::string& error,
                               std::vector<const char*> environment = {}) {
  arguments.insert(arguments.begin(), "program");
  environment.push_back(nullptr);
  return read_parameters(static_cast<int>(arguments.size()), arguments.data(), environment.data(),
                         error);
}

TEST(Parameters, GoodOnes) {
  for (const char* good : {"rabit_reduce_buffer=256MB",
                           "rabit_reduce_buffer=128M",
                           "rabit_reduce_buffer=1G",
                           "rabit_reduce_buffer=1g",
                           "rabit_reduce_buffer=64KB",
                           "rabit_reduce_buffer=8",
                           "rabit_reduce_buffer=8B",
                           "rabit_global_replica=5",
                           "rabit_local_replica=1",
                           "rabit_bootstrap_cache=0",
                           "rabit_bootstrap_cache=1",
                           "rabit_bootstrap_cache=true",
                           "rabit_reduce_ring_mincount=0",
                           "rabit_reduce_ring_mincount=32768",
                           "rabit_timeout=1",
                           "rabit_timeout=False",
                           "rabit_timeout_sec=1800",
                           "rabit_task_id=",
                           "rabit_task_id=a-7",
                           "rabit_debug=0",
                           "mock=0,0,0,0",
                           "mock=9,1,2147483647,3"}) {
    std::string error;
    EXPECT_TRUE(read({good}, error)) << good << ": " << error;
    EXPECT_EQ(error, "") << good;
  }
}

TEST(Parameters, BadOnesSayWhatIsExpected) {
  const std::pair<const char*, const char*> bad[] = {
      {"rabit_reduce_buffer=", "a size"},
      {"rabit_reduce_buffer=7", "at least 8 bytes"},
      {"rabit_reduce_buffer=M", "a size"},
      {"rabit_reduce_buffer=12Q", "a size"},
      {"rabit_reduce_buffer=-1M", "a size"},
      {"rabit_reduce_buffer=1.5G", "a size"},
      {"rabit_reduce_buffer=256 MB", "a size"},
      {"rabit_reduce_buffer=99999999999G", "a size"},
      {"rabit_reduce_buffer=99999999999999999999", "a size"},
      {"rabit_global_replica=0", "at least 1"},
      {"rabit_local_replica=two", "at least 1"},
      {"rabit_bootstrap_cache=2", "0 or 1"},
      {"rabit_bootstrap_cache=yes", "0 or 1"},
      {"rabit_reduce_ring_mincount=1k", "elements"},
      {"rabit_timeout=soon", "0 or 1"},
      {"rabit_timeout_sec=-3", "seconds"},
      {"rabit_debug=", "0 or 1"},
      {"mock=", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,3", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,3,4,5", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,,4", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,3,4,", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=-1,0,0,0", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,3,4x", "RANK,VERSION,SEQ,NDEATH"},
      {"mock=1,2,3,2147483648", "RANK,VERSION,SEQ,NDEATH"},
  };
  for (const auto& [text, expected] : bad) {
    std::string error;
    EXPECT_FALSE(read({text}, error)) << text;
    EXPECT_NE(error.find(text), error.npos) << error;
    EXPECT_NE(error.find(expected), error.npos) << error;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
  }
}

TEST(Parameters, OthersAreLeftAlone) {
  std::string error;
  const auto parameters =
      read({"10000", "ndata=x", "mocking=1", "rabit_colour=red", "=", "", "--mock=1", "mock"},
           error, {"PATH=/bin", "rabit_tracker_uri=NULL", "broken"});
  ASSERT_TRUE(parameters) << error;
  EXPECT_TRUE(parameters->mocks.empty());
  EXPECT_FALSE(parameters->debug);
}

TEST(Parameters, MocksAreCollectedInOrder) {
  std::string error;
  const auto parameters = read({"mock=9,1,1,0", "mock=1,1,1,1", "mock=1,1,1,0"}, error);
  ASSERT_TRUE(parameters) << error;
  const std::vector<Mock> expected = {{1, 1, 1, 0}, {1, 1, 1, 1}, {9, 1, 1, 0}};
  EXPECT_EQ(parameters->mocks, expected);
}

TEST(Parameters, ArgumentsWinOverTheEnvironment) {
  std::string error;
  auto parameters = read({"rabit_debug=0", "mock=1,1,1,1"}, error,
                         {"rabit_debug=1", "mock=2,2,2,2", "rabit_local_replica=2"});
  ASSERT_TRUE(parameters) << error;
  EXPECT_FALSE(parameters->debug);
  EXPECT_EQ(parameters->mocks, (std::vector<Mock>{{1, 1, 1, 1}}));

  parameters = read({}, error, {"rabit_debug=1", "mock=2,2,2,2"});
  ASSERT_TRUE(parameters) << error;
  EXPECT_TRUE(parameters->debug);
  EXPECT_EQ(parameters->mocks, (std::vector<Mock>{{2, 2, 2, 2}}));

  EXPECT_FALSE(read({}, error, {"rabit_global_replica=none"}));
  EXPECT_NE(error.find("rabit_global_replica=none"), error.npos) << error;
}

TEST(Parameters, NoArgumentsAtAll) {
  std::string error;
  EXPECT_TRUE(read_parameters(0, nullptr, nullptr, error)) << error;
}

}  // namespace
