// Measures one collective operation, or messages between two ranks, for a list of sizes. The same
// source is built for every MPI.
//
// For each size the program verifies the result once, warms up, finds how many calls last long
// enough, and measures several repetitions. A repetition is a barrier, followed by calls with
// nothing between them. Its time is the slowest rank's time divided by the number of calls. Prints
// for each size
//     op bytes iterations usec_min usec_median
// over the repetitions. With --offsets each size is measured with receive buffers at every multiple
// of that step in a page; the line is that of the slowest offset, which is printed at its end.
// With --cold a size is measured once, by the first calls of the program after a barrier, and
// the result is verified behind them. The page faults of all ranks, divided by the number of calls,
// are printed at the end of the line. Only the first size of a program is cold.
// `bytes` is what one rank contributes (to allgather and gather: its block; to alltoall and
// scatter: its block for one other rank). Data are doubles, reductions are sums. The root of bcast,
// gather, reduce and scatter is rank 0 throughout, so that a root may run ahead of its receivers as
// far as the MPI lets it; bcast_rotating takes the next rank as root at every call. pingpong is a
// message from rank 0 to rank 1 and back, both ways counted; messages is a window of 64 from rank 0
// to rank 1, and one back.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { kMaxRepetitions = 101, kMaxSizes = 64, kPageBytes = 4096 };

typedef struct {
  const char* op;
  size_t sizes_bytes[kMaxSizes];
  int sizes_count;
  double min_time_s;  // the least time of one repetition
  double warm_up_s;
  int repetitions;
  int offset_step_bytes;  // 0: use the addresses that malloc returns
  long cold_calls;        // 0: warm up first
} Options;

typedef struct {
  int rank;
  int ranks;
  int count;  // the number of doubles that a rank contributes
  double* send;
  double* receive;
  void* receive_memory;  // the allocation that contains `receive`
} Buffers;

typedef struct {
  const char* name;
  int send_blocks_per_rank;     // 0: one block in all
  int receive_blocks_per_rank;  // 0: one block in all
  void (*call)(const Buffers* b, long iteration);
  double (*expected)(const Buffers* b, int block, int index);
  int result_at_root_only;
} Operation;

static double pattern(int rank, int index) { return rank + 1 + index % 17; }

