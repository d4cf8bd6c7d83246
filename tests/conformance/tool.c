// Conformance of the tool interface, before MPI_Init and after it: listed variables can be queried,
// and indices without a variable are refused. Each library has its own variables.
//
// tool [mine]: with `mine` the program also tests the counters of Rejoin's library.

#include <mpi.h>

#include "check.h"

static int mine;

static void test_lists(void) {
  int count = -1;
  int provided = -1;
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  check_true("provided", provided >= MPI_THREAD_SINGLE);
  OK(MPI_T_cvar_get_num(&count));
  check_true("control variables", count >= 0);
  OK(MPI_T_category_get_num(&count));
  check_true("categories", count >= 0);
  OK(MPI_T_pvar_get_num(&count));
  check_true("performance variables", count >= 0);
  for (int i = 0; i < count; ++i) {
    char name[200];
    int length = sizeof name;
    int class = -1;
    int bind = -1;
    int readonly = -1;
    int continuous = -1;
    int atomic = -1;
    int verbosity = -1;
    int described = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum values;
    const int code = MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &values, NULL,
                                         &described, &bind, &readonly, &continuous, &atomic);
    if (code != MPI_SUCCESS && !mine) continue;  // Open MPI lists some that do not exist
    if (code != MPI_SUCCESS || length < 2 || (int)strlen(name) >= length) {
      check_fail("a performance variable", "its name", "another answer");
    }
  }
  check_true("beyond the last",
             MPI_SUCCESS != MPI_T_pvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                NULL, NULL, NULL, NULL, NULL));
  MPI_T_pvar_session session;
  OK(MPI_T_pvar_session_create(&session));
  OK(MPI_T_pvar_session_free(&session));
  check_true("a freed session is null", session == MPI_T_PVAR_SESSION_NULL);
  OK(MPI_T_finalize());
}

static unsigned long long read_counter(const char* name) {
  unsigned long long value = 0;
  int index = -1;
  int count = 0;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  OK(MPI_T_pvar_session_create(&session));
  OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
  OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
  check_i64("values", 1, count);
  OK(MPI_T_pvar_read(session, handle, &value));
  check_i64("start", MPI_T_ERR_PVAR_NO_STARTSTOP, MPI_T_pvar_start(session, handle));
  check_i64("write", MPI_T_ERR_PVAR_NO_WRITE, MPI_T_pvar_write(session, handle, &value));
  OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  MPI_T_pvar_handle freed = handle;
  OK(MPI_T_pvar_handle_free(session, &handle));
  check_i64("freed", MPI_T_ERR_INVALID_HANDLE, MPI_T_pvar_read(session, freed, &value));
  OK(MPI_T_pvar_session_free(&session));
  return value;
}

static void test_counters(void) {
  check_context("counters");
  int index = -1;
  int provided = -1;
  check_i64("before", MPI_T_ERR_NOT_INITIALIZED, MPI_T_pvar_get_num(&index));
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  check_i64("no such name", MPI_T_ERR_INVALID_NAME,
            MPI_T_pvar_get_index("nothing", MPI_T_PVAR_CLASS_COUNTER, &index));
  const unsigned long long operations = read_counter("rejoin_operations");
  const unsigned long long messages = read_counter("rejoin_messages_sent");
  const int next = (check_state.rank + 1) % check_state.size;
  int value = check_state.rank;
  for (int i = 0; i < 10; ++i) OK(MPI_Send(&value, 1, MPI_INT, next, i, MPI_COMM_WORLD));
  check_i64("sends", (long long)operations + 10, (long long)read_counter("rejoin_operations"));
  check_i64("messages", (long long)messages + 10, (long long)read_counter("rejoin_messages_sent"));
  for (int i = 0; i < 10; ++i) {
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  check_i64("receives", (long long)operations + 20, (long long)read_counter("rejoin_operations"));
  check_i64("incarnation", 0, (long long)read_counter("rejoin_incarnation"));
  check_i64("replayed", 0, (long long)read_counter("rejoin_replayed_operations"));
  check_true("memory", read_counter("rejoin_journal_bytes") > 0);
  check_i64("beyond the last", MPI_T_ERR_INVALID_INDEX,
            MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, 1000, NULL, NULL, NULL));
  OK(MPI_T_finalize());
  check_section("counters");
}

int main(int argc, char** argv) {
  mine = argc > 1;
  check_context("lists");
  test_lists();
  check_begin(&argc, &argv);
  test_lists();
  check_section("lists");
  if (mine) test_counters();
  return check_end();
}
