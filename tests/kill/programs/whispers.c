// whispers sent=TEXT kept=TEXT [steps=N] [pause_us=P]: each rank sends a text to the next one, in
// messages of several sizes, and has another one in its memory that it never sends. In every step
// the ranks also gather all texts. Each rank prints a line at the end.

#include "program.h"

enum { kBytes = 64 * 1024 };

static void fill(char* data, size_t bytes, const char* text) {
  const size_t length = strlen(text);
  for (size_t i = 0; i < bytes; ++i) data[i] = text[i % length];
}

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  const int steps = (int)argument_number(argc, argv, "steps", 200);
  const long long pause = argument_number(argc, argv, "pause_us", 2000);
  const char* sent = argument_text(argc, argv, "sent", "sent");
  const char* kept = argument_text(argc, argv, "kept", "kept");
  const int n = check_state.size, me = check_state.rank;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  const int small = (int)strlen(sent);
  char* out = malloc(kBytes);
  char* in = malloc(kBytes);
  char* quiet = malloc(kBytes);
  char* all = malloc((size_t)(n * small));
  if (out == NULL || in == NULL || quiet == NULL || all == NULL) return 1;
  fill(quiet, kBytes, kept);
  for (int step = 0; step < steps; ++step) {
    check_context("step %d", step);
    const int bytes = step % 2 == 0 ? kBytes : small;
    fill(out, kBytes, sent);
    memset(in, 0, kBytes);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, next, step, in, bytes, MPI_BYTE, before, step,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    check_u64("a message", 0, (uint64_t)(memcmp(in, out, (size_t)bytes) != 0));
    OK(MPI_Allgather(out, small, MPI_BYTE, all, small, MPI_BYTE, MPI_COMM_WORLD));
    check_u64("all texts", 0, (uint64_t)(memcmp(all + small * before, sent, (size_t)small) != 0));
    pause_us(pause);
  }
  fill(out, kBytes, kept);
  check_u64("what was kept", 0, (uint64_t)(memcmp(out, quiet, kBytes) != 0));
  printf("rank %d: done\n", me);
  free(out);
  free(in);
  free(quiet);
  free(all);
  return check_end();
}
