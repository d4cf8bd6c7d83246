// Allreduce, Reduce, Reduce_scatter, Scan, Exscan, Reduce_local.
#include "pmpi/reduction.h"

#include <string.h>

#include "api.h"
#include "engine/collectives.h"
#include "libc_recording/observed.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/inter_collectives.h"

namespace rejoin::pmpi {

void BoundReduction::call_user(const engine::Reduction& self, const void* a, const void* b,
                               void* out, std::size_t count) {
  const auto* bound = static_cast<const BoundReduction*>(self.context);
  if (out != b) memcpy(out, b, count * self.element_bytes);
  if (count == 0) return;
  // The program's function expects values at their extent, and addresses to which their bounds are
  // relative.
  MPI_Datatype type = bound->type_;
  const bool at_once = is_at_extent(type) || count == 1;
  const int length = at_once ? static_cast<int>(count) : 1;
  auto* left = static_cast<std::byte*>(const_cast<void*>(a)) - operand_offset(type);
  auto* right = static_cast<std::byte*>(out) - operand_offset(type);
  // How often an operator runs, and for whom, depends on the algorithm: what it sees is no part of
  // what the program has seen.
  const libc_recording::Unobserved unobserved;
  const auto step = static_cast<std::size_t>(length);  // the function may change `length`
  for (std::size_t i = 0; i < count; i += step) {
    int given = length;
    bound->call(left + i * self.element_bytes, right + i * self.element_bytes, &given, &type);
  }
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
                "MPI_REPLACE and MPI_NO_OP are for one-sided communication alone");
  }
  if (!type->predefined) {
    return fail(
        function, comm, MPI_ERR_OP,
        "predefined operations reduce predefined datatypes only; make one with MPI_Op_create");
  }
  return fail(function, comm, MPI_ERR_OP, "the operation is not defined for %s", type->name);
}

namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::Status;

// The whole reduced vector, at every member.
Outcome reduce_everywhere(MPI_Comm comm, const recovery::Call& call, const BoundReduction& bound,
                          const void* input, void* early) {
  recovery::ReplicatedSpec spec;
  spec.input = input;
  spec.input_bytes = call.signature.bytes;
  spec.result_bytes = call.signature.bytes;
  spec.reduction = &bound.get();
  spec.early = early;
  return context->rank->replicated(*comm->comm, call, spec);
}

int scan_or_exscan(const char* name, const void* site, const void* sendbuf, void* recvbuf,
                   int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, bool exclusive) {
  if (!is_comm(comm)) return fail_comm(name, comm);
  BoundReduction bound;
  if (const int code = bind(name, comm, count, datatype, op, &bound)) return code;
  const std::size_t bytes = reduced_bytes_of(datatype, count);
  if (const int code = check_reduction_buffers(name, comm, sendbuf, recvbuf, datatype, bytes))
    return code;
  const bool in_place = sendbuf == MPI_IN_PLACE;
  const Contribution input(datatype, in_place ? recvbuf : sendbuf, count);
  const auto kind = exclusive ? OpKind::kExscan : OpKind::kScan;
  const std::size_t piece = engine::piece_bytes(bound.get().element_bytes);
  Scratch copy(piece), inclusive(piece);
  Result result(datatype, recvbuf);
  engine::Scan algorithm(input.data(), bytes, bound.get(),
                         result.place_or_copy(static_cast<std::size_t>(count)), exclusive,
                         copy.data(), inclusive.data());
  const Status status = context->rank
                            ->channel(*comm->comm, call_of(site, kind, -1, bytes, datatype, op),
                                      input.data(), bytes, algorithm)
                            .status;
  if (status != Status::kOk) return fail_status(name, comm, status);
  if (!exclusive || comm->rank() > 0) result.deliver(static_cast<std::size_t>(count));
  return MPI_SUCCESS;
}

}  // namespace

int allreduce(const void* site, const void* sendbuf, void* recvbuf, int count,
              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allreduce";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::allreduce(site, sendbuf, recvbuf, count, datatype, op, comm)
                          : fail_comm(kName);
  }
  BoundReduction bound;
  if (const int code = bind(kName, comm, count, datatype, op, &bound)) return code;
  const std::size_t bytes = reduced_bytes_of(datatype, count);
  if (const int code = check_reduction_buffers(kName, comm, sendbuf, recvbuf, datatype, bytes))
    return code;
  const Contribution input(datatype, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count);
  const Result result(datatype, recvbuf);
  std::byte* to = result.place();
  void* early = to != nullptr && apart(input.data(), bytes, to, bytes) ? to : nullptr;
  const Outcome o = reduce_everywhere(
      comm, call_of(site, OpKind::kAllreduce, -1, bytes, datatype, op), bound, input.data(), early);
  if (o.status != Status::kOk) [[unlikely]]
    return fail_status(kName, comm, o.status);
  result.deliver(o.data(), static_cast<std::size_t>(count));
  return MPI_SUCCESS;
}

