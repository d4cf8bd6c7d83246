"""Images: ranks die at any time and go on from clones of their processes, which may die, too."""

import os
import re
import signal

from harness import Kill, Skip, check_deaths, check_returns, require, scenario
from processes import images
from scenarios.endings import messages

EVERY_10_MS = ["--snapshots", "0.01", "--max-restarts", "100000"]
LOST = re.compile(
    r"rejoin: rank \d+ cannot be started again: its snapshot was lost, and the journal does not "
    r"reach back to the start of the program any more"
)
MOST_DEATHS = 60
PYTHON = "/usr/bin/python3"


def kill_image(job, rng):
    found = images(job)
    if found:
        pid = rng.choice(found)
        try:
            os.kill(pid, signal.SIGKILL)
            job.images_killed.append(pid)
        except ProcessLookupError:
            pass  # a newer image has replaced it


def at_random(rng, of_images=0.0):
    """Kills some ranks, or all, or sometimes an image, every 10 to 50 ms."""

    def interfere(job):
        job.until_event("init")
        while job.poll() and len(job.killed) < MOST_DEATHS:
            job.run_for(rng.uniform(0.01, 0.05))
            if rng.random() < of_images:
                kill_image(job, rng)
                continue
            ranks = sorted(job.pids)
            if ranks:
                job.kill(*rng.sample(ranks, rng.choice([1, 1, 1, len(ranks)])))

    return interfere


def lines_of(text, rank):
    return [line for line in text.split("\n") if re.match(rf"rank {rank}\b", line)]


def tail_of(got, wanted, rank):
    """Returns the rest of a rank's output from the first line that differs."""
    found, expected = lines_of(got, rank), lines_of(wanted, rank)
    at = 0
    while at < min(len(found), len(expected)) and found[at] == expected[at]:
        at += 1
    return f": {found[at : at + 2]} where {expected[at : at + 2]} should be"


def require_same(result, expected, ranks):
    """Requires the lines of each rank in their order, and all other lines, in both streams."""
    for rank in range(ranks):
        for stream, got, wanted in (
            ("output", result.out, expected.out),
            ("standard error", result.err, expected.err),
        ):
            same = lines_of(got, rank) == lines_of(wanted, rank)
            require(same, f"{stream} of rank {rank} is not as undisturbed{tail_of(got, wanted, rank)}", result)
    same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
    require(same, "the output is not as undisturbed", result)


def from_images(result):
    """Returns the number of deaths after which the rank replayed only a small part of its past."""
    count = 0
    for death in result.named("death"):
        next_one = (death["rank"], death["incarnation"] + 1)
        said = [e for e in result.events if (e.get("rank"), e.get("incarnation")) == next_one]
        replayed = [e["replayed_ops"] for e in said if "replayed_ops" in e]
        # About half of the operations can be replayed; those that only begin a request are not.
        count += bool(replayed) and replayed[0] < death["position"]["ordinal"] / 5
    return count


def judge(result, expected, ranks):
    require(result.code == 0, f"exit code {result.code}", result)
    require_same(result, expected, ranks)
    check_deaths(result, [])
    check_returns(result, ranks)


def goes_on(t, ranks, *command):
    """Runs a program with random deaths; the output is that of a run without deaths."""
    expected = t.undisturbed(ranks, *command)
    woken = 0
    for _ in t.runs(2, 60, lambda: woken):
        result = t.run(ranks, *command, flags=EVERY_10_MS, interfere=at_random(t.rng))
        judge(result, expected, ranks)
        woken += from_images(result)
    require(woken > 0, "no rank went on from an image", result)


# The contents of these files are part of the output.
def names_of_files(ranks):
    return [f"{what}.{rank}" for what in ("added", "direct", "state") for rank in range(ranks)]


# ------------------------------------------------------------------------------------------ scenarios


@scenario(n=[1, 2, 4], sweeps=True)
def snapshots(t, n):
    """Collectives and messages, one of them across every step; output with and without flush."""
    goes_on(t, n, "frozen", "messages", "steps=300")


@scenario(sweeps=True)
def snapshots_polls(t):
    """Tests and probes give the same answers again after an image, as often as before."""
    goes_on(t, 3, "frozen", "polls", "steps=200")


