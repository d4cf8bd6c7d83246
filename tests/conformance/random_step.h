#pragma once

// One step of the random program: on which communicator, of which elements, what every rank
// contributes and what it must receive.

#include "check.h"

typedef enum { kOpSum, kOpMax, kOpXor } OpId;

/** An element type; contributions are below `value_mask`, results are reduced by `result_mask`. */
typedef struct {
  MPI_Datatype type;
  int size_bytes;
  uint64_t value_mask;
  uint64_t result_mask;
  int operations;
  OpId operation[3];
} Kind;

// No sum of bytes: Open MPI 4.1 saturates it. No exclusive or of doubles: MPI defines none.
static const Kind kKinds[] = {
    {MPI_UINT8_T, 1, 0xff, 0xff, 2, {kOpMax, kOpXor}},
    {MPI_UINT32_T, 4, UINT32_MAX, UINT32_MAX, 3, {kOpSum, kOpMax, kOpXor}},
    {MPI_UINT64_T, 8, UINT64_MAX, UINT64_MAX, 3, {kOpSum, kOpMax, kOpXor}},
    {MPI_DOUBLE, 8, 0xfffff, UINT64_MAX, 2, {kOpSum, kOpMax}},
};
enum { kKindCount = sizeof kKinds / sizeof *kKinds };

/** A communicator in use, or MPI_COMM_NULL at a rank that is not in it. */
typedef struct {
  MPI_Comm comm;
  int rank;
  int size;
  int* world_ranks;
} Slot;

/** Distance, in elements, between what one rank has for one partner and for the next. */
enum { kPairStride = 1 << 20 };

/** One operation, the same at all members of `on`. */
typedef struct {
  const Slot* on;
  const Kind* kind;
  OpId op;
  int root;
  int count;
  int in_place;
  uint64_t salt;
} Step;

static inline MPI_Op mpi_op(const Step* s) {
  return s->op == kOpSum ? MPI_SUM : s->op == kOpMax ? MPI_MAX : MPI_BXOR;
}

/** Element `index` of what `member` (a rank of the step's communicator) contributes. */
static inline uint64_t element(const Step* s, int member, int index) {
  uint64_t source = hash_step(s->salt, (uint64_t)s->on->world_ranks[member]);
  return hash_step(source, (uint64_t)index) & s->kind->value_mask;
}

/** Element `index` reduced over members first .. last - 1. */
static inline uint64_t reduced(const Step* s, int last, int index) {
  uint64_t acc = element(s, 0, index);
  for (int m = 1; m < last; ++m) {
    uint64_t next = element(s, m, index);
    if (s->op == kOpSum) acc += next;
    if (s->op == kOpMax) acc = next > acc ? next : acc;
    if (s->op == kOpXor) acc ^= next;
  }
  return acc & s->kind->result_mask;
}

static inline void* new_buffer(const Step* s, int count) {
  void* buffer = calloc((size_t)count + 1, (size_t)s->kind->size_bytes);
  if (!buffer) check_fail("memory", "some", "none");
  return buffer;
}

static inline void put(const Step* s, void* buffer, int at, uint64_t value) {
  if (s->kind->type == MPI_DOUBLE) {
    ((double*)buffer)[at] = (double)value;
  } else if (s->kind->size_bytes == 1) {
    ((uint8_t*)buffer)[at] = (uint8_t)value;
  } else if (s->kind->size_bytes == 4) {
    ((uint32_t*)buffer)[at] = (uint32_t)value;
  } else {
    ((uint64_t*)buffer)[at] = value;
  }
}

/** The bits of element `at`, those of a double too, so that no difference is rounded away. */
static inline uint64_t get_bits(const Step* s, const void* buffer, int at) {
  if (s->kind->size_bytes == 1) return ((const uint8_t*)buffer)[at];
  if (s->kind->size_bytes == 4) return ((const uint32_t*)buffer)[at];
  uint64_t bits = 0;
  memcpy(&bits, (const char*)buffer + (size_t)at * sizeof bits, sizeof bits);
  return bits;
}

static inline void expect(const Step* s, const void* buffer, int at, uint64_t expected) {
  union {
    double as_double;
    uint64_t as_uint64;
    uint32_t as_uint32;
    uint8_t as_uint8;
  } wanted;
  put(s, &wanted, 0, expected);
  check_i64("element", (long long)get_bits(s, &wanted, 0), (long long)get_bits(s, buffer, at));
}

/** buffer[at ..] = `count` elements of `member`, from index `first` on. */
static inline void fill(const Step* s, void* buffer, int at, int member, int first, int count) {
  for (int i = 0; i < count; ++i) put(s, buffer, at + i, element(s, member, first + i));
}

static inline void expect_filled(const Step* s, const void* buffer, int at, int member, int first,
                                 int count) {
  for (int i = 0; i < count; ++i) expect(s, buffer, at + i, element(s, member, first + i));
}

/** What this rank contributes: `count` elements, from index 0 on. */
static inline void* new_contribution(const Step* s, int count) {
  void* buffer = new_buffer(s, count);
  fill(s, buffer, 0, s->on->rank, 0, count);
  return buffer;
}

/** The blocks of a v-variant: none, one or two times the step's count, differently every time. */
typedef struct {
  int* counts;
  int* displacements;
  int total;
} Blocks;

static inline int block_count(const Step* s, int from, int to) {
  uint64_t pair = hash_step(hash_step(s->salt, (uint64_t)s->on->world_ranks[from]), 77);
  return s->count * (int)(hash_step(pair, (uint64_t)s->on->world_ranks[to]) % 3);
}

/** Incoming or outgoing blocks of this rank, or (exchange = 0) the blocks that all agree on. */
static inline Blocks new_blocks(const Step* s, int exchange, int incoming) {
  Blocks blocks = {new_ints(s->on->size), new_ints(s->on->size), 0};
  for (int p = 0; p < s->on->size; ++p) {
    int from = incoming ? p : s->on->rank;
    int to = incoming ? s->on->rank : p;
    blocks.counts[p] = exchange ? block_count(s, from, to) : block_count(s, p, p);
    blocks.displacements[p] = blocks.total;
    blocks.total += blocks.counts[p];
  }
  return blocks;
}

static inline void free_blocks(Blocks* blocks) {
  free(blocks->counts);
  free(blocks->displacements);
}
