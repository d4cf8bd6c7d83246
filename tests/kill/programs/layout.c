// Reductions under ftrun --layout: every result has the bits of the documented order
// (engine/fold.h), whichever function computes it; and broadcasts. layout RANKS,... [ROUNDS]
// [node]: the layout that ftrun was given; node: with --map-by node.
#include <mpi.h>

#include "../../conformance/check.h"

enum { kMostRanks = 64, kMostCount = 40001, kBlock = 16, kAtOnce = 4 };

static int node_of_rank[kMostRanks];

static void read_layout(const char* text, int by_node) {
  long on_node[kMostRanks];
  int nodes = 0, ranks = 0;
  for (; *text != '\0' && nodes < kMostRanks; ++nodes) {
    char* end;
    on_node[nodes] = strtol(text, &end, 10);
    text = *end == ',' ? end + 1 : end;
  }
  for (int node = 0; node < nodes && !by_node; ++node) {
    for (; on_node[node] > 0 && ranks < kMostRanks; --on_node[node]) node_of_rank[ranks++] = node;
  }
  for (int before = -1; before != ranks;) {
    before = ranks;
    for (int node = 0; node < nodes; ++node) {
      if (on_node[node]-- > 0 && ranks < kMostRanks) node_of_rank[ranks++] = node;
    }
  }
  check_i64("ranks of the layout", check_state.size, ranks);
}

// --- Values whose sums and products depend on how they are nested.

typedef struct {
  double at[4];
} Matrix;

static double number(int rank, int index) {
  const int exponent = 3 * ((rank * 5 + index) % 11) - 15;
  double value = pattern(rank, 3, index) / 7.0;
  for (int i = 0; i < exponent; ++i) value *= 2;
  for (int i = exponent; i < 0; ++i) value /= 2;
  return value;
}
static Matrix matrix(int rank, int index) {
  Matrix m;
  for (int i = 0; i < 4; ++i) m.at[i] = 1 + pattern(rank, i, index) / 3000.0;
  return m;
}

static double plus(double a, double b) { return a + b; }
static Matrix times(Matrix a, Matrix b) {
  Matrix c;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      c.at[2 * i + j] = a.at[2 * i] * b.at[j] + a.at[2 * i + 1] * b.at[2 + j];
    }
  }
  return c;
}
static void add_user(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) {
    ((double*)inout)[i] = plus(((double*)in)[i], ((double*)inout)[i]);
  }
}
static void multiply_user(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) {
    ((Matrix*)inout)[i] = times(((Matrix*)in)[i], ((Matrix*)inout)[i]);
  }
}

// --- The documented order

// Members of a communicator: their ranks in the world.
typedef struct {
  MPI_Comm comm;
  int rank, size;
  int world[kMostRanks];
} Members;

static int sums_differ, products_differ;  // from those of a job of one node

// Sum over the members of one node, from `first` on.
static double sum_of_node(const Members* m, int first, int index) {
  int last = -1;
  double sum = 0;
  for (int i = m->size - 1; i >= first; --i) {
    if (node_of_rank[m->world[i]] != node_of_rank[m->world[first]]) continue;
    sum = last < 0 ? number(m->world[i], index) : plus(number(m->world[i], index), sum);
    last = i;
  }
  return sum;
}
static double sum_by_layout(const Members* m, int index) {
  int firsts[kMostRanks];  // the lowest member of each node
  int nodes = 0;
  for (int i = 0; i < m->size; ++i) {
    int known = 0;
    for (int k = 0; k < nodes; ++k) {
      known |= node_of_rank[m->world[firsts[k]]] == node_of_rank[m->world[i]];
    }
    if (!known) firsts[nodes++] = i;
  }
  double all = 0;
  for (int block = (nodes - 1) / kBlock * kBlock; block >= 0; block -= kBlock) {
    const int end = block + kBlock < nodes ? block + kBlock : nodes;
    double sum = sum_of_node(m, firsts[end - 1], index);
    for (int k = end - 2; k >= block; --k) sum = plus(sum_of_node(m, firsts[k], index), sum);
    all = end == nodes ? sum : plus(sum, all);
  }
  double linear = number(m->world[m->size - 1], index);
  for (int i = m->size - 2; i >= 0; --i) linear = plus(number(m->world[i], index), linear);
  sums_differ += linear != all;
  return all;
}
static Matrix product_by_layout(const Members* m, int index) {
  Matrix all;
  for (int end = m->size; end > 0;) {
    int begin = end - 1;
    Matrix run = matrix(m->world[begin], index);
    while (begin > 0 && node_of_rank[m->world[begin - 1]] == node_of_rank[m->world[end - 1]]) {
      --begin;
      run = times(matrix(m->world[begin], index), run);
    }
    all = end == m->size ? run : times(run, all);
    end = begin;
  }
  Matrix linear = matrix(m->world[m->size - 1], index);
  for (int i = m->size - 2; i >= 0; --i) linear = times(matrix(m->world[i], index), linear);
  products_differ += memcmp(&linear, &all, sizeof all) != 0;
  return all;
}

