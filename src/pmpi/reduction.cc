// Allreduce, Reduce, Reduce_scatter, Scan, Exscan, Reduce_local.
#include "pmpi/reduction.h"

#include <string.h>

#include <algorithm>

#include "api.h"
#include "copy/copy.h"
#include "engine/collectives.h"
#include "engine/division.h"
#include "libc_recording/observed.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/collective.h"
#include "pmpi/inter_collectives.h"

namespace rejoin::pmpi {

void BoundReduction::call_user(const engine::Reduction& self, const void* a, const void* b,
                               void* out, std::size_t count) {
  const auto* bound = static_cast<const BoundReduction*>(self.context);
  if (out != b) copy_payload(out, b, count * self.element_bytes);
  if (count == 0) return;
  // The program's function expects values at a distance of their extent, and addresses to which
  // their bounds are relative.
  MPI_Datatype type = bound->type_;
  const bool at_once = is_at_extent(type) || count == 1;
  const int length = at_once ? static_cast<int>(count) : 1;
  auto* left = static_cast<std::byte*>(const_cast<void*>(a)) - operand_offset(type);
  auto* right = static_cast<std::byte*>(out) - operand_offset(type);
  // How often an operator runs, and at which rank, depends on the algorithm, so its calls of libc
  // are not recorded.
  const libc_recording::Unobserved unobserved;
  // The program may have freed the type while the operation was outstanding; its function uses it.
  const Magic magic = std::exchange(type->magic, Magic::kType);
  const auto step = static_cast<std::size_t>(length);  // the function may change `length`
  for (std::size_t i = 0; i < count; i += step) {
    int given = length;
    bound->call(left + i * self.element_bytes, right + i * self.element_bytes, &given, &type);
  }
  bound->type_->magic = magic;
}

void BoundReduction::call(void* left, void* right, int* length, MPI_Datatype* type) const {
  if (cxx_callback_ == nullptr) return function_(left, right, length, type);
  using WithCallback = void(void*, void*, int*, MPI_Datatype*, MPI_User_function*);
  void* function = reinterpret_cast<void*>(function_);
  reinterpret_cast<WithCallback*>(function)(left, right, length, type, cxx_callback_);
}

int explain_bind(const char* function, MPI_Comm comm, int count, MPI_Datatype type, MPI_Op op) {
  if (!is_op(op)) {
    return fail(function, comm, MPI_ERR_OP, "the operation is MPI_OP_NULL, or it was freed");
  }
  if (!is_committed(type)) return fail_type(function, comm, type);
  if (count < 0) return fail_count(function, comm, count);
  if (op->classes == 0) {
    return fail(function, comm, MPI_ERR_OP,
                "MPI_REPLACE and MPI_NO_OP can be used in one-sided communication only");
  }
  if (!type->predefined) {
    return fail(function, comm, MPI_ERR_OP,
                "predefined operations reduce predefined datatypes only; create an operation for "
                "this datatype with MPI_Op_create");
  }
  return fail(function, comm, MPI_ERR_OP, "the operation is not defined for %s", type->name);
}

namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::ReplicatedSpec;
using recovery::Signature;

// The base of all plans here: the operands, and where the result goes.
struct ReductionPlan {
  BoundReduction bound;
  const void* send;
  void* receive;
  MPI_Datatype type;
  engine::Operator op;
  std::size_t bytes;  // of the operands

  int bind_all(const char* name, MPI_Comm comm, int count, MPI_Datatype datatype,
               MPI_Op operation) {
    if (const int code = bind(name, comm, count, datatype, operation, &bound)) return code;
    type = datatype;
    op = operation->op;
    return MPI_SUCCESS;
  }
  // bind_all() for a reduction to all members. A value is never split: it must fit a staging
  // buffer.
  int bind_staged(const char* name, MPI_Comm comm, int count, MPI_Datatype datatype,
                  MPI_Op operation) {
    if (const int code = bind_all(name, comm, count, datatype, operation)) return code;
    const auto value_bytes = static_cast<std::size_t>(datatype->reduced_bytes);
    if (value_bytes <= journal::kStageBytes) [[likely]]
      return MPI_SUCCESS;
    return fail(name, comm, MPI_ERR_UNSUPPORTED_OPERATION,
                "a value of this datatype has %zu bytes, more than the %zu that this function can "
                "reduce; MPI_Reduce and MPI_Bcast have no such limit",
                value_bytes, journal::kStageBytes);
  }
  // Checks and sets the buffers: `all` bytes of operands, `received` bytes of the result. Resolves
  // MPI_IN_PLACE. The same buffer twice means that, too, where Open MPI lets it pass.
  int take_buffers(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
                   std::size_t all, std::size_t received) {
    if (const int code =
            check_reduction_buffers(name, comm, sendbuf, recvbuf, type, all, received)) {
      return code;
    }
    send = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    receive = recvbuf;
    bytes = all;
    return MPI_SUCCESS;
  }
  void keep(Kept& kept) { kept.hold(type); }
  Signature signature(OpKind kind) const { return signature_of(kind, -1, bytes, type, op); }
};

struct AllreducePlan : ReductionPlan {
  using Inter = inter::AllreducePlan;

