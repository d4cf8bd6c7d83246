// Measures the time of the copies of an operation on this machine, without any MPI: two processes
// on two processors do nothing else. bench/compare prints these figures beside those of the MPIs.
//
//   bounds mode                 the machine's mode: whether the two processors share a cache
//   bounds bcast SIZES          one process writes into a journal of 64 MiB, the other reads it
//   bounds allreduce SIZES      each process writes half of its vector for the other one, adds up
//                               the other half into journal and result, and copies the half that
//                               the other process has added up
//
// SIZES are bytes, such as 262144,1048576. Prints "bcast BYTES MICROSECONDS": for each kind of
// store (through the cache, past it) and each size of chunk the median of some repetitions is
// taken, and the least of these medians is printed. A mode is printed as "mode NAME ROUND_TRIP_US
// READ_US": same or cross, the time of a word there and back, and the time in which one process
// reads 512 KiB that the other has just written.

#define _GNU_SOURCE
#include <emmintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRepetitions = 5, kMode = 512 * 1024, kStaged = 1 << 20, kBlock = 8192, kLine = 64 };
static const size_t kJournal = 64u << 20, kAhead = 4u << 20, kLargest = 64u << 20;
static const double kRepetitionUs = 20e3;

typedef struct {
  alignas(2 * kLine) _Atomic uint64_t count;
} Counter;

typedef struct {
  Counter written[2], read[2], met[2];
} Shared;

static Shared* shared;
static char *journal, *staged[2];
static int me;
static uint64_t meetings;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void fail(const char* what) {
  fprintf(stderr, "bounds: %s\n", what);
  exit(1);
}

static char* memory(size_t bytes, int how) {
  char* p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail("no memory");
  madvise(p, bytes, MADV_HUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

static void wait_for(Counter* c, uint64_t count) {
  for (unsigned turn = 1; atomic_load_explicit(&c->count, memory_order_acquire) < count; ++turn) {
    if (turn % 4096 == 0) sched_yield();
    _mm_pause();
  }
}
static void set(Counter* c, uint64_t count) {
  atomic_store_explicit(&c->count, count, memory_order_release);
}
static void meet(void) {
  set(&shared->met[me], ++meetings);
  wait_for(&shared->met[1 - me], meetings);
}

static void copy(char* to, const char* from, size_t bytes, int past_cache) {
  if (!past_cache) {
    memcpy(to, from, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += kLine) {
    for (size_t i = at; i < at + kLine; i += sizeof(__m128i)) {
      _mm_stream_si128((__m128i*)(to + i), _mm_load_si128((const __m128i*)(from + i)));
    }
  }
  _mm_sfence();
}

typedef struct {
  size_t bytes, chunk;
  int past_cache;
  char *send, *receive;
  uint64_t done;  // chunks in all calls so far
  size_t place;   // in the journal
} Call;

static size_t advance(Call* c) {
  const size_t at = c->place;
  c->place = at + 2 * c->bytes > kJournal ? 0 : at + c->bytes;
  return at;
}

static void bcast(Call* c) {
  const size_t place = advance(c), ahead = kAhead / c->chunk;
  for (size_t at = 0; at < c->bytes; at += c->chunk) {
    ++c->done;
    if (me == 0) {
      if (c->done > ahead) wait_for(&shared->read[1], c->done - ahead);
      copy(journal + place + at, c->send + at, c->chunk, c->past_cache);
      set(&shared->written[0], c->done);
    } else {
      wait_for(&shared->written[0], c->done);
      memcpy(c->receive + at, journal + place + at, c->chunk);
      set(&shared->read[1], c->done);
    }
  }
}

__attribute__((target_clones("avx512f", "avx2", "default"))) static void add(const double* a,
                                                                             const double* b,
                                                                             double* sum,
                                                                             size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

static void allreduce(Call* c) {
  const size_t place = advance(c), half = c->chunk / 2;
  const size_t mine = (size_t)me * half, other = half - mine;
  for (size_t at = 0; at < c->bytes; at += c->chunk) {
    char* to = journal + place + at;
    const size_t slot = c->done++ * half % kStaged;
    memcpy(staged[me] + slot, c->send + at + other, half);
    set(&shared->written[me], c->done);
    wait_for(&shared->written[1 - me], c->done);
    for (size_t b = 0; b < half; b += kBlock) {
      const size_t bytes = half - b < kBlock ? half - b : kBlock;
      double* sum = (double*)(c->receive + at + mine + b);
      add((const double*)(c->send + at + mine + b), (const double*)(staged[1 - me] + slot + b), sum,
          bytes / sizeof *sum);
      copy(to + mine + b, (const char*)sum, bytes, c->past_cache);
    }
    set(&shared->read[me], c->done);
    wait_for(&shared->read[1 - me], c->done);
    memcpy(c->receive + at + other, to + other, half);
  }
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Returns the microseconds of a call: the median of some repetitions.
static double measure(void (*call)(Call*), Call* c) {
  double us[kRepetitions];
  const long calls = 1 + (long)(kRepetitionUs / (1 + (double)c->bytes / 5e3));
  c->done = 0;
  meet();
  for (Counter* all = shared->written; all < shared->met; ++all) set(all, 0);
  for (int r = -1; r < kRepetitions; ++r) {  // the first warms up
    meet();
    const double begin = now_us();
    for (long i = 0; i < calls; ++i) call(c);
    meet();
    if (r >= 0) us[r] = (now_us() - begin) / (double)calls;
  }
  qsort(us, kRepetitions, sizeof *us, by_value);
  return us[kRepetitions / 2];
}

static void bound(const char* name, void (*call)(Call*), size_t bytes) {
  static const size_t chunks[] = {32 * 1024, 128 * 1024, 512 * 1024};
  static char *send, *receive;
  if (send == NULL) {
    send = memory(kLargest, MAP_PRIVATE);
    receive = memory(kLargest, MAP_PRIVATE);
  }
  double least = 0;
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; ++i) {
    for (int past_cache = 0; past_cache < 2; ++past_cache) {
      const size_t chunk = chunks[i] < bytes ? chunks[i] : bytes;
      Call c = {bytes, chunk, past_cache, send, receive, 0, 0};
      const double us = measure(call, &c);
      if (least == 0 || us < least) least = us;
    }
  }
  if (me == 0) printf("%s %zu %.4f\n", name, bytes, least);
}

static void print_mode(void) {
  enum { kTrips = 20000, kReads = 20 };
  double begin = 0, reads[kReads];
  for (int warm = 0; warm < 2; ++warm) {
    meet();
    begin = now_us();
    for (int i = 0; i < kTrips; ++i) meet();
  }
  const double trip_us = (now_us() - begin) / kTrips;
  for (int r = 0; r < kReads; ++r) {
    if (me == 1) memset(journal, r, kMode);
    meet();
    const double start = now_us();
    uint64_t sum = 0;
    for (size_t i = 0; me == 0 && i < kMode; i += kLine) sum += *(volatile uint64_t*)(journal + i);
    reads[r] = now_us() - start + (sum == 1);
    meet();
  }
  qsort(reads, kReads, sizeof *reads, by_value);
  const double read_us = reads[kReads / 2], slow_us = 150;
  if (me == 0)
    printf("mode %s %.3f %.1f\n", read_us < slow_us ? "same" : "cross", trip_us, read_us);
}

// Binds the two processes to the first two processors that they may use.
static void pin(void) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0, found = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all) && found++ == me) CPU_SET(cpu, &one);
  }
  if (CPU_COUNT(&one) == 0) fail("needs two processors");
  sched_setaffinity(0, sizeof one, &one);
}

