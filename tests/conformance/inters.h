#pragma once

// Intercommunicators of several shapes, for the conformance programs.

#include <mpi.h>

#include "check.h"

/** An intercommunicator, and its properties at this rank. Members of groups are world ranks. */
typedef struct {
  MPI_Comm comm;
  MPI_Comm local;
  int* own;
  int* peer;
  int own_count;
  int peer_count;
  int me;
  int in_first;  // whether this rank is in the first group, that of world rank 0
} Inter;

/** Returns 0 if a world rank is in the first group, else 1. */
typedef int Side(int rank);
static inline int by_half(int rank) { return rank >= (check_state.size + 1) / 2; }
static inline int by_parity(int rank) { return rank % 2; }
static inline int one_against_all(int rank) { return rank != 0; }

/** Creates an intercommunicator. `descending`: the second group has falling world ranks. */
static inline Inter open_inter(Side* side, int descending, int leaders_last) {
  Inter x;
  const int n = check_state.size;
  const int mine = side(check_state.rank);
  x.in_first = mine == 0;
  x.own = new_ints(n);
  x.peer = new_ints(n);
  x.own_count = 0;
  x.peer_count = 0;
  for (int group = 0; group < 2; ++group) {
    int* list = group == mine ? x.own : x.peer;
    int* count = group == mine ? &x.own_count : &x.peer_count;
    for (int i = 0; i < n; ++i) {
      const int r = group == 1 && descending ? n - 1 - i : i;
      if (side(r) == group) list[(*count)++] = r;
    }
  }
  for (int i = 0; i < x.own_count; ++i) {
    if (x.own[i] == check_state.rank) x.me = i;
  }
  OK(MPI_Comm_split(MPI_COMM_WORLD, mine, x.me, &x.local));
  const int own_leader = leaders_last ? x.own_count - 1 : 0;
  const int peer_leader = leaders_last ? x.peer_count - 1 : 0;
  OK(MPI_Intercomm_create(x.local, own_leader, MPI_COMM_WORLD, x.peer[peer_leader], 17, &x.comm));
  return x;
}

static inline void close_inter(Inter* x) {
  OK(MPI_Comm_free(&x->comm));
  OK(MPI_Comm_free(&x->local));
  free(x->own);
  free(x->peer);
}
