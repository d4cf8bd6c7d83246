// Barrier, Bcast, Allgather, Allgatherv: what every member gets is the same.
#include "api.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Outcome;
using recovery::ReplicatedSpec;
using recovery::Status;

// What a rank sends must be what the others expect of it.
int check_block(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent == expected) return MPI_SUCCESS;
  return fail(name, comm, sent > expected ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT,
              "this rank sends %zu bytes and says that each rank receives %zu from it", sent,
              expected);
}

}  // namespace

int barrier(const void* site, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Barrier";
  if (!is_any_comm(comm)) [[unlikely]]
    return fail_comm(kName);
  const Status status =
      context->rank->replicated(*comm->comm, call_of(site, OpKind::kBarrier, -1, 0), {}).status;
  return status == Status::kOk ? MPI_SUCCESS : fail_status(kName, comm, status);
}

int bcast(const void* site, void* buffer, int count, MPI_Datatype datatype, int root,
          MPI_Comm comm) {
  constexpr const char* kName = "MPI_Bcast";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::bcast(site, buffer, count, datatype, root, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_buffer(kName, comm, "message", buffer, count, datatype)) return code;
  if (const int code = check_root(kName, comm, root)) return code;
  const std::size_t bytes = bytes_of(datatype, count);
  const bool at_root = comm->rank() == root;
  const PackedInput input(datatype, buffer, at_root ? static_cast<std::size_t>(count) : 0);
  ReplicatedSpec spec;
  spec.input = at_root ? input.data() : nullptr;
  spec.input_bytes = at_root ? bytes : 0;
  spec.result_bytes = bytes;
  spec.early = at_root || !is_contiguous(datatype) ? nullptr : first_byte(datatype, buffer);
  const Outcome o =
      context->rank->replicated(*comm->comm, call_of(site, OpKind::kBcast, root, bytes), spec);
  if (o.status != Status::kOk) [[unlikely]]
    return fail_status(kName, comm, o.status);
  // What a replayed root brings may be something else than what everybody was given then.
  const bool given = !at_root || o.replaces_input;
  if (given) put_values(datatype, o.data(), bytes, buffer);
  return MPI_SUCCESS;
}

int allgather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
              void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allgather";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::allgather(site, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                             recvtype, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_buffer(kName, comm, "receive", recvbuf, recvcount, recvtype)) {
    return code;
  }
  const std::size_t block = bytes_of(recvtype, recvcount), all = block * comm->comm->members.size;
  const bool in_place = sendbuf == MPI_IN_PLACE;
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
    if (const int code = check_block(kName, comm, bytes_of(sendtype, sendcount), block))
      return code;
  }
  const std::ptrdiff_t mine = std::ptrdiff_t{comm->rank()} * recvcount;
  const PackedInput input =
      in_place ? PackedInput(recvtype, value_at(recvbuf, recvtype, mine),
                             static_cast<std::size_t>(recvcount))
               : PackedInput(sendtype, sendbuf, static_cast<std::size_t>(sendcount));
  std::byte* to = is_contiguous(recvtype) ? first_byte(recvtype, recvbuf) : nullptr;
  ReplicatedSpec spec;
  spec.input = input.data();
  spec.input_bytes = block;
  spec.result_bytes = all;
  spec.early = to != nullptr && apart(spec.input, block, to, all) ? to : nullptr;
  const Outcome o =
      context->rank->replicated(*comm->comm, call_of(site, OpKind::kAllgather, -1, block), spec);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  put_values(recvtype, o.data(), all, recvbuf);
  return MPI_SUCCESS;
}

int allgatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
               void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
               MPI_Comm comm) {
  constexpr const char* kName = "MPI_Allgatherv";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::allgatherv(site, sendbuf, sendcount, sendtype, recvbuf,
                                              recvcounts, displs, recvtype, comm)
                          : fail_comm(kName);
  }
  if (const int code =
          check_counts(kName, comm, "receive", recvbuf, recvcounts, displs, recvtype)) {
    return code;
  }
  const std::uint32_t n = comm->comm->members.size, me = comm->comm->members.rank;
  Scratch offsets((n + 1) * sizeof(std::size_t));
  auto* begin = offsets.as<std::size_t>();
  begin[0] = 0;
  for (std::uint32_t i = 0; i < n; ++i) begin[i + 1] = begin[i] + bytes_of(recvtype, recvcounts[i]);
  const auto place = [&](std::uint32_t i) { return value_at(recvbuf, recvtype, displs[i]); };
  const std::size_t block = begin[me + 1] - begin[me];
  const bool in_place = sendbuf == MPI_IN_PLACE;
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
    if (const int code = check_block(kName, comm, bytes_of(sendtype, sendcount), block))
      return code;
  }
  bool packed = is_contiguous(recvtype);
  for (std::uint32_t i = 0; i < n; ++i) packed &= place(i) == place(0) + begin[i];
  std::byte* to = packed ? first_byte(recvtype, place(0)) : nullptr;
  const PackedInput input =
      in_place ? PackedInput(recvtype, place(me), static_cast<std::size_t>(recvcounts[me]))
               : PackedInput(sendtype, sendbuf, static_cast<std::size_t>(sendcount));
  ReplicatedSpec spec;
  spec.input = input.data();
  spec.input_bytes = block;
  spec.result_bytes = begin[n];
  spec.blocks = begin;
  spec.early = to != nullptr && apart(spec.input, block, to, begin[n]) ? to : nullptr;
  const std::uint32_t layout = recovery::hash_bytes(begin, (n + 1) * sizeof *begin);
  const Outcome o = context->rank->replicated(
      *comm->comm, call_of(site, OpKind::kAllgatherv, -1, begin[n], layout), spec);
  if (o.status != Status::kOk) return fail_status(kName, comm, o.status);
  if (o.at == spec.early && spec.early != nullptr) return MPI_SUCCESS;
  const std::byte* result = o.data();
  for (std::uint32_t i = 0; i < n; ++i) {
    put_values(recvtype, result + begin[i], begin[i + 1] - begin[i], place(i));
  }
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
