// Conformance of communicators, which are created in every way, compared, named, used for
// collectives, nested, and created and freed a thousand times.

#include <mpi.h>

#include "check.h"

static int rank_in(MPI_Comm comm) {
  int rank = -1;
  OK(MPI_Comm_rank(comm, &rank));
  return rank;
}

static int size_of(MPI_Comm comm) {
  int size = -1;
  OK(MPI_Comm_size(comm, &size));
  return size;
}

static int compare(MPI_Comm a, MPI_Comm b) {
  int result = -1;
  OK(MPI_Comm_compare(a, b, &result));
  return result;
}

/** Requires that the world ranks in `comm` are the `size` ones of `expected`, in this order. */
static void check_members(const char* what, MPI_Comm comm, const int* expected, int size) {
  check_i64(what, size, size_of(comm));
  int* got = new_ints(size);
  OK(MPI_Allgather(&check_state.rank, 1, MPI_INT, got, 1, MPI_INT, comm));
  check_ints(what, expected, got, size);
  check_i64(what, check_state.rank, expected[rank_in(comm)]);
  free(got);
}

static void test_basics(void) {
  check_context("world and self");
  int inter = -1;
  check_i64("rank in self", 0, rank_in(MPI_COMM_SELF));
  check_i64("size of self", 1, size_of(MPI_COMM_SELF));
  check_true("rank in world", check_state.rank >= 0 && check_state.rank < check_state.size);
  OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &inter));
  check_i64("world is no intercommunicator", 0, inter);
  OK(MPI_Comm_test_inter(MPI_COMM_SELF, &inter));
  check_i64("self is no intercommunicator", 0, inter);
  int value = check_state.rank + 5;
  OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_SELF));
  check_i64("broadcast on self", check_state.rank + 5, value);
  int sum = 0;
  OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
  check_i64("sum on self", value, sum);
  OK(MPI_Barrier(MPI_COMM_SELF));
  check_i64("self against world", check_state.size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL,
            compare(MPI_COMM_SELF, MPI_COMM_WORLD));
  check_section("basics");
}

static void test_dup(void) {
  check_context("dup");
  MPI_Comm first = MPI_COMM_NULL;
  MPI_Comm second = MPI_COMM_NULL;
  MPI_Comm with_info = MPI_COMM_NULL;
  MPI_Comm self = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
  OK(MPI_Comm_dup(first, &second));
  OK(MPI_Comm_dup_with_info(second, MPI_INFO_NULL, &with_info));
  OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
  check_i64("world against itself", MPI_IDENT, compare(MPI_COMM_WORLD, MPI_COMM_WORLD));
  check_i64("first against world", MPI_CONGRUENT, compare(first, MPI_COMM_WORLD));
  check_i64("second against first", MPI_CONGRUENT, compare(second, first));
  check_i64("with_info against first", MPI_CONGRUENT, compare(with_info, first));
  check_i64("self against its copy", MPI_CONGRUENT, compare(self, MPI_COMM_SELF));
  check_i64("rank in first", check_state.rank, rank_in(first));
  check_i64("size of with_info", check_state.size, size_of(with_info));
  OK(MPI_Comm_free(&first));
  check_true("a freed handle is null", first == MPI_COMM_NULL);
  int sum = 0;
  OK(MPI_Allreduce(&check_state.rank, &sum, 1, MPI_INT, MPI_SUM, with_info));
  check_i64("a copy outlives its parent", check_state.size * (check_state.size - 1) / 2, sum);
  OK(MPI_Comm_free(&second));
  OK(MPI_Comm_free(&with_info));
  OK(MPI_Comm_free(&self));
  check_section("dup");
}

/** Splits the world by colour rank % colors, with key key_sign * rank, but without `skip`. */
static void test_one_split(int colors, int skip, int key_sign) {
  check_context("split colors=%d skip=%d key=%d", colors, skip, key_sign);
  int n = check_state.size;
  int color = check_state.rank % colors;
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_split(MPI_COMM_WORLD, color == skip ? MPI_UNDEFINED : color,
                    key_sign * check_state.rank, &comm));
  if (color == skip) {
    check_true("undefined colour gives no communicator", comm == MPI_COMM_NULL);
    return;
  }
  int* expected = new_ints(n);
  int size = 0;
  for (int i = 0; i < n; ++i) {
    int r = key_sign < 0 ? n - 1 - i : i;
    if (r % colors == color) expected[size++] = r;
  }
  check_members("members", comm, expected, size);
  int same = MPI_UNEQUAL;
  if (size == n) same = key_sign < 0 && n > 1 ? MPI_SIMILAR : MPI_CONGRUENT;
  check_i64("split against world", same, compare(comm, MPI_COMM_WORLD));
  OK(MPI_Comm_free(&comm));
  check_true("a freed handle is null", comm == MPI_COMM_NULL);
  free(expected);
}

