// Conformance of the nonblocking collectives: every function is completed by every function that
// completes requests. Many are outstanding at once, in several communicators, and with messages.

#include "nonblocking.h"

#include <mpi.h>

#include "check.h"
#include "comms.h"

enum { kForms = 9, kMessages = 3 };

/** Completes all requests by one of MPI's functions. Requests may be null. */
static void complete(int form, int count, MPI_Request* requests) {
  int left = count;
  int index = -1;
  int flag = 0;
  int some = 0;
  int indices[64];
  switch (form) {
    case 0:
      for (int i = count; i-- > 0;) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      break;
    case 1:
      OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
      break;
    case 2:
      for (; left > 0; --left) {
        OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
        check_true("an index", index >= 0 && index < count);
        check_true("it is null", requests[index] == MPI_REQUEST_NULL);
      }
      OK(MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE));
      check_i64("no index", MPI_UNDEFINED, index);
      break;
    case 3:
      while (left > 0) {
        if (MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
          check_fail("MPI_Waitsome", "success", "an error");
        left -= some;
      }
      break;
    case 4:
      for (int i = 0; i < count; ++i) {
        for (flag = 0; !flag;) {
          if (MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            check_fail("MPI_Test", "success", "an error");
        }
      }
      break;
    case 5:
      while (!flag) {
        if (MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
          check_fail("MPI_Testall", "success", "an error");
      }
      break;
    case 6:
      while (left > 0) {
        if (MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
          check_fail("MPI_Testany", "success", "an error");
        left -= flag;
      }
      break;
    case 7:
      while (left > 0) {
        if (MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
          check_fail("MPI_Testsome", "success", "an error");
        left -= some;
      }
      break;
    default:
      for (int i = 0; i < count; ++i) {
        for (flag = 0; !flag;) {
          if (MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            check_fail("MPI_Request_get_status", "success", "an error");
        }
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      }
  }
  for (int i = 0; i < count; ++i) check_true("null", requests[i] == MPI_REQUEST_NULL);
}

/** All functions are outstanding at once on one communicator. */
static void test_all_at_once(const TestComm* on, int count, int form, int in_place) {
  MPI_Request requests[kFunctions];
  Begun begun[kFunctions];
  for (int f = 0; f < kFunctions; ++f) {
    begun[f] = begin(f, on, count, f + form, in_place, &requests[f]);
  }
  complete(form, kFunctions, requests);
  for (int f = 0; f < kFunctions; ++f) finish(&begun[f]);
}

/** Collectives on several communicators, which ranks begin in different orders. */
static void test_crossed(const TestComm* comms, int count, int form) {
  enum { kEach = 4, kAll = kEach * (kTestComms - 1) };
  MPI_Request requests[kAll];
  Begun begun[kAll];
  for (int i = 0; i < kAll; ++i) {
    // Odd ranks use the communicators in reverse order. In each communicator the order is the same.
    const int turn = i / (kTestComms - 1);
    const int c =
        check_state.rank % 2 == 0 ? i % (kTestComms - 1) : kTestComms - 2 - i % (kTestComms - 1);
    const int function = (turn * 5 + c * 3 + form) % kFunctions;
    begun[i] = begin(function, &comms[c], count + turn, turn, 0, &requests[i]);
  }
  complete(form, kAll, requests);
  for (int i = 0; i < kAll; ++i) finish(&begun[i]);
}

/** One array of requests contains messages and collectives. */
static void test_with_messages(const TestComm* on, int form) {
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  int sent[kMessages];
  int got[kMessages];
  MPI_Request requests[2 * kMessages + 2];
  Begun first = begin(2, on, 40, form, 0, &requests[0]);
  for (int i = 0; i < kMessages; ++i) {
    sent[i] = test_value(on, on->rank, next, i);
    OK(MPI_Irecv(&got[i], 1, MPI_INT, i == 1 ? MPI_ANY_SOURCE : before, i, on->comm,
                 &requests[1 + i]));
  }
  Begun second = begin(14, on, 7, form, 0, &requests[kMessages + 1]);
  for (int i = 0; i < kMessages; ++i) {
    MPI_Request* request = &requests[kMessages + 2 + i];
    if (i == 2) {
      OK(MPI_Issend(&sent[i], 1, MPI_INT, next, i, on->comm, request));
    } else {
      OK(MPI_Isend(&sent[i], 1, MPI_INT, next, i, on->comm, request));
    }
  }
  complete(form, 2 * kMessages + 2, requests);
  check_context("messages beside collectives, form %d", form);
  for (int i = 0; i < kMessages; ++i) {
    check_i64("message", test_value(on, before, on->rank, i), got[i]);
  }
  finish(&first);
  finish(&second);
}

/** A rank that waits for another operation advances its outstanding ones. */
static void test_progress(const TestComm* on) {
  check_context("progress");
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Request later = MPI_REQUEST_NULL;
  int token = 5;
  Begun b = begin(2, on, 1500, 1, 0, &request);
  if (on->size > 1 && on->rank == 0) {
    OK(MPI_Recv(&token, 1, MPI_INT, 1, 3, on->comm, MPI_STATUS_IGNORE));
  } else if (on->rank == 1) {
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Send(&token, 1, MPI_INT, 0, 3, on->comm));
  }
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  finish(&b);
  // The rank waits in a blocking collective, and then has a receive that a synchronous send waits
  // for.
  b = begin(7, on, 900, 0, 0, &request);
  int got = -1;
  if (on->rank == 0) {
    OK(MPI_Irecv(&got, 1, MPI_INT, on->size - 1, 4, on->comm, &later));
  }
  if (on->rank == on->size - 1) {
    if (on->size > 1) {
      OK(MPI_Ssend(&token, 1, MPI_INT, 0, 4, on->comm));
    } else {
      OK(MPI_Send(&token, 1, MPI_INT, 0, 4, on->comm));
    }
  }
  OK(MPI_Barrier(on->comm));
  OK(MPI_Wait(&later, MPI_STATUS_IGNORE));
  if (on->rank == 0) check_i64("token", 5, got);
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  finish(&b);
}

// --- Handles that are freed meanwhile; types with gaps; user-defined operations

/** MPI_User_function: the composition of x -> a x + b, in 16 bits, which is not commutative. */
static void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  const unsigned* left = (const unsigned*)in;
  unsigned* right = (unsigned*)inout;
  for (int i = 0; i < *length; ++i) {
    const unsigned a = (left[2 * i] * right[2 * i]) & 0xffff;
    const unsigned b = (left[2 * i] * right[2 * i + 1] + left[2 * i + 1]) & 0xffff;
    right[2 * i] = a;
    right[2 * i + 1] = b;
  }
}

enum { kPairs = 500 };

static void fill_pairs(unsigned* pairs, int rank) {
  for (int i = 0; i < 2 * kPairs; ++i) pairs[i] = (unsigned)(pattern(rank, 9, i) + 1000) | 1;
}

static void test_freed(const TestComm* on, int form) {
  check_context("freed handles on %s", on->name);
  static unsigned in[2 * kPairs];
  static unsigned out[3][2 * kPairs];
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Datatype sparse = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Request requests[5];
  OK(MPI_Comm_dup(on->comm, &comm));
  OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pair));
  OK(MPI_Type_commit(&pair));
  OK(MPI_Type_vector(50, 2, 3, MPI_INT, &sparse));
  OK(MPI_Type_commit(&sparse));
  OK(MPI_Op_create(compose, 0, &op));
  fill_pairs(in, on->rank);
  int root = on->size - 1;
  int message[150];
  for (int i = 0; i < 150; ++i) {
    message[i] = on->rank == root ? test_value(on, root, 0, i) : kUntouched;
  }
  int* parts = new_ints(150 * on->size);
  set_ints(parts, 150 * on->size, kUntouched);
  int mine[150];
  for (int i = 0; i < 150; ++i) mine[i] = test_value(on, on->rank, 1, i);
  OK(MPI_Iallreduce(in, out[0], kPairs, pair, op, comm, &requests[0]));
  OK(MPI_Ibcast(message, 1, sparse, root, comm, &requests[1]));
  OK(MPI_Iscan(in, out[1], kPairs, pair, op, comm, &requests[2]));
  OK(MPI_Igather(mine, 1, sparse, parts, 100, MPI_INT, root, comm, &requests[3]));
  OK(MPI_Ireduce(in, out[2], kPairs, pair, op, root, comm, &requests[4]));
  OK(MPI_Type_free(&pair));
  OK(MPI_Type_free(&sparse));
  complete(form, 5, requests);
  OK(MPI_Op_free(&op));
  // Open MPI 4.1 would crash if this was freed before.
  OK(MPI_Comm_free(&comm));

  unsigned expected[2 * kPairs];
  unsigned prefix[2 * kPairs];
  for (int r = on->size - 1; r >= 0; --r) {  // from the right, and to the left
    unsigned theirs[2 * kPairs];
    const int world = r;
    fill_pairs(theirs, world);
    int count = kPairs;
    if (r == on->size - 1) {
      memcpy(expected, theirs, sizeof expected);
    } else {
      compose(theirs, expected, &count, NULL);
    }
    if (r == on->rank) memcpy(prefix, theirs, sizeof prefix);
    if (r < on->rank) compose(theirs, prefix, &count, NULL);
  }
  for (int i = 0; i < 2 * kPairs; ++i) {
    check_i64("all", expected[i], out[0][i]);
    check_i64("prefix", prefix[i], out[1][i]);
    if (on->rank == root) check_i64("at the root", expected[i], out[2][i]);
  }
  for (int i = 0; i < 149; ++i) {
    const int gap = i % 3 == 2 && on->rank != root;
    check_i64("message", gap ? kUntouched : test_value(on, root, 0, i), message[i]);
  }
  for (int r = 0; on->rank == root && r < on->size; ++r) {
    for (int i = 0; i < 100; ++i) {
      check_i64("part", test_value(on, r, 1, i / 2 * 3 + i % 2), parts[100 * r + i]);
    }
  }
  free(parts);
}

// --- Communicators

static int copies = 0;
static int copy_attribute(MPI_Comm comm, int key, void* state, void* in, void* out, int* flag) {
  (void)comm;
  (void)key;
  (void)state;
  ++copies;
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}

static void test_idup(const TestComm* on) {
  check_context("MPI_Comm_idup of %s", on->name);
  int key = MPI_KEYVAL_INVALID;
  int value = 17;
  OK(MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &key, NULL));
  OK(MPI_Comm_set_attr(on->comm, key, &value));
  MPI_Comm made[3];
  MPI_Request requests[4];
  copies = 0;
  for (int i = 0; i < 3; ++i) OK(MPI_Comm_idup(on->comm, &made[i], &requests[i]));
  OK(MPI_Ibarrier(on->comm, &requests[3]));
  complete(1, 4, requests);
  check_i64("copies", 3, copies);
  for (int i = 0; i < 3; ++i) {
    int result = -1;
    int* got = NULL;
    int flag = 0;
    OK(MPI_Comm_compare(on->comm, made[i], &result));
    check_i64("congruent", MPI_CONGRUENT, result);
    OK(MPI_Comm_get_attr(made[i], key, &got, &flag));
    check_true("attribute", flag && got == &value);
  }
  // Operations on the duplicates do not disturb each other.
  for (int i = 2; i >= 0; --i) {
    int mine = on->rank + i;
    int sum = 0;
    OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, made[i], &requests[i]));
    OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    check_i64("sum", on->size * (on->size - 1) / 2 + i * on->size, sum);
    OK(MPI_Comm_free(&made[i]));
  }
  OK(MPI_Comm_delete_attr(on->comm, key));
  OK(MPI_Comm_free_keyval(&key));
}

