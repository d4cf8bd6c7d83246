"""The rules of checkpoints and of the bootstrap phase for programs, and their effect on the journal."""

import re

from harness import MOMENTS, POINTS, Kill, check_deaths, require, scenario

FULL = "the journal is full"


def lines_of(result, rank, what):
    """Returns what misuse.c printed about calls of that rank: pairs of a code and a text."""
    found = re.findall(rf"^rank {rank}: {what}: (-?\d+) (.*)$", result.out, re.MULTILINE)
    return [(int(code), text) for code, text in found]


def codes(result, rank, what):
    return [code for code, _ in lines_of(result, rank, what)]


def texts(result, rank, what):
    return " ".join(text for _, text in lines_of(result, rank, what))


def says(result, *words):
    for word in words:
        require(word in result.err, f"it does not say '{word}'", result)


# --------------------------------------------------------------------------------- calls that fail


def load_is_refused(t, case, load_codes, text):
    """The load is refused in every rank, and the checkpoints are not."""
    result = t.undisturbed(3, "misuse", case)
    for rank in range(3):
        require(codes(result, rank, "load") == load_codes, "other codes of loads", result)
        require(codes(result, rank, "checkpoint") == [1, 2], "other versions", result)
        require(text in texts(result, rank, "load"), "another text", result)


@scenario()
def load_twice(t):
    load_is_refused(t, "load_twice", [0, -2, -2], "second load")


@scenario()
def load_after_checkpoint(t):
    load_is_refused(t, "load_late", [-2], "load after a checkpoint")


@scenario(points=list(POINTS))
def checkpoint_without_load(t, points):
    """Without a load a checkpoint is only a number: a rank goes back to main, or to its image."""
    flags = POINTS[points]
    result = t.undisturbed(3, "misuse", "no_load", flags=flags)
    for rank in range(3):
        require(codes(result, rank, "checkpoint") == [1, 2, 3, 4], "other versions", result)
    last = result.operations(1)
    for point in range(1, last + 1):
        kills = [Kill(point % 3, point, t.rng.choice(MOMENTS))]
        result = t.recovers(3, "misuse", "no_load", kills=kills, ordered=False, flags=flags)
        for live in result.named("live") if points == "versions" else ():
            require(live["replayed_ops"] >= point - 2, "something was forgotten", result)


@scenario()
def checkpoint_arguments(t):
    result = t.undisturbed(3, "misuse", "arguments")
    for what, word in (("no global", "NULL"), ("no local", "NULL"), ("no function", "function")):
        for rank in range(3):
            require(codes(result, rank, what) == [-1], f"another code of '{what}'", result)
            require(word in texts(result, rank, what), "another text", result)
    require(codes(result, 0, "version") == [0], "it made a version", result)
    require(codes(result, 0, "checkpoint") == [1], "it made a version", result)


def nothing_is_refused(t, case, versions):
    """The same in a job of images, in which calls return the same after each death."""
    flags = POINTS["images"]
    result = t.undisturbed(3, "misuse", case, flags=flags)
    for rank in range(3):
        require(codes(result, rank, "checkpoint") == versions, "other versions", result)
    for point in range(1, result.operations(0) + 1):
        kills = [Kill(point % 3, point, t.rng.choice(MOMENTS))]
        t.recovers(3, "misuse", case, kills=kills, ordered=False, flags=flags)
    require(not t.returns["version"], "from a version", result)


@scenario(case=["late_communicator", "open_request"])
def refused_in_no_job_of_images(t, case):
    nothing_is_refused(t, case, [1, 2, 3] if case == "late_communicator" else [1, 2, 3, 4, 5, 6])


