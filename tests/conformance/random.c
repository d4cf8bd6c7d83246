// A random program: `random SEED OPERATIONS MAX_BYTES` runs that many collectives of every kind, on
// communicators that are made and freed on the way, with at most about MAX_BYTES a rank in each,
// and prints one line, the checksum of everything that every rank received.
//
// All ranks draw the same random numbers, so that they agree on what comes next. An element is a
// hash of (salt, world rank of its contributor, index); the receiver computes it again and
// compares. The salt is taken from what the world received before: who lost or changed a single
// byte contributes wrong values from there on.

#include <mpi.h>

#include "check.h"
#include "random_step.h"

enum { kSlots = 6 };
static Slot slots[kSlots];

static uint64_t random_state;

/** What the world last received together; part of every later contribution. */
static uint64_t world_salt;

static uint64_t draw(void) {
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  return hash_step(hash_step(random_state, 1), 2);
}

static int draw_below(int limit) { return (int)(draw() % (uint64_t)limit); }

static void run_barrier(const Step* s) { OK(MPI_Barrier(s->on->comm)); }

static void run_bcast(const Step* s) {
  void* buffer = new_buffer(s, s->count);
  if (s->on->rank == s->root) fill(s, buffer, 0, s->root, 0, s->count);
  OK(MPI_Bcast(buffer, s->count, s->kind->type, s->root, s->on->comm));
  expect_filled(s, buffer, 0, s->root, 0, s->count);
  free(buffer);
}

static void run_allreduce(const Step* s) {
  void* in = new_contribution(s, s->count);
  void* out = s->in_place ? in : new_buffer(s, s->count);
  OK(MPI_Allreduce(s->in_place ? MPI_IN_PLACE : in, out, s->count, s->kind->type, mpi_op(s),
                   s->on->comm));
  for (int i = 0; i < s->count; ++i) expect(s, out, i, reduced(s, s->on->size, i));
  if (out != in) free(out);
  free(in);
}

static void run_reduce(const Step* s) {
  int is_root = s->on->rank == s->root;
  int in_place = s->in_place && is_root;
  void* in = new_contribution(s, s->count);
  void* out = in_place ? in : new_buffer(s, s->count);
  OK(MPI_Reduce(in_place ? MPI_IN_PLACE : in, is_root ? out : NULL, s->count, s->kind->type,
                mpi_op(s), s->root, s->on->comm));
  for (int i = 0; is_root && i < s->count; ++i) expect(s, out, i, reduced(s, s->on->size, i));
  if (out != in) free(out);
  free(in);
}

static void run_scan(const Step* s) {
  void* in = new_contribution(s, s->count);
  void* out = s->in_place ? in : new_buffer(s, s->count);
  OK(MPI_Scan(s->in_place ? MPI_IN_PLACE : in, out, s->count, s->kind->type, mpi_op(s),
              s->on->comm));
  for (int i = 0; i < s->count; ++i) expect(s, out, i, reduced(s, s->on->rank + 1, i));
  if (out != in) free(out);
  free(in);
}

static void run_exscan(const Step* s) {
  void* in = new_contribution(s, s->count);
  void* out = new_buffer(s, s->count);
  OK(MPI_Exscan(in, out, s->count, s->kind->type, mpi_op(s), s->on->comm));
  for (int i = 0; s->on->rank > 0 && i < s->count; ++i)
    expect(s, out, i, reduced(s, s->on->rank, i));
  free(in);
  free(out);
}

static void run_reduce_scatter_block(const Step* s) {
  void* in = new_contribution(s, s->count * s->on->size);
  void* out = new_buffer(s, s->count);
  OK(MPI_Reduce_scatter_block(in, out, s->count, s->kind->type, mpi_op(s), s->on->comm));
  for (int i = 0; i < s->count; ++i) {
    expect(s, out, i, reduced(s, s->on->size, s->on->rank * s->count + i));
  }
  free(in);
  free(out);
}

static void run_reduce_scatter(const Step* s) {
  Blocks blocks = new_blocks(s, 0, 0);
  int mine = blocks.counts[s->on->rank];
  void* in = new_contribution(s, blocks.total);
  void* out = new_buffer(s, mine);
  OK(MPI_Reduce_scatter(in, out, blocks.counts, s->kind->type, mpi_op(s), s->on->comm));
  for (int i = 0; i < mine; ++i) {
    expect(s, out, i, reduced(s, s->on->size, blocks.displacements[s->on->rank] + i));
  }
  free(in);
  free(out);
  free_blocks(&blocks);
}

