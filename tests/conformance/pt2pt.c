// Conformance of messages: blocking, nonblocking, persistent and matched, in the order that MPI
// guarantees, from any source and with any tag, to the rank itself and to MPI_PROC_NULL.

#include <mpi.h>

#include "check.h"
#include "comms.h"

enum { kTag = 3, kMost = 70000 };
static const int kCounts[] = {0, 1, 2, 3, 16, 1000, 70000};
enum { kCountsCount = sizeof kCounts / sizeof *kCounts };

static int* new_message(const TestComm* on, int source, int dest, int count) {
  int* m = new_ints(count);
  for (int i = 0; i < count; ++i) m[i] = test_value(on, source, dest, i);
  return m;
}

static void check_status(const char* what, const MPI_Status* status, int source, int tag,
                         int count) {
  int got = -1;
  int cancelled = -1;
  check_context("%s", what);
  check_i64("source", source, status->MPI_SOURCE);
  check_i64("tag", tag, status->MPI_TAG);
  OK(MPI_Get_count(status, MPI_INT, &got));
  check_i64("count", count, got);
  OK(MPI_Test_cancelled(status, &cancelled));
  check_i64("cancelled", 0, cancelled);
}

/** Calls a blocking send, whose kind is given by its number. */
static void send(int kind, const int* data, int count, int dest, MPI_Comm comm) {
  if (kind == 0) OK(MPI_Send(data, count, MPI_INT, dest, kTag, comm));
  if (kind == 1) OK(MPI_Ssend(data, count, MPI_INT, dest, kTag, comm));
  if (kind == 2) OK(MPI_Bsend(data, count, MPI_INT, dest, kTag, comm));
}

static void test_blocking(const TestComm* on, int count, int kind) {
  if (on->size < 2) return;
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  int* out = new_message(on, on->rank, next, count);
  int* expected = new_message(on, before, on->rank, count);
  int* in = new_ints(count + 2);
  MPI_Status status;
  if (on->rank == 0) send(kind, out, count, next, on->comm);
  OK(MPI_Recv(in, count + 2, MPI_INT, before, kTag, on->comm, &status));
  check_status("receive", &status, before, kTag, count);
  check_ints("message", expected, in, count);
  if (on->rank != 0) send(kind, out, count, next, on->comm);
  free(out);
  free(expected);
  free(in);
}

static void test_sendrecv(const TestComm* on, int count) {
  check_context("sendrecv of %d ints on %s", count, on->name);
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  int* out = new_message(on, on->rank, next, count);
  int* expected = new_message(on, before, on->rank, count);
  int* in = new_ints(count);
  MPI_Status status;
  OK(MPI_Sendrecv(out, count, MPI_INT, next, 1, in, count, MPI_INT, before, 1, on->comm, &status));
  check_status("sendrecv", &status, before, 1, count);
  check_ints("message", expected, in, count);
  OK(MPI_Sendrecv_replace(out, count, MPI_INT, next, 2, before, MPI_ANY_TAG, on->comm, &status));
  check_status("sendrecv_replace", &status, before, 2, count);
  check_ints("replaced", expected, out, count);
  OK(MPI_Sendrecv(out, count, MPI_INT, MPI_PROC_NULL, 1, in, count, MPI_INT, MPI_PROC_NULL, 1,
                  on->comm, &status));
  check_status("to MPI_PROC_NULL", &status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  free(out);
  free(expected);
  free(in);
}

/** Receives by tags in another order than sent, by any tag, and several of one tag in order. */
static void test_order(const TestComm* on) {
  check_context("order on %s", on->name);
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  MPI_Request sends[6];
  int out[6];
  for (int i = 0; i < 6; ++i) {
    out[i] = test_value(on, on->rank, next, i);
    OK(MPI_Isend(&out[i], 1, MPI_INT, next, i % 3, on->comm, &sends[i]));
  }
  static const int kOrder[] = {2, 5, 0, 1, 3, 4};
  for (int i = 0; i < 6; ++i) {
    int in = 0;
    MPI_Status status;
    const int k = kOrder[i];
    const int any = i >= 4;  // the messages that are left were sent in the order 3, 4
    OK(MPI_Recv(&in, 1, MPI_INT, before, any ? MPI_ANY_TAG : k % 3, on->comm, &status));
    check_status("in order", &status, before, k % 3, 1);
    check_i64("value", test_value(on, before, on->rank, k), in);
  }
  OK(MPI_Waitall(6, sends, MPI_STATUSES_IGNORE));
  for (int i = 0; i < 6; ++i) check_true("null", sends[i] == MPI_REQUEST_NULL);
}

/** Rank 0 receives from any source what all others send; the sums must be right. */
static void test_any_source(const TestComm* on) {
  check_context("any source on %s", on->name);
  enum { kEach = 5 };
  if (on->rank != 0) {
    for (int i = 0; i < kEach; ++i) {
      int out[2] = {on->rank, test_value(on, on->rank, 0, i)};
      OK(MPI_Send(out, 2, MPI_INT, 0, 10 + i % 2, on->comm));
    }
  } else {
    int* seen = new_ints(on->size);
    for (int i = 0; i < kEach * (on->size - 1); ++i) {
      MPI_Status status;
      int in[2];
      OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, on->comm, &status));
      OK(MPI_Recv(in, 2, MPI_INT, i % 2 == 0 ? status.MPI_SOURCE : MPI_ANY_SOURCE, MPI_ANY_TAG,
                  on->comm, &status));
      if (in[0] != status.MPI_SOURCE) check_fail("source", "the sender", "another one");
      const int k = seen[in[0]]++;
      if (status.MPI_TAG != 10 + k % 2) check_fail("tag", "in order", "out of order");
      if (in[1] != test_value(on, in[0], 0, k)) check_fail("value", "in order", "out of order");
    }
    for (int r = 1; r < on->size; ++r) check_i64("messages of a rank", kEach, seen[r]);
    free(seen);
  }
  OK(MPI_Barrier(on->comm));
}

