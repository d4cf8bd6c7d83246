// Requests and matched messages: what MPI_Request and MPI_Message point to.
#pragma once

#include "pmpi/context.h"
#include "pmpi/handles.h"
#include "recovery/point_to_point.h"

namespace rejoin::pmpi {

using recovery::OpKind;

// Where a message is put.
struct Destination {
  void* buffer;
  int count;
  MPI_Datatype type;
};

enum class RequestKind : std::uint8_t {
  kSend,         // over at once: the message lies in the journal
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
  rejoin::pmpi::Destination buffer;  // or where a send takes it from
  // One of these, by kind; set when it is begun.
  rejoin::recovery::Receive receive;
  rejoin::recovery::SentMessage sent;
  rejoin::pmpi::Collective* collective;
  rejoin::pmpi::Generalized* generalized;
  MPI_Status status;  // but of a receive
  // What MPI_Start begins.
  rejoin::pmpi::OpKind call;
  int peer;
  int tag;
  int fortran;
  ompi_request_t* next;  // of those that the program has freed, or of memory for others
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

// What is known of a message that was sent to this rank, in terms of a communicator.
MPI_Status status_of(MPI_Comm comm, const recovery::Envelope& e);
// The statuses of a null or inactive request, and of a message from MPI_PROC_NULL.
MPI_Status empty_status();
MPI_Status proc_null_status();
inline void put_status(MPI_Status* to, const MPI_Status& status) {
  if (to == MPI_STATUS_IGNORE) return;
  const int error = to->MPI_ERROR;  // only functions that return MPI_ERR_IN_STATUS set it
  *to = status;
  to->MPI_ERROR = error;
}

// Copies the message of a receive that has one, and consumes it. The code is that of an error that
// was not raised yet: MPI_ERR_TRUNCATE, with what fits copied.
int take_message(MPI_Comm comm, recovery::Receive& receive, const Destination& to,
                 MPI_Status* status);
// Raises the error of take_message().
int fail_truncated(const char* function, MPI_Comm comm, const MPI_Status& status,
                   const Destination& to);

// A request that is not begun, its kind and what it is about still to be set.
MPI_Request new_request(OpKind call, MPI_Comm comm, bool persistent);

// Begins an inactive request of a collective, called from `site`.
void start_collective(MPI_Request r, const void* site);
// Begins what an inactive request of a message stands for. The operation is begun
// (PointToPoint::begin).
void start_request(MPI_Request r, std::uint32_t call);
// An active request for a message that a probe has matched; null: for none, from MPI_PROC_NULL.
MPI_Request make_receive_request(MPI_Comm comm, const Destination& to, MPI_Message message);
// An active request that the program has no more: it is completed when it is over, its error lost.
void give_away(MPI_Request* request);
// Those that were given away: messages of receives are copied when they are there.
void complete_freed_requests();

// Releases the request and what it holds.
void dispose(MPI_Request r);

// --- Generalized requests. The codes are those of the program's functions, not raised yet.
bool is_complete(const Generalized& g);
int query(const Generalized& g, MPI_Status* status);
int query_and_free(const Generalized& g, MPI_Status* status);
void destroy_generalized(MPI_Request r);
// Raises such an error.
int fail_generalized(const char* name, int code);
// MPI_Cancel, and MPI_Request_free: the program's function is called when the request is complete.
int cancel_generalized(const char* name, MPI_Request r);
int free_generalized(const char* name, MPI_Request* request);

void release_comm(MPI_Comm comm);  // comm.cc: a request no longer needs it

}  // namespace rejoin::pmpi
