// Completion of requests. Answers that depend on when the program asks (Test, Waitany and the like)
// are recorded, so that a new incarnation gets the same answers.
#include <limits.h>

#include "api.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {
namespace {

int check(const char* name, int count, const MPI_Request requests[]) {
  require_active(name);
  if (count < 0) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_ARG, "the count is %d; it must be 0 or more", count);
  }
  if (requests == nullptr && count > 0) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_REQUEST, "the requests are a null pointer");
  }
  for (int i = 0; i < count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL || is_request(requests[i])) [[likely]]
      continue;
    return fail(name, MPI_COMM_WORLD, MPI_ERR_REQUEST, "request %d is invalid, or was freed", i);
  }
  return MPI_SUCCESS;
}

bool depends_on_others(MPI_Request r) {
  return r->kind == RequestKind::kReceive || r->kind == RequestKind::kSynchronous ||
         r->kind == RequestKind::kCollective;
}

bool is_active(MPI_Request r) { return r != MPI_REQUEST_NULL && r->active; }

// Returns whether the request is complete. Advances a receive.
bool advance(MPI_Request r, bool thorough) {
  switch (r->kind) {
    case RequestKind::kSynchronous:
      return messages().is_matched(r->sent);
    case RequestKind::kReceive:
      return messages().advance(r->receive, thorough);
    case RequestKind::kCollective:
      return r->collective->is_over();
    case RequestKind::kGeneralized:
      return is_complete(*r->generalized);
    default:
      return true;
  }
}

// Shows other ranks which of the awaited collectives this rank is inside: the first active one.
void show_awaited(int count, const MPI_Request requests[]) {
  for (int i = 0; i < count; ++i) {
    if (!is_active(requests[i]) || requests[i]->kind != RequestKind::kCollective) continue;
    return messages().await(*requests[i]->collective);
  }
}

void wait_for(MPI_Request r) {
  if (r->kind == RequestKind::kCollective) messages().await(*r->collective);
  messages().wait([&](bool thorough) {
    if (thorough) messages().progress(true);
    return advance(r, thorough);
  });
}

// Gives the status of an active request that is over, and makes it inactive. Returns the code of an
// error that was not raised yet.
int complete(MPI_Request r, MPI_Status* status) {
  int code = MPI_SUCCESS;
  *status = r->status;
  if (r->kind == RequestKind::kReceive) {
    if (r->receive.cancelled) {
      status->_cancelled = 1;
    } else {
      code = take_message(r->comm, r->receive, r->buffer, status);
    }
  }
  if (r->kind == RequestKind::kCollective) code = r->collective->code();
  if (r->kind == RequestKind::kGeneralized) code = query_and_free(*r->generalized, status);
  if (depends_on_others(r)) messages().close();
  r->active = false;
  return code;
}

int raise(const char* name, MPI_Request r, int code, const MPI_Status& status) {
  if (r->kind == RequestKind::kGeneralized) return fail_generalized(name, code);
  if (r->kind == RequestKind::kCollective) return r->collective->raise(name);
  return fail_truncated(name, r->comm, status, r->buffer);
}

void retire(MPI_Request* request) {
  if ((*request)->persistent) return;
  dispose(*request);
  *request = MPI_REQUEST_NULL;
}

// Completes one request, for functions that return its error.
int finish(const char* name, MPI_Request* request, MPI_Status* status) {
  MPI_Status got;
  const int code = complete(*request, &got);
  complete_freed_requests();
  put_status(status, got);
  const int raised = code == MPI_SUCCESS ? code : raise(name, *request, code, got);
  retire(request);
  return raised;
}

// Completes several requests: MPI_ERR_IN_STATUS, with an error in each status, if one of them
// fails.
class Finisher {
 public:
  Finisher(const char* name, MPI_Status* statuses) : name_(name), statuses_(statuses) {}

  void finish(MPI_Request* request, int at) {
    MPI_Status got;
    const int code = complete(*request, &got);
    if (code != MPI_SUCCESS && code_ == MPI_SUCCESS) {
      code_ = MPI_ERR_IN_STATUS;
      // A handler that ends the job should name the request's own error.
      if ((*request)->comm->errhandler->kind != ErrhandlerKind::kReturn) {
        raise(name_, *request, code, got);
      }
    }
    set(at, got, code);
    retire(request);
  }
  void set(int at, const MPI_Status& status, int code) {
    if (statuses_ == MPI_STATUSES_IGNORE) return;
    statuses_[at] = status;
    statuses_[at].MPI_ERROR = code;
  }
  int code() {
    complete_freed_requests();
    return code_;
  }

 private:
  const char* name_;
  MPI_Status* statuses_;
  int code_ = MPI_SUCCESS;
};

