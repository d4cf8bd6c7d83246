// Conformance of generalized requests: which functions of the program are called, when, and with
// which arguments. They are completed alone and among messages, by every function that completes
// requests.

#include <mpi.h>

#include "check.h"

/** The counters of a request, and the return values of its functions. */
typedef struct {
  int queried, freed, cancelled;
  int complete;  // the argument of the cancel function
  int elements;
  int code;
  MPI_Request* completes;  // the cancel function completes it
} Work;

static int query(void* extra, MPI_Status* status) {
  Work* w = (Work*)extra;
  w->queried += 1;
  OK(MPI_Status_set_elements(status, MPI_INT, w->elements));
  OK(MPI_Status_set_cancelled(status, w->cancelled));
  status->MPI_SOURCE = 5;
  status->MPI_TAG = 6;
  return w->code;
}

static int release(void* extra) {
  Work* w = (Work*)extra;
  w->freed += 1;
  return MPI_SUCCESS;
}

static int cancel(void* extra, int complete) {
  Work* w = (Work*)extra;
  w->complete = complete;
  if (complete) return MPI_SUCCESS;
  w->cancelled = 1;
  return MPI_Grequest_complete(*w->completes);
}

static Work begin(int elements, MPI_Request* request) {
  Work w;
  memset(&w, 0, sizeof w);
  w.elements = elements;
  w.complete = -1;
  *request = MPI_REQUEST_NULL;
  return w;
}

#define START(w, request) OK(MPI_Grequest_start(query, release, cancel, &(w), &(request)))

static void check_calls(const char* what, const Work* w, int queried, int freed) {
  check_context("%s", what);
  check_i64("calls of the query function", queried, w->queried);
  check_i64("calls of the free function", freed, w->freed);
}

static void test_wait_and_test(void) {
  MPI_Request r;
  MPI_Status status;
  int flag = -1;
  int count = -1;
  Work w = begin(3, &r);
  START(w, r);
  check_true("a request", r != MPI_REQUEST_NULL);
  OK(MPI_Test(&r, &flag, &status));
  check_i64("not yet", 0, flag);
  check_calls("not complete", &w, 0, 0);
  OK(MPI_Grequest_complete(r));
  check_calls("complete", &w, 0, 0);
  OK(MPI_Wait(&r, &status));
  check_calls("MPI_Wait", &w, 1, 1);
  check_true("no request any more", r == MPI_REQUEST_NULL);
  check_i64("source", 5, status.MPI_SOURCE);
  check_i64("tag", 6, status.MPI_TAG);
  OK(MPI_Get_count(&status, MPI_INT, &count));
  check_i64("count", 3, count);
  OK(MPI_Test_cancelled(&status, &flag));
  check_i64("not cancelled", 0, flag);

  w = begin(7, &r);
  START(w, r);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Test(&r, &flag, &status));
  check_i64("over", 1, flag);
  check_calls("MPI_Test", &w, 1, 1);
  OK(MPI_Get_elements(&status, MPI_INT, &count));
  check_i64("elements", 7, count);

  w = begin(7, &r);
  START(w, r);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
  check_calls("without a status", &w, 1, 1);
  check_section("wait and test");
}

static void test_free(void) {
  MPI_Request r;
  Work w = begin(0, &r);
  START(w, r);
  MPI_Request kept = r;
  OK(MPI_Request_free(&r));
  check_true("a freed request", r == MPI_REQUEST_NULL);
  check_calls("freed, not complete", &w, 0, 0);
  OK(MPI_Grequest_complete(kept));
  check_calls("complete after it was freed", &w, 0, 1);
  w = begin(0, &r);
  START(w, r);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Request_free(&r));
  check_calls("freed after it was complete", &w, 0, 1);
  check_section("free");
}

