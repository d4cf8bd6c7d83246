// volume operations=N every=K bytes=B [kinds=LETTERS] [first=1]
//
// N operations of B bytes (a: Allreduce, b: Bcast from root i mod n; default ab), with a checkpoint
// after every K, and with first=1 also before all of them, because records before the first
// checkpoint are retained. The first and the last element of each result are checked. Rank 0 prints
// a digest of what all ranks received.

#include <rejoin.h>

#include "program.h"

typedef struct {
  uint64_t salt;
  uint64_t done;
} State;

static void operation(char kind, int step, uint64_t* in, uint64_t* out, int count) {
  const int n = check_state.size, root = step % n, last = count - 1;
  const int ends[] = {0, last};
  for (int e = 0; e < 2; ++e) in[ends[e]] = element(check_state.rank, step, ends[e]);
  if (kind == 'b') {
    MPI_Bcast(in, count, MPI_UINT64_T, root, MPI_COMM_WORLD);
  } else {
    MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  }
  const uint64_t* got = kind == 'b' ? in : out;
  for (int e = 0; e < 2; ++e) {
    uint64_t expected = kind == 'b' ? element(root, step, ends[e]) : 0;
    for (int r = 0; kind != 'b' && r < n; ++r) expected += element(r, step, ends[e]);
    check_u64("element", expected, got[ends[e]]);
  }
  received_by_all(got[last]);
}

static void checkpoint(const State* state) {
  if (rejoin_checkpoint(state, sizeof *state, NULL, 0) > 0) return;
  check_fail("checkpoint", "a version", rejoin_error());
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int operations = (int)argument_number(argc, argv, "operations", 100);
  const int every = (int)argument_number(argc, argv, "every", 20);
  const int count = (int)(argument_number(argc, argv, "bytes", 8) / 8);
  const char* kinds = argument_text(argc, argv, "kinds", "ab");
  uint64_t* in = calloc((size_t)count, 8);
  uint64_t* out = calloc((size_t)count, 8);
  if (in == NULL || out == NULL) check_fail("memory", "some", "none");
  State state = {salt, 0};
  const void* found;
  if (rejoin_load(&found, NULL, NULL, NULL) > 0) {
    memcpy(&state, found, sizeof state);
  } else if (argument_number(argc, argv, "first", 0) != 0) {
    checkpoint(&state);
  }
  salt = state.salt;
  for (int i = (int)state.done; i < operations; ++i) {
    check_context("operation %d", i);
    operation(kinds[(size_t)i % strlen(kinds)], i, in, out, count);
    if ((i + 1) % every != 0) continue;
    state.salt = salt;
    state.done = (uint64_t)i + 1;
    checkpoint(&state);
  }
  free(in);
  free(out);
  note("%d operations: %016llx", operations, (unsigned long long)salt);
  OK(MPI_Finalize());
  return 0;
}