@scenario()
def snapshots_mutexes(t):
    """A clone holds the mutexes that contain their owner's id."""
    goes_on(t, 2, "frozen", "mutexes", "steps=200")


@scenario()
def snapshots_deadlines(t):
    """Waits until a time of a clock do not end early after a wake-up, nor in a replay."""
    goes_on(t, 2, "frozen", "deadlines", "steps=100")
    flags = ["--snapshots", "off"]
    t.recovers(2, "frozen", "deadlines", "steps=20", kills=[Kill(1, 60)], flags=flags, ordered=False)


@scenario()
def snapshots_itself(t):
    """A rank that was woken writes to its devices, and may name its own thread. One that closes all
    descriptors that it does not know stays a rank."""
    goes_on(t, 2, "frozen", "itself", "steps=200")


@scenario(how=["limits", "addresses", "addresses_hard"])
def snapshots_limits(t, how):
    """A rank that was woken has the limits that the program has set."""
    goes_on(t, 2, "frozen", how, "steps=200")


@scenario(sweeps=True)
def snapshots_random_program(t):
    """Generated programs go on from images with all kinds of outstanding operations."""
    for seed in range(1, 40 if t.long else 4):
        program = ("random_collectives", seed, 1500, 4096)
        expected = t.undisturbed(3, *program)
        result = t.run(3, *program, flags=EVERY_10_MS, interfere=at_random(t.rng))
        judge(result, expected, 3)


@scenario(sweeps=True)
def snapshots_die_too(t):
    """Images die as well: if one dies with its rank, the job ends with one line."""
    n, command = 3, ("frozen", "messages", "steps=300")
    expected = t.undisturbed(n, *command)
    for _ in range(100 if t.long else 4):
        interfere = at_random(t.rng, of_images=0.5)
        result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
        if result.code == 0:
            judge(result, expected, n)
            continue
        require(result.code == 1, f"exit code {result.code}", result)
        last = [line for line in messages(result) if LOST.fullmatch(line)]
        require(len(last) == 1 and messages(result)[-1] == last[0], "another reason", result)
        for rank in range(n):
            got, wanted = lines_of(result.out, rank), lines_of(expected.out, rank)
            require(got == wanted[: len(got)], f"output of rank {rank} is wrong", result)


@scenario()
def snapshot_lost(t):
    """A rank dies with its image: one line reports it."""

    def interfere(job):
        job.until_output("rank 1, step 100")
        job.process.send_signal(signal.SIGSTOP)
        for pid in images(job):
            os.kill(pid, signal.SIGKILL)
        job.kill(0)
        job.process.send_signal(signal.SIGCONT)

    command = ("frozen", "messages", "steps=2000")
    result = t.run(2, *command, flags=EVERY_10_MS, interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    require(LOST.fullmatch(messages(result)[-1]), "not the line", result)


@scenario()
def snapshots_die_unregistered(t):
    """Images die before they have registered: other images are still made."""
    n, command = 2, ("frozen", "unregistered", "steps=500", "until=200")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_output("rank 1, step 150")
        job.kill(1)
        job.until_output("rank 1, step 400")
        job.kill(1)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 1, "only the second death goes back to an image", result)


@scenario()
def snapshots_stopped(t):
    """Stopped images are woken, too."""
    n, command = 2, ("frozen", "messages", "steps=900")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        for pid in images(job):
            os.kill(pid, signal.SIGSTOP)
        job.kill(1)

    result = t.run(n, *command, flags=["--snapshots", "0.3"], interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 1, "it did not go on from its image", result)


@scenario()
def snapshots_stopped_later(t):
    """Images stop when the agent wakes them: it continues them once more."""
    n, command = 2, ("frozen", "stops", "steps=900")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        job.kill(1)

    result = t.run(n, *command, flags=["--snapshots", "0.3"], interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 1, "it did not go on from its image", result)


