// frozen HOW [steps=N] [pause_us=U] [from=S] [until=S]: collectives and messages, with private
// state that an image of the process must restore: what was received in each step, on the heap, in
// buffers of stdio, in open files. Each rank prints a line in each step; even ranks flush it.
//   messages  only that
//   polls     also probes for a message that is sent late
//   input     rank 0 broadcasts a line of its standard input in each step; input_bytes: without a
//             buffer
//   files     each rank appends to one file, writes and renames another one, and extends a third
//             that is open to read and write, which it reads again at the end
//   rewrite   as files, but the third file is overwritten
//   damaged   rank 1 overwrites a pointer in step S, and uses it 100 steps later
//   thread, child, timer, mapping, wiped, unforked, pipe, socket, signal, lock: images have this
//             obstacle from step `from` (default: the start) to step `until` (default: the end);
//             the thread is not one of the C library
//   mutexes   a recursive mutex and an error-checking one are held all the time, and are checked
//   itself    devices stay open, functions get the calling thread as an argument, and the program
//             closes all descriptors that it has not opened
//   limits    a limit on descriptors below those of the job, a nice value, timer slack, and
//             no_new_privs
//   addresses, addresses_hard: a limit of 64 MiB more addresses than it has: soft, or soft and hard
//   deadlines waits until times of two clocks, by every function that does
//   clone, image, woken: up to the end, the kernel refuses all clones; those that become images;
//             those that images make of themselves
//   stops     images stop themselves when the agent wakes them
//   unregistered  up to step S, images of rank 1 die before they have registered with the agent
// resident=MB: rank 1 has that much memory; in each step it writes some of it and checks some
// dirty=PAGES: and it writes PAGES pages of it in each step

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { kMany = 600 };

static const char* how;
static uint64_t* seen[4096];  // the memory that each step has filled

static int is(const char* name) { return strcmp(how, name) == 0; }

// ------------------------------------------------------------------------------------ each step

static uint64_t sum_of(int step, int index) {
  uint64_t sum = 0;
  for (int r = 0; r < check_state.size; ++r) sum += element(r, step, index);
  return sum;
}