// --- Checks

static double input[kMostCount], output[kMostCount], several[2 * kAtOnce * kMostCount];
static Matrix inputs[kMostCount / 8], outputs[kMostCount / 8];

static void require_bits(const char* what, const void* expected, const void* got, size_t bytes) {
  check_true(what, memcmp(expected, got, bytes) == 0);
}
// Requires got[i] to be the sum of index from + i.
static void require_sums(const char* what, const Members* m, const double* got, int from,
                         int count) {
  const int step = count > 200 ? count / 97 : 1;
  for (int i = 0; i < count; i += step) {
    const double expected = sum_by_layout(m, from + i);
    check_context("%s, element %d of %d, %d members", what, i, count, m->size);
    require_bits("bits", &expected, &got[i], sizeof expected);
  }
}

static void check_sums(const Members* m, int count, MPI_Op op) {
  for (int i = 0; i < count; ++i) input[i] = number(m->world[m->rank], i);
  OK(MPI_Allreduce(input, output, count, MPI_DOUBLE, op, m->comm));
  require_sums("Allreduce", m, output, 0, count);
  for (int i = 0; i < count; ++i) output[i] = input[i];
  OK(MPI_Allreduce(MPI_IN_PLACE, output, count, MPI_DOUBLE, op, m->comm));
  require_sums("Allreduce in place", m, output, 0, count);
  // Several at once, of other values, with another reduction in between.
  MPI_Request requests[kAtOnce];
  for (int k = 0; k < kAtOnce; ++k) {
    double* values = several + (size_t)(2 * k) * kMostCount;
    for (int i = 0; i < count; ++i) values[i] = number(m->world[m->rank], i + k);
    OK(MPI_Iallreduce(values, values + kMostCount, count, MPI_DOUBLE, op, m->comm, &requests[k]));
    if (k == 1) OK(MPI_Allreduce(input, output, count, MPI_DOUBLE, op, m->comm));
  }
  OK(MPI_Waitall(kAtOnce, requests, MPI_STATUSES_IGNORE));
  require_sums("Allreduce in between", m, output, 0, count);
  for (int k = 0; k < kAtOnce; ++k) {
    require_sums("Iallreduce", m, several + (size_t)(2 * k + 1) * kMostCount, k, count);
  }
  MPI_Request request;
  for (int root = 0; root<m->size; root += m->size> 3 ? 3 : 1) {
    OK(MPI_Reduce(input, output, count, MPI_DOUBLE, op, root, m->comm));
    if (m->rank == root) require_sums("Reduce", m, output, 0, count);
    for (int i = 0; i < count; ++i) output[i] = input[i];
    OK(MPI_Reduce(m->rank == root ? MPI_IN_PLACE : input, output, count, MPI_DOUBLE, op, root,
                  m->comm));
    if (m->rank == root) require_sums("Reduce in place", m, output, 0, count);
  }
  OK(MPI_Ireduce(input, output, count, MPI_DOUBLE, op, 0, m->comm, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  if (m->rank == 0) require_sums("Ireduce", m, output, 0, count);
  const int part = count / m->size;
  if (part == 0) return;
  OK(MPI_Reduce_scatter_block(input, output, part, MPI_DOUBLE, op, m->comm));
  require_sums("Reduce_scatter_block", m, output, m->rank * part, part);
}

static void check_broadcasts(const Members* m, int count) {
  for (int root = 0; root < m->size; ++root) {
    for (int i = 0; i < count; ++i) {
      output[i] = m->rank == root ? number(m->world[root], i) : 0;
    }
    OK(MPI_Bcast(output, count, MPI_DOUBLE, root, m->comm));
    check_context("Bcast of %d from member %d of %d", count, root, m->size);
    for (int i = 0; i < count; ++i) {
      const double expected = number(m->world[root], i);
      require_bits("bits", &expected, &output[i], sizeof expected);
    }
  }
}

static void check_products(const Members* m, int count, MPI_Datatype type, MPI_Op op) {
  for (int i = 0; i < count; ++i) inputs[i] = matrix(m->world[m->rank], i);
  for (int call = 0; call < 2; ++call) {
    if (call == 0) OK(MPI_Allreduce(inputs, outputs, count, type, op, m->comm));
    if (call == 1) OK(MPI_Reduce(inputs, outputs, count, type, op, m->size / 2, m->comm));
    if (call == 1 && m->rank != m->size / 2) continue;
    for (int i = 0; i<count; i += count> 50 ? 31 : 1) {
      const Matrix expected = product_by_layout(m, i);
      check_context("product %d, element %d of %d, %d members", call, i, count, m->size);
      require_bits("bits", &expected, &outputs[i], sizeof expected);
    }
  }
}

static Members members_of(MPI_Comm comm) {
  Members m;
  m.comm = comm;
  OK(MPI_Comm_rank(comm, &m.rank));
  OK(MPI_Comm_size(comm, &m.size));
  OK(MPI_Allgather(&check_state.rank, 1, MPI_INT, m.world, 1, MPI_INT, comm));
  return m;
}

static void check_all(MPI_Comm comm, MPI_Op user_sum, MPI_Datatype type, MPI_Op product) {
  static const int kCounts[] = {1, 2, 3, 200, 3000, kMostCount};
  const Members m = members_of(comm);
  for (size_t k = 0; k < sizeof kCounts / sizeof kCounts[0]; ++k) {
    check_sums(&m, kCounts[k], MPI_SUM);
    check_broadcasts(&m, kCounts[k]);
    if (kCounts[k] <= 3000) check_sums(&m, kCounts[k], user_sum);
    if (kCounts[k] <= kMostCount / 8) check_products(&m, kCounts[k], type, product);
  }
}

static void check_node(void) {
  MPI_Comm node;
  int rank, size, expected_rank = 0, expected_size = 0;
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  OK(MPI_Comm_rank(node, &rank));
  OK(MPI_Comm_size(node, &size));
  for (int i = 0; i < check_state.size; ++i) {
    const int same = node_of_rank[i] == node_of_rank[check_state.rank];
    expected_size += same;
    expected_rank += same && i < check_state.rank;
  }
  check_context("the rank's node");
  check_i64("rank", expected_rank, rank);
  check_i64("size", expected_size, size);
  check_i64("OMPI_COMM_WORLD_LOCAL_RANK", rank, atoi(getenv("OMPI_COMM_WORLD_LOCAL_RANK")));
  check_i64("OMPI_COMM_WORLD_LOCAL_SIZE", size, atoi(getenv("OMPI_COMM_WORLD_LOCAL_SIZE")));
  OK(MPI_Comm_free(&node));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  read_layout(argv[1], argc > 3);
  check_node();
  MPI_Op user_sum, product;
  MPI_Datatype type;
  OK(MPI_Op_create(add_user, 1, &user_sum));
  OK(MPI_Op_create(multiply_user, 0, &product));
  OK(MPI_Type_contiguous(4, MPI_DOUBLE, &type));
  OK(MPI_Type_commit(&type));
  const int rounds = argc > 2 ? atoi(argv[2]) : 1;
  for (int round = 0; round < rounds; ++round) {
    check_all(MPI_COMM_WORLD, user_sum, type, product);
    // Nodes alternate, and their lowest members come in another order.
    MPI_Comm other;
    const int key = check_state.rank * 7 % (check_state.size + 1);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -key, &other));
    check_all(other, user_sum, type, product);
    OK(MPI_Comm_free(&other));
    check_section("round");
  }
  check_context("the test");
  const int seen = check_state.size > 2 && node_of_rank[check_state.size - 1] > 0;
  check_true("the order of sums can be seen", sums_differ > 0 || !seen);
  // With --map-by node, there are hardly two neighbours on one node, whose product is taken first.
  check_true("the order of products can be seen", products_differ > 0 || !seen || argc > 3);
  OK(MPI_Type_free(&type));
  OK(MPI_Op_free(&user_sum));
  OK(MPI_Op_free(&product));
  return check_end();
}
