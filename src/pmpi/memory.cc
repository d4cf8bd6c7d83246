// Addresses, and memory that the program asks MPI for.
#include "api.h"
#include "pmpi/context.h"
#include "pmpi/errors.h"

namespace rejoin::pmpi {

int get_address(const void* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}
int address(void* location, MPI_Aint* to) { return get_address(location, to); }
MPI_Aint aint_add(MPI_Aint base, MPI_Aint disp) { return base + disp; }
MPI_Aint aint_diff(MPI_Aint addr1, MPI_Aint addr2) { return addr1 - addr2; }

int alloc_mem(MPI_Aint size, MPI_Info, void* baseptr) {
  constexpr const char* kName = "MPI_Alloc_mem";
  require_active(kName);
  if (size < 0) return fail(kName, MPI_COMM_WORLD, MPI_ERR_ARG, "the size is negative");
  // MPI_Free_mem needs the size, which is in the cache line before the memory.
  const std::size_t bytes = static_cast<std::size_t>(size) + journal::kLine;
  void* memory = context->rank->arena().allocate(bytes);
  if (memory == nullptr) {
    return fail(kName, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "no memory for %lld bytes",
                static_cast<long long>(size));
  }
  *static_cast<std::size_t*>(memory) = bytes;
  *static_cast<void**>(baseptr) = static_cast<std::byte*>(memory) + journal::kLine;
  return MPI_SUCCESS;
}

int free_mem(void* base) {
  require_active("MPI_Free_mem");
  if (base == nullptr) return MPI_SUCCESS;
  std::byte* memory = static_cast<std::byte*>(base) - journal::kLine;
  release(memory, *reinterpret_cast<std::size_t*>(memory));
  return MPI_SUCCESS;
}

}  // namespace rejoin::pmpi