static void test_split(void) {
  for (int colors = 1; colors <= check_state.size + 1; ++colors) {
    for (int key_sign = -1; key_sign <= 1; ++key_sign) {
      for (int skip = -1; skip < colors && skip < 2; ++skip) {
        test_one_split(colors, skip, key_sign);
      }
    }
  }
  check_context("split of self");
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_split(MPI_COMM_SELF, 12345, 9, &comm));
  check_members("members", comm, &check_state.rank, 1);
  OK(MPI_Comm_free(&comm));
  check_section("split");
}

static void test_split_type(void) {
  check_context("split_type");
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
  int* everyone = new_ints(check_state.size);
  for (int r = 0; r < check_state.size; ++r) everyone[r] = r;
  check_members("all ranks share this host", comm, everyone, check_state.size);
  OK(MPI_Comm_free(&comm));
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm));
  check_true("undefined type gives no communicator", comm == MPI_COMM_NULL);
  free(everyone);
  check_section("split_type");
}

/** Splits communicators in halves until every rank is alone. */
static void test_nested(void) {
  check_context("nested splits");
  MPI_Comm levels[16] = {MPI_COMM_WORLD};
  int depth = 0;
  while (size_of(levels[depth]) > 1) {
    MPI_Comm parent = levels[depth];
    int size = size_of(parent);
    int rank = rank_in(parent);
    int lower = rank < size / 2;
    OK(MPI_Comm_split(parent, lower, rank, &levels[++depth]));
    check_i64("size", lower ? size / 2 : size - size / 2, size_of(levels[depth]));
  }
  for (int level = depth; level >= 0; --level) {
    int one = 1;
    int sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, levels[level]));
    check_i64("sum at this level", size_of(levels[level]), sum);
  }
  for (int level = depth; level > 0; --level) OK(MPI_Comm_free(&levels[level]));
  check_section("nested");
}

static void test_create(void) {
  check_context("create");
  int n = check_state.size;
  int members = (n + 1) / 2;
  int* even = new_ints(n);
  for (int i = 0; i < members; ++i) even[i] = 2 * (members - 1 - i);
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, members, even, &group));
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
  check_i64("only members get a communicator", check_state.rank % 2 == 0, comm != MPI_COMM_NULL);
  if (comm != MPI_COMM_NULL) {
    check_members("create", comm, even, members);
    OK(MPI_Comm_free(&comm));
  }
  if (check_state.rank % 2 == 0) {
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 17, &comm));
    check_members("create_group", comm, even, members);
    MPI_Group back = MPI_GROUP_NULL;
    int result = -1;
    OK(MPI_Comm_group(comm, &back));
    OK(MPI_Group_compare(group, back, &result));
    check_i64("the communicator's group", MPI_IDENT, result);
    OK(MPI_Group_free(&back));
    OK(MPI_Comm_free(&comm));
  }
  OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
  check_true("an empty group gives no communicator", comm == MPI_COMM_NULL);
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&world));
  free(even);
  check_section("create");
}

static int refuse_to_copy(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_ERR_OTHER;
}

/** A duplicate is MPI_COMM_NULL if the copy function of an attribute fails. */
static void test_failing_dup(void) {
  check_context("failing dup");
  MPI_Comm comm = MPI_COMM_NULL;
  int key = MPI_KEYVAL_INVALID;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  OK(MPI_Comm_create_keyval(refuse_to_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  OK(MPI_Comm_set_attr(comm, key, &key));
  for (int with_info = 0; with_info < 2; ++with_info) {
    MPI_Comm copy = MPI_COMM_WORLD;
    int code =
        with_info ? MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &copy) : MPI_Comm_dup(comm, &copy);
    int error_class = MPI_SUCCESS;
    OK(MPI_Error_class(code, &error_class));
    check_i64("error class", MPI_ERR_OTHER, error_class);
    check_true("no communicator", copy == MPI_COMM_NULL);
  }
  OK(MPI_Comm_delete_attr(comm, key));
  OK(MPI_Comm_free_keyval(&key));
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_dup(comm, &copy));
  check_i64("size of a later copy", check_state.size, size_of(copy));
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_free(&comm));
  check_section("failing dup");
}

