// Requests and matched messages: what MPI_Request and MPI_Message point to.
#pragma once

#include "pmpi/context.h"
#include "pmpi/handles.h"
#include "recovery/point_to_point.h"

namespace rejoin::pmpi {

using recovery::OpKind;

// The buffer of a message.
struct Destination {
  void* buffer;
  int count;
  MPI_Datatype type;
};

enum class RequestKind : std::uint8_t {
  kSend,         // over at once: the message is in the journal
  kSynchronous,  // over when a receive has matched it
  kReceive,
  kNothing,  // to or from MPI_PROC_NULL: over at once
  kCollective,
  kGeneralized,  // over when the program says so
};

class Collective;    // collective.h
struct Generalized;  // grequest.cc

}  // namespace rejoin::pmpi

struct ompi_request_t {
  rejoin::pmpi::Magic magic;
  rejoin::pmpi::RequestKind kind;
  bool persistent;
  bool active;  // begun and not completed
  MPI_Comm comm;
  rejoin::pmpi::Destination buffer;  // of a receive, or of a send
  // One of these, by kind; set when it is begun.
  rejoin::recovery::Receive receive;
  rejoin::recovery::SentMessage sent;
  rejoin::pmpi::Collective* collective;
  rejoin::pmpi::Generalized* generalized;
  MPI_Status status;  // set at the beginning, except for a receive
  // The operation that MPI_Start begins.
  rejoin::pmpi::OpKind call;
  int peer;
  int tag;
  int fortran;
  ompi_request_t* next;  // in context->freed_requests or context->unused_requests
};

struct ompi_message_t {
  rejoin::pmpi::Magic magic;
  MPI_Comm comm;
  rejoin::recovery::Receive receive;
  int fortran;
};

namespace rejoin::pmpi {

inline bool is_request(MPI_Request r) { return r != nullptr && r->magic == Magic::kRequest; }
inline bool is_message(MPI_Message m) { return m != nullptr && m->magic == Magic::kMessage; }

inline recovery::PointToPoint<engine::ShmHost>& messages() { return context->rank->messages(); }

// Returns the status for a message that was sent to this rank, in terms of a communicator.
MPI_Status status_of(MPI_Comm comm, const recovery::Envelope& e);
// Return the status of a null or inactive request, and that of a message from MPI_PROC_NULL.
MPI_Status empty_status();
MPI_Status proc_null_status();
inline void put_status(MPI_Status* to, const MPI_Status& status) {
  if (to == MPI_STATUS_IGNORE) return;
  const int error = to->MPI_ERROR;  // only functions that return MPI_ERR_IN_STATUS set it
  *to = status;
  to->MPI_ERROR = error;
}

// Copies the message of a receive that has one, and consumes it. Returns MPI_SUCCESS, or
// MPI_ERR_TRUNCATE, which is not raised yet; the part that fits is copied then.
int take_message(MPI_Comm comm, recovery::Receive& receive, const Destination& to,
                 MPI_Status* status);
// Raises the error of take_message().
int fail_truncated(const char* function, MPI_Comm comm, const MPI_Status& status,
                   const Destination& to);

// Returns a request that is not begun. The caller sets its kind, buffer, peer and tag.
MPI_Request new_request(OpKind call, MPI_Comm comm, bool persistent);

// Begins an inactive request of a collective, called from `site`.
void start_collective(MPI_Request r, const void* site);
// Checks what is to be checked when a persistent request is begun.
int check_start(const char* name, MPI_Request r);
// Begins the send or receive of an inactive request. REQUIRES that the operation has begun
// (PointToPoint::begin).
void start_request(MPI_Request r, std::uint32_t call);
// Returns an active request for a message that a probe has matched. Null: a message from
// MPI_PROC_NULL.
MPI_Request make_receive_request(MPI_Comm comm, const Destination& to, MPI_Message message);
// Called when the program has freed an active request. The request completes later, and an error of
// it is lost.
void give_away(MPI_Request* request);
// Completes the freed requests that are over: copies messages of receives that have arrived.
void complete_freed_requests();

// Releases the request and what it holds.
void dispose(MPI_Request r);

// --- Generalized requests. The first functions return the codes of the program's functions, which
// are not raised yet.
bool is_complete(const Generalized& g);
int query(const Generalized& g, MPI_Status* status);
int query_and_free(const Generalized& g, MPI_Status* status);
void destroy_generalized(MPI_Request r);
// Raises the error that such a code stands for.
int fail_generalized(const char* name, int code);
// MPI_Cancel and MPI_Request_free of a generalized request. MPI_Request_free calls the program's
// free function when the request is complete.
int cancel_generalized(const char* name, MPI_Request r);
int free_generalized(const char* name, MPI_Request* request);

void release_comm(MPI_Comm comm);  // comm.cc: a request no longer needs it

}  // namespace rejoin::pmpi
