"""Jobs whose nodes have an agent, a journal and a relay each, joined by connections."""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time

from harness import Kill, Skip, require, scenario
from network import network
from processes import descendants, proc_text
from scenarios.endings import messages
from scenarios.layouts import ranks_of
from scenarios.snapshots import EVERY_10_MS, at_random, judge, require_same


def flags_of(layout, *more):
    between = [] if "--between-nodes" in more else ["--between-nodes", "sockets"]
    return ["--layout", layout, *between, *more]


def named(job, name):
    """The processes of the job with this name."""
    return [pid for pid in descendants(job.process.pid) if proc_text(pid, "comm").strip() == name]


def agents(job):
    """The agents, without what one has just forked, which looks like it until it has its own name."""
    named_so = [pid for pid in descendants(job.process.pid) if proc_text(pid, "comm").strip() == "ftrun"]
    found = [pid for pid in named_so if proc_text(pid, "cmdline").endswith("ftrun agent")]
    parents = {pid: proc_text(pid, "stat").rpartition(")")[2].split()[1:2] for pid in found}
    return [pid for pid in found if parents[pid] and int(parents[pid][0]) not in found]


@scenario(layout=["1,1", "2,1,2"], sweeps=True, labels=["threads"])
def hosts_relays_die(t, layout, *more):
    """Relays are killed again and again: another one takes the place of each, and nothing is lost."""
    n = ranks_of(layout)
    command = ("layout", layout, "15")
    expected = t.undisturbed(n, *command, flags=flags_of(layout))

    def interfere(job):
        for _ in range(12):
            job.run_for(t.rng.uniform(0.002, 0.06))
            found = named(job, "ftrun-relay")
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(t.rng.choice(found), signal.SIGKILL)

    for _ in range(30 if t.long else 3):
        result = t.run(n, *command, flags=flags_of(layout, *more), interfere=interfere)
        judge(result, expected, n)


@scenario(layout=["1,1", "2,1,2"], sweeps=True, labels=["threads"])
def hosts_relays_and_ranks_die(t, layout, *more):
    """The same, while ranks die and go on from images."""
    n = ranks_of(layout)
    command = ("layout", layout, "15")
    expected = t.undisturbed(n, *command, flags=flags_of(layout))
    ranks = at_random(t.rng)

    def interfere(job):
        alone = random.Random(t.rng.random())
        killed = job.kill

        def kill(*those):
            killed(*those)
            found = named(job, "ftrun-relay")
            if found and alone.random() < 0.5:
                with contextlib.suppress(ProcessLookupError):  # the job may end meanwhile
                    os.kill(alone.choice(found), signal.SIGKILL)

        job.kill = kill
        ranks(job)

    for _ in range(30 if t.long else 2):
        result = t.run(n, *command, flags=flags_of(layout, *EVERY_10_MS, *more), interfere=interfere)
        judge(result, expected, n)


@scenario(limit_s=60)
def hosts_relay_dies_while_a_rank_is_absent(t):
    """A rank that makes no call has sockets of its relay open, so that the other relay does not see the
    end of this one: the others of its host need not wait for that rank."""
    command = ("absent", "seconds=6", "steps=1000", "pause_us=1000")
    agent_of = lambda pid: proc_text(pid, "stat").rpartition(")")[2].split()[1:2]

    def interfere(job):
        job.until_output("rank 1 is away")
        mine = lambda: [pid for pid in named(job, "ftrun-relay") if agent_of(pid) == agent_of(job.pids[1])]
        for _ in range(2):  # the second one before there is a connection
            (pid,) = job.until(mine, "there is a relay")
            os.kill(pid, signal.SIGKILL)
            job.until(lambda pid=pid: mine() not in ([], [pid]), "another one takes its place")
            job.run_for(t.rng.uniform(0, 0.1))

    result = t.run(3, *command, flags=flags_of("2,1", "--snapshots", "off"), interfere=interfere)
    require(result.code == 0, f"exit code {result.code}", result)
    lines = [line for line in result.out.splitlines() if line.startswith(("rank 1", "the others"))]
    require(lines == ["rank 1 is away", "the others are done", "rank 1 is back"], f"the order is {lines}", result)