@scenario()
def late_communicator(t):
    """A communicator that a restarted rank would not have prevents checkpoints until it is freed."""
    flags = POINTS["versions"]
    result = t.undisturbed(3, "misuse", "late_communicator", flags=flags)
    for rank in range(3):
        require(codes(result, rank, "checkpoint") == [1, -2, 2], "other versions", result)
        require("communicator of 3 ranks" in texts(result, rank, "checkpoint"), "why?", result)
    for point in range(1, result.operations(0) + 1):
        kills = [Kill(point % 3, point, t.rng.choice(MOMENTS))]
        # An incarnation that goes on at a checkpoint does not print again what the former one printed.
        result = t.run(3, "misuse", "late_communicator", kills=kills, flags=flags)
        check_deaths(result, kills)


@scenario()
def open_request(t):
    """A request of a message, or a generalized one, that is not complete prevents a checkpoint."""
    flags = POINTS["versions"]
    result = t.undisturbed(3, "misuse", "open_request", flags=flags)
    for rank in range(3):
        require(codes(result, rank, "checkpoint") == [1, -2, 2, -2, -2, 3], "other versions", result)
        require("a request is not complete" in texts(result, rank, "checkpoint"), "why?", result)
    for point in range(1, result.operations(0) + 1):
        kills = [Kill(point % 3, point, t.rng.choice(MOMENTS))]
        result = t.run(3, "misuse", "open_request", kills=kills, flags=flags)
        check_deaths(result, kills)


@scenario()
def key_twice(t):
    result = t.run(3, "misuse", "key_twice")
    require(result.code not in (0, 137), f"exit code {result.code}", result)
    says(result, "bootstrap key", "used for another operation before", "MPI_Allreduce of 8 bytes", "sum")


@scenario()
def other_models(t):
    """Ranks with different global models cannot make a checkpoint, and the job ends."""
    result = t.run(3, "misuse", "other_models")
    require(result.code == 1, f"exit code {result.code}", result)
    says(result, "global model of rank", "differs from that of rank 0", "local model")


@scenario()
def one_checkpoint(t):
    """Rank 0 makes a checkpoint where the others call Allreduce: all get the error, in any order."""
    for _ in range(5):
        result = t.run(3, "misuse", "one_checkpoint")
        require(result.code == 9, f"exit code {result.code}", result)
        require(codes(result, 0, "checkpoint") == [-3], "rank 0 was not told", result)
        text = texts(result, 0, "checkpoint")
        for word in ("rank 0 makes checkpoint 1", "calls MPI_Allreduce"):
            require(word in text, f"it does not say '{word}'", result)
        require(codes(result, 0, "barrier") == [1], "rank 0 was told once only", result)
        told = [rank for rank in (1, 2) if codes(result, rank, "allreduce") == [1]]
        require(told == [1, 2], f"told were {told}", result)
        # A program that gets the text cannot resolve a call site as ftrun does.
        text = texts(result, 1, "allreduce")
        require("misuse+0x" in text and "{" not in text, "it does not say where", result)


@scenario(points=list(POINTS))
def load_of_another_size(t, points):
    """In a job of images a load returns nothing, as it did the first time."""
    kills = [Kill(1, 5)]
    if points == "images":
        t.recovers(3, "misuse", "other_size", kills=kills, ordered=False, flags=POINTS[points])
        return
    result = t.run(3, "misuse", "other_size", kills=kills, flags=POINTS[points])
    require(result.code == 1, f"exit code {result.code}", result)
    check_deaths(result, kills)
    says(result, "rank 1: MPI_Pcontrol(load)", "8 bytes, not 16", "version 2")


