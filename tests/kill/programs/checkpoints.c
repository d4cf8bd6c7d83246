// checkpoints [versions=V] [steps=K] [lazy=1] [made=split|dup] [bytes=B] [model=B] [pause_us=U]
//
// The program has a prologue, a load, a bootstrap phase, and V versions (default 4) of K rounds
// (default 1). A round has operations with results that are checked, on the world and on the
// communicator that the bootstrap phase makes. A message has `bytes` bytes (default 24), the global
// model at least `model` bytes (default 64). Every rank prints a line after every version: a digest
// of what all ranks have received, and, unless lazy, one of what this rank alone has received,
// which is in its local model. The environment variable VERSIONS overrides V, because a job that
// goes on from files must have the same arguments as the one that wrote them.

#include <rejoin.h>

#include "program.h"

typedef struct {
  uint64_t salt;      // a hash of what all ranks have received
  uint64_t versions;  // the number of versions that were made
  uint64_t filling[];
} Global;

typedef struct {
  uint64_t rank;
  uint64_t digest;
  uint64_t checks;
  uint64_t filling[];
} Local;

static int count;  // the number of elements that a rank contributes
static size_t filling;
static uint64_t* in;
static uint64_t* out;
static MPI_Comm made;
static Global* global;
static size_t global_bytes;
static Local* local;
static size_t local_bytes;

static void* memory(size_t bytes) {
  void* found = calloc(1, bytes + 1);
  if (found == NULL) check_fail("memory", "some", "none");
  return found;
}

/** Returns the world rank of member r of the communicator of the bootstrap phase. */
static int world_rank_of(int r) {
  MPI_Group group, world;
  int found;
  OK(MPI_Comm_group(made, &group));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_translate_ranks(group, 1, &r, world, &found));
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&world));
  return found;
}

static void fill(int step) {
  for (int i = 0; i < count; ++i) in[i] = element(check_state.rank, step, i);
}

static void prologue(void) {
  int mine = check_state.rank + 1, sum = 0;
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  check_i64("prologue", check_state.size * (check_state.size + 1) / 2, sum);
}

static void bootstrap(const char* how) {
  int columns = 7 * (check_state.rank + 1), most = 0;
  rejoin_bootstrap(NULL);  // without a key: by its call site
  OK(MPI_Allreduce(&columns, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  check_i64("columns", 7 * check_state.size, most);
  int* all = new_ints(check_state.size);
  rejoin_bootstrap("columns");
  OK(MPI_Allgather(&columns, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) {
    check_i64("gathered columns", 7 * (r + 1), all[r]);
  }
  free(all);
  rejoin_bootstrap("made");
  if (strcmp(how, "split") == 0) {  // even and odd ranks, in reverse order
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_state.rank % 2, -check_state.rank, &made));
  } else {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
  }
}

static void on_the_world(int step) {
  const int n = check_state.size, root = step % n;
  fill(step);
  OK(MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) {
    uint64_t sum = 0;
    for (int r = 0; r < n; ++r) sum += element(r, step, i);
    check_u64("sum", sum, out[i]);
  }
  received_by_all(out[0]);
  fill(step);
  OK(MPI_Bcast(in, count, MPI_UINT64_T, root, MPI_COMM_WORLD));
  for (int i = 0; i < count; ++i) check_u64("broadcast", element(root, step, i), in[i]);
  received_by_all(in[count - 1]);
  fill(step);
  OK(MPI_Reduce(in, out, count, MPI_UINT64_T, MPI_BXOR, root, MPI_COMM_WORLD));
  for (int i = 0; check_state.rank == root && i < count; ++i) {
    uint64_t all = 0;
    for (int r = 0; r < n; ++r) all ^= element(r, step, i);
    check_u64("at the root", all, out[i]);
  }
  OK(MPI_Allgather(in, count, MPI_UINT64_T, out, count, MPI_UINT64_T, MPI_COMM_WORLD));
  for (int r = 0; r < n; ++r) {
    for (int i = 0; i < count; ++i) check_u64("block", element(r, step, i), out[r * count + i]);
  }
  received_by_all(out[n * count - 1]);
}

static void on_the_made_one(int step) {
  int n;
  OK(MPI_Comm_size(made, &n));
  fill(step);
  OK(MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, made));
  for (int i = 0; i < count; ++i) {
    uint64_t sum = 0;
    for (int r = 0; r < n; ++r) sum += element(world_rank_of(r), step, i);
    check_u64("sum of the made one", sum, out[i]);
  }
  const int root = step % n;
  OK(MPI_Bcast(in, count, MPI_UINT64_T, root, made));
  for (int i = 0; i < count; ++i) {
    check_u64("broadcast in the made one", element(world_rank_of(root), step, i), in[i]);
  }
}

