"""Agents that connect to ftrun (--listen, ftrun agent --join), instead of being started by it."""

import contextlib
import os
import re
import signal
import socket
import subprocess

from harness import Failure, require, scenario
from network import network
from processes import descendants
from scenarios.endings import messages
from scenarios.going_back import judge as judge_drift
from scenarios.hosts_lost import EVERY_50_MS, newest
from scenarios.snapshots import EVERY_10_MS, at_random, judge
from scenarios.written_images import place
from scenarios.written_on_hosts import MESSAGES, require_lines

LISTEN = ["--listen", "127.0.0.1:0"]
STEPS = ("steps", "count=400", "pause_us=1000")
DRIFT, DRIFT_STEPS = ("drift", "how=values", "steps=2500", "pause_us=500"), 2500


class Hosts:
    """The agents that join one job, by the names of their hosts."""

    def __init__(self, t):
        self.t, self.agents, self.said = t, {}, {}

    def port(self, job):
        found = job.until(lambda: re.search(r"at port (\d+).* --secret-file (\S+)", job.err()), "ftrun listens")
        self.secret_file = found[2]
        return int(found[1])

    def join(self, job, *names, at="127.0.0.1", prefix=(), secret_file=None):
        port = self.port(job)
        for name in names:
            command = [*prefix, self.t.ftrun, "agent", "--join", f"{at}:{port}", "--name", name]
            command += ["--secret-file", secret_file or self.secret_file]
            errors = open(f"{job.directory}/{name}.said", "w+b")  # read when the directory is gone
            self.agents[name] = subprocess.Popen(
                command, cwd=f"{job.directory}/work", env=job.environment, stdin=subprocess.DEVNULL, stderr=errors
            )
            self.said[name] = errors

    def kill(self, name, how=signal.SIGKILL):
        self.agents[name].send_signal(how)

    def text(self, name):
        return os.pread(self.said[name].fileno(), 1 << 20, 0).decode(errors="replace")

    @contextlib.contextmanager
    def told(self):
        """What agents have said goes with a failure."""
        try:
            yield
        except Failure as failure:
            said = [f"--- {name} ({agent.poll()})\n{self.text(name)}" for name, agent in self.agents.items()]
            raise Failure("\n".join([str(failure), *said])) from None

    def codes(self):
        """Waits for all agents. Returns their exit codes by name."""
        codes = {name: agent.wait(timeout=20) for name, agent in self.agents.items()}
        for said in self.said.values():
            said.close()
        return codes


@scenario(layout=["nodes", "list"], sweeps=True)
def joined_ranks_die(t, layout):
    """Ranks of two or three hosts that have joined die; agents may come before ftrun and in any order."""
    flags = ["--nodes", "2", "--npernode", "2"] if layout == "nodes" else ["-H", "a:2,b:1,c:1"]
    expected = t.undisturbed(4, *STEPS)
    for _ in range(30 if t.long else 2):
        hosts = Hosts(t)

        def interfere(job, hosts=hosts):
            names = ["a", "b"] if layout == "nodes" else ["a", "b", "c"]
            t.rng.shuffle(names)
            hosts.join(job, *names)
            at_random(t.rng)(job)

        result = t.run(4, *STEPS, flags=[*LISTEN, *flags, *EVERY_10_MS], interfere=interfere)
        judge(result, expected, 4)
        codes = hosts.codes()
        require(set(codes.values()) == {0}, f"agents ended with {codes}", result)


@scenario(sweeps=True)
def joined_agent_dies(t):
    """The loss of an agent ends the job with one line that names the host; nothing is left."""
    for _ in range(30 if t.long else 2):
        hosts = Hosts(t)

        def interfere(job, hosts=hosts):
            hosts.join(job, "a", "b")
            job.until_event("init", 1)
            job.run_for(t.rng.uniform(0, 0.1))
            hosts.kill("b")

        result = t.run(2, *STEPS, flags=[*LISTEN, "-H", "a,b"], interfere=interfere)
        require(result.code == 1, f"exit code {result.code}", result)
        said = [line for line in messages(result) if "the agent of host b has closed its connection" in line]
        require(len(said) == 1, "it does not say what was lost", result)
        hosts.codes()


