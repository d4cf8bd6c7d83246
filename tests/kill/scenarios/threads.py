"""MPI_THREAD_MULTIPLE: a rank of which several threads have called MPI cannot be restarted."""

import tempfile

from harness import Kill, require, scenario
from processes import images
from scenarios.endings import messages


@scenario(n=[2, 3])
def threads(t, n):
    """Deaths before a second thread calls MPI are repaired; later ones end the job with one line."""
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


@scenario()
def threads_that_call_late(t):
    """Every rank waits in MPI for a thread of its own that sleeps, which is no deadlock."""
    t.undisturbed(2, "threads", "late")


@scenario()
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


@scenario()
def threads_and_written_images(t):
    """No set of images is written from which a job would replay calls of several threads."""
    with tempfile.TemporaryDirectory(prefix="kill-test-") as directory:
        # The next image after a call of the thread comes late.
        often = ["--snapshots", "2", "--checkpoint-every", "0.2"]
        flags = ["--checkpoint-dir", f"{directory}/sets", *often]
        result = t.run(2, "threads", "late", flags=flags)
        require(result.code == 0, f"exit code {result.code}", result)
        require("have called MPI since its snapshot" in result.err, "it does not say why", result)
