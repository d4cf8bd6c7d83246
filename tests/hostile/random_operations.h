#pragma once

// Every operation once, as a function of a Step; messages are in random_messages.h. Each makes its
// contribution from this rank's history and adds to it all of the buffers that MPI may have
// written.

#include "random_messages.h"
#include "random_step.h"

static const Buffer kNoBuffer = {NULL, 0};

static inline int is_root(const Step* s) { return s->on->rank == s->root; }

/** Elements of a kind in `bytes` for each of `blocks`. */
static inline int moved_count(const Step* s, int blocks) {
  return s->bytes / blocks / s->kind->size_bytes;
}

static inline int folded_count(const Step* s, int blocks) {
  return s->bytes / blocks / s->fold->size_bytes;
}

/** Whether the receiver counts parts where the sender counts whole elements. */
static inline int by_parts(const Step* s) { return (s->random >> 20 & 3) == 0; }
static inline MPI_Datatype receive_type(const Step* s) {
  return by_parts(s) ? s->kind->part : s->kind->type;
}
static inline int receive_count(const Step* s, int count) {
  return by_parts(s) ? count * s->kind->parts : count;
}

static void run_barrier(const Step* s) { OK(MPI_Barrier(s->on->comm)); }

static void run_bcast(const Step* s) {
  const int count = moved_count(s, 1);
  Buffer all = new_moved(s, count, kSending);
  OK(MPI_Bcast(all.at, count, s->kind->type, s->root, s->on->comm));
  received(all);
}

static void run_allreduce(const Step* s) {
  const int count = folded_count(s, 1);
  Buffer in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  Buffer out = new_folded(s, count, kReceiving);
  OK(MPI_Allreduce(s->in_place ? MPI_IN_PLACE : in.at, out.at, count, s->fold->type, s->fold->op,
                   s->on->comm));
  received(in);
  received(out);
}

static void run_reduce(const Step* s) {
  const int count = folded_count(s, 1);
  const int in_place = s->in_place && is_root(s);
  Buffer in = in_place ? kNoBuffer : new_folded(s, count, kSending);
  Buffer out = is_root(s) ? new_folded(s, count, kReceiving) : kNoBuffer;
  OK(MPI_Reduce(in_place ? MPI_IN_PLACE : in.at, out.at, count, s->fold->type, s->fold->op, s->root,
                s->on->comm));
  received(in);
  received(out);
}

static void run_scan(const Step* s) {
  const int count = folded_count(s, 1);
  Buffer in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  Buffer out = new_folded(s, count, kReceiving);
  OK(MPI_Scan(s->in_place ? MPI_IN_PLACE : in.at, out.at, count, s->fold->type, s->fold->op,
              s->on->comm));
  received(in);
  received(out);
}

static void run_exscan(const Step* s) {
  const int count = folded_count(s, 1);
  Buffer in = s->in_place ? kNoBuffer : new_folded(s, count, kSending);
  Buffer out = new_folded(s, count, kReceiving);
  OK(MPI_Exscan(s->in_place ? MPI_IN_PLACE : in.at, out.at, count, s->fold->type, s->fold->op,
                s->on->comm));
  received(in);
  if (s->on->rank == 0) {  // MPI leaves open what it receives
    free(out.at);
    out = kNoBuffer;
  }
  received(out);
}

static void run_reduce_scatter_block(const Step* s) {
  const int count = folded_count(s, s->on->size);
  Buffer in = s->in_place ? kNoBuffer : new_folded(s, count * s->on->size, kSending);
  Buffer out = new_folded(s, s->in_place ? count * s->on->size : count, kReceiving);
  OK(MPI_Reduce_scatter_block(s->in_place ? MPI_IN_PLACE : in.at, out.at, count, s->fold->type,
                              s->fold->op, s->on->comm));
  received(in);
  if (s->in_place) cut(out, count, s->fold->size_bytes);
  received(out);
}

static void run_reduce_scatter(const Step* s) {
  Blocks blocks = new_blocks(s, folded_count(s, s->on->size), -1, -1);
  int total = 0;
  for (int i = 0; i < s->on->size; ++i) total += blocks.counts[i];
  const int mine = blocks.counts[s->on->rank];
  Buffer in = s->in_place ? kNoBuffer : new_folded(s, total, kSending);
  Buffer out = new_folded(s, s->in_place ? total : mine, kReceiving);
  OK(MPI_Reduce_scatter(s->in_place ? MPI_IN_PLACE : in.at, out.at, blocks.counts, s->fold->type,
                        s->fold->op, s->on->comm));
  received(in);
  if (s->in_place) cut(out, mine, s->fold->size_bytes);
  received(out);
  free_blocks(&blocks);
}

static void run_gather(const Step* s) {
  const int count = moved_count(s, s->on->size);
  const int in_place = s->in_place && is_root(s);
  Buffer in = in_place ? kNoBuffer : new_moved(s, count, kSending);
  Buffer out = is_root(s) ? new_moved(s, count * s->on->size, kReceiving) : kNoBuffer;
  OK(MPI_Gather(in_place ? MPI_IN_PLACE : in.at, count, s->kind->type, out.at,
                receive_count(s, count), receive_type(s), s->root, s->on->comm));
  received(in);
  received(out);
}

static void run_gatherv(const Step* s) {
  Blocks blocks = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  const int in_place = s->in_place && is_root(s);
  Buffer in = in_place ? kNoBuffer : new_moved(s, mine, kSending);
  Buffer out = is_root(s) ? new_moved(s, blocks.total, kReceiving) : kNoBuffer;
  OK(MPI_Gatherv(in_place ? MPI_IN_PLACE : in.at, mine, s->kind->type, out.at, blocks.counts,
                 blocks.displacements, s->kind->type, s->root, s->on->comm));
  received(in);
  received(out);
  free_blocks(&blocks);
}

