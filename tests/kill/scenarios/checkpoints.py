"""Checkpoints: a rank that dies in a job of versions goes on at the newest one.

In a job of images a checkpoint is not a recovery point. The output is the same in both.
"""

import os
import shutil
import subprocess
import tempfile

from harness import MOMENTS, POINTS, Kill, Skip, require, require_killed, scenario

from .deaths import all_points

# The numbers of operations in the parts of checkpoints.c.
PROLOGUE, BOOTSTRAP, STEP = 1, 3, 6


def checkpoint_at(version):
    """Returns the ordinal of the checkpoint of that version in a first incarnation."""
    return PROLOGUE + BOOTSTRAP + version * (STEP + 1)


def sweep_of(points, t, share):
    return points if t.long or len(points) <= share else t.rng.sample(points, share)


class LaterKill(Kill):
    """A kill in a later incarnation, whose bootstrap replay has no position: any one is accepted."""

    def is_death(self, death):
        return (death["rank"], death["incarnation"]) == (self.rank, self.incarnation)


def check_resumes(result, lazy=False):
    """Requires that ranks replayed only the prologue, the bootstrap phase and what followed.

    That is what followed their newest checkpoint. A lazy checkpoint may be only a number, but the
    first one never is.
    """
    done = {}  # by rank: the newest version that it is known to have had
    for death in result.named("death"):
        rank, incarnation = death["rank"], death["incarnation"]
        ordinal = death["position"]["ordinal"]
        if incarnation == 0:
            done[rank] = (ordinal - checkpoint_at(0) - 1) // (STEP + 1)
        if done.get(rank, 0) < 1:
            continue
        if incarnation > 0:  # its ordinals differ from those of the first incarnation
            behind = checkpoint_at(60) if lazy else STEP + 2
        else:
            behind = ordinal - checkpoint_at(1 if lazy else done[rank])
        for live in result.named("live", rank):
            if live["incarnation"] != incarnation + 1:
                continue
            most = PROLOGUE + BOOTSTRAP + behind
            replayed = live["replayed_ops"]
            text = f"after its death in incarnation {incarnation} rank {rank} replayed {replayed}"
            require(replayed <= most, f"{text} operations, more than {most}", result)


def survives(t, n, program, points, **named):
    """Runs t.recovers, and requires that ranks went on at their checkpoints, or at none."""
    flags = POINTS[points]
    if points == "images" and "model=2000000" in program:  # it would mostly copy pages
        flags = ["--snapshots", "auto"]
    result = t.recovers(n, *program, ordered=False, flags=flags, **named)
    if points == "versions":
        check_resumes(result, lazy="lazy=1" in program)
    require(points == "versions" or not t.returns["version"], "from a version", result)
    return result


def random_killer(t, n):
    """Kills some of n ranks from outside, up to four times at any moments."""
    delays_s = [t.rng.uniform(0, 0.03) for _ in range(t.rng.randint(1, 4))]

    def interfere(job):
        job.until_event("init", rank=0)
        for delay_s in delays_s:
            job.run_for(delay_s)
            job.kill(*t.rng.sample(range(n), t.rng.randint(1, n)))

    return interfere


WAYS = {
    "n1": (1, []),
    "n2": (2, []),
    "n3": (3, []),
    "dup": (3, ["made=dup", "steps=1"]),
    "lazy": (3, ["lazy=1"]),
    "large": (3, ["bytes=150000", "model=2000000"]),
    "large_lazy": (2, ["lazy=1", "bytes=150000", "model=2000000"]),
}


def program_of(way, versions):
    n, arguments = WAYS[way]
    return n, ("checkpoints", f"versions={versions}", *arguments)


