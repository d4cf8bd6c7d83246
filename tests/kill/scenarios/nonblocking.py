"""Nonblocking collectives that are outstanding while ranks die."""

from harness import MOMENTS, Kill, scenario


@scenario(n=[2, 4], sweeps=True)
def outstanding(t, n):
    """Deaths at every operation of one rank, then of several ranks and incarnations."""
    t.recovers_anywhere(n, "outstanding", 6, several=2, again=False)


@scenario(n=[3])
def crowded(t, n):
    """Two hundred large reductions are outstanding at once."""
    last = t.undisturbed(n, "crowded").operations(1)
    for ordinal in (150, 250, last - 150):
        t.recovers(n, "crowded", kills=[Kill(1, ordinal, t.rng.choice(MOMENTS))])


@scenario(n=[2, 3], sweeps=True)
def updates(t, n):
    """MPI_Waitany gives the receive that was matched first, and the same one when it is repeated."""
    t.recovers_anywhere(n, "updates", several=2, again=False)
