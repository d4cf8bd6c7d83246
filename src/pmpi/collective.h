// A collective as an object, and the ways to run one: blocking, nonblocking, persistent.
//
// A *plan* holds the arguments of a collective, checked, and what follows from them. It must not be
// moved after check(). Its members are:
//
//     int check(const char* name, MPI_Comm comm, ARGUMENTS...)   called once; raises errors
//     void keep(Kept& kept)                    copies arrays of the program, holds its datatypes
//     Signature signature(OpKind kind) const
//     Run                                      one execution: the packed contribution and room for
//         explicit Run(const Plan&)            the result; made when the execution begins
//         ReplicatedSpec spec                  of a replicated-result operation; a channel
//         input, input_bytes, algorithm        operation has these instead: the bytes for the
//                                              fingerprint, and a class of engine/collectives.h
//         void deliver(const Outcome&)         puts the result into the program's buffers
//         const char* wrong_counts() const     optional, after deliver(): an error; null: none
//     Inter                                    the plan for the same arguments on an
//                                              intercommunicator, if the collective works on one
#pragma once

#include <optional>

#include "pmpi/call.h"
#include "pmpi/context.h"
#include "pmpi/datatype.h"
#include "pmpi/errors.h"
#include "pmpi/request.h"
#include "recovery/nonblocking.h"

namespace rejoin::pmpi {

// What a collective needs after the call that begins it has returned: by then the program may have
// freed its datatypes and reused its arrays of counts.
class Kept {
 public:
  Kept() = default;
  ~Kept();
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void hold(MPI_Datatype type);  // null is allowed
  // Replaces *array, of `count` elements, by a copy of it. Null stays null.
  template <class T>
  void copy(const T** array, std::size_t count) {
    if (*array != nullptr) *array = static_cast<const T*>(copy_bytes(*array, count * sizeof(T)));
  }

 private:
  const void* copy_bytes(const void* from, std::size_t bytes);

  struct Type {
    MPI_Datatype type;
    Type* next;
  };
  struct alignas(16) Copy {  // followed by the bytes
    std::size_t bytes;       // including this header
    Copy* next;
  };
  Type* types_ = nullptr;
  Copy* copies_ = nullptr;
};

// A nonblocking or persistent collective of the program.
class Collective : public recovery::Nonblocking {
 public:
  // Enters the operation, called from `site`, and advances it as far as it can without waiting.
  virtual void begin(const void* site) = 0;
  virtual void destroy() = 0;

  // Gives a persistent collective a context of its own, so that the members may start the
  // collectives of a communicator in different orders (MPI 4.0, section 6.13). All members call
  // this in the same order. `function`: for messages.
  void separate(const char* function);

  // REQUIRES that the operation is over. Returns MPI_SUCCESS, or the class of an error that was not
  // raised yet.
  int code() const { return code_; }
  // Raises that error.
  int raise(const char* function) const;

 protected:
  Collective(MPI_Comm comm, OpKind kind) : comm_(comm), kind_(kind) {}
  ~Collective();

  // The communicator on which its operations run.
  Rank::Comm& operations_comm() const { return *(own_ != nullptr ? own_ : comm_)->comm; }

  // Returns the call for the recovery layer, with a copy of the hint that lives as long as this
  // object.
  recovery::Call call_from(const recovery::Signature& signature, const void* site);
  void end(recovery::Status status);
  void end(int code, const char* text);

  const MPI_Comm comm_;
  const OpKind kind_;
  Kept kept_;

 private:
  static constexpr std::size_t kTextBytes = 768;
  MPI_Comm own_ = nullptr;  // hidden duplicate of comm_; null: not persistent
  recovery::Hint hint_;
  int code_ = MPI_SUCCESS;
  char* text_ = nullptr;  // the text of the error, if there is one
};

template <class Run>
concept Replicated = requires(Run& run) {
  run.spec;
};

template <class Run>
concept Judging = requires(const Run& run) {
  run.wrong_counts();
};
template <class Plan>
concept WorksOnInter = requires {
  typename Plan::Inter;
};

template <class Plan>
class PlannedCollective final : public Collective {
 public:
  PlannedCollective(MPI_Comm comm, OpKind kind) : Collective(comm, kind) {}

  template <class... Arguments>
  int check(const char* name, Arguments... arguments) {
    if (const int code = plan_.check(name, comm_, arguments...)) return code;
    plan_.keep(kept_);
    return MPI_SUCCESS;
  }

  void begin(const void* site) override {
    run_.emplace(plan_);
    call_.emplace(call_from(plan_.signature(kind_), site));
    Rank& rank = *context->rank;
    if constexpr (Replicated<Run>) {
      rank.enter(operation_, operations_comm(), *call_, run_->spec, &outcome_, true);
    } else {
      rank.enter(operation_, operations_comm(), *call_, run_->input, run_->input_bytes, true);
    }
    entered(operation_->standing());
    rank.start(*this);
  }

