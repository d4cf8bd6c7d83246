#!/usr/bin/env python3
"""The examples under the real ftrun: undisturbed, and with their ranks killed.

examples_test.py --ftrun FTRUN --programs DIR --python PYTHON NAME...    runs scenarios
examples_test.py --list                                                  names, limits, labels
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{SOURCES}/tests/kill")

import harness  # noqa: E402
from harness import MOMENTS, POINTS, Kill, require, scenario  # noqa: E402

RANKS = 4
EXAMPLES = ("kmeans", "lbfgs", "jacobi")
LIMIT_S = 240  # of one scenario


def command(t, example):
    """The command line of an example, small enough to be run many times."""
    if example == "kmeans":
        return (f"{t.examples}/kmeans", "points=2000", "k=4", "iterations=15")
    if example == "jacobi":
        return (f"{t.examples}/jacobi", "-n", "24", "-s", "120", "-c", "10")
    script = f"{SOURCES}/examples/lbfgs/lbfgs.py"
    return (t.python, script, "--rows", "800", "--features", "30", "--penalty", "0.01")


def operations(t, example, rank):
    return t.undisturbed(RANKS, *command(t, example)).operations(rank)


def recovers(t, example, *kills, flags=()):
    """Kills ranks of an example; besides what the harness checks, only these ranks start again."""
    result = t.recovers(RANKS, *command(t, example), kills=kills, flags=flags)
    restarted = sorted(event["rank"] for event in result.named("respawn"))
    require(restarted == sorted(k.rank for k in kills), f"started again: {restarted}", result)
    return result


@scenario(LIMIT_S, example=EXAMPLES)
def undisturbed(t, example):
    """It says something, the same in every run."""
    first = t.undisturbed(RANKS, *command(t, example))
    again = t.run(RANKS, *command(t, example))
    require(again.code == 0 and again.out == first.out, "another output", again)
    require(len(first.out.split("\n")) > 2, "no results", first)


@scenario(LIMIT_S, example=EXAMPLES)
def one_death(t, example):
    """One rank dies, early, in the middle, late, in Init and in Finalize."""
    count = operations(t, example, 0)
    for i, point in enumerate(
        ["init", 1, 2, 3, count // 4, count // 2, count * 3 // 4, count - 1, count, "finalize"]
    ):
        recovers(t, example, Kill(i % RANKS, point, MOMENTS[i % 3]))


@scenario(LIMIT_S, example=EXAMPLES)
def two_ranks(t, example):
    """Two ranks die: in one operation, in two that follow each other, and far apart."""
    half = operations(t, example, 0) // 2
    for first, second in (("inside", "inside"), ("before", "after")):
        recovers(t, example, Kill(0, half, first), Kill(3, half, second))
        recovers(t, example, Kill(1, half, first), Kill(2, half + 1, second))
        recovers(t, example, Kill(2, half // 2, first), Kill(0, half + half // 2, second))


@scenario(LIMIT_S, example=EXAMPLES)
def one_rank_twice(t, example):
    """A rank dies, comes back and dies again: in the next operation, after it, and later.

    The first death is before its operation: were that a checkpoint, and the rank dead inside, then
    the next incarnation would go on behind it and never come by.
    """
    half = operations(t, example, 0) // 2
    for rank, (second, moment) in enumerate(
        ((half, "after"), (half + 1, "before"), (half + half // 2, "inside"))
    ):
        recovers(t, example, Kill(rank, half, "before"), Kill(rank, second, moment, incarnation=1))


@scenario(LIMIT_S, example=EXAMPLES)
def all_ranks(t, example):
    """All ranks die in one operation, two of them once more."""
    half = operations(t, example, 0) // 2
    kills = [Kill(rank, half, MOMENTS[rank % 3]) for rank in range(RANKS)]
    again = (Kill(0, half + 2, incarnation=1), Kill(2, half + 3, incarnation=1))
    recovers(t, example, *kills, *again)


@scenario(LIMIT_S, example=EXAMPLES)
def goes_on_at_the_checkpoint(t, example):
    """A rank that dies late in a job of versions repeats what followed the newest checkpoint, not its
    whole past."""
    count = operations(t, example, 1)
    result = recovers(t, example, Kill(1, count - 3), flags=POINTS["versions"])
    replayed = result.named("live", 1)[-1]["replayed_ops"]
    require(replayed < count // 2, f"replayed {replayed} of {count} operations", result)


@scenario(LIMIT_S)
def kmeans_model_file(t):
    """The file with the centres is there once, whole, after a death while it is being written."""
    contents = []
    for kills in ([], [Kill(0, "finalize", "before")]):
        directory = t.next_work_directory()
        with t.start(RANKS, *command(t, "kmeans"), "out=centres", kills=kills) as job:
            result = job.finish(leaves=["centres"])
        require(result.code == 0, f"exit code {result.code}", result)
        with open(f"{directory}/centres") as file:
            contents.append(file.read())
        require(result.out.endswith(contents[-1]), "the file is not what was printed", result)
    require(contents[0] == contents[1], f"after a death {contents[1]!r}", result)


@scenario(LIMIT_S)
def kmeans_reads_a_file(t):
    """Points from a file: four clear clouds, whose middles it finds."""
    middles = [(0, 0), (0, 8), (8, 0), (8, 8)]
    lines = [f"{x + dx} {y + dy}\n" for dx in (-1, 1) for dy in (-1, 1) for x, y in middles * 4]
    path = t.script("points", "".join(lines))
    words = (f"{t.examples}/kmeans", f"data={path}", "k=4", "iterations=10")
    result = t.recovers(RANKS, *words, kills=[Kill(2, 5), Kill(0, 7)])
    found = [tuple(map(float, line.split())) for line in result.out.split("\n")[1:-1]]
    require(sorted(found) == sorted(middles), f"found {found}", result)


def documented(t):
    """The complete programs of docs/checkpoints.md: {language: command}."""
    with open(f"{SOURCES}/docs/checkpoints.md") as file:
        blocks = re.findall(r"```(c|c\+\+|python)\n(.*?)```", file.read(), re.DOTALL)
    programs = {language: text for language, text in blocks if "import" in text or "main(" in text}
    libraries = os.path.normpath(f"{t.examples}/../lib")
    compilers = {
        "c": (f"{t.examples}/ftmpicc", "-xc"),
        "c++": ("c++", "-xc++", f"-I{SOURCES}/include", f"-L{libraries}", f"-Wl,-rpath,{libraries}"),
    }
    commands = {}
    for language, text in programs.items():
        source = t.script(f"documented.{language}", text)
        commands[language] = (t.python, source)
        if language in compilers:
            commands[language] = (f"{source}.out",)
            compiler, *flags = compilers[language]
            link = ["-lrabit"] if language == "c++" else []
            build = [compiler, *flags, source, "-xnone", *link, "-o", f"{source}.out"]
            subprocess.run(build, check=True, timeout=60)
    return commands


@scenario(LIMIT_S)
def documentation(t):
    """The program in docs/checkpoints.md compiles and survives, and goes on at its versions where there
    are no images."""
    commands = documented(t)
    if sorted(commands) != ["c", "c++", "python"]:
        raise harness.Failure(f"programs in docs/checkpoints.md: {sorted(commands)}")
    for language, program in commands.items():
        for points in ((61,), (1, 30), (51, 52, 53, 54)):
            kills = [Kill((2 + i) % RANKS, point) for i, point in enumerate(points)]
            t.recovers(RANKS, *program, kills=kills)
            result = t.recovers(RANKS, *program, kills=kills, flags=POINTS["versions"])
            loaded = max((live["replayed_ops"] for live in result.named("live")), default=0)
            require(loaded < 55, f"{language}: replayed {loaded} operations", result)


BAD_INPUT = {
    "kmeans": (
        (["k=no"], "k=no"),
        (["k=0"], "k=0"),
        (["iterations=-1"], "iterations=-1"),
        (["clusters=3"], "unknown argument 'clusters=3'"),
        (["points=3", "k=4"], "fewer"),
        (["data=missing"], "cannot open 'missing'"),
    ),
    "lbfgs": (
        (["--rows", "0"], "--rows"),
        (["--features", "many"], "--features"),
        (["--colour"], "--colour"),
    ),
    "jacobi": (
        (["-q", "1"], "unknown option"),
        (["-n"], "no value"),
        (["-n", "wide"], "not a number"),
        (["-n", "2"], "a row for every rank"),
        (["-c", "0"], "at least 1"),
    ),
}


@scenario(LIMIT_S, example=EXAMPLES)
def bad_input(t, example):
    """Arguments that make no sense: exit code 2, and a line that says which; -h helps."""
    program = command(t, example)[: 2 if example == "lbfgs" else 1]
    for arguments, text in BAD_INPUT[example]:
        result = t.run(RANKS, *program, *arguments)
        require(result.code == 2, f"{arguments}: exit code {result.code}", result)
        require(text in result.err, f"{arguments}: no '{text}'", result)
        require(not result.named("respawn"), f"{arguments}: started again", result)
    result = t.run(RANKS, *program, "-h")
    require(result.code == 0 and "usage:" in result.out, "no help", result)


# --------------------------------------------------------------------------------------------- main


def add_arguments(parser):
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has NumPy")


def prepare(test, options):
    test.examples, test.python = options.programs, options.python


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = f"{SOURCES}/python"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.exit(harness.main(__doc__, "build/bin", add_arguments, prepare))
