#pragma once

// Functions that begin each nonblocking collective and later check it. A Begun is an outstanding
// one.

#include "check.h"
#include "comms.h"

enum { kFunctions = 17, kMostCount = 1500 };

/** A collective that was begun on `on`: its arguments, and the place of its result. */
typedef struct {
  int function;
  const TestComm* on;
  int count;
  int root;
  int salt;
  int in_place;
  int* in;
  int* out;
  int* counts;
  int* sent;  // the send counts of an all-to-all, which differ from the receive counts
  int* displs;
  MPI_Datatype* types;
  int length;  // ints in `out`
} Begun;

static const char* const kNames[kFunctions] = {"Ibarrier",
                                               "Ibcast",
                                               "Iallreduce",
                                               "Iallgather",
                                               "Iallgatherv",
                                               "Ireduce_scatter",
                                               "Ireduce_scatter_block",
                                               "Ireduce",
                                               "Igather",
                                               "Igatherv",
                                               "Iscatter",
                                               "Iscatterv",
                                               "Ialltoall",
                                               "Ialltoallv",
                                               "Ialltoallw",
                                               "Iscan",
                                               "Iexscan"};

enum { kUntouched = -77777 };

/** Returns element `i` of what member `from` has for member `to`. */
static inline int begun_value(const Begun* b, int from, int to, int i) {
  return test_value(b->on, from, to + 64 * b->salt, i);
}
/** Returns the elements of member `i`'s block in functions whose blocks differ in size. */
static inline int block_of(const Begun* b, int i) {
  return b->count > 0 ? b->count + i % 3 : i % 2;
}
/** Returns the place of that block. There are gaps between blocks. */
static inline int block_at(const Begun* b, int i) { return i * (b->count + 5); }

static inline int folded(const Begun* b, int first, int end, int to, int i) {
  int sum = 0;
  for (int r = first; r < end; ++r) sum += begun_value(b, r, to, i);
  return sum;
}

/** Begins collective `function` of ints. in_place: MPI_IN_PLACE is passed at the root or
 * everywhere, if the function allows that. Counts, displacements and types are arrays in the
 * result. */
static inline Begun begin(int function, const TestComm* on, int count, int salt, int in_place,
                          MPI_Request* request) {
  const int n = on->size;
  const int me = on->rank;
  Begun b = {.function = function, .on = on, .count = count, .salt = salt, .in_place = in_place};
  b.root = salt % n;
  const int at_root = me == b.root;
  b.length = n * (count + 5) + 8;
  b.in = new_ints(b.length);
  b.out = new_ints(b.length);
  b.counts = new_ints(n);
  b.displs = new_ints(n);
  b.types = (MPI_Datatype*)calloc((size_t)n, sizeof *b.types);
  set_ints(b.out, b.length, kUntouched);
  for (int i = 0; i < n; ++i) {
    b.counts[i] = block_of(&b, i);
    b.displs[i] = block_at(&b, i);
    b.types[i] = MPI_INT;
  }
  // The input is one vector for all members, or a block for each.
  for (int i = 0; i < n * (count + 5); ++i) b.in[i] = begun_value(&b, me, 0, i);
  void* in = b.in;
  switch (function) {
    case 0:
      OK(MPI_Ibarrier(on->comm, request));
      break;
    case 1:
      if (at_root) memcpy(b.out, b.in, (size_t)count * sizeof(int));
      OK(MPI_Ibcast(b.out, count, MPI_INT, b.root, on->comm, request));
      break;
    case 2:
    case 15:
    case 16:
      if (in_place) {
        memcpy(b.out, b.in, (size_t)count * sizeof(int));
        in = MPI_IN_PLACE;
      }
      if (function == 2) {
        OK(MPI_Iallreduce(in, b.out, count, MPI_INT, MPI_SUM, on->comm, request));
      } else if (function == 15) {
        OK(MPI_Iscan(in, b.out, count, MPI_INT, MPI_SUM, on->comm, request));
      } else {
        OK(MPI_Iexscan(in, b.out, count, MPI_INT, MPI_SUM, on->comm, request));
      }
      break;
    case 3:
      if (in_place) {
        memcpy(b.out + me * count, b.in, (size_t)count * sizeof(int));
        in = MPI_IN_PLACE;
      }
      OK(MPI_Iallgather(in, count, MPI_INT, b.out, count, MPI_INT, on->comm, request));
      break;
    case 4:
      if (in_place) {
        memcpy(b.out + b.displs[me], b.in, (size_t)b.counts[me] * sizeof(int));
        in = MPI_IN_PLACE;
      }
      OK(MPI_Iallgatherv(in, b.counts[me], MPI_INT, b.out, b.counts, b.displs, MPI_INT, on->comm,
                         request));
      break;
    case 5:
      OK(MPI_Ireduce_scatter(in, b.out, b.counts, MPI_INT, MPI_SUM, on->comm, request));
      break;
    case 6:
      OK(MPI_Ireduce_scatter_block(in, b.out, count, MPI_INT, MPI_SUM, on->comm, request));
      break;
    case 7:
      if (in_place && at_root) {
        memcpy(b.out, b.in, (size_t)count * sizeof(int));
        in = MPI_IN_PLACE;
      }
      OK(MPI_Ireduce(in, at_root ? b.out : NULL, count, MPI_INT, MPI_SUM, b.root, on->comm,
                     request));
      break;
    case 8:
      if (in_place && at_root) {
        memcpy(b.out + me * count, b.in, (size_t)count * sizeof(int));
        in = MPI_IN_PLACE;
      }
      OK(MPI_Igather(in, count, MPI_INT, b.out, count, MPI_INT, b.root, on->comm, request));
      break;
    case 9:
      if (in_place && at_root) {
        memcpy(b.out + b.displs[me], b.in, (size_t)b.counts[me] * sizeof(int));
        in = MPI_IN_PLACE;
      }
      OK(MPI_Igatherv(in, b.counts[me], MPI_INT, b.out, b.counts, b.displs, MPI_INT, b.root,
                      on->comm, request));
      break;
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
      for (int to = 0; to < n; ++to) {
        const int at = function == 10 || function == 12 ? to * count : b.displs[to];
        for (int i = 0; i < count + 3; ++i) b.in[at + i] = begun_value(&b, me, to, i);
      }
      if (function == 10) {
        OK(MPI_Iscatter(in, count, MPI_INT, in_place && at_root ? MPI_IN_PLACE : (void*)b.out,
                        count, MPI_INT, b.root, on->comm, request));
      } else if (function == 11) {
        OK(MPI_Iscatterv(in, b.counts, b.displs, MPI_INT,
                         in_place && at_root ? MPI_IN_PLACE : (void*)b.out, b.counts[me], MPI_INT,
                         b.root, on->comm, request));
      } else {
        // Every block that this rank receives has this rank's length.
        int* received = new_ints(n);
        for (int i = 0; i < n; ++i) received[i] = b.counts[me];
        if (function == 12) {
          if (in_place) memcpy(b.out, b.in, (size_t)(n * count) * sizeof(int));
          OK(MPI_Ialltoall(in_place ? MPI_IN_PLACE : in, count, MPI_INT, b.out, count, MPI_INT,
                           on->comm, request));
        } else if (function == 13) {
          OK(MPI_Ialltoallv(in, b.counts, b.displs, MPI_INT, b.out, received, b.displs, MPI_INT,
                            on->comm, request));
        } else {
          for (int i = 0; i < n; ++i) b.displs[i] *= (int)sizeof(int);
          OK(MPI_Ialltoallw(in, b.counts, b.displs, b.types, b.out, received, b.displs, b.types,
                            on->comm, request));
        }
        b.sent = b.counts;
        b.counts = received;
      }
      break;
    default:
      check_fail("function", "one of them", "another number");
  }
  return b;
}

