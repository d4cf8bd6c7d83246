// Conformance of argument errors outside of collectives: messages, requests, probes, types, groups,
// communicators, operations, info objects, attributes. Each wrong call returns an error of the
// class that MPI 3.1 names, and the job continues.
//
// errors_arguments [all]: `all` adds calls, marked by HERE, that Open MPI does not check, crashes
// in, or refuses with another class. They are tested with Rejoin's library only.

#include <mpi.h>

#include "check.h"

static int all;

#define REFUSED(expected, call) check_class(#call, expected, (call))
#define HERE(expected, call)                       \
  do {                                             \
    if (all) check_class(#call, expected, (call)); \
  } while (0)
static void check_class(const char* what, int expected, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, expected, got);
}

/** Passes wrong values for each of the arguments that all sends have in common. */
#define WRONG_SENDS_BUT_BUFFERS(f, ...)                                                \
  do {                                                                                 \
    REFUSED(MPI_ERR_COUNT, f(&x, -1, MPI_INT, 0, 0, world, ##__VA_ARGS__));            \
    REFUSED(MPI_ERR_TYPE, f(&x, 1, null_type, 0, 0, world, ##__VA_ARGS__));            \
    REFUSED(MPI_ERR_TAG, f(&x, 1, MPI_INT, 0, -1, world, ##__VA_ARGS__));              \
    REFUSED(MPI_ERR_TAG, f(&x, 1, MPI_INT, 0, MPI_ANY_TAG, world, ##__VA_ARGS__));     \
    REFUSED(MPI_ERR_RANK, f(&x, 1, MPI_INT, n, 0, world, ##__VA_ARGS__));              \
    REFUSED(MPI_ERR_RANK, f(&x, 1, MPI_INT, -77, 0, world, ##__VA_ARGS__));            \
    REFUSED(MPI_ERR_RANK, f(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, ##__VA_ARGS__)); \
    REFUSED(MPI_ERR_COMM, f(&x, 1, MPI_INT, 0, 0, null_comm, ##__VA_ARGS__));          \
  } while (0)

#define WRONG_SENDS(f, ...)                                                   \
  do {                                                                        \
    WRONG_SENDS_BUT_BUFFERS(f, ##__VA_ARGS__);                                \
    REFUSED(MPI_ERR_TYPE, f(&x, 1, uncommitted, 0, 0, world, ##__VA_ARGS__)); \
    REFUSED(MPI_ERR_BUFFER, f(NULL, 1, MPI_INT, 0, 0, world, ##__VA_ARGS__)); \
  } while (0)

/** Open MPI checks the buffers of persistent sends only when they are started. */
#define WRONG_INITS(f)                                          \
  do {                                                          \
    WRONG_SENDS_BUT_BUFFERS(f, &r);                             \
    HERE(MPI_ERR_TYPE, f(&x, 1, uncommitted, 0, 0, world, &r)); \
    HERE(MPI_ERR_BUFFER, f(NULL, 1, MPI_INT, 0, 0, world, &r)); \
  } while (0)

#define kWorld MPI_COMM_WORLD

static void test_sends(void) {
  check_context("sends");
  const MPI_Comm world = kWorld;
  const MPI_Comm null_comm = MPI_COMM_NULL;
  const MPI_Datatype null_type = MPI_DATATYPE_NULL;
  const int n = check_state.size;
  MPI_Datatype uncommitted;
  MPI_Request r = MPI_REQUEST_NULL;
  int x = 0;
  OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
  char buffer[1000];
  OK(MPI_Buffer_attach(buffer, sizeof buffer));
  WRONG_SENDS(MPI_Send);
  WRONG_SENDS(MPI_Ssend);
  WRONG_SENDS(MPI_Bsend);
  WRONG_SENDS(MPI_Rsend);
  WRONG_SENDS(MPI_Isend, &r);
  WRONG_SENDS(MPI_Issend, &r);
  WRONG_SENDS(MPI_Ibsend, &r);
  WRONG_SENDS(MPI_Irsend, &r);
  WRONG_SENDS(MPI_Send_init, &r);
  WRONG_INITS(MPI_Ssend_init);
  WRONG_INITS(MPI_Bsend_init);
  WRONG_INITS(MPI_Rsend_init);
  check_true("no request was made", r == MPI_REQUEST_NULL);
  void* detached = NULL;
  int bytes = 0;
  OK(MPI_Buffer_detach(&detached, &bytes));
  HERE(MPI_ERR_BUFFER, MPI_Bsend(&x, 1, MPI_INT, 0, 0, world));
  OK(MPI_Type_free(&uncommitted));
  check_section("sends");
}

#define WRONG_RECEIVES(f, ...)                                                \
  do {                                                                        \
    REFUSED(MPI_ERR_COUNT, f(&x, -1, MPI_INT, 0, 0, world, ##__VA_ARGS__));   \
    REFUSED(MPI_ERR_TYPE, f(&x, 1, null_type, 0, 0, world, ##__VA_ARGS__));   \
    REFUSED(MPI_ERR_TYPE, f(&x, 1, uncommitted, 0, 0, world, ##__VA_ARGS__)); \
    REFUSED(MPI_ERR_TAG, f(&x, 1, MPI_INT, 0, -77, world, ##__VA_ARGS__));    \
    REFUSED(MPI_ERR_RANK, f(&x, 1, MPI_INT, n, 0, world, ##__VA_ARGS__));     \
    REFUSED(MPI_ERR_RANK, f(&x, 1, MPI_INT, -77, 0, world, ##__VA_ARGS__));   \
    REFUSED(MPI_ERR_COMM, f(&x, 1, MPI_INT, 0, 0, null_comm, ##__VA_ARGS__)); \
    REFUSED(MPI_ERR_BUFFER, f(NULL, 1, MPI_INT, 0, 0, world, ##__VA_ARGS__)); \
  } while (0)

#define WRONG_PROBES(f, ...)                                \
  do {                                                      \
    REFUSED(MPI_ERR_TAG, f(0, -77, world, ##__VA_ARGS__));  \
    REFUSED(MPI_ERR_RANK, f(n, 0, world, ##__VA_ARGS__));   \
    REFUSED(MPI_ERR_RANK, f(-77, 0, world, ##__VA_ARGS__)); \
    HERE(MPI_ERR_COMM, f(0, 0, null_comm, ##__VA_ARGS__));  \
  } while (0)

static void test_receives(void) {
  check_context("receives");
  const MPI_Comm world = kWorld;
  const MPI_Comm null_comm = MPI_COMM_NULL;
  const MPI_Datatype null_type = MPI_DATATYPE_NULL;
  const int n = check_state.size;
  MPI_Status* const ignore = MPI_STATUS_IGNORE;
  MPI_Datatype uncommitted;
  MPI_Request r = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = 0;
  int x = 0;
  int y = 0;
  OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
  WRONG_RECEIVES(MPI_Recv, ignore);
  WRONG_RECEIVES(MPI_Irecv, &r);
  WRONG_RECEIVES(MPI_Recv_init, &r);
  WRONG_PROBES(MPI_Probe, ignore);
  WRONG_PROBES(MPI_Iprobe, &flag, ignore);
  WRONG_PROBES(MPI_Mprobe, &message, ignore);
  WRONG_PROBES(MPI_Improbe, &flag, &message, ignore);
  HERE(MPI_ERR_REQUEST, MPI_Mrecv(&x, 1, MPI_INT, &message, ignore));
  HERE(MPI_ERR_REQUEST, MPI_Imrecv(&x, 1, MPI_INT, &message, &r));
  REFUSED(MPI_ERR_COUNT, MPI_Sendrecv(&x, -1, MPI_INT, 0, 0, &y, 1, MPI_INT, 0, 0, world, ignore));
  REFUSED(MPI_ERR_RANK, MPI_Sendrecv(&x, 1, MPI_INT, n, 0, &y, 1, MPI_INT, 0, 0, world, ignore));
  REFUSED(MPI_ERR_TAG, MPI_Sendrecv(&x, 1, MPI_INT, 0, -1, &y, 1, MPI_INT, 0, 0, world, ignore));
  REFUSED(MPI_ERR_TYPE,
          MPI_Sendrecv(&x, 1, MPI_INT, 0, 0, &y, 1, uncommitted, 0, 0, world, ignore));
  REFUSED(MPI_ERR_RANK, MPI_Sendrecv(&x, 1, MPI_INT, 0, 0, &y, 1, MPI_INT, n, 0, world, ignore));
  REFUSED(MPI_ERR_COMM,
          MPI_Sendrecv(&x, 1, MPI_INT, 0, 0, &y, 1, MPI_INT, 0, 0, null_comm, ignore));
  REFUSED(MPI_ERR_COUNT, MPI_Sendrecv_replace(&x, -1, MPI_INT, 0, 0, 0, 0, world, ignore));
  REFUSED(MPI_ERR_TYPE, MPI_Sendrecv_replace(&x, 1, null_type, 0, 0, 0, 0, world, ignore));
  REFUSED(MPI_ERR_RANK, MPI_Sendrecv_replace(&x, 1, MPI_INT, n, 0, 0, 0, world, ignore));
  REFUSED(MPI_ERR_RANK, MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, n, 0, world, ignore));
  REFUSED(MPI_ERR_TAG, MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, -1, 0, 0, world, ignore));
  REFUSED(MPI_ERR_COMM, MPI_Sendrecv_replace(&x, 1, MPI_INT, 0, 0, 0, 0, null_comm, ignore));
  check_true("no request was made", r == MPI_REQUEST_NULL);
  OK(MPI_Type_free(&uncommitted));
  check_section("receives");
}

/** Must be called after a receive of one element of `x` into `y`. Receives messages that are too
 * long. */
static void test_truncated_requests(const int* x, int* y) {
  const MPI_Comm self = MPI_COMM_SELF;
  MPI_Status statuses[2];
  MPI_Request r[2];
  check_i64("what fits is received", 1, y[0]);
  check_i64("and no more", 0, y[1]);
  OK(MPI_Irecv(y, 1, MPI_INT, 0, 1, self, &r[0]));
  OK(MPI_Send(x, 2, MPI_INT, 0, 1, self));
  REFUSED(MPI_ERR_TRUNCATE, MPI_Wait(&r[0], MPI_STATUS_IGNORE));
  OK(MPI_Irecv(y, 1, MPI_INT, 0, 2, self, &r[0]));
  OK(MPI_Irecv(&y[1], 1, MPI_INT, 0, 3, self, &r[1]));
  OK(MPI_Send(x, 2, MPI_INT, 0, 2, self));
  OK(MPI_Send(x, 1, MPI_INT, 0, 3, self));
  REFUSED(MPI_ERR_IN_STATUS, MPI_Waitall(2, r, statuses));
  REFUSED(MPI_ERR_TRUNCATE, statuses[0].MPI_ERROR);
  OK(statuses[1].MPI_ERROR);
}

static void test_truncation(void) {
  check_context("truncation");
  const MPI_Comm self = MPI_COMM_SELF;
  int x[2] = {1, 2};
  int y[2] = {0, 0};
  MPI_Request r;
  OK(MPI_Isend(x, 2, MPI_INT, 0, 0, self, &r));
  REFUSED(MPI_ERR_TRUNCATE, MPI_Recv(y, 1, MPI_INT, 0, 0, self, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  if (all) test_truncated_requests(x, y);
  check_section("truncation");
}

static void test_requests(void) {
  check_context("requests");
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Request r = MPI_REQUEST_NULL;
  MPI_Status status;
  int flag = 0;
  int index = 0;
  int x = 0;
  REFUSED(MPI_ERR_REQUEST, MPI_Start(&none));
  REFUSED(MPI_ERR_REQUEST, MPI_Startall(1, &none));
  REFUSED(MPI_ERR_REQUEST, MPI_Grequest_complete(none));
  HERE(MPI_ERR_ARG, MPI_Grequest_start(NULL, NULL, NULL, NULL, &none));
  REFUSED(MPI_ERR_REQUEST, MPI_Cancel(&none));
  REFUSED(MPI_ERR_REQUEST, MPI_Request_free(&none));
  REFUSED(MPI_ERR_REQUEST, MPI_Wait(NULL, &status));
  REFUSED(MPI_ERR_REQUEST, MPI_Test(NULL, &flag, &status));
  REFUSED(MPI_ERR_REQUEST, MPI_Waitall(1, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Waitall(-1, &none, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testany(-1, &none, &index, &flag, &status));
  OK(MPI_Recv_init(&x, 1, MPI_INT, MPI_PROC_NULL, 0, kWorld, &r));
  HERE(MPI_ERR_REQUEST, MPI_Grequest_complete(r));
  OK(MPI_Start(&r));
  OK(MPI_Wait(&r, &status));
  OK(MPI_Request_free(&r));
  OK(MPI_Recv_init(&x, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &r));
  OK(MPI_Start(&r));
  HERE(MPI_ERR_REQUEST, MPI_Start(&r));
  OK(MPI_Cancel(&r));
  OK(MPI_Wait(&r, &status));
  MPI_Request stale = r;
  OK(MPI_Request_free(&r));
  HERE(MPI_ERR_REQUEST, MPI_Wait(&stale, &status));
  HERE(MPI_ERR_REQUEST, MPI_Request_free(&stale));
  REFUSED(MPI_ERR_TYPE, MPI_Get_count(&status, MPI_DATATYPE_NULL, &x));
  REFUSED(MPI_ERR_TYPE, MPI_Get_elements(&status, MPI_DATATYPE_NULL, &x));
  REFUSED(MPI_ERR_TYPE, MPI_Status_set_elements(&status, MPI_DATATYPE_NULL, 1));
  check_section("requests");
}

static int refuse_to_copy(MPI_Datatype type, int keyval, void* extra, void* in, void* out,
                          int* flag) {
  (void)type, (void)keyval, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_ERR_OTHER;
}

/** Passes freed keyvals of datatypes, and keyvals of other objects. */
static void test_type_attributes(void) {
  check_context("attributes of types");
  const MPI_Datatype null_type = MPI_DATATYPE_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  int invalid = MPI_KEYVAL_INVALID;
  int keyval = MPI_KEYVAL_INVALID;
  int windows = MPI_KEYVAL_INVALID;
  void* value = NULL;
  int x = 0;
  REFUSED(MPI_ERR_ARG, MPI_Type_create_keyval(NULL, MPI_TYPE_NULL_DELETE_FN, &keyval, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, NULL, &keyval, NULL));
  OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keyval, NULL));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &windows, NULL));
  REFUSED(MPI_ERR_TYPE, MPI_Type_set_attr(null_type, keyval, value));
  REFUSED(MPI_ERR_TYPE, MPI_Type_get_attr(null_type, keyval, &value, &x));
  REFUSED(MPI_ERR_TYPE, MPI_Type_delete_attr(null_type, keyval));
  HERE(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, invalid, value));
  HERE(MPI_ERR_KEYVAL, MPI_Type_get_attr(MPI_INT, invalid, &value, &x));
  HERE(MPI_ERR_KEYVAL, MPI_Type_delete_attr(MPI_INT, invalid));
  HERE(MPI_ERR_KEYVAL, MPI_Type_free_keyval(&invalid));
  HERE(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, windows, value));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_set_attr(kWorld, keyval, value));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&keyval));
  HERE(MPI_ERR_KEYVAL, MPI_Type_free_keyval(&windows));
  HERE(MPI_ERR_KEYVAL, MPI_Type_get_attr(MPI_INT, MPI_TAG_UB, &value, &x));
  OK(MPI_Win_free_keyval(&windows));
  invalid = keyval;
  OK(MPI_Type_free_keyval(&keyval));
  HERE(MPI_ERR_KEYVAL, MPI_Type_set_attr(MPI_INT, invalid, value));
  OK(MPI_Type_create_keyval(refuse_to_copy, MPI_TYPE_NULL_DELETE_FN, &keyval, NULL));
  OK(MPI_Type_contiguous(2, MPI_INT, &type));
  OK(MPI_Type_set_attr(type, keyval, value));
  HERE(MPI_ERR_OTHER, MPI_Type_dup(type, &copy));
  if (all) check_true("no copy was made", copy == MPI_DATATYPE_NULL);
  OK(MPI_Type_free(&type));
  OK(MPI_Type_free_keyval(&keyval));
  check_section("attributes of types");
}

static void test_types(void) {
  check_context("types");
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Datatype null_type = MPI_DATATYPE_NULL;
  MPI_Aint bound = 0;
  MPI_Aint extent = 0;
  int one = 1;
  int negative = -1;
  int x = 0;
  int position = 0;
  char text[MPI_MAX_OBJECT_NAME];
  REFUSED(MPI_ERR_TYPE, MPI_Type_commit(&null_type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_free(&null_type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_dup(null_type, &type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_get_extent(null_type, &bound, &extent));
  REFUSED(MPI_ERR_TYPE, MPI_Type_size(null_type, &x));
  REFUSED(MPI_ERR_TYPE, MPI_Type_vector(1, 1, 1, null_type, &type));
  REFUSED(MPI_ERR_COUNT, MPI_Type_vector(-1, 1, 1, MPI_INT, &type));
  REFUSED(MPI_ERR_ARG, MPI_Type_vector(1, -1, 1, MPI_INT, &type));
  REFUSED(MPI_ERR_COUNT, MPI_Type_indexed(-1, &one, &one, MPI_INT, &type));
  REFUSED(MPI_ERR_ARG, MPI_Type_indexed(1, &negative, &one, MPI_INT, &type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_create_resized(null_type, 0, 4, &type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_set_name(null_type, "x"));
  HERE(MPI_ERR_TYPE, MPI_Type_get_name(NULL, text, &x));
  HERE(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type));
  HERE(MPI_ERR_COUNT, MPI_Pack_size(-1, MPI_INT, kWorld, &x));
  REFUSED(MPI_ERR_TYPE, MPI_Pack_size(1, null_type, kWorld, &x));
  REFUSED(MPI_ERR_COMM, MPI_Pack_size(1, MPI_INT, MPI_COMM_NULL, &x));
  REFUSED(MPI_ERR_TRUNCATE, MPI_Pack(&one, 1, MPI_INT, text, 2, &position, kWorld));
  REFUSED(MPI_ERR_TRUNCATE, MPI_Unpack(text, 2, &position, &x, 1, MPI_INT, kWorld));
  OK(MPI_Type_contiguous(2, MPI_INT, &type));
  MPI_Datatype stale = type;
  OK(MPI_Type_free(&type));
  HERE(MPI_ERR_TYPE, MPI_Type_commit(&stale));
  HERE(MPI_ERR_TYPE, MPI_Send(&x, 1, stale, 0, 0, kWorld));
  check_section("types");
}

static void test_groups(void) {
  check_context("groups");
  const MPI_Group null_group = MPI_GROUP_NULL;
  MPI_Group none = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  const int n = check_state.size;
  int outside = n;
  int twice[2] = {0, 0};
  int endless[1][3] = {{0, n, 0}};
  int upward[1][3] = {{n - 1, 0, 1}};
  int downward[1][3] = {{0, n - 1, -1}};
  int x = 0;
  OK(MPI_Comm_group(kWorld, &world));
  REFUSED(MPI_ERR_GROUP, MPI_Group_rank(null_group, &x));
  REFUSED(MPI_ERR_GROUP, MPI_Group_size(null_group, &x));
  REFUSED(MPI_ERR_GROUP, MPI_Group_union(null_group, world, &group));
  REFUSED(MPI_ERR_GROUP, MPI_Group_intersection(world, null_group, &group));
  REFUSED(MPI_ERR_GROUP, MPI_Group_difference(null_group, world, &group));
  REFUSED(MPI_ERR_GROUP, MPI_Group_compare(world, null_group, &x));
  REFUSED(MPI_ERR_GROUP, MPI_Group_incl(null_group, 1, &x, &group));
  REFUSED(MPI_ERR_GROUP, MPI_Group_free(&none));
  REFUSED(MPI_ERR_RANK, MPI_Group_incl(world, 1, &outside, &group));
  HERE(MPI_ERR_RANK, MPI_Group_incl(world, 2, twice, &group));
  HERE(MPI_ERR_RANK, MPI_Group_range_incl(world, 1, endless, &group));
  if (n > 1) {
    REFUSED(MPI_ERR_RANK, MPI_Group_range_incl(world, 1, upward, &group));
    REFUSED(MPI_ERR_RANK, MPI_Group_range_excl(world, 1, downward, &group));
  }
  HERE(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, &outside, world, &x));
  HERE(MPI_ERR_GROUP, MPI_Group_translate_ranks(null_group, 1, &x, world, &x));
  MPI_Group stale = world;
  OK(MPI_Group_free(&world));
  HERE(MPI_ERR_GROUP, MPI_Group_size(stale, &x));
  check_section("groups");
}

static void test_communicators(void) {
  check_context("communicators");
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm null_comm = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  int invalid = MPI_KEYVAL_INVALID;
  int flag = 0;
  int x = 0;
  char text[MPI_MAX_OBJECT_NAME];
  void* value = NULL;
  REFUSED(MPI_ERR_COMM, MPI_Comm_set_name(null_comm, "x"));
  REFUSED(MPI_ERR_COMM, MPI_Comm_group(null_comm, &group));
  REFUSED(MPI_ERR_COMM, MPI_Comm_set_errhandler(null_comm, MPI_ERRORS_RETURN));
  REFUSED(MPI_ERR_COMM, MPI_Comm_get_errhandler(null_comm, &handler));
  REFUSED(MPI_ERR_ARG, MPI_Comm_set_errhandler(kWorld, handler));
  REFUSED(MPI_ERR_ARG, MPI_Errhandler_free(&handler));
  REFUSED(MPI_ERR_COMM, MPI_Comm_test_inter(null_comm, &flag));
  REFUSED(MPI_ERR_COMM, MPI_Comm_remote_size(null_comm, &x));
  HERE(MPI_ERR_COMM, MPI_Comm_remote_size(kWorld, &x));
  HERE(MPI_ERR_COMM, MPI_Comm_remote_group(kWorld, &group));
  REFUSED(MPI_ERR_COMM, MPI_Intercomm_merge(kWorld, 0, &comm));
  HERE(MPI_ERR_RANK, MPI_Intercomm_create(MPI_COMM_SELF, 1, kWorld, 0, 0, &comm));
  HERE(MPI_ERR_TAG, MPI_Intercomm_create(MPI_COMM_SELF, 0, kWorld, 0, -1, &comm));
  HERE(MPI_ERR_RANK, MPI_Intercomm_create(MPI_COMM_SELF, 0, kWorld, 1000, 0, &comm));
  HERE(MPI_ERR_COMM, MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_NULL, 0, 0, &comm));
  HERE(MPI_ERR_COMM, MPI_Intercomm_create(MPI_COMM_SELF, 0, kWorld, check_state.rank, 0, &comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_create_group(null_comm, group, 0, &comm));
  HERE(MPI_ERR_GROUP, MPI_Comm_create_group(kWorld, MPI_GROUP_NULL, 0, &comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_get_attr(null_comm, MPI_TAG_UB, &value, &flag));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_get_attr(kWorld, invalid, &value, &flag));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_set_attr(kWorld, invalid, value));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(kWorld, invalid));
  HERE(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&invalid));
  HERE(MPI_ERR_COMM, MPI_Comm_get_name(NULL, text, &x));
  OK(MPI_Comm_dup(kWorld, &comm));
  MPI_Comm stale = comm;
  OK(MPI_Comm_free(&comm));
  HERE(MPI_ERR_COMM, MPI_Barrier(stale));
  HERE(MPI_ERR_COMM, MPI_Send(&x, 1, MPI_INT, 0, 0, stale));
  HERE(MPI_ERR_COMM, MPI_Comm_free(&stale));
  check_section("communicators");
}

/** Calls collectives of an intercommunicator whose first group is rank 0. */
static void test_between_groups(void) {
  check_context("between groups");
  const int mine = check_state.rank == 0;
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Request r = MPI_REQUEST_NULL;
  int in[2] = {1, 1};
  int out[2] = {0, 0};
  OK(MPI_Comm_split(kWorld, mine, 0, &local));
  OK(MPI_Intercomm_create(local, 0, kWorld, mine ? 1 : 0, 3, &inter));
  OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
  REFUSED(MPI_ERR_ROOT, MPI_Ibcast(in, 1, MPI_INT, check_state.size, inter, &r));
  REFUSED(MPI_ERR_COUNT, MPI_Iallreduce(in, out, -1, MPI_INT, MPI_SUM, inter, &r));
  REFUSED(MPI_ERR_BUFFER, MPI_Iallreduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, inter, &r));
  REFUSED(MPI_ERR_OP, MPI_Iallreduce(in, out, 1, MPI_INT, MPI_OP_NULL, inter, &r));
  REFUSED(MPI_ERR_TYPE, MPI_Iallgather(in, 1, MPI_DATATYPE_NULL, out, 1, MPI_INT, inter, &r));
  REFUSED(MPI_ERR_COMM, MPI_Iscan(in, out, 1, MPI_INT, MPI_SUM, inter, &r));
  REFUSED(MPI_ERR_ARG, MPI_Ibarrier(inter, NULL));
  check_true("no request was made", r == MPI_REQUEST_NULL);
  // The groups pass different counts, so one receives vectors that are too long, the other too
  // short.
  const int count = mine ? 1 : 2;
  const int expected = mine ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT;
  REFUSED(expected, MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, inter));
  OK(MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, inter, &r));
  REFUSED(expected, MPI_Wait(&r, MPI_STATUS_IGNORE));
  OK(MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, inter, &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  check_i64("the next one", mine ? check_state.size - 1 : 1, out[0]);
  OK(MPI_Comm_free(&inter));
  OK(MPI_Comm_free(&local));
  check_section("between groups");
}

static void test_others(void) {
  check_context("operations, info objects, codes");
  MPI_Op op = MPI_OP_NULL;
  MPI_Info null_info = MPI_INFO_NULL;
  MPI_Info info = MPI_INFO_NULL;
  char text[MPI_MAX_INFO_VAL + 10];
  char key[MPI_MAX_INFO_KEY + 10];
  int flag = 0;
  int x = 0;
  memset(text, 'v', sizeof text);
  memset(key, 'k', sizeof key);
  text[sizeof text - 1] = key[sizeof key - 1] = '\0';
  REFUSED(MPI_ERR_OP, MPI_Op_free(&op));
  REFUSED(MPI_ERR_OP, MPI_Op_commutative(MPI_OP_NULL, &flag));
  HERE(MPI_ERR_ARG, MPI_Op_create(NULL, 1, &op));
  REFUSED(MPI_ERR_INFO, MPI_Info_set(null_info, "a", "b"));
  REFUSED(MPI_ERR_INFO, MPI_Info_get_nkeys(null_info, &x));
  REFUSED(MPI_ERR_INFO, MPI_Info_free(&null_info));
  REFUSED(MPI_ERR_INFO, MPI_Info_dup(null_info, &info));
  OK(MPI_Info_create(&info));
  REFUSED(MPI_ERR_INFO_KEY, MPI_Info_set(info, key, "b"));
  REFUSED(MPI_ERR_INFO_VALUE, MPI_Info_set(info, "a", text));
  REFUSED(MPI_ERR_INFO_KEY, MPI_Info_get(info, key, 5, text, &flag));
  REFUSED(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "a"));
  REFUSED(MPI_ERR_INFO_KEY, MPI_Info_get_nthkey(info, 3, key));
  MPI_Info stale = info;
  OK(MPI_Info_free(&info));
  HERE(MPI_ERR_INFO, MPI_Info_set(stale, "a", "b"));
  HERE(MPI_ERR_ARG, MPI_Error_class(-5, &x));
  HERE(MPI_ERR_ARG, MPI_Add_error_string(MPI_ERR_COMM, "x"));
  HERE(MPI_ERR_ARG, MPI_Add_error_code(100000, &x));
  check_section("operations, info objects, codes");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  all = argc > 1;
  OK(MPI_Comm_set_errhandler(kWorld, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  test_sends();
  test_receives();
  test_truncation();
  test_requests();
  test_types();
  test_type_attributes();
  test_groups();
  test_communicators();
  test_others();
  if (all && check_state.size > 1) test_between_groups();
  int sum = 0;
  OK(MPI_Allreduce(&check_state.size, &sum, 1, MPI_INT, MPI_SUM, kWorld));
  check_i64("the job goes on", check_state.size * check_state.size, sum);
  return check_end();
}
