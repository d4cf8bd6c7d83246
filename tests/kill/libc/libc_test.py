#!/usr/bin/env python3
"""Tests the recording of libc with ftrun and real kills.

A scene (see scene.h) runs without deaths, and then with rank 0 killed at each of its steps, in
later incarnations as well. Every run must have the same output and leave the same files. Where the
rules of docs/libc-recording.md do not guarantee that, a line must report it.

libc_test.py --ftrun FTRUN --programs DIR PROGRAM SCENE
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from processes import FtrunProcess, NoEnd  # noqa: E402

LIMIT_S = 30
RANKS = 2
FAILED_CHECK = 7  # the exit code of a scene in which a check has failed
FILES_BEFORE = {"older": "older text\n", "log": "first line\n"}

# Scenes whose replays differ: the message that ends the job, and the first step at which a death of
# rank 0 has this effect. All other scenes are replayed without a message.
UNTRUE = {
    "files.read": (r"older has other contents than the first execution read there", 2),
    "files.in_place": (r"older has other contents than the first execution read there", 1),
    "files.read_back": (r"model has other contents than the first execution read there", 2),
    "files.counter": (r"older has other contents than the first execution read there", 1),
    "files.compacted": (r"log has other contents than the first execution read there", 1),
}
# Those of them that have the right result with --on-divergence warn.
HARMLESS = ("files.read", "files.in_place")

RANDOM_SEEDS = 6
RANDOM_RUNS = 4  # for each seed: runs with kills at steps, and as many with kills at any moment
MAX_RESTARTS = 20
PAUSE_S = (0.002, 0.015)  # between kills from outside


class Failure(Exception):
    pass


class Run:
    """A job, from start to end, in a new directory.

    kills: values for --kill. killer: called with the running job, whose ranks it may kill.
    """

    def __init__(self, options, kills=(), arguments=(), flags=(), killer=None, code=0):
        with tempfile.TemporaryDirectory(prefix="libc-test-") as top:
            directory, self.events = f"{top}/work", f"{top}/events"
            os.mkdir(directory)
            for name, text in FILES_BEFORE.items():
                with open(f"{directory}/{name}", "w") as file:
                    file.write(text)
            command = [options.ftrun, "-n", str(RANKS), "--events", self.events, *flags]
            for kill in kills:
                command += ["--kill", kill]
            command += [f"{options.programs}/{options.program}", options.scene, *arguments]
            self.command = " ".join(command)
            pipe = subprocess.PIPE
            with FtrunProcess(command, cwd=directory, stdout=pipe, stderr=pipe) as self.process:
                try:
                    if killer is not None:
                        killer(self)
                    out, err = self.process.communicate(timeout=LIMIT_S)
                except NoEnd as no_end:
                    raise Failure(f"{no_end}\n$ {self.command}") from None
                except BaseException:
                    self.process.kill()
                    raise
            self.code, self.out, self.err = self.process.returncode, out.decode(), err.decode()
            self.files = contents_of(directory)
        lines = [line for line in self.err.split("\n") if re.match(r"rejoin: rank \d+: ", line)]
        self.notices = sorted({line.partition(": ")[2].partition(": ")[2] for line in lines})
        self.deaths = len(re.findall(r"^rejoin: rank \d+ died", self.err, re.MULTILINE))
        self.require(self.code == code, f"exit code {self.code}")
        self.require(self.deaths >= len(kills), f"{self.deaths} deaths")

    def pid(self, rank):
        """Returns the rank's present or last process; None: it has none yet."""
        found = None
        try:
            with open(self.events) as events:
                for line in events:
                    if line.endswith("\n") and '"register"' in line:
                        event = json.loads(line)
                        if event["event"] == "register" and event["rank"] == rank:
                            found = event["pid"]
        except FileNotFoundError:
            pass
        return found

    def require(self, condition, text):
        if not condition:
            raise Failure(f"{text}\n$ {self.command}\n{self.out}{self.err}{self.files}")

    def require_same_as(self, other):
        self.require(self.out == other.out, f"the output is not\n{other.out}")
        self.require(self.files == other.files, f"the files are not\n{other.files}")

    def require_no_notice(self):
        self.require(not self.notices, "a notice without a reason")


def contents_of(directory):
    """Returns {path: contents}, without the tests' own files."""
    found = {}
    for path, directories, names in os.walk(directory):
        for name in [*directories, *names]:
            full = f"{path}/{name}"
            relative = os.path.relpath(full, directory)
            if os.path.islink(full):
                found[relative] = f"-> {os.readlink(full)}"
            elif os.path.isdir(full):
                found[relative] = "(directory)"
            elif name != ".side":
                with open(full, "rb") as file:
                    found[relative] = file.read()
    # The names of temporary files are random.
    return {re.sub(r"\.\w{6}(\.txt)?$", r".XXXXXX\1", path): what for path, what in found.items()}


def steps_of(run):
    return int(re.search(r"steps (\d+)", run.out).group(1))


def single_deaths(steps):
    return [[f"0@{point}"] for point in [*range(1, steps + 1), "init", "finalize"]]


def repeated_deaths(steps):
    """Lists kills of several incarnations: at the same step, at later ones, and in the replay."""
    last, middle = steps, (steps + 1) // 2
    return [
        [f"0@{middle}#0", f"0@{last}#1"],
        [f"0@{last}#0", f"0@{middle}#1", f"0@{last}#2"],
        ["0@finalize#0", "0@finalize#1"],
        ["0@init#0", "0@1#1", f"0@{last}.after#2"],
    ]


