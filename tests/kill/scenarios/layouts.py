"""Jobs whose ranks are laid out on several nodes: the bits of reductions follow from the layout alone."""

import re

from harness import Kill, require, scenario
from scenarios.snapshots import EVERY_10_MS, at_random, from_images, judge
from scenarios.written_images import place, require_whole


def ranks_of(layout):
    return sum(int(n) for n in layout.split(","))


@scenario(layout=["1,1", "2,2", "3,1", "1,3,2", "2,2,2,2"], between=["memory", "messages", "sockets"])
def layout(t, layout, between):
    """Each result has the documented bits, without deaths and with some."""
    n = ranks_of(layout)
    command, flags = ("layout", layout), ["--layout", layout, "--between-nodes", between]
    last = t.undisturbed(n, *command, flags=flags)
    places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
    for _ in range(40 if t.long else 4):
        kills = [Kill(*t.rng.choice(places)) for _ in range(3)]
        kills = list({kill.rank: kill for kill in kills}.values())
        t.recovers(n, *command, kills=kills, flags=flags)


@scenario(layout=["2,2", "2,1,3"], between=["memory", "messages", "sockets"])
def layout_by_node(t, layout, between):
    """With --map-by node, ranks go to the nodes in turn; some die."""
    n = ranks_of(layout)
    command = ("layout", layout, "1", "node")
    flags = ["--layout", layout, "--between-nodes", between, "--map-by", "node"]
    last = t.undisturbed(n, *command, flags=flags)
    for _ in range(20 if t.long else 2):
        kills = [Kill(rank, t.rng.randint(1, last.operations(rank))) for rank in t.rng.sample(range(n), 2)]
        t.recovers(n, *command, kills=kills, flags=flags)


@scenario(between=["memory", "messages", "sockets"], limit_s=300)
def layout_blocks(t, between):
    """Nodes beyond the sixteenth are in another block."""
    layout = ",".join(["8"] + ["1"] * 17)  # from 24 ranks on, one member reduces for all
    n = ranks_of(layout)
    flags = ["--layout", layout, "--between-nodes", between]
    t.recovers(n, "layout", layout, kills=[Kill(n - 1, 40), Kill(3, 60)], flags=flags)


@scenario(layout=["1,1", "2,1,2"], between=["messages", "sockets"], labels=["threads"])
def layout_images(t, layout, between, *more):
    """Ranks on nodes that share no memory die at any time, and go on from images."""
    n = ranks_of(layout)
    rounds = "40" if between == "messages" else "15"
    command, flags = ("layout", layout, rounds), ["--layout", layout, "--between-nodes", between]
    expected = t.undisturbed(n, *command, flags=flags)
    woken = 0
    for _ in t.runs(2, 40, lambda: woken):
        result = t.run(n, *command, flags=[*flags, *EVERY_10_MS, *more], interfere=at_random(t.rng))
        judge(result, expected, n)
        woken += from_images(result)
    require(woken > 0, "no rank went on from an image", result)


@scenario(between=["memory", "messages"], limit_s=300)
def layout_goes_on(t, between):
    """A job goes on from written images with the same layout; with another one a line refuses that."""
    command = ("layout", "2,1", "20")
    flags = ["--layout", "2,1", "--between-nodes", between]
    apart = between == "messages"
    expected = t.undisturbed(3, *command, flags=flags)
    with place(t) as where:
        where.killed(3, *command, flags=flags)
        others = [], ["--layout", "1,2"], [*flags[:3], "memory" if apart else "messages"]
        for other in others:
            result = where.run(3, *command, resume=True, flags=other)
            require(result.code != 0, "another layout is accepted", result)
            said = rf"^rejoin: .* was written by --layout 2,1 {'--between-nodes messages ' if apart else ''}layout, not by "
            require(re.search(said, result.err, re.MULTILINE), "it does not say why", result)
        where.out, where.err = where.out[:1], where.err[:1]
        result = where.resumes(3, *command, flags=flags)
        require_whole(where, result, expected, 3)