static void run_scatter(const Step* s) {
  const int count = moved_count(s, s->on->size);
  const int in_place = s->in_place && is_root(s);
  Buffer in = is_root(s) ? new_moved(s, count * s->on->size, kSending) : kNoBuffer;
  Buffer out = in_place ? kNoBuffer : new_moved(s, count, kReceiving);
  OK(MPI_Scatter(in.at, count, s->kind->type, in_place ? MPI_IN_PLACE : out.at,
                 receive_count(s, count), receive_type(s), s->root, s->on->comm));
  received(in);
  received(out);
}

static void run_scatterv(const Step* s) {
  Blocks blocks = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  const int in_place = s->in_place && is_root(s);
  Buffer in = is_root(s) ? new_moved(s, blocks.total, kSending) : kNoBuffer;
  Buffer out = in_place ? kNoBuffer : new_moved(s, mine, kReceiving);
  OK(MPI_Scatterv(in.at, blocks.counts, blocks.displacements, s->kind->type,
                  in_place ? MPI_IN_PLACE : out.at, mine, s->kind->type, s->root, s->on->comm));
  received(in);
  received(out);
  free_blocks(&blocks);
}

static void run_allgather(const Step* s) {
  const int count = moved_count(s, s->on->size);
  Buffer in = s->in_place ? kNoBuffer : new_moved(s, count, kSending);
  Buffer out = new_moved(s, count * s->on->size, kReceiving);
  OK(MPI_Allgather(s->in_place ? MPI_IN_PLACE : in.at, count, s->kind->type, out.at,
                   receive_count(s, count), receive_type(s), s->on->comm));
  received(in);
  received(out);
}

static void run_allgatherv(const Step* s) {
  Blocks blocks = new_blocks(s, moved_count(s, s->on->size), -1, -1);
  const int mine = blocks.counts[s->on->rank];
  Buffer in = s->in_place ? kNoBuffer : new_moved(s, mine, kSending);
  Buffer out = new_moved(s, blocks.total, kReceiving);
  OK(MPI_Allgatherv(s->in_place ? MPI_IN_PLACE : in.at, mine, s->kind->type, out.at, blocks.counts,
                    blocks.displacements, s->kind->type, s->on->comm));
  received(in);
  received(out);
  free_blocks(&blocks);
}

static void run_alltoall(const Step* s) {
  const int count = moved_count(s, s->on->size);
  Buffer in = s->in_place ? kNoBuffer : new_moved(s, count * s->on->size, kSending);
  Buffer out = new_moved(s, count * s->on->size, kReceiving);
  OK(MPI_Alltoall(s->in_place ? MPI_IN_PLACE : in.at, count, s->kind->type, out.at,
                  receive_count(s, count), receive_type(s), s->on->comm));
  received(in);
  received(out);
}

static void run_alltoallv(const Step* s) {
  const int count = moved_count(s, s->on->size);
  Blocks to = new_blocks(s, count, s->on->rank, -1);
  Blocks from = new_blocks(s, count, -1, s->on->rank);
  Buffer in = s->in_place ? kNoBuffer : new_moved(s, to.total, kSending);
  Buffer out = new_moved(s, from.total, kReceiving);
  OK(MPI_Alltoallv(s->in_place ? MPI_IN_PLACE : in.at, to.counts, to.displacements, s->kind->type,
                   out.at, from.counts, from.displacements, s->kind->type, s->on->comm));
  received(in);
  received(out);
  free_blocks(&to);
  free_blocks(&from);
}

/** One side of an Alltoallw: whole elements for some partners, parts for others. */
static MPI_Datatype* types_of(const Step* s, Blocks* blocks, int side) {
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

static void run_alltoallw(const Step* s) {
  const int count = moved_count(s, s->on->size);
  Blocks to = new_blocks(s, count, s->on->rank, -1);
  Blocks from = new_blocks(s, count, -1, s->on->rank);
  Buffer in = new_moved(s, to.total, kSending);
  Buffer out = new_moved(s, from.total, kReceiving);
  MPI_Datatype* to_types = types_of(s, &to, 0);
  MPI_Datatype* from_types = types_of(s, &from, 9);
  OK(MPI_Alltoallw(in.at, to.counts, to.displacements, to_types, out.at, from.counts,
                   from.displacements, from_types, s->on->comm));
  received(in);
  received(out);
  free(to_types);
  free(from_types);
  free_blocks(&to);
  free_blocks(&from);
}

typedef struct {
  const char* name;
  void (*run)(const Step* s);
} Collective;

static const Collective kCollectives[] = {
    {"barrier", run_barrier},
    {"bcast", run_bcast},
    {"allreduce", run_allreduce},
    {"reduce", run_reduce},
    {"scan", run_scan},
    {"exscan", run_exscan},
    {"reduce_scatter_block", run_reduce_scatter_block},
    {"reduce_scatter", run_reduce_scatter},
    {"gather", run_gather},
    {"gatherv", run_gatherv},
    {"scatter", run_scatter},
    {"scatterv", run_scatterv},
    {"allgather", run_allgather},
    {"allgatherv", run_allgatherv},
    {"alltoall", run_alltoall},
    {"alltoallv", run_alltoallv},
    {"alltoallw", run_alltoallw},
    {"sendrecv", run_sendrecv},
    {"chain", run_chain},
    {"exchange", run_exchange},
    {"gather_any", run_gather_any},
    {"exchange", run_exchange},
    {"gather_any", run_gather_any},
};
enum { kCollectiveCount = sizeof kCollectives / sizeof *kCollectives };
