// Conformance of groups: every function on groups of the world, including groups without this rank.
// Groups are local, and all ranks make the same calls.

#include <mpi.h>

#include "check.h"

static MPI_Group world_group;

static MPI_Group including(int count, const int* ranks) {
  MPI_Group group = MPI_GROUP_NULL;
  OK(MPI_Group_incl(world_group, count, ranks, &group));
  return group;
}

static int compare(MPI_Group a, MPI_Group b) {
  int result = -1;
  OK(MPI_Group_compare(a, b, &result));
  return result;
}

/** Requires that `group` consists of these world ranks in this order, and frees it. */
static void expect_and_free(const char* what, MPI_Group group, const int* expected, int count) {
  int size = -1;
  int rank = -1;
  int my_rank = MPI_UNDEFINED;
  OK(MPI_Group_size(group, &size));
  check_i64(what, count, size);
  OK(MPI_Group_rank(group, &rank));
  int* positions = new_ints(count);
  int* got = new_ints(count);
  for (int i = 0; i < count; ++i) {
    positions[i] = i;
    if (expected[i] == check_state.rank) my_rank = i;
  }
  check_i64(what, my_rank, rank);
  OK(MPI_Group_translate_ranks(group, count, positions, world_group, got));
  check_ints(what, expected, got, count);
  free(positions);
  free(got);
  if (group == MPI_GROUP_EMPTY) return;
  OK(MPI_Group_free(&group));
  check_true("a freed handle is null", group == MPI_GROUP_NULL);
}

static void test_basics(void) {
  check_context("basics");
  int size = -1;
  int rank = -1;
  OK(MPI_Group_size(world_group, &size));
  OK(MPI_Group_rank(world_group, &rank));
  check_i64("size of the world's group", check_state.size, size);
  check_i64("rank in the world's group", check_state.rank, rank);
  OK(MPI_Group_size(MPI_GROUP_EMPTY, &size));
  OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank));
  check_i64("size of the empty group", 0, size);
  check_i64("rank in the empty group", MPI_UNDEFINED, rank);
  MPI_Group self = MPI_GROUP_NULL;
  OK(MPI_Comm_group(MPI_COMM_SELF, &self));
  expect_and_free("self", self, &check_state.rank, 1);
  check_section("basics");
}

static void test_incl_excl(void) {
  int n = check_state.size;
  int* reversed = new_ints(n);
  int* rest = new_ints(n);
  for (int i = 0; i < n; ++i) reversed[i] = n - 1 - i;
  for (int count = 0; count <= n; ++count) {
    check_context("incl and excl of %d", count);
    expect_and_free("incl", including(count, reversed), reversed, count);
    MPI_Group group = MPI_GROUP_NULL;
    OK(MPI_Group_excl(world_group, count, reversed, &group));
    for (int i = 0; i < n - count; ++i) rest[i] = i;
    expect_and_free("excl", group, rest, n - count);
  }
  free(reversed);
  free(rest);
  check_section("incl, excl");
}

static void test_ranges(void) {
  check_context("ranges");
  int n = check_state.size;
  int* expected = new_ints(n);
  int upward[1][3] = {{0, n - 1, 2}};
  int downward[1][3] = {{n - 1, 0, -1}};
  int two[2][3] = {{n - 1, n - 1, 5}, {0, n - 2, 1}};
  MPI_Group group = MPI_GROUP_NULL;
  int count = 0;
  for (int r = 0; r < n; r += 2) expected[count++] = r;
  OK(MPI_Group_range_incl(world_group, 1, upward, &group));
  expect_and_free("every second", group, expected, count);
  count = 0;
  for (int r = 1; r < n; r += 2) expected[count++] = r;
  OK(MPI_Group_range_excl(world_group, 1, upward, &group));
  expect_and_free("all but every second", group, expected, count);
  for (int r = 0; r < n; ++r) expected[r] = n - 1 - r;
  OK(MPI_Group_range_incl(world_group, 1, downward, &group));
  expect_and_free("downward", group, expected, n);
  OK(MPI_Group_range_excl(world_group, 1, downward, &group));
  expect_and_free("all excluded", group, expected, 0);
  for (int r = 0; r < n; ++r) expected[r] = r == 0 ? n - 1 : r - 1;
  OK(MPI_Group_range_incl(world_group, n > 1 ? 2 : 1, two, &group));
  expect_and_free("two ranges", group, expected, n);
  OK(MPI_Group_range_incl(world_group, 0, upward, &group));
  expect_and_free("no range included", group, expected, 0);
  for (int r = 0; r < n; ++r) expected[r] = r;
  OK(MPI_Group_range_excl(world_group, 0, upward, &group));
  expect_and_free("no range excluded", group, expected, n);
  free(expected);
  check_section("ranges");
}

