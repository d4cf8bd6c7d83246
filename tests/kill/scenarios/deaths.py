"""Deaths of one or more ranks at any time, and further deaths during recovery."""

import signal

from harness import MOMENTS, Kill, check_deaths, require, require_killed, scenario
from scenarios.snapshots import EVERY_10_MS, at_random, judge, require_same

RANDOM_OPERATIONS = 60
MAX_RESTARTS = 4  # ftrun's default for each rank


def random_program(seed):
    return ("random_collectives", seed, RANDOM_OPERATIONS, 4096)


def all_points(operations, rank, incarnation=0):
    """Returns every place at which --kill can end a rank that makes `operations` operations."""
    points = [*range(1, operations + 1), "init", "finalize"]
    return [Kill(rank, point, moment, incarnation) for point in points for moment in MOMENTS]


@scenario(n=[2, 3, 4, 5], sweeps=True)
def random_one_death(t, n):
    """In the random program one rank dies at a random place; in a long run each rank at every place."""
    for seed in range(1, 9 if t.long else 3):
        program = random_program(seed)
        last = t.undisturbed(n, *program)
        kills = [kill for r in range(n) for kill in all_points(last.operations(r), r)]
        for kill in kills if t.long else t.rng.sample(kills, 12):
            t.recovers(n, *program, kills=[kill])


@scenario(n=[2, 3, 4, 5], sweeps=True)
def random_many_deaths(t, n):
    """In the random program every rank dies in several of its incarnations."""
    for run in range(400 if t.long else 12):
        program = random_program(run % 8 + 1)
        last = t.undisturbed(n, *program)
        kills = []
        for rank in range(n):
            points = all_points(last.operations(rank), rank)
            for incarnation in range(t.rng.randint(0, MAX_RESTARTS)):
                kill = t.rng.choice(points)
                kills.append(Kill(rank, kill.point, kill.moment, incarnation))
        t.recovers(n, *program, kills=kills)


@scenario(n=[2, 3, 5], sweeps=True)
def random_large_messages(t, n):
    """Ranks die in the random program with large messages, which need other algorithms."""
    for run in range(100 if t.long else 4):
        program = ("random_collectives", run % 10 + 1, 30, 400_000)
        last = t.undisturbed(n, *program)
        kills = []
        for rank in range(n):
            kill = t.rng.choice(all_points(last.operations(rank), rank))
            kills += [kill] * t.rng.randint(0, 1)
        t.recovers(n, *program, kills=kills)


@scenario(n=[2, 3], option=["images", "polls", "blocks", "main", "blocks_main", "forbidden"], sweeps=True)
def messages_read_directly(t, n, option):
    """Receivers read the buffers of senders, which change them behind each call; both die in the middle."""
    command = ("relayed", "steps=300", f"polls={int(option == 'polls')}", f"blocks={int(option.startswith('blocks'))}")
    prefix = t.forbidding("process_vm_readv") if option == "forbidden" else ()
    expected = t.undisturbed(n, *command)
    for _ in range(40 if t.long else 4):
        if option.endswith("main"):
            kills = [Kill(rank, t.rng.randrange(20, 300)) for rank in range(n) if t.rng.random() < 0.7]
            result = t.run(n, *command, kills=kills, flags=["--snapshots", "off"])
            require(result.code == 0 and len(result.named("death")) == len(kills), "not as killed", result)
            require_same(result, expected, n)
        else:
            judge(t.run(n, *command, flags=EVERY_10_MS, prefix=prefix, interfere=at_random(t.rng)), expected, n)


@scenario(n=[2, 3, 4], sweeps=True)
def random_from_outside(t, n):
    """In the random program ranks are killed from outside, at any instruction."""
    for run in range(200 if t.long else 6):
        program = ("random_collectives", run % 10 + 1, *t.rng.choice([(2500, 4096), (250, 400_000)]))
        delays_s = [t.rng.uniform(0, 0.1) for _ in range(t.rng.randint(1, MAX_RESTARTS))]

        def interfere(job):
            job.until_event("init", rank=0)
            for delay_s in delays_s:
                job.run_for(delay_s)
                job.kill(*t.rng.sample(range(n), t.rng.randint(1, n)))

        t.recovers(n, *program, interfere=interfere)


@scenario(sweeps=True)
def all_ranks_at_the_same_operation(t):
    for n in (2, 4):
        program = random_program(n)
        undisturbed = t.undisturbed(n, *program)
        last = min(undisturbed.operations(rank) for rank in range(n))
        points = all_points(last, 0)
        for point in points if t.long else t.rng.sample(points, 10):
            kills = [Kill(rank, point.point, point.moment) for rank in range(n)]
            t.recovers(n, *program, kills=kills)