  std::size_t count;

  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int values,
            MPI_Datatype datatype, MPI_Op operation) {
    if (const int code = bind_staged(name, comm, values, datatype, operation)) return code;
    count = static_cast<std::size_t>(values);
    if (sendbuf == recvbuf && sendbuf != nullptr && values > 1) [[unlikely]]
      return fail_aliased(name, comm);
    const std::size_t all = reduced_bytes_of(datatype, values);
    return take_buffers(name, comm, sendbuf, recvbuf, all, all);
  }

  struct Run {
    explicit Run(const AllreducePlan& plan)
        : count(plan.count),
          input(plan.type, plan.send, plan.count),
          result(plan.type, plan.receive) {
      std::byte* to = result.place();
      spec.input = input.data();
      spec.input_bytes = spec.result_bytes = plan.bytes;
      spec.reduction = &plan.bound.get();
      spec.early = to != nullptr && apart(input.data(), plan.bytes, to, plan.bytes) ? to : nullptr;
    }
    void deliver(const Outcome& o) { result.deliver(o.data(), count); }
    std::size_t count;
    const Contribution input;
    const Result result;
    ReplicatedSpec spec;
  };
};

// Reduce_scatter and Reduce_scatter_block: the whole vector is reduced for every member, which then
// copies its part.
struct ScatteredPlan : ReductionPlan {
  using Inter = inter::ReduceScatterPlan;

  std::size_t count;             // of the whole vector
  std::size_t before, my_count;  // of this rank's part
  std::uint32_t layout = 0;

  // Reduce_scatter_block: all parts have `recvcount` values.
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int recvcount,
            MPI_Datatype datatype, MPI_Op operation) {
    if (const int code = bind_staged(name, comm, recvcount, datatype, operation)) return code;
    my_count = static_cast<std::size_t>(recvcount);
    before = my_count * comm->comm->members.rank;
    count = my_count * comm->comm->members.size;
    const std::size_t value = datatype->reduced_bytes;
    return take_buffers(name, comm, sendbuf, recvbuf, count * value, my_count * value);
  }
  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf,
            const int recvcounts[], MPI_Datatype datatype, MPI_Op operation) {
    if (const int code = bind_staged(name, comm, 0, datatype, operation)) return code;
    if (recvcounts == nullptr) {
      return fail(name, comm, MPI_ERR_COUNT, "the receive counts are a null pointer");
    }
    before = count = 0;
    for (int i = 0; i < comm->size(); ++i) {
      if (recvcounts[i] < 0) return fail_count(name, comm, recvcounts[i]);
      if (i == comm->rank()) before = count;
      count += static_cast<std::size_t>(recvcounts[i]);
    }
    my_count = static_cast<std::size_t>(recvcounts[comm->rank()]);
    layout = recovery::hash_bytes(recvcounts, static_cast<std::size_t>(comm->size()) * sizeof(int));
    const std::size_t value = datatype->reduced_bytes;
    return take_buffers(name, comm, sendbuf, recvbuf, count * value, my_count * value);
  }
  Signature signature(OpKind kind) const { return signature_of(kind, -1, bytes, type, op, layout); }

  struct Run {
    explicit Run(const ScatteredPlan& p) : plan(p), input(p.type, p.send, p.count) {
      spec.input = input.data();
      spec.input_bytes = spec.result_bytes = plan.bytes;
      spec.reduction = &plan.bound.get();
    }
    void deliver(const Outcome& o) {
      Result(plan.type, plan.receive)
          .deliver(o.data() + plan.before * plan.type->reduced_bytes, plan.my_count);
    }
    const ScatteredPlan& plan;
    const Contribution input;
    ReplicatedSpec spec;
  };
};

struct ReducePlan : ReductionPlan {
  using Inter = inter::ReducePlan;

