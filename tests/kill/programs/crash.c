// crash HOW [rank=R] [at=K] [count=N]: every incarnation of rank R fails after K of N operations,
// so no restart can repair it.
//   HOW: segv  abort  divide  call (an address without code)  deep (the stack is full)
//        kill (by another process)
//        locked (as segv, while another thread holds the dynamic linker's lock for ever)
//        exit (with code 7)  init (exits with 7 before MPI_Init)
//        handled: the program's own handlers handle the signals, and it sees no other handlers;
//        the rank does not fail

#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static int* volatile nowhere;

static void (*volatile no_code)(void);
static volatile int zero;  // its value is always 0
static sigjmp_buf back;

__attribute__((noinline)) static int recurse(volatile char* above) {
  volatile char here[4096];
  here[0] = above[0];
  if (zero) return 0;
  return recurse(here) + here[0];
}

static void kill_from_outside(void) {
  const pid_t self = getpid(), child = fork();
  if (child == 0) _exit(kill(self, SIGSEGV));
  for (;;) pause();
}

static int hold_lock(struct dl_phdr_info* info, size_t bytes, void* held) {
  (void)info, (void)bytes;
  __atomic_store_n((int*)held, 1, __ATOMIC_RELEASE);
  while (!zero) pause();
  return 0;
}

static void* hold_lock_for_ever(void* held) {
  dl_iterate_phdr(hold_lock, held);
  return NULL;
}

static void fail_while_locked(void) {
  static int held;
  pthread_t other;
  check_i64("thread", 0, pthread_create(&other, NULL, hold_lock_for_ever, &held));
  while (!__atomic_load_n(&held, __ATOMIC_ACQUIRE)) usleep(1000);
  *nowhere = 1;
}

static void jump_back(int number) { siglongjmp(back, number); }

static void handle_fault(int flags) {
  struct sigaction seen, mine = {.sa_handler = jump_back, .sa_flags = flags};
  stack_t stack;
  check_i64("sigaltstack", 0, sigaltstack(NULL, &stack));
  check_i64("a stack", SS_DISABLE, stack.ss_flags);
  check_i64("sigaction", 0, sigaction(SIGSEGV, NULL, &seen));
  check_i64("default", 1, seen.sa_handler == SIG_DFL);
  check_i64("signal", 1, signal(SIGFPE, SIG_IGN) == SIG_DFL);
  check_i64("ignored", 1, signal(SIGFPE, SIG_DFL) == SIG_IGN);
  check_i64("sigaction", 0, sigaction(SIGSEGV, &mine, &seen));
  check_i64("default", 1, seen.sa_handler == SIG_DFL);
  const int number = sigsetjmp(back, 1);
  if (number == 0) *nowhere = 1;
  check_i64("handled", SIGSEGV, number);
  check_i64("sigaction", 0, sigaction(SIGSEGV, &seen, NULL));
}

__attribute__((noinline)) static void fail_by(const char* how) {
  if (strcmp(how, "segv") == 0) *nowhere = 1;
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "divide") == 0) zero = 100 / zero;
  if (strcmp(how, "call") == 0) no_code();
  if (strcmp(how, "deep") == 0) exit(recurse((volatile char*)how));
  if (strcmp(how, "kill") == 0) kill_from_outside();
  if (strcmp(how, "locked") == 0) fail_while_locked();
  if (strcmp(how, "handled") == 0) {
    handle_fault(0);
    return handle_fault(SA_ONSTACK);
  }
  exit(7);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "segv";
  const int rank = (int)argument_number(argc, argv, "rank", 1);
  const int at = (int)argument_number(argc, argv, "at", 20);
  const int count = (int)argument_number(argc, argv, "count", 50);
  if (strcmp(how, "init") == 0) fail_by(how);
  check_begin(&argc, &argv);
  for (int i = 0; i < count; ++i) {
    if (i == at && check_state.rank == rank) fail_by(how);
    int sum = 0;
    OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", (long long)i * check_state.size, sum);
  }
  return check_end();
}