@scenario(how=["spare", "late", "replaced", "notice"], sweeps=True, limit_s=240)
def joined_host_is_lost(t, how):
    """A host is lost, or is given notice: its ranks go on on a spare that had joined, on one that has
    joined while the job ran, on the first one that joins after the loss, or beside."""
    spares = 1 if how in ("spare", "notice") else 0
    flags = [*LISTEN, "--nodes", 2 + spares, "--npernode", "1", "--survive", "host", "--spares", spares, *EVERY_50_MS]
    for _ in range(30 if t.long else 2):
        hosts = Hosts(t)

        def interfere(job, hosts=hosts):
            hosts.join(job, "a", "b")
            hosts.join(job, *["c"] * spares)
            for i in range(2):
                sets = newest(job, "stored")
                job.until(lambda sets=sets: newest(job, "stored") > sets, "a set is stored")
                if how == "late" or (spares and i > 0):
                    seen = newest(job, "joined")
                    hosts.join(job, f"late{i}")
                    job.until(lambda seen=seen: newest(job, "joined") > seen, "it has joined")
                job.run_for(t.rng.uniform(0, 0.05))
                ranked = [name for name, agent in hosts.agents.items() if agent.poll() is None and has_ranks(agent)]
                back = newest(job, "rollback")
                hosts.kill(t.rng.choice(ranked), signal.SIGTERM if how == "notice" else signal.SIGKILL)
                if how == "replaced":
                    job.run_for(t.rng.uniform(0, 0.3))
                    hosts.join(job, f"late{i}")
                job.until(lambda back=back: newest(job, "rollback") > back, "its ranks go on")

        result = t.run(2, *DRIFT, flags=flags, interfere=interfere)
        judge_drift(result, 2, DRIFT_STEPS)
        require(len(result.named("host_lost")) == 2, f"{len(result.named('host_lost'))} hosts were lost", result)
        codes = hosts.codes()
        require(list(codes.values()).count(0) == 2, f"agents ended with {codes}", result)


@scenario()
def joined_spare_comes_early(t):
    """A host joins when those that the job needs are there, but not all of them are ready: it is a
    spare all the same."""
    hosts = Hosts(t)

    def interfere(job):
        hosts.join(job, "a")
        job.until(lambda: "as host a" in hosts.text("a"), "it has joined")
        processes = [hosts.agents["a"].pid, *descendants(hosts.agents["a"].pid)]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        hosts.join(job, "b")
        job.until(lambda: "as host b" in hosts.text("b"), "it has joined")
        job.run_for(0.3)
        hosts.join(job, "c")
        job.until(lambda: "as host c" in hosts.text("c"), "it has joined")
        job.run_for(0.3)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        job.until(lambda: newest(job, "joined") > 0, "the spare is known")
        job.until(lambda: newest(job, "stored") > 0, "a set is stored")
        hosts.kill("b")
        job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")

    flags = [*LISTEN, "--nodes", 2, "--npernode", "1", "--survive", "host", *EVERY_50_MS]
    result = t.run(2, *DRIFT, flags=flags, interfere=interfere)
    judge_drift(result, 2, DRIFT_STEPS)
    codes = hosts.codes()
    require((codes["a"], codes["c"]) == (0, 0), f"agents ended with {codes}", result)


def has_ranks(agent):
    return len(descendants(agent.pid)) > 1


@scenario(sweeps=True)
def joined_host_is_cut(t):
    """The network to a host is down for longer than a lease: its ranks go on on a spare, and its
    agent ends by itself."""
    for _ in range(20 if t.long else 1):
        hosts = Hosts(t)
        with network(2) as net:
            here, there = (host.inside() for host in net.hosts)  # ftrun and two agents share the first one

            def interfere(job, hosts=hosts, net=net, here=here, there=there):
                hosts.join(job, "a", "c", at=net.hosts[0].address, prefix=here)
                hosts.join(job, "b", at=net.hosts[0].address, prefix=there)
                job.until(lambda: newest(job, "stored") > 0, "a set is stored")
                net.cut(1)
                job.until(lambda: newest(job, "rollback") > 0, "its ranks go on")
                job.until(lambda: hosts.agents["b"].poll() is not None, "its agent has ended")

            flags = ["--listen", ":0", "-H", "a,b,c", "--spares", "1", "--survive", "host", "--lease", "3", *EVERY_50_MS]
            result = t.run(2, *DRIFT, flags=flags, prefix=here, interfere=interfere)
        judge_drift(result, 2, DRIFT_STEPS)
        said, codes = hosts.text("b"), hosts.codes()
        if codes["b"] == 128 + signal.SIGKILL:  # it was too busy to end by itself
            require("its guardian" in said, said, result)
        else:
            require("has not answered for the time of --lease" in said, said, result)
            require(codes == {"a": 0, "b": 1, "c": 0}, "agents ended otherwise", result)


