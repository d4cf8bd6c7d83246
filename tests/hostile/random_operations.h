#pragma once

// Every collective once, in each of its forms: blocking, nonblocking, persistent. Each function
// makes buffers from this rank's history and calls MPI; random_requests.h adds the result to the
// history.

// Open MPI's mpi-ext.h needs mpi.h.
#include <mpi.h>
//
#include <mpi-ext.h>

#include "random_messages.h"
#include "random_requests.h"

/** Calls a collective in the form that the operation has; the communicator is the last argument. */
#define CALL(o, Name, name, ...)                                         \
  do {                                                                   \
    if (only_blocking || (o)->form == kBlocking) {                       \
      OK(MPI_##Name(__VA_ARGS__));                                       \
    } else if ((o)->form == kNonblocking) {                              \
      OK(MPI_I##name(__VA_ARGS__, &(o)->request));                       \
    } else {                                                             \
      OK(MPIX_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &(o)->request)); \
    }                                                                    \
  } while (0)

static inline int is_root(const Step* s) { return s->on->rank == s->root; }

/** Returns the number of elements of a kind in `bytes`, for each of `blocks`. */
static inline int moved_count(const Step* s, int blocks) {
  return s->bytes / blocks / s->kind->size_bytes;
}

static inline int folded_count(const Step* s, int blocks) {
  return s->bytes / blocks / s->fold->size_bytes;
}

/** Returns whether the receiver counts parts where the sender counts whole elements. */
static inline int by_parts(const Step* s) { return (s->random >> 20 & 3) == 0; }
static inline MPI_Datatype receive_type(const Step* s) {
  return by_parts(s) ? s->kind->part : s->kind->type;
}
static inline int receive_count(const Step* s, int count) {
  return by_parts(s) ? count * s->kind->parts : count;
}

static void run_barrier(const Step* s, Operation* o) { CALL(o, Barrier, barrier, s->on->comm); }

static void run_bcast(const Step* s, Operation* o) {
  const int count = moved_count(s, 1);
  o->out = new_moved(s, count, kSending);
  CALL(o, Bcast, bcast, o->out.at, count, s->kind->type, s->root, s->on->comm);
}

static void run_allreduce(const Step* s, Operation* o) {
  const int count = folded_count(s, 1);
  o->in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  o->out = new_folded(s, count, kReceiving);
  CALL(o, Allreduce, allreduce, s->in_place ? MPI_IN_PLACE : o->in.at, o->out.at, count,
       s->fold->type, s->fold->op, s->on->comm);
}

static void run_reduce(const Step* s, Operation* o) {
  const int count = folded_count(s, 1);
  const int in_place = s->in_place && is_root(s);
  o->in = in_place ? kNoBuffer : new_folded(s, count, kSending);
  o->out = is_root(s) ? new_folded(s, count, kReceiving) : kNoBuffer;
  CALL(o, Reduce, reduce, in_place ? MPI_IN_PLACE : o->in.at, o->out.at, count, s->fold->type,
       s->fold->op, s->root, s->on->comm);
}

static void run_scan(const Step* s, Operation* o) {
  const int count = folded_count(s, 1);
  o->in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  o->out = new_folded(s, count, kReceiving);
  CALL(o, Scan, scan, s->in_place ? MPI_IN_PLACE : o->in.at, o->out.at, count, s->fold->type,
       s->fold->op, s->on->comm);
}

static void run_exscan(const Step* s, Operation* o) {
  const int count = folded_count(s, 1);
  o->in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  o->out = new_folded(s, count, kReceiving);
  CALL(o, Exscan, exscan, s->in_place ? MPI_IN_PLACE : o->in.at, o->out.at, count, s->fold->type,
       s->fold->op, s->on->comm);
  if (s->on->rank == 0) o->defined_bytes = 0;  // MPI does not define what this rank receives
}

static void run_reduce_scatter_block(const Step* s, Operation* o) {
  const int count = folded_count(s, s->on->size);
  o->in = s->in_place ? kNoBuffer : new_folded(s, count * s->on->size, kSending);
  o->out = new_folded(s, s->in_place ? count * s->on->size : count, kReceiving);
  CALL(o, Reduce_scatter_block, reduce_scatter_block, s->in_place ? MPI_IN_PLACE : o->in.at,
       o->out.at, count, s->fold->type, s->fold->op, s->on->comm);
  if (s->in_place) o->defined_bytes = (size_t)count * (size_t)s->fold->size_bytes;
}

static void run_reduce_scatter(const Step* s, Operation* o) {
  const Blocks blocks = o->blocks[0] = new_blocks(s, folded_count(s, s->on->size), -1, -1);
  int total = 0;
  for (int i = 0; i < s->on->size; ++i) total += blocks.counts[i];
  const int mine = blocks.counts[s->on->rank];
  o->in = s->in_place ? kNoBuffer : new_folded(s, total, kSending);
  o->out = new_folded(s, s->in_place ? total : mine, kReceiving);
  CALL(o, Reduce_scatter, reduce_scatter, s->in_place ? MPI_IN_PLACE : o->in.at, o->out.at,
       blocks.counts, s->fold->type, s->fold->op, s->on->comm);
  if (s->in_place) o->defined_bytes = (size_t)mine * (size_t)s->fold->size_bytes;
}

static void run_gather(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  const int in_place = s->in_place && is_root(s);
  o->in = in_place ? kNoBuffer : new_moved(s, count, kSending);
  o->out = is_root(s) ? new_moved(s, count * s->on->size, kReceiving) : kNoBuffer;
  CALL(o, Gather, gather, in_place ? MPI_IN_PLACE : o->in.at, count, s->kind->type, o->out.at,
       receive_count(s, count), receive_type(s), s->root, s->on->comm);
}

static void run_gatherv(const Step* s, Operation* o) {
  const Blocks blocks = o->blocks[0] = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  const int in_place = s->in_place && is_root(s);
  o->in = in_place ? kNoBuffer : new_moved(s, mine, kSending);
  o->out = is_root(s) ? new_moved(s, blocks.total, kReceiving) : kNoBuffer;
  CALL(o, Gatherv, gatherv, in_place ? MPI_IN_PLACE : o->in.at, mine, s->kind->type, o->out.at,
       blocks.counts, blocks.displacements, s->kind->type, s->root, s->on->comm);
}

static void run_scatter(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  const int in_place = s->in_place && is_root(s);
  o->in = is_root(s) ? new_moved(s, count * s->on->size, kSending) : kNoBuffer;
  o->out = in_place ? kNoBuffer : new_moved(s, count, kReceiving);
  CALL(o, Scatter, scatter, o->in.at, count, s->kind->type, in_place ? MPI_IN_PLACE : o->out.at,
       receive_count(s, count), receive_type(s), s->root, s->on->comm);
}

static void run_scatterv(const Step* s, Operation* o) {
  const Blocks blocks = o->blocks[0] = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  const int in_place = s->in_place && is_root(s);
  o->in = is_root(s) ? new_moved(s, blocks.total, kSending) : kNoBuffer;
  o->out = in_place ? kNoBuffer : new_moved(s, mine, kReceiving);
  CALL(o, Scatterv, scatterv, o->in.at, blocks.counts, blocks.displacements, s->kind->type,
       in_place ? MPI_IN_PLACE : o->out.at, mine, s->kind->type, s->root, s->on->comm);
}

static void run_allgather(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  o->in = s->in_place ? kNoBuffer : new_moved(s, count, kSending);
  o->out = new_moved(s, count * s->on->size, kReceiving);
  CALL(o, Allgather, allgather, s->in_place ? MPI_IN_PLACE : o->in.at, count, s->kind->type,
       o->out.at, receive_count(s, count), receive_type(s), s->on->comm);
}

static void run_allgatherv(const Step* s, Operation* o) {
  const Blocks blocks = o->blocks[0] = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  o->in = s->in_place ? kNoBuffer : new_moved(s, mine, kSending);
  o->out = new_moved(s, blocks.total, kReceiving);
  CALL(o, Allgatherv, allgatherv, s->in_place ? MPI_IN_PLACE : o->in.at, mine, s->kind->type,
       o->out.at, blocks.counts, blocks.displacements, s->kind->type, s->on->comm);
}

static void run_alltoall(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  o->in = s->in_place ? kNoBuffer : new_moved(s, count * s->on->size, kSending);
  o->out = new_moved(s, count * s->on->size, kReceiving);
  CALL(o, Alltoall, alltoall, s->in_place ? MPI_IN_PLACE : o->in.at, count, s->kind->type,
       o->out.at, receive_count(s, count), receive_type(s), s->on->comm);
}

static void run_alltoallv(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  const Blocks to = o->blocks[0] = new_blocks(s, count, s->on->rank, -1);
  const Blocks from = o->blocks[1] = new_blocks(s, count, -1, s->on->rank);
  o->in = s->in_place ? kNoBuffer : new_moved(s, to.total, kSending);
  o->out = new_moved(s, from.total, kReceiving);
  CALL(o, Alltoallv, alltoallv, s->in_place ? MPI_IN_PLACE : o->in.at, to.counts, to.displacements,
       s->kind->type, o->out.at, from.counts, from.displacements, s->kind->type, s->on->comm);
}

/** One side of an Alltoallw: whole elements for some partners, and parts for others. */
static MPI_Datatype* types_of(const Step* s, const Blocks* blocks, int side) {
  MPI_Datatype* types = malloc((size_t)s->on->size * sizeof *types);
  if (types == NULL) check_fail("memory", "some", "none");
  for (int i = 0; i < s->on->size; ++i) {
    const int parts = (s->random >> ((i + side) & 31) & 1) == 0;
    types[i] = parts ? s->kind->part : s->kind->type;
    if (parts) blocks->counts[i] *= s->kind->parts;
    blocks->displacements[i] *= s->kind->size_bytes;
  }
  return types;
}

static void run_alltoallw(const Step* s, Operation* o) {
  const int count = moved_count(s, s->on->size);
  const Blocks to = o->blocks[0] = new_blocks(s, count, s->on->rank, -1);
  const Blocks from = o->blocks[1] = new_blocks(s, count, -1, s->on->rank);
  o->in = new_moved(s, to.total, kSending);
  o->out = new_moved(s, from.total, kReceiving);
  MPI_Datatype* to_types = o->types[0] = types_of(s, &to, 0);
  MPI_Datatype* from_types = o->types[1] = types_of(s, &from, 9);
  CALL(o, Alltoallw, alltoallw, o->in.at, to.counts, to.displacements, to_types, o->out.at,
       from.counts, from.displacements, from_types, s->on->comm);
}

/** A collective, or an exchange of messages. */
typedef struct {
  const char* name;
  void (*collective)(const Step* s, Operation* o);
  void (*messages)(const Step* s);
} Function;

static const Function kFunctions[] = {
    {"barrier", run_barrier, NULL},
    {"bcast", run_bcast, NULL},
    {"allreduce", run_allreduce, NULL},
    {"reduce", run_reduce, NULL},
    {"scan", run_scan, NULL},
    {"exscan", run_exscan, NULL},
    {"reduce_scatter_block", run_reduce_scatter_block, NULL},
    {"reduce_scatter", run_reduce_scatter, NULL},
    {"gather", run_gather, NULL},
    {"gatherv", run_gatherv, NULL},
    {"scatter", run_scatter, NULL},
    {"scatterv", run_scatterv, NULL},
    {"allgather", run_allgather, NULL},
    {"allgatherv", run_allgatherv, NULL},
    {"alltoall", run_alltoall, NULL},
    {"alltoallv", run_alltoallv, NULL},
    {"alltoallw", run_alltoallw, NULL},
    {"sendrecv", NULL, run_sendrecv},
    {"chain", NULL, run_chain},
    {"exchange", NULL, run_exchange},
    {"gather_any", NULL, run_gather_any},
    {"exchange", NULL, run_exchange},
    {"gather_any", NULL, run_gather_any},
};
enum { kFunctionCount = sizeof kFunctions / sizeof *kFunctions };
