"""Programs of which no two runs are the same: when a replay differs, all ranks go back to a set of images."""

import os
import re
import signal

from harness import Kill, require, require_met, returns_by_kind, scenario
from processes import images
from scenarios.endings import messages
from scenarios.hybrid import openmp
from scenarios.layouts import ranks_of
from scenarios.snapshots import at_random, require_same
from scenarios.written_images import place

EVERY_50_MS = ["--snapshots", "0.05", "--max-restarts", "100000"]
LINE = re.compile(r"rank (\d+), step (\d+): (\w+) (\w+)")


def judge(result, ranks, steps, before=""):
    """The last line of each step continues the last line of the step before, and all ranks agree.
    before: what jobs from which this one has gone on have printed."""
    require(result.code == 0, f"exit code {result.code}", result)
    last = {}
    for found in map(LINE.fullmatch, (before + result.out).splitlines()):
        require(found is not None, "a line is torn", result)
        last[int(found[1]), int(found[2])] = (found[3], found[4])
    for rank in range(ranks):
        before = last[0, 1][0]
        for step in range(1, steps + 1):
            require((rank, step) in last, f"rank {rank} has no line of step {step}", result)
            require(last[rank, step][0] == before, f"step {step} of rank {rank} follows another", result)
            before = last[rank, step][1]
            require(last[rank, step] == last[0, step], f"ranks disagree in step {step}", result)


def at_random_behind_a_set(rng):
    """Kills at random. The first images may be no set, because a rank was not there yet."""

    def interfere(job):
        job.until(lambda: sum(event["event"] == "snapshot" for event in job.events) > 3, "there is a set")
        at_random(rng)(job)

    return interfere


def goes_back(t, ranks, how, steps, *arguments, flags=(), few=2, many=200):
    command = ("drift", f"how={how}", f"steps={steps}", "pause_us=500", *arguments)
    rollbacks = 0
    for _ in t.runs(few, many, lambda: rollbacks):
        every = [*EVERY_50_MS, *flags]
        result = t.run(ranks, *command, flags=every, interfere=at_random_behind_a_set(t.rng))
        judge(result, ranks, steps)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)


@scenario(how=["values", "choices"], n=[2, 3, 4], sweeps=True, limit_s=240)
def back_to_a_set(t, how, n):
    """Random deaths of a program that contributes, sends and asks something else each time."""
    goes_back(t, n, how, 800)


@scenario(every=[1, 7], sweeps=True, limit_s=240)
def back_to_a_set_with_checkpoints(t, every):
    """The program makes checkpoints, of models that are others each time."""
    goes_back(t, 3, "values", 800, f"checkpoints={every}")


def a_few_times(t, hosts=1):
    """Kills a rank every 20 to 60 ms, some times, once each rank has an image: each host says that of
    its own ranks, and has said it twice then."""

    def interfere(job):
        snapshots = lambda: sum(event["event"] == "snapshot" for event in job.events)
        job.until(lambda: snapshots() >= 2 * hosts - 1, "each rank has an image")
        for _ in range(8):
            job.run_for(t.rng.uniform(0.02, 0.06))
            if job.pids:
                job.kill(t.rng.choice(sorted(job.pids)))

    return interfere


def judge_files(result, directory, ranks):
    """Each rank has appended each step to its log once, and has left its directories."""
    judge(result, ranks, 400)
    for rank in range(ranks):
        with open(f"{directory}/log.{rank}", encoding="ascii") as log:
            lines = log.read().splitlines()
        steps = [int(line.split()[0]) for line in lines]
        require(steps == list(range(1, 401)), f"the log of rank {rank} has steps {steps}", result)
        before = [line.split()[1] for line in lines[1:]]
        require(before == [line.split()[2] for line in lines[:-1]], "a line follows another", result)
    names = sorted(os.listdir(directory))
    wanted = [f"directory.{rank}.{step}" for rank in range(ranks) for step in range(1, 401)]
    require(names == sorted([*wanted, *(f"log.{rank}" for rank in range(ranks))]), f"{names}", result)