  std::size_t count;
  int root;
  bool at_root;
  const engine::FoldStep* order;

  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int values,
            MPI_Datatype datatype, MPI_Op operation, int root_rank) {
    if (const int code = bind_all(name, comm, values, datatype, operation)) return code;
    if (const int code = check_root(name, comm, root_rank)) return code;
    root = root_rank;
    at_root = comm->rank() == root;
    order = comm->comm->fold_order(bound.get().commutative);
    count = static_cast<std::size_t>(values);
    bytes = reduced_bytes_of(datatype, values);
    if (at_root && sendbuf == recvbuf && bytes > 0) return fail_aliased(name, comm);
    if (at_root) return take_buffers(name, comm, sendbuf, recvbuf, bytes, bytes);
    send = sendbuf;
    receive = nullptr;
    return check_buffer(name, comm, "send", sendbuf, values, datatype);
  }
  Signature signature(OpKind kind) const { return signature_of(kind, root, bytes, type, op); }

  struct Run {
    explicit Run(const ReducePlan& p)
        : plan(p),
          contribution(p.type, p.send, p.count),
          result(p.type, p.receive),
          to(p.at_root ? result.place_or_copy(p.count) : nullptr),
          overlaps(p.at_root && !apart(contribution.data(), p.bytes, to, p.bytes)),
          copy(overlaps ? engine::piece_bytes(p.bound.get().element_bytes) : 0),
          more(p.at_root && p.order != nullptr
                   ? 2 * std::min(p.bytes, engine::piece_bytes(p.bound.get().element_bytes))
                   : 0),
          input(contribution.data()),
          input_bytes(p.at_root ? p.bytes : 0),
          algorithm(static_cast<std::uint32_t>(p.root), input, p.bytes, p.bound.get(), to,
                    overlaps ? copy.data() : nullptr, p.order, more.data()) {}
    void deliver(const Outcome&) {
      if (plan.at_root) result.deliver(plan.count);
    }
    const ReducePlan& plan;
    const Contribution contribution;
    Result result;
    std::byte* const to;
    const bool overlaps;
    const Scratch copy;
    const Scratch more;
    const std::byte* const input;
    const std::size_t input_bytes;
    engine::Reduce algorithm;
  };
};

// A large Reduce among several nodes.
struct ReduceByNodesPlan {
  static bool is_for(const ReducePlan& p, MPI_Comm comm) {
    const auto* span = comm->comm->span;
    if (span == nullptr || !p.bound.get().commutative) return false;
    const auto value_bytes = static_cast<std::size_t>(p.type->reduced_bytes);
    const std::uint32_t others =
        comm->comm->members.size - span->members_of(span->node[static_cast<std::uint32_t>(p.root)]);
    return value_bytes <= journal::kStageBytes && engine::is_reduced_by_nodes(others, p.bytes);
  }
  // Members that do not all take this way, or with values of another size, disagree.
  Signature signature(OpKind kind) const {
    return signature_of(kind, plan.root, plan.bytes, plan.type, plan.op,
                        static_cast<std::uint32_t>(plan.type->reduced_bytes));
  }

  struct Run {
    explicit Run(const ReduceByNodesPlan& p)
        : plan(p.plan), input(plan.type, plan.send, plan.count), result(plan.type, plan.receive) {
      std::byte* to = plan.at_root ? result.place() : nullptr;
      spec.input = input.data();
      spec.input_bytes = spec.result_bytes = plan.bytes;
      spec.reduction = &plan.bound.get();
      spec.only = static_cast<std::uint32_t>(plan.root);
      spec.early = to != nullptr && apart(input.data(), plan.bytes, to, plan.bytes) ? to : nullptr;
    }
    void deliver(const Outcome& o) {
      if (plan.at_root) result.deliver(o.data(), plan.count);
    }
    const ReducePlan& plan;
    const Contribution input;
    const Result result;
    ReplicatedSpec spec;
  };
  const ReducePlan& plan;
};

struct ScanPlan : ReductionPlan {
  std::size_t count;
  bool exclusive;
  bool has_result;

  int check(const char* name, MPI_Comm comm, const void* sendbuf, void* recvbuf, int values,
            MPI_Datatype datatype, MPI_Op operation, bool is_exclusive) {
    if (const int code = bind_all(name, comm, values, datatype, operation)) return code;
    exclusive = is_exclusive;
    has_result = !exclusive || comm->rank() > 0;
    count = static_cast<std::size_t>(values);
    const std::size_t all = reduced_bytes_of(datatype, values);
    if (has_result || sendbuf == MPI_IN_PLACE) {
      return take_buffers(name, comm, sendbuf, recvbuf, all, all);
    }
    send = sendbuf;
    receive = nullptr;  // it is not significant
    bytes = all;
    return check_buffer(name, comm, "send", sendbuf, values, datatype);
  }