/** Communicators drop info keys that the library does not know. */
static void test_info(void) {
  check_context("info");
  MPI_Info info = MPI_INFO_NULL, used = MPI_INFO_NULL;
  MPI_Comm comm = MPI_COMM_NULL, copy = MPI_COMM_NULL;
  char value[8] = "";
  int is_there = -1;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "a_key_of_the_program", "text"));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_info(comm, info));
  OK(MPI_Comm_dup(comm, &copy));
  for (int i = 0; i < 2; ++i) {
    OK(MPI_Comm_get_info(i == 0 ? comm : copy, &used));
    OK(MPI_Info_get(used, "a_key_of_the_program", 4, value, &is_there));
    check_i64("an unknown key is there", 0, is_there);
    OK(MPI_Info_free(&used));
  }
  OK(MPI_Info_dup(info, &used));
  OK(MPI_Info_free(&info));
  OK(MPI_Info_get(used, "a_key_of_the_program", 4, value, &is_there));
  check_i64("a copied info object has the key", 1, is_there);
  check_text("its value", "text", value);
  OK(MPI_Info_free(&used));
  OK(MPI_Comm_free(&copy));
  OK(MPI_Comm_free(&comm));
  check_section("info");
}

static void test_names(void) {
  check_context("names");
  char name[MPI_MAX_OBJECT_NAME] = "?";
  int length = -1;
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  check_text("world", "MPI_COMM_WORLD", name);
  check_i64("length", 14, length);
  OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
  check_text("self", "MPI_COMM_SELF", name);
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_get_name(comm, name, &length));
  check_text("a copy has no name", "", name);
  check_i64("length", 0, length);
  OK(MPI_Comm_set_name(comm, "north and south"));
  OK(MPI_Comm_get_name(comm, name, &length));
  check_text("name that was set", "north and south", name);
  check_i64("length", 15, length);
  char longest[MPI_MAX_OBJECT_NAME];
  memset(longest, 'x', sizeof longest);
  longest[MPI_MAX_OBJECT_NAME - 1] = '\0';
  OK(MPI_Comm_set_name(comm, longest));
  OK(MPI_Comm_get_name(comm, name, &length));
  check_text("longest name", longest, name);
  OK(MPI_Comm_set_name(comm, ""));
  OK(MPI_Comm_get_name(comm, name, &length));
  check_text("name taken away", "", name);
  OK(MPI_Comm_free(&comm));
  OK(MPI_Comm_set_name(MPI_COMM_WORLD, "renamed"));
  OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
  check_text("world renamed", "renamed", name);
  OK(MPI_Comm_set_name(MPI_COMM_WORLD, "MPI_COMM_WORLD"));
  check_section("names");
}

/** Every rank is in two communicators of at most two members, which form a chain of all ranks. */
static void test_overlapping(void) {
  check_context("overlapping communicators");
  int n = check_state.size;
  MPI_Comm pair[2];
  for (int phase = 0; phase < 2; ++phase) {
    int color = ((check_state.rank + phase) % n) / 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, color, check_state.rank, &pair[phase]));
  }
  long long value = check_state.rank + 1;
  for (int round = 0; round < 20; ++round) {
    long long sum = 0;
    OK(MPI_Allreduce(&value, &sum, 1, MPI_LONG_LONG, MPI_SUM, pair[round % 2]));
    value = sum % 1000003 + round;
    check_true("value stays in range", value >= 0 && value < 1000003 + 20);
    check_state.digest = hash_step(check_state.digest, (uint64_t)value);
  }
  OK(MPI_Comm_free(&pair[0]));
  OK(MPI_Comm_free(&pair[1]));
  check_section("overlapping");
}

static void test_many(void) {
  enum { kRounds = 2000, kAlive = 64 };
  check_context("many communicators");
  MPI_Comm alive[kAlive];
  for (int i = 0; i < kAlive; ++i) alive[i] = MPI_COMM_NULL;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Comm* slot = &alive[round % kAlive];
    if (*slot != MPI_COMM_NULL) OK(MPI_Comm_free(slot));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, slot));
    if (round % 100 != 0) continue;
    int value = round + check_state.rank;
    OK(MPI_Bcast(&value, 1, MPI_INT, round % check_state.size, *slot));
    check_i64("broadcast", round + round % check_state.size, value);
  }
  for (int i = 0; i < kAlive; ++i) OK(MPI_Comm_free(&alive[i]));
  check_section("many");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  test_basics();
  test_dup();
  test_failing_dup();
  test_info();
  test_split();
  test_split_type();
  test_nested();
  test_create();
  test_names();
  test_overlapping();
  test_many();
  return check_end();
}