static inline void check_block(const Begun* b, int at, int from, int to, int length) {
  for (int i = 0; i < length; ++i) {
    check_i64(kNames[b->function], begun_value(b, from, to, i), b->out[at + i]);
  }
}

/** Checks all results of a collective. Requires that it is complete. */
static inline void check_result(const Begun* b) {
  const int n = b->on->size;
  const int me = b->on->rank;
  const int at_root = me == b->root;
  check_context("%s of %d on %s, in place %d", kNames[b->function], b->count, b->on->name,
                b->in_place);
  switch (b->function) {
    case 1:
      check_block(b, 0, b->root, 0, b->count);
      break;
    case 2:
    case 15:
    case 16: {
      const int end = b->function == 2 ? n : b->function == 15 ? me + 1 : me;
      for (int i = 0; end > 0 && i < b->count; ++i) {
        check_i64(kNames[b->function], folded(b, 0, end, 0, i), b->out[i]);
      }
      break;
    }
    case 3:
      for (int r = 0; r < n; ++r) check_block(b, r * b->count, r, 0, b->count);
      break;
    case 4:
      for (int r = 0; r < n; ++r) check_block(b, block_at(b, r), r, 0, block_of(b, r));
      break;
    case 5: {
      int before = 0;
      for (int r = 0; r < me; ++r) before += block_of(b, r);
      for (int i = 0; i < block_of(b, me); ++i) {
        check_i64(kNames[b->function], folded(b, 0, n, 0, before + i), b->out[i]);
      }
      break;
    }
    case 6:
      for (int i = 0; i < b->count; ++i) {
        check_i64(kNames[b->function], folded(b, 0, n, 0, me * b->count + i), b->out[i]);
      }
      break;
    case 7:
      for (int i = 0; at_root && i < b->count; ++i) {
        check_i64(kNames[b->function], folded(b, 0, n, 0, i), b->out[i]);
      }
      break;
    case 8:
      for (int r = 0; at_root && r < n; ++r) check_block(b, r * b->count, r, 0, b->count);
      break;
    case 9:
      for (int r = 0; at_root && r < n; ++r) check_block(b, block_at(b, r), r, 0, block_of(b, r));
      break;
    case 10:
    case 11: {
      if (b->in_place && at_root) break;
      const int length = b->function == 10 ? b->count : block_of(b, me);
      check_block(b, 0, b->root, me, length);
      check_i64("behind it", kUntouched, b->out[length]);
      break;
    }
    case 12:
      for (int r = 0; r < n; ++r) check_block(b, r * b->count, r, me, b->count);
      break;
    case 13:
    case 14:
      for (int r = 0; r < n; ++r) check_block(b, block_at(b, r), r, me, block_of(b, me));
      break;
    default:
      break;
  }
  check_i64("the end", kUntouched, b->out[b->length - 1]);
}

static inline void release(Begun* b) {
  free(b->in);
  free(b->out);
  free(b->counts);
  free(b->sent);
  free(b->displs);
  free(b->types);
}

/** Checks a collective, and releases its memory. */
static inline void finish(Begun* b) {
  check_result(b);
  release(b);
}
