#!/usr/bin/env python3
"""Deaths in Python programs of every form: model, set-up, call, whether images are possible.

deaths_test.py --ftrun FTRUN [--long] NAME...    runs schedules
deaths_test.py --list                            names, limits, whether they sweep

Works like tests/rabit/form_schedules.py, but runs forms.py. REJOIN_NUMPY_PYTHON: a Python that has
NumPy.
"""

import itertools
import os
import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [f"{SOURCES}/tests/kill", f"{SOURCES}/tests/rabit"]

import harness  # noqa: E402
from harness import require, scenario  # noqa: E402
from mock_deaths import (  # noqa: E402
    MOST, WAYS, check_kinds, counts_returns, is_killed_at_random, survives)

PYTHON = os.environ.get("REJOIN_NUMPY_PYTHON", "/usr/bin/python3")
ROUNDS = 8
CHECKPOINT = 4  # its seq in a round: after an allreduce, a broadcast (two), and an allreduce
UNMARKED = [("behind", "0"), ("first", "0")]
SETUPS = [("before", "0"), ("behind", "1"), *UNMARKED]


def forms(way):
    for model, lines, (setup, mark) in itertools.product(
        ["global", "local", "lazy"], ["1", "2"], SETUPS
    ):
        if way != "versions" or (setup, mark) not in UNMARKED:
            words = [f"model={model}", f"lines={lines}", f"setup={setup}", f"mark={mark}"]
            yield [PYTHON, f"{HERE}/forms.py", *words]


def place(t):
    return t.rng.randrange(2, ROUNDS), t.rng.randrange(CHECKPOINT + 1)


def mocks_of(t, kind, ranks):
    rank, (first, second) = t.rng.randrange(ranks), sorted([place(t), place(t)])
    return {
        "single": lambda: [(rank, *first, 0)],
        "again": lambda: [(rank, *first, 0), (rank, *second, 1)],
        "together": lambda: [(r, *first, 0) for r in t.rng.sample(range(ranks), 2)],
        "all": lambda: [(r, *first, 0) for r in range(ranks)],
        "apart": lambda: [(r, *place(t), 0) for r in t.rng.sample(range(ranks), 2)],
    }[kind]()


KINDS = ["single", "again", "together", "all", "apart"]


@scenario(limit_s=240, sweeps=True, way=list(WAYS))
@counts_returns
def every_form(t, way):
    """Runs one kind of death for some of the forms; with --long all kinds for all forms, thrice."""
    chosen = list(forms(way))
    for number, form in enumerate(chosen if t.long else t.rng.sample(chosen, 5)):
        for kind in KINDS * 3 if t.long else [KINDS[number % len(KINDS)]]:
            survives(t, 3, *form, mocks=mocks_of(t, kind, 3), way=way)


@scenario(limit_s=240, sweeps=True, way=list(WAYS))
@counts_returns
def from_outside(t, way):
    chosen = list(forms(way))
    for form in chosen if t.long else t.rng.sample(chosen, 2):
        command = [*form, "rounds=60" if way == "images" else "rounds=300"]
        is_killed_at_random(t, 3, *command, way=way, deaths=4, within_s=0.5)
    return [*MOST[way], *(["main"] if way == "versions" else [])]


@scenario(limit_s=240, sweeps=True)
def without_images(t):
    """A rank that shares memory has no images: with the default snapshots the job becomes one of versions."""
    for number, form in enumerate(forms("versions")):
        if not t.long and number % 3 != 0:
            continue
        for kind in KINDS if t.long else [KINDS[number % len(KINDS)]]:
            mocks = mocks_of(t, kind, 3)
            # An image made before the memory is shared would decide for images.
            flags = ["--snapshots", "60"]
            result = survives(t, 3, *form, "shares=1", mocks=mocks, way="auto", flags=flags)
            text = "no snapshots are made in this job, because this rank"
            require(result.err.count(text) == 1, "it does not say why, once", result)
    check_kinds(t.returns, "versions")


if __name__ == "__main__":
    os.environ.update(
        PYTHONPATH=f"{SOURCES}/python", PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1"
    )
    sys.exit(harness.main(__doc__, programs=HERE))
