// misuse CASE
//
// Calls of rejoin.h that must fail. Every rank prints the error that it got, and continues if it
// may.
// CASE: a name in `cases`.

#include <rejoin.h>

#include "program.h"

static uint64_t model;

static void sum(void) {
  uint64_t mine = element(check_state.rank, 0, 0), all = 0;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  received_by_all(all);
  model = salt;
}

static void says(const char* what, int code) {
  printf("rank %d: %s: %d %s\n", check_state.rank, what, code, code < 0 ? rejoin_error() : "");
  fflush(stdout);
}

static void load(void) { says("load", rejoin_load(NULL, NULL, NULL, NULL)); }

static void checkpoint(void) {
  says("checkpoint", rejoin_checkpoint(&model, sizeof model, NULL, 0));
}

static void load_twice(void) {
  load();
  load();
  sum();
  checkpoint();
  load();
  checkpoint();
}

static void load_late(void) {
  sum();
  checkpoint();
  load();
  sum();
  checkpoint();
}

static void no_load(void) {
  for (int i = 0; i < 4; ++i) {
    sum();
    checkpoint();
  }
}

static void arguments(void) {
  load();
  sum();
  says("no global", rejoin_checkpoint(NULL, 8, NULL, 0));
  says("no local", rejoin_checkpoint(NULL, 0, NULL, 8));
  says("no function", rejoin_checkpoint_lazy(NULL, &model));
  says("version", rejoin_version());
  checkpoint();
}

static void late_communicator(void) {
  MPI_Comm made;
  load();
  sum();
  checkpoint();
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
  sum();
  checkpoint();
  OK(MPI_Comm_free(&made));
  sum();
  checkpoint();
}

static int described(void* extra, MPI_Status* status) {
  (void)extra;
  return MPI_Status_set_elements(status, MPI_INT, 0);
}
static int let_go(void* extra) {
  (void)extra;
  return MPI_SUCCESS;
}
static int not_cancelled(void* extra, int complete) {
  (void)extra, (void)complete;
  return MPI_SUCCESS;
}

static void open_request(void) {
  MPI_Request r[3];
  int got = 0;
  load();
  sum();
  checkpoint();
  OK(MPI_Irecv(&got, 1, MPI_INT, check_state.rank, 5, MPI_COMM_WORLD, &r[0]));
  checkpoint();
  OK(MPI_Send(&got, 1, MPI_INT, check_state.rank, 5, MPI_COMM_WORLD));
  OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
  checkpoint();
  // A generalized request, also after the program has freed it before its completion.
  OK(MPI_Grequest_start(described, let_go, not_cancelled, NULL, &r[1]));
  OK(MPI_Grequest_complete(r[1]));
  checkpoint();
  OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
  OK(MPI_Grequest_start(described, let_go, not_cancelled, NULL, &r[1]));
  r[2] = r[1];
  OK(MPI_Request_free(&r[1]));
  checkpoint();
  OK(MPI_Grequest_complete(r[2]));
  sum();
  checkpoint();
}

static void key_twice(void) {
  load();
  check_i64("a key", 0, rejoin_bootstrap("a key"));
  sum();
  check_i64("another key", 0, rejoin_bootstrap("another key"));
  sum();
  check_i64("the key again", REJOIN_ERR_KEY, rejoin_bootstrap("a key"));
  sum();
}

static void other_models(void) {
  load();
  sum();
  model += (uint64_t)check_state.rank;
  checkpoint();
  pause_us(500000);  // until the other ranks have printed the error, too
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void says_mpi(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  printf("rank %d: %s: %d %s\n", check_state.rank, what, code != MPI_SUCCESS, text);
  fflush(stdout);
}

/** The ranks that got the error call an operation on which they agree, so that all of them have
 * printed the error when the job ends. */
static void one_checkpoint(void) {
  MPI_Comm aside;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &aside));
  load();
  sum();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (check_state.rank == 0) {
    checkpoint();
    says_mpi("barrier", MPI_Barrier(MPI_COMM_WORLD));
  } else {
    uint64_t mine = 1, all;
    says_mpi("allreduce", MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  }
  OK(MPI_Barrier(aside));
  MPI_Abort(MPI_COMM_WORLD, 9);
}

static void other_size(void) {
  int version = 0;
  uint64_t models[2] = {0, 0};
  MPI_Pcontrol(REJOIN_PCONTROL_LOAD, &version, models,
               rejoin_incarnation() > 0 ? sizeof models : 8);
  for (; version < 4; ++version) {
    sum();
    MPI_Pcontrol(REJOIN_PCONTROL_CHECKPOINT, &model, sizeof model);
  }
}

static void broadcast_large_of(int root) {
  const int bytes = 3 << 20;
  char* buffer = calloc((size_t)bytes, 1);
  OK(MPI_Bcast(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
  free(buffer);
}

static void broadcast_large(void) { broadcast_large_of(0); }

static void large_unmarked(void) {
  load();
  broadcast_large();
  checkpoint();
  sum();
}

/** All ranks' checkpoints are refused, and the ranks continue. The other ranks wait for rank 0 in
 * the next operation, and read its position. */
static void large_everywhere(void) {
  load();
  for (int root = 0; root < check_state.size; ++root) broadcast_large_of(root);
  for (int i = 0; i < 2; ++i) {
    checkpoint();
    says("version", rejoin_version());
    if (check_state.rank == 0) pause_us(300000);
    sum();
  }
}

static void large_marked(void) {
  load();
  checkpoint();
  rejoin_bootstrap("large");
  broadcast_large();
}

/** After the first checkpoint only operations with the same result at all ranks can be marked. */
static void marked_gather(void) {
  load();
  checkpoint();
  rejoin_bootstrap(NULL);
  int* all = new_ints(check_state.size);
  OK(MPI_Gather(&check_state.rank, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD));
  free(all);
}

static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {
    {"load_twice", load_twice},
    {"load_late", load_late},
    {"no_load", no_load},
    {"arguments", arguments},
    {"late_communicator", late_communicator},
    {"open_request", open_request},
    {"key_twice", key_twice},
    {"other_models", other_models},
    {"one_checkpoint", one_checkpoint},
    {"other_size", other_size},
    {"large_unmarked", large_unmarked},
    {"large_everywhere", large_everywhere},
    {"large_marked", large_marked},
    {"marked_gather", marked_gather},
};

int main(int argc, char** argv) {
  const int too_early = rejoin_load(NULL, NULL, NULL, NULL);
  check_begin(&argc, &argv);
  check_i64("a load before MPI_Init", REJOIN_ERR_ARGUMENT, too_early);
  void (*run)(void) = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) run = cases[i].run;
  }
  if (run == NULL) check_fail("case", "one of misuse.c", argc > 1 ? argv[1] : "none");
  run();
  OK(MPI_Finalize());
  check_i64("a checkpoint after MPI_Finalize", REJOIN_ERR_ARGUMENT,
            rejoin_checkpoint(NULL, 0, NULL, 0));
  return 0;
}
