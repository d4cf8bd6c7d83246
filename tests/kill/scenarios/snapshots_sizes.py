"""Images of large processes, and of processes for which the kernel refuses clones."""

import os
import re
from contextlib import contextmanager
from pathlib import Path

from harness import Skip, require, scenario
from scenarios.endings import messages
from scenarios.snapshots import EVERY_10_MS, LOST, from_images, images, judge, lines_of

LIMIT_S = 150


@scenario(limit_s=400, labels=["alone"], sweeps=True)
def snapshots_large_process(t):
    """A rank of 256 MB goes on from an image of it, twice from one and once from another; of 1 GB in
    the long mode."""
    resident_mb = 1024 if t.long else 256
    n, command = 2, ("frozen", "messages", "steps=600", f"resident={resident_mb}")
    expected = t.run(n, *command, limit_s=LIMIT_S)
    require(expected.code == 0, "undisturbed", expected)

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        for ranks in ([1], [1], [0, 1]):
            job.kill(*ranks)
            for rank in ranks:
                job.until_event("init", rank, job.killed.count(rank))

    flags = ["--snapshots", "0.3"]
    result = t.run(n, *command, flags=flags, interfere=interfere, limit_s=LIMIT_S)
    judge(result, expected, n)
    require(len(result.named("death")) == 4, "deaths", result)
    # The rank may die so early that it has hardly a past.
    woken = [e for e in result.events if e.get("from", "").startswith("the snapshot ")]
    require(woken, "no rank went on from an image", result)


@scenario(limit_s=300, how=["clone", "image"])
def snapshots_no_clone(t, how):
    """If the kernel refuses a process for an image, the rank goes on without it, and reports it once."""
    n, command = 2, ("frozen", how, "steps=200")
    expected = t.run(n, *command, limit_s=LIMIT_S)
    require(expected.code == 0, "undisturbed", expected)

    def interfere(job):
        job.until_output("rank 0, step 100")
        require(not images(job), "there is an image", job)
        job.kill(1)
        job.until_event("live", 1, 1)
        job.kill(0)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere, limit_s=LIMIT_S)
    judge(result, expected, n)
    require(len(result.named("death")) == 2, "deaths", result)
    require(from_images(result) == 0, "a rank did not go back to its start", result)
    said = (
        "no snapshot can be made of it now, because it cannot be cloned (Resource temporarily "
        "unavailable) (other ranks with this reason are not named); until one is, it goes back to the "
        "start of the program if it dies"
    )
    require(result.err.count(said) == 1, f"not said once: {said}", result)


@scenario()
def snapshots_no_clone_of_an_image(t):
    """If the kernel refuses the clone of an image, the job ends with one line."""
    n, command = 2, ("frozen", "woken", "steps=2000")

    def interfere(job):
        job.until_output("rank 1, step 100")
        job.until(lambda: len(images(job)) >= n, "there is an image of each rank")
        job.kill(1)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    said = "rank 1 cannot be started again: its snapshot could not be cloned, and the journal"
    require(said in messages(result)[-1], f"not the line: {said}", result)


@scenario(limit_s=400, labels=["alone"], sweeps=True)
def snapshots_many_ranks(t):
    """64 ranks die in groups, each at least once, and go on from their images."""
    n, command = 64, ("frozen", "messages", "steps=200")
    expected = t.run(n, *command, limit_s=LIMIT_S)
    require(expected.code == 0, "undisturbed", expected)

    def interfere(job):
        ranks = list(range(n))
        t.rng.shuffle(ranks)
        while ranks and job.poll():
            group = [ranks.pop() for _ in range(min(len(ranks), t.rng.choice([1, 2, 8, 32])))]
            job.run_for(t.rng.uniform(0.1, 0.4))
            job.kill(*group)

    flags = ["--snapshots", "0.1", "--max-restarts", "100000"]
    result = t.run(n, *command, flags=flags, interfere=interfere, limit_s=LIMIT_S)
    judge(result, expected, n)
    require(from_images(result) > 0, "no rank went on from an image", result)


# ------------------------------------------------------------------------------ a group's memory


@contextmanager
def memory_group(name, mebibytes):
    """Returns the directory of a control group with a memory limit of `mebibytes` MiB."""
    try:
        old = Path("/sys/fs/cgroup/memory")
        parent, limit = (old, "limit_in_bytes") if old.is_dir() else (old.parent, "max")
        group = parent / f"{name}-{os.getpid()}"
        group.mkdir()
    except OSError as e:
        raise Skip(f"may not make a control group: {e}") from e
    try:
        try:
            (group / f"memory.{limit}").write_text(f"{mebibytes}M")
        except OSError as e:
            raise Skip(f"may not limit a group's memory: {e}") from e
        yield group
    finally:
        group.rmdir()


def killed_in(group):
    """Returns the number of processes that the group's OOM killer has killed."""
    files = [group / "memory.oom_control", group / "memory.events"]
    [text] = [file.read_text() for file in files if file.exists()]
    return int(re.search(r"^oom_kill (\d+)", text, re.M)[1])


@scenario(limit_s=300, labels=["alone"])
def snapshots_memory_group(t):
    """Where memory is short the kernel takes images and leaves ranks; one that dies before it has
    another image ends the job with one line."""
    n, command = 2, ("frozen", "messages", "steps=300", "resident=200", "dirty=6000")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until(lambda: killed_in(group) > 0, "the kernel has killed an image")
        while job.poll() and len(job.killed) < 3:
            job.run_for(t.rng.uniform(0.2, 0.5))
            job.kill(1)

    with memory_group("rejoin-test", 260) as group:
        join = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
        flags = ["--snapshots", "0.1", "--max-restarts", "100"]
        result = t.run(n, *command, flags=flags, prefix=join, interfere=interfere)
        require(killed_in(group) > 0, "memory was not short", result)
    said = "the kernel has killed its snapshot because memory is short"
    require(result.err.count(said) == 1, "not said once", result)
    taken = [death for death in result.named("death") if death.get("out_of_memory")]
    require(not taken, "a rank's death is taken for the kernel's", result)
    if result.code == 0:
        judge(result, expected, n)
        return
    require(result.code == 1, f"exit code {result.code}", result)
    require(LOST.fullmatch(messages(result)[-1]), "another reason", result)
    for rank in range(n):
        got, wanted = lines_of(result.out, rank), lines_of(expected.out, rank)
        require(got == wanted[: len(got)], f"output of rank {rank} is wrong", result)
