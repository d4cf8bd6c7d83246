"""Schedules of deaths for programs of every form of model, set-up and call, and for one that learns.

programs/forms.cc and programs/boost.cc describe the forms. In a job of images every form survives
every death. In a job of versions those survive whose set-up is before the load, or is marked.
"""

import itertools

import harness
from harness import Kill, require, scenario
from mock_deaths import check_kinds, counts_returns, is_killed_at_random, judge, survives
from mock_deaths import MOST, WAYS, split_way, with_ways

MODELS = ["global", "local", "lazy"]
LINES = ["1", "2"]
SETUPS = [("before", "none"), ("behind", "all"), ("behind", "keys")]  # these may return to versions
UNMARKED = [("behind", "none"), ("first", "none")]
ROUNDS = 8
CHECKPOINT = 5  # its seq in a round


def forms(way):
    setups = SETUPS if way == "versions" else SETUPS + UNMARKED
    for model, lines, (setup, mark) in itertools.product(MODELS, LINES, setups):
        yield ["forms", f"model={model}", f"lines={lines}", f"setup={setup}", f"mark={mark}"]


def place(t, form):
    """Returns a random version and seq of the form, after the first rounds."""
    return t.rng.randrange(2, ROUNDS), t.rng.randrange(CHECKPOINT + 1)


def single(t, ranks, form):
    return [(t.rng.randrange(ranks), *place(t, form), 0)]


def again(t, ranks, form):
    """One rank dies twice, the second time at the same place or at any other."""
    rank, first = t.rng.randrange(ranks), place(t, form)
    return [(rank, *first, 0), (rank, *t.rng.choice([first, place(t, form)]), 1)]


def again_ahead(t, ranks, form):
    """One rank dies twice, the second time not before the first place."""
    rank, places = t.rng.randrange(ranks), sorted([place(t, form), place(t, form)])
    return [(rank, *places[0], 0), (rank, *places[1], 1)]


def together(t, ranks, form):
    there = place(t, form)
    return [(rank, *there, 0) for rank in t.rng.sample(range(ranks), 2)]


def everyone(t, ranks, form):
    there = place(t, form)
    return [(rank, *there, 0) for rank in range(ranks)]


def apart(t, ranks, form):
    """Some ranks die, each at a random place."""
    some = t.rng.sample(range(ranks), t.rng.randint(2, ranks))
    return [(rank, *place(t, form), 0) for rank in some]


def deaths(way):
    """Returns the kinds of deaths. A place before the version that a rank loads is never reached."""
    return [single, again_ahead if way == "versions" else again, together, everyone, apart]


@scenario(limit_s=180, sweeps=True, way=list(WAYS))
@counts_returns
def every_form(t, way):
    """Tests one kind of death for each of some forms; --long: all kinds for all forms, six times."""
    kinds, chosen = deaths(way), list(forms(way))
    for number, form in enumerate(chosen if t.long else t.rng.sample(chosen, 12)):
        for kind in kinds * 6 if t.long else [kinds[number % len(kinds)]]:
            survives(t, 3, *form, mocks=kind(t, 3, form), way=way)


@scenario(limit_s=180, sweeps=True, way=list(WAYS))
@counts_returns
def many_ranks(t, way):
    """The same with ten ranks, for some of the forms."""
    chosen = list(forms(way))
    kinds = deaths(way)
    for number, form in enumerate(chosen if t.long else t.rng.sample(chosen, len(kinds))):
        for kind in kinds if t.long else [kinds[number]]:
            survives(t, 10, *form, mocks=kind(t, 10, form), way=way)


@scenario(limit_s=180, sweeps=True, name=with_ways(["3", "10"]))
def from_outside(t, name):
    """Sends SIGKILL to one rank, to some or to all, at random times."""
    ranks, way = split_way(name)
    chosen = list(forms(way))
    for form in chosen if t.long else t.rng.sample(chosen, 3):
        # On a machine with much to do, a job may be over before anything is sent.
        for _ in t.runs(1, 4, t.returns.total):
            many = 6 if int(ranks) == 3 else 3
            command = [*form, "rounds=400" if way == "versions" else "rounds=60"]
            is_killed_at_random(t, int(ranks), *command, way=way, deaths=many, within_s=0.2)
    # Many deaths come before there is a recovery point besides main.
    check_kinds(t.returns, way, [*MOST[way], *(["main"] if way == "versions" else [])])


@scenario(limit_s=60, way=["auto", "images"])
@counts_returns
def place_that_does_not_exist(t, way):
    """A mock fires at its place, or in an incarnation from a snapshot that begins after it.

    If the place does not exist, the mock never fires in other incarnations. An incarnation from a
    snapshot that begins after the place cannot know whether it exists.
    """
    form = ["forms", "model=global", "setup=behind"]
    if way == "auto":
        nowhere = [(1, 3, CHECKPOINT + 1, 0), (1, 3, CHECKPOINT + 1, 1), (1, ROUNDS, 0, 0)]
        words = ["mock=" + ",".join(map(str, mock)) for mock in nowhere]
        survives(t, 3, *form, *words, mocks=[(1, 2, 1, 0)], way=way)
        return
    ahead = f"mock=1,{ROUNDS - 1},{CHECKPOINT + 1},1"
    survives(t, 3, *form, ahead, mocks=[(1, 4, 1, 0)], way=way)
    result = survives(t, 3, *form, mocks=[(1, 4, 1, 0), (1, 0, 99, 1)], way=way)
    require(result.late_mocks == 1, "it is not said that it is behind its place", result)


# ----------------------------------------------------------------------------- a program that
# learns


BOOST = ["boost", "rounds=100"]


def boost(t, way, kills=()):
    flags = [] if way == "auto" else ["--snapshots", "0.02"]
    flags += ["--max-restarts", 10]
    expected = t.undisturbed(3, *BOOST)
    result = t.run(3, *BOOST, kills=kills, flags=flags)
    judge(t, 3, expected, result)
    harness.check_deaths(result, kills)
    return result


@scenario(limit_s=240, sweeps=True, way=["auto", "images"])
@counts_returns
def learning(t, way):
    """A rank dies in every k-th operation; --long: every rank does, and k is small."""
    last = t.undisturbed(3, *BOOST).operations(0)
    step = max(1, last // (150 if t.long else 2))
    for rank in range(3):
        for point in range(1 + rank, last + 1, step):
            boost(t, way, kills=[Kill(rank, point, t.rng.choice(harness.MOMENTS))])
    for _ in range(60 if t.long else 1):
        point = t.rng.randint(1, last)
        boost(t, way, kills=[Kill(rank, point, "inside") for rank in range(3)])


@scenario(limit_s=240, sweeps=True, way=["auto", "images"])
@counts_returns
def learning_from_outside(t, way):
    for _ in range(60 if t.long else 1):
        is_killed_at_random(t, 3, *BOOST, way=way, deaths=8, within_s=0.05)


@scenario(limit_s=60)
def learning_from_versions(t):
    """Without snapshots its unmarked set-up cannot be told from its rounds: the job ends with a line."""
    last = t.undisturbed(3, *BOOST).operations(0)
    flags = [*WAYS["versions"], "--max-restarts", 3]
    result = t.run(3, *BOOST, kills=[Kill(1, last // 2)], flags=flags)
    require(result.code == 1 and "must be marked" in result.err, f"exit code {result.code}", result)
