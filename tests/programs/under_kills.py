#!/usr/bin/env python3
"""A third-party program under ftrun with random deaths.

Every run must give the results of a run without deaths.

Odd runs are killed from outside: SIGKILL to ranks' processes at random moments. Even runs die at
random logical points (ftrun --kill), MPI_Init and MPI_Finalize among them. Run I of seed S draws
only from (S, I), so that one run can be repeated: --seed S --run I. Moments from outside depend on
the machine's speed; logical points do not.

With --nodes the program has eight ranks on four nodes, which are joined by connections as different
machines are. It must give what it gives on four nodes that share memory, without deaths.

With --snapshots SECONDS ranks make an image in each such period, every run is killed from outside,
with more deaths, and some rank must have gone on from an image.

More runs: --seed 7 --runs 1000
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source directory stays as it is

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples"))

import ftrun_events  # noqa: E402
import programs  # noqa: E402

SKIPPED = 77  # ctest's SKIP_RETURN_CODE
MAX_DEATHS = 6  # in one run, at most MAX_DEATHS_OF_RANK of them of one rank
MAX_DEATHS_OF_RANK = 3
LAYOUT = [2, 2, 2, 2]  # --nodes: ranks of each node
MAX_DEATHS_WITH_IMAGES = 24  # in one run, any number of them of one rank
LATEST_SHARE = 0.8  # latest kill, as a share of the time without deaths: runs may be faster
RUN_LIMIT_S = 300
POLL_INTERVAL_S = 0.005


class Outcome:
    """The result of a run, and its duration."""

    def __init__(self, results, duration_s, events):
        self.results = results
        self.duration_s = duration_s
        self.events = events


def all_have_images(events):
    return any(event["event"] == "snapshot" and event["ranks_without"] == 0 for event in events.events)


def run_program(options, name, flags=(), kills=()):
    """Runs the program in the directory `name`; `kills` are (seconds, rank) pairs, from outside: since
    the start, or with images since each rank has one."""
    program = options.program
    directory = f"{options.out}/{name}"
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    arguments = program.command(directory)
    events = ftrun_events.Follower(f"{directory}/events.json")
    # ftrun prints the position of every rank before the run is ended by force.
    limits = ["--timeout", str(RUN_LIMIT_S - 10)]
    if options.nodes:
        limits += ["--layout", ",".join(map(str, LAYOUT))]
    command = [options.ftrun, "-n", str(program.ranks), "--events", events.path, *limits, *flags]
    kills = sorted(kills)
    start = begun = time.monotonic()
    with open(f"{directory}/output", "wb") as output, open(f"{directory}/log", "wb") as log:
        process = subprocess.Popen(
            command + arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=log
        )
        try:
            while process.poll() is None:
                elapsed_s = time.monotonic() - start
                if elapsed_s > RUN_LIMIT_S:
                    raise AssertionError(f"not done after {RUN_LIMIT_S} s; see {directory}/log")
                events.poll()
                if options.snapshots and not all_have_images(events):
                    begun = time.monotonic()
                while kills and time.monotonic() - begun >= kills[0][0]:
                    pid = events.pids.pop(kills.pop(0)[1], None)
                    # pid is None between two incarnations. The process may be gone already.
                    with contextlib.suppress(ProcessLookupError):
                        if pid is not None:
                            os.kill(pid, signal.SIGKILL)
                time.sleep(POLL_INTERVAL_S)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
    duration_s = time.monotonic() - start
    events.poll()
    if process.returncode != 0:
        with open(f"{directory}/log", errors="replace") as log:
            said = log.read()[-20000:]
        raise AssertionError(f"ftrun ended with {process.returncode}; {directory}/log:\n{said}")
    return Outcome(program.results(directory), duration_s, events.events)


def random_ranks(rng, ranks, snapshots=False):
    """Returns the ranks to be killed, in order."""
    chosen = []
    if snapshots:
        return [rng.randrange(ranks) for _ in range(rng.randint(1, MAX_DEATHS_WITH_IMAGES))]
    for _ in range(rng.randint(1, MAX_DEATHS)):
        rank = rng.randrange(ranks)
        if chosen.count(rank) < MAX_DEATHS_OF_RANK:
            chosen.append(rank)
    return chosen


def outside_kills(rng, ranks, duration_s, snapshots=False):
    """Returns moments and ranks; about every fourth run kills all ranks at once."""
    if rng.random() < 0.25:
        moment_s = rng.uniform(0.0, LATEST_SHARE * duration_s)
        return [(moment_s, rank) for rank in range(ranks)]
    chosen = random_ranks(rng, ranks, snapshots)
    return [(rng.uniform(0.0, LATEST_SHARE * duration_s), rank) for rank in chosen]


def logical_kills(rng, ranks, operations):
    """Returns options. Every incarnation starts at main, so it can die at any point."""
    flags = ["--snapshots", "off"]
    incarnations = [0] * ranks
    for rank in random_ranks(rng, ranks):
        ordinal = str(rng.randint(1, operations))
        point = rng.choices([ordinal, "init", "finalize"], [8, 1, 1])[0]
        moment = rng.choice(["", ".before", ".inside", ".after"])
        flags += ["--kill", f"{rank}@{point}{moment}#{incarnations[rank]}"]
        incarnations[rank] += 1
    return flags


def disturbed_run(options, number, expected, operations):
    """Returns (deaths, how many of them were followed by an image's waking, a line about the run);
    a failure's AssertionError says how to repeat it."""
    rng = random.Random(f"{options.seed}/{number}")
    ranks = options.program.ranks
    if options.snapshots:
        flags = ["--snapshots", options.snapshots, "--max-restarts", "1000"]
        kills = outside_kills(rng, ranks, expected.duration_s, snapshots=True)
        what = " ".join(f"{rank}@{moment:.2f}s" for moment, rank in sorted(kills))
    elif number % 2:
        flags, kills = [], outside_kills(rng, ranks, expected.duration_s)
        what = " ".join(f"{rank}@{moment:.2f}s" for moment, rank in sorted(kills))
    else:
        flags, kills = logical_kills(rng, ranks, operations), []
        what = " ".join(flags)
    if options.nodes:
        flags += ["--between-nodes", "sockets"]
    try:
        outcome = run_program(options, f"run-{number}", flags, kills)
        different = [k for k in expected.results if expected.results[k] != outcome.results.get(k)]
        for key in different[:5]:
            print(f"{key}: {expected.results[key]!r:.500}\nnow {outcome.results.get(key)!r:.500}")
        if different or len(outcome.results) != len(expected.results):
            raise AssertionError(f"not as undisturbed: {', '.join(different)}")
    except AssertionError as error:
        repeat = f"{sys.argv[0]} {program_arguments(options)} --run {number}"
        raise AssertionError(f"run {number} ({what}): {error}\nrepeat: {repeat}") from error
    deaths = sum(event["event"] == "death" for event in outcome.events)
    woken = sum("snapshot" in event.get("from", "") for event in outcome.events)
    shutil.rmtree(f"{options.out}/run-{number}")
    line = f"run {number}: {outcome.duration_s:.1f} s, {deaths} deaths, {woken} images ({what})"
    return deaths, woken, line


def program_arguments(options):
    more = f" --snapshots {options.snapshots}" if options.snapshots else ""
    more += " --nodes" if options.nodes else ""
    out = os.path.dirname(options.out)
    return f"{options.name} --ftrun {options.ftrun} --out {out} --seed {options.seed}{more}"


def operations_of(program, events):
    """Returns the number of operations that every rank executes in every run."""
    made = min(event["position"]["ordinal"] for event in events if event["event"] == "exit")
    return int(made * program.steady_share)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(programs.ALL), help="the program")
    parser.add_argument("--ftrun", default="build/bin/ftrun", help="(default build/bin/ftrun)")
    parser.add_argument("--out", default="build/programs", help="a directory to work in")
    parser.add_argument("--seed", type=int, default=1, help="(default 1)")
    parser.add_argument("--runs", type=int, default=6, help="how many (default 6)")
    parser.add_argument("--run", type=int, help="only the run of this number")
    parser.add_argument("--snapshots", metavar="SECONDS", help="as ftrun's")
    parser.add_argument("--nodes", action="store_true", help="eight ranks on four nodes")
    options = parser.parse_args()
    if not programs.ALL[options.name].is_there():
        print(f"skipped: package {programs.ALL[options.name].package} is not installed")
        sys.exit(SKIPPED)
    options.out = os.path.abspath(f"{options.out}/{options.name}")
    options.ftrun = os.path.abspath(options.ftrun)
    shutil.rmtree(f"{options.out}/input", ignore_errors=True)
    os.makedirs(f"{options.out}/input")
    options.program = programs.ALL[options.name](f"{options.out}/input")
    if options.nodes:
        options.program.ranks = sum(LAYOUT)
    if options.snapshots:
        options.program.last()
    undisturbed = run_program(options, "undisturbed")
    options.program.check(undisturbed.results)
    operations = operations_of(options.program, undisturbed.events)
    print(f"undisturbed: {undisturbed.duration_s:.1f} s, {operations} operations", flush=True)
    numbers = [options.run] if options.run else range(1, options.runs + 1)
    deaths = woken = 0
    for number in numbers:
        died, images, line = disturbed_run(options, number, undisturbed, operations)
        deaths += died
        woken += images
        print(line, flush=True)
    assert deaths > 0, "no rank was killed"
    assert woken > 0 or not options.snapshots, "no rank went on from an image"
    print(f"{len(numbers)} runs, {deaths} deaths, {woken} from images, every result as undisturbed")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as failure:
        sys.exit(f"FAILED: {failure}")