@scenario()
def snapshots_rewritten(t):
    """A file that is open to read and write is overwritten after the image: one line reports it."""
    n, command = 2, ("frozen", "rewrite", "steps=900")

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        seen = job.out().count("rank 1, step ")
        job.until_output(f"rank 1, step {seen + 30}")
        job.kill(1)

    leaves = names_of_files(n)
    result = t.run(n, *command, flags=["--snapshots", "0.3"], interfere=interfere, leaves=leaves)
    require(result.code == 1, f"exit code {result.code}", result)
    require("direct.1" in messages(result)[-1], "the file is not named", result)
    told = [line for line in messages(result) if "rank 1: its snapshot cannot go on: " in line]
    require(len(told) == 1 and "direct.1" in told[0], "why its clone ended is not told once", result)


@scenario(moment=["before", "inside", "after"])
def snapshots_past_a_kill(t, moment):
    """A --kill at an operation that is not repeated fires in the next operation."""
    n, command = 2, ("frozen", "messages", "steps=600")
    expected = t.undisturbed(n, *command)
    kills = [Kill(1, "finalize", "after"), Kill(1, 3, moment, 1)]
    result = t.run(n, *command, flags=EVERY_10_MS, kills=kills)
    require(result.code == 0, f"exit code {result.code}", result)
    require_same(result, expected, n)
    check_returns(result, n)
    first, second = [e["position"]["ordinal"] for e in result.named("death")]
    require(second > first / 2, f"they died in operations {first} and {second}", result)


@scenario()
def snapshots_damaged(t):
    """An image contains the memory that the program has damaged: the same crash ends the job."""
    command = ("frozen", "damaged", "steps=400", "until=100")
    result = t.run(2, *command, flags=EVERY_10_MS)
    require(result.code == 128 + signal.SIGSEGV, f"exit code {result.code}", result)
    require(len(result.named("death")) == 2, "deaths", result)
    require(from_images(result) == 1, "it did not go on from an image", result)
    require("same cause" in messages(result)[-1], "it does not say why", result)


@scenario(how=["input", "input_bytes"], sweeps=True)
def snapshots_input(t, how):
    """Rank 0 reads its standard input line by line; from a file, and from a process that writes slowly."""
    steps = 300
    command = ("frozen", how, f"steps={steps}")
    path = t.script("lines", "".join(f"line {i} of {steps}\n" for i in range(steps)))
    slowly = f"while read -r line; do echo \"$line\"; sleep 0.0005; done < {path}"
    for text in (f'exec "$@" < {path}', f'exec "$@" < <({slowly})'):
        prefix = ["bash", "-c", text, "bash"]
        expected = t.run(2, *command, prefix=prefix)
        require(expected.code == 0, "undisturbed", expected)
        for _ in range(30 if t.long else 1):
            flags, interfere = EVERY_10_MS, at_random(t.rng)
            result = t.run(2, *command, flags=flags, interfere=interfere, prefix=prefix)
            judge(result, expected, 2)


@scenario(sweeps=True)
def snapshots_files(t):
    """Files that are added to, renamed over, and extended while they are open to be read."""
    n, command = 2, ("frozen", "files", "steps=300")
    leaves = names_of_files(n)
    expected = t.run(n, *command, leaves=leaves)
    require(len(expected.files) == len(leaves), "the files are not there", expected)
    for _ in range(60 if t.long else 3):
        flags, interfere = EVERY_10_MS, at_random(t.rng)
        result = t.run(n, *command, flags=flags, interfere=interfere, leaves=leaves)
        judge(result, expected, n)
        for name, contents in expected.files.items():
            require(result.files.get(name) == contents, f"{name} is not as undisturbed", result)


@scenario()
def snapshots_one_image(t):
    """A rank dies several times, and goes on from the same image each time; then all die at once."""
    n, command = 3, ("frozen", "messages", "steps=900")
    expected = t.undisturbed(n, *command)
    used = []

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        for ranks in ([1], [1], [0], [1], [0, 1, 2], [2], [0, 1, 2]):
            used.extend(images(job, 1) if 1 in ranks else [])
            job.kill(*ranks)
            for rank in ranks:
                job.until_event("init", rank, job.killed.count(rank))

    flags = ["--snapshots", "0.3", "--max-restarts", "100"]
    result = t.run(n, *command, flags=flags, interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) > 0, "no rank went on from an image", result)
    require(max(map(used.count, used)) > 1, f"never from the same image: {used}", result)


