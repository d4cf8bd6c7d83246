/* The temperature of a square plate, by Jacobi's method, in plain C MPI. The upper edge has the
 * temperature 1, the others have 0. Each rank owns some rows of the grid.
 *
 *     mpicc -O2 jacobi.c -o jacobi
 *     mpirun -n 4 ./jacobi                     under any MPI
 *     ftrun -n 4 ./jacobi                      under Rejoin: any rank may be killed
 *     ftrun -n 4 --kill 3@200 ./jacobi         ... and the output stays the same
 *
 * Rejoin needs no changes of the program for that. With the two MPI_Pcontrol calls in solve(), a
 * rank that is started again goes on at the newest checkpoint instead of at the beginning. Other
 * MPIs ignore them. */

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From Rejoin's include/rejoin.h, as numbers, so that this compiles without it. */
enum { kLoadCheckpoint = 0x524a01, kCheckpoint = 0x524a02 };

static const char kHelp[] =
    "usage: jacobi [-n SIZE] [-s STEPS] [-c STEPS] [-e RESIDUAL]\n"
    "\n"
    "  -n SIZE        rows and columns of the grid, without its edges (64)\n"
    "  -s STEPS       most steps (2000)\n"
    "  -c STEPS       steps from one checkpoint to the next (100)\n"
    "  -e RESIDUAL    end when no point changes by more (1e-6)\n";

typedef struct {
  long size, most_steps, checkpoint_steps;
  double residual;
} Options;

/* This rank owns the rows first .. first + rows - 1 of the inner grid. Its arrays have one more row
 * above and below, with the edge of the plate or the neighbour's row, and one more column on either
 * side, with the edge. */
typedef struct {
  int rank, ranks, size, width, first, rows;
  double *now, *next;
  double* borders;       /* first and last row of every rank, in the order of the ranks */
  int *counts, *offsets; /* of each rank's numbers in the whole grid */
} Grid;

static int first_row(const Grid* g, int rank) { return (int)((long)g->size * rank / g->ranks); }

static double* row(double* values, const Grid* g, int i) { return values + (size_t)i * g->width; }

static void* allocate(size_t count, size_t size) {
  void* memory = calloc(count, size);
  if (memory == NULL) {
    fprintf(stderr, "jacobi: no memory for the grid\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return memory;
}

static Grid make_grid(int size) {
  Grid g = {.size = size, .width = size + 2};
  MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g.ranks);
  g.first = first_row(&g, g.rank);
  g.rows = first_row(&g, g.rank + 1) - g.first;
  g.now = allocate((size_t)(g.rows + 2) * g.width, sizeof *g.now);
  g.next = allocate((size_t)(g.rows + 2) * g.width, sizeof *g.next);
  g.borders = allocate((size_t)g.ranks * 2 * g.width, sizeof *g.borders);
  g.counts = allocate((size_t)g.ranks, sizeof *g.counts);
  g.offsets = allocate((size_t)g.ranks, sizeof *g.offsets);
  for (int r = 0; r < g.ranks; ++r) {
    g.offsets[r] = first_row(&g, r) * g.width;
    g.counts[r] = first_row(&g, r + 1) * g.width - g.offsets[r];
  }
  if (g.rank == 0) {
    for (int j = 0; j < g.width; ++j) g.now[j] = g.next[j] = 1;
  }
  return g;
}

static void free_grid(Grid* g) {
  free(g->now);
  free(g->next);
  free(g->borders);
  free(g->counts);
  free(g->offsets);
}

/* Gathers the border rows of all ranks at every rank, which copies those next to its own. */
static void exchange_borders(Grid* g) {
  const size_t row_bytes = (size_t)g->width * sizeof(double);
  double* mine = row(g->borders, g, 2 * g->rank);
  memcpy(mine, row(g->now, g, 1), row_bytes);
  memcpy(mine + g->width, row(g->now, g, g->rows), row_bytes);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, g->borders, 2 * g->width, MPI_DOUBLE,
                MPI_COMM_WORLD);
  if (g->rank > 0) memcpy(g->now, row(g->borders, g, 2 * g->rank - 1), row_bytes);
  if (g->rank < g->ranks - 1) {
    memcpy(row(g->now, g, g->rows + 1), row(g->borders, g, 2 * g->rank + 2), row_bytes);
  }
}

