"""Jobs on hosts that have their own networks, reached by ssh: losses of hosts, and of the network."""

import contextlib
import os
import signal
import tempfile
import time

from harness import Kill, require, require_met, scenario
from network import Slurm, Ssh, is_ssh, network, network_of, open_text
from processes import proc_text
from scenarios.endings import messages
from scenarios.going_back import judge
from scenarios.hosts import flags_of
from scenarios.hosts_lost import EVERY_50_MS, newest
from scenarios.snapshots import require_same
from scenarios.written_images import place, require_whole
from scenarios.written_on_hosts import MESSAGES, require_lines


@contextlib.contextmanager
def cluster(hosts):
    """Hosts with an sshd each. Yields the network, and the ssh that reaches them."""
    with network(hosts) as net:
        yield net, Ssh(net)


def on(net, ssh, slots, *more):
    """How a job is started on host 0 that has so many ranks on each host: its prefix and its flags."""
    names = ",".join(f"{host.address}:{n}" for host, n in zip(net.hosts, slots))
    return {"prefix": net.hosts[0].inside(), "flags": ["-H", names, "--remote-shell", ssh.command(), *more]}


@scenario(labels=["threads"], sweeps=True, limit_s=300)
def cluster_ranks_die(t):
    """On four hosts the results are those of four nodes on one; ranks die anywhere."""
    slots, command = [2, 2, 2, 2], ("layout", "2,2,2,2")
    expected = t.undisturbed(8, *command, flags=flags_of("2,2,2,2"))
    with cluster(4) as (net, ssh):
        for _ in range(20 if t.long else 2):
            places = [(r, t.rng.randint(1, expected.operations(r))) for r in t.rng.sample(range(8), 3)]
            result = t.run(8, *command, kills=[Kill(*place) for place in places], **on(net, ssh, slots))
            require(result.code == 0, f"exit code {result.code}", result)
            require_same(result, expected, 8)
            net.require_empty(result)


def harm(net, victim, how):
    """Does this to a host, which the others do not hear any more. Returns what undoes it."""
    host = net.hosts[victim]
    if how == "power":
        host.lose_power()
        return lambda: None
    if how == "frozen":
        host.freeze()
        return host.thaw
    if how == "cable":
        net.cut(victim)
        return lambda: net.mend(victim)
    # "deaf" hears nothing, "mute" is not heard.
    host.firewall("input drop" if how == "deaf" else "output drop")
    return host.firewall


HARMS = ["power", "frozen", "cable", "deaf", "mute"]


@scenario(how=HARMS, sweeps=True, limit_s=300)
def cluster_host_is_lost(t, how):
    """A host loses its power, stops, or is cut off, also in one direction only: its ranks go on on a
    spare, and nothing runs on it any more."""
    steps, lease_s = 2500, 3
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    for _ in range(20 if t.long else 1):
        with cluster(4) as (net, ssh):
            more = [*EVERY_50_MS, "--survive", "host", "--spares", "1", "--lease", lease_s]
            undo = []

            def interfere(job, net=net, undo=undo):
                job.until(lambda: newest(job, "stored") > 0, "a set is stored")
                job.run_for(t.rng.uniform(0, 0.2))
                victim = t.rng.choice([1, 2])  # ftrun runs on 0, and 3 is the spare
                undo.append(harm(net, victim, how))
                job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")
                if how == "frozen":
                    undo.pop()()  # it finds that it is too late
                host = net.hosts[victim]
                left = lambda: [pid for pid in host.processes() if not is_ssh(pid)]
                job.until(lambda: not left(), f"nothing runs on {host.name} any more")

            result = t.run(3, *command, **on(net, ssh, [1, 1, 1, 1], *more), interfere=interfere)
            judge(result, 3, steps)
            require(len(result.named("host_lost")) == 1, "not one host was lost", result)
            # A guardian that wakes up ends all ranks of its host that it finds, and on this machine those
            # that were restored from there are among them. They are started once more.
            require(how == "frozen" or not result.named("death"), "a rank died, too", result)
            for call in undo:
                call()
            net.require_empty(result)


