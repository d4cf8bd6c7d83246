// Gather(v), Scatter(v), Alltoall(v, w): every member gets something else.
#include "api.h"
#include "engine/collectives.h"
#include "pmpi/buffers.h"
#include "pmpi/call.h"
#include "pmpi/inter_collectives.h"
#include "pmpi/packed.h"

namespace rejoin::pmpi {
namespace {

using recovery::OpKind;
using recovery::Status;

// A block as the engine wants it.
struct Block {
  std::byte* data;  // of one that is sent: without gaps. Else only whether there is one.
  std::size_t bytes;
  MPI_Datatype type;
  void* values;

  void put(const std::byte* from, std::size_t size) const { put_values(type, from, size, values); }
};

Block block_of(void* values, int count, MPI_Datatype type) {
  return {first_byte(type, values), bytes_of(type, count), type, values};
}

// The blocks of one buffer, one per member.
struct Blocks {
  void* buffer;
  MPI_Datatype type;
  int count;          // of each block, if counts is null
  const int* counts;  // in values
  const int* displs;  // in extents; in bytes if types is not null
  const MPI_Datatype* types = nullptr;
  std::byte* packed = nullptr;  // where a block with gaps is packed when it is asked for

  MPI_Datatype type_of(std::uint32_t i) const { return types != nullptr ? types[i] : type; }
  int count_of(std::uint32_t i) const { return counts != nullptr ? counts[i] : count; }
  std::size_t bytes(std::uint32_t i) const { return bytes_of(type_of(i), count_of(i)); }
  std::byte* values(std::uint32_t i) const {
    if (types != nullptr) return static_cast<std::byte*>(buffer) + displs[i];
    return value_at(buffer, type, displs != nullptr ? displs[i] : std::ptrdiff_t{i} * count);
  }

