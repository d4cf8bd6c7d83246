"""Jobs on several hosts that end as a whole and go on from a directory: --checkpoint-dir, --resume."""

import contextlib
import os
import shutil
import signal
import subprocess

from harness import Skip, require, scenario
from scenarios.going_back import lose
from scenarios.hosts import agents
from scenarios.hosts_lost import newest
from scenarios.layouts import ranks_of
from scenarios.snapshots import lines_of, names_of_files
from scenarios.written_images import (
    OFTEN,
    goes_on,
    goes_on_then_deaths,
    goes_on_with_files,
    place,
    refused,
    require_whole,
    sets_in,
)

MESSAGES = ("frozen", "messages", "steps=900", "pause_us=2000")


@scenario(limit_s=300, layout=["1,1", "2,2", "2,1,1"], sweeps=True)
def written_on_hosts(t, layout):
    """ftrun is killed twice; the last job ends like one without deaths."""
    goes_on(t, ranks_of(layout), *MESSAGES, layout=layout)


@scenario(limit_s=300, sweeps=True)
def written_on_hosts_polls(t):
    """Programs with Tests and probes."""
    goes_on(t, 3, "frozen", "polls", "steps=900", "pause_us=2000", layout="1,2")


@scenario(limit_s=300, sweeps=True)
def written_on_hosts_random_program(t):
    """Random programs."""
    for seed in range(1, 20 if t.long else 3):
        goes_on(t, 4, "random_collectives", seed, 20000, 4096, layout="2,2")


@scenario(limit_s=300, sweeps=True)
def written_on_hosts_then_deaths(t):
    """Ranks of the resumed job die before their first own image, and after it."""
    goes_on_then_deaths(t, 3, layout="2,1")


@scenario(limit_s=300, sweeps=True)
def written_on_hosts_files(t):
    """Files that are added to, renamed over, and extended while they are open to be read."""
    n, command = 2, ("frozen", "files", "steps=900", "pause_us=2000")
    expected = t.run(n, *command, leaves=names_of_files(n))
    for _ in range(20 if t.long else 2):
        with place(t, "1,1") as where:
            goes_on_with_files(where, n, command, expected)


@scenario(limit_s=300)
def written_on_hosts_input(t):
    """Rank 0 has got all of its standard input when the images are written."""
    steps = 900
    command = ("frozen", "input", f"steps={steps}", "pause_us=2000")
    path = t.script("lines", "".join(f"line {i} of {steps}\n" for i in range(steps)))
    prefix = ["bash", "-c", f'exec "$@" < {path}', "bash"]
    expected = t.run(2, *command, prefix=prefix)
    with place(t, "1,1") as where:
        where.killed(2, *command, after=0.3, prefix=prefix)
        result = where.resumes(2, *command)  # without the input
        require_whole(where, result, expected, 2)


@scenario(limit_s=300, sweeps=True)
def written_on_hosts_survives(t):
    """Agents are killed, too: their ranks go on from the directory, on spares and beside others."""
    n = 4
    expected = t.undisturbed(n, *MESSAGES)

    def loses(job):
        for _ in range(2):
            before = newest(job, "stored"), newest(job, "host_lost")
            job.until(lambda: newest(job, "stored") > before[0], "another set is kept")
            job.run_for(t.rng.uniform(0, 0.1))
            os.kill(t.rng.choice(agents(job)), signal.SIGKILL)
            job.until(lambda: newest(job, "host_lost") > before[1], "the loss is noticed")

    survives = ["--survive", "host", "--spares", "1", "--oversubscribe-on-loss"]
    for _ in range(20 if t.long else 2):
        with place(t, "2,2") as where:
            where.killed(n, *MESSAGES, before=loses, flags=survives)
            result = where.run(n, *MESSAGES, resume=True, flags=survives, interfere=loses)
            require(result.code == 0, f"exit code {result.code}", result)
            require(len(result.named("host_lost")) == 2, "no host was lost", result)
            require_whole(where, result, expected, n)