  // Algorithm: engine::Scan or engine::ScanAtOnce. It gets memory_bytes() of memory.
  template <class Algorithm>
  struct RunOf {
    explicit RunOf(const ScanPlan& p)
        : plan(p),
          contribution(p.type, p.send, p.count),
          result(p.type, p.receive),
          memory(Algorithm::memory_bytes(p.bytes, p.bound.get(), p.exclusive)),
          input(contribution.data()),
          input_bytes(p.bytes),
          algorithm(input, p.bytes, p.bound.get(), result.place_or_copy(p.count), p.exclusive,
                    memory.data()) {}
    void deliver(const Outcome&) {
      if (plan.has_result) result.deliver(plan.count);
    }
    const ScanPlan& plan;
    const Contribution contribution;
    Result result;
    const Scratch memory;
    const std::byte* const input;
    const std::size_t input_bytes;
    Algorithm algorithm;
  };
  using Run = RunOf<engine::Scan>;
};
// A nonblocking scan: what a nonblocking operation sends must not depend on what it receives.
struct IscanPlan : ScanPlan {
  using Run = RunOf<engine::ScanAtOnce>;
};

int scan_or_exscan(const char* name, const void* site, const void* sendbuf, void* recvbuf,
                   int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, bool exclusive) {
  if (!is_comm(comm)) return fail_comm(name, comm);
  ScanPlan plan;
  if (const int code = plan.check(name, comm, sendbuf, recvbuf, count, datatype, op, exclusive)) {
    return code;
  }
  return run(name, site, comm, exclusive ? OpKind::kExscan : OpKind::kScan, plan);
}

}  // namespace

// --- Blocking

int allreduce(const void* site, const void* sendbuf, void* recvbuf, int count,
              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allreduce";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<AllreducePlan>(kName, site, comm, OpKind::kAllreduce, sendbuf, recvbuf,
                                       count, datatype, op);
  }
  AllreducePlan plan;
  if (const int code = plan.check(kName, comm, sendbuf, recvbuf, count, datatype, op)) return code;
  return run(kName, site, comm, OpKind::kAllreduce, plan);
}

int reduce_scatter_block(const void* site, const void* sendbuf, void* recvbuf, int recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter_block";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<ScatteredPlan>(kName, site, comm, OpKind::kReduceScatterBlock, sendbuf,
                                       recvbuf, recvcount, datatype, op);
  }
  ScatteredPlan plan;
  if (const int code = plan.check(kName, comm, sendbuf, recvbuf, recvcount, datatype, op)) {
    return code;
  }
  return run(kName, site, comm, OpKind::kReduceScatterBlock, plan);
}

int reduce_scatter(const void* site, const void* sendbuf, void* recvbuf, const int recvcounts[],
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<ScatteredPlan>(kName, site, comm, OpKind::kReduceScatter, sendbuf, recvbuf,
                                       recvcounts, datatype, op);
  }
  ScatteredPlan plan;
  if (const int code = plan.check(kName, comm, sendbuf, recvbuf, recvcounts, datatype, op)) {
    return code;
  }
  return run(kName, site, comm, OpKind::kReduceScatter, plan);
}

int reduce(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
           MPI_Op op, int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce";
  if (!is_comm(comm)) [[unlikely]] {
    return run_on_inter<ReducePlan>(kName, site, comm, OpKind::kReduce, sendbuf, recvbuf, count,
                                    datatype, op, root);
  }
  ReducePlan plan;
  if (const int code = plan.check(kName, comm, sendbuf, recvbuf, count, datatype, op, root)) {
    return code;
  }
  if (ReduceByNodesPlan::is_for(plan, comm)) [[unlikely]] {
    return run(kName, site, comm, OpKind::kReduce, ReduceByNodesPlan{plan});
  }
  return run(kName, site, comm, OpKind::kReduce, plan);
}

int scan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
         MPI_Op op, MPI_Comm comm) {
  return scan_or_exscan("MPI_Scan", site, sendbuf, recvbuf, count, datatype, op, comm, false);
}
int exscan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
           MPI_Op op, MPI_Comm comm) {
  return scan_or_exscan("MPI_Exscan", site, sendbuf, recvbuf, count, datatype, op, comm, true);
}

