"""Runs MPI programs under ftrun, kills their ranks, and checks the results.

A scenario is a function of a Test, registered with @scenario. It starts jobs, interferes, and
compares their results with a run of the same program without deaths. The harness requires that
every job ends in bounded time and leaves no process and no file. A job that does not end is
reported with the stack and the journal position of every rank.
"""

import argparse
import collections
import fnmatch
import itertools
import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from event_docs import undocumented
from kills import MOMENTS, Kill  # noqa: F401, for scenarios
from processes import REPORT_S, descendants, proc_text, processes_with, rejoin_files, stack_of
from results import (  # noqa: F401, for scenarios
    Failure, Missed, Result, Skip, check_deaths, check_returns, describe, require, require_killed,
    require_met, require_mostly, returns_by_kind, rungs, why_begun_again)

LIMIT_S = 150  # for one job, unless the scenario sets another limit: machines are busy
POLL_INTERVAL_S = 0.0005  # between polls for a moment in the job
READ_INTERVAL_S = 0.02  # between reads of events while only the end is awaited
GRACE_S = 10  # until the kernel has removed the processes that ftrun has ended

# The recovery points of a program with checkpoints, and the options of ftrun that choose them.
POINTS = {"versions": ["--snapshots", "off"], "images": ["--snapshots", "0.01"]}


SCENARIOS = {}


class Scenario:
    def __init__(self, function, limit_s, labels, sweeps, arguments):
        self.function, self.limit_s, self.labels = function, limit_s, labels
        self.sweeps, self.arguments = sweeps, arguments


def scenario(limit_s=240, labels=(), sweeps=False, **variants):
    """Registers a function of a Test under its name.

    sweeps: whether a long run (Test.long) tries much more. variants: keywords with lists of values,
    each of which makes a scenario: @scenario(n=[2, 3]) on f(t, n) makes f.2 and f.3. Several
    keywords make all combinations.
    """

    def register(function):
        for values in itertools.product(*variants.values()):
            name = ".".join([function.__name__, *map(str, values)])
            arguments = dict(zip(variants, values))
            SCENARIOS[name] = Scenario(function, limit_s, labels, sweeps, arguments)
        return function

    return register


# --------------------------------------------------------------------------------------------- jobs


