// recovery_points SHAPE [versions=V] [model=plain|local|lazy] [load=first|late|twice|never]
//                 [marks=none|word|keys] [shares=I] [shares_of=R] [bytes=B] [pause_us=U]
//                 [slow_us=U]
//
// V iterations (default 20), each with a checkpoint. Some calls are set-up, or look like it:
//   lines      the root and the others broadcast from two places, in every iteration
//   first_use  the first iteration of each process does the set-up, mostly by the functions that
//              iterations use; every incarnation contributes the same to it
//   again      a gather of the first iteration, which the root calls from another place than the
//              others, is repeated in the second half
//
//   model      plain: a global model; local: a local one as well; lazy: a function that writes the
//              model
//   load       first: before all operations; late: after the first ones; twice: also a second time
//              and in each iteration, which is refused; never
//   marks      none; word: rejoin_bootstrap(""), by which operations without a mark are not set-up;
//              keys: a key for each operation of the set-up
//   shares=I   from iteration I on no images are possible: memory is shared with others; with
//              shares_of=R only in rank R
//   bytes=B    each iteration sums B more bytes
//   slow_us=U  the last rank waits U more microseconds in each iteration
//
// Every rank prints a line after each iteration: a digest of what all ranks have received so far,
// and with a local model also one of what this rank alone has received.

#include <rejoin.h>
#include <sys/mman.h>

#include "program.h"

enum { kNever = 1 << 30 };

static struct {
  const char* shape;
  const char* model;
  const char* load;
  const char* marks;
  int versions;
  long long bytes;
  long long pause_us;
} options;

static int is(const char* text, const char* name) { return strcmp(text, name) == 0; }

// --- An obstacle to images: memory that is shared with others

static void share_memory(void) {
  static void* shared = NULL;
  if (shared != NULL) return;
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  // Not a check: a process that begins at a version does this once more, and its checks are
  // counted.
  if (shared == MAP_FAILED) check_fail("mmap", "memory", "none");
}

// --- Operations

static void mark(const char* key) {
  if (key != NULL && is(options.marks, "keys")) rejoin_bootstrap(key);
}

/** Returns the checked sum of what all ranks contribute in this step. */
__attribute__((noinline)) static uint64_t sum_of(int step, const char* key) {
  uint64_t mine = element(check_state.rank, step, 0), sum = 0, expected = 0;
  mark(key);
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) expected += element(r, step, 0);
  check_u64("sum", expected, sum);
  return sum;
}

