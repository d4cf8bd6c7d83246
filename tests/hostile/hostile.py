#!/usr/bin/env python3
"""Random collective programs under random kill -9 from outside.

A job is a random program (random_collectives.c), a number of ranks, and a series of attacks, all
drawn from a seed. Its output must be that of a run without deaths, and that of Open MPI; its exit
code must be 0.
"""

import argparse
import glob
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kill"))

from harness import POLL_INTERVAL_S, Failure, Job, Result  # noqa: E402
from harness import check_returns, describe, require  # noqa: E402
from kills import KILLED  # noqa: E402

JOBS_A_PROGRAM = 4
MOST_DEATHS_A_JOB = 30  # one rank may have more than these between two checkpoints

# The number of operations, the largest size in bytes, and the program's mode.
SHAPES = {
    "small": (6000, 4096, "lines"),
    "large": (1500, 8 << 20, "lines"),
    "rejoin": (3000, 1 << 16, "rejoin"),
    "lazy": (3000, 1 << 16, "lazy"),
    "pcontrol": (3000, 1 << 16, "pcontrol"),
}
# Programs that fail after a death: the driver must detect that.
BROKEN = {"wrong": (6000, 4096, "wrong"), "stuck": (6000, 4096, "stuck")}


class HostileJob(Job):
    """A job that knows every process from its start, and never signals any other process."""

    def __init__(self, command, directory, limit_s, expected_bytes):
        self._processes = {}  # pidfd of each rank
        self._events_seen = 0
        self._expected_bytes, self._printed = expected_bytes, 0
        super().__init__(command, directory, limit_s)
        self._born_s = time.monotonic()

    def __exit__(self, kind, *rest):
        super().__exit__(kind, *rest)
        for rank in list(self._processes):
            self._drop(rank)

    def poll(self):
        # The limit applies to the time without output, because on a busy machine a job may take
        # long.
        printed = os.fstat(self._out.fileno()).st_size
        if printed > self._printed and time.monotonic() < self._born_s + 10 * self.limit_s:
            self._printed, self._start_s = printed, time.monotonic()
        return super().poll()

    def _drop(self, rank):
        if rank in self._processes:
            os.close(self._processes.pop(rank))

    def _read_events(self):
        super()._read_events()
        for event in self.events[self._events_seen :]:
            if event["event"] in ("start", "respawn", "register"):
                self._drop(event["rank"])
                try:
                    self._processes[event["rank"]] = os.pidfd_open(event["pid"])
                except ProcessLookupError:
                    pass
            elif event["event"] in ("death", "exit"):
                self._drop(event["rank"])
        self._events_seen = len(self.events)

    def _left_behind(self, leaves):
        # Processes of other jobs, which start and end on this machine, are ignored.
        left = [f"process {pid}" for pid in self.processes()]
        return left + os.listdir(f"{self.directory}/work")

    def signal(self, rank, number):
        try:
            signal.pidfd_send_signal(self._processes[rank], number)
        except (KeyError, ProcessLookupError):
            return False
        return True

    def wait_for(self, condition, most_s):
        """Returns whether the condition became true before the job ended and within the time."""
        end_s = time.monotonic() + most_s
        while self.poll():
            if condition():
                return True
            if time.monotonic() > end_s:
                return False
            time.sleep(POLL_INTERVAL_S)
        return False

    def wait_for_event(self, names, rank=None, incarnation=None, most_s=2.0):
        def seen():
            for e in reversed(self.events):
                if e["event"] in names and rank in (None, e.get("rank")):
                    if incarnation in (None, e.get("incarnation")):
                        return True
            return False

        return self.wait_for(seen, most_s)

    def progress(self):
        """The share of the expected output that has been printed."""
        return os.fstat(self._out.fileno()).st_size / self._expected_bytes

    def incarnation(self, rank):
        born = [e["incarnation"] for e in self.events if "pid" in e and e.get("rank") == rank]
        return max(born, default=0)

    def deaths(self):
        return sum(e["event"] == "death" for e in self.events)