def require_replayed(result):
    """Requires that each rank was live again only about where its predecessor had died: the journal
    answers what it sends, about half of its operations."""
    for death in result.named("death"):
        back = [e for e in result.named("live") if e["rank"] == death["rank"] and e["incarnation"] > death["incarnation"]]
        replayed = back[0]["replayed_ops"] if back else 0
        require(3 * replayed > death["position"]["ordinal"], f"rank {death['rank']} was live behind {replayed}", result)


@scenario(layout=["1,1", "2,1"], option=["images", "polls", "sums", "main"], sweeps=True, labels=["threads"])
def hosts_large_messages(t, layout, option, *more):
    """What a receiver's host has not kept of large messages is sent again to its next incarnation."""
    n = ranks_of(layout)
    command = ("relayed", "steps=60", f"polls={int(option == 'polls')}", f"sums={int(option == 'sums')}")
    expected = t.undisturbed(n, *command, flags=flags_of(layout))
    if option == "main":
        for _ in range(20 if t.long else 3):
            kills = [Kill(rank, t.rng.randrange(20, 120)) for rank in range(n) if t.rng.random() < 0.7]
            result = t.run(n, *command, kills=kills, flags=flags_of(layout, "--snapshots", "off", *more))
            require(result.code == 0 and len(result.named("death")) == len(kills), "not as killed", result)
            require_same(result, expected, n)
            require_replayed(result)
        return
    for _ in range(40 if t.long else 3):
        result = t.run(n, *command, flags=flags_of(layout, *EVERY_10_MS, *more), interfere=at_random(t.rng))
        judge(result, expected, n)


@scenario(layout=["1,1", "2,1,2"], labels=["threads"])
def hosts_relays_alone(t, layout, *more):
    """Where ranks may not have the sockets of their relay, it does everything itself; ranks die."""
    n = ranks_of(layout)
    command, flags = ("layout", layout, "10"), flags_of(layout)
    expected = t.undisturbed(n, *command, flags=flags)
    for _ in range(20 if t.long else 2):
        result = t.run(
            n, *command, flags=[*flags, *EVERY_10_MS, *more], prefix=t.forbidding("pidfd_getfd"), interfere=at_random(t.rng)
        )
        judge(result, expected, n)


