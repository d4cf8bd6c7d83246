"""A field on a grid of ranks: messages between neighbours, and the communicators of topologies."""

from harness import Kill, scenario


@scenario(n=[2, 4, 6], sweeps=True)
def halo(t, n):
    """Deaths at every operation of one rank, then of several ranks and incarnations."""
    t.recovers_anywhere(n, "halo", 8, several=3, again=True)


@scenario(n=[2, 3])
def topology_errors(t, n):
    """Wrong arguments that Open MPI takes; and the same answers in a second incarnation."""
    program = ("topology_errors",)
    last = t.undisturbed(n, *program).operations(n - 1)
    for ordinal in range(1, last + 1):
        t.recovers(n, *program, kills=[Kill(n - 1, ordinal)])
