"""The loss of a host: its ranks go on on another one, from the set of images that is kept there."""

import contextlib
import os
import signal
import subprocess
import tempfile

from harness import Skip, require, scenario
from processes import descendants, is_alive, proc_text
from scenarios.endings import messages
from scenarios.going_back import judge
from scenarios.hosts import agents, flags_of, named
from scenarios.layouts import ranks_of
from scenarios.snapshots import lines_of

EVERY_50_MS = ["--snapshots", "0.05", "--max-restarts", "100000"]


def survives(layout, *more):
    return [*EVERY_50_MS, *flags_of(layout, *more), "--survive", "host"]


def newest(job, name):
    """How many events of this name there were."""
    return sum(event["event"] == name for event in job.events)


def loses(t, times, before=None):
    """Kills agents, one after the other, each time when all parts of a set are with other hosts."""

    def interfere(job):
        for _ in range(times):
            sets = newest(job, "stored")
            job.until(lambda: newest(job, "stored") > sets, "another set is kept")
            job.run_for(t.rng.uniform(0, 0.05))
            if before:
                before(job)
            lost = newest(job, "host_lost")
            os.kill(t.rng.choice(agents(job)), signal.SIGKILL)
            job.until(lambda: newest(job, "host_lost") > lost, "the loss is noticed")

    return interfere


def judge_lost(t, result, ranks, steps, times):
    judge(result, ranks, steps)
    require(len(result.named("host_lost")) == times, f"{len(result.named('host_lost'))} hosts were lost", result)
    require(len(result.named("rollback")) >= times, "the ranks did not go back", result)


def drifts(t, layout, times, *more, before=None):
    """Runs a program of which no two runs are the same, and loses hosts meanwhile."""
    ranks, steps = ranks_of(layout), 2500
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    for _ in range(50 if t.long else 2):
        result = t.run(ranks, *command, flags=survives(layout, *more), interfere=loses(t, times, before))
        judge_lost(t, result, ranks, steps, times)


@scenario(layout=["1,1", "2,2", "1,1,1"], sweeps=True, limit_s=240)
def host_is_lost(t, layout):
    """Agents are killed, and with them the ranks of their hosts; spares take their places."""
    drifts(t, layout, 3, "--spares", "3")


@scenario(layout=["1,1", "2,2"], program=["small", "large", "sums"], sweeps=True, limit_s=240)
def host_is_lost_prints_once(t, layout, program):
    """A deterministic program: what it prints is what it prints undisturbed, no line twice or never."""
    small = ("frozen", "messages", "steps=700", "pause_us=2000")
    large = ("relayed", "steps=2500", "kib=128", "pause_us=2000", f"sums={int(program == 'sums')}")
    ranks, command = ranks_of(layout), small if program == "small" else large
    expected = t.undisturbed(ranks, *command)
    for _ in range(50 if t.long else 2):
        result = t.run(ranks, *command, flags=survives(layout, "--spares", "2"), interfere=loses(t, 2))
        require(result.code == 0, f"exit code {result.code}", result)
        for rank in range(ranks):
            require(lines_of(result.out, rank) == lines_of(expected.out, rank), f"output of rank {rank}", result)


def agent_of(job, rank):
    """The agent of the host of a rank."""
    pid, found = job.pids[rank], agents(job)
    while pid not in found:
        pid = int(proc_text(pid, "stat").rpartition(")")[2].split()[1])
    return pid


@scenario(sweeps=True, limit_s=240)
def two_hosts_are_lost(t):
    """Two at once, or one while the ranks of the other are being started: others have their parts."""
    ranks, steps = 4, 1500
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")

    def interfere(job):
        job.until(lambda: newest(job, "stored") > 0, "a set is kept")
        job.run_for(t.rng.uniform(0, 0.05))
        victims = [agent_of(job, rank) for rank in t.rng.choice([(1, 3), (0, 2)])]
        for pid in t.rng.sample(victims, 2):
            os.kill(pid, signal.SIGKILL)
            job.run_for(t.rng.choice([0, t.rng.uniform(0, 0.3)]))
        job.until(lambda: newest(job, "host_lost") == 2, "both losses are noticed")

    for _ in range(100 if t.long else 3):
        flags = survives("1,1,1,1", "--spares", "2")
        result = t.run(ranks, *command, flags=flags, interfere=interfere)
        judge(result, ranks, steps)
        require(len(result.named("host_lost")) == 2, "not two hosts were lost", result)
        require(result.named("rollback"), "the ranks did not go back", result)


