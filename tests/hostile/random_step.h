#pragma once

// The objects of one random operation (a communicator, kinds of elements, buffers), and this rank's
// history: a hash of every byte that it has received, from which all its contributions are made.

#include "../conformance/check.h"

/** Hash of all that this rank has received. One wrong byte changes all that it sends later. */
static uint64_t history;

/** A communicator in use, or MPI_COMM_NULL at a rank that is not in it. */
typedef struct {
  MPI_Comm comm;
  int rank;
  int size;
} Slot;

/** A kind of elements that are only moved. `type` is `parts` times `part`, so that the sender may
 * use one and the receiver the other. */
typedef struct {
  MPI_Datatype type;
  MPI_Datatype part;
  int parts;
  int size_bytes;
} Kind;

/** A reduction of elements. tame: converts random bytes to values on which the operation is exact.
 */
typedef struct {
  MPI_Datatype type;
  MPI_Op op;
  int size_bytes;
  void (*tame)(uint64_t* words, size_t count);
} Fold;

/** One operation; it is the same at all members of `on`. */
typedef struct {
  const Slot* on;
  const Kind* kind;
  const Fold* fold;
  uint64_t random;
  int bytes;  // approximate size of the largest buffer of a rank
  int root;
  int in_place;
} Step;

/** Returns a number below `limit` that is the same at all members. */
static inline int agreed(const Step* s, uint64_t a, uint64_t b, int limit) {
  return (int)(hash_step(hash_step(s->random, a + 11), b) % (uint64_t)limit);
}

// --- Operators of the program's own
//
// All are associative, so that every order of evaluation gives the same bits.

static const uint64_t kPrime = UINT64_C(2147483647);

/** x -> factor x + constant, modulo a prime. First `in`, then `inout`: maps do not commute. */
static void compose_maps(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  const uint64_t* first = in;
  uint64_t* then = inout;
  for (int i = 0; i < 2 * *length; i += 2) {
    then[i + 1] = (first[i + 1] * then[i] + then[i + 1]) % kPrime;
    then[i] = first[i] * then[i] % kPrime;
  }
}

/** Products of 2 x 2 matrices of 16-bit numbers, each in one word. They do not commute either. */
static void multiply_matrices(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  const uint16_t* left = in;
  uint16_t* right = inout;
  for (int i = 0; i < 4 * *length; i += 4) {
    const uint32_t a = left[i], b = left[i + 1], c = left[i + 2], d = left[i + 3];
    const uint32_t e = right[i], f = right[i + 1], g = right[i + 2], h = right[i + 3];
    right[i] = (uint16_t)(a * e + b * g);
    right[i + 1] = (uint16_t)(a * f + b * h);
    right[i + 2] = (uint16_t)(c * e + d * g);
    right[i + 3] = (uint16_t)(c * f + d * h);
  }
}

/** a + b + 2 a b, commutative. */
static void join_counts(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  const uint32_t* a = in;
  uint32_t* b = inout;
  for (int i = 0; i < *length; ++i) b[i] = a[i] + b[i] + 2 * a[i] * b[i];
}

static void tame_maps(uint64_t* words, size_t count) {
  for (size_t i = 0; i < count; ++i) words[i] %= kPrime;
}

static void tame_doubles(uint64_t* words, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const double exact = (double)(words[i] & 0xfffff);
    memcpy(&words[i], &exact, sizeof exact);
  }
}

enum { kKindCount = 6, kFoldCount = 13 };
static Kind kinds[kKindCount];
static Fold folds[kFoldCount];
static MPI_Datatype contiguous[4];
static MPI_Op own_ops[3];

static inline void make_types_and_ops(void) {
  OK(MPI_Type_contiguous(3, MPI_UINT8_T, &contiguous[0]));
  OK(MPI_Type_contiguous(5, MPI_INT32_T, &contiguous[1]));
  OK(MPI_Type_contiguous(512, MPI_DOUBLE, &contiguous[2]));
  OK(MPI_Type_contiguous(2, MPI_UINT64_T, &contiguous[3]));
  for (int i = 0; i < 4; ++i) OK(MPI_Type_commit(&contiguous[i]));
  const Kind all_kinds[kKindCount] = {
      {MPI_BYTE, MPI_BYTE, 1, 1},          {MPI_UINT32_T, MPI_UINT32_T, 1, 4},
      {MPI_DOUBLE, MPI_DOUBLE, 1, 8},      {contiguous[0], MPI_UINT8_T, 3, 3},
      {contiguous[1], MPI_INT32_T, 5, 20}, {contiguous[2], MPI_DOUBLE, 512, 4096},
  };
  memcpy(kinds, all_kinds, sizeof kinds);
  OK(MPI_Op_create(compose_maps, 0, &own_ops[0]));
  OK(MPI_Op_create(multiply_matrices, 0, &own_ops[1]));
  OK(MPI_Op_create(join_counts, 1, &own_ops[2]));
  // There is no sum of bytes, because Open MPI 4.1 saturates it.
  const Fold all_folds[kFoldCount] = {
      {MPI_UINT8_T, MPI_BXOR, 1, NULL},
      {MPI_UINT8_T, MPI_MAX, 1, NULL},
      {MPI_UINT32_T, MPI_SUM, 4, NULL},
      {MPI_UINT32_T, MPI_PROD, 4, NULL},
      {MPI_INT32_T, MPI_MIN, 4, NULL},
      {MPI_UINT64_T, MPI_SUM, 8, NULL},
      {MPI_INT64_T, MPI_MAX, 8, NULL},
      {MPI_DOUBLE, MPI_SUM, 8, tame_doubles},
      {MPI_DOUBLE, MPI_MIN, 8, tame_doubles},
      {MPI_2INT, MPI_MAXLOC, 8, NULL},
      {contiguous[3], own_ops[0], 16, tame_maps},
      {MPI_UINT64_T, own_ops[1], 8, NULL},
      {MPI_UINT32_T, own_ops[2], 4, NULL},
  };
  memcpy(folds, all_folds, sizeof folds);
}