# ------------------------------------------------------------------------------- what is not whole


@scenario(limit_s=300)
def written_on_hosts_part_is_missing(t):
    """One host has no part of the newest set: the job goes on from the one before."""
    expected = t.undisturbed(2, *MESSAGES)
    with place(t, "1,1") as where:
        result = where.killed(2, *MESSAGES, count=3)
        whole = sorted(set(sets_in(where.places[0])) & set(sets_in(where.places[1])))
        require(len(whole) >= 2, f"the sets are {whole}", result)
        shutil.rmtree(f"{where.places[1]}/images-{whole[-1]}.rejoin")
        result = where.resumes(2, *MESSAGES)
        require("looking for an older set" in result.err, "it does not say so", result)
        require(f"set {whole[-2]}, the state" in result.err, "it is another set", result)
        require_whole(where, result, expected, 2)


@scenario(limit_s=300)
def written_on_hosts_part_is_damaged(t):
    """A byte of an image is another one: the agent that reads it says which, and nothing runs."""
    with place(t, "1,1") as where:
        where.killed(2, *MESSAGES)
        newest_set = max(set(sets_in(where.places[0])) & set(sets_in(where.places[1])))
        with open(f"{where.places[1]}/images-{newest_set}.rejoin/image-1", "r+b") as file:
            file.seek(100_000)
            byte = file.read(1)
            file.seek(100_000)
            file.write(bytes([byte[0] ^ 1]))
        result = where.run(2, *MESSAGES, resume=True)
        require(result.code == 1 and not result.out, f"exit code {result.code}", result)
        require("image-1 has a wrong checksum" in result.err, "it does not say so", result)


@scenario(limit_s=300)
def written_on_hosts_of_two_jobs(t):
    """The parts of two jobs with one number are no set."""
    with place(t, "1,1") as where, place(t, "1,1") as other:
        for each in (where, other):
            each.killed(2, *MESSAGES)
        parts = [sets_in(each.places[1]) for each in (where, other)]
        shutil.rmtree(where.places[1])
        shutil.copytree(other.places[1], where.places[1])
        for old, new in zip(parts[1], parts[0]):
            if old != new:
                os.rename(f"{where.places[1]}/images-{old}.rejoin", f"{where.places[1]}/images-{new}.rejoin")
        result = where.run(2, *MESSAGES, resume=True)
        require(result.code == 1 and not result.out, f"exit code {result.code}", result)
        require("has no set of images of which all 2 hosts" in result.err, "it does not say so", result)


@scenario(limit_s=300)
def written_on_hosts_refused(t):
    """Another layout, one host, and a directory that has sets already."""
    with place(t, "1,1") as where:
        where.killed(2, *MESSAGES)
        result = where.run(2, *MESSAGES)
        require(result.code == 1 and "add --resume" in result.err, "it runs", result)
        where.often = [flag for flag in where.often if flag not in ("--layout", "1,1", "--between-nodes", "sockets")]
        refused(where, "holds images of a job on several hosts", MESSAGES)
        where.often += ["--layout", "2,1", "--between-nodes", "sockets"]
        result = where.run(3, *MESSAGES, resume=True)
        require(result.code == 1 and "not by --layout 2,1" in result.err, "it runs", result)
        where.often[where.often.index("--snapshots") + 1] = "off"
        result = where.run(3, *MESSAGES, resume=True)
        require(result.code == 2 and "needs snapshots" in result.err, "it runs", result)


