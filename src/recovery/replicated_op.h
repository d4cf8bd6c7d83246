// An operation with a replicated result of either kind, for callers that hold one between calls.
#pragma once

#include <variant>

#include "recovery/attempted_op.h"
#include "recovery/broadcast_op.h"

namespace rejoin::recovery {

template <engine::Host H>
class ReplicatedOp {
 public:
  // Enters; see Replicated.
  ReplicatedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
               Outcome* outcome, bool nonblocking = false) {
    if (is_broadcast(call.signature)) {
      op_.template emplace<BroadcastOp<H>>(ops, comm, call, spec, outcome, nonblocking);
    } else {
      op_.template emplace<AttemptedOp<H>>(ops, comm, call, spec, outcome, nonblocking);
    }
  }

  Progress advance(bool thorough) {
    if (auto* broadcast = std::get_if<BroadcastOp<H>>(&op_)) return broadcast->advance(thorough);
    return std::get_if<AttemptedOp<H>>(&op_)->advance(thorough);
  }
  Standing standing() const {
    if (auto* broadcast = std::get_if<BroadcastOp<H>>(&op_)) return broadcast->standing();
    return std::get_if<AttemptedOp<H>>(&op_)->standing();
  }

 private:
  std::variant<std::monostate, BroadcastOp<H>, AttemptedOp<H>> op_;  // never monostate
};

}  // namespace rejoin::recovery
