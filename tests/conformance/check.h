#pragma once

// The checks of all conformance programs.
//
// A program compares each value that it receives with one that it computes itself. For a wrong
// value it prints `FAIL what expected got` and ends the job by MPI_Abort(1). Every value that was
// compared also enters a digest. Rank 0 prints the digest of all ranks at the end of each section
// and as the last line, so a check that did not run, or saw other values, changes the output. Only
// rank 0 prints, and every digest is the same under any correct MPI.

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The checks of this rank so far; `rank` and `size` are those in MPI_COMM_WORLD. */
typedef struct {
  int rank;
  int size;
  long long checks;
  uint64_t digest;
  char context[160];
} CheckState;

static CheckState check_state;

/** Returns a 64-bit hash of `digest` and `value`: the digest after `value` was appended. */
static inline uint64_t hash_step(uint64_t digest, uint64_t value) {
  uint64_t h = ((digest ^ value) + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ (h >> 29);
}

/** Returns element `index` of what `source` has for `dest`: a fixed value in [-1000, 1000]. */
static inline int pattern(int source, int dest, int index) {
  uint64_t h = hash_step(hash_step((uint64_t)source + 1, (uint64_t)dest), (uint64_t)index);
  return (int)(hash_step(h, 7) % 2001) - 1000;
}

/** Describes the following checks, for the FAIL line. printf format. */
__attribute__((format(printf, 1, 2))) static inline void check_context(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(check_state.context, sizeof check_state.context, format, arguments);
  va_end(arguments);
}

/** Prints the FAIL line and ends the job with exit code 1, inside MPI's lifetime or outside. */
static inline void check_fail(const char* what, const char* expected, const char* got) {
  printf("FAIL %s: %s expected %s got %s (rank %d of %d)\n", check_state.context, what, expected,
         got, check_state.rank, check_state.size);
  fflush(stdout);
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

/** Requires `got` to equal `expected`; adds it to the digest. */
static inline void check_i64(const char* what, long long expected, long long got) {
  if (expected != got) {
    char expected_text[32];
    char got_text[32];
    snprintf(expected_text, sizeof expected_text, "%lld", expected);
    snprintf(got_text, sizeof got_text, "%lld", got);
    check_fail(what, expected_text, got_text);
  }
  check_state.checks += 1;
  check_state.digest = hash_step(check_state.digest, (uint64_t)got);
}

/** Requires `condition` to be non-zero. For values that differ between MPI libraries. */
static inline void check_true(const char* what, int condition) {
  check_i64(what, 1, condition != 0);
}

/** Requires two strings to be equal. */
static inline void check_text(const char* what, const char* expected, const char* got) {
  if (strcmp(expected, got) != 0) check_fail(what, expected, got);
  check_state.checks += 1;
  for (const char* c = got; *c; ++c) {
    check_state.digest = hash_step(check_state.digest, (uint64_t)(unsigned char)*c);
  }
}

/** Requires two arrays of `count` ints to be equal; names the first element that is not. */
static inline void check_ints(const char* what, const int* expected, const int* got, int count) {
  for (int i = 0; i < count; ++i) {
    if (expected[i] != got[i]) {
      char where[64];
      snprintf(where, sizeof where, "%s[%d of %d]", what, i, count);
      check_i64(where, expected[i], got[i]);
    }
    check_state.digest = hash_step(check_state.digest, (uint64_t)(int64_t)got[i]);
  }
  check_state.checks += count;
}

/** Requires an MPI call to return MPI_SUCCESS; the call's text names it. */
#define OK(call) check_i64(#call, MPI_SUCCESS, (call))

/** Returns `count` zeroed ints, which free() releases; 0 is valid. Ends the job if it cannot. */
static inline int* new_ints(int count) {
  int* memory = (int*)calloc((size_t)count + 1, sizeof(int));
  if (!memory) check_fail("memory", "some", "none");
  return memory;
}

/** Sets `count` ints to `value`. */
static inline void set_ints(int* buffer, int count, int value) {
  for (int i = 0; i < count; ++i) buffer[i] = value;
}

/** Gets rank and size. Must be called after MPI_Init and before the first section. */
static inline void check_attach(void) {
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_state.rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &check_state.size));
}

/** Calls MPI_Init and check_attach. */
static inline void check_begin(int* argc, char*** argv) {
  OK(MPI_Init(argc, argv));
  check_attach();
}

/** Prints a line of printf format, on rank 0 only. */
__attribute__((format(printf, 1, 2))) static inline void note(const char* format, ...) {
  if (check_state.rank != 0) return;
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  fflush(stdout);
}

/** Collective over the world: prints the number of checks and the digest of all ranks so far. */
static inline void check_section(const char* name) {
  unsigned long long mine[2];
  unsigned long long all[2];
  mine[0] = (unsigned long long)check_state.checks;
  mine[1] = hash_step(check_state.digest, (uint64_t)check_state.rank);
  OK(MPI_Allreduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
  note("%s: %llu checks, digest %016llx", name, all[0], all[1]);
}

/** Prints the final digest and finalises MPI; returns the program's exit code. */
static inline int check_end(void) {
  check_section("all");
  OK(MPI_Finalize());
  return 0;
}
