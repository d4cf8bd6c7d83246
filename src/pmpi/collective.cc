#include "pmpi/collective.h"

#include <stdio.h>
#include <string.h>

#include "pmpi/comm.h"
#include "pmpi/fortran.h"
#include "pmpi/group.h"

namespace rejoin::pmpi {

Kept::~Kept() {
  while (Type* t = types_) {
    types_ = t->next;
    drop(t->type);
    pmpi::destroy(t);
  }
  while (Copy* c = copies_) {
    copies_ = c->next;
    release(c, c->bytes);
  }
}

void Kept::hold(MPI_Datatype type) {
  if (type == nullptr || type->predefined) return;
  add_reference(type);
  Type* t = make<Type>();
  *t = {type, types_};
  types_ = t;
}

const void* Kept::copy_bytes(const void* from, std::size_t bytes) {
  auto* c = static_cast<Copy*>(allocate(sizeof(Copy) + bytes));
  *c = {sizeof(Copy) + bytes, copies_};
  copies_ = c;
  if (bytes > 0) memcpy(c + 1, from, bytes);
  return c + 1;
}

Collective::~Collective() {
  if (text_ != nullptr) release(text_, kTextBytes);
  if (own_ != nullptr) close(own_);
}

void Collective::separate(const char* function) {
  constexpr std::uint32_t kPersistent = 0x80000001;  // not a possible colour of MPI_Comm_split
  const std::uint64_t count = count_creation(function, comm_, kPersistent);
  const std::uint64_t id =
      journal::derive_context(comm_->comm->members.context, count, kPersistent);
  own_ = is_inter(comm_) ? open_inter(comm_, id, first_group(comm_), second_group(comm_))
                         : open_child(comm_, id, ranks_of(comm_));
}

recovery::Call Collective::call_from(const recovery::Signature& signature, const void* site) {
  recovery::Call call = pmpi::call_from(signature, site);
  if (call.hint != nullptr) {
    hint_ = *call.hint;
    call.hint = &hint_;
  }
  return call;
}

void Collective::end(recovery::Status status) {
  code_ = MPI_SUCCESS;
  if (status != recovery::Status::kOk) end(class_of(status), context->rank->last_error());
}

void Collective::end(int code, const char* text) {
  code_ = code;
  if (text_ == nullptr) text_ = static_cast<char*>(allocate(kTextBytes));
  snprintf(text_, kTextBytes, "%s", text);
}

int Collective::raise(const char* function) const {
  return fail(function, comm_, code_, "%s", text_);
}

MPI_Request make_collective_request(MPI_Comm comm, OpKind kind, Collective* collective,
                                    bool persistent) {
  MPI_Request r = new_request(kind, comm, persistent);
  r->kind = RequestKind::kCollective;
  r->collective = collective;
  return r;
}

void start_collective(MPI_Request r, const void* site) {
  r->active = true;
  r->status = empty_status();
  r->collective->begin(site);
}

}  // namespace rejoin::pmpi
