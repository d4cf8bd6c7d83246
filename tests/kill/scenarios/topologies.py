"""Communicators with topologies, and messages between neighbours on a grid of ranks."""

import re

from harness import Kill, require, scenario


@scenario(n=[2, 4, 6], sweeps=True)
def halo(t, n):
    """Deaths at every operation of one rank, then of several ranks and incarnations."""
    t.recovers_anywhere(n, "halo", 8, several=3, again=True)


@scenario(n=[2, 3])
def topology_errors(t, n):
    """Wrong arguments that Open MPI accepts are errors, the same ones in a second incarnation."""
    program = ("topology_errors",)
    last = t.undisturbed(n, *program).operations(n - 1)
    for ordinal in range(1, last + 1):
        t.recovers(n, *program, kills=[Kill(n - 1, ordinal)])


@scenario()
def lopsided(t):
    """A graph whose edges differ at both ends is accepted, and one line reports it."""
    for kills in ([], [Kill(1, 2, "after")], [Kill(0, 1)]):
        result = t.run(3, "lopsided", kills=kills)
        require(result.code == 0, f"exit code {result.code}", result)
        pattern = (r"rejoin: MPI_Dist_graph_create_adjacent at \S*lopsided\.c:\d+::main: rank 0 lists "
                   r"rank 1 1 times as a destination, but rank 1 lists rank 0 0 times as a source")
        found = re.findall(pattern, result.err)
        require(len(found) == 1, f"{len(found)} lines", result)
