// What a call says of itself to the recovery layer. What may differ by rank must not be in it.
#pragma once

#include "pmpi/handles.h"

namespace rejoin::pmpi {

// `bytes`: common to all members, else 0. `layout`: a hash of counts that all members pass alike.
inline engine::Signature signature_of(recovery::OpKind kind, int root, std::size_t bytes,
                                      std::uint32_t layout = 0) {
  engine::Signature s = {};
  s.kind = static_cast<std::uint16_t>(kind);
  s.root = root;
  s.layout = layout;
  s.bytes = bytes;
  return s;
}

// Of a reduction of `bytes`. Every operation of a program's own is the same one.
inline engine::Signature signature_of(recovery::OpKind kind, int root, std::size_t bytes,
                                      MPI_Datatype type, MPI_Op op, std::uint32_t layout = 0) {
  engine::Signature s = signature_of(kind, root, bytes, layout);
  s.type = static_cast<std::uint16_t>(type->element);
  s.operation = static_cast<std::uint16_t>(op->op);
  return s;
}

}  // namespace rejoin::pmpi