enum Completion { kWait, kWaitall, kWaitany, kWaitsome, kTest, kTestall, kTestany, kTestsome };

/** Completes all `count` requests in the given way. statuses[i] becomes the status of request i. */
static void complete(enum Completion how, int count, MPI_Request* all, MPI_Status* statuses) {
  int indices[8];
  MPI_Status some[8];
  int left = count;
  int flag = 0;
  switch (how) {
    case kWait:
      for (int i = count; i-- > 0;) OK(MPI_Wait(&all[i], &statuses[i]));
      break;
    case kWaitall:
      OK(MPI_Waitall(count, all, statuses));
      break;
    case kWaitany:
      for (; left > 0; --left) {
        int i = -1;
        if (MPI_Waitany(count, all, &i, &some[0]) != MPI_SUCCESS) check_fail("waitany", "0", "?");
        statuses[i] = some[0];
      }
      break;
    case kTestany:
      while (left > 0) {
        int i = -1;
        if (MPI_Testany(count, all, &i, &flag, &some[0]) != MPI_SUCCESS) {
          check_fail("testany", "0", "?");
        }
        if (!flag) continue;
        statuses[i] = some[0];
        --left;
      }
      break;
    case kWaitsome:
    case kTestsome:
      while (left > 0) {
        int n = 0;
        const int code = how == kWaitsome ? MPI_Waitsome(count, all, &n, indices, some)
                                          : MPI_Testsome(count, all, &n, indices, some);
        if (code != MPI_SUCCESS) check_fail("some", "0", "?");
        for (int i = 0; i < n; ++i) statuses[indices[i]] = some[i];
        left -= n;
      }
      break;
    case kTest:
      for (int i = 0; i < count; ++i) {
        for (flag = 0; !flag;) {
          if (MPI_Test(&all[i], &flag, &statuses[i]) != MPI_SUCCESS) check_fail("test", "0", "?");
        }
      }
      break;
    case kTestall:
      while (!flag) {
        if (MPI_Testall(count, all, &flag, statuses) != MPI_SUCCESS)
          check_fail("testall", "0", "?");
      }
      break;
  }
}

