// Probes, and messages that a probe has matched.
#include "api.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/datatype.h"
#include "pmpi/fortran.h"
#include "pmpi/request.h"

namespace rejoin::pmpi {
namespace {

struct Pattern {
  std::uint32_t source;
  std::uint64_t tag;
};

Pattern pattern_of(MPI_Comm comm, int source, int tag) {
  return {source == MPI_ANY_SOURCE ? recovery::kAnySource
                                   : comm->comm->members.world[comm->peer(source)],
          tag == MPI_ANY_TAG ? recovery::kAnyTag
                             : recovery::PointToPoint<engine::ShmHost>::key_of(tag)};
}

int check(const char* name, MPI_Comm comm, int source, int tag) {
  if (!is_any_comm(comm)) return fail_comm(name);
  return check_source(name, comm, source, tag);
}

MPI_Message no_proc() { return OMPI_PREDEFINED_GLOBAL(MPI_Message, ompi_message_no_proc); }

MPI_Message make_message(MPI_Comm comm) {
  MPI_Message m = make<ompi_message_t>();
  m->magic = Magic::kMessage;
  m->comm = comm;
  if (!comm->predefined) ++comm->references;
  m->fortran = kNoFortranHandle;
  return m;
}

int check_message(const char* name, const MPI_Message* message, const void* buffer, int count,
                  MPI_Datatype type) {
  require_active(name);
  if (message == nullptr || (*message != no_proc() && !is_message(*message))) {
    return fail(name, MPI_COMM_WORLD, MPI_ERR_REQUEST,
                "the message is MPI_MESSAGE_NULL, or was received already");
  }
  MPI_Comm comm = *message == no_proc() ? MPI_COMM_WORLD : (*message)->comm;
  return check_message_buffer(name, comm, "receive", buffer, count, type);
}

void dispose(MPI_Message* message) {
  MPI_Message m = *message;
  *message = MPI_MESSAGE_NULL;
  forget(&context->messages, m->fortran);
  m->magic = Magic::kNone;
  release_comm(m->comm);
  destroy(m);
}

}  // namespace

int probe(const void* site, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  constexpr const char* kName = "MPI_Probe";
  if (const int code = check(kName, comm, source, tag)) return code;
  if (source == MPI_PROC_NULL) {
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  m.begin(call_of(site, OpKind::kProbe, -1, 0));
  m.inside();
  const Pattern p = pattern_of(comm, source, tag);
  const recovery::Envelope e = m.wait_for_message(*comm->comm, p.source, p.tag);
  m.end();
  put_status(status, status_of(comm, e));
  return MPI_SUCCESS;
}

int iprobe(const void*, int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  constexpr const char* kName = "MPI_Iprobe";
  if (const int code = check(kName, comm, source, tag)) return code;
  if (source == MPI_PROC_NULL) {
    *flag = 1;
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  const Pattern p = pattern_of(comm, source, tag);
  recovery::Envelope e;
  *flag = messages().probe(*comm->comm, p.source, p.tag, &e);
  if (*flag) put_status(status, status_of(comm, e));
  return MPI_SUCCESS;
}

// MPI_Mprobe: a receive whose message is copied later.
int mprobe(const void* site, int source, int tag, MPI_Comm comm, MPI_Message* message,
           MPI_Status* status) {
  constexpr const char* kName = "MPI_Mprobe";
  if (const int code = check(kName, comm, source, tag)) return code;
  if (source == MPI_PROC_NULL) {
    *message = no_proc();
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  m.begin(call_of(site, OpKind::kMprobe, -1, 0));
  const Pattern p = pattern_of(comm, source, tag);
  MPI_Message made = make_message(comm);
  made->receive.source = p.source;
  made->receive.tag = p.tag;
  m.post(*comm->comm, made->receive);
  m.inside();
  m.wait([&](bool thorough) { return m.advance(made->receive, thorough); });
  m.open();
  m.end();
  *message = made;
  put_status(status, status_of(comm, m.envelope(made->receive)));
  return MPI_SUCCESS;
}

int improbe(const void* site, int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
            MPI_Status* status) {
  constexpr const char* kName = "MPI_Improbe";
  if (const int code = check(kName, comm, source, tag)) return code;
  *flag = 1;
  if (source == MPI_PROC_NULL) {
    *message = no_proc();
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  const Pattern p = pattern_of(comm, source, tag);
  *flag = m.observe([&](bool thorough) { return m.peek(*comm->comm, p.source, p.tag, thorough); },
                    [] {});
  if (!*flag) return MPI_SUCCESS;
  return mprobe(site, source, tag, comm, message, status);
}

int mrecv(const void* site, void* buf, int count, MPI_Datatype type, MPI_Message* message,
          MPI_Status* status) {
  constexpr const char* kName = "MPI_Mrecv";
  if (const int code = check_message(kName, message, buf, count, type)) return code;
  if (*message == no_proc()) {
    *message = MPI_MESSAGE_NULL;
    put_status(status, proc_null_status());
    return MPI_SUCCESS;
  }
  auto& m = messages();
  m.begin(call_of(site, OpKind::kMrecv, -1, 0));
  MPI_Message got = *message;
  MPI_Comm comm = got->comm;
  const Destination to{buf, count, type};
  MPI_Status s;
  int code = take_message(comm, got->receive, to, &s);
  m.close();
  m.end();
  put_status(status, s);
  if (code != MPI_SUCCESS) code = fail_truncated(kName, comm, s, to);
  dispose(message);
  return code;
}

int imrecv(const void* site, void* buf, int count, MPI_Datatype type, MPI_Message* message,
           MPI_Request* request) {
  constexpr const char* kName = "MPI_Imrecv";
  if (const int code = check_message(kName, message, buf, count, type)) return code;
  const bool nothing = *message == no_proc();
  MPI_Comm comm = nothing ? MPI_COMM_WORLD : (*message)->comm;
  messages().begin(call_of(site, OpKind::kImrecv, -1, 0));
  *request = make_receive_request(comm, {buf, count, type}, nothing ? nullptr : *message);
  messages().end();
  if (nothing) {
    *message = MPI_MESSAGE_NULL;
  } else {
    dispose(message);
  }
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