@scenario(how=["cable", "deaf", "mute", "frozen"], sweeps=True, limit_s=300)
def cluster_is_disturbed(t, how):
    """The same for less than a lease: no host is lost, and nothing is repeated but by ranks that die."""
    command = ("steps", "count=1500", "pause_us=1000")
    expected = t.undisturbed(3, *command)
    more = [*EVERY_50_MS, "--survive", "host", "--spares", "1", "--lease", "10"]
    for _ in range(20 if t.long else 1):
        with cluster(4) as (net, ssh):

            def interfere(job, net=net):
                job.until_event("init", 2)
                for _ in range(3):
                    job.run_for(t.rng.uniform(0, 0.4))
                    require_met(job.poll(), "the job had ended before", job)
                    undo = harm(net, t.rng.choice([1, 2]), how)
                    job.run_for(t.rng.uniform(0.2, 1.5))
                    undo()

            result = t.run(3, *command, **on(net, ssh, [1, 1, 1, 1], *more), interfere=interfere)
            require(result.code == 0, f"exit code {result.code}", result)
            require_same(result, expected, 3)
            require(not result.named("host_lost"), "a host was lost", result)
            net.require_empty(result)


@scenario(where=["spare", "beside"], limit_s=300)
def cluster_begins_again_elsewhere(t, where):
    """Hosts lose their power without --survive host: the job begins again from the newest written set,
    with a spare in the place of each, or with their ranks beside others."""
    expected = t.undisturbed(3, *MESSAGES)
    slots = [1, 1, 1, 1, 1] if where == "spare" else [1, 1, 1]
    more = ["--spares", "2"] if where == "spare" else ["--oversubscribe-on-loss"]
    with cluster(len(slots)) as (net, ssh), tempfile.TemporaryDirectory(prefix="kill-test-") as sets:

        def interfere(job):
            for victim in (1, 2):
                before = newest(job, "images"), newest(job, "begin_again")
                job.until(lambda before=before: newest(job, "images") > before[0], "another set is written")
                net.hosts[victim].lose_power()
                job.until(lambda before=before: newest(job, "begin_again") > before[1], "the job begins again")

        written = ["--checkpoint-dir", sets, "--checkpoint-every", "0.3", "--max-restarts", "100", "--lease", "3"]
        result = t.run(3, *MESSAGES, **on(net, ssh, slots, *written, *more), interfere=interfere)
        require(result.code == 0, f"exit code {result.code}", result)
        require(len(result.named("begin_again")) == 2, "it did not begin again twice", result)
        require_lines(result, expected, 3, 2)
        net.require_empty(result)


@scenario(how=["written", "survives"], sweeps=True, limit_s=300)
def cluster_connection_ends_first(t, how):
    """A host is cut off, and soon after the connection to its agent ends: its ranks run on until their
    lease is over, and begin elsewhere only then."""
    victim, expected = 1, t.undisturbed(3, *MESSAGES)
    for _ in range(20 if t.long else 1):
        with cluster(4) as (net, ssh), tempfile.TemporaryDirectory(prefix="kill-test-") as sets:
            kept = ["--survive", "host", *EVERY_50_MS] if how == "survives" else ["--checkpoint-dir", sets, "--checkpoint-every", "0.3"]
            event, lost = ("stored", "host_lost") if how == "survives" else ("images", "begin_again")
            host = net.hosts[victim]

            def interfere(job, net=net, event=event, lost=lost, host=host):
                job.until(lambda: newest(job, event) > 0, "there is a set")
                net.cut(victim)
                job.run_for(t.rng.uniform(0, 1))
                mine = lambda: [pid for pid in host.processes() if not is_ssh(pid)]
                require_met(mine(), "it had no processes", job)
                shells = [pid for pid in net.hosts[0].processes() if host.address in proc_text(pid, "cmdline").split()]
                require_met(shells, "there is no ssh to it", job)
                for pid in shells:
                    os.kill(pid, signal.SIGKILL)
                job.until(lambda: newest(job, lost) > 0, "the host is lost")
                require(not mine(), f"processes of {host.name} run on", job)
                net.mend(victim)

            more = [*kept, "--spares", "1", "--lease", "3"]
            result = t.run(3, *MESSAGES, **on(net, ssh, [1, 1, 1, 1], *more), interfere=interfere)
            require(result.code == 0, f"exit code {result.code}", result)
            require_lines(result, expected, 3, 1)
            require("its ranks may run until the end of its lease" in result.err, "no line tells what is awaited", result)
            net.require_empty(result)


