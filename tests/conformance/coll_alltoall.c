// Conformance of Alltoall, Alltoallv and Alltoallw: in place, with blocks of different length for
// every pair of ranks, with none for some pairs, with gaps, and with different types for different
// partners.

#include <mpi.h>

#include "check.h"
#include "comms.h"

enum { kGap = -7777777 };
static const int kCounts[] = {0, 1, 3, 64, 1000, 5000};

static void test_alltoall(const TestComm* on, int count) {
  check_context("alltoall of %d ints on %s", count, on->name);
  int total = count * on->size;
  int* in = new_ints(total);
  int* out = new_ints(total);
  int* expected = new_ints(total);
  for (int i = 0; i < total; ++i) {
    in[i] = test_value(on, on->rank, i / count, i % count);
    expected[i] = test_value(on, i / count, on->rank, i % count);
  }
  out[total] = kGap;
  OK(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, on->comm));
  check_ints("alltoall", expected, out, total);
  check_i64("behind the result", kGap, out[total]);
  OK(MPI_Alltoall(MPI_IN_PLACE, -9, MPI_DATATYPE_NULL, in, count, MPI_INT, on->comm));
  check_ints("alltoall in place", expected, in, total);
  free(in);
  free(out);
  free(expected);
}

/** Returns the number of ints from one rank to another, which differs by direction and may be 0. */
static int pair_count(int from, int to, int base) {
  if (base == 0 || (from + 2 * to) % 4 == 3) return 0;
  return base + 2 * from + to;
}

/** Returns such a number that is equal in both directions, as an exchange in place requires. */
static int symmetric_count(int a, int b, int base) {
  return pair_count(a < b ? a : b, a < b ? b : a, base);
}

/** The places of all partners' blocks in a send or receive buffer, with gaps between them. */
typedef struct {
  int* counts;
  int* displacements;
  int total;
} Blocks;

static Blocks new_blocks(int size, int gap) {
  Blocks blocks = {new_ints(size), new_ints(size), gap};
  return blocks;
}

static void append_block(Blocks* blocks, int partner, int count) {
  blocks->counts[partner] = count;
  blocks->displacements[partner] = blocks->total;
  blocks->total += count + 1 + partner % 2;
}

static void free_blocks(Blocks* blocks) {
  free(blocks->counts);
  free(blocks->displacements);
}

/** Returns the send buffer that `blocks` describe; with `incoming`, the expected receive buffer. */
static int* new_filled(const TestComm* on, const Blocks* blocks, int incoming) {
  int* buffer = new_ints(blocks->total);
  set_ints(buffer, blocks->total, kGap);
  for (int p = 0; p < on->size; ++p) {
    for (int i = 0; i < blocks->counts[p]; ++i) {
      buffer[blocks->displacements[p] + i] =
          incoming ? test_value(on, p, on->rank, i) : test_value(on, on->rank, p, i);
    }
  }
  return buffer;
}

static void test_alltoallv(const TestComm* on, int base) {
  check_context("alltoallv around %d ints on %s", base, on->name);
  Blocks sending = new_blocks(on->size, 1);
  Blocks receiving = new_blocks(on->size, 1);
  for (int p = 0; p < on->size; ++p) {
    append_block(&sending, p, pair_count(on->rank, p, base));
    int q = on->size - 1 - p;
    append_block(&receiving, q, pair_count(q, on->rank, base));
  }
  int* in = new_filled(on, &sending, 0);
  int* expected = new_filled(on, &receiving, 1);
  int* out = new_ints(receiving.total);
  set_ints(out, receiving.total, kGap);
  OK(MPI_Alltoallv(in, sending.counts, sending.displacements, MPI_INT, out, receiving.counts,
                   receiving.displacements, MPI_INT, on->comm));
  check_ints("alltoallv", expected, out, receiving.total);
  free(in);
  free(expected);
  free(out);
  free_blocks(&sending);
  free_blocks(&receiving);
}

static void test_in_place(const TestComm* on, int base) {
  check_context("alltoallv and alltoallw in place around %d ints on %s", base, on->name);
  Blocks blocks = new_blocks(on->size, 1);
  int* byte_displacements = new_ints(on->size);
  MPI_Datatype* types = malloc((size_t)on->size * sizeof *types);
  for (int p = 0; p < on->size; ++p) {
    append_block(&blocks, p, symmetric_count(on->rank, p, base));
    byte_displacements[p] = blocks.displacements[p] * (int)sizeof(int);
    types[p] = MPI_INT;
  }
  int* expected = new_filled(on, &blocks, 1);
  int* buffer = new_filled(on, &blocks, 0);
  OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, buffer, blocks.counts,
                   blocks.displacements, MPI_INT, on->comm));
  check_ints("alltoallv in place", expected, buffer, blocks.total);
  free(buffer);
  buffer = new_filled(on, &blocks, 0);
  OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, buffer, blocks.counts, byte_displacements, types,
                   on->comm));
  check_ints("alltoallw in place", expected, buffer, blocks.total);
  free(buffer);
  free(expected);
  free(types);
  free(byte_displacements);
  free_blocks(&blocks);
}

