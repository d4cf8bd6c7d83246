// team [workers=N] [zoo=0|1] [steps=N] [pause_us=U]: hybrid ranks. In each step a team of threads
// computes what the main thread contributes to an Allreduce. zoo=1: each rank also has a thread of
// every kind below, which does something of its own all the time and checks that it goes on as if
// the process had never been cloned. The results do not depend on how often that happens.
// kind=NAME: the zoo has this kind only.
// odd=HOW: images are impossible, because a thread was not started by the C library (raw), does not
// hear signals (deaf), has a working directory (apart) or a seccomp filter (filtered) of its own,
// or because a mutex has priority inheritance (inherit).

#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { kMostWorkers = 1000 };

// ------------------------------------------------------------------------------------ the team

static pthread_barrier_t begin, end;
static int workers;
static int current_step;
static uint64_t part[kMostWorkers];
static atomic_int over;

static void* work(void* argument) {
  const int me = (int)(intptr_t)argument;
  for (;;) {
    pthread_barrier_wait(&begin);
    if (atomic_load(&over)) return NULL;
    uint64_t sum = 0;
    for (int i = me; i < 4000; i += workers) sum += element(check_state.rank, current_step, i);
    part[me] = sum;
    pthread_barrier_wait(&end);
  }
}

static void step(int s) {
  current_step = s;
  uint64_t mine = 0, all = 0, expected = 0;
  pthread_barrier_wait(&begin);
  pthread_barrier_wait(&end);
  for (int i = 0; i < workers; ++i) mine += part[i];
  OK(MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  for (int r = 0; r < check_state.size; ++r) {
    for (int i = 0; i < 4000; ++i) expected += element(r, s, i);
  }
  check_u64("sum", expected, all);
  received_by_all(all);
}

// ------------------------------------------------------------------------------------ the zoo

static void require(int good, const char* what) {
  if (!good) check_fail(what, "as before", "another");
}

static void rest(void) { usleep(200); }

/** Waits for each step, and counts it. */
static pthread_mutex_t counter_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t counter_changes = PTHREAD_COND_INITIALIZER;
static int to_count, counted;
static void* counts(void* unused) {
  (void)unused;
  pthread_mutex_lock(&counter_lock);
  while (!atomic_load(&over)) {
    while (counted == to_count && !atomic_load(&over)) {
      pthread_cond_wait(&counter_changes, &counter_lock);
    }
    counted = to_count;
    pthread_cond_broadcast(&counter_changes);
  }
  pthread_mutex_unlock(&counter_lock);
  return NULL;
}
static void have_counted(int s) {
  pthread_mutex_lock(&counter_lock);
  to_count = s;
  pthread_cond_broadcast(&counter_changes);
  while (counted != s) pthread_cond_wait(&counter_changes, &counter_lock);
  pthread_mutex_unlock(&counter_lock);
}

static void* spins(void* unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    for (int i = 0; i < 1000 && !atomic_load(&over); ++i) __builtin_ia32_pause();
    sched_yield();
  }
  return NULL;
}

/** Sleeps in all ways that are to last as long as they were asked to. */
static void* sleeps(void* unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    struct timespec a, b, left = {0, 30000000}, until;
    clock_gettime(CLOCK_MONOTONIC, &a);
    require(nanosleep(&left, &left) == 0, "nanosleep");
    clock_gettime(CLOCK_MONOTONIC, &b);
    require((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 30000000, "slept");
    until = b;
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
    require(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0, "sleep until");
    require(poll(NULL, 0, 5) <= 0, "poll");
  }
  return NULL;
}

static sem_t posted;
static void* waits_for_a_post(void* unused) {
  (void)unused;
  struct timespec far;
  clock_gettime(CLOCK_REALTIME, &far);
  far.tv_sec += 10000;
  require(sem_timedwait(&posted, &far) == 0, "sem_timedwait");
  return NULL;
}

/** Both are cancelled at the end. */
static void* polls(void* unused) {
  (void)unused;
  poll(NULL, 0, -1);
  check_fail("poll", "to last", "its end");
  return NULL;
}
static void* waits_for_cancellation(void* unused) {
  (void)unused;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) pause();
  return NULL;
}