@scenario(case=["large_unmarked", "large_marked"])
def bootstrap_limit(t, case):
    """3 MiB of bootstrap phase: within the default limit; above a limit of 1 MiB, which is reported."""
    t.undisturbed(3, "misuse", case)
    flags = ["--bootstrap-limit", "1M"]
    result = t.run(3, "misuse", case, flags=[*flags, *POINTS["images"]])
    require(result.code == 0, f"exit code {result.code}", result)
    require("--bootstrap-limit" not in result.err + result.out, "a job of images refused", result)
    result = t.run(3, "misuse", case, flags=[*flags, *POINTS["versions"]])
    told = result.err + result.out
    for word in ("3145728 bytes", "1048576", "--bootstrap-limit"):
        require(word in told, f"it does not say '{word}'", result)
    if case == "large_unmarked":
        # Rank 0 continues with its next operation, which works if all ranks have got the error.
        require(codes(result, 0, "checkpoint") == [-4], "another code", result)
        all_told = all(codes(result, rank, "checkpoint") == [-3] for rank in (1, 2))
        require(all_told or result.code not in (0, 137), "it says nothing of the others", result)
    else:
        require(result.code not in (0, 137), f"exit code {result.code}", result)


@scenario(points=list(POINTS))
def refused_by_limit(t, points):
    """A checkpoint that is refused is complete: no rank is taken to be in it still, its line is in the log
    of operations, and the version is the one before. In a job of images it is not refused."""
    flags = ["--bootstrap-limit", "1M", "--log-ops", *POINTS[points]]
    told, versions = ([-4, -4], [0, 0]) if points == "versions" else ([1, 2], [1, 2])
    result = t.run(3, "misuse", "large_everywhere", flags=flags)
    require(result.code == 0, f"exit code {result.code}", result)
    for rank in range(3):
        require(codes(result, rank, "checkpoint") == told, "other codes", result)
        require(codes(result, rank, "version") == versions, "another version", result)
    lines = re.findall(r"^\[\d\] checkpoint \(", result.err + result.out, re.MULTILINE)
    require(len(lines) == 6, f"{len(lines)} lines of the log of operations", result)


@scenario()
def marked_gather(t):
    """After the first checkpoint operations whose members get different bytes cannot be marked."""
    result = t.run(3, "misuse", "marked_gather")
    require(result.code not in (0, 137), f"exit code {result.code}", result)
    says(result, "MPI_Gather", "marked as bootstrap", "Allgather")


# ----------------------------------------------------------------------- one wrapper for all calls

BOOTSTRAP, VERSION = 2, 3  # the numbers of operations in wrapper.c


@scenario(how=["keys", "late"], points=list(POINTS), sweeps=True)
def wrapper(t, how, points):
    """Marked operations are distinguished, though all calls come through one function."""
    last = t.undisturbed(3, "wrapper", how)
    kills = [
        Kill(rank, point, moment)
        for rank in range(3)
        for point in range(1, last.operations(rank) + 1)
        for moment in MOMENTS
    ]
    for kill in kills if t.long else t.rng.sample(kills, 24 if points == "versions" else 8):
        t.recovers(3, "wrapper", how, kills=[kill], ordered=False, flags=POINTS[points])


@scenario(how=["keys", "late"], points=list(POINTS), sweeps=True)
def wrapper_all_die(t, how, points):
    """All ranks die, so no rank is left that has completed the bootstrap phase."""
    last = t.undisturbed(3, "wrapper", how).operations(0)
    places = [(point, moment) for point in range(1, last + 1) for moment in MOMENTS]
    for point, moment in places if t.long else t.rng.sample(places, 10):
        kills = [Kill(rank, point, moment) for rank in range(3)]
        t.recovers(3, "wrapper", how, kills=kills, ordered=False, flags=POINTS[points])


@scenario(how=["sizes", "sites", "same"], sweeps=True)
def not_marked_in_a_job_of_images(t, how):
    """In a job of images set-up need not be marked."""
    last = t.undisturbed(3, "wrapper", how).operations(0)
    places = [(point, moment) for point in range(1, last + 1) for moment in MOMENTS]
    for point, moment in places if t.long else t.rng.sample(places, 10):
        kills = [Kill(t.rng.randrange(3), point, moment)]
        t.recovers(3, "wrapper", how, kills=kills, ordered=False, flags=POINTS["images"])


