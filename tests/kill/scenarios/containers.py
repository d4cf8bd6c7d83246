"""Jobs under seccomp filters as those of containers, which forbid system calls that Rejoin uses."""

import itertools
import os
import re
import shutil
import signal
import subprocess

from harness import Failure, require, scenario
from scenarios.endings import messages
from scenarios.going_back import judge as judge_steps
from scenarios.hosts import agents, flags_of
from scenarios.hosts_lost import survives
from scenarios.memory import with_mounts, with_small_file_system
from scenarios.snapshots import EVERY_10_MS, at_random, judge, names_of_files
from scenarios.snapshots_wrappers import at_random_behind, wrapped
from scenarios.written_images import place, require_whole, sets_in

# What jobs lose under the profiles of forbidding.c.
LOST = {"docker": {"personality", "pidfd_getfd"}, "strict": {"personality", "pidfd_getfd", "ptrace"}}
TOOLS, SPEED = {"ptrace"}, {"pidfd_getfd", "ptrace"}  # what matters on one host, and on several
LINE = "rejoin: a seccomp filter forbids "


def require_line(result, lost):
    """Requires one line that names these calls, and no others; none if nothing is lost."""
    lines = [line for line in messages(result) if line.startswith(LINE)]
    require(len(lines) == bool(lost), f"{len(lines)} lines", result)
    if not shutil.which("gdb") and not shutil.which("eu-stack"):
        lost = lost - {"ptrace"}
    named = {call for line in lines for call in re.findall(r"(\w+)\([\w]*\), without which", line)}
    require(named == lost, f"it names {named}, not {lost}", result)
    require(messages(result)[:1] == lines[:1] or not lines, "it is not the first line", result)


def with_images(t, *words):
    """Ranks die at random and go on from images."""
    command = ("frozen", "messages", "steps=300", "pause_us=1000")
    expected = t.undisturbed(4, *command)
    result = t.run(4, *command, flags=EVERY_10_MS, prefix=t.forbidding(*words), interfere=at_random(t.rng))
    judge(result, expected, 4)
    return result


def with_channels(t, *words):
    """The same, with pipes, sockets, counters and threads, some of them duplicates."""
    command = ("channels", "1500", "300")
    expected = t.undisturbed(2, *command)
    result = t.run(2, *command, flags=EVERY_10_MS, prefix=t.forbidding(*words), interfere=at_random(t.rng))
    judge(result, expected, 2)
    return result


def with_threads(t, *words):
    """The same, with threads of every kind."""
    command = ("team", "zoo=1", "steps=1500", "pause_us=300")
    expected = t.undisturbed(2, *command)
    result = t.run(2, *command, flags=EVERY_10_MS, prefix=t.forbidding(*words), interfere=at_random(t.rng))
    judge(result, expected, 2)
    return result


def with_files(t, *words):
    """The same, with files that are added to, renamed over, and extended."""
    command, leaves = ("frozen", "files", "steps=300"), names_of_files(2)
    expected = t.run(2, *command, leaves=leaves)
    flags = {"flags": EVERY_10_MS, "interfere": at_random(t.rng), "leaves": leaves}
    result = t.run(2, *command, prefix=t.forbidding(*words), **flags)
    judge(result, expected, 2)
    for name, contents in expected.files.items():
        require(result.files.get(name) == contents, f"{name} is not as undisturbed", result)
    return result


def behind_a_script(t, *words):
    command = wrapped(t, "sh", "frozen", "messages", "steps=300", "pause_us=1000")
    expected = t.undisturbed(2, *command)
    result = t.run(2, *command, flags=EVERY_10_MS, prefix=t.forbidding(*words), interfere=at_random_behind(t.rng, 2))
    judge(result, expected, 2)
    return result


def on_hosts(t, *words):
    command, flags = ("layout", "2,2", "10"), flags_of("2,2")
    expected = t.undisturbed(4, *command, flags=flags)
    result = t.run(4, *command, flags=[*flags, *EVERY_10_MS], prefix=t.forbidding(*words), interfere=at_random(t.rng))
    judge(result, expected, 4)
    return result


JOBS = {f.__name__: f for f in (with_images, with_channels, with_threads, with_files, behind_a_script, on_hosts)}


@scenario(profile=list(LOST), job=list(JOBS))
def contained(t, profile, job):
    """Ranks die under the profile, and nothing is lost but speed; one line says so."""
    require_line(JOBS[job](t, profile), LOST[profile] & (SPEED if job == "on_hosts" else TOOLS))