__attribute__((noinline)) static void as_root(uint64_t* news) {
  OK(MPI_Bcast(news, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
}

__attribute__((noinline)) static void as_other(uint64_t* news) {
  OK(MPI_Bcast(news, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
}

/** Broadcasts rank 0's value in this step. */
static uint64_t news_of(int step, const char* key) {
  uint64_t news = element(check_state.rank, step, 1);
  mark(key);
  if (check_state.rank == 0) {
    as_root(&news);
  } else {
    as_other(&news);
  }
  check_u64("news", element(0, step, 1), news);
  return news;
}

static void gather(int step) {
  uint64_t mine = element(check_state.rank, step, 2);
  if (check_state.rank != 0) {
    OK(MPI_Gather(&mine, 1, MPI_UINT64_T, NULL, 0, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    return;
  }
  uint64_t* all = calloc((size_t)check_state.size, sizeof *all);
  if (all == NULL) check_fail("memory", "some", "none");
  OK(MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) check_u64("gathered", element(r, step, 2), all[r]);
  free(all);
}

static void sum_bytes(int step) {
  const int count = (int)(options.bytes / 8);
  uint64_t* some = calloc((size_t)count + 1, sizeof *some);
  if (some == NULL) check_fail("memory", "some", "none");
  for (int i = 0; i < count; ++i) some[i] = element(check_state.rank, step, 3) + (uint64_t)i;
  OK(MPI_Allreduce(MPI_IN_PLACE, some, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  uint64_t expected = 0;
  for (int r = 0; r < check_state.size; ++r) expected += element(r, step, 3);
  for (int i = 0; i < count; ++i) {
    if (some[i] != expected + (uint64_t)(check_state.size * i)) check_fail("bytes", "them", "none");
  }
  free(some);
}

/** The set-up that each process makes before its first iteration, in every incarnation. */
static uint64_t set_up(void) {
  const uint64_t now = salt;
  uint64_t columns = 3 + (uint64_t)check_state.rank, made = 0;
  salt = 7;
  mark("columns");
  OK(MPI_Allreduce(&columns, &made, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD));
  check_u64("columns", 2 + (uint64_t)check_state.size, made);
  made = hash_step(made, news_of(-2, "seed"));
  made = hash_step(made, sum_of(-3, "bins"));
  salt = now;
  return made;
}

static void iterate(int i) {
  static uint64_t made;  // the result of this process's set-up
  if (is(options.shape, "first_use")) {
    if (made == 0) made = set_up();
    received_by_all(made);
  }
  if (is(options.shape, "lines")) received_by_all(news_of(i, NULL));
  if (is(options.shape, "again") && (i == 0 || i >= options.versions / 2)) gather(i);
  received_by_all(sum_of(i, NULL));
  if (options.bytes > 0) sum_bytes(i);
  received_by_all(news_of(i + 1000000, NULL));
}

// --- Models

typedef struct {
  uint64_t digest, checks;
} Local;

static void write_salt(void* model, rejoin_stream* to) { rejoin_write(to, model, sizeof salt); }

static int checkpoint(void) {
  if (is(options.model, "lazy")) return rejoin_checkpoint_lazy(write_salt, &salt);
  if (!is(options.model, "local")) return rejoin_checkpoint(&salt, sizeof salt, NULL, 0);
  const Local local = {check_state.digest, (uint64_t)check_state.checks};
  return rejoin_checkpoint(&salt, sizeof salt, &local, sizeof local);
}

/** Loads the newest version with its state, and returns it. */
static int load(void) {
  const void *global, *local;
  size_t global_bytes, local_bytes;
  const int version = rejoin_load(&global, &global_bytes, &local, &local_bytes);
  check_true("the load", version >= 0 && version == rejoin_version());
  check_state.digest = 0;  // earlier checks differ between processes
  check_state.checks = 0;
  if (version == 0) return 0;
  if (global_bytes != sizeof salt) check_fail("model", "a salt", "another size");
  memcpy(&salt, global, sizeof salt);
  if (is(options.model, "local")) {
    if (local_bytes != sizeof(Local)) check_fail("local model", "a digest", "another size");
    check_state.digest = ((const Local*)local)->digest;
    check_state.checks = (long long)((const Local*)local)->checks;
  }
  return version;
}

static void load_again(void) {
  if (!is(options.load, "twice")) return;
  check_i64("a second load", REJOIN_ERR_STATE, rejoin_load(NULL, NULL, NULL, NULL));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  options.shape = argc > 1 ? argv[1] : "lines";
  options.model = argument_text(argc, argv, "model", "plain");
  options.load = argument_text(argc, argv, "load", "first");
  options.marks = argument_text(argc, argv, "marks", "none");
  options.versions = (int)argument_number(argc, argv, "versions", 20);
  options.bytes = argument_number(argc, argv, "bytes", 0);
  options.pause_us = argument_number(argc, argv, "pause_us", 0);
  const int shares = (int)argument_number(argc, argv, "shares", kNever);
  const long long slow_us = argument_number(argc, argv, "slow_us", 0);
  const int shares_of = (int)argument_number(argc, argv, "shares_of", check_state.rank);

  if (is(options.load, "late")) {
    for (int step = 0; step < 5; ++step) {
      pause_us(options.pause_us);
      sum_of(step - 100, NULL);
      news_of(step - 100, NULL);
    }
  }
  int version = is(options.load, "never") ? 0 : load();
  load_again();
  // Not a check: a process that begins at a version does this once more, and its checks are
  // counted.
  if (is(options.marks, "word") && rejoin_bootstrap("") != 0) check_fail("a word", "0", "an error");

  while (version < options.versions) {
    check_context("version %d", version);
    pause_us(options.pause_us + (check_state.rank == check_state.size - 1 ? slow_us : 0));
    if (version >= shares && check_state.rank == shares_of) share_memory();
    iterate(version);
    if (!is(options.model, "local")) check_state.digest = 0;
    printf("rank %d, version %d: %016llx %016llx\n", check_state.rank, version + 1,
           (unsigned long long)salt, (unsigned long long)check_state.digest);
    const int next = checkpoint();
    if (next != version + 1) check_fail("checkpoint", "the next version", rejoin_error());
    version = next;
    load_again();
  }
  OK(MPI_Finalize());
  return 0;
}
