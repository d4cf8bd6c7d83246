// halo ROUNDS: a field of numbers on a 2-D grid of ranks, periodic in one dimension and bounded in
// the other. In every round each rank exchanges the border of its tile with its neighbours: by
// MPI_Sendrecv in the first dimension and by MPI_Irecv, MPI_Isend and MPI_Waitall in the second, or
// by neighbourhood collectives. Then each cell becomes a hash of itself and its four neighbours.
// Every rank also computes the whole field by itself, and compares its tile with it.

#include "program.h"

enum { kSide = 4, kTags = 4 };  // kSide: rows and columns of a tile

typedef struct {
  MPI_Comm grid;
  int dims[2];
  int coords[2];
  int before[2];  // the neighbours in each dimension
  int behind[2];
} Place;

static Place make_place(void) {
  Place p = {.dims = {0, 0}};
  const int periods[2] = {0, 1};
  OK(MPI_Dims_create(check_state.size, 2, p.dims));
  OK(MPI_Cart_create(MPI_COMM_WORLD, 2, p.dims, periods, 0, &p.grid));
  OK(MPI_Cart_coords(p.grid, check_state.rank, 2, p.coords));
  for (int d = 0; d < 2; ++d) OK(MPI_Cart_shift(p.grid, d, 1, &p.before[d], &p.behind[d]));
  return p;
}

static uint64_t next_cell(uint64_t self, uint64_t up, uint64_t down, uint64_t left,
                          uint64_t right) {
  return hash_step(hash_step(hash_step(hash_step(self, up), down), left), right);
}

/** Computes a round of the whole field, which is 0 outside of the bounded dimension. */
static void step_whole(const Place* p, uint64_t* whole) {
  const int rows = p->dims[0] * kSide;
  const int columns = p->dims[1] * kSide;
  uint64_t* old = (uint64_t*)malloc((size_t)(rows * columns) * sizeof *old);
  if (!old) check_fail("memory", "some", "none");
  memcpy(old, whole, (size_t)(rows * columns) * sizeof *old);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      const uint64_t up = r > 0 ? old[(r - 1) * columns + c] : 0;
      const uint64_t down = r + 1 < rows ? old[(r + 1) * columns + c] : 0;
      const uint64_t left = old[r * columns + (c + columns - 1) % columns];
      const uint64_t right = old[r * columns + (c + 1) % columns];
      whole[r * columns + c] = next_cell(old[r * columns + c], up, down, left, right);
    }
  }
  free(old);
}

/** The borders. own[2d] and own[2d+1] are those next to the neighbours before and behind. */
typedef struct {
  uint64_t own[4][kSide];
  uint64_t theirs[4][kSide];
} Halo;

static void by_messages(const Place* p, int round, Halo* h) {
  const int tag = round % kTags;
  MPI_Request requests[4];
  OK(MPI_Sendrecv(h->own[1], kSide, MPI_UINT64_T, p->behind[0], tag, h->theirs[0], kSide,
                  MPI_UINT64_T, p->before[0], tag, p->grid, MPI_STATUS_IGNORE));
  OK(MPI_Sendrecv(h->own[0], kSide, MPI_UINT64_T, p->before[0], tag, h->theirs[1], kSide,
                  MPI_UINT64_T, p->behind[0], tag, p->grid, MPI_STATUS_IGNORE));
  // The neighbours before and behind may be the same rank, so the tag gives the direction.
  OK(MPI_Irecv(h->theirs[2], kSide, MPI_UINT64_T, p->before[1], 100, p->grid, &requests[0]));
  OK(MPI_Irecv(h->theirs[3], kSide, MPI_UINT64_T, p->behind[1], 101, p->grid, &requests[1]));
  OK(MPI_Isend(h->own[2], kSide, MPI_UINT64_T, p->before[1], 101, p->grid, &requests[2]));
  OK(MPI_Isend(h->own[3], kSide, MPI_UINT64_T, p->behind[1], 100, p->grid, &requests[3]));
  OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
}

static void by_neighbours(const Place* p, Halo* h) {
  OK(MPI_Neighbor_alltoall(h->own, kSide, MPI_UINT64_T, h->theirs, kSide, MPI_UINT64_T, p->grid));
}

