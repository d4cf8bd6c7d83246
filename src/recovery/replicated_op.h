// An operation with a replicated result of either kind, for callers that hold one between calls.
#pragma once

#include <new>

#include "recovery/attempted_op.h"
#include "recovery/broadcast_op.h"

namespace rejoin::recovery {

template <journal::Host H>
class ReplicatedOp {
 public:
  // Enters; see Replicated.
  ReplicatedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
               Outcome* outcome, bool nonblocking)
      : is_broadcast_(is_broadcast(call.signature)) {
    if (is_broadcast_) {
      new (&broadcast_) BroadcastOp<H>(ops, comm, call, spec, outcome, nonblocking);
    } else {
      new (&attempted_) AttemptedOp<H>(ops, comm, call, spec, outcome, nonblocking);
    }
  }
  ~ReplicatedOp() {
    if (is_broadcast_) {
      broadcast_.~BroadcastOp<H>();
    } else {
      attempted_.~AttemptedOp<H>();
    }
  }
  ReplicatedOp(const ReplicatedOp&) = delete;
  ReplicatedOp& operator=(const ReplicatedOp&) = delete;

  Progress advance(bool thorough) {
    return is_broadcast_ ? broadcast_.advance(thorough) : attempted_.advance(thorough);
  }
  Standing standing() const {
    return is_broadcast_ ? broadcast_.standing() : attempted_.standing();
  }

 private:
  const bool is_broadcast_;
  union {
    BroadcastOp<H> broadcast_;
    AttemptedOp<H> attempted_;
  };
};

}  // namespace rejoin::recovery
