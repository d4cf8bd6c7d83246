// forbidding WORD... -- PROGRAM ARGUMENT...
//
// Runs a program under a seccomp filter, as a container does. A word is the name of a system call,
// which fails with EPERM, or such a name and "=ENOSYS"; or it is a profile:
//
//   docker   what the default profile of Docker (and of containerd, "RuntimeDefault" of Kubernetes)
//            does not allow, and the capabilities that containers do not have by default
//   strict   and what a process may do to others: ptrace, process_vm_*, pidfd_*
//   older    what Linux has since 6.5: getsockopt(SO_PEERPIDFD)

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

// The profile is a list of what is allowed. These are the others, on x86-64 and without more
// capabilities than the default.
static const char* const kDocker[] = {"_sysctl",
                                      "acct",
                                      "add_key",
                                      "afs_syscall",
                                      "bpf",
                                      "cachestat",
                                      "clock_settime",
                                      "create_module",
                                      "delete_module",
                                      "fanotify_init",
                                      "finit_module",
                                      "fsconfig",
                                      "fsmount",
                                      "fsopen",
                                      "fspick",
                                      "get_kernel_syms",
                                      "get_mempolicy",
                                      "getpmsg",
                                      "init_module",
                                      "io_uring_enter",
                                      "io_uring_register",
                                      "io_uring_setup",
                                      "ioperm",
                                      "iopl",
                                      "kcmp",
                                      "kexec_file_load",
                                      "kexec_load",
                                      "keyctl",
                                      "lookup_dcookie",
                                      "mbind",
                                      "migrate_pages",
                                      "mount",
                                      "mount_setattr",
                                      "move_mount",
                                      "move_pages",
                                      "nfsservctl",
                                      "open_by_handle_at",
                                      "open_tree",
                                      "perf_event_open",
                                      "pidfd_getfd",
                                      "pivot_root",
                                      "process_madvise",
                                      "putpmsg",
                                      "query_module",
                                      "quotactl",
                                      "quotactl_fd",
                                      "reboot",
                                      "request_key",
                                      "security",
                                      "set_mempolicy",
                                      "set_mempolicy_home_node",
                                      "setdomainname",
                                      "sethostname",
                                      "setns",
                                      "settimeofday",
                                      "swapoff",
                                      "swapon",
                                      "sysfs",
                                      "syslog",
                                      "tuxcall",
                                      "umount2",
                                      "unshare",
                                      "uselib",
                                      "userfaultfd",
                                      "ustat",
                                      "vhangup",
                                      "vserver"};
static const char* const kStrict[] = {"pidfd_open", "pidfd_send_signal", "process_vm_readv",
                                      "process_vm_writev", "ptrace"};
static const int kCapabilities[] = {
    CAP_AUDIT_WRITE, CAP_CHOWN,   CAP_DAC_OVERRIDE,     CAP_FOWNER,    CAP_FSETID,
    CAP_KILL,        CAP_MKNOD,   CAP_NET_BIND_SERVICE, CAP_NET_RAW,   CAP_SETFCAP,
    CAP_SETGID,      CAP_SETPCAP, CAP_SETUID,           CAP_SYS_CHROOT};

static void fail(const char* what, int error) {
  fprintf(stderr, "forbidding: %s: %s\n", what, strerror(error));
  exit(1);
}

static void require(int result, const char* what) {
  if (result < 0 && result != -EEXIST) fail(what, -result);
}

static int number_of(const char* name) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) fail(name, ENOSYS);
  return number;
}

static void forbid(scmp_filter_ctx filter, const char* name, int error) {
  require(seccomp_rule_add(filter, SCMP_ACT_ERRNO(error), number_of(name), 0), name);
}

// Forbids a call if these bits of its first argument have that value.
static void forbid_value(scmp_filter_ctx filter, const char* name, uint64_t bits, uint64_t value) {
  const struct scmp_arg_cmp is = SCMP_A0_64(SCMP_CMP_MASKED_EQ, bits, value);
  require(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number_of(name), 1, is), name);
}

static void forbid_as_docker(scmp_filter_ctx filter) {
  for (size_t i = 0; i < sizeof kDocker / sizeof *kDocker; ++i) {
    // The library may not know the oldest and the newest.
    if (seccomp_syscall_resolve_name(kDocker[i]) != __NR_SCMP_ERROR)
      forbid(filter, kDocker[i], EPERM);
  }
  forbid(filter, "clone3", ENOSYS);
  // personality() may ask (0xffffffff), and set these two bits only.
  const uint32_t asks = 1u << 31, allowed = 0x8 | 0x20000;
  for (uint32_t bit = 1; bit != asks; bit <<= 1) {
    if ((bit & allowed) == 0) forbid_value(filter, "personality", bit | asks, bit);
  }
  // clone() may not make namespaces.
  const uint64_t namespaces = 0x7e020000;
  for (uint64_t bit = 1; bit <= namespaces; bit <<= 1) {
    if ((bit & namespaces) != 0) forbid_value(filter, "clone", bit, bit);
  }
  const uint64_t virtual_machines = 40;  // AF_VSOCK
  forbid_value(filter, "socket", ~UINT64_C(0), virtual_machines);
}

static void drop_capabilities(void) {
  for (int c = 0; c <= CAP_LAST_CAP; ++c) {
    int keeps = 0;
    for (size_t i = 0; i < sizeof kCapabilities / sizeof *kCapabilities; ++i) {
      keeps |= kCapabilities[i] == c;
    }
    if (!keeps) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);  // fails if this process has none to lose
  }
}

static void add(scmp_filter_ctx filter, char* word) {
  if (strcmp(word, "docker") == 0 || strcmp(word, "strict") == 0) {
    forbid_as_docker(filter);
    drop_capabilities();
    for (size_t i = 0; *word == 's' && i < sizeof kStrict / sizeof *kStrict; ++i) {
      forbid(filter, kStrict[i], EPERM);
    }
    return;
  }
  if (strcmp(word, "older") == 0) {
    const struct scmp_arg_cmp is = SCMP_A2_64(SCMP_CMP_EQ, 77);  // SO_PEERPIDFD
    require(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT), number_of("getsockopt"), 1, is),
            word);
    return;
  }
  char* error = strchr(word, '=');
  if (error != NULL) *error++ = '\0';
  forbid(filter, word, error != NULL && strcmp(error, "ENOSYS") == 0 ? ENOSYS : EPERM);
}

int main(int argc, char** argv) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  int i = 1;
  for (; i < argc && strcmp(argv[i], "--") != 0; ++i) add(filter, argv[i]);
  if (i + 1 >= argc) fail("no program", EINVAL);
  require(seccomp_load(filter), "the filter");
  execv(argv[i + 1], argv + i + 1);
  fail(argv[i + 1], errno);
}