static inline void free_types_and_ops(void) {
  for (int i = 0; i < 3; ++i) OK(MPI_Op_free(&own_ops[i]));
  for (int i = 0; i < 4; ++i) OK(MPI_Type_free(&contiguous[i]));
}

// --- Buffers

/** A buffer of whole words; the last word reaches beyond the elements. */
typedef struct {
  void* at;
  size_t words;
  uint64_t purpose;
  void (*tame)(uint64_t* words, size_t count);
} Buffer;

static const Buffer kNoBuffer = {NULL, 0, 0, NULL};

/** Fills the buffer with random bytes from this rank's history; `purpose` distinguishes the buffers
 * of one operation. Receive buffers are filled, too, so that bytes which MPI must not write
 * remain visible. */
static inline void fill(const Step* s, Buffer b) {
  uint64_t* words = b.at;
  uint64_t x = hash_step(hash_step(history, s->random), b.purpose);
  for (size_t i = 0; i < b.words; ++i) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    words[i] = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  }
  if (b.tame) b.tame(words, b.words);
}

static inline Buffer new_buffer(const Step* s, int elements, int size_bytes, uint64_t purpose,
                                void (*tame)(uint64_t*, size_t)) {
  Buffer b = {NULL, ((size_t)elements * (size_t)size_bytes + 15) / 8, purpose, tame};
  b.at = malloc(b.words * 8);
  if (b.at == NULL) check_fail("memory", "some", "none");
  fill(s, b);
  return b;
}

/** Clears all but the first bytes, because MPI may have written anything after them. */
static inline void cut_to(Buffer b, size_t bytes) {
  memset((char*)b.at + bytes, 0, b.words * 8 - bytes);
}

static inline void cut(Buffer b, int elements, int size_bytes) {
  cut_to(b, (size_t)elements * (size_t)size_bytes);
}

enum { kSending = 1, kReceiving = 2 };

static inline Buffer new_moved(const Step* s, int elements, uint64_t purpose) {
  return new_buffer(s, elements, s->kind->size_bytes, purpose, NULL);
}

static inline Buffer new_folded(const Step* s, int elements, uint64_t purpose) {
  return new_buffer(s, elements, s->fold->size_bytes, purpose, s->fold->tame);
}

/** Adds all of a buffer to the history. Null buffers are empty. */
static inline void absorb(Buffer b) {
  const uint64_t* words = b.at;
  uint64_t h = history;
  for (size_t i = 0; i < b.words; ++i) {
    h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
  }
  history = hash_step(h, b.words);
}

/** Adds all of a buffer to the history, and frees it. */
static inline void received(Buffer b) {
  absorb(b);
  free(b.at);
}

// --- Blocks of the v-variants

/** Blocks with gaps between them; each has zero, one or two times `count` elements. */
typedef struct {
  int* counts;
  int* displacements;
  int total;
} Blocks;

static inline int block_count(const Step* s, int count, int from, int to) {
  const int low = from < to ? from : to, high = from + to - low;
  // In an exchange in place, a rank sends a partner as much as it receives from it.
  const uint64_t first = (uint64_t)(s->in_place ? low : from);
  const uint64_t second = (uint64_t)(s->in_place ? high : to);
  return count * (int)(hash_step(hash_step(s->random, first + 7), second) % 3);
}

/** Block i is what `from` has for `to`; -1 stands for i, and -1 for both means the block that is
 * the same at all ranks. */
static inline Blocks new_blocks(const Step* s, int count, int from, int to) {
  Blocks b = {new_ints(s->on->size), new_ints(s->on->size), 0};
  for (int i = 0; i < s->on->size; ++i) {
    b.counts[i] = block_count(s, count, from < 0 ? i : from, to < 0 ? i : to);
    b.displacements[i] = b.total + i % 2;
    b.total = b.displacements[i] + b.counts[i];
  }
  return b;
}

static inline void free_blocks(const Blocks* b) {
  free(b->counts);
  free(b->displacements);
}