# ----------------------------------------------------------------------------------------- attacks
# Each function is called with a running job, its number of ranks, and random numbers, and returns
# when its attack is over.


def log_uniform(rng, least, most):
    return least * (most / least) ** rng.random()


def some_of(rng, n):
    """Draws one rank, several, or all."""
    return rng.sample(range(n), rng.choice([1, 1, 1, rng.randint(1, n), n]))


def at_any_time(job, n, rng):
    """Kills ranks one after the other, or several at once, at random intervals."""
    gap_s = rng.choice([0.002, 0.01, 0.04])
    for _ in range(rng.randint(2, 8)):
        job.run_for(rng.expovariate(1 / gap_s))
        job.kill(*some_of(rng, n))


def at_the_start(job, n, rng):
    """Kills ranks before or in MPI_Init, and their replacements likewise."""
    for _ in range(rng.randint(1, 3)):
        for rank in some_of(rng, n):
            job.wait_for_event(("start", "respawn"), rank, job.incarnation(rank))
            job.run_for(log_uniform(rng, 1e-5, 4e-3))
            job.kill(rank)


def the_replacement(job, n, rng):
    """Kills a rank and its replacements, each shortly after it was started or is live again."""
    rank = rng.randrange(n)
    job.kill(rank)
    for _ in range(rng.randint(1, 6)):
        known = job.incarnation(rank)
        if not job.wait_for(lambda: job.incarnation(rank) > known, 2.0):
            return
        name = rng.choice(["respawn", "respawn", "register", "init", "live"])
        job.wait_for_event((name,), rank, known + 1)
        job.run_for(log_uniform(rng, 1e-5, 2e-2))
        job.kill(rank)


def others_meanwhile(job, n, rng):
    """Kills a rank, and other ranks while it replays."""
    rank = rng.randrange(n)
    known = job.incarnation(rank)
    job.kill(rank)
    name = rng.choice(["death", "respawn", "register", "init", "live"])
    job.wait_for_event((name,), rank, known if name == "death" else known + 1)
    job.run_for(log_uniform(rng, 1e-5, 5e-3))
    job.kill(*(other for other in some_of(rng, n) if other != rank))


def late(job, n, rng):
    """Kills ranks near the end, or after the first ranks have left MPI."""
    share = rng.uniform(0.6, 1.0)
    job.wait_for(lambda: job.progress() > share, 10.0)
    if rng.random() < 0.5:
        job.wait_for_event(("finalize",), most_s=10.0)
    job.kill(*some_of(rng, n))


def noticed_late(job, n, rng):
    """Stops ftrun while several ranks die, so that it learns of the deaths only when the others
    have gone on as far as they can."""
    job.run_for(rng.uniform(0, 0.05))
    job.process.send_signal(signal.SIGSTOP)
    for rank in some_of(rng, n):
        job.kill(rank)
        job.run_for(log_uniform(rng, 1e-5, 1e-2))
    job.process.send_signal(signal.SIGCONT)


ATTACKS = [at_the_start, at_any_time, the_replacement, others_meanwhile, noticed_late, late]


def attack(job, n, rng, first):
    """Runs a series of attacks until the job has ended, or until it has had MOST_DEATHS_A_JOB
    deaths."""
    chosen = first
    while job.poll() and job.deaths() < MOST_DEATHS_A_JOB:
        chosen(job, n, rng)
        job.run_for(rng.expovariate(1 / 0.01))
        chosen = rng.choice(ATTACKS[:-1] if rng.random() < 0.9 else ATTACKS[-1:])


# --------------------------------------------------------------------------------------- judgement


def sorted_lines(text):
    return sorted(text.split("\n"))


def first_difference(expected, found):
    """Describes the first line that is missing or not expected."""
    for line in sorted(set(expected) ^ set(found), key=lambda l: (len(l.split(":")[0]), l)):
        return f"'{line}' is {'missing' if line in expected else 'not expected'}"
    return "a line is there twice"


