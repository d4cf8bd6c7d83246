// Conformance of initialisation: `init MODE`, where MODE is one of plain, args, single, funneled,
// serialized, multiple. The program calls all functions that may be called before MPI_Init and
// after MPI_Finalize.

#include <mpi.h>
#include <pthread.h>

#include "check.h"

typedef struct {
  const char* name;
  int required;
} ThreadMode;

static const ThreadMode kThreadModes[] = {
    {"single", MPI_THREAD_SINGLE},
    {"funneled", MPI_THREAD_FUNNELED},
    {"serialized", MPI_THREAD_SERIALIZED},
    {"multiple", MPI_THREAD_MULTIPLE},
};

static void check_state_is(int expect_initialized, int expect_finalized) {
  int flag = -1;
  OK(MPI_Initialized(&flag));
  check_i64("MPI_Initialized", expect_initialized, flag != 0);
  OK(MPI_Finalized(&flag));
  check_i64("MPI_Finalized", expect_finalized, flag != 0);
}

static void check_versions(void) {
  int major = 0;
  int minor = -1;
  OK(MPI_Get_version(&major, &minor));
  check_true("version is at least 3", major >= 3);
  check_true("minor version is a number", minor >= 0);
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  OK(MPI_Get_library_version(text, &length));
  check_true("library version is not empty", length > 0);
}

/** Initialises MPI as `mode` says. Returns the requested thread level, or -1 for MPI_Init. */
static int initialize(const char* mode, int* argc, char*** argv) {
  for (size_t m = 0; m < sizeof kThreadModes / sizeof *kThreadModes; ++m) {
    if (strcmp(mode, kThreadModes[m].name) != 0) continue;
    int provided = -1;
    int granted = -1;
    int required = kThreadModes[m].required;
    int least = required < MPI_THREAD_SERIALIZED ? required : MPI_THREAD_SERIALIZED;
    OK(MPI_Init_thread(argc, argv, required, &provided));
    check_true("thread level", provided >= least && provided <= MPI_THREAD_MULTIPLE);
    OK(MPI_Query_thread(&granted));
    check_true("MPI_Query_thread agrees", granted == provided);
    return required;
  }
  if (strcmp(mode, "args") == 0) {
    OK(MPI_Init(argc, argv));
  } else {
    check_text("mode", "plain", mode);
    OK(MPI_Init(NULL, NULL));
  }
  int granted = -1;
  OK(MPI_Query_thread(&granted));
  check_true("MPI_Query_thread", granted >= MPI_THREAD_SINGLE && granted <= MPI_THREAD_MULTIPLE);
  return -1;
}

/** The results of another thread, which must not abort the job itself at thread level FUNNELED. */
typedef struct {
  int serialized;
  int is_main;
  int sum;
} ThreadResult;

static void* other_thread(void* argument) {
  ThreadResult* result = argument;
  MPI_Is_thread_main(&result->is_main);
  int one = 1;
  if (result->serialized) {
    MPI_Allreduce(&one, &result->sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  return NULL;
}

static void check_threads(int required) {
  int is_main = 0;
  OK(MPI_Is_thread_main(&is_main));
  check_true("this is the main thread", is_main);
  if (required < MPI_THREAD_FUNNELED) return;
  ThreadResult result = {required >= MPI_THREAD_SERIALIZED, 1, 0};
  pthread_t thread;
  check_i64("pthread_create", 0, pthread_create(&thread, NULL, other_thread, &result));
  check_i64("pthread_join", 0, pthread_join(thread, NULL));
  check_true("the other thread is not main", !result.is_main);
  if (result.serialized) check_i64("sum by another thread", check_state.size, result.sum);
}

static void check_clock(void) {
  double tick = MPI_Wtick();
  check_true("tick is positive and below a second", tick > 0 && tick < 1);
  double begin = MPI_Wtime();
  double last = begin;
  int monotonic = 1;
  while (last - begin < 1e-3) {
    double now = MPI_Wtime();
    monotonic = monotonic && now >= last;
    last = now;
  }
  check_true("time never goes back", monotonic);
}

static void check_processor_name(void) {
  char name[MPI_MAX_PROCESSOR_NAME] = {0};
  char first[MPI_MAX_PROCESSOR_NAME] = {0};
  int length = 0;
  OK(MPI_Get_processor_name(name, &length));
  check_true("processor name is not empty", length > 0);
  check_true("processor name's length", (size_t)length == strlen(name));
  memcpy(first, name, sizeof first);
  OK(MPI_Bcast(first, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
  check_true("all ranks are on one host", strcmp(first, name) == 0);
}

static void check_error_texts(void) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  int class = -1;
  OK(MPI_Error_string(MPI_SUCCESS, text, &length));
  check_true("text of MPI_SUCCESS", length > 0 && (size_t)length == strlen(text));
  OK(MPI_Error_class(MPI_SUCCESS, &class));
  check_i64("class of MPI_SUCCESS", MPI_SUCCESS, class);
}

int main(int argc, char** argv) {
  char mode[32] = "plain";
  if (argc > 1) snprintf(mode, sizeof mode, "%s", argv[1]);
  int arguments = argc;
  check_context("init %s", mode);
  check_state_is(0, 0);
  check_versions();
  int required = initialize(mode, &argc, &argv);
  check_attach();
  check_i64("argc is unchanged", arguments, argc);
  if (argc > 1) check_text("argv is unchanged", mode, argv[1]);
  check_state_is(1, 0);
  check_versions();
  check_threads(required);
  check_clock();
  check_processor_name();
  check_error_texts();
  check_section(mode);
  OK(MPI_Finalize());
  check_state_is(1, 1);
  check_versions();
  note("after MPI_Finalize: %lld checks", check_state.checks);
  return 0;
}