@scenario(way=list(WAYS), points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_one_death(t, way, points):
    """One rank dies at a random place. In a long run each rank dies at every place."""
    n, program = program_of(way, 3)
    last = t.undisturbed(n, *program)
    require(last.out.count("version 3:") == n, "not three versions of each rank", last)
    kills = [kill for r in range(n) for kill in all_points(last.operations(r), r)]
    for kill in sweep_of(kills, t, 40 if points == "versions" else 12):
        survives(t, n, program, points, kills=[kill])


@scenario(way=["n2", "n3", "lazy", "large"], points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_all_die(t, way, points):
    """All ranks die at the same place: at each checkpoint, and just after it."""
    n, program = program_of(way, 3)
    places = [
        (checkpoint_at(version) + after, moment)
        for version in (1, 2, 3)
        for after in (-1, 0, 1)
        for moment in MOMENTS
    ]
    for point, moment in sweep_of(places, t, 14 if points == "versions" else 8):
        survives(t, n, program, points, kills=[Kill(rank, point, moment) for rank in range(n)])


@scenario(way=["n3", "lazy"], points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_two_die(t, way, points):
    """Two ranks die, each near a checkpoint."""
    n, program = program_of(way, 3)
    for _ in range(300 if t.long else 20 if points == "versions" else 10):
        kills = []
        for rank in t.rng.sample(range(n), 2):
            point = checkpoint_at(t.rng.randint(1, 3)) + t.rng.randint(-1, 1)
            kills.append(Kill(rank, point, t.rng.choice(MOMENTS)))
        survives(t, n, program, points, kills=kills)


@scenario(points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_again(t, points):
    """A restarted rank dies again: in its prologue, in its bootstrap replay, and later."""
    program = ("checkpoints", "versions=3")
    first = Kill(1, checkpoint_at(2) + 2)
    last = t.undisturbed(3, *program).operations(1)
    places = [1, *range(checkpoint_at(2) + 1, last + 1), "finalize"]
    if points == "versions":  # the clone of an image does not begin at main
        places += [*range(last + 1, last + BOOTSTRAP + 1), "init"]
    places = [(point, moment) for point in places for moment in MOMENTS]
    for point, moment in sweep_of(places, t, 20 if points == "versions" else 10):
        survives(t, 3, program, points, kills=[first, LaterKill(1, point, moment, 1)])


@scenario(moment=MOMENTS, points=list(POINTS))
def checkpoint_again_in_bootstrap(t, moment, points):
    """A rank dies at the same operation of its bootstrap phase in all its later incarnations."""
    program = ("checkpoints", "versions=3")
    for point in range(checkpoint_at(2) + 1, checkpoint_at(2) + 2 + BOOTSTRAP):
        kills = [LaterKill(1, point, moment, incarnation) for incarnation in (1, 2, 3)]
        survives(t, 3, program, points, kills=[Kill(1, checkpoint_at(2) + 2), *kills])


@scenario(points=list(POINTS), sweeps=True)
def checkpoint_others_die_meanwhile(t, points):
    """Rank 1 dies after a checkpoint; others die where they wait for it, or soon after."""
    program = ("checkpoints", "versions=4")
    for _ in range(200 if t.long else 20 if points == "versions" else 10):
        point = checkpoint_at(2) + t.rng.randint(0, 3)
        kills = [Kill(1, point, t.rng.choice(MOMENTS))]
        for rank in t.rng.sample([0, 2], t.rng.randint(1, 2)):
            kills.append(Kill(rank, point + t.rng.randint(0, 8), t.rng.choice(MOMENTS)))
        survives(t, 3, program, points, kills=kills)


@scenario(way=["n2", "n3", "lazy", "large"], points=list(POINTS), sweeps=True, limit_s=240)
def checkpoint_from_outside(t, way, points):
    """Ranks are killed at any instruction, and so are their next incarnations."""
    n, program = program_of(way, 60)
    program = (*program, "pause_us=300")
    for _ in range(100 if t.long else 8):
        survives(t, n, program, points, interfere=random_killer(t, n))


@scenario(points=list(POINTS), sweeps=True, limit_s=240)
def checkpoint_replacement_from_outside(t, points):
    """The next incarnation is killed as soon as it is seen: at its load or in its bootstrap phase."""
    program = ("checkpoints", "versions=300", "pause_us=300")
    for _ in range(100 if t.long else 8):
        delays_s = [t.rng.uniform(0, 0.0015) for _ in range(3)]
        rank = t.rng.randrange(3)

        def interfere(job):
            for incarnation, delay_s in enumerate(delays_s):
                job.until_event("register" if incarnation > 0 else "init", rank, incarnation)
                job.run_for(delay_s if incarnation > 0 else 0.02)
                job.kill(rank)

        result = survives(t, 3, program, points, interfere=interfere)
        require_killed(result, [rank] * 3)


# ------------------------------------------------------------------------------------ MPI_Pcontrol


def sorted_lines(text):
    return sorted(text.split("\n"))


def under_open_mpi(n, *command):
    """Returns the standard output of a program under Open MPI's mpirun."""
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None:
        raise Skip("mpirun.openmpi is missing")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [mpirun, "--oversubscribe", "-n", str(n), *command],
        env={**os.environ, **allowed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@scenario(keeps=["model", "files"], points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_by_pcontrol(t, keeps, points):
    """A program uses only MPI_Pcontrol. Its state is in its own files, or is passed to MPI_Pcontrol."""
    with tempfile.TemporaryDirectory(prefix="kill-test-") as directory:
        program = ("pcontrol", "model" if keeps == "model" else directory)
        expected = t.undisturbed(3, *program)
        mine = under_open_mpi(3, t.program("pcontrol"), program[1])
        require(sorted_lines(mine) == sorted_lines(expected.out), f"Open MPI has\n{mine}", expected)
        kills = [kill for r in range(3) for kill in all_points(expected.operations(r), r)]
        for kill in sweep_of(kills, t, 30 if points == "versions" else 10):
            result = t.recovers(3, *program, kills=[kill], ordered=False, flags=POINTS[points])
            # There are five versions of three operations. At most two versions and the bootstrap phase
            # are replayed.
            for live in result.named("live") if points == "versions" else ():
                require(live["replayed_ops"] <= 7, "it went back to the beginning", result)


@scenario(keeps=["model", "files"], points=list(POINTS), sweeps=True, limit_s=180)
def checkpoint_by_pcontrol_from_outside(t, keeps, points):
    with tempfile.TemporaryDirectory(prefix="kill-test-") as directory:
        where = "model" if keeps == "model" else directory
        program = ("pcontrol", where, "versions=80", "pause_us=400")
        for _ in range(60 if t.long else 6):
            interfere = random_killer(t, 3)
            t.recovers(3, *program, interfere=interfere, ordered=False, flags=POINTS[points])
