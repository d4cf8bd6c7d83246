// Conformance of errors: handlers of every kind, and the error classes of wrong arguments. Every
// rank makes all wrong calls, and they must be refused before anything is communicated.

#include <mpi.h>

#include "check.h"

typedef struct {
  const char* name;
  int value;
} ErrorClass;

#define CLASS(name) \
  { #name, name }
static const ErrorClass kClasses[] = {
    CLASS(MPI_SUCCESS),
    CLASS(MPI_ERR_BUFFER),
    CLASS(MPI_ERR_COUNT),
    CLASS(MPI_ERR_TYPE),
    CLASS(MPI_ERR_TAG),
    CLASS(MPI_ERR_COMM),
    CLASS(MPI_ERR_RANK),
    CLASS(MPI_ERR_REQUEST),
    CLASS(MPI_ERR_ROOT),
    CLASS(MPI_ERR_GROUP),
    CLASS(MPI_ERR_OP),
    CLASS(MPI_ERR_TOPOLOGY),
    CLASS(MPI_ERR_DIMS),
    CLASS(MPI_ERR_ARG),
    CLASS(MPI_ERR_UNKNOWN),
    CLASS(MPI_ERR_TRUNCATE),
    CLASS(MPI_ERR_OTHER),
    CLASS(MPI_ERR_INTERN),
    CLASS(MPI_ERR_IN_STATUS),
    CLASS(MPI_ERR_PENDING),
    CLASS(MPI_ERR_ACCESS),
    CLASS(MPI_ERR_AMODE),
    CLASS(MPI_ERR_ASSERT),
    CLASS(MPI_ERR_BAD_FILE),
    CLASS(MPI_ERR_BASE),
    CLASS(MPI_ERR_CONVERSION),
    CLASS(MPI_ERR_DISP),
    CLASS(MPI_ERR_DUP_DATAREP),
    CLASS(MPI_ERR_FILE_EXISTS),
    CLASS(MPI_ERR_FILE_IN_USE),
    CLASS(MPI_ERR_FILE),
    CLASS(MPI_ERR_INFO_KEY),
    CLASS(MPI_ERR_INFO_NOKEY),
    CLASS(MPI_ERR_INFO_VALUE),
    CLASS(MPI_ERR_INFO),
    CLASS(MPI_ERR_IO),
    CLASS(MPI_ERR_KEYVAL),
    CLASS(MPI_ERR_LOCKTYPE),
    CLASS(MPI_ERR_NAME),
    CLASS(MPI_ERR_NO_MEM),
    CLASS(MPI_ERR_NOT_SAME),
    CLASS(MPI_ERR_NO_SPACE),
    CLASS(MPI_ERR_NO_SUCH_FILE),
    CLASS(MPI_ERR_PORT),
    CLASS(MPI_ERR_QUOTA),
    CLASS(MPI_ERR_READ_ONLY),
    CLASS(MPI_ERR_RMA_CONFLICT),
    CLASS(MPI_ERR_RMA_SYNC),
    CLASS(MPI_ERR_SERVICE),
    CLASS(MPI_ERR_SIZE),
    CLASS(MPI_ERR_SPAWN),
    CLASS(MPI_ERR_UNSUPPORTED_DATAREP),
    CLASS(MPI_ERR_UNSUPPORTED_OPERATION),
    CLASS(MPI_ERR_WIN),
    CLASS(MPI_ERR_RMA_RANGE),
    CLASS(MPI_ERR_RMA_ATTACH),
    CLASS(MPI_ERR_RMA_FLAVOR),
    CLASS(MPI_ERR_RMA_SHARED),
};
enum { kClassCount = sizeof kClasses / sizeof *kClasses };

static const char* class_name(int code) {
  int class = -1;
  if (MPI_Error_class(code, &class) != MPI_SUCCESS) return "no error code";
  for (int c = 0; c < kClassCount; ++c) {
    if (kClasses[c].value == class) return kClasses[c].name;
  }
  return "another class";
}

/** Requires that the call returns an error of this class. */
#define REFUSED(class, call) check_text(#call, #class, class_name(call))

static void check_either(const char* what, const char* one, const char* other, int code) {
  const char* got = class_name(code);
  check_true(what, strcmp(got, one) == 0 || strcmp(got, other) == 0);
}

/** Requires that the call returns an error of one of two classes, where MPI allows both. */
#define EITHER(one, other, call) check_either(#call, #one, #other, call)

/** For an aliased or misplaced buffer a library may return either class. */
#define REFUSED_BUFFER(call) EITHER(MPI_ERR_ARG, MPI_ERR_BUFFER, call)

static void test_classes(void) {
  check_context("classes");
  for (int c = 0; c < kClassCount; ++c) {
    int class = -1;
    int length = -1;
    char text[MPI_MAX_ERROR_STRING] = {0};
    OK(MPI_Error_class(kClasses[c].value, &class));
    check_i64(kClasses[c].name, kClasses[c].value, class);
    OK(MPI_Error_string(kClasses[c].value, text, &length));
    check_true(kClasses[c].name, length > 0 && length < MPI_MAX_ERROR_STRING);
    check_true(kClasses[c].name, strlen(text) == (size_t)length);
  }
  check_section("classes");
}

static void test_inheritance(void) {
  check_context("inheritance");
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
  check_true("errors are fatal at first", handler == MPI_ERRORS_ARE_FATAL);
  OK(MPI_Errhandler_free(&handler));
  check_true("a freed handle is null", handler == MPI_ERRHANDLER_NULL);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
  check_true("errors return now", handler == MPI_ERRORS_RETURN);
  OK(MPI_Errhandler_free(&handler));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  OK(MPI_Comm_get_errhandler(copy, &handler));
  check_true("a copy inherits the handler", handler == MPI_ERRORS_RETURN);
  OK(MPI_Errhandler_free(&handler));
  OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
  check_true("the parent keeps its own", handler == MPI_ERRORS_RETURN);
  OK(MPI_Errhandler_free(&handler));
  OK(MPI_Comm_free(&copy));
  check_section("inheritance");
}

static int handler_calls;
static int handler_code;
static MPI_Comm handler_comm;

static void count_error(MPI_Comm* comm, int* code, ...) {
  handler_calls += 1;
  handler_code = *code;
  handler_comm = *comm;
}

static void count_ten_errors(MPI_Comm* comm, int* code, ...) {
  handler_calls += 10;
  handler_code = *code;
  handler_comm = *comm;
}

static void test_user_handlers(void) {
  check_context("user-made handlers");
  MPI_Errhandler first = MPI_ERRHANDLER_NULL;
  MPI_Errhandler second = MPI_ERRHANDLER_NULL;
  MPI_Errhandler got = MPI_ERRHANDLER_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  int value = 0;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_create_errhandler(count_error, &first));
  OK(MPI_Comm_create_errhandler(count_ten_errors, &second));
  check_true("two handlers", first != second && first != MPI_ERRHANDLER_NULL);
  OK(MPI_Comm_set_errhandler(comm, first));
  OK(MPI_Comm_get_errhandler(comm, &got));
  check_true("the handler that was set", got == first);
  OK(MPI_Errhandler_free(&got));
  OK(MPI_Errhandler_free(&first));
  check_true("a freed handle is null", first == MPI_ERRHANDLER_NULL);
  REFUSED(MPI_ERR_ROOT, MPI_Bcast(&value, 1, MPI_INT, check_state.size, comm));
  check_i64("a freed handler still works", 1, handler_calls);
  check_text("code given to the handler", "MPI_ERR_ROOT", class_name(handler_code));
  check_true("communicator given to the handler", handler_comm == comm);
  OK(MPI_Comm_set_errhandler(comm, second));
  REFUSED(MPI_ERR_COUNT, MPI_Bcast(&value, -1, MPI_INT, 0, comm));
  check_i64("the second handler", 11, handler_calls);
  OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
  check_i64("called by the program", 21, handler_calls);
  check_text("code given by the program", "MPI_ERR_OTHER", class_name(handler_code));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, second));
  OK(MPI_Errhandler_free(&second));
  REFUSED(MPI_ERR_TYPE, MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF));
  check_i64("one handler on two communicators", 31, handler_calls);
  check_true("communicator given to the handler", handler_comm == MPI_COMM_SELF);
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  OK(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER));
  check_i64("handler was replaced", 31, handler_calls);
  OK(MPI_Comm_free(&comm));
  int sum = 0;
  OK(MPI_Allreduce(&handler_calls, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  check_i64("errors do no harm", 31 * check_state.size, sum);
  check_section("user-made handlers");
}

static int file_handler_calls;
static void count_file_error(MPI_File* file, int* code, ...) {
  file_handler_calls += *file == MPI_FILE_NULL && *code != MPI_SUCCESS;
}

/** The handler of MPI_FILE_NULL becomes that of files that are opened later. */
static void test_file_handlers(void) {
  check_context("handlers of files");
  MPI_Errhandler mine = MPI_ERRHANDLER_NULL;
  MPI_Errhandler got = MPI_ERRHANDLER_NULL;
  MPI_Errhandler of_comm = MPI_ERRHANDLER_NULL;
  OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
  check_true("errors of files return at first", got == MPI_ERRORS_RETURN);
  OK(MPI_Errhandler_free(&got));
  OK(MPI_File_create_errhandler(count_file_error, &mine));
  OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
  OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
  check_true("the handler that was set", got == mine);
  OK(MPI_Errhandler_free(&got));
  REFUSED(MPI_ERR_ARG, MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
  OK(MPI_Errhandler_free(&mine));
  MPI_File file = MPI_FILE_NULL;
  const char* nowhere = "/nonexistent/file";
  check_true("nothing to open", MPI_File_open(MPI_COMM_SELF, nowhere, MPI_MODE_RDONLY,
                                              MPI_INFO_NULL, &file) != MPI_SUCCESS);
  check_i64("a file that cannot be opened", 1, file_handler_calls);
  OK(MPI_Comm_create_errhandler(count_error, &of_comm));
  REFUSED(MPI_ERR_ARG, MPI_File_set_errhandler(MPI_FILE_NULL, of_comm));
  REFUSED(MPI_ERR_ARG, MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL));
  check_i64("errors about handlers of files", 3, file_handler_calls);
  OK(MPI_Errhandler_free(&of_comm));
  OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  check_section("handlers of files");
}

static void test_roots(void) {
  check_context("roots");
  int n = check_state.size;
  int in[8] = {0};
  int* out = new_ints(n);
  const int bad[] = {-1, n, n + 1000};
  for (int b = 0; b < 3; ++b) {
    int root = bad[b];
    MPI_Comm comm = MPI_COMM_WORLD;
    REFUSED(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, root, comm));
    REFUSED(MPI_ERR_ROOT, MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, root, comm));
    REFUSED(MPI_ERR_ROOT, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, root, comm));
    REFUSED(MPI_ERR_ROOT, MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, root, comm));
    REFUSED(MPI_ERR_ROOT, MPI_Gatherv(in, 1, MPI_INT, out, in, in, MPI_INT, root, comm));
    REFUSED(MPI_ERR_ROOT, MPI_Scatterv(out, in, in, MPI_INT, in, 1, MPI_INT, root, comm));
  }
  free(out);
  check_section("roots");
}