int reduce_scatter_block(const void* site, const void* sendbuf, void* recvbuf, int recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter_block";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm)
               ? inter::reduce_scatter_block(site, sendbuf, recvbuf, recvcount, datatype, op, comm)
               : fail_comm(kName);
  }
  BoundReduction bound;
  if (const int code = bind(kName, comm, recvcount, datatype, op, &bound)) return code;
  const std::size_t part = reduced_bytes_of(datatype, recvcount),
                    all = part * comm->comm->members.size;
  if (const int code = check_reduction_buffers(kName, comm, sendbuf, recvbuf, datatype, all))
    return code;
  const Contribution input(datatype, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf,
                           static_cast<std::size_t>(recvcount) * comm->comm->members.size);
  const Outcome o =
      reduce_everywhere(comm, call_of(site, OpKind::kReduceScatterBlock, -1, all, datatype, op),
                        bound, input.data(), nullptr);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  Result(datatype, recvbuf)
      .deliver(o.data() + part * comm->comm->members.rank, static_cast<std::size_t>(recvcount));
  return MPI_SUCCESS;
}

int reduce_scatter(const void* site, const void* sendbuf, void* recvbuf, const int recvcounts[],
                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce_scatter";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm)
               ? inter::reduce_scatter(site, sendbuf, recvbuf, recvcounts, datatype, op, comm)
               : fail_comm(kName);
  }
  BoundReduction bound;
  if (const int code = bind(kName, comm, 0, datatype, op, &bound)) return code;
  if (recvcounts == nullptr) {
    return fail(kName, comm, MPI_ERR_COUNT, "the receive counts are a null pointer");
  }
  std::size_t before = 0, count = 0;
  for (int i = 0; i < comm->size(); ++i) {
    if (recvcounts[i] < 0) return fail_count(kName, comm, recvcounts[i]);
    if (i == comm->rank()) before = count;
    count += static_cast<std::size_t>(recvcounts[i]);
  }
  const std::size_t bytes = count * datatype->reduced_bytes;
  if (const int code = check_reduction_buffers(kName, comm, sendbuf, recvbuf, datatype, bytes))
    return code;
  const Contribution input(datatype, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count);
  const std::uint32_t layout =
      recovery::hash_bytes(recvcounts, static_cast<std::size_t>(comm->size()) * sizeof(int));
  const Outcome o = reduce_everywhere(
      comm, call_of(site, OpKind::kReduceScatter, -1, bytes, datatype, op, layout), bound,
      input.data(), nullptr);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  Result(datatype, recvbuf)
      .deliver(o.data() + before * datatype->reduced_bytes,
               static_cast<std::size_t>(recvcounts[comm->rank()]));
  return MPI_SUCCESS;
}

int reduce(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
           MPI_Op op, int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Reduce";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::reduce(site, sendbuf, recvbuf, count, datatype, op, root, comm)
                          : fail_comm(kName);
  }
  BoundReduction bound;
  if (const int code = bind(kName, comm, count, datatype, op, &bound)) return code;
  if (const int code = check_root(kName, comm, root)) return code;
  const std::size_t bytes = reduced_bytes_of(datatype, count);
  const bool at_root = comm->rank() == root, in_place = sendbuf == MPI_IN_PLACE;
  if (const int code = at_root
                           ? check_reduction_buffers(kName, comm, sendbuf, recvbuf, datatype, bytes)
                           : check_buffer(kName, comm, "send", sendbuf, count, datatype)) {
    return code;
  }
  const Contribution input(datatype, in_place ? recvbuf : sendbuf, count);
  Result result(datatype, recvbuf);
  std::byte* to = at_root ? result.place_or_copy(static_cast<std::size_t>(count)) : nullptr;
  const bool overlaps = at_root && !apart(input.data(), bytes, to, bytes);
  Scratch copy(overlaps ? engine::piece_bytes(bound.get().element_bytes) : 0);
  engine::Reduce algorithm(static_cast<std::uint32_t>(root), input.data(), bytes, bound.get(), to,
                           overlaps ? copy.data() : nullptr);
  const Status status =
      context->rank
          ->channel(*comm->comm, call_of(site, OpKind::kReduce, root, bytes, datatype, op),
                    input.data(), at_root ? bytes : 0, algorithm)
          .status;
  if (status != Status::kOk) return fail_status(kName, comm, status);
  if (at_root) result.deliver(static_cast<std::size_t>(count));
  return MPI_SUCCESS;
}

int scan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
         MPI_Op op, MPI_Comm comm) {
  return scan_or_exscan("MPI_Scan", site, sendbuf, recvbuf, count, datatype, op, comm, false);
}
int exscan(const void* site, const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
           MPI_Op op, MPI_Comm comm) {
  return scan_or_exscan("MPI_Exscan", site, sendbuf, recvbuf, count, datatype, op, comm, true);
}

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
          check_reduction_buffers(kName, MPI_COMM_WORLD, inbuf, inoutbuf, datatype, bytes)) {
    return code;
  }
  // In place, where the values lie as the operation expects them; gaps do no harm here.
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