  Block operator()(std::uint32_t i) const {
    Block block = block_of(values(i), count_of(i), type_of(i));
    if (packed != nullptr && !is_contiguous(block.type)) {
      pack(block.type, block.values, static_cast<std::size_t>(count_of(i)), packed);
      block.data = packed;
    }
    return block;
  }
  // Before blocks are sent. A message is copied when it is sent, so memory for one is enough.
  void reserve(std::uint32_t members, Scratch* memory) {
    std::size_t most = 0;
    for (std::uint32_t i = 0; i < members; ++i) {
      if (!is_contiguous(type_of(i)) && bytes(i) > most) most = bytes(i);
    }
    if (most > 0) packed = memory->reserve(most);
  }
};

void* buffer_of(const void* program_memory) { return const_cast<void*>(program_memory); }

// What is sent is compared message by message, so the operation needs no fingerprint. `bytes`: of a
// block where all are equal, else 0.
template <class Algorithm>
int run(const char* name, const void* site, MPI_Comm comm, OpKind kind, int root, std::size_t bytes,
        Algorithm algorithm) {
  const Status status =
      context->rank->channel(*comm->comm, call_of(site, kind, root, bytes), nullptr, 0, algorithm)
          .status;
  return status == Status::kOk ? MPI_SUCCESS : fail_status(name, comm, status);
}

// What a rank sends to itself must fit what it expects of itself.
int check_own(const char* name, MPI_Comm comm, std::size_t sent, std::size_t expected) {
  if (sent <= expected) return MPI_SUCCESS;
  return fail(name, comm, MPI_ERR_TRUNCATE,
              "this rank sends itself %zu bytes but receives only %zu", sent, expected);
}

int gather_blocks(const char* name, const void* site, MPI_Comm comm, OpKind kind, int root,
                  std::size_t common, const void* own, std::size_t own_bytes,
                  const Blocks& places) {
  return run(name, site, comm, kind, root, common,
             engine::Gather(static_cast<std::uint32_t>(root), own, own_bytes, places));
}

int scatter_blocks(const char* name, const void* site, MPI_Comm comm, OpKind kind, int root,
                   std::size_t common, const Block& own, Blocks places) {
  Scratch memory;
  if (comm->rank() == root) places.reserve(comm->comm->members.size, &memory);
  return run(name, site, comm, kind, root, common,
             engine::Scatter(static_cast<std::uint32_t>(root), own, places));
}

int alltoall_blocks(const char* name, const void* site, MPI_Comm comm, OpKind kind,
                    std::size_t common, Blocks out, const Blocks& in) {
  const auto me = comm->comm->members.rank;
  if (const int code = check_own(name, comm, out.bytes(me), in.bytes(me))) return code;
  Scratch memory;
  out.reserve(comm->comm->members.size, &memory);
  return run(name, site, comm, kind, -1, common, engine::Alltoall(out, in));
}

}  // namespace

int gather(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
           void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Gather";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::gather(site, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                          recvtype, root, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_root(kName, comm, root)) return code;
  const bool at_root = comm->rank() == root, in_place = at_root && sendbuf == MPI_IN_PLACE;
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
  }
  if (at_root) {
    if (const int code = check_buffer(kName, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
  }
  const std::size_t own = in_place ? 0 : bytes_of(sendtype, sendcount);
  const std::size_t common = at_root ? bytes_of(recvtype, recvcount) : own;
  if (const int code = check_own(kName, comm, own, common)) return code;
  const PackedInput input(in_place ? MPI_BYTE : sendtype, sendbuf,
                          in_place ? 0 : static_cast<std::size_t>(sendcount));
  return gather_blocks(kName, site, comm, OpKind::kGather, root, common,
                       in_place ? nullptr : input.data(), own,
                       {buffer_of(recvbuf), recvtype, recvcount, nullptr, nullptr});
}

int gatherv(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
            int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Gatherv";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::gatherv(site, sendbuf, sendcount, sendtype, recvbuf, recvcounts,
                                           displs, recvtype, root, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_root(kName, comm, root)) return code;
  const bool at_root = comm->rank() == root, in_place = at_root && sendbuf == MPI_IN_PLACE;
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
  }
  const std::size_t own = in_place ? 0 : bytes_of(sendtype, sendcount);
  if (at_root) {
    if (const int code =
            check_counts(kName, comm, "receive", recvbuf, recvcounts, displs, recvtype)) {
      return code;
    }
    if (const int code = check_own(kName, comm, own, bytes_of(recvtype, recvcounts[root]))) {
      return code;
    }
  }
  const PackedInput input(in_place ? MPI_BYTE : sendtype, sendbuf,
                          in_place ? 0 : static_cast<std::size_t>(sendcount));
  return gather_blocks(kName, site, comm, OpKind::kGatherv, root, 0,
                       in_place ? nullptr : input.data(), own,
                       {buffer_of(recvbuf), recvtype, 0, recvcounts, displs});
}

int scatter(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
            void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Scatter";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::scatter(site, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                           recvtype, root, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_root(kName, comm, root)) return code;
  const bool at_root = comm->rank() == root, in_place = at_root && recvbuf == MPI_IN_PLACE;
  if (at_root) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
  }
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
  }
  const std::size_t own = in_place ? 0 : bytes_of(recvtype, recvcount);
  const std::size_t common = at_root ? bytes_of(sendtype, sendcount) : own;
  if (at_root && !in_place) {
    if (const int code = check_own(kName, comm, common, own)) return code;
  }
  return scatter_blocks(kName, site, comm, OpKind::kScatter, root, common,
                        in_place ? Block{} : block_of(recvbuf, recvcount, recvtype),
                        {buffer_of(sendbuf), sendtype, sendcount, nullptr, nullptr});
}

int scatterv(const void* site, const void* sendbuf, const int sendcounts[], const int displs[],
             MPI_Datatype sendtype, void* recvbuf, int recvcount, MPI_Datatype recvtype, int root,
             MPI_Comm comm) {
  constexpr const char* kName = "MPI_Scatterv";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::scatterv(site, sendbuf, sendcounts, displs, sendtype, recvbuf,
                                            recvcount, recvtype, root, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_root(kName, comm, root)) return code;
  const bool at_root = comm->rank() == root, in_place = at_root && recvbuf == MPI_IN_PLACE;
  if (!in_place) {
    if (const int code = check_buffer(kName, comm, "receive", recvbuf, recvcount, recvtype)) {
      return code;
    }
  }
  const std::size_t own = in_place ? 0 : bytes_of(recvtype, recvcount);
  if (at_root) {
    if (const int code = check_counts(kName, comm, "send", sendbuf, sendcounts, displs, sendtype)) {
      return code;
    }
    const std::size_t sent = in_place ? 0 : bytes_of(sendtype, sendcounts[root]);
    if (const int code = check_own(kName, comm, sent, own)) return code;
  }
  return scatter_blocks(kName, site, comm, OpKind::kScatterv, root, 0,
                        in_place ? Block{} : block_of(recvbuf, recvcount, recvtype),
                        {buffer_of(sendbuf), sendtype, 0, sendcounts, displs});
}