static void test_requests(const TestComm* on, enum Completion how, int count, int persistent) {
  check_context("requests of %d ints, completion %d on %s", count, (int)how, on->name);
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  int* out = new_message(on, on->rank, next, count);
  int* expected = new_message(on, before, on->rank, count);
  int* in[4];
  MPI_Request all[8];
  MPI_Status statuses[8];
  for (int i = 0; i < 4; ++i) in[i] = new_ints(count);
  if (persistent) {
    for (int i = 0; i < 4; ++i) {
      OK(MPI_Recv_init(in[i], count, MPI_INT, i == 1 ? MPI_ANY_SOURCE : before, i, on->comm,
                       &all[i]));
    }
    OK(MPI_Send_init(out, count, MPI_INT, next, 0, on->comm, &all[4]));
    OK(MPI_Ssend_init(out, count, MPI_INT, next, 1, on->comm, &all[5]));
    OK(MPI_Send_init(out, count, MPI_INT, next, 2, on->comm,
                     &all[6]));  // Open MPI loses a Bsend_init
    OK(MPI_Send_init(out, count, MPI_INT, next, 3, on->comm, &all[7]));
  }
  for (int round = 0; round < (persistent ? 3 : 1); ++round) {
    for (int i = 0; i < 4; ++i) set_ints(in[i], count, -1);
    if (persistent && round == 1) {
      for (int i = 0; i < 8; ++i) OK(MPI_Start(&all[i]));
    } else if (persistent) {
      OK(MPI_Startall(8, all));
    } else {
      for (int i = 0; i < 4; ++i) {
        OK(MPI_Irecv(in[i], count, MPI_INT, i == 1 ? MPI_ANY_SOURCE : before, i, on->comm,
                     &all[i]));
      }
      OK(MPI_Isend(out, count, MPI_INT, next, 0, on->comm, &all[4]));
      OK(MPI_Issend(out, count, MPI_INT, next, 1, on->comm, &all[5]));
      OK(MPI_Ibsend(out, count, MPI_INT, next, 2, on->comm, &all[6]));
      OK(MPI_Isend(out, count, MPI_INT, next, 3, on->comm, &all[7]));
    }
    complete(how, 8, all, statuses);
    for (int i = 0; i < 4; ++i) {
      check_status("request", &statuses[i], before, i, count);
      check_ints("message", expected, in[i], count);
    }
    for (int i = 0; i < 8; ++i) {
      check_true("null when it is over", persistent || all[i] == MPI_REQUEST_NULL);
    }
  }
  for (int i = 0; persistent && i < 8; ++i) OK(MPI_Request_free(&all[i]));
  for (int i = 0; i < 4; ++i) free(in[i]);
  free(out);
  free(expected);
}

/** Looks at requests for which no message has been sent yet. */
static void look_in_vain(int count, MPI_Request* all) {
  int indices[8];
  MPI_Status statuses[8];
  for (int times = 0; times < 3; ++times) {
    int flag = 1, index = 0, some = 0;
    OK(MPI_Testany(count, all, &index, &flag, &statuses[0]));
    check_i64("none is complete", 0, flag);
    check_i64("no index", MPI_UNDEFINED, index);
    OK(MPI_Testsome(count, all, &some, indices, statuses));
    check_i64("none is complete", 0, some);
    OK(MPI_Testall(count, all, &flag, statuses));
    check_i64("not all are complete", 0, flag);
  }
}

/** Receives from any rank and from one, in one array, which are tested before and while messages
    come. The last one's message comes first. */
static void test_several_sources(const TestComm* on, enum Completion how) {
  enum { kReceives = 8, kFirstTag = 100 };
  static const int from[kReceives] = {1, 1, 2, 2, 1, 0, 2, 1};
  static const int any[kReceives] = {0, 0, 1, 1, 0, 0, 1, 0};
  check_context("several sources, completion %d on %s", (int)how, on->name);
  MPI_Request all[kReceives];
  MPI_Status statuses[kReceives];
  int in[kReceives];
  for (int i = 0; i < kReceives && on->rank == 0; ++i) {
    in[i] = -1;
    const int source = any[i] ? MPI_ANY_SOURCE : from[i] % on->size;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, source, kFirstTag + i, on->comm, &all[i]));
  }
  if (on->rank == 0) look_in_vain(kReceives, all);
  OK(MPI_Barrier(on->comm));
  for (int i = kReceives; i-- > 0;) {
    if (on->rank != from[i] % on->size) continue;
    const int value = test_value(on, on->rank, 0, i);
    OK(MPI_Send(&value, 1, MPI_INT, 0, kFirstTag + i, on->comm));
  }
  if (on->rank != 0) return;
  complete(how, kReceives, all, statuses);
  for (int i = 0; i < kReceives; ++i) {
    check_status("request", &statuses[i], from[i] % on->size, kFirstTag + i, 1);
    check_i64("message", test_value(on, from[i] % on->size, 0, i), in[i]);
  }
}

