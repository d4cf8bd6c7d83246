// An operation with a replicated result of any kind, for callers that hold one between calls.
#pragma once

#include <utility>
#include <variant>

#include "recovery/attempted_op.h"
#include "recovery/broadcast_op.h"

namespace rejoin::recovery {

template <journal::Host H>
class ReplicatedOp {
 public:
  // Enters; see Replicated.
  ReplicatedOp(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
               Outcome* outcome, bool nonblocking)
      : op_(enter(ops, comm, call, spec, outcome, nonblocking)) {}
  ReplicatedOp(const ReplicatedOp&) = delete;
  ReplicatedOp& operator=(const ReplicatedOp&) = delete;

  Progress advance(bool thorough) {
    return visit([thorough](auto& op) { return op.advance(thorough); });
  }
  Standing standing() const {
    return visit([](const auto& op) { return op.standing(); });
  }

 private:
  using Any =
      std::variant<AttemptedOp<H>, BroadcastOp<H>, AttemptedOp<H, true>, BroadcastOp<H, true>>;
  static Any enter(Operations<H>& ops, Comm<H>& comm, const Call& call, const ReplicatedSpec& spec,
                   Outcome* outcome, bool nonblocking) {
    const auto enter_as = [&]<class Op>(std::in_place_type_t<Op> type) {
      return Any(type, ops, comm, call, spec, outcome, nonblocking);
    };
    const bool spans = comm.span != nullptr;
    if (is_broadcast(call.signature)) {
      return spans ? enter_as(std::in_place_type<BroadcastOp<H, true>>)
                   : enter_as(std::in_place_type<BroadcastOp<H>>);
    }
    return spans ? enter_as(std::in_place_type<AttemptedOp<H, true>>)
                 : enter_as(std::in_place_type<AttemptedOp<H>>);
  }

  // As std::visit, which would have to be able to throw.
  template <class Self, class Function>
  static auto visit_of(Self& op, Function&& f) {
    if (auto* p = std::get_if<AttemptedOp<H>>(&op)) return f(*p);
    if (auto* p = std::get_if<BroadcastOp<H>>(&op)) return f(*p);
    if (auto* p = std::get_if<AttemptedOp<H, true>>(&op)) return f(*p);
    return f(*std::get_if<BroadcastOp<H, true>>(&op));
  }
  template <class Function>
  auto visit(Function&& f) {
    return visit_of(op_, f);
  }
  template <class Function>
  auto visit(Function&& f) const {
    return visit_of(op_, f);
  }

  Any op_;
};

}  // namespace rejoin::recovery