int count_active(int count, const MPI_Request requests[]) {
  int active = 0;
  for (int i = 0; i < count; ++i) active += is_active(requests[i]);
  return active;
}

// One look at several requests. What has come from any rank, or from one, is taken in once for
// receives that follow each other: the messages then are with the receives that they match.
class Look {
 public:
  explicit Look(bool thorough) : thorough_(thorough) {}

  // Returns whether the request is active and complete. Advances it.
  bool finds_over(MPI_Request r) {
    if (!is_active(r)) return false;
    if (r->kind != RequestKind::kReceive) return advance(r, thorough_);
    const recovery::Receive& receive = r->receive;
    const bool is_known = taken_in_ == recovery::kAnySource || taken_in_ == receive.source;
    const bool is_over = receive.message != nullptr || receive.cancelled;
    if (is_known && !thorough_) return is_over;
    if (advance(r, thorough_)) return true;
    taken_in_ = receive.source;
    return false;
  }

 private:
  static constexpr std::uint32_t kNone = recovery::kAnySource - 1;  // no rank has this number

  const bool thorough_;
  std::uint32_t taken_in_ = kNone;  // the rank whose messages were taken in last
};

// Returns the receive that was matched first of those that are over, if request `found` is one.
// Programs depend on that: HPCC posts several receives of any source, and takes a rank's message
// that it has finished for its last one.
int first_matched(int count, MPI_Request requests[], int found) {
  if (requests[found]->kind != RequestKind::kReceive) return found;
  for (int i = 0; i < count; ++i) {
    const bool is_receive = is_active(requests[i]) && requests[i]->kind == RequestKind::kReceive;
    if (!is_receive || requests[i]->receive.message == nullptr) continue;
    if (requests[i]->receive.turn < requests[found]->receive.turn) found = i;
  }
  return found;
}

int find_over(int count, MPI_Request requests[], bool thorough) {
  Look look(thorough);
  for (int i = 0; i < count; ++i) {
    if (look.finds_over(requests[i])) return first_matched(count, requests, i);
  }
  return -1;
}

int find_all_over(int count, MPI_Request requests[], bool thorough, int indices[]) {
  Look look(thorough);
  int over = 0;
  for (int i = 0; i < count; ++i) {
    if (look.finds_over(requests[i])) indices[over++] = i;
  }
  return over;
}

bool are_all_over(int count, MPI_Request requests[], bool thorough) {
  Look look(thorough);
  bool all = true;
  for (int i = 0; i < count; ++i) {
    if (is_active(requests[i])) all = look.finds_over(requests[i]) && all;
  }
  return all;
}

// Waits for a request that is over according to a recorded answer.
void await_recorded(int count, MPI_Request requests[], int i) {
  if (i < 0 || i >= count || !is_active(requests[i])) {
    context->rank->diverged(
        "a replay completes other requests than the first execution did. The program is not "
        "deterministic, given what it receives; see docs/fault-model.md");
  }
  wait_for(requests[i]);
}

}  // namespace

void dispose(MPI_Request r) {
  forget(&context->requests, r->fortran);
  r->magic = Magic::kNone;
  if (r->kind == RequestKind::kCollective) {
    r->collective->destroy();
  } else if (r->kind == RequestKind::kGeneralized) {
    destroy_generalized(r);
  } else {
    drop(r->buffer.type);
  }
  release_comm(r->comm);
  r->next = context->unused_requests;
  context->unused_requests = r;
}

