"""Two groups and an intercommunicator between them."""

from harness import MOMENTS, Kill, scenario


@scenario(n=[2, 3, 5], sweeps=True)
def sides(t, n):
    """Deaths at every operation of one rank (making, using, merging it), then of several."""
    program = ("sides", 3)
    last = t.undisturbed(n, *program)
    places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
    one = t.rng.randrange(n)
    for rank, ordinal in places if t.long else [p for p in places if p[0] == one]:
        for moment in MOMENTS if t.long else [t.rng.choice(MOMENTS)]:
            t.recovers(n, *program, kills=[Kill(rank, ordinal, moment)])
    for _ in range(300 if t.long else 15):
        kills = [Kill(*t.rng.choice(places), t.rng.choice(MOMENTS)) for _ in range(3)]
        kills = list({kill.rank: kill for kill in kills}.values())
        first = kills[0]
        again = t.rng.randint(1, max(1, first.point - 1))
        kills.append(Kill(first.rank, again, t.rng.choice(MOMENTS), 1))
        t.recovers(n, *program, kills=kills)