static void test_cancel(void) {
  MPI_Request r;
  MPI_Status status;
  int flag = -1;
  Work w = begin(0, &r);
  w.completes = &r;
  START(w, r);
  OK(MPI_Cancel(&r));
  check_i64("not complete then", 0, w.complete);
  OK(MPI_Wait(&r, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  check_i64("cancelled", 1, flag);
  check_calls("cancelled", &w, 1, 1);
  w = begin(0, &r);
  START(w, r);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Cancel(&r));
  check_true("complete then", w.complete != 0);
  OK(MPI_Wait(&r, &status));
  OK(MPI_Test_cancelled(&status, &flag));
  check_i64("too late to be cancelled", 0, flag);
  check_section("cancel");
}

static void test_status(void) {
  MPI_Request r;
  MPI_Status status;
  int flag = -1;
  int count = -1;
  Work w = begin(9, &r);
  START(w, r);
  OK(MPI_Request_get_status(r, &flag, &status));
  check_i64("no status yet", 0, flag);
  OK(MPI_Grequest_complete(r));
  OK(MPI_Request_get_status(r, &flag, &status));
  check_i64("a status", 1, flag);
  OK(MPI_Get_count(&status, MPI_INT, &count));
  check_i64("its count", 9, count);
  check_calls("MPI_Request_get_status", &w, 1, 0);
  OK(MPI_Wait(&r, &status));
  check_calls("then MPI_Wait", &w, 2, 1);
  check_section("status");
}

/** Completes two generalized requests among messages, in way `how`. */
static void test_among_messages(int how) {
  enum { kRequests = 4 };
  const int n = check_state.size;
  const int mine = pattern(check_state.rank, how, 0);
  int got = -1;
  MPI_Request r[kRequests];
  MPI_Status statuses[kRequests];
  int indices[kRequests];
  Work a = begin(2, &r[0]);
  Work b = begin(4, &r[2]);
  START(a, r[0]);
  OK(MPI_Irecv(&got, 1, MPI_INT, (check_state.rank + n - 1) % n, how, MPI_COMM_WORLD, &r[1]));
  START(b, r[2]);
  OK(MPI_Isend(&mine, 1, MPI_INT, (check_state.rank + 1) % n, how, MPI_COMM_WORLD, &r[3]));
  int flag = -1;
  OK(MPI_Testall(kRequests, r, &flag, statuses));
  check_i64("not all", 0, flag);
  OK(MPI_Grequest_complete(r[2]));
  OK(MPI_Grequest_complete(r[0]));
  int left = kRequests;
  int index = -1;
  int count = 0;
  switch (how) {
    case 0:
      OK(MPI_Waitall(kRequests, r, statuses));
      check_i64("first status", 5, statuses[0].MPI_SOURCE);
      check_i64("third status", 6, statuses[2].MPI_TAG);
      break;
    case 1:
      for (; left > 0; --left) OK(MPI_Waitany(kRequests, r, &index, &statuses[0]));
      break;
    default:  // the number of calls is not the same every time
      for (; left > 0; left -= count) {
        const int code = how == 2 ? MPI_Waitsome(kRequests, r, &count, indices, statuses)
                                  : MPI_Testsome(kRequests, r, &count, indices, statuses);
        if (code != MPI_SUCCESS) check_fail("Waitsome or Testsome", "success", "an error");
      }
  }
  check_calls("first", &a, 1, 1);
  check_calls("second", &b, 1, 1);
  check_i64("message", pattern((check_state.rank + n - 1) % n, how, 0), got);
}

/** The request of a query function that fails is released, too. */
static void test_errors(void) {
  MPI_Request r;
  Work w = begin(0, &r);
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  w.code = MPI_ERR_OTHER;
  START(w, r);
  OK(MPI_Grequest_complete(r));
  check_i64("the query function's error", MPI_ERR_OTHER, MPI_Wait(&r, MPI_STATUS_IGNORE));
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  check_section("errors");
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  test_wait_and_test();
  test_free();
  test_cancel();
  test_status();
  for (int how = 0; how < 4; ++how) test_among_messages(how);
  check_section("among messages");
  test_errors();
  return check_end();
}
