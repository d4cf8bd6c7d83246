// A change of the file system that succeeds only once, and a death `before` or `after` it. In both
// cases the change was announced and was not recorded. No kill from outside can hit that moment.
// The kernel therefore delivers the system call to the process as a signal, whose handler makes the
// change by another system call, or does not, and kills the rank. Second argument: before, after,
// or none for a run without a death.
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "scene.h"

static const char* moment;
static uint64_t incarnation;

// Makes the same change by a system call that the kernel does not deliver as a signal.
static void make_change(const greg_t* r) {
  const long a = r[REG_RDI], b = r[REG_RSI], c = r[REG_RDX], d = r[REG_R10];
  switch (r[REG_RAX]) {
    case SYS_unlinkat:
      syscall(c != 0 ? SYS_rmdir : SYS_unlink, b);
      break;
    case SYS_unlink:
      syscall(SYS_unlinkat, AT_FDCWD, a, 0);
      break;
    case SYS_mkdirat:
      syscall(SYS_mkdir, b, c);
      break;
    case SYS_renameat:
      syscall(SYS_rename, b, d);
      break;
    case SYS_linkat:
      syscall(SYS_link, b, d);
      break;
    case SYS_symlinkat:
      syscall(SYS_symlink, a, c);
      break;
    case SYS_openat:
      syscall(SYS_open, b, c, d);
      break;
    default:
      abort();
  }
}

static void on_trap(int signal_number, siginfo_t* info, void* context) {
  (void)info;
  if (signal_number == SIGSYS && strcmp(moment, "after") == 0) {
    make_change(((ucontext_t*)context)->uc_mcontext.gregs);
  }
  for (;;) syscall(SYS_kill, getpid(), SIGKILL);
}

// Lets the incarnation of this number die in its next system call of this number.
static void die_in(uint64_t number, long system_call) {
  if (incarnation != number || strcmp(moment, "none") == 0) return;
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGSYS, &action, NULL) == 0);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)system_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

static void die_at(long system_call) { die_in(1, system_call); }

static void write_file(const char* path, const char* mode, const char* text) {
  FILE* f = fopen(path, mode);
  REQUIRE(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void play_unlink(void) {
  write_file("x", "w", "x\n");
  step();
  die_at(SYS_unlinkat);
  REQUIRE(unlink("x") == 0);
  REQUIRE_ERRNO(access("x", F_OK) == 0, ENOENT);
  step();
}

static void play_remove(void) {
  step();
  die_at(SYS_unlink);
  REQUIRE(remove("older") == 0);
  step();
}

static void play_rmdir(void) {
  REQUIRE(mkdir("d", 0700) == 0);
  step();
  die_at(SYS_unlinkat);
  REQUIRE(rmdir("d") == 0);
  step();
}

static void play_mkdir(void) {
  step();
  die_at(SYS_mkdirat);
  REQUIRE(mkdir("d", 0700) == 0);
  write_file("d/file", "w", "in it\n");
  step();
}

static void play_rename(void) {
  write_file("final", "w", "old\n");
  write_file("temporary", "w", "new\n");
  step();
  die_at(SYS_renameat);
  REQUIRE(rename("temporary", "final") == 0);
  step();
}

static void play_link(void) {
  step();
  die_at(SYS_linkat);
  REQUIRE(link("older", "other") == 0);
  step();
}

static void play_symlink(void) {
  step();
  die_at(SYS_symlinkat);
  REQUIRE(symlink("older", "other") == 0);
  step();
}

static void play_exclusive(void) {
  step();
  die_at(SYS_openat);
  const int fd = open("lock", O_CREAT | O_EXCL | O_WRONLY, 0600);
  REQUIRE(fd >= 0 && write(fd, "mine\n", 5) == 5 && close(fd) == 0);
  step();
}

static void play_exclusive_stream(void) {
  step();
  die_at(SYS_openat);
  write_file("lock", "wx", "mine\n");
  step();
}

// The temporary file has the name that the program got, and there is only one file.
static void play_temporary(void) {
  char path[] = "file.XXXXXX";
  step();
  die_at(SYS_openat);
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0 && write(fd, "mine\n", 5) == 5 && close(fd) == 0);
  step();
}

static void play_temporary_directory(void) {
  char path[] = "file.XXXXXX";
  step();
  die_at(SYS_mkdirat);
  REQUIRE(mkdtemp(path) == path);
  step();
}

// Uses names that are not relative to the directory in which the program was started. The second
// incarnation dies when it makes a file exclusively again. The user's file "older" in that
// directory has the same name.
static void play_chdir(void) {
  REQUIRE(mkdir("d", 0700) == 0 && chdir("d") == 0);
  const int d = open("..", O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 2; ++i) {
    step();
    die_in(2, SYS_openat);
    const int fd = open("older", O_CREAT | O_EXCL | O_WRONLY, 0600);
    REQUIRE(fd >= 0 && write(fd, "mine\n", 5) == 5 && close(fd) == 0);
    REQUIRE(unlink("older") == 0);
    const int other = openat(d, "lock", O_CREAT | O_EXCL | O_WRONLY, 0600);
    REQUIRE(other >= 0 && close(other) == 0 && unlinkat(d, "lock", 0) == 0);
  }
  die_at(SYS_unlinkat);
  unlink("nothing");
  step();
  REQUIRE(close(d) == 0);
}

// The change fails in both incarnations, although it was announced.
static void play_failing(void) {
  step();
  die_at(SYS_unlinkat);
  REQUIRE_ERRNO(unlink("nothing") == 0, ENOENT);
  REQUIRE_ERRNO(mkdir("older", 0700) == 0, EEXIST);
  step();
}

static const struct scene scenes[] = {
    {"unlink", play_unlink, 2},
    {"remove", play_remove, 2},
    {"rmdir", play_rmdir, 2},
    {"mkdir", play_mkdir, 2},
    {"rename", play_rename, 2},
    {"link", play_link, 2},
    {"symlink", play_symlink, 2},
    {"exclusive", play_exclusive, 2},
    {"exclusive_stream", play_exclusive_stream, 2},
    {"failing", play_failing, 2},
    {"temporary", play_temporary, 2},
    {"temporary_directory", play_temporary_directory, 2},
    {"chdir", play_chdir, 3},
    {NULL, NULL, 0},
};

int main(int argc, char** argv) {
  moment = argc > 2 ? argv[2] : "none";
  const char* rank = getenv("REJOIN_RANK");
  if (rank == NULL || strcmp(rank, "0") == 0) incarnation = count_incarnation();
  return play_scene(argc, argv, scenes);
}
