#!/usr/bin/env python3
"""What a rank sees of the world besides MPI, under the real ftrun and real kills.

A scene (see scene.h) is run undisturbed, then again and again with a rank killed at each of its steps,
in later lives too. Every run must have the same output and leave the same files, and users are
told exactly where the rules end. world_test.py --ftrun FTRUN --programs DIR PROGRAM SCENE
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

LIMIT_S = 30
RANKS = 2
FAILED_CHECK = 7  # exit code of a scene that sees something wrong
FILES_BEFORE = {"older": "older text\n", "log": "first line\n"}

# What users are told, by scene: a pattern, and the first step at which a death of rank 0 makes it true.
# Of all other scenes they are told nothing.
NOTICES = {
    "files.read": (r"older is not what the first execution saw there", 2),
    "files.in_place": (r"older is not what the first execution saw there", 1),
}


class Failure(Exception):
    pass


class Run:
    """One job, from start to end, in a fresh directory. `deaths`: how many there must be."""

    def __init__(self, options, kills=(), arguments=(), flags=(), deaths=None, code=0):
        with tempfile.TemporaryDirectory(prefix="world-test-") as directory:
            for name, text in FILES_BEFORE.items():
                with open(f"{directory}/{name}", "w") as file:
                    file.write(text)
            command = [options.ftrun, "-n", str(RANKS), "--on-divergence", "stop", *flags]
            for kill in kills:
                command += ["--kill", kill]
            command += [f"{options.programs}/{options.program}", options.scene, *arguments]
            done = subprocess.run(command, cwd=directory, capture_output=True, timeout=LIMIT_S)
            self.command = " ".join(command)
            self.code, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()
            self.files = contents_of(directory)
        lines = [line for line in self.err.split("\n") if re.match(r"rejoin: rank \d+: ", line)]
        self.notices = sorted({line.partition(": ")[2].partition(": ")[2] for line in lines})
        self.deaths = len(re.findall(r"^rejoin: rank \d+ died", self.err, re.MULTILINE))
        self.require(self.code == code, f"exit code {self.code}")
        expected_deaths = len(kills) if deaths is None else deaths
        self.require(self.deaths == expected_deaths, f"{self.deaths} deaths")

    def require(self, condition, text):
        if not condition:
            raise Failure(f"{text}\n$ {self.command}\n{self.out}{self.err}{self.files}")

    def require_same_as(self, other):
        self.require(self.out == other.out, f"the output is not\n{other.out}")
        self.require(self.files == other.files, f"the files are not\n{other.files}")


def contents_of(directory):
    """{path: what is there}, without what is the tests' own."""
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


def single_deaths(steps):
    points = [*range(1, steps + 1), "init", "finalize"]
    return [[f"0@{point}"] for point in points]


def repeated_deaths(steps):
    """Later lives die as well: at the same place, further on, and while they replay."""
    last, middle = steps, (steps + 1) // 2
    return [
        [f"0@{middle}#0", f"0@{last}#1"],
        [f"0@{last}#0", f"0@{middle}#1", f"0@{last}#2"],
        ["0@finalize#0", "0@finalize#1"],
        ["0@init#0", "0@1#1", f"0@{last}.after#2"],
    ]


def replays(options):
    """Every scene of which rank 0 is the only player."""
    expected = Run(options)
    expected.require(not expected.notices, "a notice without a death")
    steps = int(re.search(r"steps (\d+)", expected.out).group(1))
    pattern, first = NOTICES.get(f"{options.program}.{options.scene}", (None, 0))
    for kills in single_deaths(steps) + repeated_deaths(steps):
        run = Run(options, kills)
        run.require_same_as(expected)
        points = [re.match(r"0@(\w+)", kill).group(1) for kill in kills]
        reached = max(steps if p == "finalize" else 0 if p == "init" else int(p) for p in points)
        if pattern is not None and reached >= first:
            run.require(len(run.notices) == 1, "not one notice")
            run.require(re.match(pattern, run.notices[0]), f"the notice is not: {pattern}")
        else:
            run.require(not run.notices, "a notice without a reason")


def gaps(options):
    """The rank kills itself, beside a change of the file system."""
    expected = Run(options, arguments=["none"])
    for moment in ("before", "after"):
        run = Run(options, arguments=[moment], deaths=1)
        run.require_same_as(expected)
        run.require(not run.notices, "a notice without a reason")


def shared(options):
    """Several ranks write: the user is told, and no line of another rank is lost."""
    expected = Run(options)
    steps = int(re.search(r"steps (\d+)", expected.out).group(1))
    for kills in [[f"{r}@{k}"] for r in range(RANKS) for k in range(1, steps + 1)]:
        run = Run(options, kills)
        known = all(notice.startswith("out is written by other") for notice in run.notices)
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
        told = len(lines) > len(wanted)
        run.require(not told or run.notices, "lines are there twice, and nobody said so")


def switched_off(options):
    """--world off: the output is in its own way, as it would be without this library."""
    Run(options, flags=["--world", "off"])
    Run(options, ["0@3"], flags=["--world", "off"], code=FAILED_CHECK)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("program")
    parser.add_argument("scene")
    parser.add_argument("--off", action="store_true", help="with --world off")
    options = parser.parse_args()
    test = {"gaps": gaps, "shared": shared}.get(options.program, replays)
    try:
        (switched_off if options.off else test)(options)
    except Failure as failure:
        sys.exit(f"FAILED {options.program} {options.scene}: {failure}")


if __name__ == "__main__":
    main()