/** Tests union, intersection and difference of a = {n-1, .., lo} and b = {0, .., hi - 1}. */
static void test_one_algebra(int lo, int hi) {
  check_context("algebra lo=%d hi=%d", lo, hi);
  int n = check_state.size;
  int* a = new_ints(n);
  int* b = new_ints(n);
  int* expected = new_ints(n);
  int a_count = n - lo;
  for (int i = 0; i < a_count; ++i) a[i] = n - 1 - i;
  for (int i = 0; i < hi; ++i) b[i] = i;
  MPI_Group a_group = including(a_count, a);
  MPI_Group b_group = including(hi, b);
  MPI_Group group = MPI_GROUP_NULL;
  int count = 0;
  for (int i = 0; i < a_count; ++i) expected[count++] = a[i];
  for (int i = 0; i < hi && i < lo; ++i) expected[count++] = b[i];
  OK(MPI_Group_union(a_group, b_group, &group));
  expect_and_free("union", group, expected, count);
  count = 0;
  for (int i = 0; i < a_count; ++i) {
    if (a[i] < hi) expected[count++] = a[i];
  }
  OK(MPI_Group_intersection(a_group, b_group, &group));
  expect_and_free("intersection", group, expected, count);
  count = 0;
  for (int i = 0; i < a_count; ++i) {
    if (a[i] >= hi) expected[count++] = a[i];
  }
  OK(MPI_Group_difference(a_group, b_group, &group));
  expect_and_free("difference", group, expected, count);
  expect_and_free("a is unchanged", a_group, a, a_count);
  expect_and_free("b is unchanged", b_group, b, hi);
  free(a);
  free(b);
  free(expected);
}

static void test_algebra(void) {
  for (int lo = 0; lo <= check_state.size; ++lo) {
    for (int hi = 0; hi <= check_state.size; ++hi) test_one_algebra(lo, hi);
  }
  check_section("algebra");
}

static void test_compare(void) {
  check_context("compare");
  int n = check_state.size;
  int* ranks = new_ints(n);
  MPI_Group again = MPI_GROUP_NULL;
  for (int i = 0; i < n; ++i) ranks[i] = n - 1 - i;
  MPI_Group reversed = including(n, ranks);
  MPI_Group fewer = including(n - 1, ranks);
  OK(MPI_Comm_group(MPI_COMM_WORLD, &again));
  check_i64("same group", MPI_IDENT, compare(world_group, world_group));
  check_i64("the same members again", MPI_IDENT, compare(world_group, again));
  check_i64("other order", n == 1 ? MPI_IDENT : MPI_SIMILAR, compare(world_group, reversed));
  check_i64("one fewer", MPI_UNEQUAL, compare(reversed, fewer));
  check_i64("empty against world", MPI_UNEQUAL, compare(MPI_GROUP_EMPTY, world_group));
  check_i64("empty against empty", MPI_IDENT, compare(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY));
  check_i64("fewer of one is empty", n == 1 ? MPI_IDENT : MPI_UNEQUAL,
            compare(fewer, MPI_GROUP_EMPTY));
  OK(MPI_Group_free(&reversed));
  if (fewer != MPI_GROUP_EMPTY) OK(MPI_Group_free(&fewer));
  OK(MPI_Group_free(&again));
  free(ranks);
  check_section("compare");
}

static void test_translate(void) {
  check_context("translate");
  int n = check_state.size;
  // Open MPI 4.1 returns MPI_UNDEFINED instead of MPI_PROC_NULL if the target group is empty.
  int count = n > 1 ? n + 1 : n;
  int* ranks = new_ints(n + 1);
  int* expected = new_ints(n + 1);
  int* got = new_ints(n + 1);
  for (int i = 0; i < n; ++i) {
    ranks[i] = i;
    expected[i] = i == 0 ? MPI_UNDEFINED : n - 1 - i;
  }
  ranks[n] = MPI_PROC_NULL;
  expected[n] = MPI_PROC_NULL;
  int* downward = new_ints(n);
  for (int i = 0; i < n - 1; ++i) downward[i] = n - 1 - i;
  MPI_Group target = including(n - 1, downward);
  OK(MPI_Group_translate_ranks(world_group, count, ranks, target, got));
  check_ints("world to all but 0, reversed", expected, got, count);
  OK(MPI_Group_translate_ranks(world_group, 0, ranks, target, got));
  if (target != MPI_GROUP_EMPTY) OK(MPI_Group_free(&target));
  free(ranks);
  free(expected);
  free(got);
  free(downward);
  check_section("translate");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world_group));
  test_basics();
  test_incl_excl();
  test_ranges();
  test_algebra();
  test_compare();
  test_translate();
  OK(MPI_Group_free(&world_group));
  return check_end();
}
