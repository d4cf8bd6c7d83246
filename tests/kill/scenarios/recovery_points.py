"""The output is the same for every kind of recovery point: images, versions, main.

A job chooses the kind once. Each scenario tests one kind, of which at least half of its returns must
be.
"""

import time

from harness import (
    MOMENTS, Failure, Kill, check_deaths, check_returns, require, require_mostly, returns_by_kind, scenario)

from .checkpoints import LaterKill
from .deaths import all_points
from .endings import messages
from .snapshots import LOST, at_random, lines_of, require_same

SHAPES = ["lines", "first_use", "again"]
OFTEN = ["--snapshots", "0.01", "--max-restarts", "1000"]
OFF = ["--snapshots", "off"]
FULL = "the journal is full"
# The messages with which a job of versions may end if its program marks nothing.
DOUBTS = ("from where it has called only before its first checkpoint", "contributes other bytes")
NEITHER = "ranks cannot go on from checkpoint 1, because rank 0 has not loaded a checkpoint"
NO_IMAGES = "no snapshots are made in this job, because this rank shares writable memory"

ENOUGH_S = 8  # the time limit of a short run on a busy machine

# The options of ftrun, those of the program, and the kind of most returns. A short job with default
# options returns to main, and on a slow machine to images.
WAYS = {
    "auto": ([], [], None),
    "often": (OFTEN, ["pause_us=3000", "versions=12"], "image"),
    "off": (OFF, [], "version"),
}


def judge(t, n, command, result, kills=()):
    """Requires the right output of each rank, and that every rank that died came back."""
    require(result.code == 0, f"exit code {result.code}", result)
    expected = t.undisturbed(n, *command)
    for rank in range(n):
        same = lines_of(result.out, rank) == lines_of(expected.out, rank)
        require(same, f"the output of rank {rank} is not\n{expected.out[-2000:]}", result)
    same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
    require(same, f"the output is not\n{expected.out[-2000:]}", result)
    check_deaths(result, kills)
    check_returns(result, n)


def survives(t, n, command, kills=(), **named):
    result = t.run(n, *command, kills=kills, **named)
    judge(t, n, command, result, kills)
    return result


def check_kind(t, kind):
    """Requires returns of that kind. None: of all kinds but versions."""
    if kind is not None:
        require_mostly(t.returns, kind)
    elif t.returns["version"]:
        raise Failure(f"returns from versions: {dict(t.returns)}")


def times(t, few, many):
    """Yields the tries of a long run; in a short run a few, or as many as there is time for."""
    begin_s = time.monotonic()
    for i in range(many if t.long else few):
        if i >= 3 and not t.long and time.monotonic() - begin_s > ENOUGH_S:
            return
        yield i


def places(t, n, command, few, beyond=0):
    """Yields every place of every rank; in a short run a few, spread over the whole run.

    beyond: only places after that operation.
    """
    last = t.undisturbed(n, *command)
    kills = [kill for rank in range(n) for kill in all_points(last.operations(rank), rank)]
    order = {"init": 0, "finalize": last.operations(0) + 1}
    kills.sort(key=lambda kill: order.get(kill.point, kill.point))
    kills = [kill for kill in kills if order.get(kill.point, kill.point) >= beyond]
    if not t.long:
        step = len(kills) / few
        kills = [kills[int(step * (i + t.rng.random()))] for i in range(few)]
        t.rng.shuffle(kills)
    for i in times(t, len(kills), len(kills)):
        yield kills[i]


def check_doubt(result):
    """Requires that the job has stopped with one line about what it cannot know."""
    require(result.code == 1, f"exit code {result.code}", result)
    lines = [line for line in messages(result) if any(doubt in line for doubt in DOUBTS)]
    require(len(lines) == 1 and messages(result)[-1] == lines[0], f"{len(lines)} reasons", result)


# ------------------------------------------------------------------- calls that look like set-up


@scenario(shape=SHAPES, way=["auto", "often"], sweeps=True, limit_s=240)
def points_of_images(t, shape, way):
    """One rank dies at any place. Nothing is marked, and no death ends the job."""
    flags, options, kind = WAYS[way]
    command = ("recovery_points", shape, *options)
    for kill in places(t, 3, command, few=8):
        survives(t, 3, command, [kill], flags=flags)
    check_kind(t, kind)


@scenario(shape=SHAPES, sweeps=True, limit_s=240)
def points_of_versions(t, shape):
    """Without marks a job with a death has the right output, or ends with one line."""
    command = ("recovery_points", shape)
    returned = stopped = 0
    for kill in places(t, 3, command, few=10):
        result = t.run(3, *command, kills=[kill], flags=OFF)
        if result.code == 0:
            judge(t, 3, command, result, [kill])
            returned += 1
        else:
            check_doubt(result)
            stopped += 1
    require(t.returns["version"] + stopped >= (returned + stopped) / 2, "from main", result)


