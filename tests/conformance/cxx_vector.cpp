// Conformance of C++ programs: calls the C interface with std::vector, in a program linked by
// mpicxx, which also needs libmpi_cxx.so.40. Constructors and destructors of static objects call
// MPI, too.

#include <mpi.h>

#include <algorithm>
#include <complex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

namespace {

/** An object that owns a communicator. */
class OwnedComm {
 public:
  OwnedComm(MPI_Comm parent, int color) {
    OK(MPI_Comm_split(parent, color, check_state.rank, &comm_));
  }
  OwnedComm(const OwnedComm&) = delete;
  OwnedComm& operator=(const OwnedComm&) = delete;
  ~OwnedComm() { MPI_Comm_free(&comm_); }
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/** Calls MPI_Initialized and the like before MPI_Init and after MPI_Finalize, as static objects
 * may. */
struct StaticObserver {
  StaticObserver() { MPI_Initialized(&initialized_before_main); }
  int initialized_before_main = -1;
} static_observer;

template <typename T>
void test_sum(MPI_Datatype type, const char* name) {
  for (int count : {0, 1, 3, 17, 1000, 30000}) {
    check_context("sum of %d %s", count, name);
    std::vector<T> in(count);
    std::vector<T> out(count);
    for (int i = 0; i < count; ++i) in[i] = T(pattern(check_state.rank, 1, i) % 16);
    OK(MPI_Allreduce(in.data(), out.data(), count, type, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; ++i) {
      int expected = 0;
      for (int r = 0; r < check_state.size; ++r) expected += pattern(r, 1, i) % 16;
      check_true("sum", out[i] == T(expected));
      if (i % 100 == 0) check_i64("sum", expected, (long long)std::real(out[i]));
    }
  }
  check_section(name);
}

void test_bool() {
  check_context("bool");
  bool mine = check_state.rank == check_state.size - 1;
  bool any = false;
  bool all = true;
  OK(MPI_Allreduce(&mine, &any, 1, MPI_CXX_BOOL, MPI_LOR, MPI_COMM_WORLD));
  OK(MPI_Allreduce(&mine, &all, 1, MPI_CXX_BOOL, MPI_LAND, MPI_COMM_WORLD));
  check_true("any", any);
  check_i64("all", check_state.size == 1, all);
  check_section("bool");
}

/** Gathers strings of different length at all ranks, and sorts them. */
void test_strings() {
  check_context("strings");
  std::string mine = "rank " + std::string(static_cast<std::size_t>(check_state.rank), '*');
  int length = static_cast<int>(mine.size());
  std::vector<int> lengths(check_state.size);
  std::vector<int> offsets(check_state.size);
  OK(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD));
  std::partial_sum(lengths.begin(), lengths.end() - 1, offsets.begin() + 1);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '?');
  OK(MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                    MPI_CHAR, MPI_COMM_WORLD));
  std::string expected;
  for (int r = 0; r < check_state.size; ++r) {
    expected += "rank " + std::string(static_cast<std::size_t>(r), '*');
  }
  check_text("all strings", expected.c_str(), all.c_str());
  check_section("strings");
}

/** MPI is usable after an exception has destroyed objects that own MPI handles. */
void test_exception() {
  check_context("exception");
  int caught = 0;
  try {
    OwnedComm half(MPI_COMM_WORLD, check_state.rank % 2);
    int one = 1;
    int members = 0;
    OK(MPI_Allreduce(&one, &members, 1, MPI_INT, MPI_SUM, half.get()));
    throw std::runtime_error(std::to_string(members));
  } catch (const std::runtime_error& error) {
    caught = std::stoi(error.what());
  }
  check_i64("members", (check_state.size + 1 - check_state.rank % 2) / 2, caught);
  std::vector<int> everybody(check_state.size);
  OK(MPI_Allgather(&caught, 1, MPI_INT, everybody.data(), 1, MPI_INT, MPI_COMM_WORLD));
  check_i64("largest half", (check_state.size + 1) / 2,
            *std::max_element(everybody.begin(), everybody.end()));
  check_section("exception");
}

}  // namespace

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  check_i64("initialised before main", 0, static_observer.initialized_before_main);
  test_sum<int>(MPI_INT, "int");
  test_sum<long long>(MPI_LONG_LONG, "long long");
  test_sum<double>(MPI_DOUBLE, "double");
  test_sum<std::complex<float>>(MPI_CXX_FLOAT_COMPLEX, "complex float");
  test_sum<std::complex<double>>(MPI_CXX_DOUBLE_COMPLEX, "complex double");
  test_bool();
  test_strings();
  test_exception();
  return check_end();
}