/** Waits for one request while a receive that is not waited for is what another rank waits for. */
static void test_waits_for_some(const TestComm* on) {
  check_context("waits for some on %s", on->name);
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  for (int how = 0; how < 4; ++how) {
    MPI_Request receive, others[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const int out = test_value(on, on->rank, next, how);
    int in = -1, index = -1, some = 0, indices[2];
    OK(MPI_Irecv(&in, 1, MPI_INT, before, how, on->comm, &receive));
    if (how < 2) {
      OK(MPI_Issend(&out, 1, MPI_INT, next, how, on->comm, &others[0]));
    } else {
      // An even rank waits in a collective that an odd one enters behind its synchronous send.
      if (on->rank % 2 == 1) OK(MPI_Ssend(&out, 1, MPI_INT, next, how, on->comm));
      OK(MPI_Ibarrier(on->comm, &others[1]));
      if (on->rank % 2 == 0) OK(MPI_Isend(&out, 1, MPI_INT, next, how, on->comm, &others[0]));
    }
    for (int left = how < 2 || on->rank % 2 == 1 ? 1 : 2; left > 0;
         left -= how % 2 == 0 ? 1 : some) {
      if (how % 2 == 0) {
        OK(MPI_Waitany(2, others, &index, MPI_STATUS_IGNORE));
      } else {
        OK(MPI_Waitsome(2, others, &some, indices, MPI_STATUSES_IGNORE));
      }
    }
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    check_i64("message", test_value(on, before, on->rank, how), in);
  }
}

/** A buffered send needs its buffer when it begins, and none to MPI_PROC_NULL. */
static void test_buffers_of_sends(void* buffer, int bytes) {
  check_context("buffers of sends");
  int out = 5, in = 0;
  OK(MPI_Bsend(&out, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
  MPI_Request send;
  OK(MPI_Bsend_init(&out, 1, MPI_INT, check_state.rank, 0, MPI_COMM_WORLD, &send));
  OK(MPI_Buffer_attach(buffer, bytes));
  OK(MPI_Start(&send));
  OK(MPI_Recv(&in, 1, MPI_INT, check_state.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  OK(MPI_Request_free(&send));
  check_i64("message", 5, in);
}

static void test_probes(const TestComm* on) {
  check_context("probes on %s", on->name);
  const int next = (on->rank + 1) % on->size;
  const int before = (on->rank + on->size - 1) % on->size;
  int out[9];
  int in[9];
  for (int i = 0; i < 9; ++i) out[i] = test_value(on, on->rank, next, i);
  MPI_Request request;
  MPI_Status status;
  MPI_Message message;
  int flag = 0;
  for (int i = 1; i < 5; ++i) OK(MPI_Send(out, i, MPI_INT, next, i, on->comm));
  OK(MPI_Probe(before, MPI_ANY_TAG, on->comm, &status));
  check_status("probe", &status, before, 1, 1);
  OK(MPI_Mprobe(before, 3, on->comm, &message, &status));
  check_status("mprobe", &status, before, 3, 3);
  while (!flag) {
    if (MPI_Iprobe(before, 4, on->comm, &flag, &status) != MPI_SUCCESS)
      check_fail("iprobe", "", "");
  }
  check_status("iprobe", &status, before, 4, 4);
  MPI_Message other;
  for (flag = 0; !flag;) {
    if (MPI_Improbe(before, 2, on->comm, &flag, &other, &status) != MPI_SUCCESS) {
      check_fail("improbe", "", "");
    }
  }
  check_status("improbe", &status, before, 2, 2);
  OK(MPI_Iprobe(before, 3, on->comm, &flag, &status));
  check_i64("a matched message is not seen again", 0, flag);
  OK(MPI_Mrecv(in, 9, MPI_INT, &message, &status));
  check_status("mrecv", &status, before, 3, 3);
  check_true("no message", message == MPI_MESSAGE_NULL);
  OK(MPI_Imrecv(in, 9, MPI_INT, &other, &request));
  OK(MPI_Wait(&request, &status));
  check_status("imrecv", &status, before, 2, 2);
  OK(MPI_Recv(in, 9, MPI_INT, before, 4, on->comm, &status));
  OK(MPI_Recv(in, 9, MPI_INT, before, MPI_ANY_TAG, on->comm, &status));
  check_status("what was probed first", &status, before, 1, 1);
  OK(MPI_Mprobe(MPI_PROC_NULL, 3, on->comm, &message, &status));
  check_status("mprobe of MPI_PROC_NULL", &status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  check_true("no message", message == MPI_MESSAGE_NO_PROC);
  OK(MPI_Mrecv(in, 9, MPI_INT, &message, &status));
  check_status("mrecv of MPI_PROC_NULL", &status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

static void test_ends(const TestComm* on) {
  check_context("ends on %s", on->name);
  int in = -1;
  int out = 5;
  int flag = -1;
  MPI_Request request;
  MPI_Status status;
  OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 99, on->comm, &request));
  OK(MPI_Test(&request, &flag, &status));
  check_i64("nothing has come", 0, flag);
  OK(MPI_Request_get_status(request, &flag, &status));
  check_i64("nothing has come", 0, flag);
  OK(MPI_Cancel(&request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  check_i64("cancelled", 1, flag);
  OK(MPI_Irecv(&in, 1, MPI_INT, on->rank, 99, on->comm, &request));
  OK(MPI_Send(&out, 1, MPI_INT, on->rank, 99, on->comm));
  for (flag = 0; !flag;) {
    if (MPI_Request_get_status(request, &flag, &status) != MPI_SUCCESS) check_fail("get", "", "");
  }
  check_status("get_status", &status, on->rank, 99, 1);
  OK(MPI_Request_free(&request));
  check_true("freed", request == MPI_REQUEST_NULL);
  OK(MPI_Wait(&request, &status));
  check_status("of no request", &status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
  int index = 3;
  OK(MPI_Waitany(1, &request, &index, &status));
  check_i64("index of none", MPI_UNDEFINED, index);
  OK(MPI_Testany(1, &request, &index, &flag, &status));
  check_i64("flag of none", 1, flag);
  OK(MPI_Waitsome(1, &request, &flag, &index, &status));
  check_i64("some of none", MPI_UNDEFINED, flag);
}

/** Requires an error of this class. For calls under MPI_ERRORS_RETURN, after which the job
 * continues. */
static void expect_class(const char* what, int wanted, int code) {
  int got = -1;
  OK(MPI_Error_class(code, &got));
  check_i64(what, wanted, got);
}

static void test_errors(const TestComm* on) {
  check_context("errors on %s", on->name);
  int in[2] = {0, 0};
  int out[4] = {1, 2, 3, 4};
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  OK(MPI_Comm_set_errhandler(on->comm, MPI_ERRORS_RETURN));
  expect_class("count", MPI_ERR_COUNT, MPI_Send(out, -1, MPI_INT, 0, 0, on->comm));
  expect_class("type", MPI_ERR_TYPE, MPI_Send(out, 1, MPI_DATATYPE_NULL, 0, 0, on->comm));
  expect_class("tag", MPI_ERR_TAG, MPI_Send(out, 1, MPI_INT, 0, -5, on->comm));
  expect_class("rank", MPI_ERR_RANK, MPI_Send(out, 1, MPI_INT, on->size, 0, on->comm));
  expect_class("rank", MPI_ERR_RANK, MPI_Irecv(in, 1, MPI_INT, -77, 0, on->comm, &request));
  expect_class("tag", MPI_ERR_TAG, MPI_Recv(in, 1, MPI_INT, 0, -5, on->comm, &status));
  expect_class("count", MPI_ERR_COUNT, MPI_Isend(out, -1, MPI_INT, 0, 0, on->comm, &request));
  OK(MPI_Send(out, 4, MPI_INT, on->rank, 1, on->comm));
  expect_class("truncated", MPI_ERR_TRUNCATE,
               MPI_Recv(in, 2, MPI_INT, on->rank, 1, on->comm, &status));
  OK(MPI_Comm_set_errhandler(on->comm, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  void* buffer = malloc(64 * kMost);
  test_buffers_of_sends(buffer, 64 * kMost);
  TestComm comms[kTestComms];
  make_test_comms(comms);
  for (int c = 0; c < kTestComms; ++c) {
    for (int i = 0; i < kCountsCount; ++i) {
      for (int kind = 0; kind < 3; ++kind) {
        check_context("send %d of %d ints on %s", kind, kCounts[i], comms[c].name);
        test_blocking(&comms[c], kCounts[i], kind);
      }
      test_sendrecv(&comms[c], kCounts[i]);
    }
  }
  check_section("blocking");
  for (int c = 0; c < kTestComms; ++c) {
    test_order(&comms[c]);
    test_any_source(&comms[c]);
  }
  check_section("order");
  for (int c = 0; c < kTestComms; ++c) {
    for (int how = kWait; how <= kTestsome; ++how) {
      test_requests(&comms[c], (enum Completion)how, 5, 0);
      test_requests(&comms[c], (enum Completion)how, 3000, 1);
      test_several_sources(&comms[c], (enum Completion)how);
    }
  }
  check_section("requests");
  for (int c = 0; c < kTestComms; ++c) {
    test_waits_for_some(&comms[c]);
  }
  check_section("waits");
  for (int c = 0; c < kTestComms; ++c) {
    test_probes(&comms[c]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    test_ends(&comms[c]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    test_errors(&comms[c]);
  }
  check_section("probes, ends, errors");
  free_test_comms(comms);
  int size = 0;
  OK(MPI_Buffer_detach(&buffer, &size));
  check_i64("buffer", 64 * kMost, size);
  free(buffer);
  return check_end();
}
