// The errors of rejoin.h, in a world of one. Each test is a process of its own, as MPI demands.
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX
#include <mpi.h>

#include <cstring>
#include <string>

#include "rejoin.h"

namespace {

void serialize(void* model, rejoin_stream* to) { rejoin_write(to, model, sizeof(int)); }

void expect_error(int code, int expected, const char* word) {
  EXPECT_EQ(code, expected);
  EXPECT_NE(std::string(rejoin_error()).find(word), std::string::npos) << rejoin_error();
}

// Every function returns an error with a reason, except those that cannot fail.
void expect_inactive() {
  int model = 7;
  expect_error(rejoin_load(nullptr, nullptr, nullptr, nullptr), REJOIN_ERR_ARGUMENT,
               "rejoin_load was called before MPI_Init or after MPI_Finalize");
  expect_error(rejoin_checkpoint(&model, sizeof model, nullptr, 0), REJOIN_ERR_ARGUMENT,
               "rejoin_checkpoint was called before MPI_Init or after MPI_Finalize");
  expect_error(rejoin_checkpoint_lazy(&serialize, &model), REJOIN_ERR_ARGUMENT,
               "rejoin_checkpoint_lazy was called before MPI_Init or after MPI_Finalize");
  expect_error(rejoin_bootstrap("key"), REJOIN_ERR_ARGUMENT,
               "rejoin_bootstrap was called before MPI_Init or after MPI_Finalize");
  rejoin_call_site("file", 1, "function");
  rejoin_prepare(nullptr, nullptr);
  EXPECT_EQ(rejoin_version(), 0);
  EXPECT_EQ(rejoin_replaying(), 0);
  EXPECT_EQ(rejoin_incarnation(), 0);
}

TEST(RejoinErrors, OnlyBetweenInitAndFinalize) {
  EXPECT_STREQ(rejoin_error(), "");
  expect_inactive();
  MPI_Init(nullptr, nullptr);
  EXPECT_EQ(rejoin_load(nullptr, nullptr, nullptr, nullptr), 0);
  MPI_Finalize();
  expect_inactive();
}

TEST(RejoinErrors, ArgumentsChangeNothing) {
  MPI_Init(nullptr, nullptr);
  int model = 7;
  expect_error(rejoin_checkpoint(nullptr, 8, nullptr, 0), REJOIN_ERR_ARGUMENT,
               "a model is NULL but has a size");
  expect_error(rejoin_checkpoint(&model, sizeof model, nullptr, 8), REJOIN_ERR_ARGUMENT,
               "a model is NULL but has a size");
  expect_error(rejoin_checkpoint_lazy(nullptr, &model), REJOIN_ERR_ARGUMENT,
               "the function that writes the model is NULL");
  EXPECT_EQ(rejoin_version(), 0);
  EXPECT_EQ(rejoin_checkpoint(&model, sizeof model, nullptr, 0), 1);
  EXPECT_EQ(rejoin_checkpoint(nullptr, 0, nullptr, 0), 2);
  EXPECT_EQ(rejoin_checkpoint_lazy(&serialize, &model), 3);
  EXPECT_EQ(rejoin_version(), 3);
  MPI_Finalize();
}

TEST(RejoinErrors, OneLoadBeforeTheFirstCheckpoint) {
  MPI_Init(nullptr, nullptr);
  const void *global = &global, *local = &local;
  size_t global_bytes = 1, local_bytes = 1;
  EXPECT_EQ(rejoin_load(&global, &global_bytes, &local, &local_bytes), 0);
  EXPECT_EQ(global, nullptr);
  EXPECT_EQ(local, nullptr);
  EXPECT_EQ(global_bytes + local_bytes, 0u);
  expect_error(rejoin_load(nullptr, nullptr, nullptr, nullptr), REJOIN_ERR_STATE, "second load");
  EXPECT_EQ(rejoin_checkpoint(nullptr, 0, nullptr, 0), 1);
  expect_error(rejoin_load(nullptr, nullptr, nullptr, nullptr), REJOIN_ERR_STATE, "second load");
  EXPECT_EQ(rejoin_version(), 1);
  MPI_Finalize();
}

TEST(RejoinErrors, NoLoadAfterACheckpoint) {
  MPI_Init(nullptr, nullptr);
  EXPECT_EQ(rejoin_checkpoint(nullptr, 0, nullptr, 0), 1);
  expect_error(rejoin_load(nullptr, nullptr, nullptr, nullptr), REJOIN_ERR_STATE,
               "load after a checkpoint");
  MPI_Finalize();
}

}  // namespace