static void allreduce(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Allreduce(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Reduce(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static double expected_sum(const Buffers* b, int block, int index) {
  (void)block;
  return b->ranks * (b->ranks + 1) / 2.0 + (double)b->ranks * (index % 17);
}

// The root sends from its receive buffer, which new_buffers fills at rank 0.
static void bcast(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Bcast(b->receive, b->count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void bcast_rotating(const Buffers* b, long iteration) {
  MPI_Bcast(b->receive, b->count, MPI_DOUBLE, (int)(iteration % b->ranks), MPI_COMM_WORLD);
}

static double expected_roots(const Buffers* b, int block, int index) {
  (void)b;
  (void)block;
  return pattern(0, index);
}

static void barrier(const Buffers* b, long iteration) {
  (void)b;
  (void)iteration;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void allgather(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Allgather(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static double expected_block(const Buffers* b, int block, int index) {
  (void)b;
  return pattern(block, index);
}

static void alltoall(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Alltoall(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static double expected_block_for_me(const Buffers* b, int block, int index) {
  return pattern(block, b->rank * b->count + index);
}

static void gather(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Gather(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void scatter(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Scatter(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static double expected_block_of_root(const Buffers* b, int block, int index) {
  (void)block;
  return pattern(0, b->rank * b->count + index);
}

static void scan(const Buffers* b, long iteration) {
  (void)iteration;
  MPI_Scan(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double expected_prefix(const Buffers* b, int block, int index) {
  (void)block;
  return (b->rank + 1) * (b->rank + 2) / 2.0 + (b->rank + 1.0) * (index % 17);
}

static void pingpong(const Buffers* b, long iteration) {
  (void)iteration;
  if (b->rank == 0) {
    MPI_Send(b->send, b->count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(b->receive, b->count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (b->rank == 1) {
    MPI_Recv(b->receive, b->count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(b->send, b->count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
  }
}

static void messages(const Buffers* b, long iteration) {
  enum { kWindow = 64 };
  MPI_Request requests[kWindow];
  (void)iteration;
  if (b->rank > 1) return;
  for (int i = 0; i < kWindow; ++i) {
    if (b->rank == 0) {
      MPI_Isend(b->send, b->count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, &requests[i]);
    } else {
      MPI_Irecv(b->receive, b->count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    }
  }
  for (int i = 0; i < kWindow; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  if (b->rank == 0) {
    MPI_Recv(b->receive, b->count, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(b->send, b->count, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
  }
}

static double expected_of_the_other(const Buffers* b, int block, int index) {
  (void)block;
  return b->rank > 1 ? -1.0 : pattern(1 - b->rank, index);
}

static const Operation kOperations[] = {
    {"allreduce", 0, 0, allreduce, expected_sum, 0},
    {"reduce", 0, 0, reduce, expected_sum, 1},
    {"bcast", 0, 0, bcast, expected_roots, 0},
    {"bcast_rotating", 0, 0, bcast_rotating, expected_roots, 0},
    {"barrier", 0, 0, barrier, NULL, 0},
    {"allgather", 0, 1, allgather, expected_block, 0},
    {"alltoall", 1, 1, alltoall, expected_block_for_me, 0},
    {"gather", 0, 1, gather, expected_block, 1},
    {"scatter", 1, 0, scatter, expected_block_of_root, 0},
    {"scan", 0, 0, scan, expected_prefix, 0},
    {"pingpong", 0, 0, pingpong, expected_of_the_other, 0},
    {"messages", 0, 0, messages, expected_of_the_other, 0},
};
enum { kOperationsCount = sizeof(kOperations) / sizeof(kOperations[0]) };

static void fail(const char* message, const char* detail) {
  fprintf(stderr, "collectives: %s%s\n", message, detail);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static int blocks(int per_rank, int ranks) { return per_rank ? per_rank * ranks : 1; }

static void* new_memory(size_t bytes) {
  void* memory = malloc(bytes ? bytes : 1);
  if (!memory) fail("out of memory", "");
  return memory;
}

// Places the receive buffer page_offset bytes after a page boundary.
static void place_receive_buffer(Buffers* b, int page_offset) {
  uintptr_t page = ((uintptr_t)b->receive_memory + kPageBytes - 1) / kPageBytes * kPageBytes;
  b->receive = (double*)(page + (uintptr_t)page_offset);
}

static void free_buffers(Buffers* b) {
  free(b->send);
  free(b->receive_memory);
}

static Buffers new_buffers(const Operation* operation, size_t size_bytes) {
  Buffers b;
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  b.count = (int)(size_bytes / sizeof(double));
  size_t send_count = (size_t)blocks(operation->send_blocks_per_rank, b.ranks) * b.count;
  size_t receive_count = (size_t)blocks(operation->receive_blocks_per_rank, b.ranks) * b.count;
  b.send = new_memory(send_count * sizeof(double));
  b.receive_memory = new_memory(receive_count * sizeof(double) + 2 * kPageBytes);
  b.receive = b.receive_memory;
  for (size_t i = 0; i < send_count; ++i) b.send[i] = pattern(b.rank, (int)i);
  for (size_t i = 0; i < receive_count; ++i) b.receive[i] = b.rank ? -1.0 : pattern(0, (int)i);
  return b;
}

static void verify_result(const Operation* operation, const Buffers* b) {
  if (!operation->expected || (operation->result_at_root_only && b->rank != 0)) return;
  for (int block = 0; block < blocks(operation->receive_blocks_per_rank, b->ranks); ++block) {
    for (int i = 0; i < b->count; ++i) {
      if (b->receive[(size_t)block * b->count + i] != operation->expected(b, block, i)) {
        fail("wrong result of ", operation->name);
      }
    }
  }
}

static void verify(const Operation* operation, const Buffers* b) {
  operation->call(b, 0);
  verify_result(operation, b);
}

// Returns the slowest rank's seconds for `iterations` calls; the same number at every rank.
static double timed_s(const Operation* operation, const Buffers* b, long iterations) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start_s = MPI_Wtime();
  for (long i = 0; i < iterations; ++i) operation->call(b, i);
  double mine_s = MPI_Wtime() - start_s;
  double slowest_s;
  MPI_Allreduce(&mine_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest_s;
}

// Doubles the number of calls until they last for the warm-up time. Returns the number of calls in
// a repetition.
static long warm_up(const Operation* operation, const Buffers* b, const Options* options) {
  long iterations = 1;
  double seconds = timed_s(operation, b, iterations);
  while (seconds < options->warm_up_s) {
    iterations *= 2;
    seconds = timed_s(operation, b, iterations);
  }
  long wanted = (long)(options->min_time_s * (double)iterations / seconds) + 1;
  return wanted < 2 ? 2 : wanted;
}

static int compare_doubles(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void print_times(const Operation* operation, size_t size_bytes, long iterations,
                        double usec_min, double usec_median) {
  printf("%s %zu %ld %.4f %.4f", operation->name, size_bytes, iterations, usec_min, usec_median);
}

static void measure(const Operation* operation, size_t size_bytes, const Options* options) {
  Buffers b = new_buffers(operation, size_bytes);
  verify(operation, &b);
  long iterations = warm_up(operation, &b, options);
  double usec[kMaxRepetitions];
  for (int r = 0; r < options->repetitions; ++r) {
    usec[r] = timed_s(operation, &b, iterations) * 1e6 / (double)iterations;
  }
  qsort(usec, (size_t)options->repetitions, sizeof(double), compare_doubles);
  if (b.rank == 0) {
    print_times(operation, size_bytes, iterations, usec[0], usec[options->repetitions / 2]);
    printf("\n");
    fflush(stdout);
  }
  free_buffers(&b);
}

// Measures all offsets. The time of an offset is the fastest of its repetitions, which are spread
// over the whole run: other load on the machine slows down some of them, and a bad offset all.
static void measure_offsets(const Operation* operation, size_t size_bytes, const Options* options) {
  Buffers b = new_buffers(operation, size_bytes);
  int step = options->offset_step_bytes;
  double usec[kPageBytes / sizeof(double)];
  long iterations = 0;
  for (int r = 0; r < options->repetitions; ++r) {
    for (int i = 0; i * step < kPageBytes; ++i) {
      place_receive_buffer(&b, i * step);
      if (r == 0) verify(operation, &b);
      if (r == 0 && i == 0) iterations = warm_up(operation, &b, options);
      double here = timed_s(operation, &b, iterations) * 1e6 / (double)iterations;
      if (r == 0 || here < usec[i]) usec[i] = here;
    }
  }
  int slowest = 0, count = (kPageBytes - 1) / step + 1;
  for (int i = 1; i < count; ++i) {
    if (usec[i] > usec[slowest]) slowest = i;
  }
  if (b.rank == 0) {
    print_times(operation, size_bytes, iterations, usec[slowest], usec[slowest]);
    printf(" %d\n", slowest * step);
    fflush(stdout);
  }
  free_buffers(&b);
}

static double page_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_minflt + usage.ru_majflt);
}

static void measure_cold(const Operation* operation, size_t size_bytes, const Options* options) {
  Buffers b = new_buffers(operation, size_bytes);
  double calls = (double)options->cold_calls, begin = page_faults(), all;
  double usec = timed_s(operation, &b, options->cold_calls) * 1e6 / calls;
  double mine = page_faults() - begin;
  verify_result(operation, &b);
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (b.rank == 0) {
    print_times(operation, size_bytes, options->cold_calls, usec, usec);
    printf(" %.1f\n", all / calls);
    fflush(stdout);
  }
  free_buffers(&b);
}

static size_t parse_size_bytes(const char* text, char** end) {
  size_t value = strtoul(text, end, 10);
  if (*end == text) fail("bad size in --sizes: ", text);
  if (**end == 'K' || **end == 'k') {
    value <<= 10;
    ++*end;
  } else if (**end == 'M' || **end == 'm') {
    value <<= 20;
    ++*end;
  }
  if (value % sizeof(double) != 0 || value > ((size_t)1 << 30)) {
    fail("sizes are multiples of 8 up to 1024M; not so in --sizes: ", text);
  }
  return value;
}

static void parse_sizes(const char* text, Options* options) {
  options->sizes_count = 0;
  for (;;) {
    char* end;
    if (options->sizes_count == kMaxSizes) fail("too many sizes", "");
    options->sizes_bytes[options->sizes_count++] = parse_size_bytes(text, &end);
    if (*end == '\0') return;
    if (*end != ',') fail("bad size in --sizes: ", text);
    text = end + 1;
  }
}

static const char kUsage[] =
    "usage: collectives OP [--sizes LIST] [--min-time S] [--warm-up S] [--repetitions N]\n"
    "       collectives OP --cold N [--sizes LIST]\n"
    "  OP              allreduce, reduce, bcast, bcast_rotating, barrier, allgather, alltoall,\n"
    "                  gather, scatter, scan, pingpong or messages\n"
    "  --sizes LIST    bytes a rank contributes, as 8,4K,1M (multiples of 8; default 8)\n"
    "  --min-time S    seconds that a repetition lasts at least (default 0.1)\n"
    "  --warm-up S     seconds of calls before the first repetition (default 0.05)\n"
    "  --repetitions N (default 5)\n"
    "  --offsets STEP  bytes: with receive buffers at every offset 0, STEP, 2 STEP, … in a page;\n"
    "                  prints the slowest (multiples of 8)\n"
    "  --cold N        the first N calls, without warm-up; prints their page faults, too\n";

static Options parse_options(int argc, char** argv) {
  Options options = {NULL, {8}, 1, 0.1, 0.05, 5, 0, 0};
  if (argc < 2 || argv[1][0] == '-') fail(kUsage, "");
  options.op = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const char* flag = argv[i];
    if (i + 1 == argc) fail("no value for ", flag);
    const char* value = argv[i + 1];
    if (strcmp(flag, "--sizes") == 0) {
      parse_sizes(value, &options);
    } else if (strcmp(flag, "--min-time") == 0) {
      options.min_time_s = atof(value);
    } else if (strcmp(flag, "--warm-up") == 0) {
      options.warm_up_s = atof(value);
    } else if (strcmp(flag, "--repetitions") == 0) {
      options.repetitions = atoi(value);
    } else if (strcmp(flag, "--offsets") == 0) {
      options.offset_step_bytes = atoi(value);
      if (options.offset_step_bytes <= 0 || options.offset_step_bytes % 8 != 0) {
        fail("--offsets: a multiple of 8, not ", value);
      }
    } else if (strcmp(flag, "--cold") == 0) {
      options.cold_calls = atol(value);
      if (options.cold_calls < 1) fail("--cold: at least 1, not ", value);
    } else {
      fail("unknown flag ", flag);
    }
  }
  if (options.cold_calls && options.offset_step_bytes) fail("--cold or --offsets, not both", "");
  if (options.repetitions < 1 || options.repetitions > kMaxRepetitions) {
    fail("--repetitions: from 1 to 101", "");
  }
  return options;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options = parse_options(argc, argv);
  const Operation* operation = NULL;
  for (int i = 0; i < kOperationsCount; ++i) {
    if (strcmp(options.op, kOperations[i].name) == 0) operation = &kOperations[i];
  }
  if (!operation) fail("unknown operation ", options.op);
  if (!operation->expected) {  // a barrier has no size
    options.sizes_count = 1;
    options.sizes_bytes[0] = 0;
  }
  void (*measured)(const Operation*, size_t, const Options*) = options.cold_calls ? measure_cold
                                                               : options.offset_step_bytes
                                                                   ? measure_offsets
                                                                   : measure;
  for (int i = 0; i < options.sizes_count; ++i) {
    measured(operation, options.sizes_bytes[i], &options);
  }
  MPI_Finalize();
  return 0;
}
