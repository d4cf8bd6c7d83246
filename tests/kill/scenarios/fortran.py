"""Fortran programs, with the modules mpi and mpi_f08."""

import re

from harness import MOMENTS, Kill, require, scenario


@scenario(n=[2, 3, 4], sweeps=True)
def fortran_ring(t, n):
    """One rank dies; then several ranks die, in several incarnations."""
    for program in (("fortran_ring", 6), ("fortran_ring_f08", 6)):
        last = t.undisturbed(n, *program)
        places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
        for rank, ordinal in places if t.long else t.rng.sample(places, 6):
            t.recovers(n, *program, kills=[Kill(rank, ordinal, t.rng.choice(MOMENTS))])
        for _ in range(100 if t.long else 3):
            kills = [Kill(*t.rng.choice(places), t.rng.choice(MOMENTS)) for _ in range(3)]
            kills = list({kill.rank: kill for kill in kills}.values())
            again = t.rng.randint(1, max(1, kills[0].point - 1))
            kills.append(Kill(kills[0].rank, again, t.rng.choice(MOMENTS), 1))
            t.recovers(n, *program, kills=kills)


@scenario(n=[1, 3])
def fortran_collectives(t, n):
    """Ranks die while nonblocking and persistent collectives and messages are outstanding."""
    program = ("fortran_collectives",)
    last = t.undisturbed(n, *program)
    places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
    for _ in range(100 if t.long else 5):
        t.recovers(n, *program, kills=[Kill(*t.rng.choice(places), t.rng.choice(MOMENTS))])
        kills = {r: Kill(r, k, t.rng.choice(MOMENTS)) for r, k in t.rng.sample(places, 2)}
        t.recovers(n, *program, kills=list(kills.values()))


@scenario(program=["fortran_ring", "fortran_ring_f08"])
def fortran_unsupported(t, program):
    """A function that is not supported ends the job with the same line as in C."""
    result = t.run(2, program, -1)
    require(re.search(r"MPI_Win_create at \S*fortran_ring\.F90:\d+::\w+: this function is not supported", result.err),
            "no such line", result)
    require(result.code == 52, f"exit code {result.code}, not MPI_ERR_UNSUPPORTED_OPERATION", result)