static void test_counts(void) {
  check_context("counts");
  int n = check_state.size;
  int in[1] = {0};
  int* out = new_ints(n);
  MPI_Comm comm = MPI_COMM_WORLD;
  REFUSED(MPI_ERR_COUNT, MPI_Bcast(in, -1, MPI_INT, 0, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Reduce(in, out, -5, MPI_INT, MPI_SUM, 0, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Gather(in, -1, MPI_INT, out, -1, MPI_INT, 0, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Scatter(out, -1, MPI_INT, in, -1, MPI_INT, 0, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Allgather(in, -1, MPI_INT, out, 1, MPI_INT, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Allgather(in, 1, MPI_INT, out, -1, MPI_INT, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Alltoall(out, -1, MPI_INT, in, 1, MPI_INT, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Scan(in, out, -1, MPI_INT, MPI_SUM, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Exscan(in, out, -1, MPI_INT, MPI_SUM, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Reduce_scatter_block(out, in, -1, MPI_INT, MPI_SUM, comm));
  REFUSED(MPI_ERR_COUNT, MPI_Reduce_local(in, out, -1, MPI_INT, MPI_SUM));
  set_ints(out, n, -1);
  REFUSED(MPI_ERR_COUNT, MPI_Reduce_scatter(out, in, out, MPI_INT, MPI_SUM, comm));
  free(out);
  check_section("counts");
}

static void test_types_and_ops(void) {
  check_context("types and operations");
  int in[1] = {0};
  int* out = new_ints(check_state.size);
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Datatype null_type = MPI_DATATYPE_NULL;
  MPI_Datatype predefined = MPI_INT;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_SUM;
  REFUSED(MPI_ERR_TYPE, MPI_Bcast(in, 1, null_type, 0, comm));
  REFUSED(MPI_ERR_TYPE, MPI_Allgather(in, 1, null_type, out, 1, MPI_INT, comm));
  REFUSED(MPI_ERR_TYPE, MPI_Alltoall(out, 1, null_type, out, 1, MPI_INT, comm));
  REFUSED(MPI_ERR_TYPE, MPI_Type_contiguous(3, null_type, &type));
  REFUSED(MPI_ERR_COUNT, MPI_Type_contiguous(-3, MPI_INT, &type));
  REFUSED(MPI_ERR_TYPE, MPI_Type_free(&predefined));
  REFUSED(MPI_ERR_TYPE, MPI_Type_size(null_type, in));
  OK(MPI_Type_contiguous(3, MPI_INT, &type));
  REFUSED(MPI_ERR_TYPE, MPI_Bcast(out, 0, type, 0, comm));
  OK(MPI_Type_free(&type));
  // No operation is defined on the null type: the library may blame either argument.
  EITHER(MPI_ERR_TYPE, MPI_ERR_OP, MPI_Allreduce(in, out, 1, null_type, MPI_SUM, comm));
  EITHER(MPI_ERR_TYPE, MPI_ERR_OP, MPI_Reduce(in, out, 1, null_type, MPI_SUM, 0, comm));
  EITHER(MPI_ERR_TYPE, MPI_ERR_OP, MPI_Scan(in, out, 1, null_type, MPI_SUM, comm));
  REFUSED(MPI_ERR_OP, MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
  REFUSED(MPI_ERR_OP, MPI_Reduce(in, out, 1, MPI_INT, MPI_OP_NULL, 0, comm));
  REFUSED(MPI_ERR_OP, MPI_Scan(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
  REFUSED(MPI_ERR_OP, MPI_Exscan(in, out, 1, MPI_INT, MPI_OP_NULL, comm));
  REFUSED(MPI_ERR_OP, MPI_Reduce_local(in, out, 1, MPI_INT, MPI_OP_NULL));
  REFUSED(MPI_ERR_OP, MPI_Op_free(&sum));
  check_true("a predefined operation is not freed", sum == MPI_SUM);
  free(out);
  check_section("types and operations");
}

static void test_communicators_and_groups(void) {
  check_context("communicators and groups");
  int value = 0;
  int outside[1] = {check_state.size};
  MPI_Comm null_comm = MPI_COMM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  REFUSED(MPI_ERR_COMM, MPI_Bcast(&value, 1, MPI_INT, 0, null_comm));
  REFUSED(MPI_ERR_COMM, MPI_Barrier(null_comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_rank(null_comm, &value));
  REFUSED(MPI_ERR_COMM, MPI_Comm_size(null_comm, &value));
  REFUSED(MPI_ERR_COMM, MPI_Comm_dup(null_comm, &comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_split(null_comm, 0, 0, &comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_free(&null_comm));
  REFUSED(MPI_ERR_COMM, MPI_Comm_compare(MPI_COMM_WORLD, null_comm, &value));
  REFUSED(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_WORLD, -7, 0, &comm));
  REFUSED(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &value));
  REFUSED(MPI_ERR_GROUP, MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  REFUSED(MPI_ERR_RANK, MPI_Group_incl(world, 1, outside, &group));
  REFUSED(MPI_ERR_RANK, MPI_Group_excl(world, 1, outside, &group));
  OK(MPI_Group_free(&world));
  check_section("communicators and groups");
}

static void test_buffers(void) {
  check_context("buffers");
  int in[2] = {0, 0};
  int* out = new_ints(check_state.size);
  MPI_Comm comm = MPI_COMM_WORLD;
  REFUSED_BUFFER(MPI_Allreduce(in, in, 2, MPI_INT, MPI_SUM, comm));
  REFUSED_BUFFER(MPI_Allreduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm));
  REFUSED_BUFFER(MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
  REFUSED_BUFFER(MPI_Alltoall(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
  REFUSED_BUFFER(MPI_Scan(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm));
  REFUSED_BUFFER(MPI_Reduce_scatter_block(out, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm));
  free(out);
  int sum = 0;
  int one = 1;
  OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
  check_i64("refused calls leave no trace", check_state.size, sum);
  check_section("buffers");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  test_classes();
  test_inheritance();
  test_user_handlers();
  test_file_handlers();
  test_roots();
  test_counts();
  test_types_and_ops();
  test_communicators_and_groups();
  test_buffers();
  return check_end();
}