@scenario(how=["sizes", "sites"])
def not_marked(t, how):
    """Set-up that every incarnation repeats is not marked: deaths before the first checkpoint do no harm,
    and after it the job stops, and says what to mark."""
    flags = POINTS["versions"]
    kill = Kill(1, BOOTSTRAP, "inside")
    t.recovers(3, "wrapper", how, kills=[kill], ordered=False, flags=flags)
    first = BOOTSTRAP + VERSION + 1
    for kill in (Kill(1, first, "before"), Kill(2, first), Kill(0, first + 1, "after")):
        result = t.run(3, "wrapper", how, kills=[kill], flags=flags)
        require(result.code == 1, f"exit code {result.code}", result)
        check_deaths(result, [kill])
        says(result, "only before its first checkpoint", "rejoin_bootstrap(key)")
        require("FAIL" not in result.out, "it was given something wrong", result)


@scenario()
def wrapper_without_a_difference(t):
    """Nothing distinguishes what is repeated from what comes later: where there is a record the job stops
    at the contribution that is another one."""
    first = BOOTSTRAP + VERSION + 1
    for kill in (Kill(1, first, "after"), Kill(2, first + 1), Kill(0, first + 1, "before")):
        result = t.run(3, "wrapper", "same", kills=[kill], flags=POINTS["versions"])
        require(result.code == 1, f"exit code {result.code}", result)
        check_deaths(result, [kill])
        says(result, "contributes other bytes", "MPI_Allreduce of 32 bytes", "sum_of")
        require("FAIL" not in result.out, "it was given something wrong", result)


# ------------------------------------------------------------------------------------- the journal


def stays_within(t, n, limit, volume, kill, points="versions"):
    """The journal never becomes full, and a rank that dies at the end goes on at a checkpoint, or image."""
    command = ("volume", *(f"{name}={value}" for name, value in volume.items()))
    how = POINTS["versions"] if points == "versions" else ["--snapshots", "0.1"]
    flags = ["--journal-limit", limit, *how]
    expected = t.run(n, *command, flags=flags, limit_s=100)
    require(expected.code == 0, f"exit code {expected.code}", expected)
    require(FULL not in expected.err, "the journal was full", expected)
    result = t.run(n, *command, flags=flags, kills=[kill], limit_s=100)
    require((result.code, result.out) == (0, expected.out), "not as undisturbed", result)
    check_deaths(result, [kill])
    require(FULL not in result.err, "the journal was full", result)
    [live] = result.named("live")
    if points == "images":
        require(t.returns["image"] == 1, "it did not return to its image", result)
        return
    require(live["replayed_ops"] <= volume["every"] + 2, "it went back too far", result)


@scenario(limit_s=300, labels=["slow"], sweeps=True, n=[2, 3], points=list(POINTS))
def journal_of_large_results(t, n, points):
    """Gigabytes, and in a long run 20 of them, through a journal of 64 MiB; of 512 MiB behind images,
    since an image takes its time on a machine that is busy."""
    limit, operations = ("64M", 5_000) if points == "versions" else ("512M", 3_000)
    operations, every = 20_000 if t.long else operations, 10
    volume = {"operations": operations, "every": every, "bytes": 1 << 20, "first": 1}
    stays_within(t, n, limit, volume, Kill(1, operations + operations // every - 4), points)


@scenario(limit_s=300, labels=["slow"], points=list(POINTS))
def journal_of_small_results(t, points):
    """64 MB of records through a journal of 32 MiB. Where it is truncated behind images, 256 MB through
    one of 128 MiB: the journal holds what lies between two images, as it does without checkpoints."""
    limit, operations = ("32M", 2_000_000) if points == "versions" else ("128M", 8_000_000)
    every = 10_000
    volume = {"operations": operations, "every": every, "bytes": 8}
    stays_within(t, 2, limit, volume, Kill(1, operations + operations // every - 5), points)