REFUSALS = {
    "thread": "has a thread (frozen) that was not started by the C library (pthread_create)",
    "child": "has child processes",
    "timer": "has timers of timer_create()",
    "mapping": "shares writable memory",
    "wiped": "has memory that the kernel does not copy to a clone (madvise, anonymous)",
    "unforked": "has memory that the kernel does not copy to a clone (madvise, anonymous)",
    "signal": "has a pending signal (User defined signal 1)",
    "lock": "has locked ",
    "pipe": "has pipe:",
    "socket": "has socket:",
}


@scenario(how=list(REFUSALS))
def snapshots_refused(t, how):
    """An obstacle to images is reported once for all ranks, and a rank that dies goes back to main."""
    n, command = 2, ("frozen", how, "steps=200")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_output("rank 0, step 100")
        require(not images(job), "there is an image", job)
        job.kill(1)
        job.until_event("live", 1, 1)
        job.kill(0)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(len(result.named("death")) == 2, "deaths", result)
    require(from_images(result) == 0, "a rank did not go back to its start", result)
    said = rf"rejoin: rank \d: no snapshot can be made of it now, because it ({re.escape(REFUSALS[how])}.*) \(other"
    reasons = [found[1] for line in messages(result) if (found := re.match(said, line))]
    require(reasons, f"not said: {said}", result)
    require(len(set(reasons)) == len(reasons) <= n, "said again", result)
    if how in ("thread", "child", "timer"):
        require(len(reasons) == 1, "said for each rank", result)


@scenario(limit_s=300, labels=["alone"])
def snapshots_price(t):
    """A snapshot period that costs much time is used as given, and one line reports the cost."""
    dear = ("frozen", "messages", "resident=64", "dirty=16384")
    told = "its snapshots take"

    def until_told(job):
        job.until(lambda: told in job.err(), "it told the cost")
        job.run_for(1)
        job.process.terminate()

    result = t.run(2, *dear, "steps=900", flags=["--snapshots", "0.002"], interfere=until_told, limit_s=200)
    said = [line for line in messages(result) if told in line]
    require(len(said) == 1 and "every 2.0 ms" in said[0], f"said {said}", result)
    # Longer than the time after which the cost is told.
    result = t.run(2, *dear, "steps=250", "pause_us=10000", flags=["--snapshots", "5"], limit_s=200)
    require(result.code == 0 and result.took_s > 2.5, f"it ended with {result.code} after {result.took_s} s", result)
    require(told not in result.err, "said of one that is cheap", result)


@scenario(how=list(REFUSALS))
def snapshots_refused_for_a_time(t, how):
    """Images are made once an obstacle is gone."""
    n, command = 2, ("frozen", how, "steps=300", "until=100")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_output("rank 0, step 50")
        job.kill(1)
        job.until_output("rank 0, step 200")
        job.kill(0, 1)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 2, "the last two deaths did not go back to images", result)


@scenario(how=["wiped", "unforked"])
def snapshots_refused_later(t, how):
    """An obstacle appears between two images: no image is made after it."""
    n, command = 2, ("frozen", how, "steps=200", "from=100")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until(lambda: len(images(job)) == n, "there is an image of each rank")
        job.until_output("rank 0, step 130")
        job.kill(1)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 1, "it did not go on from an image", result)
    require(f"because it {REFUSALS[how]}" in result.err, "nothing is said", result)


@scenario(how=["SIGKILL", "SIGINT", "SIGTERM"])
def snapshots_end_with_ftrun(t, how):
    """Nothing is left of a job whose ftrun is killed or interrupted, images or ranks."""

    def interfere(job):
        job.until_output("rank 0, step 100")
        job.kill(1)
        job.until_event("live", 1, 1)
        job.until(lambda: len(images(job)) >= 3, "images")
        job.process.send_signal(getattr(signal, how))

    # The harness requires that no process is left.
    result = t.run(
        3, "frozen", "messages", "steps=4000", flags=EVERY_10_MS, interfere=interfere, limit_s=20
    )
    number = getattr(signal, how)
    code = -number if how == "SIGKILL" else 128 + number
    require(result.code == code, f"exit code {result.code}", result)