static void run_gather(const Step* s) {
  int is_root = s->on->rank == s->root;
  void* in = new_contribution(s, s->count);
  void* out = new_buffer(s, s->count * s->on->size);
  OK(MPI_Gather(in, s->count, s->kind->type, out, s->count, s->kind->type, s->root, s->on->comm));
  for (int m = 0; is_root && m < s->on->size; ++m) {
    expect_filled(s, out, m * s->count, m, 0, s->count);
  }
  free(in);
  free(out);
}

static void run_gatherv(const Step* s) {
  int is_root = s->on->rank == s->root;
  Blocks blocks = new_blocks(s, 0, 0);
  int mine = blocks.counts[s->on->rank];
  void* in = new_contribution(s, mine);
  void* out = new_buffer(s, blocks.total);
  OK(MPI_Gatherv(in, mine, s->kind->type, out, blocks.counts, blocks.displacements, s->kind->type,
                 s->root, s->on->comm));
  for (int m = 0; is_root && m < s->on->size; ++m) {
    expect_filled(s, out, blocks.displacements[m], m, 0, blocks.counts[m]);
  }
  free(in);
  free(out);
  free_blocks(&blocks);
}

static void run_scatter(const Step* s) {
  void* in = new_contribution(s, s->count * s->on->size);
  void* out = new_buffer(s, s->count);
  OK(MPI_Scatter(in, s->count, s->kind->type, out, s->count, s->kind->type, s->root, s->on->comm));
  expect_filled(s, out, 0, s->root, s->on->rank * s->count, s->count);
  free(in);
  free(out);
}

static void run_scatterv(const Step* s) {
  Blocks blocks = new_blocks(s, 0, 0);
  int mine = blocks.counts[s->on->rank];
  void* in = new_contribution(s, blocks.total);
  void* out = new_buffer(s, mine);
  OK(MPI_Scatterv(in, blocks.counts, blocks.displacements, s->kind->type, out, mine, s->kind->type,
                  s->root, s->on->comm));
  expect_filled(s, out, 0, s->root, blocks.displacements[s->on->rank], mine);
  free(in);
  free(out);
  free_blocks(&blocks);
}

static void run_allgather(const Step* s) {
  void* in = new_contribution(s, s->count);
  void* out = new_buffer(s, s->count * s->on->size);
  if (s->in_place) fill(s, out, s->on->rank * s->count, s->on->rank, 0, s->count);
  OK(MPI_Allgather(s->in_place ? MPI_IN_PLACE : in, s->count, s->kind->type, out, s->count,
                   s->kind->type, s->on->comm));
  for (int m = 0; m < s->on->size; ++m) expect_filled(s, out, m * s->count, m, 0, s->count);
  free(in);
  free(out);
}

static void run_allgatherv(const Step* s) {
  Blocks blocks = new_blocks(s, 0, 0);
  int mine = blocks.counts[s->on->rank];
  void* in = new_contribution(s, mine);
  void* out = new_buffer(s, blocks.total);
  OK(MPI_Allgatherv(in, mine, s->kind->type, out, blocks.counts, blocks.displacements,
                    s->kind->type, s->on->comm));
  for (int m = 0; m < s->on->size; ++m) {
    expect_filled(s, out, blocks.displacements[m], m, 0, blocks.counts[m]);
  }
  free(in);
  free(out);
  free_blocks(&blocks);
}

static void run_alltoall(const Step* s) {
  int total = s->count * s->on->size;
  void* in = new_buffer(s, total);
  void* out = s->in_place ? in : new_buffer(s, total);
  for (int p = 0; p < s->on->size; ++p) {
    fill(s, in, p * s->count, s->on->rank, p * kPairStride, s->count);
  }
  OK(MPI_Alltoall(s->in_place ? MPI_IN_PLACE : in, s->count, s->kind->type, out, s->count,
                  s->kind->type, s->on->comm));
  for (int p = 0; p < s->on->size; ++p) {
    expect_filled(s, out, p * s->count, p, s->on->rank * kPairStride, s->count);
  }
  if (out != in) free(out);
  free(in);
}

