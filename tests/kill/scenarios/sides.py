"""Two groups and an intercommunicator between them."""

from harness import scenario


@scenario(n=[2, 3, 5], sweeps=True)
def sides(t, n):
    """Deaths at every operation of one rank (making, using, merging it), then of several."""
    t.recovers_anywhere(n, "sides", 3, several=3, again=True)