int alltoall(const void* site, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Alltoall";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::alltoall(site, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                            recvtype, comm)
                          : fail_comm(kName);
  }
  if (const int code = check_buffer(kName, comm, "receive", recvbuf, recvcount, recvtype)) {
    return code;
  }
  const Blocks in = {buffer_of(recvbuf), recvtype, recvcount, nullptr, nullptr};
  Blocks out = in;
  if (sendbuf != MPI_IN_PLACE) {
    if (const int code = check_buffer(kName, comm, "send", sendbuf, sendcount, sendtype))
      return code;
    out = {buffer_of(sendbuf), sendtype, sendcount, nullptr, nullptr};
  }
  return alltoall_blocks(kName, site, comm, OpKind::kAlltoall, bytes_of(recvtype, recvcount), out,
                         in);
}

int alltoallv(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
              MPI_Datatype recvtype, MPI_Comm comm) {
  constexpr const char* kName = "MPI_Alltoallv";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::alltoallv(site, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                             recvcounts, rdispls, recvtype, comm)
                          : fail_comm(kName);
  }
  if (const int code =
          check_counts(kName, comm, "receive", recvbuf, recvcounts, rdispls, recvtype)) {
    return code;
  }
  const Blocks in = {buffer_of(recvbuf), recvtype, 0, recvcounts, rdispls};
  Blocks out = in;
  if (sendbuf != MPI_IN_PLACE) {
    if (const int code =
            check_counts(kName, comm, "send", sendbuf, sendcounts, sdispls, sendtype)) {
      return code;
    }
    out = {buffer_of(sendbuf), sendtype, 0, sendcounts, sdispls};
  }
  return alltoall_blocks(kName, site, comm, OpKind::kAlltoallv, 0, out, in);
}

int alltoallw(const void* site, const void* sendbuf, const int sendcounts[], const int sdispls[],
              const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
              const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm) {
  constexpr const char* kName = "MPI_Alltoallw";
  if (!is_comm(comm)) [[unlikely]] {
    return is_inter(comm) ? inter::alltoallw(site, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                             recvcounts, rdispls, recvtypes, comm)
                          : fail_comm(kName);
  }
  const auto check = [&](const char* what, const void* buffer, const int counts[],
                         const int displs[], const MPI_Datatype types[]) {
    if (types == nullptr) {
      return fail(kName, comm, MPI_ERR_TYPE, "the %s datatypes are a null pointer", what);
    }
    if (counts == nullptr || displs == nullptr) {
      return check_counts(kName, comm, what, buffer, counts, displs, MPI_BYTE);
    }
    for (int i = 0; i < comm->size(); ++i) {
      if (const int code = check_buffer(kName, comm, what, buffer, counts[i], types[i]))
        return code;
    }
    return MPI_SUCCESS;
  };
  if (const int code = check("receive", recvbuf, recvcounts, rdispls, recvtypes)) return code;
  const Blocks in = {buffer_of(recvbuf), MPI_DATATYPE_NULL, 0, recvcounts, rdispls, recvtypes};
  Blocks out = in;
  if (sendbuf != MPI_IN_PLACE) {
    if (const int code = check("send", sendbuf, sendcounts, sdispls, sendtypes)) return code;
    out = {buffer_of(sendbuf), MPI_DATATYPE_NULL, 0, sendcounts, sdispls, sendtypes};
  }
  return alltoall_blocks(kName, site, comm, OpKind::kAlltoallw, 0, out, in);
}

}  // namespace rejoin::pmpi