/** Fills the models with their contents after `version` versions. */
static void write_models(int version) {
  global->salt = salt;
  global->versions = (uint64_t)version;
  for (size_t i = 0; i < filling; ++i) global->filling[i] = hash_step(salt, i);
  local->rank = (uint64_t)check_state.rank;
  local->digest = check_state.digest;
  local->checks = (uint64_t)check_state.checks;
  for (int i = 0; i <= check_state.rank; ++i)
    local->filling[i] = hash_step(local->digest, (uint64_t)i);
}

static void read_models(int version, const void* found, size_t found_bytes, const void* mine,
                        size_t mine_bytes, int lazy) {
  check_context("models of version %d", version);
  check_u64("size of the global model", global_bytes, found_bytes);
  memcpy(global, found, global_bytes);
  check_u64("version in the model", (uint64_t)version, global->versions);
  for (size_t i = 0; i < filling; ++i) {
    check_u64("global model", hash_step(global->salt, i), global->filling[i]);
  }
  salt = global->salt;
  check_u64("size of the local model", lazy ? 0 : local_bytes, mine_bytes);
  if (lazy) return;
  memcpy(local, mine, local_bytes);
  check_u64("rank in the local model", (uint64_t)check_state.rank, local->rank);
  for (int i = 0; i <= check_state.rank; ++i) {
    check_u64("local model", hash_step(local->digest, (uint64_t)i), local->filling[i]);
  }
}

static void serialize(void* model, rejoin_stream* to) {
  const char* from = model;
  const size_t first = global_bytes / 3;
  rejoin_write(to, from, first);
  rejoin_write(to, from + first, 0);
  rejoin_write(to, from + first, global_bytes - first);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const char* until = getenv("VERSIONS");
  const int versions =
      until != NULL ? atoi(until) : (int)argument_number(argc, argv, "versions", 4);
  const int steps = (int)argument_number(argc, argv, "steps", 1);
  const int lazy = argument_number(argc, argv, "lazy", 0) != 0;
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  count = (int)(argument_number(argc, argv, "bytes", 24) / 8);
  filling = (size_t)argument_number(argc, argv, "model", 64) / 8;
  global_bytes = sizeof *global + filling * 8;
  local_bytes = sizeof *local + (size_t)(check_state.rank + 1) * 8;
  in = memory((size_t)count * 8);
  out = memory((size_t)check_state.size * (size_t)count * 8);
  global = memory(global_bytes);
  local = memory(local_bytes);

  prologue();
  const void *found, *mine;
  size_t found_bytes, mine_bytes;
  int version = rejoin_load(&found, &found_bytes, &mine, &mine_bytes);
  check_true("the load", version >= 0 && version == rejoin_version());
  bootstrap(argument_text(argc, argv, "made", "split"));
  if (version > 0) read_models(version, found, found_bytes, mine, mine_bytes, lazy);
  // The number of checks before this differs by incarnation.
  check_state.digest = version > 0 ? local->digest : 0;
  check_state.checks = version > 0 ? (long long)local->checks : 0;

  while (version < versions) {
    for (int s = 0; s < steps; ++s) {
      const int step = version * steps + s;
      check_context("version %d, step %d", version, s);
      pause_us(pause);
      on_the_world(step);
      on_the_made_one(step);
    }
    if (lazy) check_state.digest = 0, check_state.checks = 0;  // they are not in the model
    printf("rank %d, version %d: %016llx %016llx\n", check_state.rank, version + 1,
           (unsigned long long)salt, (unsigned long long)check_state.digest);
    write_models(version + 1);
    if (lazy) {
      version = rejoin_checkpoint_lazy(serialize, global);
    } else {
      version = rejoin_checkpoint(global, global_bytes, local, local_bytes);
    }
    // From here on the program may change the models again.
    memset(global, 0x5a, global_bytes);
    memset(local, 0xa5, local_bytes);
    if (version != rejoin_version()) check_fail("checkpoint", "the version", rejoin_error());
  }
  if (made != MPI_COMM_NULL) OK(MPI_Comm_free(&made));
  free(in);
  free(out);
  free(global);
  free(local);
  return check_end();
}