class Job:
    """A running ftrun. As a context manager, it ends the job after an exception."""

    def __init__(self, command, directory, limit_s):
        self.command, self.directory, self.limit_s = command, directory, limit_s
        self.events, self.pids, self.files = [], {}, {}
        self.killed, self.images_killed = [], []  # ranks; processes
        self._mark = f"REJOIN_KILL_TEST={uuid.uuid4().hex}"
        self._partial_event = ""
        self._files_before = rejoin_files()
        self._out = open(f"{directory}/stdout", "w+b")
        self._err = open(f"{directory}/stderr", "w+b")
        self._event_file = open(f"{directory}/events", "w+")
        self._start_s = time.monotonic()
        name, _, value = self._mark.partition("=")
        # Also for processes that a scenario adds to the job.
        self.environment = dict(os.environ, TMPDIR=f"{directory}/work", **{name: value})
        self.process = subprocess.Popen(
            command,
            cwd=f"{directory}/work",
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env=self.environment,
            start_new_session=True,
        )
        self._pidfd = os.pidfd_open(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self._end_all()
        for file in (self._out, self._err, self._event_file):
            file.close()
        os.close(self._pidfd)

    def out(self):
        return os.pread(self._out.fileno(), 1 << 30, 0).decode(errors="replace")

    def err(self):
        return os.pread(self._err.fileno(), 1 << 30, 0).decode(errors="replace")

    def poll(self):
        """Reads new events. False: the job has ended."""
        ended = self.process.poll() is not None
        self._read_events()
        if not ended and time.monotonic() - self._start_s > self.limit_s:
            raise Failure(f"no end within {self.limit_s} s\n{self._where_all_stand()}")
        return not ended

    def until(self, condition, what):
        """Waits for condition() to be true, and returns it."""
        while True:
            running = self.poll()
            found = condition()
            if found:
                return found
            if not running:
                ended_well = self.process.returncode == 0
                raise (Missed if ended_well else Failure)(f"the job ended before {what}")
            time.sleep(POLL_INTERVAL_S)

    def until_event(self, name, rank=None, incarnation=None):
        """Waits for the first event of that name, rank and incarnation."""

        def find():
            for event in self.events:
                wanted = event["event"] == name and rank in (None, event.get("rank"))
                if wanted and incarnation in (None, event.get("incarnation")):
                    return event
            return None

        return self.until(find, f"event {name} of rank {rank}, incarnation {incarnation}")

    def until_output(self, pattern):
        return self.until(lambda: re.search(pattern, self.out()), f"output like {pattern}")

    def run_for(self, seconds):
        """Lets the job run; returns sooner if it ends."""
        end_s = time.monotonic() + seconds
        while self.poll() and (left_s := end_s - time.monotonic()) > 0:
            self._wait_for_end(min(left_s, READ_INTERVAL_S))

    def signal(self, rank, number):
        """Sends a signal to the rank's present process; False if there is none."""
        try:
            os.kill(self.pids[rank], number)
        except (KeyError, ProcessLookupError):
            return False
        return True

    def kill(self, *ranks):
        """Sends SIGKILL to all of these ranks before ftrun can see the death of one."""
        for rank in ranks:
            if self.signal(rank, signal.SIGKILL):
                self.killed.append(rank)

    def processes(self, rank=None):
        """Returns the processes of this job, or only those of the rank's tree."""
        if rank is not None:
            return processes_with(self._mark, f"REJOIN_RANK={rank}")
        # A rank that was restored has the environment of the job that wrote its image.
        return list(set(processes_with(self._mark)) | set(descendants(self.process.pid)))

    def finish(self, leaves=()):
        """Waits for the end. Only the files named in `leaves` may be left: Result.files."""
        while self.poll():
            self._wait_for_end(READ_INTERVAL_S)
        for name in leaves:
            path = f"{self.directory}/work/{name}"
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.files[name] = file.read()
        took_s = time.monotonic() - self._start_s
        end_s = time.monotonic() + GRACE_S
        while left := self._left_behind(leaves):
            if time.monotonic() > end_s:
                raise Failure("left behind: " + ", ".join(left))
            time.sleep(0.01)
        return Result(self, took_s)

    def _wait_for_end(self, most_s):
        select.select([self._pidfd], [], [], most_s)

    def _left_behind(self, leaves):
        left = [f"process {pid}: {proc_text(pid, 'cmdline')}" for pid in self.processes()]
        left += [name for name in os.listdir(f"{self.directory}/work") if name not in leaves]
        left += rejoin_files() - self._files_before
        return left

    def _read_events(self):
        self._partial_event += self._event_file.read()
        *lines, self._partial_event = self._partial_event.split("\n")
        for event in map(json.loads, lines):
            if unknown := undocumented(event):
                raise Failure(f"docs/ftrun.md does not have {unknown} of {event}")
            self.events.append(event)
            if event["event"] == "register":
                self.pids[event["rank"]] = event["pid"]
            elif event["event"] in ("death", "exit"):
                self.pids.pop(event["rank"], None)

    def _where_all_stand(self):
        lines = []
        before = set(self.processes())
        for pid in before:
            lines += [f"--- process {pid}: {proc_text(pid, 'cmdline')}", stack_of(pid)]
        said = len(self.err())
        self.process.send_signal(signal.SIGUSR1)
        end_s = time.monotonic() + REPORT_S
        ranks = {f"rank {event['rank']} " for event in self.events if "rank" in event}
        # Another process writes the report.
        while time.monotonic() < end_s and self.process.poll() is None:
            if all(rank in self.err()[said:] for rank in ranks) and before >= set(self.processes()):
                break
            time.sleep(0.01)
        return "\n".join([*lines, "--- where every rank stands, says ftrun", self.err()[said:]])

    def _end_all(self):
        """Kills the processes of this job, by process id."""
        self.process.kill()
        self.process.wait()
        end_s = time.monotonic() + GRACE_S
        while time.monotonic() < end_s:
            found = self.processes()
            if not found:
                return
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)


# -------------------------------------------------------------------------------------------- tests


