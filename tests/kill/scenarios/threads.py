"""MPI_THREAD_MULTIPLE: if a rank dies of which several threads have called MPI, all ranks go back."""

from harness import Kill, require, scenario
from processes import images
from scenarios.endings import messages
from scenarios.hybrid import EVERY_20_MS, at_random_with_images, goes_on
from scenarios.layouts import ranks_of
from scenarios.snapshots import require_same
from scenarios.snapshots_wrappers import at_random_behind, wrapped
from scenarios.written_images import place


@scenario(n=[2, 3], labels=["threads"])
def threads(t, n):
    """Deaths before a second thread calls MPI are repaired; later ones end the job with one line if
    there is no set of images."""
    alone = t.undisturbed(n, "threads", "alone")
    for ordinal in range(1, alone.operations(n - 1) + 1):
        t.recovers(n, "threads", "alone", kills=[Kill(n - 1, ordinal)])
    last = t.undisturbed(n, "threads")
    for ordinal in range(1, 5):
        t.recovers(n, "threads", kills=[Kill(n - 1, ordinal)])
    # At the barrier after both threads, both have called MPI.
    kill = Kill(n - 1, last.operations(n - 1) - 2)
    result = t.run(n, "threads", kills=[kill])
    require(result.code != 0, "the job went on", result)
    lines = messages(result)
    require(len(lines) == 1, f"{len(lines)} lines", result)
    require(lines[0].startswith(f"rejoin: rank {n - 1} died (signal 9, Killed) "), "another rank died", result)
    require("; several of its threads had called MPI" in lines[0], "it does not say why", result)


@scenario(labels=["threads"])
def threads_that_call_late(t):
    """Every rank waits in MPI for a thread of its own that sleeps, which is no deadlock."""
    t.undisturbed(2, "threads", "late")


@scenario(layout=["2", "3", "1,1", "2,1"], where=["thread", "main"], between=["sockets", "messages"], limit_s=60, labels=["threads"])
def threads_behind_a_full_journal(t, layout, where, between):
    """Results that one thread has still to read stay, though all ranks have gone on in others."""
    n = ranks_of(layout)
    flags = ["--layout", layout, "--between-nodes", between] if "," in layout else []
    expected = t.undisturbed(n, "behind", where)
    result = t.run(n, "behind", where, flags=["--journal-limit", "4M", *flags])
    require((result.code, result.out) == (0, expected.out), "not as without a limit", result)
    require("the journal is full" in result.err, "it was never full", result)


@scenario(labels=["threads"])
def threads_that_come_behind_a_full_journal(t):
    """What a thread has to read that was not known of may be gone: one line ends the job."""
    result = t.run(2, "behind", "late", flags=["--journal-limit", "4M"])
    require(result.code != 0, "it went on", result)
    said = [line for line in messages(result) if "a second thread calls MPI for the first time" in line]
    require(len(said) == 1 and "wrong" not in result.err, "not one line", result)


@scenario(labels=["threads"])
def threads_that_have_ended(t):
    """A rank whose other threads are gone returns to an image that was made since; without one its
    death ends the job."""
    n, command = 2, ("threads", "once")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_output("rank 1 is one thread again")
        seen = set(images(job, 1))
        for _ in range(2):
            for _ in range(2):  # the first one may have been requested before
                seen |= job.until(lambda: set(images(job, 1)) - seen, "it had an image since")
            job.kill(1)
            job.until_event("live", 1, len(job.killed))

    result = t.run(n, *command, flags=["--snapshots", "0.05"], interfere=interfere)
    same = sorted(result.out.splitlines()) == sorted(expected.out.splitlines())
    require(result.code == 0 and same, "not as undisturbed", result)
    require(t.returns["image"] == 2, f"it returned to {dict(t.returns)}", result)
    last = t.undisturbed(n, *command, flags=["--snapshots", "off"])
    kill = Kill(1, last.operations(1) - 100)
    result = t.run(n, *command, flags=["--snapshots", "off"], kills=[kill])
    require(result.code == 137, f"exit code {result.code}", result)
    require("several of its threads had called MPI" in result.err, "it does not say why", result)