@scenario(layout=["nodes", "list", "two"], sweeps=True, limit_s=300)
def joined_begins_again(t, layout):
    """A host is lost without --survive host, or two at once: the job begins again when those that are
    left have joined once more, and new ones."""
    flags = ["-H", "a,b"] if layout == "list" else ["--nodes", "2", "--npernode", "1"]
    # Nothing is silent here, but a disk that many tests share can be slow. What is killed is waited for.
    flags += ["--survive", "host"] if layout == "two" else []
    flags += ["--lease", "15"]
    expected = t.undisturbed(2, *MESSAGES)
    for _ in range(20 if t.long else 1):
        hosts = Hosts(t)

        def interfere(job, hosts=hosts):
            hosts.join(job, "a", "b")
            for i in range(2):
                before = newest(job, "images"), newest(job, "begin_again")
                job.until(lambda before=before: newest(job, "images") > before[0], "another set is written")
                job.run_for(t.rng.uniform(0, 0.1))
                ranked = [name for name, agent in hosts.agents.items() if agent.poll() is None and has_ranks(agent)]
                victims = ranked if layout == "two" else [t.rng.choice(ranked)]
                for victim in victims:
                    hosts.kill(victim)
                job.until(lambda before=before: newest(job, "begin_again") > before[1], "it begins again")
                hosts.join(job, *[name if layout == "list" else f"{name}{i}" for name in victims])

        with place(t) as where, hosts.told():
            result = where.run(2, *MESSAGES, flags=[*LISTEN, *flags], interfere=interfere)
        require(result.code == 0, f"exit code {result.code}", result)
        require(len(result.named("begin_again")) == 2, "it did not begin again twice", result)
        require_lines(result, expected, 2, 2)
        codes = list(hosts.codes().values())
        require(codes.count(0) == 2, f"agents ended with {codes}", result)