SCRIPT = """
from mpi4py import MPI
import time

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
past, total = [], 1
for step in range(300):
    time.sleep(0.001)
    request = comm.isend({"step": step, "from": rank, "total": total}, (rank + 1) % size, tag=3)
    got = comm.recv(source=(rank - 1) % size, tag=3)
    request.wait()
    assert got == {"step": step, "from": (rank - 1) % size, "total": total}, got
    total = comm.allreduce(total + step * rank) % 1000003
    past.append((step, total))
    everything = comm.gather(past[-3:], root=step % size)
    assert everything is None or everything == size * [past[-3:]]
    print(f"rank {rank}, step {step}: {total}")
print(f"rank {rank}: {hash(tuple(past))}")
"""


@scenario(sweeps=True)
def snapshots_mpi4py(t):
    """A Python program sends objects by mpi4py."""
    if os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "import mpi4py"]) != 0:
        raise Skip("no mpi4py")
    goes_on(t, 2, PYTHON, t.script("program.py", SCRIPT))


# ------------------------------------------------------------------------------- whether it is on


@scenario()
def protection_is_told(t):
    """With -v two lines; events of each round and now and then; ages in the report of SIGUSR1."""
    flags = ["-v", "--snapshots", "0.05", "--heartbeat", "0.1"]

    def interfere(job):
        job.until_event("snapshot")
        job.process.send_signal(signal.SIGUSR1)
        job.until(lambda: "newest images" in job.err(), "the report")

    result = t.run(2, "steps", "count=1500", "pause_us=1000", flags=flags, interfere=interfere)
    require(result.code == 0, f"exit code {result.code}", result)
    for pattern in (
        r"(?m)^rejoin: every rank has an image of its process, [\d.]+ m?s after the start: from now on",
        r"(?m)^rejoin: newest images: rank 0 [\d.]+ m?s old, rank 1 [\d.]+ m?s old$",
        r"(?m)^rejoin: \d+ images of ranks, at most [\d.]+ m?s of a rank's time and [\d.]+ (?:[KM]iB|bytes) "
        r"in all; the newest image of a rank was at most [\d.]+ m?s old; journal at most [\d.]+ [KM]iB$",
    ):
        require(len(re.findall(pattern, result.err)) == 1, f"no '{pattern}'", result)
    rounds, beats = result.named("snapshot"), result.named("heartbeat")
    require(len(rounds) >= 3 and len(beats) >= 3, f"{len(rounds)}, {len(beats)}", result)
    require(all(e["ranks_without"] == 0 and e["oldest_ms"] >= 0 for e in rounds), "a rank without", result)
    require(beats[-1]["snapshots"] >= 2, "not counted", result)
    require(result.events[-1]["longest_exposed_ms"] > 0, "no exposure", result)


@scenario()
def no_protection_is_told(t):
    """-v reports that a job has no images."""
    result = t.run(2, "steps", "count=3", flags=["-v", "--snapshots", "off"])
    require("\nrejoin: no images of ranks were made\n" in "\n" + result.err, "not told", result)
    require(not result.named("snapshot"), "a snapshot", result)


@scenario(bound=["1M", "1G"])
def snapshots_memory_bound(t, bound):
    """Images that take more than --memory-for-images are ended, with one line, and made again."""
    n, command = 2, ("frozen", "messages", "steps=900", "pause_us=2000", "resident=64")
    expected = t.undisturbed(n, *command)
    result = t.run(n, *command, flags=["--snapshots", "0.3", "--memory-for-images", bound])
    require(result.code == 0, f"exit code {result.code}", result)
    require_same(result, expected, n)
    said = [line for line in messages(result) if "--memory-for-images" in line]
    require(len(said) == (bound == "1M"), f"said {said}", result)
    require(len(result.named("snapshot")) >= 3, "there were no more images", result)
    end = result.named("end")[0]
    require(end["images_peak_bytes"] > 1 << 20, f"{end}", result)
    newest = result.named("snapshot")[-1]
    require(0 < newest["images_bytes"] <= end["images_peak_bytes"], f"{newest}", result)
    require(0 < newest["journal_bytes"] <= end["journal_peak_bytes"], f"{newest}", result)
