"""Two groups and an intercommunicator between them."""

from harness import scenario


@scenario(n=[2, 3, 5], sweeps=True)
def sides(t, n):
    """One rank dies at every operation of the intercommunicator, then several ranks die."""
    t.recovers_anywhere(n, "sides", 3, several=3, again=True)
