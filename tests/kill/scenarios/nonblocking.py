"""Nonblocking collectives, outstanding while ranks die."""

from harness import MOMENTS, Kill, scenario


@scenario(n=[2, 4], sweeps=True)
def outstanding(t, n):
    """Deaths at every operation of one rank, then of several ranks and incarnations."""
    program = ("outstanding", 6)
    last = t.undisturbed(n, *program)
    places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
    one = t.rng.randrange(n)
    for rank, ordinal in places if t.long else [p for p in places if p[0] == one]:
        for moment in MOMENTS if t.long else [t.rng.choice(MOMENTS)]:
            t.recovers(n, *program, kills=[Kill(rank, ordinal, moment)])
    for _ in range(300 if t.long else 10):
        kills = [Kill(*t.rng.choice(places), t.rng.choice(MOMENTS)) for _ in range(2)]
        kills = list({kill.rank: kill for kill in kills}.values())
        t.recovers(n, *program, kills=kills)


@scenario(n=[3])
def crowded(t, n):
    """Two hundred large reductions outstanding at once."""
    last = t.undisturbed(n, "crowded").operations(1)
    for ordinal in (150, 250, last - 150):
        t.recovers(n, "crowded", kills=[Kill(1, ordinal, t.rng.choice(MOMENTS))])