@scenario(sweeps=True)
def all_ranks_at_a_random_moment(t):
    for run in range(100 if t.long else 8):
        n = t.rng.choice([2, 3, 4])
        delay_s = t.rng.uniform(0, 0.06)

        def interfere(job):
            job.until_event("init", rank=run % n)
            job.run_for(delay_s)
            job.kill(*range(n))

        result = t.recovers(n, "steps", "count=160", "pause_us=500", interfere=interfere)
        require(result.killed, "no rank was killed", result)


def progress(job):
    return job.out().count("\n")


def until_all_wait(job):
    """Waits until no rank has printed a line for half a second."""
    standing = None
    while progress(job) != standing:
        standing = progress(job)
        job.run_for(0.5)


@scenario(kinds=["B", "S"], sweeps=True)
def senders_that_wait(t, kinds):
    """Rank 0 dies while it waits for a stopped receiver: alone, with the receiver, with all ranks."""
    n, waited = 3, 0
    program = ("steps", "count=60", f"kinds={kinds}", "bytes=1048576", "after_us=2000", "lines=1")
    for run in range(60 if t.long else 4):
        victims = [[0], [1], [0, 2], [0, 1, 2]][run % 4]
        step = t.rng.randrange(40)

        def interfere(job):
            job.until_output(f"rank 1, step {step}\\b")
            job.signal(1, signal.SIGSTOP)
            until_all_wait(job)
            job.kill(*victims)
            job.signal(1, signal.SIGCONT)

        result = t.recovers(n, *program, interfere=interfere, ordered=False)
        require_killed(result, victims)
        for death in result.named("death"):
            waited += death["rank"] == 0 and death["position"]["inside"]
    require(waited > 0, "rank 0 never died while it waited", result)


@scenario(sweeps=True)
def one_rank_at_random_moments(t):
    """The same rank is killed again and again, from outside: in its replay or between incarnations."""
    for _ in range(50 if t.long else 6):
        n = t.rng.choice([2, 3])
        rank = t.rng.randrange(n)
        delays_s = [t.rng.uniform(0, 0.04) for _ in range(MAX_RESTARTS)]

        def interfere(job):
            job.until_event("init", rank=rank)
            for delay_s in delays_s:
                job.run_for(delay_s)
                job.kill(rank)

        result = t.recovers(n, "steps", "count=160", "pause_us=500", interfere=interfere)
        require(result.killed, "no rank was killed", result)


@scenario()
def noticed_late(t):
    """ftrun sees several deaths late and at once; the other ranks run on as far as they can."""
    for _ in range(4):
        n = t.rng.choice([3, 4])
        ranks = t.rng.sample(range(n), t.rng.randint(1, n))

        def interfere(job):
            job.until_event("init", rank=n - 1)
            job.run_for(0.02)
            job.process.send_signal(signal.SIGSTOP)
            for rank in ranks:
                job.kill(rank)
                job.run_for(0.03)
            job.process.send_signal(signal.SIGCONT)

        result = t.recovers(n, "steps", "count=160", "pause_us=500", interfere=interfere)
        require(sorted(result.killed) == sorted(ranks), "not all were killed", result)


@scenario(number=["SIGTERM", "SIGSEGV", "SIGBUS", "SIGABRT"])
def other_signals(t, number):
    """The first death by another signal is repaired like any other."""
    number = signal.Signals[number]

    def interfere(job):
        job.until_event("init", rank=1)
        job.run_for(0.01)
        job.signal(1, number)
        job.killed.append(1)

    result = t.recovers(2, "steps", "count=200", "pause_us=1000", interfere=interfere)
    [death] = result.named("death")
    require(death["cause"].startswith(f"signal {int(number)} "), "another cause", result)


# ------------------------------------------------------------------------------- a second rank dies


@scenario(sweeps=True)
def second_death_in_the_rerun(t):
    """Rank 1 dies; rank 2 dies in the operation that waits for rank 1, or in the next one."""
    n = 3
    program = ("steps", "count=40")
    operations = t.undisturbed(n, *program).operations(0) - 1
    ordinals = range(1, operations) if t.long else t.rng.sample(range(1, operations), 3)
    for ordinal in ordinals:
        for first in MOMENTS:
            for second in MOMENTS:
                later = ordinal + t.rng.randint(0, 1)
                kills = [Kill(1, ordinal, first), Kill(2, later, second)]
                t.recovers(n, *program, kills=kills)