static void work(int argc, char** argv) {
  pin();
  if (strcmp(argv[1], "mode") == 0) {
    print_mode();
    return;
  }
  void (*call)(Call*) = strcmp(argv[1], "bcast") == 0 ? bcast : allreduce;
  for (char* at = argc > 2 ? argv[2] : ""; *at != '\0'; at += *at == ',') {
    const size_t bytes = strtoul(at, &at, 10);
    bound(argv[1], call, bytes);
  }
}

static int are_sizes(const char* text) {
  for (char* at = (char*)text; *at != '\0'; at += *at == ',') {
    const char* begin = at;
    const size_t bytes = strtoul(begin, &at, 10);
    const int power = bytes != 0 && (bytes & (bytes - 1)) == 0;
    if (at == begin || !power || bytes < 4 * kLine || bytes > kLargest) return 0;
    if (*at != '\0' && *at != ',') return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "mode") != 0 &&
      (argc != 3 || (strcmp(what, "bcast") != 0 && strcmp(what, "allreduce") != 0))) {
    fprintf(stderr, "usage: bounds mode | bounds bcast SIZES | bounds allreduce SIZES\n");
    return 2;
  }
  if (argc > 2 && !are_sizes(argv[2])) {
    fail("sizes are powers of two from 256 to 64 MiB, in bytes: 262144,1048576");
  }
  shared = (Shared*)memory(sizeof *shared, MAP_SHARED);
  journal = memory(kJournal + kLargest, MAP_SHARED);
  for (int i = 0; i < 2; ++i) staged[i] = memory(kStaged, MAP_SHARED);
  const pid_t other = fork();
  if (other < 0) fail("cannot fork");
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    me = 1;
    work(argc, argv);
    return 0;
  }
  work(argc, argv);
  fflush(stdout);
  int status = 0;
  waitpid(other, &status, 0);
  return status == 0 ? 0 : 1;
}