@scenario(limit_s=300)
def written_on_hosts_not_shared(t):
    """One host has another directory by that name: it says so, and nothing runs."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("may not make a mount namespace")
    with place(t) as where:
        hides = f'"mount -t tmpfs none {where.sets} && $*"'
        text = f'#!/bin/sh\nhost=$1\nshift\n[ $host = 127.0.0.2 ] && exec unshare -m sh -c {hides}\nexec sh -c "$*"\n'
        flags = ["-H", "127.0.0.3:1,127.0.0.2:1", "--remote-shell", t.script("shell", text)]
        result = where.run(2, *MESSAGES, flags=flags)
        require(result.code == 1 and not result.out, f"exit code {result.code}", result)
        said = "127.0.0.2: --checkpoint-dir", "is not the directory that ftrun uses"
        require(all(words in result.err for words in said), "it does not say so", result)


# ---------------------------------------------------------------------------------------- notices


@scenario(limit_s=300, hosts=["one", "two", "survives"], sweeps=True)
def notice(t, hosts):
    """SIGTERM is a notice: the job writes its state, ends with a code of its own, and goes on later."""
    n, command = 2, ("frozen", "messages", "steps=700", "pause_us=2000")
    expected = t.undisturbed(n, *command)
    more = ["--survive", "host", "--spares", "1"] if hosts == "survives" else []

    def noticed(job):
        job.until_event("init")
        job.run_for(t.rng.uniform(0, 0.6))
        job.process.terminate()

    for _ in range(20 if t.long else 2):
        with place(t, None if hosts == "one" else "1,1") as where:
            where.often = [*where.often[len(OFTEN) :], *more]  # no set is due in that time
            for resume in (False, True):
                result = where.run(n, *command, resume=resume, flags=["--grace", "20"], interfere=noticed)
                require(result.code == 75, f"exit code {result.code}", result)
                require("--resume goes on from there" in result.err, "it does not say so", result)
            result = where.run(n, *command, resume=True)
            require(result.code == 0, f"exit code {result.code}", result)
            require_whole(where, result, expected, n)


@scenario(limit_s=300)
def notice_again(t):
    """A second signal ends the job at once; without --grace, the first one does."""
    command = ("frozen", "messages", "steps=700", "pause_us=2000")

    def twice(job):
        job.until_event("init")
        job.process.terminate()
        job.process.terminate()
        job.run_for(0.05)
        job.process.terminate()

    for flags, codes in ((["--grace", "20"], (143, 75)), ([], (143,))):
        with place(t, "1,1") as where:
            where.often = where.often[len(OFTEN) :]
            result = where.run(2, *command, flags=flags, interfere=twice)
            require(result.code in codes, f"exit code {result.code}", result)


@scenario(limit_s=300, sweeps=True)
def notice_of_a_host(t):
    """An agent gets SIGTERM: the ranks of its host go on elsewhere, from a state that is new."""
    n, command = 4, ("frozen", "messages", "steps=700", "pause_us=2000")
    expected = t.undisturbed(n, *command)

    def noticed(job):
        for _ in range(2):
            job.until_event("init")
            job.run_for(t.rng.uniform(0, 0.2))
            before = newest(job, "rollback")
            os.kill(t.rng.choice(agents(job)), signal.SIGTERM)
            job.until(lambda: newest(job, "rollback") > before, "its ranks have moved")

    flags = ["--layout", "2,2", "--between-nodes", "sockets", "--survive", "host", "--spares", "2"]
    for _ in range(20 if t.long else 2):
        result = t.run(n, *command, flags=flags, interfere=noticed)
        require(result.code == 0, f"exit code {result.code}", result)
        require("was given notice" in result.err, "it does not say so", result)
        for rank in range(n):
            require(lines_of(result.out, rank) == lines_of(expected.out, rank), f"output of rank {rank}", result)


# ------------------------------------------------------------------------- a job that begins again


def require_lines(result, expected, ranks, most):
    """Requires each rank's lines in their order, but that it may go back to an earlier one so often."""
    for rank in range(ranks):
        lines, back, at = lines_of(expected.out, rank), 0, -1
        numbers = {line: i for i, line in enumerate(lines)}
        for line in lines_of(result.out, rank):
            require(line in numbers, f"rank {rank} prints {line!r}", result)
            require(numbers[line] <= at + 1, f"rank {rank} leaves out what is before {line!r}", result)
            back += numbers[line] <= at
            at = numbers[line]
        require(at == len(lines) - 1, f"rank {rank} ends after line {at}", result)
        require(back <= most, f"rank {rank} went back {back} times", result)


