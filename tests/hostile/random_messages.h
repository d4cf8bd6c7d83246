#pragma once

// Messages between two ranks, as a function of a Step: what each rank sends is made from its
// history, and all that it receives is added there, in an order that does not depend on time.

#include "random_requests.h"
#include "random_step.h"

enum { kMostMessages = 12 };

static inline int message_count(const Step* s) { return s->bytes / s->kind->size_bytes; }

/** The sender may count whole elements and the receiver their parts. */
static inline int in_parts(const Step* s) { return (s->random >> 20 & 3) == 0; }
static inline int count_in(const Step* s, int count) {
  return in_parts(s) ? count * s->kind->parts : count;
}
static inline MPI_Datatype type_in(const Step* s) {
  return in_parts(s) ? s->kind->part : s->kind->type;
}

static void run_sendrecv(const Step* s) {
  const int n = s->on->size, shift = 1 + agreed(s, 0, 0, n);
  const int to = (s->on->rank + shift) % n, from = (s->on->rank + n - shift % n) % n;
  const int count = message_count(s);
  Buffer out = new_moved(s, count, kSending);
  Buffer in = new_moved(s, count, kReceiving);
  MPI_Status status;
  if (s->in_place) {
    OK(MPI_Sendrecv_replace(out.at, count, s->kind->type, to, 1, from, MPI_ANY_TAG, s->on->comm,
                            &status));
  } else {
    OK(MPI_Sendrecv(out.at, count, s->kind->type, to, 1, in.at, count_in(s, count), type_in(s),
                    from, 1, s->on->comm, &status));
  }
  check_i64("source", from, status.MPI_SOURCE);
  cut(out, count, s->kind->size_bytes);
  cut(in, count, s->kind->size_bytes);
  received(out);
  received(in);
}

/** A chain in which every rank waits for its predecessor. */
static void run_chain(const Step* s) {
  const int n = s->on->size, count = message_count(s);
  const int place = (s->on->rank + n - s->root) % n;
  Buffer data = new_moved(s, count, kSending);
  if (place > 0) {
    OK(MPI_Recv(data.at, count_in(s, count), type_in(s), (s->on->rank + n - 1) % n, 2, s->on->comm,
                MPI_STATUS_IGNORE));
  }
  if (place + 1 < n) {
    const int to = (s->on->rank + 1) % n;
    if (s->in_place) OK(MPI_Ssend(data.at, count, s->kind->type, to, 2, s->on->comm));
    if (!s->in_place) OK(MPI_Send(data.at, count, s->kind->type, to, 2, s->on->comm));
  }
  received(data);
}

/** Several messages are on their way at once, with tags that are received in another order. They
 * are completed together with all outstanding collectives, or alone. */
static void run_exchange(const Step* s) {
  const int n = s->on->size, each = 1 + agreed(s, 2, 0, kMostMessages / 2);
  const int count = message_count(s) / each;
  MPI_Request all[kMostMessages + kMostOutstanding];
  int whose[kMostOutstanding];
  Buffer out[kMostMessages], in[kMostMessages];
  for (int i = 0; i < each; ++i) {
    const int shift = agreed(s, 3, (uint64_t)i, n);
    const int from = (s->on->rank + n - shift) % n;
    in[i] = new_moved(s, count, (uint64_t)(100 + i));
    OK(MPI_Irecv(in[i].at, count_in(s, count), type_in(s), from, i, s->on->comm, &all[i]));
  }
  for (int k = 0; k < each; ++k) {
    const int i = each - 1 - k, shift = agreed(s, 3, (uint64_t)i, n);
    const int to = (s->on->rank + shift) % n;
    out[i] = new_moved(s, count, (uint64_t)(200 + i));
    if (agreed(s, 4, (uint64_t)i, 3) == 0) {
      OK(MPI_Issend(out[i].at, count, s->kind->type, to, i, s->on->comm, &all[each + i]));
    } else {
      OK(MPI_Isend(out[i].at, count, s->kind->type, to, i, s->on->comm, &all[each + i]));
    }
  }
  const int more = s->in_place ? lend(all + 2 * each, whose) : 0;
  complete(hash_step(s->random, 12), 2 * each + more, all);
  take_back(more, all + 2 * each, whose);
  for (int i = 0; i < each; ++i) {
    cut(in[i], count, s->kind->size_bytes);
    received(in[i]);
    free(out[i].at);
  }
}

/** The root receives messages from any source, and sends all ranks a value made from them. */
static void run_gather_any(const Step* s) {
  const int n = s->on->size, each = 1 + agreed(s, 5, 0, 3);
  uint64_t word[2] = {0, 0};
  if (s->on->rank != s->root) {
    for (int i = 0; i < each; ++i) {
      word[0] = hash_step(history, (uint64_t)i);
      word[1] = (uint64_t)i;
      OK(MPI_Send(word, 2, MPI_UINT64_T, s->root, 4 + i % 2, s->on->comm));
    }
    OK(MPI_Recv(word, 1, MPI_UINT64_T, s->root, 6, s->on->comm, MPI_STATUS_IGNORE));
    history = hash_step(history, word[0]);
    return;
  }
  uint64_t sum = 0;
  for (int i = 0; i < each * (n - 1); ++i) {
    MPI_Status status;
    int source = MPI_ANY_SOURCE, flag = 0;
    if (s->in_place) {
      while (!flag) {
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->on->comm, &flag, &status) != MPI_SUCCESS) {
          check_fail("iprobe", "success", "an error");
        }
      }
      source = status.MPI_SOURCE;
    }
    if (MPI_Recv(word, 2, MPI_UINT64_T, source, MPI_ANY_TAG, s->on->comm, &status) != MPI_SUCCESS) {
      check_fail("receive", "success", "an error");
    }
    if (status.MPI_TAG != 4 + (int)word[1] % 2) check_fail("tag", "of the message", "another");
    sum += hash_step(word[0], (uint64_t)status.MPI_SOURCE * 64 + word[1]);
  }
  history = hash_step(history, sum);
  for (int i = 0; i < n; ++i) {
    if (i != s->root) OK(MPI_Send(&history, 1, MPI_UINT64_T, i, 6, s->on->comm));
  }
}