// --- Neighbours, in a ring that is a grid: block 2d is for the rank before, 2d+1 for the one
// behind

static void test_neighbours(int form) {
  check_context("neighbours, form %d", form);
  const int n = check_state.size;
  const int periodic = 1;
  MPI_Comm ring = MPI_COMM_NULL;
  OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &periodic, 0, &ring));
  const int me = check_state.rank;
  const int around[2] = {(me + n - 1) % n, (me + 1) % n};
  int in[5][8];
  int out[5][8];
  for (int f = 0; f < 5; ++f) {
    for (int i = 0; i < 8; ++i) {
      in[f][i] = pattern(me, f, i);
      out[f][i] = kUntouched;
    }
  }
  const int counts[2] = {3, 3};
  const int displs[2] = {4, 0};
  const MPI_Aint bytes[2] = {16, 0};
  MPI_Datatype types[2];
  OK(MPI_Type_contiguous(1, MPI_INT, &types[0]));
  OK(MPI_Type_commit(&types[0]));
  types[1] = MPI_INT;
  MPI_Request requests[5];
  OK(MPI_Ineighbor_allgather(in[0], 3, MPI_INT, out[0], 3, MPI_INT, ring, &requests[0]));
  OK(MPI_Ineighbor_allgatherv(in[1], 3, MPI_INT, out[1], counts, displs, MPI_INT, ring,
                              &requests[1]));
  OK(MPI_Ineighbor_alltoall(in[2], 3, MPI_INT, out[2], 3, MPI_INT, ring, &requests[2]));
  OK(MPI_Ineighbor_alltoallv(in[3], counts, displs, MPI_INT, out[3], counts, displs, MPI_INT, ring,
                             &requests[3]));
  OK(MPI_Ineighbor_alltoallw(in[4], counts, bytes, types, out[4], counts, bytes, types, ring,
                             &requests[4]));
  OK(MPI_Type_free(&types[0]));
  complete(form, 5, requests);
  for (int block = 0; block < 2; ++block) {
    for (int i = 0; i < 3; ++i) {
      const int from = around[block];
      const int their = block ^ 1;  // the neighbour's block for this rank
      check_i64("allgather", pattern(from, 0, i), out[0][3 * block + i]);
      check_i64("allgatherv", pattern(from, 1, i), out[1][displs[block] + i]);
      check_i64("alltoall", pattern(from, 2, 3 * their + i), out[2][3 * block + i]);
      check_i64("alltoallv", pattern(from, 3, displs[their] + i), out[3][displs[block] + i]);
      check_i64("alltoallw", pattern(from, 4, displs[their] + i), out[4][displs[block] + i]);
    }
  }
  check_i64("gap", kUntouched, out[1][3]);
  OK(MPI_Comm_free(&ring));
}

