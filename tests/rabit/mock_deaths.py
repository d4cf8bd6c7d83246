"""Runs schedules of mock deaths, and checks their results.

A way is the recovery point to which ranks should go back. "versions" is a job without snapshots.
"auto" has the default snapshots, of which a short program has few. "images" has a snapshot every
10 ms.
"""

import collections
import functools
import re

import harness
from harness import require
from kills import KILLED

WAYS = {
    "versions": ["--snapshots", "off"],
    "auto": [],
    "images": ["--snapshots", "0.01"],
}
# At least half of the returns must be from recovery points of the kinds in MOST, and none may be
# from the kind in NONE.
MOST = {"versions": ["version"], "auto": ["main", "image"], "images": ["image"]}
NONE = {"versions": "image", "auto": "version", "images": "version"}
REST = "rest_ms=25"  # makes a round long enough for images
MOCK_LINE = re.compile(
    r"rejoin: rank (\d+): mock: killed before \w+ at version (\d+), seq (\d+), death (\d+)"
    r"(; it went on from a later snapshot, at version \d+, seq \d+)?"
)


def sorted_lines(text):
    return sorted(text.splitlines())


def check_kinds(counted, way, most=None):
    """Requires that at least half of the returns were from the right kinds, `most` if it is given."""
    wanted = sum(counted[kind] for kind in most or MOST[way])
    if not counted or 2 * wanted < counted.total() or counted[NONE[way]]:
        raise harness.Failure(f"returns of a schedule for {way}: {dict(counted)}")


def counts_returns(function):
    """Decorates a schedule of a Test and a way, whose returns must be of the way's kind.

    The schedule may return the kinds that most of the returns must be of.
    """

    @functools.wraps(function)
    def run(t, way="versions", **arguments):
        check_kinds(t.returns, way, function(t, way=way, **arguments))

    return run


def with_ways(names, ways=("versions", "auto", "images")):
    """Returns names of variants: a plain name is for versions, others end with the way."""
    return [name if way == "versions" else f"{name}_{way}" for way in ways for name in names]


def split_way(name):
    """Returns (name, way) of a name that with_ways() has made."""
    head, _, way = name.rpartition("_")
    return (head, way) if way in WAYS else (name, "versions")


def check_mocks(result, mocks):
    """Requires that every mock has killed its rank in its incarnation, once, and no other rank died.

    The place must be that of the mock, unless the incarnation goes on from a snapshot. Returns how
    many mocks fired later.
    """
    deaths = sorted((d["rank"], d["incarnation"]) for d in result.named("death"))
    wanted = sorted((rank, incarnation) for rank, _, _, incarnation in mocks)
    require(deaths == wanted, f"the deaths (rank, incarnation): {deaths}, not {wanted}", result)
    causes = {d["cause"] for d in result.named("death")}
    require(causes <= set(KILLED), f"deaths by something else: {causes}", result)
    found = [(tuple(map(int, place)), late) for *place, late in MOCK_LINE.findall(result.err)]
    said = collections.Counter(place for place, _ in found)
    require(said == collections.Counter(mocks), f"mocks that fired: {said}, not {mocks}", result)
    late = [place for place, is_late in found if is_late]
    require(all(death > 0 for *_, death in late), f"late in a first incarnation: {late}", result)
    return len(late)


def judge(t, ranks, expected, result):
    """Checks the output, the exit code and the returns."""
    require(result.code == 0, f"exit code {result.code}", result)
    same = sorted_lines(result.out) == sorted_lines(expected.out)
    require(same, f"the output is not\n{expected.out[-2000:]}", result)
    harness.check_returns(result, ranks)


def survives(t, ranks, *command, mocks=(), way="versions", flags=(), limit_s=harness.LIMIT_S):
    """Runs a program with deaths, and compares it with a run without deaths. Returns its result."""
    if way == "images":
        command = (*command, REST)
    expected = t.undisturbed(ranks, *command)
    require(len(expected.out.splitlines()) >= ranks, "not a line from each rank", expected)
    words = ["mock=" + ",".join(map(str, mock)) for mock in mocks]
    flags = [*WAYS[way], "--max-restarts", max([1] + [m[3] + 1 for m in mocks]), *flags]
    result = t.run(ranks, *command, *words, flags=flags, limit_s=limit_s)
    judge(t, ranks, expected, result)
    late = check_mocks(result, mocks)
    require(way != "versions" or late == 0, "a mock fired behind its place", result)
    result.late_mocks = late
    return result


def is_killed_at_random(t, ranks, *command, way, deaths, within_s, flags=()):
    """Sends SIGKILL to one rank, to some or to all, `deaths` times, at most `within_s` apart.

    If ranks should return to images, none dies before each rank has one. Returns how many ranks
    died.
    """
    if way != "versions":
        command = (*command, REST)
    expected = t.undisturbed(ranks, *command)

    def interfere(job):
        job.until_event("init", rank=0)
        if way == "images":
            job.until_event("snapshot")  # all ranks have made one
        for _ in range(deaths):
            job.run_for(t.rng.uniform(0, within_s))
            job.kill(*t.rng.sample(range(ranks), t.rng.choice([1, 1, 1, 2, ranks])))

    flags = [*WAYS[way], "--max-restarts", 1000, *flags]
    result = t.run(ranks, *command, flags=flags, interfere=interfere)
    judge(t, ranks, expected, result)
    harness.check_deaths(result, [])
    return len(result.named("death"))
