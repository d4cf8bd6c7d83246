// Generalized requests: the program begins, completes and describes an operation of its own, and
// the functions that complete requests complete it, too. Answers of Test and the like about it are
// recorded as for any other request. In a replay it is over when the program has called
// MPI_Grequest_complete again. If a second thread makes that call, the rank cannot be restarted in
// any case.
#include "api.h"
#include "pmpi/errors.h"
#include "pmpi/fortran.h"
#include "pmpi/mpifh/hooks.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {

struct Generalized {
  MPI_Grequest_query_function* query;  // functions of Fortran are cast
  MPI_Grequest_free_function* free;
  MPI_Grequest_cancel_function* cancel;
  void* extra_state;
  bool fortran;
  bool complete;
  bool freed;  // by MPI_Request_free, before it was complete
};

namespace {

using FortranQuery = void(MPI_Aint* extra_state, MPI_Fint* status, MPI_Fint* error);
using FortranFree = void(MPI_Aint* extra_state, MPI_Fint* error);
using FortranCancel = void(MPI_Aint* extra_state, MPI_Fint* complete, MPI_Fint* error);

template <class Fortran, class C, class... Arguments>
int call_fortran(C* program, void* extra_state, Arguments... arguments) {
  MPI_Fint error = MPI_SUCCESS;
  void* function = reinterpret_cast<void*>(program);
  reinterpret_cast<Fortran*>(function)(static_cast<MPI_Aint*>(extra_state), arguments..., &error);
  return error;
}

// Calls the program's free function. The request is then over for the program, and no longer
// prevents checkpoints.
int call_free(const Generalized& g) {
  messages().close();
  return g.fortran ? call_fortran<FortranFree>(g.free, g.extra_state) : g.free(g.extra_state);
}

}  // namespace

bool is_complete(const Generalized& g) { return g.complete; }

int query(const Generalized& g, MPI_Status* status) {
  *status = empty_status();
  if (!g.fortran) return g.query(g.extra_state, status);
  return call_fortran<FortranQuery>(g.query, g.extra_state, reinterpret_cast<MPI_Fint*>(status));
}

int query_and_free(const Generalized& g, MPI_Status* status) {
  const int queried = query(g, status);
  const int freed = call_free(g);
  return queried != MPI_SUCCESS ? queried : freed;
}

void destroy_generalized(MPI_Request r) { destroy(r->generalized); }

int cancel_generalized(const char* name, MPI_Request r) {
  const Generalized& g = *r->generalized;
  MPI_Fint complete = g.complete ? 1 : 0;
  const int code = g.fortran ? call_fortran<FortranCancel>(g.cancel, g.extra_state, &complete)
                             : g.cancel(g.extra_state, complete);
  return code == MPI_SUCCESS ? code : fail_generalized(name, code);
}

int fail_generalized(const char* name, int code) {
  return fail(name, MPI_COMM_WORLD, code, "a function of the generalized request returned %d",
              code);
}

int free_generalized(const char* name, MPI_Request* request) {
  MPI_Request r = *request;
  *request = MPI_REQUEST_NULL;
  if (!r->generalized->complete) {
    r->generalized->freed = true;
    return MPI_SUCCESS;
  }
  const int code = call_free(*r->generalized);
  dispose(r);
  return code == MPI_SUCCESS ? code : fail_generalized(name, code);
}

int grequest_start(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                   MPI_Grequest_cancel_function* cancel_fn, void* extra_state,
                   MPI_Request* request) {
  constexpr const char* kName = "MPI_Grequest_start";
  require_active(kName);
  MPI_Request r = new_request(OpKind{}, MPI_COMM_WORLD, false);
  r->kind = RequestKind::kGeneralized;
  r->status = empty_status();
  r->active = true;
  r->generalized = make<Generalized>();
  *r->generalized = {query_fn, free_fn, cancel_fn, extra_state, false, false, false};
  messages().open();
  *request = r;
  return MPI_SUCCESS;
}

int grequest_complete(MPI_Request request) {
  constexpr const char* kName = "MPI_Grequest_complete";
  require_active(kName);
  if (!is_request(request) || request->kind != RequestKind::kGeneralized) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_REQUEST, "the request is not a generalized request");
  }
  if (request->generalized->complete) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_REQUEST, "the request is completed already");
  }
  request->generalized->complete = true;
  return request->generalized->freed ? free_generalized(kName, &request) : MPI_SUCCESS;
}

// --- Functions with which the program fills in a status

int test_cancelled(const MPI_Status* status, int* flag) {
  *flag = status->_cancelled != 0;
  return MPI_SUCCESS;
}
int status_set_cancelled(MPI_Status* status, int flag) {
  status->_cancelled = flag != 0;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi

void rejoin_grequest_set_fortran(MPI_Request request) { request->generalized->fortran = true; }
