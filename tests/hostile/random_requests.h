#pragma once

// Outstanding collectives: begun in one step, and completed by any of MPI's functions in a later
// one. The set of outstanding collectives, and their places, are the same at all ranks; each rank
// chooses for itself in which order and by which function it completes them. The moment at which
// one is complete depends on time, so its result is added to the history only at a moment that
// follows from the random numbers.

#include "random_step.h"

typedef enum { kBlocking, kNonblocking, kPersistent } Form;

/** One collective, with all memory that MPI may use until it is complete. */
typedef struct Operation {
  void (*collective)(const Step* s, struct Operation* o);
  Step step;
  Slot on;  // a copy of *step.on, because the slot itself may be given another communicator
            // meanwhile
  Form form;
  int begun;  // begun, and its result is not in the history yet
  MPI_Request request;
  Buffer in;
  Buffer out;
  size_t defined_bytes;  // bytes of `out` that are defined when it is complete
  Blocks blocks[2];
  MPI_Datatype* types[2];
} Operation;

/** A place for an outstanding collective. All members except `mine` and `operation` are equal at
 * all ranks. */
typedef struct {
  Form form;  // kBlocking: the place is free
  int slot;
  int mine;  // this rank takes part
  Operation operation;
} Place;

enum { kMostOutstanding = 8 };
static Place places[kMostOutstanding];

/** Whether all calls are blocking ones, whose results are taken at the same moments: the output is
 * the same. Open MPI 4.1 hangs after some hundreds of nonblocking ones. */
static int only_blocking;

/** Makes buffers and calls MPI, but does not start a persistent collective. */
static inline void call(Operation* o) {
  o->request = MPI_REQUEST_NULL;
  o->defined_bytes = SIZE_MAX;
  o->begun = 1;
  o->collective(&o->step, o);
}

/** Called when the collective is complete. Adds its result to the history, and the memory that MPI
 * must not have written. */
static inline void take_result(Operation* o) {
  if (o->defined_bytes < o->out.words * 8) cut_to(o->out, o->defined_bytes);
  absorb(o->in);
  absorb(o->out);
  o->begun = 0;
}

static inline void release(Operation* o) {
  free(o->in.at);
  free(o->out.at);
  for (int i = 0; i < 2; ++i) {
    free_blocks(&o->blocks[i]);
    free(o->types[i]);
  }
}

// --- Completing
//
// The number of operations that --kill counts must not depend on time. A wait for requests that are
// all inactive does not count, except MPI_Waitall, so MPI_Waitall replaces the waits that a test
// has made superfluous.

static inline void require_success(const char* what, int code) {
  if (code != MPI_SUCCESS) check_fail(what, "success", "an error");
}

static inline void wait_for_nothing(int times) {
  for (int i = 0; i < times; ++i) OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
}

/** Completes all requests by one of several functions. Inactive ones may be among them. */
static inline void complete(uint64_t random, int count, MPI_Request* all) {
  int indices[64], index = 0, done = 0, flag = 0;
  switch (random % 7) {
    case 0:
      OK(MPI_Waitall(count, all, MPI_STATUSES_IGNORE));
      break;
    case 1:
      for (int i = count; i-- > 0;) {
        OK(MPI_Waitall(1, &all[i], MPI_STATUSES_IGNORE));
      }
      break;
    case 2:
      for (int left = count; left > 0; --left) {
        require_success("waitany", MPI_Waitany(count, all, &index, MPI_STATUS_IGNORE));
        if (index == MPI_UNDEFINED) return wait_for_nothing(left);
      }
      break;
    case 3:
      while (!flag) require_success("testall", MPI_Testall(count, all, &flag, MPI_STATUSES_IGNORE));
      break;
    case 4:
      while (done != MPI_UNDEFINED) {
        require_success("testsome", MPI_Testsome(count, all, &done, indices, MPI_STATUSES_IGNORE));
      }
      break;
    case 5:
      for (int left = count; left > 0; --left) {
        require_success("waitsome", MPI_Waitsome(count, all, &done, indices, MPI_STATUSES_IGNORE));
        if (done == MPI_UNDEFINED) return wait_for_nothing(left);
      }
      break;
    default:
      while (!flag || index != MPI_UNDEFINED) {
        require_success("testany", MPI_Testany(count, all, &index, &flag, MPI_STATUS_IGNORE));
      }
  }
}