/** Sends pairs of ints, a contiguous type, to even ranks, and single ints to odd ranks. */
static void test_alltoallw(const TestComm* on, int base) {
  check_context("alltoallw around %d ints on %s", base, on->name);
  MPI_Datatype couple = MPI_DATATYPE_NULL;
  OK(MPI_Type_contiguous(2, MPI_INT, &couple));
  OK(MPI_Type_commit(&couple));
  // There is no gap before the first block, because with one rank Open MPI 4.1 reads the
  // displacement, which is in bytes, as a number of elements.
  Blocks sending = new_blocks(on->size, 0);
  Blocks receiving = new_blocks(on->size, 0);
  MPI_Datatype* send_types = malloc((size_t)on->size * sizeof *send_types);
  MPI_Datatype* receive_types = malloc((size_t)on->size * sizeof *receive_types);
  for (int p = 0; p < on->size; ++p) {
    append_block(&sending, p, 2 * pair_count(on->rank, p, base));
    append_block(&receiving, p, 2 * pair_count(p, on->rank, base));
  }
  int* in = new_filled(on, &sending, 0);
  int* expected = new_filled(on, &receiving, 1);
  int* out = new_ints(receiving.total);
  set_ints(out, receiving.total, kGap);
  for (int p = 0; p < on->size; ++p) {
    int paired = p % 2 == 0;
    send_types[p] = paired ? couple : MPI_INT;
    if (paired) sending.counts[p] /= 2;
    // The receiver uses another type than the sender for the same ints.
    receive_types[p] = paired ? MPI_INT : couple;
    if (!paired) receiving.counts[p] /= 2;
    sending.displacements[p] *= (int)sizeof(int);
    receiving.displacements[p] *= (int)sizeof(int);
  }
  OK(MPI_Alltoallw(in, sending.counts, sending.displacements, send_types, out, receiving.counts,
                   receiving.displacements, receive_types, on->comm));
  check_ints("alltoallw", expected, out, receiving.total);
  free(in);
  free(expected);
  free(out);
  free(send_types);
  free(receive_types);
  free_blocks(&sending);
  free_blocks(&receiving);
  OK(MPI_Type_free(&couple));
}

/** Sends each partner one of three basic types, by its rank modulo three. */
static void test_mixed_types(const TestComm* on) {
  check_context("alltoallw of mixed types on %s", on->name);
  const MPI_Datatype kinds[] = {MPI_DOUBLE, MPI_INT, MPI_SHORT};
  int n = on->size;
  int* counts = new_ints(n);
  int* displacements = new_ints(n);
  MPI_Datatype* send_types = malloc((size_t)n * sizeof *send_types);
  MPI_Datatype* receive_types = malloc((size_t)n * sizeof *receive_types);
  double* in = calloc((size_t)n, sizeof(double));
  double* out = calloc((size_t)n, sizeof(double));
  for (int p = 0; p < n; ++p) {
    counts[p] = 1;
    displacements[p] = p * (int)sizeof(double);
    send_types[p] = kinds[p % 3];
    receive_types[p] = kinds[on->rank % 3];
    int value = test_value(on, on->rank, p, 0);
    short small = (short)value;
    if (p % 3 == 0) in[p] = value;
    if (p % 3 == 1) memcpy(&in[p], &value, sizeof value);
    if (p % 3 == 2) memcpy(&in[p], &small, sizeof small);
  }
  OK(MPI_Alltoallw(in, counts, displacements, send_types, out, counts, displacements, receive_types,
                   on->comm));
  for (int p = 0; p < n; ++p) {
    int whole = 0;
    short small = 0;
    memcpy(&whole, &out[p], sizeof whole);
    memcpy(&small, &out[p], sizeof small);
    int got = on->rank % 3 == 0 ? (int)out[p] : on->rank % 3 == 1 ? whole : small;
    check_i64("value", test_value(on, p, on->rank, 0), got);
  }
  free(counts);
  free(displacements);
  free(send_types);
  free(receive_types);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  TestComm comms[kTestComms];
  check_begin(&argc, &argv);
  make_test_comms(comms);
  for (int c = 0; c < kTestComms; ++c) {
    for (int i = 0; i < 6; ++i) {
      test_alltoall(&comms[c], kCounts[i]);
      test_alltoallv(&comms[c], kCounts[i]);
      test_alltoallw(&comms[c], kCounts[i]);
      test_in_place(&comms[c], kCounts[i]);
    }
    test_mixed_types(&comms[c]);
    check_section(comms[c].name);
  }
  free_test_comms(comms);
  return check_end();
}