def kills_agents(t, times, at_once):
    """Kills agents when another set is written, so many together."""

    def interfere(job):
        for _ in range(times):
            before = newest(job, "images"), newest(job, "begin_again")
            job.until(lambda: newest(job, "images") > before[0], "another set is written")
            job.run_for(t.rng.uniform(0, 0.05))
            first, *others = t.rng.sample(agents(job), at_once)
            os.kill(first, signal.SIGKILL)
            for pid in others:
                # Without a spare the job begins again at once, so this one may have ended already.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            job.until(lambda: newest(job, "begin_again") > before[1], "the job begins again")

    return interfere


def lose_when_written(job):
    """Rank 1 dies with its images, when a set is written."""
    job.until(lambda: newest(job, "images"), "a set is written")
    lose(job, 1)
    job.until(lambda: newest(job, "begin_again"), "the job begins again")


@scenario(way=["one", "two"], sweeps=True, limit_s=300)
def begins_again_on_hosts(t, way):
    """A host is lost without --survive host, or two at once: ftrun begins again from the newest set."""
    layout, flags = ("2,1", []) if way == "one" else ("1,1,1", ["--survive", "host", "--spares", "1", "--lease", "60"])
    expected = t.undisturbed(3, *MESSAGES)
    for _ in range(30 if t.long else 2):
        with place(t, layout) as where:
            interfere = kills_agents(t, 2, 1 if way == "one" else 2)
            result = where.run(3, *MESSAGES, flags=flags, interfere=interfere)
            require(result.code == 0, f"exit code {result.code}", result)
            require(len(result.named("begin_again")) == 2, "it did not begin again twice", result)
            require(sum("rejoin: going on from " in line for line in result.err.splitlines()) == 2, "no line", result)
            require_lines(result, expected, 3, 2)


@scenario(by=["SIGINT", "SIGTERM"], hosts=["one", "two"], sweeps=True, limit_s=300)
def ends_instead_of_beginning_again(t, by, hosts):
    """A signal at any moment of a job that begins again ends it: as a notice, if it is one."""
    kill = kills_agents(t, 1, 1) if hosts == "two" else lose_when_written

    def interfere(job):
        kill(job)
        job.run_for(t.rng.uniform(0, t.rng.choice([0.03, 0.4])))
        job.process.send_signal(signal.Signals[by])

    for _ in range(100 if t.long else 6):
        with place(t, "1,1" if hosts == "two" else None) as where:
            result = where.run(2, *MESSAGES, flags=["--grace", "20"], interfere=interfere)
            ends_as = 128 + signal.SIGINT if by == "SIGINT" else 75
            require(result.code == ends_as, f"exit code {result.code}", result)
            require(result.events[-1]["event"] == "end", "no end", result)
            require(result.events[-1]["code"] == ends_as, f"{result.events[-1]}", result)
            require(by == "SIGINT" or "--resume goes on from" in result.err, "it does not say how to go on", result)


@scenario(limit_s=300)
def begins_again_on_hosts_without_input(t):
    """What was read from a pipe cannot be read again: the job ends, and one line says why."""
    given = ["bash", "-c", 'exec "$@" < <(seq 1000000)', "bash"]
    with place(t, "1,1") as where:
        command = ("frozen", "input", "steps=600", "pause_us=3000")
        result = where.run(2, *command, prefix=given, interfere=kills_agents(t, 1, 1))
        require(result.code == 1, f"exit code {result.code}", result)
        require(result.err.count("read standard input, which can be read only once") == 1, "no reason", result)
        require(result.events[-1]["event"] == "end" and result.events[-1]["code"] == 1, "no end", result)