/** Alltoallv, or Alltoallw with the same type for everybody. */
static void run_exchange(const Step* s, int by_bytes) {
  int n = s->on->size;
  Blocks sending = new_blocks(s, 1, 0);
  Blocks receiving = new_blocks(s, 1, 1);
  void* in = new_buffer(s, sending.total);
  void* out = new_buffer(s, receiving.total);
  for (int p = 0; p < n; ++p) {
    fill(s, in, sending.displacements[p], s->on->rank, p * kPairStride, sending.counts[p]);
  }
  if (by_bytes) {
    MPI_Datatype* types = malloc((size_t)n * sizeof *types);
    int* send_bytes = new_ints(n);
    int* receive_bytes = new_ints(n);
    for (int p = 0; p < n; ++p) {
      types[p] = s->kind->type;
      send_bytes[p] = sending.displacements[p] * s->kind->size_bytes;
      receive_bytes[p] = receiving.displacements[p] * s->kind->size_bytes;
    }
    OK(MPI_Alltoallw(in, sending.counts, send_bytes, types, out, receiving.counts, receive_bytes,
                     types, s->on->comm));
    free(types);
    free(send_bytes);
    free(receive_bytes);
  } else {
    OK(MPI_Alltoallv(in, sending.counts, sending.displacements, s->kind->type, out,
                     receiving.counts, receiving.displacements, s->kind->type, s->on->comm));
  }
  for (int p = 0; p < n; ++p) {
    expect_filled(s, out, receiving.displacements[p], p, s->on->rank * kPairStride,
                  receiving.counts[p]);
  }
  free(in);
  free(out);
  free_blocks(&sending);
  free_blocks(&receiving);
}

static void run_alltoallv(const Step* s) { run_exchange(s, 0); }
static void run_alltoallw(const Step* s) { run_exchange(s, 1); }

/** `blocks_per_rank`: how many times the count a rank's buffer holds for every member; 0 = once. */
typedef struct {
  const char* name;
  void (*run)(const Step* s);
  int blocks_per_rank;
  int uniform;
} Collective;

static const Collective kCollectives[] = {
    {"barrier", run_barrier, 0, 0},
    {"bcast", run_bcast, 0, 1},
    {"allreduce", run_allreduce, 0, 1},
    {"reduce", run_reduce, 0, 0},
    {"scan", run_scan, 0, 0},
    {"exscan", run_exscan, 0, 0},
    {"reduce_scatter_block", run_reduce_scatter_block, 1, 0},
    {"reduce_scatter", run_reduce_scatter, 2, 0},
    {"gather", run_gather, 1, 0},
    {"gatherv", run_gatherv, 2, 0},
    {"scatter", run_scatter, 1, 0},
    {"scatterv", run_scatterv, 2, 0},
    {"allgather", run_allgather, 1, 1},
    {"allgatherv", run_allgatherv, 2, 1},
    {"alltoall", run_alltoall, 1, 0},
    {"alltoallv", run_alltoallv, 2, 0},
    {"alltoallw", run_alltoallw, 2, 0},
};
enum { kCollectiveCount = sizeof kCollectives / sizeof *kCollectives };

/** Makes `slot` hold `comm`, which may be MPI_COMM_NULL. */
static void set_slot(Slot* slot, MPI_Comm comm) {
  slot->comm = comm;
  if (comm == MPI_COMM_NULL) return;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  OK(MPI_Comm_rank(comm, &slot->rank));
  OK(MPI_Comm_size(comm, &slot->size));
  OK(MPI_Comm_group(comm, &group));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  slot->world_ranks = new_ints(slot->size);
  int* ranks = new_ints(slot->size);
  for (int r = 0; r < slot->size; ++r) ranks[r] = r;
  OK(MPI_Group_translate_ranks(group, slot->size, ranks, world, slot->world_ranks));
  OK(MPI_Group_free(&group));
  OK(MPI_Group_free(&world));
  free(ranks);
}

static void clear_slot(Slot* slot) {
  if (slot->comm == MPI_COMM_NULL) return;
  OK(MPI_Comm_free(&slot->comm));
  free(slot->world_ranks);
}