  void destroy() override {
    this->~PlannedCollective();
    release(this, sizeof *this);
  }

 private:
  using Run = typename Plan::Run;
  using Operation = std::conditional_t<Replicated<Run>, Rank::ReplicatedOp, Rank::ChannelOp>;

  journal::Progress advance(bool thorough) override {
    journal::Progress p;
    if constexpr (Replicated<Run>) {
      p = operation_->advance(thorough);
    } else {
      p = operation_->advance(thorough, [&] { return run_->algorithm.advance(*operation_); });
      outcome_ = operation_->outcome();
    }
    if (p == journal::Progress::kPending) return p;
    if (p == journal::Progress::kDone) run_->deliver(outcome_);
    end(outcome_.status);
    if constexpr (Judging<Run>) {
      const char* wrong = p == journal::Progress::kDone ? run_->wrong_counts() : nullptr;
      if (wrong != nullptr) end(MPI_ERR_COUNT, wrong);
    }
    operation_.reset();
    run_.reset();
    return p;
  }

  Plan plan_;
  recovery::Outcome outcome_;
  std::optional<recovery::Call> call_;
  std::optional<Run> run_;
  std::optional<Operation> operation_;
};

// Makes a request for a collective that has not begun. The request owns the collective from now on.
MPI_Request make_collective_request(MPI_Comm comm, OpKind kind, Collective* collective,
                                    bool persistent);

// --- Blocking, nonblocking, persistent. All REQUIRE that `comm` is usable.

template <class Plan>
[[gnu::always_inline]] inline int run(const char* name, const void* site, MPI_Comm comm,
                                      OpKind kind, const Plan& plan) {
  typename Plan::Run run(plan);
  const recovery::Call call = call_from(plan.signature(kind), site);
  const auto end = [&](const recovery::Outcome& o) {
    if (o.status != recovery::Status::kOk) [[unlikely]]
      return fail_status(name, comm, o.status);
    run.deliver(o);
    if constexpr (Judging<typename Plan::Run>) {
      if (const char* wrong = run.wrong_counts()) {
        return fail(name, comm, MPI_ERR_COUNT, "%s", wrong);
      }
    }
    return MPI_SUCCESS;
  };
  if constexpr (Replicated<typename Plan::Run>) {
    return end(context->rank->replicated(*comm->comm, call, run.spec));
  } else {
    return end(
        context->rank->channel(*comm->comm, call, run.input, run.input_bytes, run.algorithm));
  }
}

// Runs the plan's variant for intercommunicators; raises an error if `comm` is not one, or if the
// plan has no such variant.
template <class Plan, class... Arguments>
[[gnu::cold]] int run_on_inter(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                               Arguments... arguments) {
  if constexpr (WorksOnInter<Plan>) {
    if (is_inter(comm)) {
      typename Plan::Inter plan;
      if (const int code = plan.check(name, comm, arguments...)) return code;
      return run(name, site, comm, kind, plan);
    }
  }
  return fail_comm(name, comm);
}

template <class Plan, class... Arguments>
int make_planned(const char* name, MPI_Comm comm, OpKind kind, bool persistent,
                 MPI_Request* request, Arguments... arguments) {
  *request = MPI_REQUEST_NULL;
  auto* c = new (allocate(sizeof(PlannedCollective<Plan>))) PlannedCollective<Plan>(comm, kind);
  if (const int code = c->check(name, arguments...)) {
    c->destroy();
    return code;
  }
  if (persistent) c->separate(name);
  *request = make_collective_request(comm, kind, c, persistent);
  return MPI_SUCCESS;
}

template <class Plan, class... Arguments>
int make_collective(const char* name, MPI_Comm comm, OpKind kind, bool persistent,
                    MPI_Request* request, Arguments... arguments) {
  if constexpr (WorksOnInter<Plan>) {
    if (is_inter(comm)) {
      using Inter = typename Plan::Inter;
      return make_planned<Inter>(name, comm, kind, persistent, request, arguments...);
    }
  }
  if (!is_comm(comm)) return fail_comm(name, comm);
  return make_planned<Plan>(name, comm, kind, persistent, request, arguments...);
}

template <class Plan, class... Arguments>
int begin_collective(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                     MPI_Request* request, Arguments... arguments) {
  if (const int code = make_collective<Plan>(name, comm, kind, false, request, arguments...)) {
    return code;
  }
  start_collective(*request, site);
  return MPI_SUCCESS;
}

template <class Plan, class... Arguments>
int init_collective(const char* name, MPI_Comm comm, OpKind kind, MPI_Info info,
                    MPI_Request* request, Arguments... arguments) {
  if (is_any_comm(comm) && info != MPI_INFO_NULL && !is_info(info)) {
    return fail(name, comm, MPI_ERR_INFO, "the info object is invalid, or it was freed");
  }
  return make_collective<Plan>(name, comm, kind, true, request, arguments...);
}

}  // namespace rejoin::pmpi