def judge(result, n, expected):
    require(result.code == 0, f"exit code {result.code}", result)
    found = sorted_lines(result.out)
    if found != expected:
        require(False, f"wrong output: {first_difference(expected, found)}", result)
    for death in result.named("death"):
        require(death["cause"] in KILLED, f"an unexpected death: {death}", result)
    for rank in range(n):
        sent, died = result.killed.count(rank), len(result.named("death", rank))
        require(died <= sent, f"rank {rank}: {died} deaths by {sent} signals", result)
    check_returns(result, n)


def same_by_fault_injection(job):
    """Returns --kill options for about the same deaths, which repeat them in every run."""
    kills = []
    for e in job.events:
        if e["event"] == "death":
            ordinal = e["position"]["ordinal"]
            point = f"{ordinal}.{'inside' if e['position']['inside'] else 'after'}"
            kills.append(f"--kill {e['rank']}@{point if ordinal else 'init'}#{e['incarnation']}")
    return " ".join(kills)


def under_open_mpi(n, command):
    flags = ["--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1"]
    # Containers forbid the single-copy mechanism, and Open MPI would report that in every run.
    flags += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    # Each rank has a file of its own, because mpirun breaks lines when it merges the output of
    # several ranks.
    with tempfile.TemporaryDirectory(prefix="hostile-") as directory:
        flags += ["--output-filename", f"{directory}:nocopy"]
        done = subprocess.run(
            ["mpirun.openmpi", *flags, "-n", str(n), *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise Failure(f"Open MPI: exit code {done.returncode}\n{done.stderr}")
        text = ""
        for path in glob.glob(f"{directory}/**/stdout", recursive=True):
            with open(path) as file:
                text += file.read()
    return sorted_lines(text)


# -------------------------------------------------------------------------------------------- runs


class Shape:
    """The jobs of one shape. It stores the expected output of the newest program."""

    def __init__(self, name, options):
        self.name, self._options = name, options
        self._program = self._expected = None
        self.counts = dict.fromkeys(["jobs", "programs", "deaths", "before init", "before live"], 0)
        if options.snapshots:
            self.counts["from images"] = 0
        self._directory = tempfile.TemporaryDirectory(prefix="hostile-")

    def close(self):
        self._directory.cleanup()

    def _program_of(self, job_number):
        number = job_number // JOBS_A_PROGRAM
        rng = random.Random(f"{self._options.seed}/{self.name}/program {number}")
        operations, most_bytes, mode = {**SHAPES, **BROKEN}[self.name]
        n = rng.randint(2, self._options.most_ranks)
        words = [rng.randrange(1 << 30), rng.randint(operations // 2, operations), most_bytes, mode]
        return n, [self._options.program, *map(str, words)]

    def _start(self, n, program, expected_bytes):
        directory = tempfile.mkdtemp(dir=self._directory.name)
        os.mkdir(f"{directory}/work")
        flags = ["--max-restarts", "1000", "--journal-limit", "4G"]
        flags += ["--events", f"{directory}/events"]
        if self._options.snapshots:
            flags += ["--snapshots", self._options.snapshots]
        words = [self._options.ftrun, "-n", str(n), *flags, *program]
        return HostileJob(words, directory, self._options.limit_s, expected_bytes)

    def _learn(self, n, program):
        """Records the program's output in a run without deaths, and compares it with that under
        Open MPI."""
        with self._start(n, program, 1) as job:
            result = job.finish()
        require(result.code == 0, f"undisturbed it ended with {result.code}", result)
        expected = sorted_lines(result.out)
        reference = under_open_mpi(n, program)
        if expected != reference:
            difference = first_difference(reference, expected)
            raise Failure(f"Open MPI prints something else: {difference}\n{describe(result)}")
        self._program, self._expected, self._bytes = (n, program), expected, len(result.out)
        self.counts["programs"] += 1

    def run(self, number):
        """Runs one job. Raises Failure."""
        n, program = self._program_of(number)
        if self._program != (n, program):
            self._learn(n, program)
        rng = random.Random(f"{self._options.seed}/{self.name}/job {number}")
        with self._start(n, program, self._bytes) as job:
            try:
                attack(job, n, rng, ATTACKS[number % len(ATTACKS)])
                result = job.finish()
                judge(result, n, self._expected)
            except Failure as failure:
                again = f"with the same deaths: {same_by_fault_injection(job)}"
                raise Failure(f"{failure}\n{describe(job)}\n{again}") from None
        self._count(result)

    def _count(self, result):
        self.counts["jobs"] += 1
        for death in result.named("death"):
            rank, incarnation = death["rank"], death["incarnation"]
            seen = {e["event"] for e in result.events if e.get("incarnation") == incarnation
                    and e.get("rank") == rank}
            self.counts["deaths"] += 1
            self.counts["before init"] += "init" not in seen
            self.counts["before live"] += incarnation > 0 and "live" not in seen
        if self._options.snapshots:
            woken = sum("snapshot" in e.get("from", "") for e in result.events)
            self.counts["from images"] += woken


def command_again(options, shape, number):
    words = [sys.argv[0], "--shape", shape, "--seed", options.seed, "--job", str(number)]
    words += ["--most-ranks", str(options.most_ranks), "--limit", str(options.limit_s)]
    words += ["--ftrun", options.ftrun, "--program", options.program, "--repeat", "20"]
    words += ["--snapshots", options.snapshots] if options.snapshots else []
    return shlex.join(words)


def run_shape(name, options):
    """Runs jobs until there were `deaths` deaths, some of every kind. Returns the number of failed
    jobs."""
    shape, failed, start_s = Shape(name, options), 0, time.monotonic()
    numbers = [options.job] * options.repeat if options.job is not None else range(10**9)
    try:
        for tried, number in enumerate(numbers, 1):
            try:
                shape.run(number)
            except Failure as failure:
                failed += 1
                print(f"FAILED {name}, job {number}: {failure}")
                print(f"again: {command_again(options, name, number)}", flush=True)
                if not options.keep_going:
                    break
            enough = shape.counts["deaths"] >= options.deaths and all(shape.counts.values())
            if options.job is None and (enough or tried > options.deaths):
                break
    finally:
        shape.close()
    counts = ", ".join(f"{key} {value}" for key, value in shape.counts.items())
    print(f"{name}: {counts}, failed {failed}, {time.monotonic() - start_s:.1f} s", flush=True)
    if options.job is None and not failed:
        missed = [key for key, value in shape.counts.items() if value == 0]
        if missed or shape.counts["deaths"] < options.deaths:
            print(f"FAILED {name}: too few deaths, or none of a kind: {missed}")
            failed = 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftrun", default="build/bin/ftrun", type=os.path.abspath)
    default = "build/tests/hostile/random_collectives"
    parser.add_argument("--program", default=default, type=os.path.abspath)
    parser.add_argument("--shape", action="append", choices=[*SHAPES, *BROKEN], help="default: all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--deaths", type=int, default=100, help="number of deaths for each shape")
    parser.add_argument("--most-ranks", type=int, default=8)
    # A job without deaths takes about a second, and prints a line every few milliseconds.
    text = "seconds that a job may print nothing"
    parser.add_argument("--limit", dest="limit_s", type=float, default=60, help=text)
    text = "option of ftrun; some ranks must then have gone on from images"
    parser.add_argument("--snapshots", metavar="SECONDS", help=text)
    parser.add_argument("--job", type=int, help="run only this job")
    parser.add_argument("--repeat", type=int, default=1, help="how often --job is run")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    options = parser.parse_args()
    # SIGTERM to the test ends its job, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    failed = sum(run_shape(name, options) for name in options.shape or SHAPES)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