@scenario()
def joined_none_replaces(t):
    """No other agent joins in time: one line says what to do."""
    hosts = Hosts(t)
    flags = [*LISTEN, "--nodes", "2", "--npernode", "1", "--survive", "host", "--join-timeout", "2", *EVERY_50_MS]

    def interfere(job):
        hosts.join(job, "a", "b")
        job.until(lambda: newest(job, "stored") > 0, "a set is stored")
        hosts.kill("a")

    result = t.run(2, *DRIFT, flags=flags, interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    said = [line for line in messages(result) if "no other one has joined within 2.0 s (--join-timeout" in line]
    require(len(said) == 1 and "host a" in said[0], f"it says {said}", result)
    hosts.codes()


@scenario(how=[signal.SIGKILL, signal.SIGTERM], sweeps=True)
def joined_ftrun_dies(t, how):
    """Nothing outlives ftrun: agents, also one that is a spare, see the end of their connections."""
    flags = [*LISTEN, "--nodes", "3", "--npernode", "1", "--survive", "host", "--spares", "1"]
    for _ in range(30 if t.long else 2):
        hosts, leaves = Hosts(t), []

        def interfere(job, hosts=hosts, leaves=leaves):
            hosts.join(job, "a", "b", "c")
            job.until_event("init", 1)
            job.run_for(t.rng.uniform(0, 0.1))
            leaves.append(os.path.basename(hosts.secret_file))
            job.process.send_signal(how)

        # Only ftrun itself can remove the secret that it has made.
        result = t.run(2, *STEPS, flags=flags, interfere=interfere, leaves=leaves)
        require(result.code == (-how if how == signal.SIGKILL else 128 + how), f"exit code {result.code}", result)
        codes = hosts.codes()
        if how == signal.SIGKILL:
            require(set(codes.values()) == {1}, f"agents ended with {codes}", result)
            require(len(result.files) == 1, "the secret was not left", result)


@scenario()
def joined_by_strangers(t):
    """What does not belong to the job is closed with one line, and the job goes on waiting."""
    hosts = Hosts(t)
    wrong = t.script("wrong", "00112233445566778899aabbccddeeff00\n")
    os.chmod(wrong, 0o600)

    def interfere(job):
        port = hosts.port(job)
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
            job.until(lambda: "has said nothing for 2.0 s" in job.err(), "the silent ones are closed")
            silent[-1].settimeout(10)
            require(silent[-1].recv(1) == b"", "it is not closed", None)
        with socket.create_connection(("127.0.0.1", port)) as garbage:
            garbage.sendall(os.urandom(5000))
            job.until(lambda: "has sent something that is not TLS 1.3" in job.err(), "garbage is refused")
        hosts.join(job, "x", secret_file=wrong)
        require(hosts.agents["x"].wait(20) == 1 and "has another secret" in hosts.text("x"), hosts.text("x"), None)
        job.until(lambda: "127.0.0.1 was closed: it has another secret" in job.err(), "the secret is refused")
        hosts.join(job, "y")
        require(hosts.agents["y"].wait(20) == 1 and "not in ftrun's list of hosts" in hosts.text("y"), hosts.text("y"), None)
        hosts.join(job, "a")
        job.until(lambda: "connected with ftrun" in hosts.text("a"), "a has joined")
        first = hosts.agents.pop("a"), hosts.said.pop("a")
        hosts.join(job, "a")
        require(hosts.agents["a"].wait(20) == 1 and "has joined already" in hosts.text("a"), hosts.text("a"), None)
        hosts.agents["first"], hosts.said["first"] = first
        job.until(lambda: "1 of 2 agents have joined; missing: b" in job.err(), "it says which is missing")
        hosts.join(job, "b")

    result = t.run(2, *STEPS, flags=[*LISTEN, "-H", "a,b"], interfere=interfere)
    require(result.code == 0, f"exit code {result.code}", result)
    said = messages(result)
    for once in ("has said nothing", "not TLS 1.3", "another secret", "host y", "host a"):
        require(sum(once in line for line in said) == 1, f"not one line with {once}", result)
    codes = hosts.codes()
    require(codes == {"x": 1, "y": 1, "a": 1, "b": 0, "first": 0}, f"agents ended with {codes}", result)


@scenario()
def joined_not_in_time(t):
    """If not all agents join, the error says which, and what to do; those that have joined end."""
    hosts = Hosts(t)
    flags = [*LISTEN, "-H", "a,b", "--join-timeout", "6"]
    result = t.run(2, "steps", flags=flags, interfere=lambda job: hosts.join(job, "a"))
    require(result.code == 1 and not result.out, f"exit code {result.code}", result)
    said = messages(result)[-1]
    require("1 of 2 agents have joined; missing: b within 6.0 s" in said and "--join-timeout" in said, said, result)
    require(hosts.codes() == {"a": 1}, "the agent did not end", result)


@scenario()
def joined_before_ftrun(t):
    """An agent waits for ftrun; one that waits too long says what to do."""
    secret = t.script("secret", "00112233445566778899aabbccddeeff00\n")
    os.chmod(secret, 0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [t.ftrun, "agent", "--join", f"127.0.0.1:{port}", "--secret-file", secret, "--name"]
    agent = subprocess.Popen([*command, "a"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    first = agent.stderr.readline()
    flags = ["--listen", f"127.0.0.1:{port}", "--secret-file", secret, "--nodes", "1", "--npernode", "2"]
    result = t.run(2, "steps", "count=20", flags=flags)
    agent.communicate(timeout=20)
    require(result.code == 0 and agent.returncode == 0, f"exit codes {result.code}, {agent.returncode}", result)
    require("Connection refused; trying for" in first, first, result)
    late = subprocess.run([*command, "a", "--join-timeout", "0.5"], capture_output=True, text=True, timeout=20, check=False)
    require(late.returncode == 1 and "start it with --listen there" in late.stderr, late.stderr, result)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        wrong = t.run(2, "steps", flags=["--listen", where, *flags[2:]])
        require(wrong.code == 1 and "another process listens at this port" in wrong.err, "it does not say why", wrong)
    wrong = t.run(2, "steps", flags=["--listen", "192.0.2.1:0", *flags[2:]])
    require(wrong.code == 1 and "is no address of this machine" in wrong.err, "it does not say why", wrong)


@scenario()
def joined_secret_of_others(t):
    """A secret that others may read is refused on both sides."""
    secret = t.script("secret", "00112233445566778899aabbccddeeff00\n")
    os.chmod(secret, 0o644)
    flags = ["--listen", "127.0.0.1:0", "--secret-file", secret, "--nodes", "1", "--npernode", "2"]
    result = t.run(2, "steps", flags=flags)
    require(result.code == 1 and "chmod 600" in result.err, "it does not say why", result)
    agent = [t.ftrun, "agent", "--join", "127.0.0.1:1", "--secret-file", secret]
    done = subprocess.run(agent, capture_output=True, text=True, timeout=20, check=False)
    require(done.returncode == 1 and "chmod 600" in done.stderr, done.stderr, result)