@scenario(silent_s=[2, 20], limit_s=300)
def cluster_is_split(t, silent_s):
    """Two hosts do not hear each other for a while, though ftrun hears both."""
    command = ("steps", "count=1500", "pause_us=1000")
    expected = t.undisturbed(6, *command)
    with cluster(3) as (net, ssh):

        def interfere(job):
            job.until_event("init", 5)
            job.run_for(t.rng.uniform(0.1, 0.5))
            net.hosts[1].firewall(f"input ip saddr {net.hosts[2].address} drop")
            job.run_for(silent_s)
            net.hosts[1].firewall()

        result = t.run(6, *command, **on(net, ssh, [2, 2, 2]), interfere=interfere)
        require(result.code == 0, f"exit code {result.code}", result)
        require_same(result, expected, 6)
        net.require_empty(result)


@scenario(limit_s=300)
def cluster_begins_on_a_spare(t):
    """Two hosts do not answer when the job begins, one of them a spare: the other spare takes part."""
    command = ("layout", "1,1")
    expected = t.undisturbed(2, *command, flags=flags_of("1,1"))
    with cluster(4) as (net, ssh):
        for host in net.hosts[1:3]:
            host.lose_power()
        more = ["--survive", "host", "--spares", "2"]
        result = t.run(2, *command, **on(net, ssh, [1, 1, 1, 1], *more))
        require(result.code == 0, f"exit code {result.code}", result)
        require_same(result, expected, 2)
        for host, other in zip(net.hosts[1:3], net.hosts[2:4]):
            said = [line for line in messages(result) if line.endswith(f"; host {other.address} takes its place")]
            require(len(said) == 1 and f"the agent of host {host.address} " in said[0], f"said {said}", result)
        net.require_empty(result)


@scenario(limit_s=300)
def cluster_ftrun_dies(t):
    """Nothing is left on any host, and another ftrun goes on, on the same hosts in another order."""
    command = ("frozen", "messages", "steps=900", "pause_us=2000")
    with cluster(3) as (net, ssh), place(t) as where:
        expected = t.undisturbed(3, *command)
        there = on(net, ssh, [1, 1, 1])

        def interfere(job):
            where.whole(job, count=2)
            job.process.kill()

        result = where.run(3, *command, interfere=interfere, **there)
        require(result.code == -signal.SIGKILL, f"exit code {result.code}", result)
        net.require_empty(result)
        names = ",".join(reversed([host.address for host in net.hosts]))
        there["flags"][there["flags"].index("-H") + 1] = names
        result = where.run(3, *command, resume=True, **there)
        require(result.code == 0, f"exit code {result.code}", result)
        require_whole(where, result, expected, 3)
        net.require_empty(result)


# What is wrong with host 2; what ftrun says of it; its exit code.
NOT_STARTED = "the agent of host {} could not be started; this command has to work without a question: ssh "
WRONG = {
    "key": (NOT_STARTED.partition("{} ")[2], 1),  # of any host
    "known_hosts": (NOT_STARTED, 1),
    "no_host": (NOT_STARTED.format("10.79.0.77"), 1),
    "no_sshd": (NOT_STARTED, 1),
    "firewall": (NOT_STARTED, 1),
    "no_ftrun": ("ftrun is not there: install the same Rejoin in the same directory on every host", 1),
    "no_program": ("{}: {}: No such file or directory", 127),
    "relays": ("node 2 cannot connect to node 1 at 10.79.0.2, port ", 110),
}


