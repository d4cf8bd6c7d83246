// Broadcast, Allgather and Allreduce, implemented with MPI. Without a job they are those of a world
// of one.
#include <limits.h>
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "rabit/state.h"
#include "rabit/types.h"
#include "rejoin.h"

namespace rabit::internal {
namespace {

using engine::mpi::DataType;
using engine::mpi::OpType;

// The most elements in one MPI call, whose counts are int.
constexpr std::size_t kMostElements = INT_MAX;

// A datatype of `size` bytes, for elements that MPI has no type for.
class ElementType {
 public:
  explicit ElementType(std::size_t size) {
    if (size > kMostElements) fail("an element has %zu bytes; the maximum is %d", size, INT_MAX);
    MPI_Type_contiguous(static_cast<int>(size), MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
  }
  ~ElementType() { MPI_Type_free(&type_); }
  ElementType(const ElementType&) = delete;
  ElementType& operator=(const ElementType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// The user's reduction of the Allreduce that is under way. MPI passes no argument of the user to
// the function of an operation, so it is in a variable; one Allreduce runs at a time.
struct UserReduction {
  ReduceFunction function;
  std::size_t element_size;
};
UserReduction user_reduction;

extern "C" void reduce_for_mpi(void* source, void* target, int* count, MPI_Datatype*) {
  user_reduction.function(source, target, *count, user_reduction.element_size);
}

MPI_Op user_operation() {
  static const MPI_Op operation = [] {
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(&reduce_for_mpi, 1, &made);
    return made;
  }();
  return operation;
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::kChar:
      return MPI_SIGNED_CHAR;  // MPI_CHAR is for text, and cannot be reduced
    case DataType::kUChar:
      return MPI_UNSIGNED_CHAR;
    case DataType::kInt:
      return MPI_INT;
    case DataType::kUInt:
      return MPI_UNSIGNED;
    case DataType::kLong:
      return MPI_LONG;
    case DataType::kULong:
      return MPI_UNSIGNED_LONG;
    case DataType::kFloat:
      return MPI_FLOAT;
    case DataType::kDouble:
      return MPI_DOUBLE;
    case DataType::kLongLong:
      return MPI_LONG_LONG;
    case DataType::kULongLong:
      return MPI_UNSIGNED_LONG_LONG;
  }
  fail("Allreduce: unknown element type %d", static_cast<int>(type));
}

MPI_Op mpi_operation(OpType operation) {
  switch (operation) {
    case OpType::kMax:
      return MPI_MAX;
    case OpType::kMin:
      return MPI_MIN;
    case OpType::kSum:
      return MPI_SUM;
    case OpType::kBitwiseOR:
      return MPI_BOR;
  }
  fail("Allreduce: unknown operator %d", static_cast<int>(operation));
}

void allreduce_in_place(void* data, std::size_t element_size, std::size_t count, MPI_Datatype type,
                        MPI_Op reduction, Prepare prepare, const Operation& operation) {
  if (prepare.function != nullptr && count > kMostElements) {
    // The reduction is made in pieces. A restarted rank may find the first piece in the journal and
    // not the second, when it is too late to prepare.
    prepare.function(prepare.argument);
    prepare.function = nullptr;
  }
  std::size_t done = 0;
  do {
    const std::size_t part = std::min(count - done, kMostElements);
    operation.announce();
    if (prepare.function != nullptr) rejoin_prepare(prepare.function, prepare.argument);
    MPI_Allreduce(MPI_IN_PLACE, static_cast<char*>(data) + done * element_size,
                  static_cast<int>(part), type, reduction, MPI_COMM_WORLD);
    done += part;
  } while (done < count);
}

struct Slice {
  std::size_t begin;
  std::size_t size;
  std::size_t previous_size;  // the size of the slice before, as this rank's caller passed it
};

void check_slices(const std::vector<Slice>& slices, std::size_t total) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    if (slice.size > total || slice.begin > total - slice.size) {
      fail(
          "Allgather: rank %zu's slice of %zu elements from %zu on is not within the %zu elements "
          "of the array; the fourth argument is the slice's size, not its end",
          i, slice.size, slice.begin, total);
    }
    const std::size_t previous = (i + slices.size() - 1) % slices.size();
    if (slice.previous_size != slices[previous].size) {
      fail(
          "Allgather: rank %zu says that the slice of rank %zu before it has %zu elements, but it "
          "has %zu",
          i, previous, slice.previous_size, slices[previous].size);
    }
  }
}

}  // namespace

void broadcast(void* data, std::size_t size, int root, const Caller& caller) {
  const Operation operation("broadcast", 1, size, caller);
  if (root < 0 || root >= state.world_size) {
    fail("Broadcast: root %d is not one of the ranks 0 to %d", root, state.world_size - 1);
  }
  if (!state.is_joined) return;
  std::size_t done = 0;
  do {
    const std::size_t part = std::min(size - done, kMostElements);
    operation.announce();
    MPI_Bcast(static_cast<char*>(data) + done, static_cast<int>(part), MPI_BYTE, root,
              MPI_COMM_WORLD);
    done += part;
  } while (done < size);
}

void allgather(void* data, std::size_t element_size, std::size_t total, std::size_t begin,
               std::size_t size, std::size_t previous_size, const Caller& caller) {
  const Operation operation("allgather", element_size, total, caller);
  if (total > kMostElements)
    fail("Allgather: there are %zu elements; the maximum is %d", total, INT_MAX);
  std::vector<Slice> slices(static_cast<std::size_t>(state.world_size));
  slices[static_cast<std::size_t>(state.rank)] = {begin, size, previous_size};
  if (state.is_joined) {
    operation.announce();
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, slices.data(), sizeof(Slice), MPI_BYTE,
                  MPI_COMM_WORLD);
  }
  check_slices(slices, total);
  if (!state.is_joined) return;
  std::vector<int> sizes, begins;
  for (const Slice& slice : slices) {
    sizes.push_back(static_cast<int>(slice.size));
    begins.push_back(static_cast<int>(slice.begin));
  }
  const ElementType type(element_size);
  operation.announce();
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, sizes.data(), begins.data(), type.get(),
                 MPI_COMM_WORLD);
}

void allreduce(void* data, std::size_t count, DataType type, OpType reduction, Prepare prepare,
               const Caller& caller) {
  const MPI_Datatype element = mpi_type(type);
  const MPI_Op op = mpi_operation(reduction);
  const std::size_t size = element_size(type);
  const Operation operation("allreduce", size, count, caller);
  if (state.is_joined) {
    allreduce_in_place(data, size, count, element, op, prepare, operation);
  } else if (prepare.function != nullptr) {
    prepare.function(prepare.argument);
  }
}

void allreduce_with(void* data, std::size_t element_size, std::size_t count, ReduceFunction reduce,
                    Prepare prepare, const Caller& caller) {
  const Operation operation("allreduce", element_size, count, caller);
  if (state.is_joined) {
    const ElementType type(element_size);
    user_reduction = {reduce, element_size};
    allreduce_in_place(data, element_size, count, type.get(), user_operation(), prepare, operation);
  } else if (prepare.function != nullptr) {
    prepare.function(prepare.argument);
  }
}

}  // namespace rabit::internal
