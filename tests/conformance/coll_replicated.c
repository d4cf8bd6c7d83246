// Conformance of Allreduce, Bcast and Barrier: with counts from 0 to a million, in place, with all
// roots and several types, on communicators of every shape.

#include <mpi.h>
#include <time.h>

#include "check.h"
#include "comms.h"

enum { kGuard = -123456789 };
static const int kSmallCounts[] = {0, 1, 2, 5, 100, 1000};
static const int kMiddleCounts[] = {4096, 65536};
enum { kLargeCount = 1000003 };

static void test_allreduce_int(const TestComm* on, int count) {
  check_context("allreduce of %d ints on %s", count, on->name);
  int* in = new_ints(count);
  int* out = new_ints(count);
  int* expected = new_ints(count);
  for (int r = 0; r < on->size; ++r) {
    for (int i = 0; i < count; ++i) expected[i] += test_value(on, r, 0, i);
  }
  for (int i = 0; i < count; ++i) in[i] = test_value(on, on->rank, 0, i);
  out[count] = kGuard;
  OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, on->comm));
  check_ints("sum", expected, out, count);
  check_i64("behind the result", kGuard, out[count]);
  for (int i = 0; i < count; i += 97) {
    check_i64("send buffer is unchanged", test_value(on, on->rank, 0, i), in[i]);
  }
  OK(MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM, on->comm));
  check_ints("sum in place", expected, in, count);
  free(in);
  free(out);
  free(expected);
}

/** Allreduce of another type. The values are small integers, so that every result is exact. */
#define DEFINE_ALLREDUCE(function, c_type, mpi_type)                                      \
  static void function(const TestComm* on, int count) {                                   \
    check_context("allreduce of %d " #c_type " on %s", count, on->name);                  \
    c_type* in = calloc((size_t)count + 1, sizeof(c_type));                               \
    c_type* out = calloc((size_t)count + 1, sizeof(c_type));                              \
    int* sum = new_ints(count);                                                           \
    int* maximum = new_ints(count);                                                       \
    for (int r = 0; r < on->size; ++r) {                                                  \
      for (int i = 0; i < count; ++i) {                                                   \
        int value = test_value(on, r, 1, i) % 8;                                          \
        sum[i] += value;                                                                  \
        if (r == 0 || value > maximum[i]) maximum[i] = value;                             \
      }                                                                                   \
    }                                                                                     \
    for (int i = 0; i < count; ++i) in[i] = (c_type)(test_value(on, on->rank, 1, i) % 8); \
    OK(MPI_Allreduce(in, out, count, mpi_type, MPI_SUM, on->comm));                       \
    OK(MPI_Allreduce(MPI_IN_PLACE, in, count, mpi_type, MPI_MAX, on->comm));              \
    for (int i = 0; i < count; ++i) {                                                     \
      check_i64("sum", sum[i], (long long)out[i]);                                        \
      check_true("sum is exact", out[i] == (c_type)sum[i]);                               \
      check_i64("maximum in place", maximum[i], (long long)in[i]);                        \
      check_true("maximum is exact", in[i] == (c_type)maximum[i]);                        \
    }                                                                                     \
    free(in);                                                                             \
    free(out);                                                                            \
    free(sum);                                                                            \
    free(maximum);                                                                        \
  }

DEFINE_ALLREDUCE(allreduce_char, signed char, MPI_SIGNED_CHAR)
DEFINE_ALLREDUCE(allreduce_float, float, MPI_FLOAT)
DEFINE_ALLREDUCE(allreduce_double, double, MPI_DOUBLE)
DEFINE_ALLREDUCE(allreduce_long_long, long long, MPI_LONG_LONG)

static void test_bcast(const TestComm* on, int count, int root) {
  check_context("broadcast of %d ints from %d on %s", count, root, on->name);
  int* buffer = new_ints(count);
  int* expected = new_ints(count);
  for (int i = 0; i < count; ++i) expected[i] = test_value(on, root, root + count, i);
  for (int i = 0; i < count; ++i) buffer[i] = on->rank == root ? expected[i] : -1;
  buffer[count] = kGuard;
  OK(MPI_Bcast(buffer, count, MPI_INT, root, on->comm));
  check_ints("broadcast", expected, buffer, count);
  check_i64("behind the buffer", kGuard, buffer[count]);
  free(buffer);
  free(expected);
}

static void test_bcast_bytes(const TestComm* on) {
  for (int size = 0; size <= 130; ++size) {
    unsigned char bytes[131];
    int root = size % on->size;
    check_context("broadcast of %d bytes from %d on %s", size, root, on->name);
    for (int i = 0; i <= 130; ++i) bytes[i] = on->rank == root ? (unsigned char)(i + size) : 255;
    OK(MPI_Bcast(bytes, size, MPI_BYTE, root, on->comm));
    for (int i = 0; i < size; ++i) check_i64("byte", (i + size) & 255, bytes[i]);
    if (on->rank != root) check_i64("behind the buffer", 255, bytes[size]);
  }
}

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

/** No rank may leave a barrier before all ranks have entered it. All ranks have the same clock. */
static void test_barrier(const TestComm* on) {
  for (int round = 0; round < 20; ++round) {
    check_context("barrier %d on %s", round, on->name);
    volatile unsigned delay = (unsigned)test_value(on, on->rank, 2, round) % 8 * 20000;
    while (delay > 0) --delay;
    long long entered_ns = now_ns();
    OK(MPI_Barrier(on->comm));
    long long left_ns = now_ns();
    long long last_entered_ns = 0;
    OK(MPI_Allreduce(&entered_ns, &last_entered_ns, 1, MPI_LONG_LONG, MPI_MAX, on->comm));
    check_true("all ranks had entered", last_entered_ns <= left_ns);
  }
}

static void test_on(const TestComm* on) {
  for (int c = 0; c < 6; ++c) {
    int count = kSmallCounts[c];
    test_allreduce_int(on, count);
    allreduce_char(on, count);
    allreduce_float(on, count);
    allreduce_double(on, count);
    allreduce_long_long(on, count);
    for (int root = 0; root < on->size; ++root) test_bcast(on, count, root);
  }
  for (int c = 0; c < 2; ++c) {
    test_allreduce_int(on, kMiddleCounts[c]);
    test_bcast(on, kMiddleCounts[c], 0);
    test_bcast(on, kMiddleCounts[c], on->size - 1);
  }
  allreduce_double(on, kMiddleCounts[1]);
  test_bcast_bytes(on);
  test_barrier(on);
  check_section(on->name);
}

int main(int argc, char** argv) {
  TestComm comms[kTestComms];
  check_begin(&argc, &argv);
  make_test_comms(comms);
  for (int c = 0; c < kTestComms; ++c) test_on(&comms[c]);
  test_allreduce_int(&comms[0], kLargeCount);
  test_bcast(&comms[2], kLargeCount, comms[2].size - 1);
  check_section("a million ints");
  free_test_comms(comms);
  return check_end();
}