/** Copies all outstanding requests. Returns their number. */
static inline int lend(MPI_Request* requests, int* whose) {
  int count = 0;
  for (int i = 0; i < kMostOutstanding; ++i) {
    if (!places[i].mine || !places[i].operation.begun) continue;
    requests[count] = places[i].operation.request;
    whose[count++] = i;
  }
  return count;
}

static inline void take_back(int count, const MPI_Request* requests, const int* whose) {
  for (int i = 0; i < count; ++i) places[whose[i]].operation.request = requests[i];
}

/** Tests once whether something is complete, or waits until something is. */
static inline void ask(uint64_t random) {
  MPI_Request requests[kMostOutstanding];
  int whose[kMostOutstanding], indices[kMostOutstanding], index = 0, flag = 0;
  const int count = lend(requests, whose);
  if (count == 0) return;
  MPI_Request* one = &requests[random / 8 % (uint64_t)count];
  switch (random % 7) {
    case 0:
      require_success("test", MPI_Test(one, &flag, MPI_STATUS_IGNORE));
      break;
    case 1:
      require_success("testany", MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE));
      break;
    case 2:
      require_success("testsome",
                      MPI_Testsome(count, requests, &index, indices, MPI_STATUSES_IGNORE));
      break;
    case 3:
      require_success("testall", MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE));
      break;
    case 4:
      require_success("get_status", MPI_Request_get_status(*one, &flag, MPI_STATUS_IGNORE));
      break;
    case 5:
      require_success("iprobe", MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
                                           MPI_STATUS_IGNORE));
      break;
    default:
      require_success("waitany", MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
      if (index == MPI_UNDEFINED) wait_for_nothing(1);
  }
  take_back(count, requests, whose);
}

/** Completes the requests that the random number selects, and adds their results to the history. */
static inline void complete_some(uint64_t random) {
  MPI_Request all[kMostOutstanding], requests[kMostOutstanding];
  int whose[kMostOutstanding], chosen[kMostOutstanding], count = 0;
  const int all_count = lend(all, whose);
  for (int i = 0; i < all_count; ++i) {
    if (random >> (8 + whose[i]) & 1) continue;
    requests[count] = all[i];
    chosen[count++] = whose[i];
  }
  if (count == 0) return;
  complete(random >> 32, count, requests);
  take_back(count, requests, chosen);
  // Adds them in the order in which they were begun, or in another that is the same in every run.
  for (int i = 0; i < count; ++i) take_result(&places[chosen[i]].operation);
}

/** The actions of a rank between two steps, which depend only on its own random number. */
static inline void complete_between(uint64_t random) {
  if (random % 4 == 0) complete_some(random >> 4);
  if (random % 4 == 1) ask(random >> 4);
}

// --- Beginning

static inline void complete_one(Operation* o) {
  if (!o->begun) return;
  OK(MPI_Waitall(1, &o->request, MPI_STATUSES_IGNORE));
  take_result(o);
}

/** Frees a place: completes the collective in it. */
static inline void clear_place(Place* p) {
  if (p->mine) {
    complete_one(&p->operation);
    if (p->operation.request != MPI_REQUEST_NULL) OK(MPI_Request_free(&p->operation.request));
    release(&p->operation);
  }
  p->form = kBlocking;
  p->mine = 0;
}

static inline void clear_places(void) {
  for (int i = 0; i < kMostOutstanding; ++i) clear_place(&places[i]);
}

/** Called before a communicator is freed; its other outstanding operations may complete later. */
static inline void leave_slot(int slot) {
  for (int i = 0; i < kMostOutstanding; ++i) {
    Place* p = &places[i];
    if (p->form == kPersistent && p->slot == slot) clear_place(p);
  }
}

/** Starts the persistent collectives of the places from `first` to before `end` again, with other
 * data. */
static inline void begin_again(int first, int end) {
  MPI_Request requests[kMostOutstanding];
  int whose[kMostOutstanding], count = 0;
  for (int i = first; i < end; ++i) {
    Operation* o = &places[i].operation;
    if (!places[i].mine || places[i].form != kPersistent) continue;
    complete_one(o);
    if (only_blocking) {
      release(o);
      call(o);
      continue;
    }
    fill(&o->step, o->in);
    fill(&o->step, o->out);
    o->begun = 1;
    requests[count] = o->request;
    whose[count++] = i;
  }
  if (count == 1) OK(MPI_Start(&requests[0]));
  if (count > 1) OK(MPI_Startall(count, requests));
  take_back(count, requests, whose);
}