@scenario(victim=[0, 1])
def hosts_agent_dies(t, victim):
    """The loss of an agent ends the job with one line; nothing is left."""
    command = ("steps", "count=4000", "pause_us=1000")

    def interfere(job):
        job.until_event("init", 1)
        found = agents(job)
        os.kill(found[victim], signal.SIGKILL)

    result = t.run(2, *command, flags=flags_of("1,1"), interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    said = [line for line in messages(result) if "the agent of host" in line]
    require(len(said) == 1, "it does not say what was lost", result)


@scenario()
def hosts_silent(t):
    """An agent that does nothing any more: the second signal ends the job all the same."""

    def interfere(job):
        job.until_event("init", 1)
        os.kill(agents(job)[1], signal.SIGSTOP)
        job.process.send_signal(signal.SIGINT)
        job.run_for(0.3)
        job.process.send_signal(signal.SIGINT)

    result = t.run(2, "steps", "count=4000", "pause_us=1000", flags=flags_of("1,1"), interfere=interfere)
    require(result.code == 128 + signal.SIGINT, f"exit code {result.code}", result)


@scenario(how=[signal.SIGKILL, signal.SIGTERM])
def hosts_ftrun_dies(t, how):
    """Nothing outlives ftrun: agents see the end of their input."""

    def interfere(job):
        job.until_event("init", 1)
        job.process.send_signal(how)

    result = t.run(4, "steps", "count=4000", "pause_us=1000", flags=flags_of("2,2"), interfere=interfere)
    require(result.code == (-how if how == signal.SIGKILL else 128 + how), f"exit code {result.code}", result)


@scenario(hosts=[1, 2])
def hosts_by_name(t, hosts):
    """Hosts of a list, or one, reached by a remote shell: two ranks die."""
    shell = t.script("shell", '#!/bin/sh\nshift\nexec sh -c "$*"\n')
    flags = ["-H", "127.0.0.2:4" if hosts == 1 else "127.0.0.2:2,127.0.0.3:2", "--remote-shell", shell]
    t.recovers(4, "steps", "count=300", kills=[Kill(0, 100), Kill(3, 120)], flags=flags, ordered=False)


SLURM_JOB = ["SLURM_JOB_NODELIST=127.0.0.[2-3]", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NNODES=2"]


def slurm(t, note=""):
    """Makes scripts that stand for Slurm's commands. srun passes on lines unless told otherwise."""
    t.script(
        "srun",
        '#!/bin/sh\ncase "$*" in *--unbuffered*) ;; *) exit 1 ;; esac\n'
        f'while [ "$1" != --nodelist ]; do shift; done\nshift; {note or "shift; "}exec "$@"\n',
    )
    names = "[ \"$*\" = 'show hostnames 127.0.0.[2-3]' ] && printf '127.0.0.2\\n127.0.0.3\\n'\n"
    asked = '[ "$1" = requeue ] && echo "$*"\n'
    return os.path.dirname(t.script("scontrol", f"#!/bin/sh\n{names}{asked}true\n"))


@scenario()
def hosts_slurm_example(t):
    """The batch script for Slurm runs its program on all hosts, asks to be requeued, and goes on."""
    expected = t.undisturbed(4, "steps", "count=900", "pause_us=2000")
    path = f"PATH={slurm(t)}:{os.path.dirname(t.ftrun)}:{os.environ['PATH']}"
    script = f"{os.path.dirname(os.path.abspath(__file__))}/../../../examples/slurm.sbatch"
    command = ["env", path, *SLURM_JOB, "SLURM_JOB_ID=7", script, t.program("steps"), "count=900", "pause_us=2000"]
    with tempfile.TemporaryDirectory(prefix="kill-test-") as work:
        begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=work)
        time.sleep(0.8)
        begun.terminate()
        out, err = begun.communicate(timeout=60)
        require(begun.returncode == 75 and "requeue 7" in out, f"{begun.returncode} {err}", expected)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=work)
        require(done.returncode == 0 and "going on from saved-7" in done.stderr, done.stderr, expected)
        last = expected.out.strip().split("\n")[-1]
        require(done.stdout.strip().split("\n")[-1] == last, f"{done.stdout[-200:]} is not {last}", expected)


@scenario(system=["slurm", "pbs", "lsf", "hydra", "openmpi"])
def hosts_of_allocation(t, system):
    """Without options a job runs on the hosts of its allocation; a rank of each dies."""
    reached = t.script("reached", "")
    note = f'echo "$1" >> {reached}; shift\n'
    directory = os.path.dirname(t.script("ssh", f'#!/bin/sh\nshift 2; {note}exec sh -c "$*"\n'))
    slurm(t, note)
    file = t.script("hosts", "127.0.0.2\n127.0.0.3\n127.0.0.2\n127.0.0.3\n")
    named = {
        "slurm": SLURM_JOB,
        "pbs": [f"PBS_NODEFILE={file}"],
        "lsf": [f"LSB_DJOB_HOSTFILE={file}"],
        "hydra": [f"HYDRA_HOST_FILE={file}"],
        "openmpi": [f"OMPI_MCA_orte_default_hostfile={file}"],
    }[system]
    environment = ["env", f"PATH={directory}:{os.environ['PATH']}", *named]
    kills = [Kill(0, 100), Kill(3, 120)]
    result = t.recovers(4, "steps", "count=300", kills=kills, prefix=environment, ordered=False)
    with open(reached) as file:
        require(sorted(file.read().split()) == ["127.0.0.2", "127.0.0.3"], "not one agent on each host", result)
    for few in (["SLURM_JOB_NODELIST=127.0.0.[2-3]", "SLURM_TASKS_PER_NODE=2"], ["PBS_NODEFILE=/nowhere"]):
        wrong = t.run(4, "steps", "count=3", prefix=[*environment[:2], *few])
        require(wrong.code == 2 and few[0].split("=")[0] in wrong.err, "it does not say what is wrong", wrong)