/** A communicator of those members of `parent` that the random number chooses. */
static MPI_Comm create_from(const Slot* parent, uint64_t random) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  int* chosen = new_ints(parent->size);
  int count = 0;
  for (int r = 0; r < parent->size; ++r) {
    if (hash_step(random, (uint64_t)parent->world_ranks[r]) % 3 > 0) chosen[count++] = r;
  }
  OK(MPI_Comm_group(parent->comm, &all));
  OK(MPI_Group_incl(all, count, chosen, &some));
  OK(MPI_Comm_create(parent->comm, some, &comm));
  if (some != MPI_GROUP_EMPTY) OK(MPI_Group_free(&some));
  OK(MPI_Group_free(&all));
  free(chosen);
  return comm;
}

/** Replaces the communicator of one slot by one made from another's. */
static void change_communicators(void) {
  int target = 1 + draw_below(kSlots - 1);
  int parent = draw_below(kSlots);
  int way = draw_below(3);
  int colors = 1 + draw_below(3);
  uint64_t random = draw();
  if (parent == target) parent = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  check_context("communicator in slot %d from slot %d, way %d", target, parent, way);
  if (slots[parent].comm != MPI_COMM_NULL) {
    uint64_t mine = hash_step(random, (uint64_t)check_state.rank);
    int color = (int)(mine % (uint64_t)(colors + 1));
    if (way == 0) OK(MPI_Comm_dup(slots[parent].comm, &comm));
    if (way == 1) {
      OK(MPI_Comm_split(slots[parent].comm, color == colors ? MPI_UNDEFINED : color,
                        (int)(mine >> 40 & 7), &comm));
    }
    if (way == 2) comm = create_from(&slots[parent], random);
  }
  clear_slot(&slots[target]);
  set_slot(&slots[target], comm);
}

/** Runs a collective on a random slot; draws the same numbers at ranks that are not in it. */
static void run_step(int number, int max_bytes) {
  int slot = draw_below(3) == 0 ? 0 : draw_below(kSlots);
  const Collective* collective = &kCollectives[draw_below(kCollectiveCount)];
  const Kind* kind = &kKinds[draw_below(kKindCount)];
  OpId op = kind->operation[draw_below(kind->operations)];
  int bits = 0;
  while (bits < 30 && 1 << (bits + 1) <= max_bytes) ++bits;
  int bytes = draw_below((1 << draw_below(bits + 1)) + 1);
  int root = draw_below(1 << 20);
  int in_place = draw_below(3) == 0;
  if (slots[slot].comm == MPI_COMM_NULL) return;
  int blocks = collective->blocks_per_rank * slots[slot].size;
  int count = bytes / kind->size_bytes / (blocks > 0 ? blocks : 1);
  uint64_t salt = hash_step(world_salt, (uint64_t)number);
  Step step = {&slots[slot], kind, op, root % slots[slot].size, count, in_place, salt};
  check_context("step %d: %s of %d on slot %d", number, collective->name, count, slot);
  uint64_t before = check_state.digest;
  check_state.digest = salt;
  collective->run(&step);
  uint64_t received = check_state.digest;
  check_state.digest = hash_step(before, received);
  if (collective->uniform && slot == 0) world_salt = received;
}

static int argument(int argc, char** argv, int index, int standard, int least) {
  if (index >= argc) return standard;
  char* end = NULL;
  long value = strtol(argv[index], &end, 10);
  if (*end == '\0' && value >= least && value <= 1 << 30) return (int)value;
  if (check_state.rank == 0) fprintf(stderr, "usage: random [SEED [OPERATIONS [MAX_BYTES]]]\n");
  MPI_Finalize();
  exit(2);
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  random_state = (uint64_t)argument(argc, argv, 1, 1, 0);
  int operations = argument(argc, argv, 2, 500, 0);
  int max_bytes = argument(argc, argv, 3, 4096, 1);
  world_salt = draw();
  set_slot(&slots[0], MPI_COMM_WORLD);
  for (int i = 1; i < kSlots; ++i) slots[i].comm = MPI_COMM_NULL;
  for (int number = 0; number < operations; ++number) {
    if (number < kSlots || draw_below(16) == 0) change_communicators();
    run_step(number, max_bytes);
  }
  for (int i = 1; i < kSlots; ++i) clear_slot(&slots[i]);
  free(slots[0].world_ranks);
  check_context("checksum");
  unsigned long long mine = hash_step(check_state.digest, (uint64_t)check_state.rank);
  unsigned long long all = 0;
  OK(MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
  note("checksum %016llx", all);
  OK(MPI_Finalize());
  return 0;
}
