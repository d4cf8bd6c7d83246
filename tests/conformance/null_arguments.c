// Conformance of null pointers for results of MPI. A call with one raises an error of the class
// that Open MPI uses, through the communicator's error handler, and the job continues.
//
// null_arguments [all]: `all` adds calls, marked by HERE, that Open MPI does not check.

#include <mpi.h>

#include "check.h"

#pragma GCC diagnostic ignored "-Wnonnull"

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

static const MPI_Comm kWorld = MPI_COMM_WORLD;
static int x[64];
static int y[64];

static void test_environment(void) {
  check_context("environment");
  char name[MPI_MAX_LIBRARY_VERSION_STRING];
  REFUSED(MPI_ERR_ARG, MPI_Initialized(NULL));
  REFUSED(MPI_ERR_ARG, MPI_Finalized(NULL));
  REFUSED(MPI_ERR_ARG, MPI_Get_version(NULL, x));
  REFUSED(MPI_ERR_ARG, MPI_Get_version(x, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Get_processor_name(name, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Get_processor_name(NULL, x));
  HERE(MPI_ERR_ARG, MPI_Get_library_version(NULL, x));
  HERE(MPI_ERR_ARG, MPI_Get_library_version(name, NULL));
  HERE(MPI_ERR_ARG, MPI_Query_thread(NULL));
  HERE(MPI_ERR_ARG, MPI_Is_thread_main(NULL));
  HERE(MPI_ERR_ARG, MPI_Error_class(MPI_ERR_ARG, NULL));
  HERE(MPI_ERR_ARG, MPI_Error_string(MPI_ERR_ARG, NULL, x));
  HERE(MPI_ERR_ARG, MPI_Error_string(MPI_ERR_ARG, name, NULL));
  HERE(MPI_ERR_ARG, MPI_Add_error_class(NULL));
  HERE(MPI_ERR_ARG, MPI_Add_error_code(MPI_ERR_ARG, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Alloc_mem(8, MPI_INFO_NULL, NULL));
  HERE(MPI_ERR_ARG, MPI_Get_address(x, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_create_errhandler(NULL, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_get_errhandler(kWorld, NULL));
  check_section("environment");
}

static void test_communicators(void) {
  check_context("communicators");
  char name[MPI_MAX_OBJECT_NAME];
  void* value = NULL;
  MPI_Request r = MPI_REQUEST_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm copy = MPI_COMM_NULL;
  OK(MPI_Comm_group(kWorld, &world));
  REFUSED(MPI_ERR_ARG, MPI_Comm_size(kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_rank(kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_compare(kWorld, kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_group(kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_dup(kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_idup(kWorld, NULL, &r));
  REFUSED(MPI_ERR_ARG, MPI_Comm_split(kWorld, 0, 0, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_split_type(kWorld, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_create(kWorld, world, NULL));
  HERE(MPI_ERR_ARG, MPI_Comm_create_group(kWorld, world, 0, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_test_inter(kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_get_name(kWorld, NULL, x));
  REFUSED(MPI_ERR_ARG, MPI_Comm_get_name(kWorld, name, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Comm_get_attr(kWorld, MPI_TAG_UB, NULL, x));
  REFUSED(MPI_ERR_ARG, MPI_Comm_get_attr(kWorld, MPI_TAG_UB, &value, NULL));
  HERE(MPI_ERR_ARG, MPI_Comm_get_parent(NULL));
  REFUSED(MPI_ERR_ARG, MPI_Group_size(world, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Group_rank(world, NULL));
  HERE(MPI_ERR_ARG, MPI_Group_compare(world, world, NULL));
  HERE(MPI_ERR_ARG, MPI_Group_incl(world, 1, y, NULL));
  HERE(MPI_ERR_ARG, MPI_Group_union(world, world, NULL));
  HERE(MPI_ERR_ARG, MPI_Group_translate_ranks(world, 1, y, world, NULL));
  OK(MPI_Group_translate_ranks(world, 0, y, world, NULL));
  OK(MPI_Group_free(&world));
  // The library calls the handler of the communicator argument, not that of the world.
  OK(MPI_Comm_dup(kWorld, &copy));
  OK(MPI_Comm_set_errhandler(kWorld, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  REFUSED(MPI_ERR_ARG, MPI_Comm_size(copy, NULL));
  OK(MPI_Comm_set_errhandler(kWorld, MPI_ERRORS_RETURN));
  OK(MPI_Comm_free(&copy));
  check_section("communicators");
}

static void test_messages(void) {
  check_context("messages");
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  REFUSED(MPI_ERR_REQUEST, MPI_Isend(x, 1, MPI_INT, 0, 0, kWorld, NULL));
  REFUSED(MPI_ERR_REQUEST, MPI_Irecv(x, 1, MPI_INT, 0, 0, kWorld, NULL));
  REFUSED(MPI_ERR_REQUEST, MPI_Send_init(x, 1, MPI_INT, 0, 0, kWorld, NULL));
  REFUSED(MPI_ERR_REQUEST, MPI_Recv_init(x, 1, MPI_INT, 0, 0, kWorld, NULL));
  HERE(MPI_ERR_ARG, MPI_Ibcast(x, 1, MPI_INT, 0, kWorld, NULL));
  HERE(MPI_ERR_ARG, MPI_Ibarrier(kWorld, NULL));
  HERE(MPI_ERR_ARG, MPI_Iallreduce(x, y, 1, MPI_INT, MPI_SUM, kWorld, NULL));
  HERE(MPI_ERR_ARG, MPI_Iprobe(0, 0, kWorld, NULL, &status));
  HERE(MPI_ERR_ARG, MPI_Improbe(0, 0, kWorld, NULL, &message, &status));
  HERE(MPI_ERR_ARG, MPI_Improbe(0, 0, kWorld, x, NULL, &status));
  HERE(MPI_ERR_ARG, MPI_Mprobe(0, 0, kWorld, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Test(&none, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testall(1, &none, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testany(1, &none, NULL, x, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testany(1, &none, x, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testsome(1, &none, NULL, x, &status));
  REFUSED(MPI_ERR_ARG, MPI_Testsome(1, &none, x, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Waitany(1, &none, NULL, &status));
  REFUSED(MPI_ERR_ARG, MPI_Waitsome(1, &none, NULL, x, &status));
  REFUSED(MPI_ERR_ARG, MPI_Waitsome(1, &none, x, NULL, &status));
  HERE(MPI_ERR_ARG, MPI_Request_get_status(none, NULL, &status));
  HERE(MPI_ERR_ARG, MPI_Get_count(&status, MPI_INT, NULL));
  HERE(MPI_ERR_ARG, MPI_Get_elements(&status, MPI_INT, NULL));
  HERE(MPI_ERR_ARG, MPI_Test_cancelled(&status, NULL));
  HERE(MPI_ERR_ARG, MPI_Status_set_elements(NULL, MPI_INT, 1));
  HERE(MPI_ERR_ARG, MPI_Status_set_cancelled(NULL, 1));
  REFUSED(MPI_ERR_ARG, MPI_Buffer_detach(NULL, x));
  REFUSED(MPI_ERR_ARG, MPI_Buffer_detach(x, NULL));
  check_section("messages");
}

static void test_types(void) {
  check_context("types");
  MPI_Aint extent;
  void* value = NULL;
  char name[MPI_MAX_OBJECT_NAME];
  REFUSED(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Type_get_extent(MPI_INT, NULL, &extent));
  REFUSED(MPI_ERR_ARG, MPI_Type_get_extent(MPI_INT, &extent, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Type_get_true_extent(MPI_INT, &extent, NULL));
  REFUSED(MPI_ERR_TYPE, MPI_Type_contiguous(1, MPI_INT, NULL));
  REFUSED(MPI_ERR_TYPE, MPI_Type_vector(1, 1, 1, MPI_INT, NULL));
  REFUSED(MPI_ERR_TYPE, MPI_Type_dup(MPI_INT, NULL));
  HERE(MPI_ERR_TYPE, MPI_Type_create_resized(MPI_INT, 0, 4, NULL));
  HERE(MPI_ERR_TYPE, MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Type_get_envelope(MPI_INT, NULL, x, x, x));
  REFUSED(MPI_ERR_ARG, MPI_Type_get_envelope(MPI_INT, x, x, x, NULL));
  HERE(MPI_ERR_ARG, MPI_Type_get_name(MPI_INT, name, NULL));
  HERE(MPI_ERR_ARG, MPI_Type_get_attr(MPI_INT, 0, &value, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Pack_size(1, MPI_INT, kWorld, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Pack(x, 1, MPI_INT, y, 4, NULL, kWorld));
  REFUSED(MPI_ERR_ARG, MPI_Unpack(x, 4, NULL, y, 1, MPI_INT, kWorld));
  check_section("types");
}

static void test_others(void) {
  check_context("others");
  const int ones[1] = {1};
  const int zero[1] = {0};
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Info info = MPI_INFO_NULL;
  char text[8];
  HERE(MPI_ERR_ARG, MPI_Op_create(NULL, 1, NULL));
  HERE(MPI_ERR_ARG, MPI_Op_commutative(MPI_SUM, NULL));
  REFUSED(MPI_ERR_ARG, MPI_Cart_create(kWorld, 1, ones, ones, 0, NULL));
  OK(MPI_Cart_create(MPI_COMM_SELF, 1, ones, zero, 0, &grid));
  OK(MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN));
  HERE(MPI_ERR_ARG, MPI_Cartdim_get(grid, NULL));
  HERE(MPI_ERR_ARG, MPI_Cart_rank(grid, zero, NULL));
  HERE(MPI_ERR_ARG, MPI_Cart_coords(grid, 0, 1, NULL));
  HERE(MPI_ERR_ARG, MPI_Cart_shift(grid, 0, 1, NULL, x));
  HERE(MPI_ERR_ARG, MPI_Cart_sub(grid, ones, NULL));
  HERE(MPI_ERR_ARG, MPI_Topo_test(grid, NULL));
  HERE(MPI_ERR_ARG, MPI_Dims_create(4, 2, NULL));
  OK(MPI_Comm_free(&grid));
  HERE(MPI_ERR_ARG, MPI_Info_create(NULL));
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "key", "value"));
  HERE(MPI_ERR_ARG, MPI_Info_get(info, "key", 7, NULL, x));
  HERE(MPI_ERR_ARG, MPI_Info_get(info, "key", 7, text, NULL));
  HERE(MPI_ERR_ARG, MPI_Info_get_nkeys(info, NULL));
  HERE(MPI_ERR_ARG, MPI_Info_dup(info, NULL));
  OK(MPI_Info_free(&info));
  if (all) {
    int count = 0;
    int level = 0;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    check_i64("variables", MPI_T_ERR_INVALID, MPI_T_pvar_get_num(NULL));
    OK(MPI_T_pvar_get_num(&count));
    OK(MPI_T_finalize());
  }
  check_section("others");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  all = argc > 1;
  OK(MPI_Comm_set_errhandler(kWorld, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  test_environment();
  test_communicators();
  test_messages();
  test_types();
  test_others();
  return check_end();
}
