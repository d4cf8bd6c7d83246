"""Large processes, large messages, and journals without enough memory."""

import os
import re
import signal
import subprocess

from harness import MOMENTS, Kill, Skip, check_deaths, require, scenario

STEP_BYTES = 64 * 1024
LIMIT_REACHED = "the journal is full"


@scenario(labels=["slow"], limit_s=120)
def resident_1gib(t):
    """A rank with a gibibyte of memory dies, which the kernel needs time to free."""
    program = ("steps", "count=30", "resident_mib=1024")
    for kills in ([Kill(1, 20)], [Kill(0, 20, "before"), Kill(1, 20, "after")]):
        result = t.recovers(2, *program, kills=kills, limit_s=60)
        [death] = result.named("death", 1)
        require(death.get("peak_bytes", 0) > 1 << 30, "it had no gibibyte", result)


@scenario()
def large_values(t):
    """A value that does not fit a staging buffer is refused, and not written past its end."""
    last = t.undisturbed(3, "large_values").operations(1)
    for ordinal in range(1, last + 1):
        t.recovers(3, "large_values", kills=[Kill(1, ordinal, t.rng.choice(MOMENTS))])


@scenario(kind=["allreduce", "allreduce_in_place", "bcast", "allgather", "reduce"], sweeps=True)
def large(t, kind):
    """Vectors of 64 MiB: a rank is killed by --kill just before the commit, and from outside."""
    rounds = 2
    program = ("large", kind, "mib=64", f"rounds={rounds}")
    for moment in MOMENTS if t.long else ["inside"]:
        t.recovers(2, *program, kills=[Kill(1, 2, moment)])
    middle = 0
    for run in t.runs(2, 60, lambda: middle >= 2):
        rank, begun = run % 2, t.rng.randrange(rounds)
        delay_s = t.rng.uniform(0, 0.02)

        def interfere(job):
            job.until_output(f"round {begun} begins")
            job.run_for(delay_s)
            job.kill(rank)

        result = t.recovers(2, *program, interfere=interfere)
        positions = [death["position"] for death in result.named("death")]
        middle += any(p["inside"] and p["ordinal"] <= rounds for p in positions)
    require(middle >= 2, f"only {middle} deaths were in the middle", result)


# ----------------------------------------------------------------------------------- no room for it