// --- Wrong arguments

static void expect(const char* what, int error_class, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, error_class, got);
}

static void test_errors(void) {
  check_context("errors");
  MPI_Comm comm = MPI_COMM_NULL;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  int in[4] = {1, 2, 3, 4};
  int out[64];
  MPI_Request r = MPI_REQUEST_NULL;
  expect("comm", MPI_ERR_COMM, MPI_Ibarrier(MPI_COMM_NULL, &r));
  expect("type", MPI_ERR_TYPE, MPI_Ibcast(in, 1, MPI_DATATYPE_NULL, 0, comm, &r));
  expect("root", MPI_ERR_ROOT, MPI_Ibcast(in, 1, MPI_INT, check_state.size, comm, &r));
  expect("count", MPI_ERR_COUNT, MPI_Iallreduce(in, out, -1, MPI_INT, MPI_SUM, comm, &r));
  expect("op", MPI_ERR_OP, MPI_Iallreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm, &r));
  expect("op for the type", MPI_ERR_OP, MPI_Iscan(in, out, 1, MPI_FLOAT, MPI_BAND, comm, &r));
  expect("root", MPI_ERR_ROOT, MPI_Ireduce(in, out, 1, MPI_INT, MPI_SUM, -1, comm, &r));
  expect("type", MPI_ERR_TYPE, MPI_Ialltoall(in, 1, MPI_INT, out, 1, MPI_DATATYPE_NULL, comm, &r));
  expect("root", MPI_ERR_ROOT, MPI_Igather(in, 1, MPI_INT, out, 1, MPI_INT, -5, comm, &r));
  // Refused calls do not count in the order of operations.
  OK(MPI_Iallreduce(in, out, 4, MPI_INT, MPI_MAX, comm, &r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  check_ints("result", in, out, 4);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  OK(MPI_Comm_free(&comm));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  TestComm comms[kTestComms];
  make_test_comms(comms);
  static const int kCounts[] = {0, 1, 7, 300, kMostCount};
  for (int c = 0; c < kTestComms; ++c) {
    for (int k = 0; k < 5; ++k) {
      test_all_at_once(&comms[c], kCounts[k], (c + 2 * k) % kForms, (c + k) % 2);
    }
  }
  check_section("all at once");
  for (int form = 0; form < kForms; ++form) test_crossed(comms, form % 2 == 0 ? 3 : 700, form);
  check_section("crossed");
  for (int form = 0; form < kForms; ++form) test_with_messages(&comms[form % 3], form);
  check_section("messages");
  for (int c = 0; c < 3; ++c) test_progress(&comms[c]);
  check_section("progress");
  for (int c = 0; c < kTestComms; ++c) test_freed(&comms[c], c);
  check_section("freed");
  for (int c = 0; c < kTestComms - 1; ++c) test_idup(&comms[c]);
  check_section("idup");
  // If both neighbours are the same rank, Open MPI 4.1 exchanges the two blocks.
  for (int form = 0; form < 4 && check_state.size > 2; ++form) test_neighbours(form);
  check_section("neighbours");
  test_errors();
  free_test_comms(comms);
  return check_end();
}