/** Uses a distributed graph with the same neighbours. Every rank passes the edges of the next. */
static void by_graph(const Place* p, Halo* h) {
  int targets[4];
  int weights[4];
  int degree = 0;
  const int from = (check_state.rank + 1) % check_state.size;
  for (int d = 0; d < 2; ++d) {
    for (int by = -1; by <= 1; by += 2) {
      int at[2];
      OK(MPI_Cart_coords(p->grid, from, 2, at));
      at[d] += by;
      if (d == 0 && (at[0] < 0 || at[0] >= p->dims[0])) continue;
      weights[degree] = 2 * d + (by > 0);  // the index of the border
      OK(MPI_Cart_rank(p->grid, at, &targets[degree++]));
    }
  }
  MPI_Comm graph = MPI_COMM_NULL;
  OK(MPI_Dist_graph_create(p->grid, 1, &from, &degree, targets, weights, MPI_INFO_NULL, 0, &graph));
  int in = 0;
  int out = 0;
  int weighted = 0;
  int ranks[2][4];
  int borders[2][4];
  OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
  OK(MPI_Dist_graph_neighbors(graph, in, ranks[0], borders[0], out, ranks[1], borders[1]));
  uint64_t sent[4][kSide];
  uint64_t got[4][kSide];
  for (int i = 0; i < out; ++i) memcpy(sent[i], h->own[borders[1][i]], sizeof sent[i]);
  OK(MPI_Neighbor_alltoall(sent, kSide, MPI_UINT64_T, got, kSide, MPI_UINT64_T, graph));
  // A message that was sent in one direction arrives from the opposite one.
  for (int i = 0; i < in; ++i) memcpy(h->theirs[borders[0][i] ^ 1], got[i], sizeof got[i]);
  OK(MPI_Comm_free(&graph));
}

static void step_tile(const Place* p, int round, uint64_t tile[kSide][kSide]) {
  Halo h;
  memset(&h, 0, sizeof h);
  for (int i = 0; i < kSide; ++i) {
    h.own[0][i] = tile[0][i];
    h.own[1][i] = tile[kSide - 1][i];
    h.own[2][i] = tile[i][0];
    h.own[3][i] = tile[i][kSide - 1];
  }
  if (round % 4 == 2) {
    by_neighbours(p, &h);
  } else if (round % 4 == 3) {
    by_graph(p, &h);
  } else {
    by_messages(p, round, &h);
  }
  uint64_t old[kSide][kSide];
  memcpy(old, tile, sizeof old);
  for (int r = 0; r < kSide; ++r) {
    for (int c = 0; c < kSide; ++c) {
      const uint64_t up = r > 0 ? old[r - 1][c] : h.theirs[0][c];
      const uint64_t down = r + 1 < kSide ? old[r + 1][c] : h.theirs[1][c];
      const uint64_t left = c > 0 ? old[r][c - 1] : h.theirs[2][r];
      const uint64_t right = c + 1 < kSide ? old[r][c + 1] : h.theirs[3][r];
      tile[r][c] = next_cell(old[r][c], up, down, left, right);
    }
  }
}

/** Sums the rows of tiles and compares the sums. Each row of the grid is a communicator. */
static void check_rows(const Place* p, const uint64_t* whole, uint64_t tile[kSide][kSide]) {
  const int columns = p->dims[1] * kSide;
  const int remain[2] = {0, 1};
  MPI_Comm row = MPI_COMM_NULL;
  uint64_t mine = 0;
  uint64_t expected = 0;
  uint64_t sum = 0;
  for (int r = 0; r < kSide; ++r) {
    for (int c = 0; c < kSide; ++c) mine += tile[r][c];
    for (int c = 0; c < columns; ++c) expected += whole[(p->coords[0] * kSide + r) * columns + c];
  }
  OK(MPI_Cart_sub(p->grid, remain, &row));
  OK(MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, row));
  check_u64("sum of a row", expected, sum);
  OK(MPI_Comm_free(&row));
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int rounds = argc > 1 ? atoi(argv[1]) : 8;
  Place p = make_place();
  const int columns = p.dims[1] * kSide;
  const int cells = p.dims[0] * kSide * columns;
  uint64_t* whole = (uint64_t*)malloc((size_t)cells * sizeof *whole);
  if (!whole) check_fail("memory", "some", "none");
  for (int i = 0; i < cells; ++i) whole[i] = element(i, 0, 0);
  uint64_t tile[kSide][kSide];
  const uint64_t* corner = &whole[p.coords[0] * kSide * columns + p.coords[1] * kSide];
  for (int r = 0; r < kSide; ++r) memcpy(tile[r], &corner[r * columns], sizeof tile[r]);
  for (int round = 0; round < rounds; ++round) {
    check_context("round %d", round);
    step_tile(&p, round, tile);
    step_whole(&p, whole);
    for (int r = 0; r < kSide; ++r) {
      for (int c = 0; c < kSide; ++c) check_u64("cell", corner[r * columns + c], tile[r][c]);
    }
    if (round % 4 == 3) {
      check_rows(&p, whole, tile);
      MPI_Comm copy = MPI_COMM_NULL;
      OK(MPI_Comm_dup(p.grid, &copy));
      OK(MPI_Comm_free(&p.grid));
      p.grid = copy;
    }
  }
  free(whole);
  OK(MPI_Comm_free(&p.grid));
  return check_end();
}
