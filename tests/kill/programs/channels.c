// channels STEPS PAUSE_US: each rank talks to itself, as interpreters and libraries do for their
// own threads. A thread waits in epoll for tokens from a pipe, for a counter and for a timer, and
// answers over a socket pair. Besides, a pipe, a socket pair, a counter and a semaphore hold
// something all the time, from one step to the next. Nothing of it may be lost or come twice.

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "program.h"

static int tokens[2], answers[2], bell, set, ticks;
static volatile sig_atomic_t alarms;
static volatile long ticked;

static void count_alarm(int number) {
  (void)number;
  ++alarms;
}

static void must(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static long read_long(int fd) {
  long value = -1;
  ssize_t n;
  while ((n = read(fd, &value, sizeof value)) < 0 && errno == EINTR) {
  }
  return n == sizeof value ? value : -1;
}
static void write_long(int fd, long value) {
  ssize_t n;
  while ((n = write(fd, &value, sizeof value)) < 0 && errno == EINTR) {
  }
  must(n == sizeof value, "write");
}

static void* serve(void* nothing) {
  long rung = 0;
  for (;;) {
    struct epoll_event events[4];
    const int n = epoll_wait(set, events, 4, -1);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u32 == 1) {
        const long token = read_long(tokens[0]);
        if (token == 0) return nothing;
        while (rung < token) rung += read_long(bell);  // the bell was rung before the token came
        write_long(answers[1], token * 1000003 + rung);
      } else if (events[i].data.u32 == 2) {
        ticked += read_long(ticks) > 0;
      }
    }
  }
}

static void add(int fd, unsigned mark) {
  struct epoll_event e = {.events = EPOLLIN, .data.u32 = mark};
  must(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
}

int main(int argc, char** argv) {
  OK(MPI_Init(&argc, &argv));
  check_attach();
  const int steps = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 0;
  int kept[2], pair[2];
  must(pipe(tokens) == 0 && pipe2(kept, O_NONBLOCK | O_CLOEXEC) == 0, "pipe");
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, answers) == 0, "socketpair");
  must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
  bell = eventfd(0, 0);
  const int semaphore = eventfd(0, EFD_SEMAPHORE), counter = eventfd(0, EFD_NONBLOCK);
  const int twin = dup(counter), idle = socket(AF_INET, SOCK_DGRAM, 0);
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  sigprocmask(SIG_BLOCK, &usr2, NULL);
  const int signals = signalfd(-1, &usr2, SFD_NONBLOCK);
  ticks = timerfd_create(CLOCK_MONOTONIC, 0);
  set = epoll_create1(EPOLL_CLOEXEC);
  must(bell >= 0 && semaphore >= 0 && twin >= 0 && idle >= 0 && signals >= 0 && set >= 0, "open");
  const struct itimerspec every = {{0, 3000000}, {0, 3000000}};
  timerfd_settime(ticks, 0, &every, NULL);
  add(tokens[0], 1);
  add(ticks, 2);
  signal(SIGALRM, count_alarm);
  const struct itimerval often = {{0, 20000}, {0, 20000}};
  setitimer(ITIMER_REAL, &often, NULL);
  pthread_t thread;
  must(pthread_create(&thread, NULL, serve, NULL) == 0, "pthread_create");
  write_long(kept[1], 0);
  write_long(pair[0], 0);
  long total = 0;
  for (long i = 1; i <= steps; ++i) {
    write_long(bell, 1);
    write_long(semaphore, 2);
    write_long(counter, i);
    write_long(tokens[1], i);
    long sum = 0;
    OK(MPI_Allreduce(&i, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    check_i64("sum", i * check_state.size, sum);
    check_i64("answer", i * 1000003 + i, read_long(answers[0]));
    write_long(kept[1], i);
    check_i64("kept", i - 1, read_long(kept[0]));
    write_long(pair[0], i);
    check_i64("pair", i - 1, read_long(pair[1]));
    if (pause > 0) pause_us(pause);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    check_i64("semaphore", 1, read_long(semaphore));  // one unit a step is left
    if (i % 10 == 0) check_i64("counter", 10 * i - 45, read_long(twin));
    kill(getpid(), SIGUSR2);
    struct signalfd_siginfo info;
    check_i64("signal", sizeof info, read(signals, &info, sizeof info));
    total += sum;
    if (i % 100 == 0) printf("rank %d, step %ld: %ld\n", check_state.rank, i, total);
  }
  check_i64("left", steps, read_long(kept[0]));
  for (long i = 0; i < steps; ++i) check_i64("unit", 1, read_long(semaphore));
  int value = 0;
  socklen_t bytes = sizeof value;
  check_i64("type", 0, getsockopt(idle, SOL_SOCKET, SO_TYPE, &value, &bytes));
  check_i64("idle", SOCK_DGRAM, value);
  check_i64("flags", O_NONBLOCK, fcntl(kept[0], F_GETFL) & O_NONBLOCK);
  check_i64("close on exec", FD_CLOEXEC, fcntl(kept[0], F_GETFD));
  check_i64("inherited", 0, fcntl(tokens[0], F_GETFD));
  const long before = ticked, alarms_before = alarms;
  for (int i = 0; i < 200 && (ticked == before || alarms == alarms_before); ++i) pause_us(5000);
  check_i64("ticks", 1, ticked > before);
  check_i64("alarms", 1, alarms > alarms_before);
  write_long(tokens[1], 0);
  check_i64("join", 0, pthread_join(thread, NULL));
  return check_end();
}
