"""Communicators: members that have freed them, cycles, many members, many communicators."""

from harness import MOMENTS, Kill, require, scenario

LEFT_TAIL = 2  # the operations of left.c after the last one on the pair, one of them MPI_Finalize
REPLICATED = ["allreduce", "barrier", "allgather", "bcast"]
CHANNELS = ["gather", "scatter", "reduce", "alltoall"]


@scenario(kind=REPLICATED + CHANNELS)
def left_freed(t, kind):
    """Rank 0 has freed the communicator when rank 1 replays the last operation on it."""
    program = ("left", kind)
    last = t.undisturbed(3, *program).operations(1) - LEFT_TAIL
    for moment in MOMENTS:
        # The second incarnation sleeps before the operation, so that rank 0 is far ahead.
        late = (*program, "pause_ms=20")
        kills = [Kill(1, last, "inside"), Kill(1, last, moment, 1)]
        expected = t.undisturbed(3, *program)
        result = t.recovers(3, *late, kills=kills)
        require(result.out == expected.out, "the sleep changed the output", result)
        t.recovers(3, *program, kills=[Kill(1, last, moment)])
        t.recovers(3, *program, kills=[Kill(1, last, moment), Kill(0, last, "after")])


def died_after(result, rank, incarnation, other):
    """Returns whether that incarnation of the rank died after the other rank's process had ended."""
    names = [(e["event"], e.get("rank"), e.get("incarnation")) for e in result.events]
    return names.index(("death", rank, incarnation)) > names.index(("exit", other, 0))


@scenario()
def left_exited(t):
    """The other ranks have exited when rank 1 needs the result of MPI_Finalize, three times."""
    program = ("left", "allreduce", "pause_ms=60")
    last = t.undisturbed(3, *program).operations(1)
    for moment in MOMENTS:
        kills = [Kill(1, last, "inside", 0), Kill(1, last, moment, 1), Kill(1, last, "before", 2)]
        result = t.recovers(3, *program, kills=kills)
        for other in (0, 2):
            require(died_after(result, 1, 1, other), f"rank {other} had not exited yet", result)


@scenario()
def left_finalized(t):
    """The other ranks have called MPI_Finalize and run on when rank 1 needs its result."""
    program = ("left", "bcast", "pause_ms=20", "linger_ms=400")
    last = t.undisturbed(3, *program).operations(1)
    for moment in MOMENTS:
        kills = [Kill(1, last, "inside", 0), Kill(1, last, moment, 1)]
        result = t.recovers(3, *program, kills=kills)
        names = [(e["event"], e.get("rank"), e.get("incarnation")) for e in result.events]
        second = names.index(("death", 1, 1))
        require(names.index(("finalize", 0, 0)) < second, "rank 0 had not finalized", result)
        require(names.index(("exit", 0, 0)) > second, "rank 0 had exited", result)


@scenario()
def left_dies_too(t):
    """A rank that has finalized dies: it is restarted, although no rank calls operations any more."""
    program = ("left", "allreduce", "linger_ms=500")
    t.undisturbed(3, *program)

    def interfere(job):
        job.until_event("exit", rank=1)
        job.kill(0, 2)

    result = t.recovers(3, *program, interfere=interfere)
    require(sorted(result.killed) == [0, 2], "they had exited", result)


@scenario(sweeps=True)
def cycle(t):
    """Ranks wait for each other along a cycle of three communicators, and die at every operation."""
    for rounds in (6, 12) if t.long else (6,):
        program = ("cycle", rounds)
        last = t.undisturbed(3, *program)
        places = [(r, k) for r in range(3) for k in range(1, last.operations(r) + 1)]
        for rank, ordinal in places:
            for moment in MOMENTS if t.long else [t.rng.choice(MOMENTS)]:
                t.recovers(3, *program, kills=[Kill(rank, ordinal, moment)])
        for _ in range(1000 if t.long else 20):
            kills = [Kill(*t.rng.choice(places), t.rng.choice(MOMENTS)) for _ in range(3)]
            kills = list({kill.rank: kill for kill in kills}.values())
            t.recovers(3, *program, kills=kills)


@scenario(n=[8, 16], sweeps=True)
def crowd(t, n):
    """There are many more ranks than processors, and some ranks die."""
    program = ("random_collectives", 5, 40, 4096)
    last = t.undisturbed(n, *program).operations(0)
    for _ in range(200 if t.long else 6):
        kills = []
        for rank in t.rng.sample(range(n), t.rng.randint(1, n // 2)):
            for incarnation in range(t.rng.randint(1, 3)):
                point, moment = t.rng.randint(1, last // 2), t.rng.choice(MOMENTS)
                kills.append(Kill(rank, point, moment, incarnation))
        t.recovers(n, *program, kills=kills)


@scenario(n=[2, 4, 5], sweeps=True)
def churn(t, n):
    """Communicators are made and freed all the time, and user-defined operations run on them."""
    program = ("churn", 4)
    last = t.undisturbed(n, *program)
    places = [(r, k) for r in range(n) for k in range(1, last.operations(r) + 1)]
    for _ in range(500 if t.long else 15):
        kills = [Kill(*t.rng.choice(places), t.rng.choice(MOMENTS)) for _ in range(2)]
        kills = list({kill.rank: kill for kill in kills}.values())
        t.recovers(n, *program, kills=kills)
