#!/usr/bin/env python3
"""Runs the ancestor's schedules of deaths, and more, with programs written for rabit.

schedules.py --ftrun FTRUN --programs DIR [--long] NAME...    runs schedules
schedules.py --list                                           names, limits, whether they sweep

A schedule runs a program under ftrun with mock=RANK,VERSION,SEQ,NDEATH arguments, each of which is
a death. It requires that exactly these deaths have happened, once each, that all ranks came back,
and that each rank has printed what it prints without deaths.
"""

import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kill"))

import harness  # noqa: E402
from harness import require, scenario  # noqa: E402
from mock_deaths import (  # noqa: E402
    WAYS, check_kinds, check_mocks, counts_returns, split_way, survives, with_ways)

# These schedules register themselves.
import form_schedules  # noqa: E402, F401

RANKS = 10
NDATA = "ndata=10000"
ROUNDS = 3  # of the recover programs


def operations(ranks, program="model_recover"):
    """Returns the number of operations in a round of the programs, which is the seq of CheckPoint."""
    roots = len(range(0, ranks, max(ranks // 3, 1)))
    return {"model_recover": 3, "local_recover": 2}[program] + 2 * roots


# ------------------------------------------------------------------------- the published schedules
#
# NDEATH is the incarnation that ends, so that each of these deaths happens.

SCHEDULES = {
    "recover": [(0, 0, 1, 0), (1, 1, 1, 0)],
    "same": [(0, 0, 1, 0), (1, 1, 1, 0), (0, 1, 1, 1), (4, 1, 1, 0), (9, 1, 1, 0)],
    "hard": [
        *[(0, 0, 1, 0), (1, 1, 1, 0), (1, 1, 1, 1), (0, 1, 1, 1)],
        *[(4, 1, 1, 0), (9, 1, 1, 0), (8, 1, 2, 0), (4, 1, 3, 1)],
    ],
}
PROGRAMS = {
    "model": ["model_recover", NDATA],
    "local": ["local_recover", NDATA],
    "lazy": ["model_recover", NDATA, "lazy=1"],
    "ring": ["model_recover", NDATA, "rabit_reduce_ring_mincount=1"],
}


PUBLISHED = [f"{p}_{s}{c}" for p in PROGRAMS for s in SCHEDULES for c in ("", "_cache")]


@scenario(limit_s=120, name=with_ways(PUBLISHED))
def published(t, name):
    name, way = split_way(name)
    program, schedule, *cache = name.split("_")
    words = ["rabit_bootstrap_cache=1"] if cache else []
    survives(t, RANKS, *PROGRAMS[program], *words, mocks=SCHEDULES[schedule], way=way)
    check_kinds(t.returns, way)


@scenario(limit_s=120, name=with_ways(["model", "local", "lazy"]))
def at_checkpoint(t, name):
    """Ranks 0, 4 and 9 die together at a checkpoint, rank 1 right after them."""
    name, way = split_way(name)
    last = operations(RANKS, PROGRAMS[name][0])
    mocks = [(0, 1, last, 0), (4, 1, last, 0), (9, 1, last, 0)]
    survives(t, RANKS, *PROGRAMS[name], mocks=[*mocks, (1, 2, 0, 0)], way=way)
    survives(t, RANKS, *PROGRAMS[name], mocks=[*mocks, (1, 1, last, 0)], way=way)
    check_kinds(t.returns, way)


@scenario(limit_s=120, name=with_ways(["model", "local", "lazy"]))
def all_at_once(t, name):
    """All ranks die: at a checkpoint, and before the same operation."""
    name, way = split_way(name)
    last = operations(RANKS, PROGRAMS[name][0])
    survives(t, RANKS, *PROGRAMS[name], mocks=[(rank, 1, last, 0) for rank in range(RANKS)], way=way)
    survives(t, RANKS, *PROGRAMS[name], mocks=[(rank, 2, 3, 0) for rank in range(RANKS)], way=way)
    check_kinds(t.returns, way)


# ------------------------------------------------------------------------------ the bootstrap cache


@scenario(limit_s=120, way=list(WAYS))
@counts_returns
def cache(t, way):
    """A restarted rank gets the column count and the histogram, which the others got long ago."""

    def dies(*mocks, ranks=3):
        survives(t, ranks, "cache", mocks=mocks, way=way)

    bootstrap = 4  # operations between LoadCheckPoint and the first round
    dies((1, 2, 1, 0))
    dies((1, 2, 1, 0), ranks=RANKS)
    dies((0, 2, 0, 0))  # the rank that broadcast the cuts
    dies((1, 2, 1, 0), (1, 0, 0, 1))  # again before the column count
    dies((1, 2, 1, 0), (1, 0, 1, 1))  # at LoadCheckPoint
    for seq in range(bootstrap + 3):  # in the bootstrap phase after the load, and in the round
        if way == "versions" or seq < 3:  # other ways have only 3 operations in version 2
            dies((1, 2, 1, 0), (1, 2, seq, 1))
    dies((1, 2, 1, 0), (2, 2, 1, 0))


@scenario(limit_s=120, way=list(WAYS))
@counts_returns
def cache_together(t, way):
    """Two ranks or all die, and get the recorded results of marked operations at the same time."""
    survives(t, 3, "cache", mocks=[(0, 2, 0, 0), (1, 2, 0, 0)], way=way)
    survives(t, 3, "cache", mocks=[(rank, 3, 0, 0) for rank in range(3)], way=way)


@scenario(limit_s=120, way=["versions", "auto"])
@counts_returns
def cache_before_checkpoint(t, way):
    """Deaths before there is a checkpoint: before and after the load, and in the first round."""
    for rank in range(3):
        for seq in (0, 1, 2, 3, 4, 5, 6):
            survives(t, 3, "cache", mocks=[(rank, 0, seq, 0)], way=way)
    return ["main"]


@scenario(limit_s=60)
def cache_unmarked(t):
    """A job of versions ends with one line if operations after the load are not marked."""
    for rank in range(3):
        result = t.run(3, "cache", "unmarked=1", f"mock={rank},2,1,0", flags=WAYS["versions"])
        require(result.code not in (0, 137), f"exit code {result.code}", result)
        lines = [line for line in result.err.splitlines() if "rejoin_bootstrap" in line]
        both = len(lines) == 1 and "make_histogram" in lines[0] and "do_round" in lines[0]
        require(both, "not one line that names both places and says how to mark", result)
        require("version" not in result.out, "a rank went on", result)


@scenario(limit_s=60, way=["auto", "images"])
@counts_returns
def cache_unmarked_survives(t, way):
    """In a job of images no operation need be marked."""
    for rank in range(3):
        survives(t, 3, "cache", "unmarked=1", mocks=[(rank, 2, 1, 0)], way=way)
    survives(t, 3, "cache", "unmarked=1", mocks=[(r, 3, 0, 0) for r in range(3)], way=way)


@scenario(limit_s=240, cached=["0", "1"])
def again(t, cached):
    """The iterations call what the bootstrap phase calls, from the same places, at once or later.

    The workers call the broadcast of round 3 from a line from which they have called only in round
    0, and its root calls from another line. Because the program marks its set-up, these calls do
    not count as set-up, whichever rank dies.
    """
    command = ["again", f"rabit_bootstrap_cache={cached}"]
    for version in range(5):
        checkpoint = {0: 5, 3: 3}.get(version, 2)  # its seq
        for seq in range(checkpoint + 1):
            for dying in [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}]:
                mocks = [(rank, version, seq, 0) for rank in sorted(dying)]
                survives(t, 3, *command, mocks=mocks)
    check_kinds(t.returns, "versions")


@scenario(limit_s=240, way=["auto", "images"], sweeps=True)
@counts_returns
def again_survives(t, way):
    """The same in jobs of images."""
    doubts = [(1, 0), (1, 2), (2, 0), (2, 2), (3, 0)] if not t.long else [
        (version, seq) for version in range(5) for seq in range({3: 4}.get(version, 3))
    ]
    for version, seq in doubts:
        for dying in [(1, 2), (0, 1, 2)] if not t.long else [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)]:
            survives(t, 3, "again", mocks=[(rank, version, seq, 0) for rank in dying], way=way)


# ------------------------------------------------------------------------------------------- others


@scenario(limit_s=120, way=["versions", "auto"])
@counts_returns
def kinds(t, way):
    """All operators and types, Reducer and SerializeReducer, with sizes that are no power of two."""
    for ranks in (1, 2, 3, 7):
        mocks = [(ranks - 1, 0, 20, 0), (0, 1, 45, 0)][: min(ranks, 2)]
        survives(t, ranks, "kinds", mocks=mocks, way=way)
    for seq in range(42, 49):  # from the last predefined operator on
        survives(t, 3, "kinds", mocks=[(1, 1, seq, 0)], way=way)


@scenario(limit_s=120, way=["versions", "auto"])
@counts_returns
def c_api(t, way):
    for rank in range(3):
        for version in range(3):
            for seq in range(4):
                survives(t, 3, "c_recover", mocks=[(rank, version, seq, 0)], way=way)


@scenario(limit_s=120, way=["versions", "auto"])
@counts_returns
def load_in_pieces(t, way):
    """A Load reads until a short read, at every version: the model is longer each time."""
    for version in range(1, 4):
        for rank in range(3):
            survives(t, 3, "loads", "pieces", mocks=[(rank, version, 0, 0)], way=way)


@scenario(limit_s=60)
def load_that_throws(t):
    """A model whose Load throws ends the job with a line that names its rank and version."""
    result = t.run(3, "loads", "throws", "mock=1,2,0,0", flags=WAYS["versions"])
    require(result.code == 1, f"exit code {result.code}", result)
    line = "[1] rabit: LoadCheckPoint: the global model of version 2"
    lines = [one for one in result.err.splitlines() if line in one]
    wanted = len(lines) == 1 and "weights of another kind" in lines[0]
    require(wanted, f"not one line: {line}", result)
    require("it went on" not in result.out, "a rank went on", result)


@scenario(limit_s=60, way=["auto"])
@counts_returns
def load_that_would_throw(t, way):
    """In a job of images no model is loaded."""
    survives(t, 3, "loads", "throws", mocks=[(1, 2, 0, 0)], way=way)


CALLERS = {
    # operation, function that calls it, bytes of an element x elements
    "allreduce": [("count_columns", "4x1"), ("make_histogram", "4x64"), ("do_round", "4x64")],
    "bcast": [("make_histogram", "1x8"), ("make_histogram", "1x48")],
}


@scenario(limit_s=60)
def log_ops(t):
    """--log-ops and all other reports name the places where the program calls rabit."""
    mock, command = (1, 2, 1, 0), ["cache", "mock=1,2,1,0"]
    with tempfile.TemporaryDirectory() as directory:
        flags = [*WAYS["versions"], "--log-ops", "--keep", "--journal-dir", directory]
        result = t.run(3, *command, flags=flags)
        require(result.code == 0, f"exit code {result.code}", result)
        check_mocks(result, [mock])
        [journal] = os.listdir(directory)
        inspect = [t.ftrun, "inspect", f"{directory}/{journal}"]
        shown = subprocess.run(inspect, capture_output=True, text=True, timeout=20).stdout
    for name, callers in CALLERS.items():
        for caller, shape in callers:
            call = rf"\] {name} \(\S+/cache\.cc:\d+::{caller}#{shape}[ )]"
            require(len(re.findall(call, result.err)) >= 3, f"not in the log: {call}", result)
            require(len(re.findall(call, shown)) >= 3, f"not in the journal: {call}\n{shown}", result)
    # The second incarnation: the bootstrap phase, what it loads, and how it goes on.
    line = r"\[1\] (\w+) \(\S+\) (\w+) version (\d+), seq (\d+), take \d+\.\d+ seconds\n"
    lines = re.findall(line, result.err[result.err.index("starting it again") :])
    marked = [("bcast", 0), ("bcast", 1), ("allreduce", 2), ("allreduce", 3)]
    expected = [("allreduce", "recovered", "0", "0"), ("loadcheckpoint", "finished", "2", "0")]
    expected += [(name, "recovered", "2", str(seq)) for name, seq in marked]
    expected += [("allreduce", "recovered", "2", "4"), ("allreduce", "finished", "2", "5")]
    expected += [("checkpoint", "finished", "3", "0"), ("allreduce", "finished", "3", "0")]
    require(lines[: len(expected)] == expected, f"the second incarnation: {lines}", result)
    site = result.named("death")[0]["position"]["site"]
    require(re.fullmatch(r"\S+/cache\.cc:\d+::do_round", site), f"it died at {site}", result)


@scenario(limit_s=60)
def log_ops_from_main(t):
    """A rank that goes back to main: its load returns what it returned the first time."""
    result = t.run(3, "cache", "mock=1,2,1,0", flags=["--log-ops"])
    require(result.code == 0, f"exit code {result.code}", result)
    check_mocks(result, [(1, 2, 1, 0)])
    line = r"\[1\] (\w+) \(\S+\) (\w+) version (\d+), seq (\d+), take \d+\.\d+ seconds\n"
    lines = re.findall(line, result.err[result.err.index("starting it again") :])
    expected = [("allreduce", "recovered", "0", "0"), ("loadcheckpoint", "finished", "0", "0")]
    marked = ["bcast", "bcast", "allreduce", "allreduce"]
    expected += [(name, "recovered", "0", str(seq)) for seq, name in enumerate(marked)]
    expected += [("allreduce", "recovered", "0", "4"), ("allreduce", "recovered", "0", "5")]
    expected += [("checkpoint", "recovered", "1", "0"), ("allreduce", "recovered", "1", "0")]
    require(lines[: len(expected)] == expected, f"the second incarnation: {lines}", result)


@scenario(limit_s=60)
def bad_parameters(t):
    for word in ("mock=1,0,0", "mock=a,0,0,0", "rabit_reduce_buffer=12Q", "rabit_global_replica=0"):
        result = t.run(3, "model_recover", NDATA, word)
        require(result.code == 2, f"exit code {result.code}", result)
        require(f"rabit: parameter {word}: expected" in result.err, "not named", result)
        require(not result.named("respawn"), "it was tried again", result)
        require(not result.out, "a rank went on", result)


# -------------------------------------------------------------------------------------- every point


@scenario(limit_s=300, sweeps=True, name=with_ways(["model", "local", "lazy"]))
def sweep(t, name):
    """Kills every rank before every operation and at every checkpoint, and its successor at its load.

    With snapshots only a tenth of these places is tested. --long: all of them, as well as the
    successor at the place where its predecessor died, and another rank at the same place.
    """
    name, way = split_way(name)
    ranks = 3
    command = [PROGRAMS[name][0], "ndata=100", *PROGRAMS[name][2:]]
    last = operations(ranks, command[0])
    places = [(v, s, r) for v in range(ROUNDS) for s in range(last + 1) for r in range(ranks)]
    if way != "versions" and not t.long:
        places = t.rng.sample(places, len(places) // 10)
    for version, seq, rank in places:
        first = (rank, version, seq, 0)
        survives(t, ranks, *command, mocks=[first], way=way)
        # The successor loads before it calls anything else.
        survives(t, ranks, *command, mocks=[first, (rank, 0, 0, 1)], way=way)
        if t.long:
            survives(t, ranks, *command, mocks=[first, (rank, version, seq, 1)], way=way)
            other = ((rank + 1) % ranks, version, seq, 0)
            survives(t, ranks, *command, mocks=[first, other], way=way)
    check_kinds(t.returns, way)


if __name__ == "__main__":
    sys.exit(harness.main(__doc__, programs="build/tests/rabit/programs"))