@scenario(sweeps=True, limit_s=240)
def host_is_lost_and_its_successor(t):
    """The agent that takes the place of a lost one is killed, too, while it is being started."""
    ranks, steps = 3, 1500
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")

    def interfere(job):
        job.until(lambda: newest(job, "stored") > 0, "a set is kept")
        before = set(agents(job))
        os.kill(agent_of(job, 1), signal.SIGKILL)
        [new, *_] = job.until(lambda: [pid for pid in agents(job) if pid not in before], "another agent is started")
        job.run_for(t.rng.uniform(0, 0.02))
        os.kill(new, signal.SIGKILL)

    for _ in range(100 if t.long else 3):
        result = t.run(ranks, *command, flags=survives("1,1,1", "--spares", "2"), interfere=interfere)
        judge(result, ranks, steps)
        require(len(result.named("host_lost")) == 2, "not two hosts were lost", result)


@scenario()
def host_is_lost_with_its_files(t):
    """The host that takes over has no files of --output-filename yet: it writes the rest into new ones."""
    command = ("frozen", "messages", "steps=700", "pause_us=2000")
    expected = t.undisturbed(2, *command)
    with tempfile.TemporaryDirectory(prefix="kill-test-") as out:
        ours, lost = f"{out}/rank.1", f"{out}/lost"

        def interfere(job):
            job.until(lambda: newest(job, "stored") > 0, "a set is kept")
            victim = agents(job)[1]
            os.kill(victim, signal.SIGSTOP)
            os.rename(ours, lost)
            os.kill(victim, signal.SIGKILL)
            job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")

        flags = survives("1,1", "--spares", "1", "--output-filename", out)
        result = t.run(2, *command, flags=flags, interfere=interfere)
        require(result.code == 0, f"exit code {result.code}", result)
        written = ""
        for directory in (lost, ours):
            with open(f"{directory}/stdout") as file:
                written += file.read()
    wanted = [line for line in expected.out.split("\n") if line.startswith("rank 1")]
    found = [line for line in written.split("\n") if line.startswith("rank 1")]
    require(wanted and found == wanted, f"{len(found)} lines of rank 1, and not {len(wanted)}", result)


@scenario(layout=["1,1", "2,1"], sweeps=True, limit_s=240)
def host_is_lost_while_all_go_back(t, layout):
    """A rank has died and its replay differs, so all ranks are going back when an agent dies."""

    def before(job):
        if job.pids:
            job.kill(t.rng.choice(sorted(job.pids)))
        job.run_for(t.rng.uniform(0, 0.02))

    drifts(t, layout, 4, "--oversubscribe-on-loss", before=before)


@scenario(layout=["1,1", "2,1"], sweeps=True, limit_s=240)
def host_is_lost_without_spare(t, layout):
    """Its ranks go on beside those of the host that has its part; ranks and relays die as well."""

    def before(job):
        if job.pids and t.rng.random() < 0.5:
            job.kill(t.rng.choice(sorted(job.pids)))
        found = named(job, "ftrun-relay")
        if found and t.rng.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(t.rng.choice(found), signal.SIGKILL)

    drifts(t, layout, 3, "--oversubscribe-on-loss", before=before)


@scenario()
def host_is_lost_and_no_other_is_left(t):
    """One line says what was lost, and what to do about it."""
    result = t.run(2, "drift", "how=values", "steps=2500", "pause_us=500", flags=survives("1,1"), interfere=loses(t, 1))
    require(result.code == 1, f"exit code {result.code}", result)
    said = [line for line in messages(result) if "no spare host is left" in line]
    require(len(said) == 1, "it does not say why", result)


# As a remote shell: what it has started does not end with it, and sees no processes of other hosts.
APART = """#!/bin/sh
shift
exec 3<&0
setsid unshare --pid --fork --mount-proc sh -c "$*" <&3 3<&- &
exec 3<&-
wait
"""


