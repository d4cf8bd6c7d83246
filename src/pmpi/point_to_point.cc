// Sends and receives: blocking, nonblocking and persistent.
#include <string.h>

#include <algorithm>

#include "api.h"
#include "copy/copy.h"
#include "journal/copy_inline.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/datatype.h"
#include "pmpi/group.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {
namespace {

using recovery::PointToPoint;
using recovery::Receive;

using Messages = PointToPoint<engine::ShmHost>;

int fail_rank(const char* name, MPI_Comm comm, const char* what, int rank) {
  return fail(name, comm, MPI_ERR_RANK, "the %s is rank %d; the communicator has ranks 0 to %d",
              what, rank, comm->peers() - 1);
}

int check_send(const char* name, MPI_Comm comm, const void* buffer, int count, MPI_Datatype type,
               int dest, int tag) {
  if (!is_any_comm(comm)) [[unlikely]]
    return fail_comm(name);
  if (const int code = check_message_buffer(name, comm, "send", buffer, count, type)) return code;
  if (tag < 0) [[unlikely]]
    return fail(name, comm, MPI_ERR_TAG, "the tag is %d; it must be 0 or more", tag);
  if ((dest < 0 || dest >= comm->peers()) && dest != MPI_PROC_NULL) [[unlikely]]
    return fail_rank(name, comm, "destination", dest);
  return MPI_SUCCESS;
}

// Checks what a buffered send needs besides.
int check_attached(const char* name, MPI_Comm comm, int count, MPI_Datatype type, int dest) {
  const std::size_t bytes = static_cast<std::size_t>(count) * type->size_bytes;
  if (dest == MPI_PROC_NULL || bytes <= context->attached_bytes) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_BUFFER,
              "a message of %zu byte%s does not fit into the buffer of %zu that was attached by "
              "MPI_Buffer_attach",
              bytes, bytes == 1 ? "" : "s", context->attached_bytes);
}

int check_receive(const char* name, MPI_Comm comm, const void* buffer, int count, MPI_Datatype type,
                  int source, int tag) {
  if (!is_any_comm(comm)) [[unlikely]]
    return fail_comm(name);
  if (const int code = check_message_buffer(name, comm, "receive", buffer, count, type))
    return code;
  return check_source(name, comm, source, tag);
}

recovery::Payload payload_of(const void* buffer, int count, MPI_Datatype type) {
  const std::size_t bytes = static_cast<std::size_t>(count) * type->size_bytes;
  if (is_contiguous(type)) return {bytes, first_byte(type, buffer)};
  return {bytes, buffer,
          [](const recovery::Payload& p, std::byte* to) {
            pack(static_cast<MPI_Datatype>(const_cast<void*>(p.type)), p.data,
                 static_cast<std::size_t>(p.count), to);
          },
          count, type};
}

recovery::SentMessage send_message(std::uint32_t call, MPI_Comm comm, const void* buffer, int count,
                                   MPI_Datatype type, int dest, int tag, bool synchronous) {
  return messages().send(*comm->comm, call, comm->peer(dest), tag, synchronous, 0,
                         payload_of(buffer, count, type));
}

void set_source(Receive* r, MPI_Comm comm, int source, int tag) {
  r->source = source == MPI_ANY_SOURCE ? recovery::kAnySource
                                       : comm->comm->members.world[comm->peer(source)];
  r->tag = tag == MPI_ANY_TAG ? recovery::kAnyTag : Messages::key_of(tag);
}

// Lets a large message be read directly to where its bytes belong.
void set_place(Receive* r, const Destination& to) {
  if (!is_contiguous(to.type)) return;
  r->to = first_byte(to.type, to.buffer);
  r->room = static_cast<std::size_t>(to.count) * to.type->size_bytes;
}

int send(const char* name, const void* site, OpKind kind, const void* buffer, int count,
         MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  if (const int code = check_send(name, comm, buffer, count, type, dest, tag)) return code;
  if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
  if (kind == OpKind::kBsend) {
    if (const int code = check_attached(name, comm, count, type, dest)) return code;
  }
  Messages& m = messages();
  const std::uint32_t call = m.begin(call_of(site, kind, -1, 0));
  const bool synchronous = kind == OpKind::kSsend;
  const auto sent = send_message(call, comm, buffer, count, type, dest, tag, synchronous);
  if (synchronous) {
    m.wait([&](bool thorough) {
      if (thorough) m.progress(true);
      return m.is_matched(sent);
    });
  }
  m.end();
  return MPI_SUCCESS;
}