static atomic_int signals;
static void on_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals, 1);
}
static void* gets_signals(void* unused) {
  (void)unused;
  while (!atomic_load(&over)) rest();
  return NULL;
}
static void* waits_for_a_signal(void* unused) {
  (void)unused;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  require(number == SIGUSR2, "sigwait");
  return NULL;
}

static void* allocates(void* unused) {
  (void)unused;
  enum { kBlocks = 64 };
  unsigned char* block[kBlocks] = {NULL};
  size_t bytes[kBlocks] = {0};
  for (uint64_t n = 1; !atomic_load(&over); ++n) {
    const int i = (int)(hash_step(n, 1) % kBlocks);
    for (size_t k = 0; k < bytes[i]; k += 97) require(block[i][k] == (unsigned char)i, "block");
    free(block[i]);
    bytes[i] = 16 + hash_step(n, 2) % 5000;
    block[i] = malloc(bytes[i]);
    memset(block[i], i, bytes[i]);
    if (n % 200 == 0) rest();
  }
  for (int i = 0; i < kBlocks; ++i) free(block[i]);
  return NULL;
}

/** Is in stdio all the time, also in the stream that the main thread writes. */
static void* prints(void* unused) {
  (void)unused;
  FILE* nowhere = fopen("/dev/null", "w");
  for (int n = 0; !atomic_load(&over); ++n) {
    fprintf(nowhere, "%d %f\n", n, n * 0.5);
    flockfile(stdout);
    funlockfile(stdout);
    if (n % 100 == 0) rest();
  }
  fclose(nowhere);
  return NULL;
}

static void* one_more(void* number) { return (void*)((intptr_t)number + 1); }
static void* creates(void* unused) {
  (void)unused;
  for (intptr_t n = 0; !atomic_load(&over); ++n) {
    pthread_t thread;
    void* result = NULL;
    require(pthread_create(&thread, NULL, one_more, (void*)n) == 0, "pthread_create");
    require(pthread_join(thread, &result) == 0 && (intptr_t)result == n + 1, "pthread_join");
    rest();
  }
  return NULL;
}

/** Holds mutexes that know their owner. */
static void* owns(void* unused) {
  (void)unused;
  pthread_mutex_t mutex[3];
  const int kinds[] = {PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ERRORCHECK};
  for (int i = 0; i < 3; ++i) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kinds[i]);
    if (i == 2) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex[i], &a);
    require(pthread_mutex_lock(&mutex[i]) == 0, "lock");
  }
  while (!atomic_load(&over)) {
    rest();
    require(pthread_mutex_lock(&mutex[0]) == 0, "recursive lock");
    require(pthread_mutex_unlock(&mutex[0]) == 0, "recursive unlock");
    require(pthread_mutex_lock(&mutex[1]) == EDEADLK, "error-checking lock");
    require(pthread_mutex_trylock(&mutex[2]) == EBUSY || 1, "robust trylock");
  }
  for (int i = 0; i < 3; ++i) require(pthread_mutex_unlock(&mutex[i]) == 0, "unlock");
  return NULL;
}

/** Computes in registers, with a rounding mode and a segment register of its own. */
static void* computes(void* unused) {
  (void)unused;
  static uint64_t segment[8] = {4711};
  require(syscall(SYS_arch_prctl, ARCH_SET_GS, segment) == 0, "ARCH_SET_GS");
  unsigned control = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(control | 0x6000);  // towards zero
  while (!atomic_load(&over)) {
    double a = 1, b = 1, c = 1, d = 1;
    uint64_t e = 1;
    for (int i = 0; i < 20000; ++i) {
      a = a * 1.0000001 + 1e-9;
      b = b * 0.9999999 + 1e-9;
      c = c + a * b;
      d = d * 0.5 + c;
      e = e * 6364136223846793005u + 1;
      __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+r"(e));
    }
    static double first[4];
    static uint64_t first_e;
    if (first_e == 0) first[0] = a, first[1] = b, first[2] = c, first[3] = d, first_e = e;
    require(first[0] == a && first[1] == b && first[2] == c && first[3] == d && first_e == e,
            "registers");
    uint64_t from_segment = 0;
    __asm__ volatile("movq %%gs:0, %0" : "=r"(from_segment));
    require(from_segment == 4711, "gs");
    require((__builtin_ia32_stmxcsr() & 0x6000) == 0x6000, "rounding mode");
    rest();
  }
  return NULL;
}