def replays(options):
    """Tests a scene in which rank 0 alone plays."""
    expected = Run(options)
    expected.require_no_notice()
    steps = steps_of(expected)
    scene = f"{options.program}.{options.scene}"
    pattern, first = UNTRUE.get(scene, (None, 0))
    for kills in single_deaths(steps) + repeated_deaths(steps):
        points = [re.match(r"0@(\w+)", kill).group(1) for kill in kills]
        reached = max(steps if p == "finalize" else 0 if p == "init" else int(p) for p in points)
        if pattern is None or reached < first:
            run = Run(options, kills)
            run.require_same_as(expected)
            run.require_no_notice()
            continue
        if len(kills) == 1:
            run = Run(options, kills, code=1)
            lines = re.findall(f"^rejoin: .*{pattern}.*$", run.err, re.MULTILINE)
            run.require(len(lines) == 1, f"not one line of: {pattern}")
        if scene in HARMLESS:
            run = Run(options, kills, flags=["--on-divergence", "warn"])
            run.require_same_as(expected)
            run.require(len(run.notices) == 1, "not one notice")
            run.require(re.match(pattern, run.notices[0]), f"the notice is not: {pattern}")


def versions(options):
    """Kills a rank after each of the checkpoints, and incarnations that have loaded one."""
    expected = Run(options)
    for first in range(1, steps_of(expected) + 1):
        for kills in ([f"0@{first}"], [f"0@{first}#0", f"0@{first + 3}#1", f"0@{first + 4}#2"]):
            run = Run(options, kills)
            run.require_same_as(expected)
            run.require_no_notice()


def gaps(options):
    """The rank kills itself before or after a change of the file system."""
    expected = Run(options, arguments=["none"])
    for moment in ("before", "after"):
        run = Run(options, arguments=[moment])
        deaths = 2 if options.scene == "chdir" else 1
        run.require(run.deaths == deaths, f"{run.deaths} deaths")
        run.require_same_as(expected)
        run.require_no_notice()


def shared(options):
    """Several ranks write a file: a line reports that, and no line of another rank is lost."""
    expected = Run(options)
    for kills in [[f"{r}@{k}"] for r in range(RANKS) for k in range(1, steps_of(expected) + 1)]:
        run = Run(options, kills)
        known = all(notice.startswith("out is also written by other ranks") for notice in run.notices)
        run.require(known, "another notice")
        if options.scene != "append":
            run.require_same_as(expected)
            continue
        lines, wanted = run.files["out"].split(b"\n"), expected.files["out"].split(b"\n")
        run.require(set(lines) == set(wanted), f"the lines are not {wanted}")
        survivor = b"of rank %d" % (1 - int(kills[0][0]))
        for line in wanted:
            if line.endswith(survivor):
                run.require(lines.count(line) == 1, f"{line} is not there once")
        twice = len(lines) > len(wanted)
        run.require(run.notices or not twice, "lines are there twice, without a notice")


def children(options):
    """A child repeats its work in each replay; a line reports that, once in the job."""
    expected = Run(options)
    for kills in single_deaths(steps_of(expected)) + [["0@4#0", "0@4#1"]]:
        run = Run(options, kills, flags=["--snapshots", "off"])
        run.require(run.out == expected.out, "another output")
        pattern = r"^rejoin: the replay of rank 0 starts a child process again: (\w+)\("
        told = re.findall(pattern, run.err, re.MULTILINE)
        twice = len(run.files["children"]) > len(expected.files["children"])
        run.require(told == ([options.scene] if twice else []), "told something else")
        run.require(twice == (kills[0] not in ("0@init", "0@1")), "the file is another")


def random_programs(options):
    """Makes, renames and removes files at random, with deaths at steps and at any moment."""
    rng = random.Random(1)

    def kill_some(run):
        for _ in range(rng.randint(1, 6)):
            time.sleep(rng.uniform(*PAUSE_S))  # a death at any moment
            pid = run.pid(0)
            if pid is not None and run.process.poll() is None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    for seed in range(1, RANDOM_SEEDS + 1):
        arguments = [str(seed)]
        expected = Run(options, arguments=arguments)
        steps = steps_of(expected)
        for _ in range(RANDOM_RUNS):
            incarnations = range(rng.randint(1, 4))
            moments = ("before", "inside", "after")
            kills = [f"0@{rng.randint(1, steps)}.{rng.choice(moments)}#{i}" for i in incarnations]
            flags = ["--max-restarts", str(MAX_RESTARTS)]
            for run in (
                Run(options, kills, arguments),
                Run(options, arguments=arguments, flags=flags, killer=kill_some),
            ):
                run.require_same_as(expected)
                run.require_no_notice()


def switched_off(options):
    """--libc-recording off: the output differs, as it would without the recording."""
    Run(options, flags=["--libc-recording", "off"])
    Run(options, ["0@3"], flags=["--libc-recording", "off"], code=FAILED_CHECK)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("program")
    parser.add_argument("scene")
    parser.add_argument("--off", action="store_true", help="with --libc-recording off")
    options = parser.parse_args()
    tests = {"gaps": gaps, "versions": versions, "shared": shared,
             "random_files": random_programs, "children": children}
    test = switched_off if options.off else tests.get(options.program, replays)
    try:
        test(options)
    except Failure as failure:
        sys.exit(f"FAILED {options.program} {options.scene}: {failure}")


if __name__ == "__main__":
    main()