@scenario(sweeps=True, limit_s=120)
def host_is_frozen(t):
    """A host does nothing any more, and wakes up when its ranks have gone on elsewhere: it ends by
    itself, and no other host has listened to it."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Skip("a namespace for processes needs root")
    flags = ["-H", "127.0.0.2:2,127.0.0.3:2,127.0.0.4:2", "--remote-shell", t.script("shell", APART)]
    flags += [*EVERY_50_MS, "--survive", "host", "--spares", "1", "--lease", "2"]

    def interfere(job):
        job.until(lambda: newest(job, "stored") > 0, "a set is kept")
        all_agents = agents(job)
        victim = t.rng.choice(all_agents)
        frozen = [victim, *descendants(victim)]
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        job.until(lambda: newest(job, "rollback") > 0, "the silence is noticed")
        job.run_for(0.2)
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        job.until(lambda: not is_alive(victim), "the agent has ended")

    for _ in range(20 if t.long else 1):
        result = t.run(4, "drift", "how=values", "steps=2500", "pause_us=500", flags=flags, interfere=interfere)
        judge_lost(t, result, 4, 2500, 1)
        require("was silent for more than 2.0 s" in result.err, "it does not say why", result)


# As a remote shell: what it has started does not end with it.
ALONE = """#!/bin/sh
shift
exec 3<&0
setsid sh -c "$*" <&3 3<&- &
exec 3<&-
wait
"""


def alone(t, layout, *more):
    """Options for hosts whose agents outlive their remote shells, and a spare."""
    hosts = [f"127.0.0.{i}:{ranks}" for i, ranks in enumerate(layout, 2)]
    flags = ["-H", ",".join([*hosts, "127.0.0.9:2"]), "--remote-shell", t.script("shell", ALONE)]
    return [*flags, *EVERY_50_MS, "--survive", "host", "--spares", "1", *more]


@scenario(layout=["1,1", "2,2"], sweeps=True, limit_s=120)
def host_has_a_stopped_agent(t, layout):
    """An agent is stopped while its machine runs: when its ranks go on elsewhere, they are gone here,
    and so is the agent."""
    slots = [int(ranks) for ranks in layout.split(",")]

    def interfere(job):
        job.until(lambda: newest(job, "stored") > 0, "a set is kept")
        job.run_for(t.rng.uniform(0, 0.1))
        victim = t.rng.choice(agents(job))
        while len(below := descendants(victim)) < 3:  # the spare
            victim = t.rng.choice(agents(job))
        os.kill(victim, signal.SIGSTOP)
        try:
            job.until(lambda: newest(job, "rollback") > 0, "the silence is noticed")
            left = [f"{pid} {proc_text(pid, 'cmdline')}" for pid in ranks_among(below) if is_alive(pid)]
            require(not left, f"ranks of the stopped agent are left: {left}", job)
            job.until(lambda: not any(is_alive(pid) for pid in [victim, *below]), "nothing is left of its host")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    for _ in range(20 if t.long else 1):
        flags = alone(t, slots, "--lease", "3")
        result = t.run(sum(slots), "drift", "how=values", "steps=4000", "pause_us=500", flags=flags, interfere=interfere)
        judge_lost(t, result, sum(slots), 4000, 1)
        require("silent for" in result.err, "it does not say why", result)


def ranks_among(pids):
    """Those of these processes that are ranks, as images are, too."""
    return [pid for pid in pids if not proc_text(pid, "comm").startswith("ftrun")]


@scenario(what=["lowest", "removal"], sweeps=True, limit_s=240)
def host_is_slow_not_lost(t, what):
    """What an agent does in the background stands still for longer than a lease: it is not lost."""
    text = ALONE.replace("setsid sh", f"LD_PRELOAD={t.program('slow')} REJOIN_TEST_SLOW={what} setsid sh")
    flags = alone(t, [1, 1], "--lease", "2")
    flags[flags.index("--remote-shell") + 1] = t.script("slow_shell", text)

    def interfere(job):
        job.until(lambda: newest(job, "stored") > 2, "sets are kept")
        job.run_for(5)

    for _ in range(5 if t.long else 1):
        result = t.run(2, "drift", "how=values", "steps=9000", "pause_us=500", flags=flags, interfere=interfere)
        judge(result, 2, 9000)
        require(not result.named("host_lost"), "a host was lost", result)


# A remote shell whose connection carries 8 MB a second.
NARROW = """#!/usr/bin/env python3
import subprocess, sys, time
agent = subprocess.Popen(["sh", "-c", " ".join(sys.argv[2:])], stdout=subprocess.PIPE)
while data := agent.stdout.read1(1 << 16):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    time.sleep(len(data) / 8e6)
sys.exit(agent.wait())
"""


@scenario(limit_s=120)
def host_is_loud_not_lost(t):
    """What ranks print takes longer to ftrun than a lease: their hosts answer meanwhile."""
    flags = ["-H", "127.0.0.2:1,127.0.0.3:1", "--remote-shell", t.script("narrow", NARROW)]
    flags += ["--survive", "host", "--lease", "2"]
    result = t.run(2, "/bin/sh", "-c", "yes 0123456789abcdef | head -n 1000000", flags=flags)
    require(result.code == 0, f"exit code {result.code}", result)
    require(not result.named("host_lost"), "a host was lost", result)
    require(result.out == "0123456789abcdef\n" * 2_000_000, f"{len(result.out)} bytes of output", result)
