// The description of a call for the recovery layer. It must not contain what may differ by rank.
#pragma once

#include "pmpi/context.h"
#include "pmpi/datatype.h"

namespace rejoin::pmpi {

// Combines `site` with what rejoin_call_site(), rejoin_bootstrap() and rejoin_prepare() have set
// for the next operation. A checkpoint cannot be marked and leaves the mark for the next operation.
[[gnu::always_inline]] inline recovery::Call call_from(const recovery::Signature& signature,
                                                       const void* site) {
  recovery::Call call{signature, site};
  if (context->site.function != nullptr) [[unlikely]] {
    call.site = context->site.file;
    call.function = context->site.function;
    call.line = context->site.line;
    context->site = {};
  }
  const bool is_operation =
      signature.kind != static_cast<std::uint16_t>(recovery::OpKind::kCheckpoint);
  if (context->hinted && is_operation) [[unlikely]] {
    context->hint_in_use = context->hint;
    context->hint = {};
    context->hinted = false;
    call.hint = &context->hint_in_use;
  }
  return call;
}

// Returns the signature of a call that moves data. `bytes`: common to all members, else 0.
// `layout`: a hash of counts that all members pass alike.
inline recovery::Signature signature_of(recovery::OpKind kind, int root, std::size_t bytes,
                                        std::uint32_t layout = 0) {
  return {static_cast<std::uint16_t>(kind), 0, 0, 0, root, layout, bytes};
}
inline recovery::Call call_of(const void* site, recovery::OpKind kind, int root, std::size_t bytes,
                              std::uint32_t layout = 0) {
  return call_from(signature_of(kind, root, bytes, layout), site);
}

// Returns the signature of a reduction of `bytes`. All user-defined operations count as the same
// one.
inline recovery::Signature signature_of(recovery::OpKind kind, int root, std::size_t bytes,
                                        MPI_Datatype type, engine::Operator op,
                                        std::uint32_t layout = 0) {
  return {static_cast<std::uint16_t>(kind),
          type_code(type),
          static_cast<std::uint16_t>(op),
          0,
          root,
          layout,
          bytes};
}

}  // namespace rejoin::pmpi