// Makes a request that is not begun.
MPI_Request make_request(OpKind kind, const void* buffer, int count, MPI_Datatype type, int peer,
                         int tag, MPI_Comm comm, bool persistent) {
  MPI_Request r = new_request(kind, comm, persistent);
  r->buffer = {const_cast<void*>(buffer), count, type};
  add_reference(type);
  r->peer = peer;
  r->tag = tag;
  r->kind = peer == MPI_PROC_NULL                               ? RequestKind::kNothing
            : kind == OpKind::kIrecv || kind == OpKind::kImrecv ? RequestKind::kReceive
            : kind == OpKind::kIssend                           ? RequestKind::kSynchronous
                                                                : RequestKind::kSend;
  return r;
}

int begin(const void* site, OpKind kind, const void* buffer, int count, MPI_Datatype type, int peer,
          int tag, MPI_Comm comm, MPI_Request* request) {
  MPI_Request r = make_request(kind, buffer, count, type, peer, tag, comm, false);
  Messages& m = messages();
  const std::uint32_t call = m.begin(call_of(site, kind, -1, 0));
  start_request(r, call);
  m.end();
  *request = r;
  return MPI_SUCCESS;
}

int isend(const char* name, const void* site, OpKind kind, const void* buffer, int count,
          MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if (const int code = check_send(name, comm, buffer, count, type, dest, tag)) return code;
  if (kind == OpKind::kIbsend) {
    if (const int code = check_attached(name, comm, count, type, dest)) return code;
  }
  return begin(site, kind, buffer, count, type, dest, tag, comm, request);
}

int send_init(const char* name, OpKind kind, const void* buffer, int count, MPI_Datatype type,
              int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if (const int code = check_send(name, comm, buffer, count, type, dest, tag)) return code;
  *request = make_request(kind, buffer, count, type, dest, tag, comm, true);
  return MPI_SUCCESS;
}

// Sends, which wait for no receives, and then receives.
int exchange(const char* name, const void* site, OpKind kind, const void* sent, int count,
             MPI_Datatype type, int dest, int sendtag, const Destination& to, int source,
             int recvtag, MPI_Comm comm, MPI_Status* status) {
  Messages& m = messages();
  const std::uint32_t call = m.begin(call_of(site, kind, -1, 0));
  Receive r;
  if (source != MPI_PROC_NULL) {
    set_source(&r, comm, source, recvtag);
    if (kind == OpKind::kSendrecv) set_place(&r, to);  // else it is where the sent bytes are
    m.post(*comm->comm, r);
  }
  if (dest != MPI_PROC_NULL) send_message(call, comm, sent, count, type, dest, sendtag, false);
  MPI_Status got = proc_null_status();
  int code = MPI_SUCCESS;
  if (source != MPI_PROC_NULL) {
    m.wait([&](bool thorough) { return m.advance(r, thorough); });
    code = take_message(comm, r, to, &got);
    complete_freed_requests();
  }
  m.end();
  put_status(status, got);
  return code == MPI_SUCCESS ? code : fail_truncated(name, comm, got, to);
}

}  // namespace

// --- What requests.cc, probe.cc and collective.cc share

MPI_Request new_request(OpKind call, MPI_Comm comm, bool persistent) {
  MPI_Request r = context->unused_requests;
  if (r != nullptr) {
    context->unused_requests = r->next;
  } else {
    r = make<ompi_request_t>();
  }
  r->magic = Magic::kRequest;
  r->fortran = kNoFortranHandle;
  r->call = call;
  r->comm = comm;
  if (!comm->predefined) ++comm->references;
  r->persistent = persistent;
  r->active = false;
  return r;
}

MPI_Status empty_status() { return {MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, 0}; }
MPI_Status proc_null_status() { return {MPI_PROC_NULL, MPI_ANY_TAG, MPI_SUCCESS, 0, 0}; }

MPI_Status status_of(MPI_Comm comm, const recovery::Envelope& e) {
  const WorldRanks peers = peers_of(comm);
  // The number of a rank in a communicator is often its number in MPI_COMM_WORLD.
  std::size_t source = e.from < peers.size() && peers[e.from] == e.from ? e.from : 0;
  while (source < peers.size() && peers[source] != e.from) ++source;
  return {static_cast<int>(source), e.tag, MPI_SUCCESS, 0, e.bytes};
}

int check_source(const char* name, MPI_Comm comm, int source, int tag) {
  if (tag < 0 && tag != MPI_ANY_TAG) [[unlikely]]
    return fail(name, comm, MPI_ERR_TAG, "the tag is %d; it must be 0 or more, or MPI_ANY_TAG",
                tag);
  const bool special = source == MPI_ANY_SOURCE || source == MPI_PROC_NULL;
  if ((source < 0 || source >= comm->peers()) && !special) [[unlikely]]
    return fail_rank(name, comm, "source", source);
  return MPI_SUCCESS;
}