/* Replaces every point by the mean of its four neighbours. Returns the largest change at any rank.
 */
static double step(Grid* g) {
  exchange_borders(g);
  double change = 0;
  for (int i = 1; i <= g->rows; ++i) {
    const double *above = row(g->now, g, i - 1), *here = row(g->now, g, i),
                 *below = row(g->now, g, i + 1);
    double* next = row(g->next, g, i);
    for (int j = 1; j <= g->size; ++j) {
      next[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1]);
      change = fmax(change, fabs(next[j] - here[j]));
    }
  }
  double* last = g->now;
  g->now = g->next;
  g->next = last;
  MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return change;
}

/* Gathers the rows of all ranks at all ranks. */
static void gather(Grid* g, double* all) {
  MPI_Allgatherv(row(g->now, g, 1), g->counts[g->rank], MPI_DOUBLE, all, g->counts, g->offsets,
                 MPI_DOUBLE, MPI_COMM_WORLD);
}

static void take_mine(Grid* g, const double* all) {
  memcpy(row(g->now, g, 1), all + g->offsets[g->rank], (size_t)g->counts[g->rank] * sizeof *all);
}

static void print(const Grid* g, long steps, double change, const double* all) {
  double sum = 0;
  for (size_t i = 0; i < (size_t)g->size * g->width; ++i) sum += all[i];
  printf("%ld steps, last change %.17g\n", steps, change);
  printf("mean %.17g, in the middle %.17g\n", sum / g->size / g->size,
         all[(size_t)(g->size / 2) * g->width + g->size / 2 + 1]);
}

static void solve(const Options* options) {
  Grid g = make_grid((int)options->size);

  /* The model: the number of steps, the last change, and the inner grid. */
  const size_t points = (size_t)g.size * g.width;
  const size_t model_bytes = (2 + points) * sizeof(double);
  double *model = allocate(2 + points, sizeof *model), *all = model + 2;
  long steps = 0;
  double change = INFINITY;

  int version = 0;
  MPI_Pcontrol(kLoadCheckpoint, &version, model, model_bytes);
  if (version > 0) {
    steps = (long)model[0];
    change = model[1];
    take_mine(&g, all);
  }

  while (steps < options->most_steps && change > options->residual) {
    change = step(&g);
    ++steps;
    if (steps % options->checkpoint_steps == 0) {
      gather(&g, all);
      model[0] = (double)steps;
      model[1] = change;
      MPI_Pcontrol(kCheckpoint, model, model_bytes);
    }
  }

  gather(&g, all);
  if (g.rank == 0) print(&g, steps, change, all);
  free(model);
  free_grid(&g);
}

/* Returns NULL, or a message about wrong arguments. */
static const char* parse(int argc, char** argv, int ranks, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const char option =
        argv[i][0] == '-' && argv[i][1] != '\0' && argv[i][2] == '\0' ? argv[i][1] : '?';
    if (strchr("nsce", option) == NULL) return "unknown option; jacobi -h lists them";
    if (i + 1 == argc) return "the last option has no value";
    char* end = NULL;
    const double value = strtod(argv[i + 1], &end);
    if (end == argv[i + 1] || *end != '\0' || !(value >= 0) || value > 1e9) {
      return "a value is not a number from 0 to 1e9";
    }
    if (option == 'n') options->size = (long)value;
    if (option == 's') options->most_steps = (long)value;
    if (option == 'c') options->checkpoint_steps = (long)value;
    if (option == 'e') options->residual = value;
  }
  if (options->size < ranks) return "-n: the grid needs a row for every rank";
  if (options->size > 20000) return "-n: at most 20000";
  if (options->checkpoint_steps < 1) return "-c: at least 1";
  return NULL;
}

int main(int argc, char** argv) {
  Options options = {.size = 64, .most_steps = 2000, .checkpoint_steps = 100, .residual = 1e-6};
  int rank, ranks, code = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc == 2 && strcmp(argv[1], "-h") == 0) {
    if (rank == 0) fputs(kHelp, stdout);
  } else {
    const char* error = parse(argc, argv, ranks, &options);
    if (error == NULL) {
      solve(&options);
    } else {
      if (rank == 0) fprintf(stderr, "jacobi: %s\n", error);
      code = 2;
    }
  }
  MPI_Finalize();
  return code;
}