@scenario(what=list(WRONG))
def cluster_is_not_ready(t, what):
    """A host that cannot be used costs one line, which names it and says what to do."""
    with cluster(3) as (net, ssh):
        there = on(net, ssh, [1, 1, 1], "--timeout", "12")
        host = net.hosts[2]
        flags = there["flags"]
        shell = flags.index("--remote-shell") + 1
        if what == "key":
            flags[shell] = ssh.command(key="other")
        elif what == "known_hosts":
            flags[shell] = ssh.command(known="known_but_last")
        elif what == "no_host":
            flags[1] = flags[1].replace(host.address, "10.79.0.77")
        elif what == "no_sshd":
            host.lose_power()
        elif what == "firewall":
            host.firewall("input drop")
        elif what == "no_ftrun":
            host.hide(os.path.dirname(t.ftrun))
        elif what == "no_program":
            host.hide(os.path.dirname(t.program("steps")))
        else:
            for other in net.hosts:
                other.firewall("input tcp dport != 22 tcp flags & (syn | ack) == syn drop")
        result = t.run(3, "steps", "count=300", **there)
        said, code = WRONG[what]
        said = said.format(host.address, t.program("steps"))
        require(result.code == code, f"exit code {result.code}", result)
        require(sum(said in line for line in messages(result)) == 1, f"it does not say: {said}", result)
        net.require_empty(result)


def disturb(t, net, job, losable):
    """Something that hosts survive happens to one of them, or several."""
    what = t.rng.choice(["rank", "relay", "network", "frozen", *(["lost"] if losable else [])])
    # ftrun runs on the first one, and a spare that is gone costs another spare when it is needed.
    with_ranks = {network_of(pid) for pid in job.pids.values()}
    hosts = [host for host in net.hosts[1:] if host.network in with_ranks]
    if not hosts:
        return ""
    host = t.rng.choice(hosts)
    if what == "rank":
        job.kill(*t.rng.sample(sorted(job.pids), min(len(job.pids), t.rng.randint(1, 2))))
    elif what == "relay":
        named_so = [pid for pid in host.processes() if proc_text(pid, "comm").strip() == "ftrun-relay"]
        for pid in named_so:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    elif what == "lost":
        harm(net, host.number, t.rng.choice(["power", "cable", "deaf", "mute"]))
    else:
        undo = harm(net, host.number, what if what == "frozen" else t.rng.choice(["cable", "deaf", "mute"]))
        job.run_for(t.rng.uniform(0, 0.8))
        undo()
    return what


@scenario(sweeps=True, limit_s=300)
def cluster_at_random(t):
    """Ranks, relays, hosts and the network fail in any order, as often as there are spares for hosts."""
    steps, spares = 4000, 3
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    for _ in range(400 if t.long else 1):
        with cluster(3 + spares) as (net, ssh):
            more = [*EVERY_50_MS, "--survive", "host", "--spares", spares, "--lease", "3"]
            lost = []

            def interfere(job, net=net, lost=lost):
                job.until(lambda: newest(job, "stored") > 0, "a set is stored")
                stored = newest(job, "stored") - 1
                while job.poll() and len(lost) < spares:
                    job.run_for(t.rng.uniform(0, 0.4))
                    # Two hosts at once are too many, and so is one of which no other has a set.
                    losable = newest(job, "stored") > stored
                    if disturb(t, net, job, losable) == "lost":
                        lost.append(job)
                        job.until(lambda: newest(job, "host_lost") == len(lost), "the loss is noticed")
                        stored = newest(job, "stored")

            result = t.run(3, *command, **on(net, ssh, [1] * (3 + spares), *more), interfere=interfere)
            judge(result, 3, steps)
            require_met(lost, "no host was lost", result)
            require(len(result.named("host_lost")) == len(lost), f"{len(lost)} hosts were lost", result)
            net.require_empty(result)


@scenario(victims=["1,3", "2,4"], how=["power", "cable"], sweeps=True, limit_s=300)
def cluster_two_hosts_are_lost(t, victims, how):
    """Two hosts are lost at once, or one while the ranks of the other are being started: others have
    their parts. Hosts without cable end by themselves."""
    steps = 1000
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    for _ in range(50 if t.long else 1):
        with cluster(7) as (net, ssh):
            more = [*EVERY_50_MS, "--survive", "host", "--spares", "2", "--lease", "3"]

            def interfere(job, net=net):
                job.until(lambda: newest(job, "stored") > 0, "a set is stored")
                first, second = t.rng.sample([int(victim) for victim in victims.split(",")], 2)
                harm(net, first, how)
                job.run_for(t.rng.choice([0, t.rng.uniform(0, 0.5)]))
                harm(net, second, how)
                job.until(lambda: newest(job, "host_lost") == 2, "both losses are noticed")
                job.until(lambda: newest(job, "rollback") > 0, "their ranks go on")

            result = t.run(5, *command, **on(net, ssh, [1] * 7, *more), interfere=interfere)
            judge(result, 5, steps)
            net.require_empty(result)