class Test:
    """A run of a scenario: its random numbers, its programs and its jobs."""

    def __init__(self, name, ftrun, programs, seed, long, least_jobs=None):
        self.name, self.long, self._least_jobs = name, long, least_jobs
        self.rng = random.Random(f"{name}/{seed}")
        self.ftrun, self._programs = ftrun, programs
        self._directory = tempfile.mkdtemp(prefix="kill-test-")
        self.jobs = self.deaths = 0
        # They count all jobs, as returns_by_kind(), rungs() and why_begun_again() do.
        self.returns, self.rungs, self.why = (collections.Counter() for _ in range(3))
        self._undisturbed = {}

    def close(self):
        shutil.rmtree(self._directory, ignore_errors=True)

    def program(self, name):
        return f"{self._programs}/{name}"

    def forbidding(self, *words):
        """Returns a prefix that runs a command under a filter of system calls: forbidding.c."""
        if not os.path.exists(self.program("forbidding")):
            raise Skip("no libseccomp (Debian's package libseccomp-dev)")
        return [self.program("forbidding"), *words, "--"]

    def script(self, name, text):
        """Makes an executable file beside the jobs' directories, and returns its path."""
        path = f"{self._directory}/{name}"
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def next_work_directory(self):
        """Returns the working directory of the next job."""
        directory = f"{self._directory}/{self.jobs}/work"
        os.makedirs(directory, exist_ok=True)
        return directory

    def start(self, ranks, *command, kills=(), flags=(), prefix=(), limit_s=LIMIT_S):
        """Starts a program under ftrun: the name of a test program, or a path, and its arguments.

        prefix: a command that prepares something and then executes the rest of its arguments.
        """
        directory = os.path.dirname(self.next_work_directory())
        self.jobs += 1
        flags = [*flags, "--events", f"{directory}/events"]
        later = any(kill.incarnation > 0 for kill in kills)
        if (later or "--journal-limit" in flags) and "--snapshots" not in flags:
            # A later incarnation that begins at an image may begin after the place of its death,
            # and a journal that images truncate does not reach its limit.
            flags += ["--snapshots", "off"]
        for kill in kills:
            flags += ["--kill", kill]
        path = command[0] if "/" in command[0] else self.program(command[0])
        words = [*prefix, self.ftrun, "-n", ranks, *flags, path, *command[1:]]
        return Job([str(word) for word in words], directory, limit_s)

    def run(self, ranks, *command, interfere=None, leaves=(), **named):
        """Runs a job to its end. interfere(job) is called once it has started."""
        with self.start(ranks, *command, **named) as job:
            try:
                if interfere is not None:
                    interfere(job)
                result = job.finish(leaves)
            except Failure as failure:
                raise type(failure)(f"{failure}\n{describe(job)}") from None
        shutil.rmtree(job.directory)
        self.deaths += len(result.named("death"))
        self.returns += returns_by_kind(result)
        self.rungs += rungs(result)
        self.why += why_begun_again(result)
        return result

    def undisturbed(self, ranks, *command, flags=()):
        """Returns the result of a run without deaths, which is made once."""
        key = (ranks, command, tuple(flags))
        if key not in self._undisturbed:
            result = self.run(ranks, *command, flags=flags)
            require(result.code == 0, f"undisturbed it ended with {result.code}", result)
            require(not result.named("death"), "an unexpected death", result)
            self._undisturbed[key] = result
        return self._undisturbed[key]

    def runs(self, few, many, seen):
        """Yields `few` runs (`many` in the long mode, or --jobs), then up to ten times as many until
        seen()."""
        count = self._least_jobs or (many if self.long else few)
        for run in range(10 * count):
            if run < count or not seen():
                yield run

    def recovers(self, ranks, *command, kills=(), flags=(), ordered=True, **named):
        """Runs a program, kills ranks in it, and requires the output of a run without deaths.

        Also requires exit code 0, that all ordered kills have happened and no other deaths, and that
        every rank that died came back. ordered: whether only one rank prints.
        """
        expected = self.undisturbed(ranks, *command, flags=flags)
        result = self.run(ranks, *command, kills=kills, flags=flags, **named)
        require(result.code == 0, f"exit code {result.code}", result)
        same = result.out == expected.out
        if not ordered:
            same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
        require(same, f"the output is not\n{expected.out[-2000:]}", result)
        check_deaths(result, kills)
        check_returns(result, ranks)
        return result

    def recovers_anywhere(self, ranks, *command, several, again):
        """Kills one rank at every operation (long mode: all ranks, at each moment), then several.

        several: the most ranks that die together at random places, some times. again: whether one
        of them dies once more, before the place of its first death.
        """
        last = self.undisturbed(ranks, *command)
        places = [(r, k) for r in range(ranks) for k in range(1, last.operations(r) + 1)]
        one = self.rng.randrange(ranks)
        for rank, ordinal in places if self.long else [p for p in places if p[0] == one]:
            for moment in MOMENTS if self.long else [self.rng.choice(MOMENTS)]:
                self.recovers(ranks, *command, kills=[Kill(rank, ordinal, moment)])
        for _ in range(300 if self.long else 5 * several):
            kills = [
                Kill(*self.rng.choice(places), self.rng.choice(MOMENTS)) for _ in range(several)
            ]
            kills = list({kill.rank: kill for kill in kills}.values())
            if again:
                first = kills[0]
                before = self.rng.randint(1, max(1, first.point - 1))
                kills.append(Kill(first.rank, before, self.rng.choice(MOMENTS), 1))
            self.recovers(ranks, *command, kills=kills)