@scenario(event=["death", "respawn", "register", "init", "live"], sweeps=True)
def second_death_when(t, event):
    """Rank 1 dies; rank 2 is killed as soon as that event of rank 1 is seen."""
    program = ("steps", "count=160", "pause_us=500")
    for _ in range(60 if t.long else 4):
        ordinal = t.rng.randint(5, 80)

        def interfere(job):
            job.until_event(event, rank=1, incarnation=0 if event == "death" else 1)
            job.kill(2)

        result = t.recovers(
            3, *program, kills=[Kill(1, ordinal, t.rng.choice(MOMENTS))], interfere=interfere
        )
        require_killed(result, [2])


# ------------------------------------------------------------------------- the same rank dies again


@scenario()
def again_during_its_replay(t):
    """A rank dies in its replay: earlier each time, at the same place, or a little later each time."""
    program = ("steps", "count=60")
    for moment in MOMENTS:
        kills = [Kill(1, 50, moment, 0), Kill(1, 30, moment, 1), Kill(1, 10, moment, 2)]
        t.recovers(2, *program, kills=[*kills, Kill(1, "init", moment, 3)])
        kills = [Kill(1, 10, moment, i) for i in range(MAX_RESTARTS)]
        t.recovers(2, *program, kills=kills)
        kills = [Kill(1, 10 + i, moment, i) for i in range(MAX_RESTARTS)]
        t.recovers(2, *program, kills=kills)


@scenario()
def again_once_too_often(t):
    """The death after the last restart ends the job with a report and the signal's exit code."""
    for restarts in (0, 1, 4):
        kills = [Kill(1, 40 - i, "after", i) for i in range(restarts + 1)]
        flags = ["--max-restarts", restarts]
        result = t.run(2, "steps", "count=60", kills=kills, flags=flags)
        require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
        check_deaths(result, kills)
        require(len(result.named("respawn")) == restarts, "other than so many restarts", result)
        for word in ("rank 1 died", "#", "--max-restarts"):
            require(word in result.err, f"the report does not say '{word}'", result)
        require(not result.out, "it went on", result)


# --------------------------------------------------------------------------- beginnings and endings


def dies_around(t, point, who):
    """One rank or all die at MPI_Init or MPI_Finalize, once and in every incarnation."""
    for moment in MOMENTS:
        for n, incarnations in ((2, 1), (4, 1), (4, MAX_RESTARTS)):
            ranks = range(n) if who == "all" else [t.rng.randrange(n)]
            kills = [Kill(r, point, moment, i) for r in ranks for i in range(incarnations)]
            t.recovers(n, "steps", "count=12", kills=kills)


@scenario(who=["one", "all"])
def init(t, who):
    dies_around(t, "init", who)


@scenario(who=["one", "all"])
def finalize(t, who):
    dies_around(t, "finalize", who)


@scenario()
def world_of_one(t):
    """A single rank that dies runs again; it waits for no other rank."""
    program = ("steps", "count=20")
    for kill in t.rng.sample(all_points(22, 0), 12):
        t.recovers(1, *program, kills=[kill])


# ------------------------------------------------------------------------------------------ stopped


@scenario()
def stopped_then_killed(t):
    """While a rank is stopped the others wait; after it is killed the job continues."""
    program = ("steps", "count=30", "pause_us=2000", "kinds=axg", "lines=1")

    def interfere(job):
        job.until_output("rank 1, step 3")
        job.signal(1, signal.SIGSTOP)
        until_all_wait(job)
        standing = progress(job)
        job.run_for(0.5)
        require(progress(job) == standing, "a rank went on without the rank that is stopped", job)
        require(not [e for e in job.events if e["event"] == "death"], "taken for dead", job)
        job.kill(1)

    result = t.recovers(3, *program, interfere=interfere, ordered=False)
    require_killed(result, [1])


@scenario()
def stopped_all_but_one_killed(t):
    """All ranks are stopped, one of them dies meanwhile, the others are continued."""

    def interfere(job):
        job.until_event("init", rank=2)
        job.run_for(0.03)
        for rank in (0, 1, 2):
            job.signal(rank, signal.SIGSTOP)
        job.kill(2)
        job.until_event("init", rank=2, incarnation=1)
        job.run_for(0.05)
        for rank in (1, 0):
            job.signal(rank, signal.SIGCONT)

    result = t.recovers(3, "steps", "count=200", "pause_us=1000", interfere=interfere)
    require_killed(result, [2])


@scenario()
def stopped_and_continued(t):
    """A stopped rank is not dead, and the stop costs only time."""

    def interfere(job):
        for rank in (0, 2, 1):
            job.until_event("init", rank=rank)
            require(job.signal(rank, signal.SIGSTOP), f"rank {rank} had ended", job)
            job.run_for(0.1)
            job.signal(rank, signal.SIGCONT)

    t.recovers(3, "steps", "count=200", "pause_us=1000", interfere=interfere)