@scenario(profile=list(LOST))
def contained_and_written(t, profile):
    """The job runs, and writes no images: one line at its start says so."""
    command = ("frozen", "messages", "steps=300", "pause_us=1000")
    expected = t.undisturbed(4, *command)
    for layout, more in ((None, []), ("2,2", []), ("2,2", ["--survive", "host"])):
        with place(t, layout) as where:
            result = where.run(4, *command, flags=more, prefix=t.forbidding(profile), interfere=at_random(t.rng))
            judge(result, expected, 4)
            require_line(result, {"personality"} | LOST[profile] & (SPEED if layout else TOOLS))
            require(f"no images are written to {where.sets}" in result.err, "it does not say where to", result)
            require(not any(map(sets_in, where.places)), "there are images", result)


@scenario(profile=list(LOST))
def contained_and_resumed(t, profile):
    """Images that were written elsewhere are not restored here: one line says why."""
    command = ("frozen", "messages", "steps=600", "pause_us=2000")
    for layout in (None, "1,1"):
        with place(t, layout) as where:
            where.killed(2, *command)
            result = where.run(2, *command, resume=True, prefix=t.forbidding(profile))
            require(result.code == 1, f"exit code {result.code}", result)
            require(not result.named("start"), "a process was started", result)
            [line] = messages(result)
            require("forbids personality(" in line and "cannot be restored" in line, "not why", result)
            where.resumes(2, *command)