// --- Nonblocking

int iallreduce(const void* site, const void* sendbuf, void* recvbuf, int count,
               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<AllreducePlan>("MPI_Iallreduce", site, comm, OpKind::kIallreduce, request,
                                         sendbuf, recvbuf, count, datatype, op);
}

int ireduce_scatter_block(const void* site, const void* sendbuf, void* recvbuf, int recvcount,
                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<ScatteredPlan>("MPI_Ireduce_scatter_block", site, comm,
                                         OpKind::kIreduceScatterBlock, request, sendbuf, recvbuf,
                                         recvcount, datatype, op);
}

int ireduce_scatter(const void* site, const void* sendbuf, void* recvbuf, const int recvcounts[],
                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<ScatteredPlan>("MPI_Ireduce_scatter", site, comm, OpKind::kIreduceScatter,
                                         request, sendbuf, recvbuf, recvcounts, datatype, op);
}

int ireduce(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
            MPI_Op op, int root, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<ReducePlan>("MPI_Ireduce", site, comm, OpKind::kIreduce, request, sendbuf,
                                      recvbuf, count, datatype, op, root);
}

int iscan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
          MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<IscanPlan>("MPI_Iscan", site, comm, OpKind::kIscan, request, sendbuf,
                                     recvbuf, count, datatype, op, false);
}
int iexscan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
            MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return begin_collective<IscanPlan>("MPI_Iexscan", site, comm, OpKind::kIexscan, request, sendbuf,
                                     recvbuf, count, datatype, op, true);
}

// --- Persistent

int allreduce_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<AllreducePlan>("MPI_Allreduce_init", comm, OpKind::kIallreduce, info,
                                        request, sendbuf, recvbuf, count, datatype, op);
}

int reduce_scatter_block_init(const void* sendbuf, void* recvbuf, int recvcount,
                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                              MPI_Request* request) {
  return init_collective<ScatteredPlan>("MPI_Reduce_scatter_block_init", comm,
                                        OpKind::kIreduceScatterBlock, info, request, sendbuf,
                                        recvbuf, recvcount, datatype, op);
}

int reduce_scatter_init(const void* sendbuf, void* recvbuf, const int recvcounts[],
                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                        MPI_Request* request) {
  return init_collective<ScatteredPlan>("MPI_Reduce_scatter_init", comm, OpKind::kIreduceScatter,
                                        info, request, sendbuf, recvbuf, recvcounts, datatype, op);
}

int reduce_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<ReducePlan>("MPI_Reduce_init", comm, OpKind::kIreduce, info, request,
                                     sendbuf, recvbuf, count, datatype, op, root);
}

int scan_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
              MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<IscanPlan>("MPI_Scan_init", comm, OpKind::kIscan, info, request, sendbuf,
                                    recvbuf, count, datatype, op, false);
}

int exscan_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return init_collective<IscanPlan>("MPI_Exscan_init", comm, OpKind::kIexscan, info, request,
                                    sendbuf, recvbuf, count, datatype, op, true);
}

// --- Local

int reduce_local(const void* inbuf, void* inoutbuf, int count, MPI_Datatype datatype, MPI_Op op) {
  constexpr const char* kName = "MPI_Reduce_local";
  require_active(kName);
  BoundReduction bound;
  if (const int code = bind(kName, MPI_COMM_WORLD, count, datatype, op, &bound)) return code;
  const std::size_t bytes = reduced_bytes_of(datatype, count);
  if (const int code = check_buffer(kName, MPI_COMM_WORLD, "input", inbuf, count, datatype)) {
    return code;
  }
  if (const int code =
          check_reduction_buffers(kName, MPI_COMM_WORLD, inbuf, inoutbuf, datatype, bytes, bytes)) {
    return code;
  }
  // Values in the layout that the operation expects are combined in place; gaps do no harm here.
  const auto values = static_cast<std::size_t>(count);
  if (!is_spread(datatype)) {
    bound.get().combine(bound.get(), first_byte(datatype, inbuf), first_byte(datatype, inoutbuf),
                        first_byte(datatype, inoutbuf), values);
    return MPI_SUCCESS;
  }
  const Contribution left(datatype, inbuf, values);
  Result result(datatype, inoutbuf);
  std::byte* right = result.place_or_copy(values);
  read_operands(datatype, inoutbuf, values, right);
  bound.get().combine(bound.get(), left.data(), right, right, values);
  result.deliver(values);
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