@scenario(what=["shell", "program", "version"])
def hosts_that_do_not_start(t, what):
    """One line says which host and what to do; no rank is started."""
    scripts = {
        "shell": ("exit 255", "could not be started; this command has to work without a question"),
        "program": ("exit 127", "is not there: install the same Rejoin in the same directory"),
        "version": ("printf 'no message'", "has sent something that is no message of Rejoin"),
    }
    script, says = scripts[what]
    shell = t.script("shell", f'#!/bin/sh\n[ "$1" = 127.0.0.2 ] && {script}\nshift\nexec sh -c "$*"\n')
    flags = ["-H", "127.0.0.3:1,127.0.0.2:1", "--remote-shell", shell]
    result = t.run(2, "steps", "count=10", flags=flags)
    require(result.code == 1 and not result.out, f"exit code {result.code}", result)
    said = messages(result)
    require(len(said) == 1 and "host 127.0.0.2" in said[0] and says in said[0], f"it says {said}", result)


@scenario(ends=[True, False])
def hosts_that_start_late(t, ends):
    """After ten seconds a line says which host is awaited. A signal ends the wait."""
    shell = t.script("shell", '#!/bin/sh\n[ "$1" = 127.0.0.2 ] && sleep 11\nshift\nexec sh -c "$*"\n')
    flags = ["-H", "127.0.0.3:1,127.0.0.2:1", "--remote-shell", shell]

    def interfere(job):
        job.until(lambda: "waiting for 1 of 2 agents for 10" in job.err(), "it does not say what it waits for")
        if ends:
            job.process.send_signal(signal.SIGINT)

    result = t.run(2, "steps", "count=10", flags=flags, interfere=interfere)
    require(f"host 127.0.0.2; this command has to work without a question: {shell} 127.0.0.2 true" in result.err,
            "it does not say what to try", result)
    require(result.code == (128 + signal.SIGINT if ends else 0), f"exit code {result.code}", result)


@scenario()
def hosts_points(t):
    """A program with checkpoints goes on from images."""
    command, flags = ("recovery_points", "lines", "versions=60", "pause_us=5000"), flags_of("2,1")
    expected = t.undisturbed(3, *command, flags=flags)
    result = t.run(3, *command, flags=[*flags, *EVERY_10_MS], interfere=at_random(t.rng))
    judge(result, expected, 3)
    result = t.run(3, *command, flags=[*flags, "--snapshots", "off"])
    require(result.code == 1, f"exit code {result.code}", result)
    require("ranks on several hosts go on from snapshots" in result.err, "it does not say why", result)


@scenario(option=["keep", "begin-again", "torch"])
def hosts_refuse(t, option):
    """Options that are for one host are refused before anything starts."""
    result = t.run(2, "steps", flags=[*flags_of("1,1"), f"--{option}"])
    require(result.code == 2, f"exit code {result.code}", result)
    said = messages(result)
    require(len(said) == 1 and "is for jobs on one host so far" in said[0], f"it says {said}", result)


@scenario(cut_s=[1, 20])
def hosts_cut(t, cut_s, *more):
    """The network between two hosts is down for a while, also for longer than a connection lasts."""
    command = ("steps", "count=1500", "pause_us=1000")
    expected = t.undisturbed(4, *command)
    with network(2) as net:
        entering = "".join(f'{host.address}) exec {" ".join(host.inside())} sh -c "$*" ;;\n' for host in net.hosts)
        shell = t.script("shell", f"#!/bin/sh\nhost=$1\nshift\ncase $host in\n{entering}esac\n")
        names = ",".join(f"{host.address}:2" for host in net.hosts)
        flags = ["-H", names, "--remote-shell", shell, *more]

        def interfere(job):
            job.until_event("init", 3)
            job.run_for(0.3)
            net.cut(0)
            job.run_for(cut_s)
            net.mend(0)

        result = t.run(4, *command, flags=flags, interfere=interfere)
    judge(result, expected, 4)


@scenario()
def hosts_one_process_each(t):
    """A kill in every phase of ranks on different hosts."""
    t.recovers(4, "steps", "count=300", kills=[Kill(0, 100), Kill(3, 120)], flags=flags_of("2,2"), ordered=False)