@scenario(profile=list(LOST))
def contained_and_host_lost(t, profile):
    """With --survive host the job runs, and one line at its start says that it survives none."""
    command = ("drift", "how=values", "steps=400", "pause_us=500")
    flags = survives("1,1", "--spares", "1")
    result = t.run(2, *command, flags=flags, prefix=t.forbidding(profile))
    judge_steps(result, 2, 400)
    require_line(result, LOST[profile])
    require("the loss of a host ends the job" in result.err, "it does not say what is lost", result)
    require(not result.named("stored"), "it says that a set is stored", result)

    def interfere(job):
        job.until_event("init", 1)
        os.kill(agents(job)[1], signal.SIGKILL)

    result = t.run(2, *command, flags=flags, prefix=t.forbidding(profile), interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    require_line(result, LOST[profile])


# --------------------------------------------------------------------------------- one call at a time

SOURCES = os.path.join(os.path.dirname(__file__), "../../../src")
# The system calls of Rejoin that a filter may forbid; some are made by the C library and by debuggers.
CALLS = (
    "clone3 close_range fallocate get_mempolicy get_robust_list getrandom ioprio_get ioprio_set kcmp memfd_create "
    "mount name_to_handle_at personality pidfd_getfd pidfd_open pidfd_send_signal process_vm_readv ptrace renameat2 "
    "rseq sched_getattr sched_setattr set_mempolicy setpriority statx unshare".split()
)
# Programs of the C library need these in any case, or every profile allows them.
ORDINARY = set(
    "arch_prctl brk capget clock_gettime clock_nanosleep clone close connect dup3 epoll_pwait epoll_wait exit "
    "exit_group fcntl fstat futex getcwd getdents64 getitimer getpid getppid getresgid getresuid getrusage "
    "getsockopt gettid getuid ioctl kill lseek madvise mmap mprotect mremap msgrcv msgsnd munmap nanosleep newfstatat open openat "
    "pause poll ppoll prctl pread64 prlimit64 pselect6 read recvfrom rt_sigaction rt_sigpending rt_sigprocmask "
    "rt_tgsigqueueinfo sched_getaffinity sched_getparam sched_getscheduler sched_setaffinity sched_setparam "
    "sched_setscheduler sched_yield semop semtimedop sendmsg sendto set_robust_list set_tid_address setitimer "
    "sigaltstack socket stat tgkill timer_create timer_delete timer_settime tkill umask write".split()
)
ONE_LOST = {"personality": "personality", "pidfd_getfd": "pidfd_getfd", "pidfd_open": "pidfd_getfd", "ptrace": "ptrace"}


@scenario()
def unusual_calls_are_known(t):
    """No file of src names a system call that is neither ordinary nor forbidden by a test below."""
    for directory, _, names in os.walk(SOURCES):
        for name in (name for name in names if name.endswith((".cc", ".h"))):
            with open(f"{directory}/{name}") as file:
                unknown = set(re.findall(r"\bSYS_(\w+)", file.read())) - ORDINARY - set(CALLS)
            if unknown:
                raise Failure(f"{name}: {unknown} are neither in CALLS nor in ORDINARY of containers.py")


def written(t, *words):
    """A job with --checkpoint-dir, and with files, is killed, and resumed."""
    command = ("frozen", "files", "steps=600", "pause_us=2000")
    expected = t.run(2, *command, leaves=names_of_files(2))
    with place(t) as where:
        where.killed(2, *command, count=1, prefix=t.forbidding(*words))
        result = where.resumes(2, *command, prefix=t.forbidding(*words))
        require_whole(where, result, expected, 2)
        for name, contents in expected.files.items():
            with open(f"{where.work}/{name}", "rb") as file:
                require(file.read() == contents, f"{name} is not as undisturbed", result)
    return result


def runs_without(t, call, error, job):
    """A job runs with the right result where this call is forbidden. A line says what is lost."""
    result = job(t, f"{call}={error}")
    lost = {ONE_LOST[call]} if call in ONE_LOST else set()
    require_line(result, lost & (SPEED if job is on_hosts else TOOLS))
    if call == "get_robust_list":
        require("a seccomp filter forbids get_robust_list()" in result.err, "it does not say why", result)


def ends_without(t, prefix, call):
    """One line says why a job does not start."""
    result = t.run(2, "steps", "count=3", prefix=prefix)
    require(result.code == 1 and not result.named("start"), f"exit code {result.code}", result)
    [line] = messages(result)
    require(f"{call}() is forbidden" in line, "not why", result)


@scenario(call=CALLS, sweeps=True)
def one_call_is_forbidden(t, call):
    """A system call fails: jobs run with what is left, or end at their start with one line."""
    errors = ["ENOSYS"] if call == "clone3" else ["EPERM", "ENOSYS"]  # glibc knows this answer only
    jobs = [*JOBS.values()]
    if call == "get_robust_list":
        jobs.remove(behind_a_script)  # without snapshots, ranks stay where they are
    elif call != "personality":
        jobs.append(written)
    few = [(t.rng.choice(errors), job) for job in (with_files, t.rng.choice(jobs))]
    for error, job in itertools.product(errors, jobs) if t.long else few:
        if call == "fallocate":
            ends_without(t, t.forbidding(f"{call}={error}"), call)
        else:
            runs_without(t, call, error, job)


@scenario(profile=list(LOST))
def contained_and_checked(t, profile):
    """ftrun check says what jobs lose here, whatever the program."""
    check = [t.ftrun, "check", t.program("steps")]
    for prefix, lost in ((t.forbidding(profile), LOST[profile]), ([], set())):
        done = subprocess.run([*prefix, *check], capture_output=True, text=True, check=True)
        named = set(re.findall(r"  a seccomp filter forbids (\w+)\(\w*\), without which", done.stdout))
        if named != lost:
            raise Failure(f"it names {named}, not {lost}: {done.stdout}")


@scenario(job=["with_images", "behind_a_script"])
def on_an_older_kernel(t, job):
    """Before Linux 6.5, pidfd_open() is needed. Where it is forbidden a job ends at its start."""
    require_line(JOBS[job](t, "older"), set())
    result = t.run(2, "steps", "count=3", prefix=t.forbidding("older", "pidfd_open"))
    require(result.code == 1 and not result.named("start"), f"exit code {result.code}", result)
    [line] = messages(result)
    require(f"{LINE}pidfd_open(), without which" in line, "it does not say why", result)


@scenario()
def no_shared_memory(t):
    """Neither a memfd nor a file system of its own: one line says what the journal needs."""
    ends_without(t, t.forbidding("memfd_create", "unshare"), "memfd_create")


# ------------------------------------------------------------------------------------ file systems


@scenario()
def read_only_root(t):
    """Nothing can be written to but /dev/shm, as with docker run --read-only."""
    command = ("frozen", "messages", "steps=300", "pause_us=1000")
    expected = t.undisturbed(2, *command)
    directory = os.path.dirname(t.next_work_directory())  # of the events
    mounts = [
        'mount --bind "$1" "$1"', "mount -t tmpfs -o size=64m tmpfs /dev/shm", "mount -o remount,bind,ro /",
        "export TMPDIR=/tmp", "! touch /tmp/rejoin-test 2> /dev/null",
    ]  # fmt: skip
    prefix = [*with_mounts(" && ".join(mounts), directory), *t.forbidding("docker")]
    result = t.run(2, *command, flags=EVERY_10_MS, prefix=prefix, interfere=at_random(t.rng))
    judge(result, expected, 2)


@scenario()
def small_dev_shm_of_hosts(t):
    """Parts of other hosts that do not fit into /dev/shm: the job runs, and one line says so."""
    command = ("frozen", "messages", "steps=300", "pause_us=2000", "resident=32")
    flags = survives("1,1", "--spares", "1")
    expected = t.undisturbed(2, *command)
    result = t.run(2, *command, flags=flags, prefix=with_small_file_system("/dev/shm", "16m"))
    judge(result, expected, 2)
    said = [line for line in messages(result) if "no room in /dev/shm (--shm-size" in line]
    require(1 <= len(said) <= 2, f"{len(said)} lines", result)
    require(not result.named("stored"), "it says that a set is stored", result)