int take_message(MPI_Comm comm, Receive& receive, const Destination& to, MPI_Status* status) {
  Messages& m = messages();
  const recovery::Envelope e = m.envelope(receive);
  *status = status_of(comm, e);
  const std::size_t room = static_cast<std::size_t>(to.count) * to.type->size_bytes;
  const std::size_t bytes = std::min<std::size_t>(e.bytes, room);
  if (is_contiguous(to.type)) {
    auto* out = static_cast<std::byte*>(first_byte(to.type, to.buffer));
    m.read(receive, bytes, out, [&](const std::byte* data, std::size_t at, std::size_t n) {
      if (n <= journal::kInlineBytes) {
        journal::copy_inline(out + at, data, n);
      } else {
        copy_payload(out + at, data, n);
      }
    });
  } else {
    m.read(receive, bytes, nullptr, [&](const std::byte* data, std::size_t at, std::size_t n) {
      unpack(to.type, data, n, to.buffer, at);
    });
  }
  m.consume(receive);
  if (e.bytes <= room) return MPI_SUCCESS;
  status->_ucount = room;
  status->MPI_ERROR = MPI_ERR_TRUNCATE;
  return MPI_ERR_TRUNCATE;
}

int fail_truncated(const char* function, MPI_Comm comm, const MPI_Status& status,
                   const Destination& to) {
  return fail_through(
      comm, function, MPI_ERR_TRUNCATE,
      "the message from rank %d with tag %d is longer than the %d elements of %zu byte%s "
      "that this receive has room for",
      status.MPI_SOURCE, status.MPI_TAG, to.count, to.type->size_bytes,
      to.type->size_bytes == 1 ? "" : "s");
}

int check_start(const char* name, MPI_Request r) {
  if (r->call != OpKind::kIbsend) return MPI_SUCCESS;
  return check_attached(name, r->comm, r->buffer.count, r->buffer.type, r->peer);
}

void start_request(MPI_Request r, std::uint32_t call) {
  Messages& m = messages();
  r->active = true;
  r->status = empty_status();
  switch (r->kind) {
    case RequestKind::kNothing:
      r->status = proc_null_status();
      return;
    case RequestKind::kSend:
      send_message(call, r->comm, r->buffer.buffer, r->buffer.count, r->buffer.type, r->peer,
                   r->tag, false);
      return;
    case RequestKind::kSynchronous:
      r->sent = send_message(call, r->comm, r->buffer.buffer, r->buffer.count, r->buffer.type,
                             r->peer, r->tag, true);
      break;
    case RequestKind::kReceive:
      r->receive = {};
      set_source(&r->receive, r->comm, r->peer, r->tag);
      set_place(&r->receive, r->buffer);
      m.post(*r->comm->comm, r->receive);
      break;
    case RequestKind::kCollective:
    case RequestKind::kGeneralized:
      return;
  }
  m.open();
}

MPI_Request make_receive_request(MPI_Comm comm, const Destination& to, MPI_Message message) {
  const int peer = message == nullptr ? MPI_PROC_NULL : MPI_ANY_SOURCE;
  MPI_Request r =
      make_request(OpKind::kImrecv, to.buffer, to.count, to.type, peer, MPI_ANY_TAG, comm, false);
  r->active = true;
  r->status = proc_null_status();
  if (message != nullptr) r->receive = message->receive;
  return r;
}

// --- Blocking

int send(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
         MPI_Comm comm) {
  return send("MPI_Send", site, OpKind::kSend, buf, count, datatype, dest, tag, comm);
}
int ssend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm) {
  return send("MPI_Ssend", site, OpKind::kSsend, buf, count, datatype, dest, tag, comm);
}
int rsend(const void* site, const void* ibuf, int count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm) {
  return send("MPI_Rsend", site, OpKind::kRsend, ibuf, count, datatype, dest, tag, comm);
}
int bsend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm) {
  return send("MPI_Bsend", site, OpKind::kBsend, buf, count, datatype, dest, tag, comm);
}