@scenario(shape=SHAPES, sweeps=True, limit_s=240)
def points_of_versions_marked(t, shape):
    """The program marks its set-up, or declares that it has none without a mark: no death ends it."""
    command = ("recovery_points", shape, "marks=keys" if shape == "first_use" else "marks=word")
    for kill in places(t, 3, command, few=10):
        survives(t, 3, command, [kill], flags=OFF)
    require_mostly(t.returns, "version")


# -------------------------------------------------------------------------------------- obstacle


@scenario(who=["all", "one"], way=["auto", "often"], sweeps=True, limit_s=240)
def points_obstacle_at_once(t, who, way):
    """If a rank cannot have images at the first checkpoint, it is a job of versions, which is reported once."""
    flags, options, _ = WAYS[way]
    one = ["shares_of=1"] if who == "one" else []
    command = ("recovery_points", "lines", "shares=0", "marks=word", *one, *options)
    said = []
    for kill in places(t, 3, command, few=8):
        result = survives(t, 3, command, [kill], flags=flags)
        said.append(result.err.count(NO_IMAGES))
        # A rank without the obstacle may have had an image before the first checkpoint.
        images = who == "one" and way == "often" and said[-1] == 0
        require(said[-1] == (not images), f"said {said[-1]} times: {NO_IMAGES}", result)
    if who == "all" or way == "auto":
        require_mostly(t.returns, "version")


@scenario(sweeps=True, limit_s=240)
def points_obstacle_later(t):
    """The obstacle comes when there are images: the last image and the journal since are retained."""
    command = ("recovery_points", "lines", "shares=50", "versions=90", "pause_us=1000")
    for kill in places(t, 3, command, few=8, beyond=220):
        result = survives(t, 3, command, [kill], flags=OFTEN)
        require(NO_IMAGES not in result.err, "it took the job for one of versions", result)
    require_mostly(t.returns, "image")


@scenario(limit_s=240)
def points_obstacle_grows(t):
    """After the last image nothing is truncated: the journal grows by all that ranks receive."""
    command = ("recovery_points", "lines", "versions=400", "pause_us=1000", "bytes=262144")
    flags = ["--snapshots", "0.03", "--snapshot-every", "64M"]  # the default follows the memory
    peaks = []
    for shares in ("shares=50", "shares=1000"):
        result = t.run(3, *command, shares, flags=flags)
        require(result.code == 0, f"exit code {result.code}", result)
        peaks.append(result.named("end")[0]["journal_peak_bytes"])
    require(peaks[0] > 1.5 * peaks[1], f"the journals took {peaks} bytes", result)


@scenario(sweeps=True, limit_s=240)
def points_obstacle_without_a_load(t):
    """Without images and versions ranks return to main, which is reported once."""
    command = ("recovery_points", "lines", "shares=0", "load=never")
    for kill in places(t, 3, command, few=8):
        result = survives(t, 3, command, [kill], flags=OFTEN)
        said = result.err.count(NEITHER)
        require(said == 1, f"said {said} times: {NEITHER}", result)
    require_mostly(t.returns, "main")


# ----------------------------------------------------------------------------------------- loads


@scenario(load=["late", "twice", "never"], way=list(WAYS), sweeps=True, limit_s=240)
def points_loads(t, load, way):
    """The program loads after other operations, twice, or not at all."""
    flags, options, kind = WAYS[way]
    command = ("recovery_points", "lines", f"load={load}", "marks=word", *options)
    for kill in places(t, 3, command, few=8):
        survives(t, 3, command, [kill], flags=flags)
    check_kind(t, "main" if (load, way) == ("never", "off") else kind)


# ------------------------------------------------------------------------------------- the journal