void complete_freed_requests() {
  for (MPI_Request* link = &context->freed_requests; *link != nullptr;) {
    MPI_Request r = *link;
    if (!advance(r, false)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    MPI_Status status;
    complete(r, &status);
    dispose(r);
  }
}

void give_away(MPI_Request* request) {
  MPI_Request r = *request;
  *request = MPI_REQUEST_NULL;
  forget(&context->requests, r->fortran);
  r->fortran = kNoFortranHandle;
  r->magic = Magic::kNone;
  r->next = context->freed_requests;
  context->freed_requests = r;
}

// --- Wait

int wait(const void* site, MPI_Request* request, MPI_Status* status) {
  constexpr const char* kName = "MPI_Wait";
  if (const int code = check(kName, 1, request)) return code;
  if (!is_active(*request)) {
    put_status(status, empty_status());
    return MPI_SUCCESS;
  }
  messages().begin(call_of(site, OpKind::kWait, -1, 0));
  messages().inside();
  wait_for(*request);
  const int code = finish(kName, request, status);
  messages().end();
  return code;
}

int waitall(const void* site, int count, MPI_Request array_of_requests[],
            MPI_Status* array_of_statuses) {
  constexpr const char* kName = "MPI_Waitall";
  if (const int code = check(kName, count, array_of_requests)) return code;
  Finisher f(kName, array_of_statuses);
  messages().begin(call_of(site, OpKind::kWaitall, -1, 0));
  messages().inside();
  for (int i = 0; i < count; ++i) {
    if (is_active(array_of_requests[i])) {
      wait_for(array_of_requests[i]);
      f.finish(&array_of_requests[i], i);
    } else {
      f.set(i, empty_status(), MPI_SUCCESS);
    }
  }
  const int code = f.code();
  messages().end();
  return code;
}

int waitany(const void* site, int count, MPI_Request array_of_requests[], int* index,
            MPI_Status* status) {
  constexpr const char* kName = "MPI_Waitany";
  if (const int code = check(kName, count, array_of_requests)) return code;
  if (count_active(count, array_of_requests) == 0) {
    *index = MPI_UNDEFINED;
    put_status(status, empty_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  m.begin(call_of(site, OpKind::kWaitany, -1, 0));
  m.inside();
  *index = m.observe_index(
      [&](bool) {
        int found = -1;
        show_awaited(count, array_of_requests);
        m.wait([&](bool thorough) {
          if (thorough) m.progress(true);
          found = find_over(count, array_of_requests, thorough);
          return found >= 0;
        });
        return found;
      },
      [&](int i) { await_recorded(count, array_of_requests, i); });
  const int code = finish(kName, &array_of_requests[*index], status);
  m.end();
  return code;
}

int waitsome(const void* site, int incount, MPI_Request array_of_requests[], int* outcount,
             int array_of_indices[], MPI_Status array_of_statuses[]) {
  constexpr const char* kName = "MPI_Waitsome";
  if (const int code = check(kName, incount, array_of_requests)) return code;
  if (count_active(incount, array_of_requests) == 0) {
    *outcount = MPI_UNDEFINED;
    return MPI_SUCCESS;
  }
  auto& m = messages();
  m.begin(call_of(site, OpKind::kWaitsome, -1, 0));
  m.inside();
  *outcount = m.observe_some(
      array_of_indices,
      [&](bool, int* indices) {
        int over = 0;
        show_awaited(incount, array_of_requests);
        m.wait([&](bool thorough) {
          if (thorough) m.progress(true);
          over = find_all_over(incount, array_of_requests, thorough, indices);
          return over > 0;
        });
        return over;
      },
      [&](int i) { await_recorded(incount, array_of_requests, i); });
  Finisher f(kName, array_of_statuses);
  for (int i = 0; i < *outcount; ++i) f.finish(&array_of_requests[array_of_indices[i]], i);
  const int code = f.code();
  m.end();
  return code;
}

// --- Test

int test(MPI_Request* request, int* flag, MPI_Status* status) {
  constexpr const char* kName = "MPI_Test";
  if (const int code = check(kName, 1, request)) return code;
  if (!is_active(*request)) {
    *flag = 1;
    put_status(status, empty_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  *flag = m.observe([&](bool thorough) { return advance(*request, thorough); },
                    [&] { wait_for(*request); });
  return *flag ? finish(kName, request, status) : MPI_SUCCESS;
}

int testall(int count, MPI_Request array_of_requests[], int* flag, MPI_Status array_of_statuses[]) {
  constexpr const char* kName = "MPI_Testall";
  if (const int code = check(kName, count, array_of_requests)) return code;
  *flag = 1;
  if (count_active(count, array_of_requests) > 0) {
    *flag = messages().observe(
        [&](bool thorough) { return are_all_over(count, array_of_requests, thorough); },
        [&] {
          for (int i = 0; i < count; ++i) {
            if (is_active(array_of_requests[i])) wait_for(array_of_requests[i]);
          }
        });
  }
  if (!*flag) return MPI_SUCCESS;
  Finisher f(kName, array_of_statuses);
  for (int i = 0; i < count; ++i) {
    if (is_active(array_of_requests[i])) {
      f.finish(&array_of_requests[i], i);
    } else {
      f.set(i, empty_status(), MPI_SUCCESS);
    }
  }
  return f.code();
}

int testany(int count, MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  constexpr const char* kName = "MPI_Testany";
  if (const int code = check(kName, count, array_of_requests)) return code;
  *index = MPI_UNDEFINED;
  if (count_active(count, array_of_requests) == 0) {
    *flag = 1;
    put_status(status, empty_status());
    return MPI_SUCCESS;
  }
  const int over = messages().observe_index(
      [&](bool thorough) { return find_over(count, array_of_requests, thorough); },
      [&](int i) { await_recorded(count, array_of_requests, i); });
  *flag = over >= 0;
  if (over < 0) return MPI_SUCCESS;
  *index = over;
  return finish(kName, &array_of_requests[over], status);
}

int testsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  constexpr const char* kName = "MPI_Testsome";
  if (const int code = check(kName, incount, array_of_requests)) return code;
  if (count_active(incount, array_of_requests) == 0) {
    *outcount = MPI_UNDEFINED;
    return MPI_SUCCESS;
  }
  *outcount = messages().observe_some(
      array_of_indices,
      [&](bool thorough, int* indices) {
        return find_all_over(incount, array_of_requests, thorough, indices);
      },
      [&](int i) { await_recorded(incount, array_of_requests, i); });
  Finisher f(kName, array_of_statuses);
  for (int i = 0; i < *outcount; ++i) f.finish(&array_of_requests[array_of_indices[i]], i);
  return f.code();
}

int request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  constexpr const char* kName = "MPI_Request_get_status";
  if (const int code = check(kName, 1, &request)) return code;
  *flag = 1;
  if (!is_active(request)) {
    put_status(status, empty_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  *flag = m.observe([&](bool thorough) { return advance(request, thorough); },
                    [&] { wait_for(request); });
  if (!*flag) return MPI_SUCCESS;
  MPI_Status got = request->status;
  if (request->kind == RequestKind::kReceive) {
    got._cancelled = request->receive.cancelled;
    if (!request->receive.cancelled) got = status_of(request->comm, m.envelope(request->receive));
  }
  int code = MPI_SUCCESS;
  if (request->kind == RequestKind::kGeneralized) code = query(*request->generalized, &got);
  put_status(status, got);
  return code == MPI_SUCCESS ? code : fail_generalized(kName, code);
}

// --- Other ends

int request_free(MPI_Request* request) {
  constexpr const char* kName = "MPI_Request_free";
  if (const int code = check(kName, 1, request)) return code;
  if (*request == MPI_REQUEST_NULL) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_REQUEST, "the request is MPI_REQUEST_NULL");
  }
  MPI_Request r = *request;
  if (r->active && r->kind == RequestKind::kCollective) {
    return fail(kName, r->comm, MPI_ERR_REQUEST,
                "the request belongs to a collective operation that is not complete, and MPI does "
                "not allow it to be freed; complete it with MPI_Wait or MPI_Test");
  }
  if (r->kind == RequestKind::kGeneralized) return free_generalized(kName, request);
  if (!r->active || !depends_on_others(r)) {
    *request = MPI_REQUEST_NULL;
    dispose(r);
    return MPI_SUCCESS;
  }
  give_away(request);
  return MPI_SUCCESS;
}

// Cancels a receive or a generalized request. A send is not cancelled: it is in the journal
// already.
int cancel(MPI_Request* request) {
  constexpr const char* kName = "MPI_Cancel";
  if (const int code = check(kName, 1, request)) return code;
  if (!is_active(*request)) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_REQUEST, "the request is not active");
  }
  MPI_Request r = *request;
  if (r->kind == RequestKind::kCollective) {
    return fail(kName, r->comm, MPI_ERR_REQUEST, "a collective cannot be cancelled");
  }
  if (r->kind == RequestKind::kGeneralized) return cancel_generalized(kName, r);
  if (r->kind == RequestKind::kReceive) messages().cancel(*r->comm->comm, r->receive);
  return MPI_SUCCESS;
}

namespace {

int start_all(const char* name, const void* site, OpKind kind, int count, MPI_Request requests[]) {
  if (const int code = check(name, count, requests)) return code;
  for (int i = 0; i < count; ++i) {
    MPI_Request r = requests[i];
    if (r == MPI_REQUEST_NULL || !r->persistent || r->active) {
      return fail(name, MPI_COMM_WORLD, MPI_ERR_REQUEST,
                  "request %d is not an inactive persistent request", i);
    }
    if (const int code = check_start(name, r)) return code;
  }
  bool any_messages = false;
  for (int i = 0; i < count; ++i) any_messages |= requests[i]->kind != RequestKind::kCollective;
  if (any_messages) {
    const std::uint32_t call = messages().begin(call_of(site, kind, -1, 0));
    for (int i = 0; i < count; ++i) {
      if (requests[i]->kind != RequestKind::kCollective) start_request(requests[i], call);
    }
    messages().end();
  }
  for (int i = 0; i < count; ++i) {  // each collective is an operation of its own
    if (requests[i]->kind == RequestKind::kCollective) start_collective(requests[i], site);
  }
  return MPI_SUCCESS;
}

}  // namespace

int start(const void* site, MPI_Request* request) {
  return start_all("MPI_Start", site, OpKind::kStart, 1, request);
}
int startall(const void* site, int count, MPI_Request array_of_requests[]) {
  return start_all("MPI_Startall", site, OpKind::kStartall, count, array_of_requests);
}

}  // namespace rejoin::pmpi