/** Has signal handlers on a stack of its own. */
static void* has_a_stack(void* unused) {
  (void)unused;
  static char stack[65536];
  const stack_t mine = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  stack_t now;
  require(sigaltstack(&mine, NULL) == 0, "sigaltstack");
  while (!atomic_load(&over)) {
    rest();
    require(sigaltstack(NULL, &now) == 0 && now.ss_sp == (void*)stack, "alternate stack");
  }
  return NULL;
}

/** Has a name, processors, a priority, blocked signals and thread-local storage of its own. */
static __thread uint64_t of_thread;
static void* is_particular(void* unused) {
  (void)unused;
  cpu_set_t one, now;
  sigset_t blocked;
  CPU_ZERO(&one);
  pthread_getaffinity_np(pthread_self(), sizeof now, &now);
  int processor = 0;
  while (!CPU_ISSET(processor, &now)) ++processor;
  CPU_SET(processor, &one);
  require(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0, "setaffinity");
  require(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5) == 0, "setpriority");
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  pthread_setname_np(pthread_self(), "particular");
  for (uint64_t n = 0; !atomic_load(&over); ++n) {
    char name[16];
    require(of_thread++ == n, "thread-local storage");
    require(sched_getcpu() == processor, "sched_getcpu");
    require(pthread_getaffinity_np(pthread_self(), sizeof now, &now) == 0, "getaffinity");
    require(CPU_EQUAL(&one, &now), "affinity");
    require(getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)) == 5, "priority");
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    require(sigismember(&blocked, SIGUSR1) == 1, "mask");
    prctl(PR_GET_NAME, name);
    require(strcmp(name, "particular") == 0, "name");
    rest();
  }
  return NULL;
}

static void* loads(void* unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    void* library = dlopen("libm.so.6", RTLD_NOW);
    require(library != NULL && dlsym(library, "cbrt") != NULL, "dlopen");
    dlclose(library);
    rest();
  }
  return NULL;
}

static const struct {
  const char* name;
  void* (*run)(void*);
} kinds[] = {
    {"counts", counts},
    {"spins", spins},
    {"sleeps", sleeps},
    {"post", waits_for_a_post},
    {"polls", polls},
    {"cancelled", waits_for_cancellation},
    {"signals", gets_signals},
    {"sigwait", waits_for_a_signal},
    {"allocates", allocates},
    {"prints", prints},
    {"creates", creates},
    {"owns", owns},
    {"computes", computes},
    {"stack", has_a_stack},
    {"particular", is_particular},
    {"loads", loads},
};
enum { kKinds = sizeof kinds / sizeof *kinds };
static pthread_t animal[kKinds];
static int lives[kKinds];

static pthread_t* find(const char* name) {
  for (int i = 0; i < kKinds; ++i) {
    if (lives[i] && strcmp(kinds[i].name, name) == 0) return &animal[i];
  }
  return NULL;
}

static void start_zoo(const char* only) {
  sigset_t sent;
  sigemptyset(&sent);
  sigaddset(&sent, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &sent, NULL);
  signal(SIGUSR1, on_signal);
  sem_init(&posted, 0, 0);
  for (int i = 0; i < kKinds; ++i) {
    if (*only != '\0' && strcmp(only, kinds[i].name) != 0) continue;
    require(pthread_create(&animal[i], NULL, kinds[i].run, NULL) == 0, "pthread_create");
    lives[i] = 1;
  }
}

static void visit_zoo(int s) {
  if (find("counts")) have_counted(s);
  char* memory = malloc(10000 + (size_t)s);
  memset(memory, s, 10000);
  free(memory);
  pthread_t* thread = find("signals");
  if (thread && s % 20 == 0) {
    const int before = atomic_load(&signals);
    require(pthread_kill(*thread, SIGUSR1) == 0, "pthread_kill");
    while (atomic_load(&signals) == before) usleep(50);
    require(atomic_load(&signals) == before + 1, "signals");
  }
  if ((thread = find("particular")) && s > 20) {
    char name[16];
    cpu_set_t now;
    clockid_t clock;
    struct timespec time;
    require(pthread_getname_np(*thread, name, sizeof name) == 0, "pthread_getname_np");
    require(pthread_getaffinity_np(*thread, sizeof now, &now) == 0, "pthread_getaffinity_np");
    require(strcmp(name, "particular") != 0 || CPU_COUNT(&now) == 1, "processors");
    require(pthread_getcpuclockid(*thread, &clock) == 0, "pthread_getcpuclockid");
    require(clock_gettime(clock, &time) == 0, "the clock of a thread");
  }
}