@scenario(where=["memory", "directory"], sweeps=True, limit_s=240)
def back_with_files(t, where):
    """Files that were appended to, made or renamed since the set are as they were at it."""
    command = ("drift", "how=values", "steps=400", "pause_us=500", "files=1")
    rollbacks = 0
    for _ in t.runs(2, 50, lambda: rollbacks):
        with place(t) as there:
            there.often = [*EVERY_50_MS, "--checkpoint-every", "0.1"]
            flags = there.flags() if where == "directory" else [*EVERY_50_MS, "--wdir", there.work]
            result = t.run(3, *command, flags=flags, interfere=a_few_times(t))
            judge_files(result, there.work, 3)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)


@scenario(sweeps=True, limit_s=240)
def back_to_a_set_openmp(t):
    """Threads of OpenMP add doubles in any order."""
    goes_back(t, 2, "openmp", 800, flags=openmp(4))


@scenario(how=["values", "choices"], sweeps=True, limit_s=240)
def back_to_a_written_set(t, how):
    """The end of the whole job: it goes on from a written set without repeating anything."""
    command = ("drift", f"how={how}", "steps=800", "pause_us=1500")
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            where.killed(3, *command, after=0.2)
            where.killed(3, *command, count=1, after=0.2, resume=True)
            result = where.resumes(3, *command)
            judge(result, 3, 800, before="".join(where.out[:-1]))
            require(not result.named("rollback"), "a rank repeated something", result)


@scenario(how=["values", "choices"], sweeps=True, limit_s=240)
def output_that_is_committed(t, how):
    """With --commit-output every line is shown exactly once, although all ranks go back."""
    command = ("drift", f"how={how}", "steps=800", "pause_us=500")
    rollbacks = 0
    for _ in t.runs(2, 100, lambda: rollbacks):
        flags = [*EVERY_50_MS, "--commit-output"]
        result = t.run(3, *command, flags=flags, interfere=at_random_behind_a_set(t.rng))
        judge(result, 3, 800)
        require(len(result.out.splitlines()) == 3 * 800, "a line was shown twice", result)
        require(" void" not in result.err, "a line was taken back", result)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)


def lose(job, rank):
    """Kills a rank and all of its images before ftrun sees the death of one."""
    job.until(lambda: images(job, rank), "there is an image")
    job.process.send_signal(signal.SIGSTOP)
    for pid in images(job, rank):
        os.kill(pid, signal.SIGKILL)
    job.kill(rank)
    job.process.send_signal(signal.SIGCONT)


@scenario(from_what=["set", "main", "nothing"], limit_s=240)
def begins_again(t, from_what):
    """A rank dies with its image: the job begins again from a written set, or at main, or ends."""
    command = ("drift", "how=values", "steps=800", "pause_us=1500")
    with place(t) as where:
        where.often = ["--snapshots", "0.1", "--checkpoint-every", "0.2"]
        flags = where.flags() if from_what == "set" else EVERY_50_MS
        flags = [*flags, *(["--begin-again"] if from_what == "main" else [])]

        def interfere(job):
            for incarnation in range(2):
                if from_what == "set":
                    where.whole(job, count=2 * incarnation + 2)
                else:
                    job.run_for(0.5)
                    job.until_event("snapshot")
                lose(job, 1)
                if from_what == "nothing":
                    return
                begun = lambda: sum(event["event"] == "begin_again" for event in job.events) > incarnation
                job.until(begun, "the job begins again")

        result = t.run(2, *command, flags=flags, interfere=interfere)
        if from_what == "nothing":
            said = [line for line in messages(result) if "cannot be started again: " in line]
            require(result.code == 1 and len(said) == 1, f"exit code {result.code}", result)
            return
        judge(result, 2, 800)
        said = [line for line in messages(result) if line.endswith("; the job begins again")]
        require(len(said) == 2, f"said {said}", result)
        summary = result.named("summary")[0]
        require(summary["beginnings"] == 2, f"{summary}", result)
        require(summary["deaths"] == 2, f"{summary}", result)


