// Conformance of intercommunicators, which are created from groups of several shapes, queried, used
// for messages and for every collective, duplicated, split and merged.

#include <mpi.h>

#include "check.h"
#include "inters.h"

static int compare(MPI_Comm a, MPI_Comm b) {
  int result = -1;
  OK(MPI_Comm_compare(a, b, &result));
  return result;
}

/** Requires that a group consists of these world ranks, in this order. */
static void check_group(const char* what, MPI_Group group, const int* expected, int count) {
  MPI_Group world;
  int size = -1;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_size(group, &size));
  check_i64(what, count, size);
  int* ranks = new_ints(count);
  int* got = new_ints(count);
  for (int i = 0; i < count; ++i) ranks[i] = i;
  OK(MPI_Group_translate_ranks(group, count, ranks, world, got));
  check_ints(what, expected, got, count);
  OK(MPI_Group_free(&world));
  free(ranks);
  free(got);
}

static void check_what_it_is(const Inter* x, MPI_Comm comm) {
  int flag = -1;
  int value = -1;
  MPI_Group group;
  OK(MPI_Comm_test_inter(comm, &flag));
  check_i64("is an intercommunicator", 1, flag);
  OK(MPI_Comm_size(comm, &value));
  check_i64("size", x->own_count, value);
  OK(MPI_Comm_rank(comm, &value));
  check_i64("rank", x->me, value);
  OK(MPI_Comm_remote_size(comm, &value));
  check_i64("remote size", x->peer_count, value);
  OK(MPI_Comm_group(comm, &group));
  check_group("group", group, x->own, x->own_count);
  OK(MPI_Group_free(&group));
  OK(MPI_Comm_remote_group(comm, &group));
  check_group("remote group", group, x->peer, x->peer_count);
  OK(MPI_Group_free(&group));
}

// --- Messages

static void test_blocking(const Inter* x) {
  // Every rank of the first group sends to every rank of the second, and gets an answer.
  for (int i = 0; i < x->peer_count; ++i) {
    MPI_Status status;
    int got = -1;
    int mine = pattern(check_state.rank, x->peer[i], 1);
    int theirs = pattern(x->peer[i], check_state.rank, 1);
    if (x->in_first) {
      OK(MPI_Send(&mine, 1, MPI_INT, i, x->me + 5, x->comm));
      OK(MPI_Recv(&got, 1, MPI_INT, i, MPI_ANY_TAG, x->comm, &status));
      check_i64("tag", i + 50, status.MPI_TAG);
    } else {
      OK(MPI_Recv(&got, 1, MPI_INT, i, i + 5, x->comm, &status));
      OK(MPI_Ssend(&mine, 1, MPI_INT, i, x->me + 50, x->comm));
      check_i64("tag", i + 5, status.MPI_TAG);
    }
    check_i64("value", theirs, got);
    check_i64("source", i, status.MPI_SOURCE);
  }
}

static void test_wildcards(const Inter* x) {
  int* seen = new_ints(x->peer_count);
  MPI_Request* requests = (MPI_Request*)malloc(sizeof(MPI_Request) * (size_t)x->peer_count);
  int* mine = new_ints(x->peer_count);
  for (int i = 0; i < x->peer_count; ++i) {
    mine[i] = pattern(check_state.rank, x->peer[i], 2);
    OK(MPI_Isend(&mine[i], 1, MPI_INT, i, 7, x->comm, &requests[i]));
  }
  for (int i = 0; i < x->peer_count; ++i) {
    MPI_Status status;
    MPI_Status probed;
    int got = -1;
    OK(MPI_Probe(MPI_ANY_SOURCE, 7, x->comm, &probed));
    OK(MPI_Recv(&got, 1, MPI_INT, probed.MPI_SOURCE, 7, x->comm, &status));
    check_true("the probed source", status.MPI_SOURCE == probed.MPI_SOURCE);
    check_true("a rank of the other group",
               status.MPI_SOURCE >= 0 && status.MPI_SOURCE < x->peer_count);
    check_true("value", got == pattern(x->peer[status.MPI_SOURCE], check_state.rank, 2));
    seen[status.MPI_SOURCE]++;
  }
  for (int i = 0; i < x->peer_count; ++i) check_i64("one of each", 1, seen[i]);
  OK(MPI_Waitall(x->peer_count, requests, MPI_STATUSES_IGNORE));
  free(seen);
  free(requests);
  free(mine);
}