@scenario(how=["power", "cable"], limit_s=300)
def cluster_spare_is_gone(t, how):
    """The first spare does not answer when it is needed: the next one takes over."""
    steps = 2000
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    with cluster(4) as (net, ssh):
        more = [*EVERY_50_MS, "--survive", "host", "--spares", "2", "--lease", "3"]

        def interfere(job):
            job.until(lambda: newest(job, "stored") > 0, "a set is stored")
            harm(net, 2, how)
            job.run_for(0.2)
            harm(net, 1, "power")
            job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")

        result = t.run(2, *command, **on(net, ssh, [1, 1, 1, 1], *more), interfere=interfere)
        judge(result, 2, steps)
        net.require_empty(result)


@contextlib.contextmanager
def slurm_cluster():
    """Three nodes of a real Slurm."""
    with network(4) as net:
        yield net, Slurm(net)


@scenario(limit_s=300)
def cluster_of_slurm(t):
    """In an allocation of Slurm, ftrun finds the hosts by itself and starts its agents with srun."""
    with slurm_cluster() as (net, slurm):
        command = ("layout", "2,2,2")
        expected = t.undisturbed(6, *command, flags=flags_of("2,2,2"))
        places = [(r, t.rng.randint(1, expected.operations(r))) for r in t.rng.sample(range(6), 3)]
        kills = [Kill(*place) for place in places]
        result = t.run(6, *command, kills=kills, prefix=net.hosts[0].inside(*slurm.allocation(2)))
        require(result.code == 0, f"exit code {result.code}", result)
        require_same(result, expected, 6)


@scenario(limit_s=300)
def cluster_of_slurm_loses_a_host(t):
    """A node of the allocation loses its power: Slurm lets the others run, and a spare takes over."""
    steps = 2000
    command = ("drift", "how=values", f"steps={steps}", "pause_us=500")
    with slurm_cluster() as (net, slurm):

        def interfere(job):
            job.until(lambda: newest(job, "stored") > 0, "a set is stored")
            net.hosts[2].lose_power()
            job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")

        more = [*EVERY_50_MS, "--survive", "host", "--spares", "1"]
        prefix = net.hosts[0].inside(*slurm.allocation(1))
        result = t.run(2, *command, flags=more, prefix=prefix, interfere=interfere)
        judge(result, 2, steps)


@scenario(limit_s=300)
def cluster_of_slurm_requeues(t):
    """The batch script of examples/ gets the signal that comes before the end of its time: its job
    ends with a written set, is queued again, and goes on."""
    command = ("steps", "count=900", "pause_us=2000")
    expected = t.undisturbed(8, *command)
    script = os.path.abspath(f"{os.path.dirname(__file__)}/../../../examples/slurm.sbatch")
    with slurm_cluster() as (net, slurm), tempfile.TemporaryDirectory(prefix="kill-test-") as work:
        number = slurm.submit(work, t.ftrun, script, t.program(command[0]), *command[1:])

        def until(condition, what):
            end_s = time.monotonic() + 200
            while not condition():
                require(time.monotonic() < end_s, f"not in time: {what}: {slurm.job(number)} {said()}", expected)
                time.sleep(0.1)

        said = lambda: open_text(f"{work}/out")
        until(lambda: os.path.isdir(f"{work}/saved-{number}/host-1"), "it has begun")
        time.sleep(0.5)
        slurm.run("scancel", "--batch", "--signal=TERM", number)
        until(lambda: slurm.job(number)["JobState"] == "PENDING", "it is queued again")
        slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now")  # else two minutes later
        until(lambda: "going on from" in said(), "it goes on")
        until(lambda: slurm.job(number)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), "it has ended")
        job = slurm.job(number)
        require((job["JobState"], job["Restarts"]) == ("COMPLETED", "1"), f"{job} {said()}", expected)
        last = expected.out.strip().split("\n")[-1]
        require(last in said().split("\n"), f"{last} is not in {said()}", expected)