int recv(const void* site, void* buf, int count, MPI_Datatype datatype, int source, int tag,
         MPI_Comm comm, MPI_Status* status) {
  constexpr const char* kName = "MPI_Recv";
  if (const int code = check_receive(kName, comm, buf, count, datatype, source, tag)) return code;
  if (source == MPI_PROC_NULL) {
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  const Destination to{buf, count, datatype};
  Messages& m = messages();
  m.begin(call_of(site, OpKind::kRecv, -1, 0));
  Receive r;
  set_source(&r, comm, source, tag);
  set_place(&r, to);
  m.post(*comm->comm, r);
  m.inside();
  m.wait([&](bool thorough) { return m.advance(r, thorough); });
  MPI_Status got;
  const int code = take_message(comm, r, to, &got);
  complete_freed_requests();
  m.end();
  put_status(status, got);
  return code == MPI_SUCCESS ? code : fail_truncated(kName, comm, got, to);
}

int sendrecv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
             int sendtag, void* recvbuf, int recvcount, MPI_Datatype recvtype, int source,
             int recvtag, MPI_Comm comm, MPI_Status* status) {
  constexpr const char* kName = "MPI_Sendrecv";
  if (const int code = check_send(kName, comm, sendbuf, sendcount, sendtype, dest, sendtag))
    return code;
  if (const int code = check_receive(kName, comm, recvbuf, recvcount, recvtype, source, recvtag)) {
    return code;
  }
  return exchange(kName, site, OpKind::kSendrecv, sendbuf, sendcount, sendtype, dest, sendtag,
                  {recvbuf, recvcount, recvtype}, source, recvtag, comm, status);
}

int sendrecv_replace(const void* site, void* buf, int count, MPI_Datatype datatype, int dest,
                     int sendtag, int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  constexpr const char* kName = "MPI_Sendrecv_replace";
  if (const int code = check_send(kName, comm, buf, count, datatype, dest, sendtag)) return code;
  if (const int code = check_source(kName, comm, source, recvtag)) return code;
  return exchange(kName, site, OpKind::kSendrecvReplace, buf, count, datatype, dest, sendtag,
                  {buf, count, datatype}, source, recvtag, comm, status);
}

// --- Nonblocking

int isend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
          MPI_Comm comm, MPI_Request* request) {
  return isend("MPI_Isend", site, OpKind::kIsend, buf, count, datatype, dest, tag, comm, request);
}
int issend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm, MPI_Request* request) {
  return isend("MPI_Issend", site, OpKind::kIssend, buf, count, datatype, dest, tag, comm, request);
}
int irsend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm, MPI_Request* request) {
  return isend("MPI_Irsend", site, OpKind::kIrsend, buf, count, datatype, dest, tag, comm, request);
}
int ibsend(const void* site, const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm, MPI_Request* request) {
  return isend("MPI_Ibsend", site, OpKind::kIbsend, buf, count, datatype, dest, tag, comm, request);
}
int irecv(const void* site, void* buf, int count, MPI_Datatype datatype, int source, int tag,
          MPI_Comm comm, MPI_Request* request) {
  if (const int code = check_receive("MPI_Irecv", comm, buf, count, datatype, source, tag)) {
    return code;
  }
  return begin(site, OpKind::kIrecv, buf, count, datatype, source, tag, comm, request);
}

// --- Persistent

int send_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return send_init("MPI_Send_init", OpKind::kIsend, buf, count, datatype, dest, tag, comm, request);
}
int ssend_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return send_init("MPI_Ssend_init", OpKind::kIssend, buf, count, datatype, dest, tag, comm,
                   request);
}
int rsend_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return send_init("MPI_Rsend_init", OpKind::kIrsend, buf, count, datatype, dest, tag, comm,
                   request);
}
int bsend_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return send_init("MPI_Bsend_init", OpKind::kIbsend, buf, count, datatype, dest, tag, comm,
                   request);
}
int recv_init(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (const int code = check_receive("MPI_Recv_init", comm, buf, count, datatype, source, tag)) {
    return code;
  }
  *request = make_request(OpKind::kIrecv, buf, count, datatype, source, tag, comm, true);
  return MPI_SUCCESS;
}

// --- The buffer of buffered sends. It is not used, because every send is buffered in the journal;
// but MPI_Bsend raises an error if the program's buffer is too small.

int buffer_attach(void* buffer, int size) {
  constexpr const char* kName = "MPI_Buffer_attach";
  require_active(kName);
  if (size < 0 || (buffer == nullptr && size > 0) || context->attached != nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_BUFFER,
                context->attached != nullptr ? "a buffer is attached already"
                                             : "the buffer is NULL, or its size negative");
  }
  context->attached = buffer;
  context->attached_bytes = static_cast<std::size_t>(size);
  return MPI_SUCCESS;
}

int buffer_detach(void* buffer, int* size) {
  constexpr const char* kName = "MPI_Buffer_detach";
  require_active(kName);
  if (context->attached == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_BUFFER, "no buffer is attached");
  }
  *static_cast<void**>(buffer) = context->attached;
  *size = static_cast<int>(context->attached_bytes);
  context->attached = nullptr;
  context->attached_bytes = 0;
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
