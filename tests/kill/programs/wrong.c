// wrong CASE [returns]: rank 0 prints the line of a wrong call of MPI, and makes that call; the
// others wait for it. returns: errors are returned, and rank 0 prints their texts.

#include "program.h"

typedef struct {
  const char* name;
  int (*make)(void);
  int line;
} Call;

static int in[4], out[4];
static volatile int calls;
static MPI_Comm pair;  // a communicator that was freed
static MPI_Request request;

// The code of a macro has the line where the macro is used. The function counts after the call,
// because a call at its end would be a jump without a return address.
#define CALL(name, call)         \
  static int make_##name(void) { \
    const int code = call;       \
    calls += 1;                  \
    return code;                 \
  }                              \
  static const Call call_##name = {#name, make_##name, __LINE__};

CALL(unsupported, MPI_Win_fence(0, MPI_WIN_NULL))
CALL(message, MPI_Send(in, 1, MPI_INT, 99, 0, MPI_COMM_WORLD))
CALL(collective, MPI_Bcast(in, 1, MPI_INT, -5, MPI_COMM_WORLD))
CALL(query, MPI_Comm_size(MPI_COMM_NULL, out))
CALL(freed, MPI_Barrier(pair))
CALL(type, MPI_Type_contiguous(-1, MPI_INT, (MPI_Datatype*)out))
CALL(wait, MPI_Wait(&request, MPI_STATUS_IGNORE))
CALL(abort, MPI_Abort(MPI_COMM_WORLD, 9))

static const Call* const all_calls[] = {&call_unsupported, &call_message, &call_collective,
                                        &call_query,       &call_freed,   &call_type,
                                        &call_wait,        &call_abort};

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &pair));
  MPI_Comm copy = pair;
  OK(MPI_Comm_free(&copy));
  if (argc > 2) OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  for (size_t i = 0; i < sizeof all_calls / sizeof *all_calls; ++i) {
    if (argc < 2 || strcmp(argv[1], all_calls[i]->name) != 0) continue;
    if (all_calls[i] == &call_wait && check_state.rank == 0) {  // the receive is too short
      OK(MPI_Irecv(out, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request));
    } else if (all_calls[i] == &call_wait) {
      OK(MPI_Send(in, 2, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
    if (check_state.rank == 0) {
      printf("line %d\n", all_calls[i]->line);
      fflush(stdout);
      char text[MPI_MAX_ERROR_STRING];
      int length;
      OK(MPI_Error_string(all_calls[i]->make(), text, &length));
      printf("told: %s\n", text);
      fflush(stdout);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  OK(MPI_Finalize());
  return 0;
}
