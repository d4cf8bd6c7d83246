// wrapper sizes|same|keys|sites|late [versions=V]
//
// One wrapper function calls all reductions, including those of the bootstrap phase. When a
// restarted rank replays them, they are distinguished by:
//   sizes   the number of elements; none is marked
//   same    nothing
//   keys    the keys of those of the bootstrap phase (rejoin_bootstrap)
//   sites   the caller, which the wrapper names (rejoin_call_site); none is marked
//   late    keys, too; one more operation of the bootstrap phase comes after the first checkpoint

#include <rejoin.h>

#include "program.h"

static const char* how;

static int is(const char* name) { return strcmp(how, name) == 0; }

/** Returns the checked sum over all ranks of `count` elements of step `step`. */
__attribute__((noinline)) static uint64_t sum_of(int step, int count, const char* key, int line) {
  uint64_t mine[8], sum[8];
  for (int i = 0; i < count; ++i) mine[i] = element(check_state.rank, step, i);
  if (key != NULL && (is("keys") || is("late"))) rejoin_bootstrap(key);
  if (is("sites")) rejoin_call_site(__FILE__, line, "caller");
  OK(MPI_Allreduce(mine, sum, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  uint64_t digest = 0;
  for (int i = 0; i < count; ++i) {
    uint64_t expected = 0;
    for (int r = 0; r < check_state.size; ++r) expected += element(r, step, i);
    check_u64("sum", expected, sum[i]);
    digest = hash_step(digest, sum[i]);
  }
  return digest;
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  how = argc > 1 ? argv[1] : "sizes";
  const int versions = (int)argument_number(argc, argv, "versions", 4);
  const int differ = is("sizes");
  const void* found;
  int version = rejoin_load(&found, NULL, NULL, NULL);
  check_context("bootstrap phase");
  uint64_t first = sum_of(-1, 4, "first", __LINE__);
  uint64_t second = sum_of(-2, differ ? 5 : 4, "second", __LINE__);
  uint64_t third = 0;
  if (version > 1 && is("late")) third = sum_of(-3, 4, "third", __LINE__);
  if (version > 0) memcpy(&salt, found, sizeof salt);
  while (version < versions) {
    check_context("version %d", version);
    received_by_all(first + second + third);
    received_by_all(sum_of(version, differ ? 3 : 4, NULL, __LINE__));
    received_by_all(sum_of(version + 100, differ ? 3 : 4, NULL, __LINE__));
    if (version == 1 && is("late")) {
      const uint64_t now = salt;
      salt = 1;  // its contribution must not depend on the state
      third = sum_of(-3, 4, "third", __LINE__);
      salt = now;
    }
    printf("rank %d, version %d: %016llx\n", check_state.rank, version + 1,
           (unsigned long long)salt);
    version = rejoin_checkpoint(&salt, sizeof salt, NULL, 0);
    if (version < 0) check_fail("checkpoint", "a version", rejoin_error());
  }
  OK(MPI_Finalize());
  return 0;
}
