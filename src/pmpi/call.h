// What a call says of itself to the recovery layer. What may differ by rank must not be in it.
#pragma once

#include "pmpi/context.h"
#include "pmpi/handles.h"

namespace rejoin::pmpi {

// `site`, or what rejoin_call_site() has said.
inline recovery::Call call_from(const recovery::Signature& signature, const void* site) {
  if (context->site.function == nullptr) [[likely]]
    return {signature, site};
  const NamedSite named = context->site;
  context->site = {};
  return {signature, named.file, named.function, named.line};
}

// Of a call that moves data. `bytes`: common to all members, else 0. `layout`: a hash of counts
// that all members pass alike.
inline recovery::Call call_of(const void* site, recovery::OpKind kind, int root, std::size_t bytes,
                              std::uint32_t layout = 0) {
  return call_from({static_cast<std::uint16_t>(kind), 0, 0, 0, root, layout, bytes}, site);
}

// Of a reduction of `bytes`. Every operation of a program's own is the same one.
inline recovery::Call call_of(const void* site, recovery::OpKind kind, int root, std::size_t bytes,
                              MPI_Datatype type, MPI_Op op, std::uint32_t layout = 0) {
  return call_from({static_cast<std::uint16_t>(kind), static_cast<std::uint16_t>(type->element),
                    static_cast<std::uint16_t>(op->op), 0, root, layout, bytes},
                   site);
}

}  // namespace rejoin::pmpi