static void end_zoo(void) {
  void* result;
  if (find("post")) sem_post(&posted);
  if (find("sigwait")) require(pthread_kill(*find("sigwait"), SIGUSR2) == 0, "pthread_kill");
  if (find("counts")) {
    pthread_mutex_lock(&counter_lock);
    pthread_cond_broadcast(&counter_changes);
    pthread_mutex_unlock(&counter_lock);
  }
  for (int i = 0; i < kKinds; ++i) {
    if (!lives[i]) continue;
    const int cancelled = animal[i] == (find("polls") ? *find("polls") : 0) ||
                          animal[i] == (find("cancelled") ? *find("cancelled") : 0);
    if (cancelled) require(pthread_cancel(animal[i]) == 0, "pthread_cancel");
    require(pthread_join(animal[i], &result) == 0, "pthread_join");
    require((result == PTHREAD_CANCELED) == cancelled, "its end");
  }
}

// ------------------------------------------------------------------------------------ obstacles

static char raw_stack[65536] __attribute__((aligned(16)));
static int sleep_for_ever(void* unused) {
  (void)unused;
  const struct timespec day = {86400, 0};
  for (;;) syscall(SYS_nanosleep, &day, NULL);
  return 0;
}

static void* stands_apart(void* how) {
  sigset_t all;
  if (strcmp(how, "deaf") == 0) {
    memset(&all, 0xff, sizeof all);
    require(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, 8) == 0, "rt_sigprocmask");
  } else if (strcmp(how, "apart") == 0) {
    require(unshare(CLONE_FS) == 0, "unshare");
  } else {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &allow};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "seccomp");
  }
  while (!atomic_load(&over)) rest();
  return NULL;
}

static pthread_t apart;
static void be_odd(char* how) {
  if (strcmp(how, "raw") == 0) {
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
    require(clone(sleep_for_ever, raw_stack + sizeof raw_stack, flags, NULL) > 0, "clone");
  } else if (strcmp(how, "inherit") == 0) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  } else if (*how != '\0') {
    require(pthread_create(&apart, NULL, stands_apart, how) == 0, "pthread_create");
  }
}

int main(int argc, char** argv) {
  int provided;
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  check_attach();
  workers = (int)argument_number(argc, argv, "workers", 3);
  const int steps = (int)argument_number(argc, argv, "steps", 400);
  const long long pause = argument_number(argc, argv, "pause_us", 0);
  const char* only = argument_text(argc, argv, "kind", "");
  const int zoo = argument_number(argc, argv, "zoo", 0) != 0 || *only != '\0';
  pthread_t team[kMostWorkers];
  pthread_barrier_init(&begin, NULL, (unsigned)workers + 1);
  pthread_barrier_init(&end, NULL, (unsigned)workers + 1);
  for (int i = 0; i < workers; ++i) {
    require(pthread_create(&team[i], NULL, work, (void*)(intptr_t)i) == 0, "pthread_create");
  }
  if (zoo) start_zoo(only);
  char how[16];
  snprintf(how, sizeof how, "%s", argument_text(argc, argv, "odd", ""));
  be_odd(how);
  for (int s = 1; s <= steps; ++s) {
    step(s);
    if (zoo) visit_zoo(s);
    int is_main = 0;
    OK(MPI_Is_thread_main(&is_main));
    require(is_main == 1, "MPI_Is_thread_main");
    if (s % 50 == 0) printf("rank %d, step %d\n", check_state.rank, s), fflush(stdout);
    pause_us(pause);
  }
  atomic_store(&over, 1);
  pthread_barrier_wait(&begin);
  for (int i = 0; i < workers; ++i) pthread_join(team[i], NULL);
  if (zoo) end_zoo();
  if (apart != 0) pthread_join(apart, NULL);
  printf("rank %d: %016llx\n", check_state.rank, (unsigned long long)salt);
  OK(MPI_Finalize());
  return 0;
}
