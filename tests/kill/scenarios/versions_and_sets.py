"""Jobs of images with a directory: they write sets of images before the first version, then versions."""

import contextlib
import os
import re
import shutil
import signal

from harness import require, scenario
from scenarios.written_images import place, require_whole, sets_in

RANKS = 3
# The first version comes after several sets.
SLOW = ("checkpoints", "versions=3", "steps=100", "pause_us=6000")
LAZY = ("checkpoints", "versions=300", "lazy=1", "pause_us=2000")


def versions_in(path):
    """Returns the versions in a directory, oldest first."""
    names = os.listdir(path) if os.path.isdir(path) else []
    found = [re.fullmatch(r"checkpoint-(\d+)\.rejoin", name) for name in names]
    return sorted(int(match[1]) for match in found if match)


def version_path(where, version):
    return f"{where.sets}/checkpoint-{version:010}.rejoin"


def killed(where, *command, when, after=0.0, **named):
    """A job whose ftrun is killed as soon as when(job), or a little later."""

    def interfere(job):
        job.until(lambda: when(job), "ftrun was to be killed")
        job.run_for(where.t.rng.uniform(0, after))
        job.process.kill()

    result = where.run(RANKS, *command, interfere=interfere, **named)
    require(result.code == -signal.SIGKILL, f"exit code {result.code}", result)
    return result


def random_deaths(t, job, count=6):
    job.until_event("init")
    for _ in range(count):
        job.run_for(t.rng.uniform(0.01, 0.25))
        if job.poll() and job.pids:
            ranks = sorted(job.pids)
            job.kill(*t.rng.sample(ranks, t.rng.choice([1, 1, len(ranks)])))


def resumes_as_found(where, *command, interfere=None, flags=()):
    """Requires that the next job goes on from the newest version, or else from the newest set."""
    versions, sets = versions_in(where.sets), sets_in(where.sets)
    if versions:
        says = f"going on from checkpoint {versions[-1]}\n"
    else:
        says = f"going on from {where.sets}/images-{sets[-1]}.rejoin,"
    result = where.resumes(RANKS, *command, interfere=interfere, flags=flags)
    require(says in result.err, f"it does not say: {says}", result)
    return result


def only_versions(where, result):
    left = [name for name in os.listdir(where.sets) if not name.startswith("checkpoint-")]
    require(not left, f"beside the versions there is {left}", result)
    require(1 <= len(versions_in(where.sets)) <= 2, f"{os.listdir(where.sets)}", result)
    parts = [name for name in os.listdir(where.sets) if name.endswith(".part")]
    require(not parts, f"left behind: {parts}", result)


def came_from(result, what):
    """Returns the number of ranks that came back from `what`."""
    return sum(event.get("from", "").startswith(what) for event in result.named("live"))


WHEN = {
    "sets": lambda where: lambda job: sum(e["event"] == "images" for e in job.events) >= 1,
    "first": lambda where: lambda job: versions_in(where.sets),
    "versions": lambda where: lambda job: len(versions_in(where.sets)) == 2,
}


@scenario(limit_s=300, when=list(WHEN), sweeps=True)
def versions_after_sets(t, when):
    """ftrun is killed before the first version, when it appears, and after it; then ranks die, too."""
    expected = t.undisturbed(RANKS, *SLOW)
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            after = 0.01 if when == "first" else 0.2
            killed(where, *SLOW, when=WHEN[when](where), after=after)
            result = resumes_as_found(where, *SLOW, interfere=lambda job: random_deaths(t, job))
            require(result.killed, "no rank was killed", result)
            require_whole(where, result, expected, RANKS)
            only_versions(where, result)


@scenario(limit_s=300)
def versions_after_sets_again(t):
    """ftrun is killed repeatedly, with any contents of the directory."""
    expected = t.undisturbed(RANKS, *SLOW)
    with place(t) as where:
        moments = list(WHEN)
        killed(where, *SLOW, when=WHEN["sets"](where), after=0.5)
        for _ in range(3):
            runs_s = t.rng.uniform(0.3, 1.2)

            def interfere(job, runs_s=runs_s):
                job.run_for(runs_s)
                job.process.kill()

            where.run(RANKS, *SLOW, resume=True, interfere=interfere)
        result = resumes_as_found(where, *SLOW)
        require_whole(where, result, expected, RANKS)
        only_versions(where, result)