@scenario(way=["auto", "off"], sweeps=True, limit_s=300)
def points_journal_limit(t, way):
    """Results are several times larger than the journal, and ranks die: it never becomes full."""
    command = ("recovery_points", "lines", "versions=1500", "bytes=32768", "marks=word")
    flags, _, kind = WAYS[way]
    flags = [*flags, "--journal-limit", "24M"] + ([] if flags else ["--snapshots", "auto"])
    last = t.undisturbed(3, *command).operations(0)
    for _ in times(t, few=5, many=100):
        kill = Kill(t.rng.randrange(3), t.rng.randint(last // 3, last), t.rng.choice(MOMENTS))
        result = survives(t, 3, command, [kill], flags=flags)
        require(FULL not in result.err, "the journal was full", result)
    require_mostly(t.returns, "image" if way == "auto" else kind)


# -------------------------------------------------------------------------------------- images die


@scenario(model=["plain", "lazy"], sweeps=True, limit_s=240)
def points_images_die(t, model):
    """Images die as well. If one dies with its rank, the job ends with one line."""
    command = ("recovery_points", "lines", f"model={model}", "versions=200", "pause_us=1000")
    expected = t.undisturbed(3, *command)
    for _ in times(t, few=5, many=100):
        interfere = at_random(t.rng, of_images=0.5)
        result = t.run(3, *command, flags=OFTEN, interfere=interfere)
        if result.code == 0:
            judge(t, 3, command, result)
            continue
        require(result.code == 1, f"exit code {result.code}", result)
        lost = [line for line in messages(result) if LOST.fullmatch(line)]
        require(len(lost) == 1, "another reason", result)
        for rank in range(3):
            got, wanted = lines_of(result.out, rank), lines_of(expected.out, rank)
            require(got == wanted[: len(got)], f"output of rank {rank} is wrong", result)
    require_mostly(t.returns, "image")


# ----------------------------------------------------------------------------------- several deaths


def several(t, n, last):
    """Returns kills of some ranks at random places, or of all at one; one rank dies once more."""
    ordinal = t.rng.randint(1, last.operations(0))
    if t.rng.random() < 0.3:
        moment = t.rng.choice(MOMENTS)
        kills = [Kill(rank, ordinal, moment) for rank in range(n)]
    else:
        ranks = t.rng.sample(range(n), t.rng.randint(2, n))
        near = [max(1, min(last.operations(0), ordinal + t.rng.randint(-3, 3))) for _ in ranks]
        kills = [Kill(rank, at, t.rng.choice(MOMENTS)) for rank, at in zip(ranks, near)]
    if t.rng.random() < 0.5:
        first = t.rng.choice(kills)
        kills.append(LaterKill(first.rank, t.rng.randint(1, first.point), t.rng.choice(MOMENTS), 1))
    return kills


@scenario(n=[3, 10], model=["plain", "local", "lazy"], kind=["image", "version"], sweeps=True,
          limit_s=240)  # fmt: skip
def points_several(t, n, model, kind):
    """Several ranks die at once, or all, and again in their next incarnation."""
    options = ["shares=0", "marks=word"] if kind == "version" else []
    command = ("recovery_points", "again", f"model={model}", f"pause_us={500 * n}", "versions=40", *options)
    flags = ["--snapshots", "0.01" if n < 10 else "0.03"] if kind == "image" else ["--snapshots", "auto"]
    last = t.undisturbed(n, *command)
    for _ in times(t, few=6, many=100):
        survives(t, n, command, several(t, n, last), flags=flags)
    require_mostly(t.returns, kind)


# ------------------------------------------------------------------------- about the first checkpoint


def about_the_first_checkpoint(rng, n):
    """Kills ranks from outside in the first milliseconds, and their next incarnations."""
    delays_s = [rng.uniform(0, 0.006) for _ in range(rng.randint(1, 3))]

    def interfere(job):
        job.until_event("init", rank=rng.randrange(n))
        for delay_s in delays_s:
            job.run_for(delay_s)
            job.kill(*rng.sample(range(n), rng.choice([1, 1, 2, n])))

    return interfere


@scenario(way=["images", "versions", "either"], model=["plain", "lazy"], sweeps=True, limit_s=240)
def points_undecided(t, way, model):
    """SIGKILL from outside while the job decides: between a rank's part in the first checkpoint and
    what follows from it, while the first image comes, in a replay of all that."""
    options = {
        "images": [],
        "versions": ["shares=0", "marks=word"],
        "either": ["shares=0", "shares_of=1", "marks=word"],
    }[way]
    command = ("recovery_points", "first_use", f"model={model}", "versions=12", "pause_us=1000")
    if way != "images":
        command = (*command[:1], "lines", *command[2:], *options)
    for _ in times(t, few=8, many=150):
        period = t.rng.choice(["0.001", "0.002", "0.004"])
        flags = ["--snapshots", period, "--max-restarts", "1000"]
        interfere = about_the_first_checkpoint(t.rng, 3)
        result = survives(t, 3, command, flags=flags, interfere=interfere)
        kinds = returns_by_kind(result)
        wrong = {"images": kinds["version"], "versions": kinds["image"]}
        require(not wrong.get(way, kinds["version"] and kinds["image"]), f"{kinds}", result)
    require(t.returns.total(), "no rank returned", result)


# ------------------------------------------------------------------------------------ wrapper scripts

WAITS = '#!/bin/sh\n"$@"\nexit $?\n'


@scenario(kind=["image", "version"], sweeps=True, limit_s=240)
def points_behind_a_script(t, kind):
    """A script starts each rank and waits for it."""
    options = ["shares=0", "marks=word"] if kind == "version" else []
    command = (t.script("waits", WAITS), t.program("recovery_points"), "lines", "pause_us=2000", *options)
    plain = ("recovery_points", *command[2:])
    for kill in places(t, 3, plain, few=8, beyond=1):
        result = t.run(3, *command, kills=[kill], flags=OFTEN)
        judge(t, 3, plain, result, [kill])
    require_mostly(t.returns, kind)