@scenario(moment=["inside", "after"], program=["drift", "thread_ring"])
def back_after_the_end(t, moment, program):
    """A rank dies in MPI_Finalize, or behind it: ranks that have ended well already go back, too."""
    command = {"drift": ("drift", "how=values", "steps=400", "pause_us=500"), "thread_ring": ("thread_ring", "20000", "2")}
    for _ in range(20 if t.long else 3):
        result = t.run(3, *command[program], kills=[Kill(1, "finalize", moment)], flags=EVERY_50_MS)
        if program == "drift":
            judge(result, 3, 400)
        else:
            require_met("there is no set of snapshots" not in result.err, "a set before the death", result)
            require(result.code == 0, f"exit code {result.code}", result)
            require_same(result, t.undisturbed(3, *command[program]), 3)
        if not result.named("rollback"):
            # Its newest image is from behind the last random number, so the replay does not diverge.
            require(returns_by_kind(result)["image"] == 1, "rank 1 did not come back", result)
            continue
        require(len(result.named("rollback")) == 1, "the ranks did not go back once", result)
        back = result.events.index(result.named("rollback")[0])
        ended = [event["rank"] for event in result.events[:back] if event["event"] == "exit"]
        if ended:
            require(len(result.named("exit", ended[0])) == 2, "a rank that had ended did not go on", result)
            return
    require_met(False, "no rank had ended before", result)


@scenario()
def begins_again_impossible(t):
    """What was read from a pipe cannot be read again: one line says so, and the events have an end."""
    command = ("frozen", "input", "steps=600", "pause_us=3000")

    def interfere(job):
        job.until_output("rank 0, step 20")
        lose(job, 1)

    given = ["bash", "-c", 'exec "$@" < <(seq 1000000)', "bash"]
    flags = [*EVERY_50_MS, "--begin-again"]
    result = t.run(2, *command, flags=flags, prefix=given, interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    said = [line for line in messages(result) if "read standard input, which can be read only once" in line]
    require(len(said) == 1, "it does not say why", result)
    require(result.events[-1]["event"] == "end" and result.events[-1]["code"] == 1, "no end", result)


@scenario(how=["values", "choices"], layout=["1,1", "2,1", "2,2", "1,1,1"], sweeps=True, limit_s=240)
def back_to_a_set_of_hosts(t, how, layout):
    """The same on several hosts: their agents put their journals back, and begin new connections."""
    flags = ["--layout", layout, "--between-nodes", "sockets"]
    goes_back(t, ranks_of(layout), how, 800, flags=flags)


@scenario(layout=["1,1", "2,1"], sweeps=True, limit_s=240)
def output_of_hosts_that_is_committed(t, layout):
    """And no line is shown twice with --commit-output."""
    ranks = ranks_of(layout)
    flags = [*EVERY_50_MS, "--commit-output", "--layout", layout, "--between-nodes", "sockets"]
    rollbacks = 0
    for _ in t.runs(2, 100, lambda: rollbacks):
        interfere = at_random_behind_a_set(t.rng)
        result = t.run(ranks, "drift", "how=values", "steps=800", "pause_us=500", flags=flags, interfere=interfere)
        judge(result, ranks, 800)
        require(len(result.out.splitlines()) == ranks * 800, "a line was shown twice", result)
        require(" void" not in result.err, "a line was taken back", result)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)


@scenario(layout=["1,1", "2,1"], sweeps=True, limit_s=240)
def back_with_files_of_hosts(t, layout):
    """Files of ranks of several hosts are as they were at the set."""
    ranks, rollbacks = ranks_of(layout), 0
    command = ("drift", "how=values", "steps=400", "pause_us=500", "files=1")
    for _ in t.runs(2, 50, lambda: rollbacks):
        with place(t) as there:
            flags = [*EVERY_50_MS, "--wdir", there.work, "--layout", layout, "--between-nodes", "sockets"]
            result = t.run(ranks, *command, flags=flags, interfere=a_few_times(t, 2))
            judge_files(result, there.work, ranks)
        rollbacks += len(result.named("rollback"))
    require(rollbacks > 0, "the ranks never went back", result)