static void test_requests(const Inter* x) {
  const int to = x->me % x->peer_count;
  int got[2] = {-1, -1};
  int mine = check_state.rank;
  int flag = 0;
  MPI_Status status;
  // A persistent receive is started for each partner; another receive gets no message and is
  // cancelled.
  int from = 0;
  for (int i = 0; i < x->peer_count; ++i) from += i % x->own_count == x->me;
  MPI_Request receive;
  OK(MPI_Recv_init(got, 1, MPI_INT, MPI_ANY_SOURCE, 9, x->comm, &receive));
  OK(MPI_Send(&mine, 1, MPI_INT, to, 9, x->comm));
  int sum = 0;
  for (int i = 0; i < from; ++i) {
    OK(MPI_Start(&receive));
    OK(MPI_Wait(&receive, &status));
    check_true("persistent", got[0] == x->peer[status.MPI_SOURCE]);
    sum += got[0];
  }
  int expected = 0;
  for (int i = 0; i < x->peer_count; ++i) {
    if (i % x->own_count == x->me) expected += x->peer[i];
  }
  check_i64("all of them", expected, sum);
  OK(MPI_Request_free(&receive));
  OK(MPI_Irecv(&got[1], 1, MPI_INT, 0, 99, x->comm, &receive));
  OK(MPI_Cancel(&receive));
  OK(MPI_Wait(&receive, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  check_i64("cancelled", 1, flag);
  OK(MPI_Recv(got, 1, MPI_INT, MPI_PROC_NULL, 0, x->comm, &status));
  check_i64("from MPI_PROC_NULL", MPI_PROC_NULL, status.MPI_SOURCE);
  OK(MPI_Send(got, 1, MPI_INT, MPI_PROC_NULL, 0, x->comm));
}

static void test_sendrecv(const Inter* x) {
  // Ranks with the same number in both groups are partners; the others have none.
  const int partner = x->me < x->peer_count ? x->me : MPI_PROC_NULL;
  int mine = 100 + check_state.rank;
  int got = -7;
  MPI_Status status;
  OK(MPI_Sendrecv(&mine, 1, MPI_INT, partner, 3, &got, 1, MPI_INT, partner, 3, x->comm, &status));
  check_i64("sendrecv", partner == MPI_PROC_NULL ? -7 : 100 + x->peer[partner], got);
  check_i64("source", partner, status.MPI_SOURCE);
  OK(MPI_Sendrecv_replace(&mine, 1, MPI_INT, partner, 4, partner, 4, x->comm, &status));
  check_i64("replaced", partner == MPI_PROC_NULL ? 100 + check_state.rank : 100 + x->peer[partner],
            mine);
  if (partner != MPI_PROC_NULL) {
    MPI_Message message;
    int count = -1;
    OK(MPI_Send(&mine, 1, MPI_INT, partner, 6, x->comm));
    OK(MPI_Mprobe(partner, 6, x->comm, &message, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    check_i64("probed count", 1, count);
    OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
    check_i64("matched", 100 + check_state.rank, got);
    check_i64("source of a match", partner, status.MPI_SOURCE);
  }
}

// --- Communicators made from intercommunicators

static int copied;
static int copy_counted(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)comm;
  (void)keyval;
  (void)extra;
  *(void**)out = in;
  *flag = 1;
  copied++;
  return MPI_SUCCESS;
}

static void test_dup(const Inter* x, int nonblocking) {
  MPI_Comm copy;
  int keyval = MPI_KEYVAL_INVALID;
  int flag = 0;
  void* value = NULL;
  copied = 0;
  OK(MPI_Comm_create_keyval(copy_counted, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
  OK(MPI_Comm_set_attr(x->comm, keyval, &copied));
  if (nonblocking) {
    MPI_Request request = MPI_REQUEST_NULL;
    OK(MPI_Comm_idup(x->comm, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Comm_dup(x->comm, &copy));
  }
  check_i64("attributes copied", 1, copied);
  OK(MPI_Comm_get_attr(copy, keyval, &value, &flag));
  check_true("the attribute", flag && value == &copied);
  OK(MPI_Comm_delete_attr(x->comm, keyval));
  OK(MPI_Comm_free_keyval(&keyval));
  check_i64("a copy", MPI_CONGRUENT, compare(copy, x->comm));
  check_i64("itself", MPI_IDENT, compare(x->comm, x->comm));
  check_i64("against the world", MPI_UNEQUAL, compare(x->comm, MPI_COMM_WORLD));
  check_what_it_is(x, copy);
  // Messages in a duplicate do not match those in the original.
  const int partner = x->me < x->peer_count ? x->me : MPI_PROC_NULL;
  int mine[2] = {1 + check_state.rank, 1000 + check_state.rank};
  int got[2] = {-1, -1};
  OK(MPI_Send(&mine[0], 1, MPI_INT, partner, 1, x->comm));
  OK(MPI_Send(&mine[1], 1, MPI_INT, partner, 1, copy));
  OK(MPI_Recv(&got[1], 1, MPI_INT, partner, 1, copy, MPI_STATUS_IGNORE));
  OK(MPI_Recv(&got[0], 1, MPI_INT, partner, 1, x->comm, MPI_STATUS_IGNORE));
  if (partner != MPI_PROC_NULL) {
    check_i64("in the original", 1 + x->peer[partner], got[0]);
    check_i64("in the copy", 1000 + x->peer[partner], got[1]);
  }
  OK(MPI_Comm_free(&copy));
}

static void test_merge(const Inter* x, int first_high) {
  MPI_Comm merged;
  const int n = check_state.size;
  const int high = x->in_first ? first_high : !first_high;
  OK(MPI_Intercomm_merge(x->comm, high, &merged));
  int flag = -1;
  int size = -1;
  int rank = -1;
  OK(MPI_Comm_test_inter(merged, &flag));
  check_i64("no intercommunicator", 0, flag);
  OK(MPI_Comm_size(merged, &size));
  check_i64("size", n, size);
  OK(MPI_Comm_rank(merged, &rank));
  check_i64("rank", high ? x->peer_count + x->me : x->me, rank);
  int* got = new_ints(n);
  int* expected = new_ints(n);
  for (int i = 0; i < x->own_count; ++i) expected[high ? x->peer_count + i : i] = x->own[i];
  for (int i = 0; i < x->peer_count; ++i) expected[high ? i : x->own_count + i] = x->peer[i];
  OK(MPI_Allgather(&check_state.rank, 1, MPI_INT, got, 1, MPI_INT, merged));
  check_ints("order", expected, got, n);
  OK(MPI_Comm_free(&merged));
  free(got);
  free(expected);
}

/** Splits each group into even and odd ranks, in reverse order. */
static void test_split(const Inter* x) {
  MPI_Comm part;
  OK(MPI_Comm_split(x->comm, x->me % 2, -x->me, &part));
  int peers = 0;
  for (int i = 0; i < x->peer_count; ++i) peers += i % 2 == x->me % 2;
  if (peers == 0) {
    check_true("a colour of one side", part == MPI_COMM_NULL);
    return;
  }
  int value = -1;
  OK(MPI_Comm_remote_size(part, &value));
  check_i64("remote size of a part", peers, value);
  int* got = new_ints(peers);
  int* expected = new_ints(peers);
  int k = peers;
  for (int i = 0; i < x->peer_count; ++i) {
    if (i % 2 == x->me % 2) expected[--k] = x->peer[i];
  }
  OK(MPI_Allgather(&check_state.rank, 1, MPI_INT, got, 1, MPI_INT, part));
  check_ints("a part", expected, got, peers);
  OK(MPI_Comm_free(&part));
  free(got);
  free(expected);
}

/** Creates communicators without the last rank of each group that has others. */
static void test_create(const Inter* x) {
  MPI_Group all;
  MPI_Group some;
  MPI_Comm made;
  const int kept = x->own_count > 1 ? x->own_count - 1 : 1;
  const int peers = x->peer_count > 1 ? x->peer_count - 1 : 1;
  int* ranks = new_ints(kept);
  for (int i = 0; i < kept; ++i) ranks[i] = kept - 1 - i;
  OK(MPI_Comm_group(x->comm, &all));
  OK(MPI_Group_incl(all, kept, ranks, &some));
  OK(MPI_Comm_create(x->comm, some, &made));
  if (x->me >= kept) {
    check_true("left out", made == MPI_COMM_NULL);
  } else {
    int rank = -1;
    OK(MPI_Comm_rank(made, &rank));
    check_i64("rank in it", kept - 1 - x->me, rank);
    int* got = new_ints(peers);
    int* expected = new_ints(peers);
    for (int i = 0; i < peers; ++i) expected[i] = x->peer[peers - 1 - i];
    // Uses messages, because Open MPI's collectives hang on some of the communicators that it
    // creates.
    for (int i = 0; i < peers; ++i) OK(MPI_Send(&check_state.rank, 1, MPI_INT, i, 0, made));
    for (int i = 0; i < peers; ++i) {
      OK(MPI_Recv(&got[i], 1, MPI_INT, i, 0, made, MPI_STATUS_IGNORE));
    }
    check_ints("created", expected, got, peers);
    OK(MPI_Comm_free(&made));
    free(got);
    free(expected);
  }
  OK(MPI_Group_free(&some));
  OK(MPI_Group_free(&all));
  free(ranks);
}

// --- Errors

#define FAILS(expected, call) check_class(#call, expected, (call))
static void check_class(const char* what, int expected, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, expected, got);
}

static void test_errors(const Inter* x) {
  int value = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(x->comm, MPI_ERRORS_RETURN));
  FAILS(MPI_ERR_COMM, MPI_Comm_remote_size(MPI_COMM_NULL, &value));
  FAILS(MPI_ERR_COMM, MPI_Comm_test_inter(MPI_COMM_NULL, &value));
  FAILS(MPI_ERR_COMM, MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm));
  FAILS(MPI_ERR_COMM, MPI_Intercomm_merge(MPI_COMM_NULL, 0, &comm));
  FAILS(MPI_ERR_COMM, MPI_Intercomm_create(x->comm, 0, MPI_COMM_WORLD, 0, 1, &comm));
  FAILS(MPI_ERR_COMM, MPI_Cart_create(x->comm, 1, &value, &value, 0, &comm));
  FAILS(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, x->peer_count, 0, x->comm));
  FAILS(MPI_ERR_RANK, MPI_Recv(&value, 1, MPI_INT, x->peer_count, 0, x->comm, MPI_STATUS_IGNORE));
  FAILS(MPI_ERR_ROOT, MPI_Bcast(&value, 1, MPI_INT, x->peer_count, x->comm));
  FAILS(MPI_ERR_ROOT, MPI_Reduce(&value, &value, 1, MPI_INT, MPI_SUM, -77, x->comm));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Comm_set_errhandler(x->comm, MPI_ERRORS_ARE_FATAL));
}

static void test(const char* name, Side* side, int descending, int leaders_last) {
  check_context("%s", name);
  Inter x = open_inter(side, descending, leaders_last);
  check_what_it_is(&x, x.comm);
  test_blocking(&x);
  test_wildcards(&x);
  test_requests(&x);
  test_sendrecv(&x);
  test_dup(&x, 0);
  test_dup(&x, 1);
  test_merge(&x, 0);
  test_merge(&x, 1);
  test_split(&x);
  test_create(&x);
  test_errors(&x);
  close_inter(&x);
  check_section(name);
}

/** The same leaders create two intercommunicators at once, distinguished by the tag. */
static void test_two_at_once(void) {
  check_context("two at once");
  MPI_Comm peer;
  MPI_Comm local;
  MPI_Comm inter[2];
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &peer));
  const int mine = by_parity(check_state.rank);
  OK(MPI_Comm_split(MPI_COMM_WORLD, mine, check_state.rank, &local));
  for (int i = 0; i < 2; ++i) {
    OK(MPI_Intercomm_create(local, 0, peer, !mine, i, &inter[i]));
  }
  OK(MPI_Comm_free(&local));
  OK(MPI_Comm_free(&peer));
  for (int i = 0; i < 2; ++i) {
    int sum = -1;
    int expected = 0;
    for (int r = !mine; r < check_state.size; r += 2) expected += r * (i + 1);
    int value = check_state.rank * (i + 1);
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter[i]));
    check_i64("sum of the others", expected, sum);
  }
  OK(MPI_Comm_free(&inter[1]));
  OK(MPI_Comm_disconnect(&inter[0]));
  check_section("two at once");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  test("halves", by_half, 0, 0);
  test("descending", by_half, 1, 1);
  test("parity", by_parity, 0, 1);
  test("one against all", one_against_all, 1, 0);
  test_two_at_once();
  return check_end();
}