def require_right(result, expected, ranks):
    require(result.code == 0, f"exit code {result.code}", result)
    if result.named("begin_again"):
        # What had been printed before is printed again, and a script whose program was killed says so.
        result.out = "".join(result.out.splitlines(keepends=True)[-len(expected.out.splitlines()) :])
    require_same(result, expected, ranks)


def all_go_back(t, ranks, *command, few=2, many=100, interfere=at_random_with_images):
    """Runs a program with random deaths; the output is that of a run without deaths. On a machine
    with much to do a thread may stop too late for a set of images, so the job may begin again."""
    expected = t.undisturbed(ranks, *command)
    rollbacks = 0
    for _ in t.runs(few, many, lambda: rollbacks):
        flags = [*EVERY_20_MS, "--begin-again"]
        result = t.run(ranks, *command, flags=flags, interfere=interfere(t.rng, ranks))
        require_right(result, expected, ranks)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)


@scenario(n=[2, 3], others=[1, 3, 8], sweeps=True, limit_s=240, labels=["threads"])
def threads_at_once(t, n, others):
    """Several threads of each rank are in MPI while ranks die at random, and their images with them."""
    all_go_back(t, n, "thread_ring", str(60000 // (others + 1)), str(others))


@scenario(sweeps=True, limit_s=240, labels=["threads"])
def threads_without_the_main_one(t):
    """The main thread does not call MPI, but several others do."""
    all_go_back(t, 2, "thread_ring", "30000", "2", "elsewhere", many=50)


@scenario(sweeps=True, limit_s=240, labels=["threads"])
def threads_only_another_one(t):
    """Only one thread calls MPI, and it is not the main one: its rank goes back alone."""
    goes_on(t, 2, "thread_ring", "60000", "0", "elsewhere", few=2, many=50)


@scenario(sweeps=True, limit_s=240, labels=["threads"])
def threads_behind_a_script(t):
    """The rank of a script moves into a clone when its main thread calls MPI."""
    command = wrapped(t, "sh", "thread_ring", "30000", "2")
    all_go_back(t, 2, *command, interfere=at_random_behind, many=50)


@scenario(sweeps=True, limit_s=240, labels=["threads"])
def threads_and_written_sets(t):
    """Several threads of each rank are in MPI when sets are written, and when ftrun is killed."""
    command = ("thread_ring", "250000", "2")
    expected = t.undisturbed(2, *command)
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            where.killed(2, *command, after=0.2)
            where.killed(2, *command, count=1, after=0.2, resume=True)
            require_right(where.resumes(2, *command), expected, 2)


@scenario(how=["stop", "rollback"], labels=["threads"])
def threads_and_one_death(t, how):
    """All go back, which is said in one line; with --on-divergence stop the job ends with one line."""
    command = ("thread_ring", "40000", "1")
    expected = t.undisturbed(2, *command)

    def interfere(job):
        job.until(lambda: images(job, 0) and images(job, 1), "there are images")
        job.until_event("snapshot")
        job.kill(1)

    flags = ["--snapshots", "0.05", "--on-divergence", how]
    result = t.run(2, *command, flags=flags, interfere=interfere)
    said = [line for line in messages(result) if "several of its threads had called MPI" in line]
    require(len(said) == 1, f"said {len(said)} times", result)
    if how == "stop":
        require(result.code == 137, f"exit code {result.code}", result)
        require("so the job ends" in said[0] and len(messages(result)) == 1, "other lines", result)
        return
    require_right(result, expected, 2)
    require("; all 2 ranks go back " in said[0], "it does not say what follows", result)
    require(len(result.named("rollback")) == 1, "the ranks went back another number of times", result)