# --------------------------------------------------------------------------------------------- main

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
MOST_TRIES = 5


def counted(jobs, deaths, counts):
    text = ", ".join(f"{count} {rung}" for rung, count in sorted(counts.items()))
    return f"{jobs} jobs, {deaths} deaths" + (f"; {text}" if text else "")


class Totals:
    """Counts all scenarios that have run."""

    def __init__(self):
        self.passed = self.failed = self.skipped = self.jobs = self.deaths = 0
        self.rungs, self.why = collections.Counter(), collections.Counter()

    def add(self, test):
        self.jobs += test.jobs
        self.deaths += test.deaths
        self.rungs += test.rungs
        self.why += test.why

    def show(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped: "
              f"{counted(self.jobs, self.deaths, self.rungs)}")
        for why, count in self.why.most_common():
            print(f"    begun again {count} times: {why}")


def run_scenario(name, options, prepare, totals, missed=0):
    """Runs a scenario, and again if it has missed its moment."""
    test = Test(name, options.ftrun, options.programs, options.seed, options.long, options.jobs)
    prepare(test, options)
    start_s = time.monotonic()
    try:
        chosen = SCENARIOS[name]
        chosen.function(test, **chosen.arguments)
    except Missed as failure:
        if missed + 1 < MOST_TRIES:
            print(f"missed {name}: {str(failure).splitlines()[0]}", flush=True)
            return run_scenario(name, options, prepare, totals, missed + 1)
        print(f"FAILED {name}: missed {MOST_TRIES} times: {failure}", flush=True)
        totals.failed += 1
        return
    except Failure as failure:
        again = shlex.join([*(word for word in sys.argv if word not in options.names), name])
        print(f"FAILED {name}: {failure}\nagain: {again}", flush=True)
        totals.failed += 1
        return
    except Skip as reason:
        print(f"skipped {name}: {reason}", flush=True)
        totals.skipped += 1
        return
    finally:
        test.close()
        totals.add(test)
    took_s = time.monotonic() - start_s
    totals.passed += 1
    print(f"passed {name}: {took_s:.1f} s, {counted(test.jobs, test.deaths, test.rungs)}", flush=True)


def main(description, programs, add_arguments=lambda _: None, prepare=lambda *_: None):
    """Runs the command line of a file of scenarios. Returns the exit code.

    programs: the default of --programs. add_arguments(parser) adds options. prepare(test, options)
    is called before each scenario.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ftrun", default="build/bin/ftrun", type=os.path.abspath)
    parser.add_argument("--programs", default=programs, type=os.path.abspath)
    parser.add_argument("--seed", default="1", help="of what is random (default 1)")
    parser.add_argument("--long", action="store_true", help="sweep over far more")
    parser.add_argument("--jobs", type=int, help="of each scenario that repeats its job at random")
    parser.add_argument("names", nargs="*", metavar="NAME", help="or a pattern: 'hybrid_*'")
    add_arguments(parser)
    options = parser.parse_args()
    if options.list:
        for name, listed in SCENARIOS.items():
            print(name, listed.limit_s, int(listed.sweeps), *listed.labels)
        return 0
    chosen = {name: fnmatch.filter(SCENARIOS, name) for name in options.names}
    unknown = [name for name, found in chosen.items() if not found]
    if unknown or not options.names:
        parser.error(f"no such scenario: {' '.join(unknown)}; --list names them")
    names = [name for found in chosen.values() for name in found]
    # If the test gets SIGTERM, it ends its job as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    totals = Totals()
    for name in names:
        run_scenario(name, options, prepare, totals)
    if len(names) > 1:
        totals.show()
    return 1 if totals.failed else SKIPPED if not totals.passed else 0
