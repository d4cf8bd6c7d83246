#pragma once

// The communicators on which the programs for collectives repeat every test: the world, the same
// group in another context and in another order, disjoint halves, and one rank alone.

#include "check.h"

enum { kTestComms = 5 };

/** A communicator, and this rank's number in it. `salt` differs between disjoint communicators. */
typedef struct {
  const char* name;
  MPI_Comm comm;
  int rank;
  int size;
  int salt;
} TestComm;

/** Returns the element that `source`, a rank of `on`, has for `dest`. It depends on the salt. */
static inline int test_value(const TestComm* on, int source, int dest, int index) {
  return pattern(on->salt + source, dest, index);
}

static inline void describe_test_comm(TestComm* out, const char* name, MPI_Comm comm, int index) {
  out->name = name;
  out->comm = comm;
  OK(MPI_Comm_rank(comm, &out->rank));
  OK(MPI_Comm_size(comm, &out->size));
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  int first = 0;
  int first_in_world = -1;
  OK(MPI_Comm_group(comm, &group));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_translate_ranks(group, 1, &first, world, &first_in_world));
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&world));
  out->salt = (index * 64 + first_in_world) * 1024;
}

/** Fills `out`, which has kTestComms elements. Collective over the world. */
static inline void make_test_comms(TestComm* out) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm half = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_state.rank, &reversed));
  OK(MPI_Comm_split(MPI_COMM_WORLD, check_state.rank % 2, check_state.rank, &half));
  describe_test_comm(&out[0], "world", MPI_COMM_WORLD, 0);
  describe_test_comm(&out[1], "duplicate", duplicate, 1);
  describe_test_comm(&out[2], "reversed", reversed, 2);
  describe_test_comm(&out[3], "half", half, 3);
  describe_test_comm(&out[4], "self", MPI_COMM_SELF, 4);
}

/** Frees the communicators that make_test_comms has made. */
static inline void free_test_comms(TestComm* comms) {
  for (int c = 1; c < kTestComms - 1; ++c) OK(MPI_Comm_free(&comms[c].comm));
}
