#pragma once

// Shared by the programs that are killed: the checks of the conformance programs, key=value
// arguments, and a salt: a hash of what was received, on which all later contributions depend.

#include <errno.h>
#include <time.h>

#include "../../conformance/check.h"

/** A hash of everything that all ranks have received. Later contributions depend on it. */
static uint64_t salt = 1;

/** Returns element `index` of what world rank `source` contributes in step `step`. */
static inline uint64_t element(int source, int step, int index) {
  return hash_step(hash_step(hash_step(salt, (uint64_t)step), (uint64_t)source), (uint64_t)index);
}

/** Requires `got` to equal `expected`; adds it to this rank's digest. */
static inline void check_u64(const char* what, uint64_t expected, uint64_t got) {
  check_i64(what, (long long)expected, (long long)got);
}

/** Adds a value that all ranks have received to the salt. */
static inline void received_by_all(uint64_t value) { salt = hash_step(salt, value); }

static inline void pause_us(long long us) {
  struct timespec left = {us / 1000000, us % 1000000 * 1000};
  while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

/** Returns the text of the argument `name=text`, or `otherwise`. */
static inline const char* argument_text(int argc, char** argv, const char* name,
                                        const char* otherwise) {
  const size_t length = strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') return argv[i] + length + 1;
  }
  return otherwise;
}

/** Returns the number of the argument `name=number`, or `otherwise`. */
static inline long long argument_number(int argc, char** argv, const char* name,
                                        long long otherwise) {
  const char* text = argument_text(argc, argv, name, NULL);
  if (text == NULL) return otherwise;
  char* end = NULL;
  const long long value = strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0') check_fail(name, "a number", text);
  return value;
}