static uint64_t collective(int step) {
  static uint64_t in[kMany], out[kMany];
  const int count = step % 7 == 0 ? kMany : 3;
  for (int i = 0; i < count; ++i) in[i] = element(check_state.rank, step, i);
  MPI_Request request;
  if (step % 5 == 0) {
    OK(MPI_Iallreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  } else {
    OK(MPI_Allreduce(in, out, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
  }
  for (int i = 0; i < count; ++i) check_u64("sum", sum_of(step, i), out[i]);
  return out[0];
}

/** Sends messages along a ring. One of them is received in the next step, so an image may be made
 * between its sending and its receiving. */
static void ring(int step, int last) {
  const int rank = check_state.rank, size = check_state.size;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  static uint64_t late_in, late_out;
  static MPI_Request late[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  static uint64_t late_expected;
  uint64_t got = 0, sent = element(rank, step, 77);
  OK(MPI_Sendrecv(&sent, 1, MPI_UINT64_T, next, 1, &got, 1, MPI_UINT64_T, before, 1, MPI_COMM_WORLD,
                  MPI_STATUS_IGNORE));
  check_u64("neighbour's", element(before, step, 77), got);
  OK(MPI_Waitall(2, late, MPI_STATUSES_IGNORE));
  if (step > 0) check_u64("late message", late_expected, late_in);
  if (last) return;
  late_out = element(rank, step, 78);
  late_expected = element(before, step, 78);
  OK(MPI_Irecv(&late_in, 1, MPI_UINT64_T, before, 2, MPI_COMM_WORLD, &late[0]));
  OK(MPI_Isend(&late_out, 1, MPI_UINT64_T, next, 2, MPI_COMM_WORLD, &late[1]));
}

/** Stores what this step has received, and checks that of an older step. */
static void remember(int step, uint64_t value) {
  const size_t count = 16 + (size_t)(value % 2000);
  seen[step] = malloc(count * sizeof(uint64_t));
  if (!seen[step]) check_fail("memory", "some", "none");
  for (size_t i = 0; i < count; ++i) seen[step][i] = hash_step(value, i);
  seen[step][0] = value;
  const int older = (int)(value % (uint64_t)(step + 1));
  const uint64_t first = seen[older][0];
  const size_t last = 15 + (size_t)(first % 2000);
  check_u64("memory", hash_step(first, last), seen[older][last]);
}

// --------------------------------------------------------------------------------------------
// polls

/** Sends a message along the ring, late, and tests for it. Tests for messages that are never sent
 * come in between, so a replay with one answer more or less would ask another question. */
static uint64_t polled(int step) {
  const int rank = check_state.rank, size = check_state.size;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  uint64_t sent = element(rank, step, 91), got = 0;
  MPI_Request receive, send = MPI_REQUEST_NULL;
  OK(MPI_Irecv(&got, 1, MPI_UINT64_T, before, 3, MPI_COMM_WORLD, &receive));
  int done = 0;
  for (int asked = 0; !done || asked <= 20; ++asked) {
    int found = 0, result;
    if (asked == 20) OK(MPI_Isend(&sent, 1, MPI_UINT64_T, next, 3, MPI_COMM_WORLD, &send));
    if (asked % 3 == 0) {
      result = MPI_Test(&receive, &done, MPI_STATUS_IGNORE);
    } else {
      result = MPI_Iprobe(before, 99, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
    if (result != MPI_SUCCESS || found) check_fail("asking", "success, and nothing", "another");
    pause_us(50);
  }
  OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  check_u64("asked for", element(before, step, 91), got);
  return sum_of(step, 91);
}

// ------------------------------------------------------------------------------------ standard
// input

static uint64_t line_of_input(void) {
  char line[256] = "";
  if (check_state.rank == 0 && !fgets(line, sizeof line, stdin)) {
    check_fail("standard input", "a line", "its end");
  }
  OK(MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD));
  uint64_t hash = 1;
  for (const char* c = line; *c; ++c) hash = hash_step(hash, (uint64_t)*c);
  return hash;
}

// --------------------------------------------------------------------------------------------
// files

static FILE* added;
static int direct = -1;

static const char* name_of(const char* what) {
  static char name[4][64];
  static int next;
  next = (next + 1) % 4;
  snprintf(name[next], sizeof name[next], "%s.%d", what, check_state.rank);
  return name[next];
}

static void open_files(void) {
  added = fopen(name_of("added"), "a");
  direct = open(name_of("direct"), O_RDWR | O_CREAT | O_TRUNC, 0644);
  check_true("files", added != NULL && direct >= 0);
}

static off_t place_of(int step) {
  return (off_t)(is("rewrite") ? step % 8 : step) * (off_t)sizeof(uint64_t);
}

static void write_files(int step, uint64_t value) {
  fprintf(added, "step %d: %016llx\n", step, (unsigned long long)value);
  if (step % 3 == 0) fflush(added);
  check_i64("pwrite", sizeof value, pwrite(direct, &value, sizeof value, place_of(step)));
  if (step % 5 != 0) return;
  FILE* aside = fopen(name_of("state.new"), "w");
  check_true("a file aside", aside != NULL);
  for (int i = 0; i <= step % 400; ++i) fprintf(aside, "%d of %d\n", i, step);
  check_true("closed", fclose(aside) == 0);
  check_i64("rename", 0, rename(name_of("state.new"), name_of("state")));
}

static void read_files(int steps) {
  check_true("closed", fclose(added) == 0);
  for (int step = is("rewrite") ? steps - 8 : 0; step < steps; ++step) {
    uint64_t got = 0;
    check_i64("pread", sizeof got, pread(direct, &got, sizeof got, place_of(step)));
    check_u64("what was written", seen[step][0], got);
  }
  close(direct);
}

// ------------------------------------------------------------------------------- a large process

enum { kPageWords = 512 };

static uint64_t* resident;
static size_t resident_pages, dirty_pages;

static void touch(long long megabytes) {
  if (check_state.rank != 1 || megabytes == 0) return;
  resident_pages = (size_t)megabytes << 8;
  resident = malloc(resident_pages * kPageWords * sizeof *resident);
  check_true("memory", resident != NULL);
  for (size_t p = 0; p < resident_pages; ++p) resident[p * kPageWords] = hash_step(p, 1);
}

/** Writes a page that no other step writes, with contents that depend on its number and `value`,
 * and checks the pages of earlier steps. */
static void use_resident(int step, uint64_t value) {
  static uint64_t written[4096];
  if (resident == NULL) return;
  const size_t stride = resident_pages / 4096, own = (size_t)step * stride;
  written[step] = value;
  resident[own * kPageWords] = hash_step(own, value);
  for (int older = 0; older <= step; ++older) {
    const size_t page = (size_t)older * stride;
    check_u64("a page", hash_step(page, written[older]), resident[page * kPageWords]);
  }
  const size_t untouched = own + 1 + (size_t)(value % (stride - 1));
  check_u64("another page", hash_step(untouched, 1), resident[untouched * kPageWords]);
}

/** Writes the next pages in turn, and checks those of the step before. */
static void dirty_resident(int step, uint64_t value) {
  static uint64_t before;
  for (size_t i = 0; i < dirty_pages; ++i) {
    const size_t last = (((size_t)step - 1) * dirty_pages + i) % resident_pages;
    const size_t next = ((size_t)step * dirty_pages + i) % resident_pages;
    if (step > 0)
      check_u64("a dirty page", hash_step(last, before), resident[last * kPageWords + 1]);
    resident[next * kPageWords + 1] = hash_step(next, value);
  }
  before = value;
}

// ----------------------------------------------------------------------------- obstacles to images

/** Makes those clones fail whose flags have all of `with` and none of `without`. */
static void refuse_clones(unsigned with, unsigned without) {
  const unsigned flags = offsetof(struct seccomp_data, args[0]);
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, without, 3, 0),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, with),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, with, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  check_i64("no new privileges", 0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  check_i64("seccomp", 0, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

// A thread that the C library does not know. It is one as long as the kernel has not cleared its
// id.
static char raw_stack[65536] __attribute__((aligned(16)));
static volatile pid_t raw_thread;
static volatile int raw_over;
static int wait_until_over(void* unused) {
  const struct timespec a_millisecond = {0, 1000000};
  (void)unused;
  while (!raw_over) syscall(SYS_nanosleep, &a_millisecond, NULL);
  return 0;
}
static void begin_raw_thread(void) {
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                    CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
  check_true("thread", clone(wait_until_over, raw_stack + sizeof raw_stack, flags, NULL,
                             (pid_t*)&raw_thread, NULL, (pid_t*)&raw_thread) > 0);
}
static void end_raw_thread(void) {
  raw_over = 1;
  while (raw_thread != 0) pause_us(100);
}

static int ends[2] = {-1, -1};
static pid_t child;
static char* shared;

static char* withheld;
static int locked = -1;

static void withhold(int advice) {
  withheld = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check_true("memory", withheld != MAP_FAILED && madvise(withheld, 4096, advice) == 0);
  *withheld = 7;
}

static void block(int how_to) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  check_i64("signal mask", 0, sigprocmask(how_to, &set, NULL));
}

static timer_t timer_of_program;
static int signals;

static void count_signal(int number) {
  (void)number;
  ++signals;
}

static void forbid(void) {
  if (is("thread")) begin_raw_thread();
  if (is("child")) {
    child = fork();
    if (child == 0) {
      for (;;) pause();
    }
  }
  if (is("timer")) check_i64("timer", 0, timer_create(CLOCK_MONOTONIC, NULL, &timer_of_program));
  if (is("mapping")) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check_true("mapping", shared != MAP_FAILED);
  }
  if (is("wiped")) withhold(MADV_WIPEONFORK);
  if (is("unforked")) withhold(MADV_DONTFORK);
  if (is("signal")) {
    signal(SIGUSR1, count_signal);
    block(SIG_BLOCK);
    raise(SIGUSR1);
  }
  if (is("lock")) {
    locked = open("/proc/self/exe", O_RDONLY);
    check_i64("lock", 0, flock(locked, LOCK_SH));
  }
  if (is("clone")) refuse_clones(0, 0);
  if (is("image")) refuse_clones(0, CLONE_VFORK);
  if (is("woken")) refuse_clones(CLONE_PARENT, 0);
  // A pipe or socket pair with both ends here would be no obstacle.
  if (is("pipe")) check_true("pipe", pipe(ends) == 0);
  if (is("socket")) check_true("socket", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  if (ends[1] >= 0) close(ends[1]);
}

static void allow(void) {
  if (is("thread")) end_raw_thread();
  if (is("child")) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  }
  if (is("timer")) timer_delete(timer_of_program);
  if (is("mapping")) munmap(shared, 4096);
  if (withheld != NULL) {
    check_i64("memory", 7, *withheld);
    munmap(withheld, 4096);
  }
  if (is("signal")) {
    block(SIG_UNBLOCK);
    check_i64("signals", 1, signals);
  }
  if (locked >= 0) close(locked);
  if (ends[0] >= 0) close(ends[0]);
}

static void init_mutex(pthread_mutex_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  check_i64("type", 0, pthread_mutexattr_settype(&attributes, type));
  check_i64("mutex", 0, pthread_mutex_init(mutex, &attributes));
}

/** A step of `mutexes`. The C library stores the owner's thread id in a mutex. */
static void use_mutexes(int step) {
  static pthread_mutex_t recursive, checking;
  static pthread_rwlock_t owned = PTHREAD_RWLOCK_INITIALIZER;
  check_i64("read lock", 0, pthread_rwlock_rdlock(&owned));
  check_i64("read unlock", 0, pthread_rwlock_unlock(&owned));
  check_i64("write lock", 0, pthread_rwlock_wrlock(&owned));
  check_i64("write unlock", 0, pthread_rwlock_unlock(&owned));
  if (step == 0) {
    init_mutex(&recursive, PTHREAD_MUTEX_RECURSIVE);
    init_mutex(&checking, PTHREAD_MUTEX_ERRORCHECK);
  }
  check_i64("locked", 0, pthread_mutex_lock(&recursive));
  if (step > 0) {
    check_i64("locked twice", 0, pthread_mutex_unlock(&recursive));
    check_i64("locked by oneself", EDEADLK, pthread_mutex_lock(&checking));
    check_i64("unlocked", 0, pthread_mutex_unlock(&checking));
  }
  check_i64("locked again", 0, pthread_mutex_lock(&checking));
}

static volatile sig_atomic_t queued;

static void note_queued(int number) {
  (void)number;
  queued = 1;
}

/** A thread that passes the main thread to functions, which must work after a wake-up, too. */
static void* name_main_thread(void* given) {
  const pthread_t first = *(const pthread_t*)given;
  char name[16] = "";
  cpu_set_t set;
  int failed = pthread_getname_np(first, name, sizeof name) != 0 || strcmp(name, "steps") != 0;
  failed |= pthread_setname_np(first, "steps") != 0;
  failed |= pthread_getaffinity_np(first, sizeof set, &set) != 0 || CPU_COUNT(&set) == 0;
  failed |= pthread_kill(first, 0) != 0;
  failed |= pthread_sigqueue(first, SIGUSR2, (union sigval){.sival_int = 1}) != 0;
  return failed ? given : NULL;
}

static void be_named(pthread_t self) {
  pthread_t other;
  void* failed = NULL;
  queued = 0;
  signal(SIGUSR2, note_queued);
  check_i64("thread", 0, pthread_create(&other, NULL, name_main_thread, &self));
  check_i64("join", 0, pthread_join(other, &failed));
  check_true("named by another thread", failed == NULL);
  check_i64("signal from it", 1, queued);
}

/** Closes all descriptors that the program has not opened, in one of three ways. */
static void close_others(int way) {
  const int below = 3;
  if (way == 0) closefrom(below);
  if (way == 1) check_i64("close_range", 0, close_range(below, ~0U, 0));
  for (int fd = below; way == 2 && fd < 2000; ++fd) close(fd);
}

/** A step of `itself`. Devices stay open, one of them the standard input of most ranks; functions
 * get the calling thread; and in some steps the program closes all other descriptors. */
static void use_itself(int step) {
  static int null, zero, full;
  if (step % 40 == 0) {
    close_others(step / 40 % 3);
    null = open("/dev/null", O_WRONLY);
    zero = open("/dev/zero", O_RDONLY);
    full = open("/dev/full", O_WRONLY);
  }
  char byte = 7;
  check_i64("/dev/null", 1, write(null, &byte, 1));
  check_i64("/dev/zero", 1, read(zero, &byte, 1));
  check_i64("what it gives", 0, byte);
  check_i64("/dev/full", -1, write(full, &byte, 1));
  check_i64("why", ENOSPC, errno);

  const pthread_t self = pthread_self();
  cpu_set_t set;
  check_i64("affinity", 0, pthread_getaffinity_np(self, sizeof set, &set));
  check_true("processors", CPU_COUNT(&set) > 0);
  check_i64("affinity again", 0, pthread_setaffinity_np(self, sizeof set, &set));
  int policy = -1;
  struct sched_param given = {0};
  check_i64("scheduling", 0, pthread_getschedparam(self, &policy, &given));
  check_i64("policy", policy, sched_getscheduler(getpid()));
  check_i64("scheduling again", 0, pthread_setschedparam(self, policy, &given));
  clockid_t clock;
  struct timespec time = {0};
  check_i64("clock", 0, pthread_getcpuclockid(self, &clock));
  check_i64("time", 0, clock_gettime(clock, &time));
  check_i64("signal", 0, pthread_kill(self, 0));
  pthread_attr_t attributes;
  size_t stack = 0;
  check_i64("attributes", 0, pthread_getattr_np(self, &attributes));
  check_i64("stack", 0, pthread_attr_getstacksize(&attributes, &stack));
  check_true("stack", stack > 0);
  pthread_attr_destroy(&attributes);
  char name[16] = "";
  check_i64("name", 0, pthread_setname_np(self, "steps"));
  check_i64("name", 0, pthread_getname_np(self, name, sizeof name));
  check_true("its name", strcmp(name, "steps") == 0);
  if (step % 10 == 0) be_named(self);
}

static struct timespec in_2_ms(clockid_t clock) {
  struct timespec t;
  check_i64("clock_gettime", 0, clock_gettime(clock, &t));
  t.tv_nsec += 2000000;
  if (t.tv_nsec < 1000000000) return t;
  t.tv_nsec -= 1000000000;
  ++t.tv_sec;
  return t;
}

static void is_past(const char* what, clockid_t clock, struct timespec end) {
  struct timespec now;
  check_i64("clock_gettime", 0, clock_gettime(clock, &now));
  const int past =
      now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
  check_true(what, past);
  check_true(what, now.tv_sec - end.tv_sec < 1000);
}

/** Waits until times of a clock, by every function that does. */
static void wait_until_times(clockid_t clock) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  static sem_t none;
  struct timespec end = in_2_ms(clock);
  check_i64("sleep", 0, clock_nanosleep(clock, TIMER_ABSTIME, &end, NULL));
  is_past("sleep", clock, end);
  pthread_mutex_lock(&mutex);
  end = in_2_ms(clock);
  check_i64("condition", ETIMEDOUT, pthread_cond_clockwait(&never, &mutex, clock, &end));
  is_past("condition", clock, end);
  end = in_2_ms(CLOCK_REALTIME);
  check_i64("condition", ETIMEDOUT, pthread_cond_timedwait(&never, &mutex, &end));
  is_past("condition", CLOCK_REALTIME, end);
  end = in_2_ms(clock);
  check_i64("mutex", ETIMEDOUT, pthread_mutex_clocklock(&mutex, clock, &end));
  is_past("mutex", clock, end);
  pthread_mutex_unlock(&mutex);
  pthread_rwlock_rdlock(&lock);
  end = in_2_ms(clock);
  check_i64("lock", ETIMEDOUT, pthread_rwlock_clockwrlock(&lock, clock, &end));
  is_past("lock", clock, end);
  pthread_rwlock_unlock(&lock);
  end = in_2_ms(clock);
  check_i64("semaphore", -1, sem_clockwait(&none, clock, &end));
  check_i64("semaphore", ETIMEDOUT, errno);
  is_past("semaphore", clock, end);
  const int timer = timerfd_create(clock, TFD_CLOEXEC);
  struct itimerspec once = {.it_value = in_2_ms(clock)};
  uint64_t fired = 0;
  check_i64("timer", 0, timerfd_settime(timer, TFD_TIMER_ABSTIME, &once, NULL));
  check_i64("timer", sizeof fired, read(timer, &fired, sizeof fired));
  is_past("timer", clock, once.it_value);
  close(timer);
}

enum { kNicer = 3, kSlack_ns = 123456, kDescriptors = 64 };
static int nice_before;
static rlim_t addresses;

/** Returns the size of the process's addresses in pages. */
static long address_pages(void) {
  long pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  if (f == NULL || fscanf(f, "%ld", &pages) != 1) check_fail("statm", "a number", "none");
  fclose(f);
  return pages;
}

static void limit(int resource, rlim_t soft, int hard_too) {
  struct rlimit l;
  getrlimit(resource, &l);
  l.rlim_cur = soft;
  if (hard_too) l.rlim_max = soft;
  check_i64("setrlimit", 0, setrlimit(resource, &l));
}

static void set_limits(void) {
  if (is("limits")) {
    limit(RLIMIT_NOFILE, kDescriptors, 1);
    nice_before = getpriority(PRIO_PROCESS, 0);
    check_i64("nice", nice_before + kNicer, nice(kNicer));
    check_i64("slack", 0, prctl(PR_SET_TIMERSLACK, kSlack_ns, 0, 0, 0));
    check_i64("privileges", 0, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  } else if (is("addresses") || is("addresses_hard")) {
    addresses = (rlim_t)address_pages() * 4096 + (64 << 20);
    limit(RLIMIT_AS, addresses, is("addresses_hard"));
  }
}

static void look_at_limits(void) {
  struct rlimit l;
  if (is("limits")) {
    getrlimit(RLIMIT_NOFILE, &l);
    check_i64("descriptors", kDescriptors, (long long)l.rlim_cur);
    check_i64("nice", nice_before + kNicer, getpriority(PRIO_PROCESS, 0));
    check_i64("slack", kSlack_ns, prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
    check_i64("privileges", 1, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  } else if (is("addresses") || is("addresses_hard")) {
    getrlimit(RLIMIT_AS, &l);
    check_i64("addresses", (long long)addresses, (long long)l.rlim_cur);
  }
}

/** connect() replaces the C library's function. After MPI_Init only clones of a rank call it. */
static volatile int clones_die;

int connect(int fd, const struct sockaddr* address, socklen_t bytes) {
  if (clones_die) raise(SIGKILL);
  return (int)syscall(SYS_connect, fd, address, bytes);
}

/** recvmsg() replaces the C library's, too. In an image it returns when the agent wakes that. */
static volatile int receiver_stops;

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  const ssize_t received = syscall(SYS_recvmsg, fd, message, flags);
  if (receiver_stops) {
    receiver_stops = 0;
    raise(SIGSTOP);
  }
  return received;
}

static const uint64_t kNeeded = 1;
static const uint64_t* volatile needed = &kNeeded;

int main(int argc, char** argv) {
  check_begin(&argc, &argv);
  how = argc > 1 ? argv[1] : "messages";
  const int steps = (int)argument_number(argc, argv, "steps", 200);
  const long long pause = argument_number(argc, argv, "pause_us", 1000);
  const int until = (int)argument_number(argc, argv, "until", steps);
  const int from = (int)argument_number(argc, argv, "from", 0);
  const int with_files = is("files") || is("rewrite");
  const int with_input = is("input") || is("input_bytes");
  if (steps > (int)(sizeof seen / sizeof *seen)) check_fail("steps", "fewer", "more");
  if (is("input_bytes")) setvbuf(stdin, NULL, _IONBF, 0);
  if (with_files) open_files();
  touch(argument_number(argc, argv, "resident", 0));
  if (resident != NULL) dirty_pages = (size_t)argument_number(argc, argv, "dirty", 0);
  set_limits();
  for (int step = 0; step < steps; ++step) {
    check_context("step %d", step);
    look_at_limits();
    if (step == from) forbid();
    if (step == until) allow();
    receiver_stops = is("stops");
    clones_die = is("unregistered") && check_state.rank == 1 && step < until;
    pause_us(pause);
    if (is("damaged") && check_state.rank == 1 && step == until) needed = NULL;
    if (step >= until + 100) check_u64("what is needed", kNeeded, *needed);
    uint64_t value = collective(step);
    ring(step, step == steps - 1);
    if (is("mutexes")) use_mutexes(step);
    if (is("itself")) use_itself(step);
    if (is("deadlines")) wait_until_times(step % 2 == 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME);
    if (is("polls")) value = hash_step(value, polled(step));
    if (with_input) value = hash_step(value, line_of_input());
    received_by_all(value);
    remember(step, value);
    use_resident(step, value);
    dirty_resident(step, value);
    if (with_files) write_files(step, value);
    printf("rank %d, step %d: %016llx\n", check_state.rank, step, (unsigned long long)value);
    if (check_state.rank % 2 == 0) fflush(stdout);
    if (step % 10 == 0) fprintf(stderr, "rank %d: step %d\n", check_state.rank, step);
  }
  if (with_files) read_files(steps);
  if (until >= steps) allow();
  return check_end();
}
