"""ftrun --log-ops: a line for every operation of every incarnation; the output does not change."""

import re
import shutil
import subprocess

from harness import Kill, require, scenario

LINE = re.compile(
    r"\[(?P<rank>\d+)\] (?P<name>\w+) \((?P<site>\S+)#(?P<shape>\d+x\d+)\)"
    r" (?P<how>finished|recovered|failed) version (?P<version>\d+), seq (?P<seq>\d+),"
    r" take (?P<seconds>\d+\.\d{6}) seconds"
)
RANKS = 3
STEPS = ("steps", "count=6", "kinds=abr", "bytes=16")
# Their names in the log, then the check at the end of the program and the operation of MPI_Finalize.
NAMES = ["allreduce", "bcast", "reduce"] * 2 + ["allreduce", "finalize"]
SHAPES = {"allreduce": "8x2", "bcast": "1x16", "reduce": "8x2", "finalize": "1x0"}


def logged(result):
    """Parses the lines of --log-ops in order; requires that other lines are ftrun's own."""
    lines = []
    for line in result.err.splitlines():
        if line.startswith("rejoin: "):
            continue
        found = LINE.fullmatch(line)
        require(found, f"what line is this: {line}", result)
        lines.append(found.groupdict())
    return lines


def check_one_incarnation(result, lines, first=0):
    """Checks a rank's lines from operation `first` to the end."""
    require([line["name"] for line in lines] == NAMES[first:], "other operations", result)
    for seq, line in enumerate(lines, first):
        require((line["version"], line["seq"]) == ("0", str(seq)), f"not seq {seq}: {line}", result)
        require(line["shape"] == SHAPES[line["name"]], f"another shape: {line}", result)
        require(float(line["seconds"]) < 10, f"it took too long: {line}", result)


def stripped(t, *flags):
    """Makes a stripped copy of the program `steps`."""
    path = f"{t.next_work_directory()}/../../steps{len(flags[0])}"
    shutil.copy(t.program("steps"), path)
    subprocess.run(["strip", *flags, path], check=True)
    return path


@scenario()
def log_ops(t):
    """Every operation of every rank has one line, with the source line that calls it."""
    quiet = t.undisturbed(RANKS, *STEPS)
    result = t.run(RANKS, *STEPS, flags=["--log-ops"])
    require((result.code, result.out) == (0, quiet.out), "not as without --log-ops", result)
    lines = logged(result)
    require(not quiet.err, "unexpected lines", quiet)
    for rank in range(RANKS):
        mine = [line for line in lines if line["rank"] == str(rank)]
        check_one_incarnation(result, mine)
        require({line["how"] for line in mine} == {"finished"}, "not finished", result)
        for line in mine[:-2]:
            site = re.fullmatch(r"\S*steps\.c:(\d+)::(\w+)", line["site"])
            require(site and site[2] == line["name"], f"not called there: {line}", result)


@scenario()
def log_ops_without_debug_information(t):
    """Without lines a call site is a module and a place, with the function if there are symbols."""
    for flags, site in (
        (["--strip-debug"], r"steps\d+\+0x[0-9a-f]+::\w+"),
        (["--strip-all"], r"steps\d+\+0x[0-9a-f]+"),
    ):
        result = t.run(2, stripped(t, *flags), *STEPS[1:], flags=["--log-ops"])
        require(result.code == 0, f"exit code {result.code}", result)
        lines = logged(result)
        for rank in range(2):
            check_one_incarnation(result, [line for line in lines if line["rank"] == str(rank)])
        places = {line["site"] for line in lines}
        for found in places:
            require(re.fullmatch(site, found), f"a place called {found}", result)
        require(len(places) == len(set(NAMES)) + 1, f"calls from {places}", result)


@scenario()
def log_ops_of_a_restarted_rank(t):
    """Replayed operations are logged as recovered, later ones as finished; the output is the same."""
    for kill in (Kill(1, 4), Kill(0, 2, "after"), Kill(2, 6, "before"), Kill(1, 1, "before")):
        result = t.recovers(RANKS, *STEPS, kills=[kill], flags=["--log-ops"])
        lines = [line for line in logged(result) if line["rank"] == str(kill.rank)]
        done = kill.point if kill.moment == "after" else kill.point - 1
        former, later = lines[:done], lines[done:]
        require({line["how"] for line in former} <= {"finished"}, "recovered too soon", result)
        check_one_incarnation(result, later)
        replayed = result.named("live", kill.rank)[-1]["replayed_ops"]
        hows = ["recovered"] * replayed + ["finished"] * (len(NAMES) - replayed)
        require([line["how"] for line in later] == hows, f"not {replayed} recovered", result)