def with_mounts(script, *arguments):
    """Returns a command that runs another one behind a script, in a mount namespace of its own."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    command = [*unshare, "sh", "-c", f'{script} && shift {len(arguments)} && exec "$@"', "sh", *arguments]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        raise Skip(f"may not mount: {tried.stderr.strip()}")
    return command


def with_small_file_system(directory, size):
    """Returns a command that runs another one with a file system of that size at `directory`."""
    return with_mounts('mount -t tmpfs -o size="$2" tmpfs "$1"', directory, size)


@scenario()
def small_dev_shm(t):
    """The journal is not in /dev/shm: a /dev/shm of 64 MB does not limit it."""
    prefix = with_small_file_system("/dev/shm", "64m")
    count = 1500  # 94 MiB of results
    program = ("steps", f"count={count}", "kinds=a", f"bytes={STEP_BYTES}")
    t.recovers(2, *program, prefix=prefix, limit_s=60)
    kills = [Kill(0, count - 10), Kill(1, count - 5, "before")]
    result = t.recovers(2, *program, prefix=prefix, kills=kills, limit_s=60)
    complaints = [line for line in result.err.split("\n") if "journal" in line]
    expected = [line for line in complaints if "; journal at most " in line]  # of the summary
    require(complaints == expected, "it complains about the journal", result)


def program_over(mib):
    """Returns a program whose results take more than `mib` MiB of the journal."""
    return ("steps", f"count={mib * (1 << 20) // STEP_BYTES}", "kinds=a", f"bytes={STEP_BYTES}")


@scenario()
def journal_limit(t):
    """A full journal is reported once, and the job continues with the right result."""
    program = program_over(mib=64)
    expected = t.undisturbed(2, *program)
    result = t.run(2, *program, flags=["--journal-limit", "16M"])
    require((result.code, result.out) == (0, expected.out), "not as without a limit", result)
    require(result.err.count(LIMIT_REACHED) == 1, "it must say so once", result)
    require(len(result.named("limit")) == 1, "it must be one event", result)
    for word in ("16 MiB", "--journal-limit"):
        require(word in result.err, f"it does not say '{word}'", result)


@scenario(kinds=["a", "b", "x", "abrgxt"])
def journal_limit_mixed(t, kinds):
    """For every kind of operation, memory is reused only when no rank needs it."""
    program = ("steps", "count=6000", f"kinds={kinds}", "bytes=2048")
    expected = t.undisturbed(3, *program)
    result = t.run(3, *program, flags=["--journal-limit", "8M"])
    require((result.code, result.out) == (0, expected.out), "not as without a limit", result)
    require(result.err.count(LIMIT_REACHED) == 1, "it must say so once", result)


@scenario()
def journal_limit_after_deaths(t):
    """Deaths before the limit is reached are repaired."""
    program = program_over(mib=64)
    expected = t.undisturbed(2, *program)
    kills = [Kill(1, 50, "inside"), Kill(0, 60, "before"), Kill(1, 70, "after", 1)]
    result = t.run(2, *program, flags=["--journal-limit", "16M"], kills=kills)
    require((result.code, result.out) == (0, expected.out), "not as without a limit", result)
    check_deaths(result, kills)
    require(result.err.count(LIMIT_REACHED) == 1, "it must say so once", result)


@scenario(moment=MOMENTS)
def journal_limit_then_death(t, moment):
    """A death after the limit was reached ends the job with a line that gives the reason."""
    kills = [Kill(1, 900, moment)]
    result = t.run(2, *program_over(mib=64), flags=["--journal-limit", "16M"], kills=kills)
    require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
    check_deaths(result, kills)
    require(not result.named("respawn"), "it was started again", result)
    pattern = r"rank 1 died .* in .*Allreduce|rank 1 died .* after .*Allreduce"
    require(re.search(pattern, result.err), "it does not say where rank 1 died", result)
    require("the journal was full (16 MiB)" in result.err, "it does not say why it ends", result)


@scenario(kinds=["a", "B", "S", "G", "abrgxt"], sweeps=True)
def journal_limit_about_a_death(t, kinds):
    """A rank dies about the time when the journal becomes full, while some ranks are far ahead.

    If the death was early enough, the output is that of a run without deaths. Otherwise the job ends
    with a line that gives the reason.
    """
    program = ("steps", "count=6000", f"kinds={kinds}", "bytes=2048")
    expected = t.undisturbed(3, *program)
    recovered = 0
    for _ in range(100 if t.long else 6):
        kills = [Kill(t.rng.randrange(3), t.rng.randint(1, 3000), t.rng.choice(MOMENTS))]
        result = t.run(3, *program, flags=["--journal-limit", "8M"], kills=kills)
        check_deaths(result, kills)
        if result.named("respawn"):
            recovered += 1
            require((result.code, result.out) == (0, expected.out), "not as undisturbed", result)
        else:
            require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
            require("the journal was full (8 MiB)" in result.err, "it does not say why", result)
    require(recovered > 0 or not t.long, "no death came early enough", result)


def in_small_directory(t, flags):
    """Runs a program whose journal takes 96 MiB with a --journal-dir of 48 MiB, and without."""
    program = program_over(mib=96)
    expected = t.undisturbed(2, *program)
    directory = f"{t.next_work_directory()}/journal"
    os.mkdir(directory)
    prefix = with_small_file_system(directory, "48m")
    flags = ["--journal-dir", directory, *flags]
    return expected, t.run(2, *program, prefix=prefix, flags=flags, leaves=["journal"])


@scenario()
def journal_directory_small(t):
    """The size of the directory's file system is a limit of the journal."""
    expected, result = in_small_directory(t, flags=["--snapshots", "off"])
    require((result.code, result.out) == (0, expected.out), "not as with more room", result)
    require(result.err.count(LIMIT_REACHED) == 1, "it must say so once", result)


@scenario()
def journal_directory_full(t):
    """If --journal-limit is more than the directory has room for, a full directory is an error."""
    _, result = in_small_directory(t, flags=["--journal-limit", "1G"])
    require(result.code == 1, f"exit code {result.code}", result)
    require(not result.named("death"), "a rank died of it", result)
    [line] = [line for line in result.err.split("\n") if line.startswith("rejoin: ")]
    for word in ("the journal cannot grow", "--journal-dir", "--journal-limit"):
        require(word in line, f"it does not say '{word}'", result)