@contextlib.contextmanager
def both_kinds(t):
    """Makes a directory as it is when ftrun dies before it has removed the sets."""
    with place(t) as where:
        saved = f"{where.work}/../saved"

        def interfere(job):
            where.whole(job, 1)
            newest = f"images-{sets_in(where.sets)[-1]}.rejoin"
            shutil.copytree(f"{where.sets}/{newest}", f"{saved}/{newest}")
            job.until(lambda: versions_in(where.sets), "there was a version")
            job.process.kill()

        result = where.run(RANKS, *SLOW, interfere=interfere)
        require(result.code == -signal.SIGKILL, f"exit code {result.code}", result)
        for name in os.listdir(saved):
            if not os.path.exists(f"{where.sets}/{name}"):
                shutil.copytree(f"{saved}/{name}", f"{where.sets}/{name}")
        yield where


@scenario(limit_s=300)
def a_version_beside_sets(t):
    """The version is newer, so the sets are removed before ranks start."""
    with both_kinds(t) as where:

        def interfere(job):
            job.until_event("start")
            require(not sets_in(where.sets), "there are sets still", job)

        result = resumes_as_found(where, *SLOW, interfere=interfere)
        require_whole(where, result, t.undisturbed(RANKS, *SLOW), RANKS)
        only_versions(where, result)


@scenario(limit_s=300)
def a_damaged_version_beside_sets(t):
    """Only the set is complete, so the version is removed before ranks start."""
    with both_kinds(t) as where:
        damaged = [version_path(where, version) for version in versions_in(where.sets)]
        for path in damaged:
            os.truncate(path, os.path.getsize(path) - 1)

        def interfere(job):
            job.until_event("start")
            require(not any(map(os.path.exists, damaged)), "it is there still", job)

        newest = f"images-{sets_in(where.sets)[-1]}.rejoin"
        result = where.resumes(RANKS, *SLOW, interfere=interfere)
        for path in damaged:
            require(f"{path} is cut off" in result.err, "it does not say so", result)
        require(f"going on from {where.sets}/{newest}," in result.err, "from what", result)
        require_whole(where, result, t.undisturbed(RANKS, *SLOW), RANKS)
        only_versions(where, result)


@scenario(limit_s=300)
def a_rank_dies_in_need_of_a_set(t):
    """A rank without an image of its own is restored, even if a version is written very early."""
    with place(t) as where:
        killed(where, *SLOW, when=WHEN["sets"](where))
        where.often = ["--snapshots", "1000", "--max-restarts", "1000"]

        def interfere(job):
            job.until(lambda: versions_in(where.sets), "there was a version")
            require(sets_in(where.sets), "the set was removed", job)
            job.kill(t.rng.randrange(RANKS))
            job.until_event("respawn")
            require(sets_in(where.sets), "the set was removed", job)

        result = where.resumes(RANKS, *SLOW, interfere=interfere)
        restored = came_from(result, "its written image")
        require(restored == 1, f"{restored} were restored", result)
        require_whole(where, result, t.undisturbed(RANKS, *SLOW), RANKS)
        only_versions(where, result)


@scenario(limit_s=300)
def lazy_versions_of_images(t):
    """Lazy checkpoints are written in a job of images, too, although ranks go back to images."""
    expected = t.undisturbed(RANKS, *LAZY)
    with place(t) as where:
        killed(
            where, *LAZY, when=lambda job: len(versions_in(where.sets)) == 2, after=0.5
        )
        deaths = lambda job: random_deaths(t, job, 8)
        result = resumes_as_found(where, *LAZY, interfere=deaths)
        require(came_from(result, "the snapshot") > 0, "no rank came from an image", result)
        require(came_from(result, "checkpoint") == 0, "a rank came from a version", result)
        require_whole(where, result, expected, RANKS)
        only_versions(where, result)


@scenario()
def versions_of_a_slow_rank(t):
    """The wait for a slow rank is not a cost of writing a checkpoint: all versions are written."""
    command = ("recovery_points", "lines", "versions=40", "slow_us=20000")
    with place(t) as where:
        result = where.run(RANKS, *command)
        require(result.code == 0, f"exit code {result.code}", result)
        require(versions_in(where.sets) == [39, 40], f"{os.listdir(where.sets)}", result)


@scenario(limit_s=300, sweeps=True)
def versions_in_own_files(t):
    """The program keeps its state in files of its own, two in turn: those of a version are written
    over by the next but one. A job of images therefore writes no versions of it, and goes on from its sets."""
    for _ in range(5 if t.long else 1):
        with place(t) as where:
            command = ("pcontrol", where.work, "versions=80", "pause_us=30000")
            expected = t.run(RANKS, *command)
            for name in os.listdir(where.work):
                os.remove(f"{where.work}/{name}")
            killed(where, *command, when=lambda job: sets_in(where.sets), after=0.3)
            require(not versions_in(where.sets), "a version that says nothing", expected)
            deaths = lambda job: random_deaths(t, job, 4)
            result = resumes_as_found(where, *command, interfere=deaths)
            require(result.killed, "no rank was killed", result)
            require_whole(where, result, expected, RANKS)
