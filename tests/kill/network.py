"""Hosts of a network that exists only on this machine: namespaces, joined by a switch.

Each host has its own network, name and /dev/shm; processes, users and all other files are those of
this machine. The namespaces, and the servers in them, end with the test, however that ends; if it is
killed, processes of its job can be left, as with any other test.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Skip, require
from processes import proc_text

READY_S = 60  # until a server that was started answers
GRACE_S = 20  # until what a job has started on its hosts is gone
HOLDER = """mount -t tmpfs tmpfs /dev/shm && mount --bind "$2" /etc/hosts && hostname "$1" && ip link set lo up &&
echo ready && exec sleep infinity"""


def run(*words, env=None, given=None):
    """Runs a command that has to succeed. Returns what it printed."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, input=given)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def needs(program, package):
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise Skip(f"no {program} (Debian's package {package})")
    return found


def hold(name, names):
    """Starts a process with namespaces of its own, which ends with this one. names: its /etc/hosts."""
    command = ["unshare", "--net", "--mount", "--uts", "sh", "-c", HOLDER, "sh", name, names]
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "ready\n":
        raise Skip(f"no namespaces for hosts can be made here: {holder.communicate()[1].strip()}")
    return holder


def network_of(pid):
    """What names the network of a process; empty: it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def name_of(number):
    return f"host{number}"


def address_of(number):
    return f"10.79.0.{number + 1}"


class Host:
    def __init__(self, number, holder):
        self.number, self.holder = number, holder
        self.name, self.address = name_of(number), address_of(number)
        self.network = network_of(holder.pid)
        if self.network in ("", network_of("self")):
            raise RuntimeError("the namespaces of a host are gone, or are those of the test")
        self.servers = []  # of the test: they are no rest of a job

    def inside(self, *command):
        """The command that runs this command on this host."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--mount", "--uts", *map(str, command)]

    def serve(self, *command, log):
        """Starts a server, which ends with the test."""
        with open(log, "ab") as file:
            at_end = ["setpriv", "--pdeathsig", "KILL"]
            server = subprocess.Popen([*at_end, *self.inside(*command)], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.servers.append(server)
        return server

    def processes(self):
        """All processes of this host that the test has not started itself."""
        mine = {self.holder.pid, *(server.pid for server in self.servers)}
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            if int(entry) not in mine and network_of(entry) == self.network:
                found.append(int(entry))
        return found

    def signal_all(self, number):
        """Sends a signal to all processes of this host, its servers too. Returns them."""
        found = [*self.processes(), *(server.pid for server in self.servers if server.poll() is None)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return found

    def lose_power(self):
        """All its processes end at once, and its memory is gone. Its network stays."""
        end_s = time.monotonic() + GRACE_S
        while self.signal_all(signal.SIGKILL) and time.monotonic() < end_s:
            for server in self.servers:
                server.wait()
            time.sleep(0.001)
        self.servers.clear()
        run(*self.inside("sh", "-c", "rm -rf /dev/shm/*"))

    def freeze(self):
        """No process of this host does anything, until all go on: thaw()."""
        before = []
        while (found := sorted(self.signal_all(signal.SIGSTOP))) != before:
            before = found

    def thaw(self):
        self.signal_all(signal.SIGCONT)

    def hide(self, directory):
        """This host sees an empty directory there."""
        run(*self.inside("mount", "-t", "tmpfs", "tmpfs", directory))

    def firewall(self, *rules):
        """Replaces what this host's firewall drops: rules of nftables, of a chain in front."""
        text = "flush ruleset\ntable inet test {\n"
        for chain in ("input", "output"):
            mine = [rule.partition(" ")[2] for rule in rules if rule.startswith(chain)]
            text += f"chain {chain} {{ type filter hook {chain} priority 0;\n" + "".join(f"{rule}\n" for rule in mine) + "}\n"
        run(*self.inside("nft", "-f", "-"), given=f"{text}}}\n")


class Network:
    def __init__(self, directory):
        self.directory, self.hosts, self._holders = directory, [], []

    def add_hosts(self, hosts):
        names = f"{self.directory}/names"
        with open(names, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address_of(number)} {name_of(number)}\n" for number in range(hosts))
        self._switch = hold("switch", names)
        self._holders.append(self._switch)
        self._at_switch = ["nsenter", "--target", str(self._switch.pid), "--net"]
        run(*self._at_switch, "ip", "link", "add", "switch", "type", "bridge")
        run(*self._at_switch, "ip", "link", "set", "switch", "up")
        for number in range(hosts):
            self._holders.append(hold(name_of(number), names))
            host = Host(number, self._holders[-1])
            port = ["ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", host.holder.pid]
            run(*self._at_switch, *port)
            run(*self._at_switch, "ip", "link", "set", f"port{number}", "master", "switch", "up")
            run(*host.inside("ip", "address", "add", f"{host.address}/24", "dev", "eth0"))
            run(*host.inside("ip", "link", "set", "eth0", "up"))
            host.firewall()
            self.hosts.append(host)

    def cut(self, number):
        """Pulls the host's cable out of the switch."""
        run(*self._at_switch, "ip", "link", "set", f"port{number}", "down")

    def mend(self, number):
        run(*self._at_switch, "ip", "link", "set", f"port{number}", "up")

    def limit(self, rate):
        """Each host's cable carries so much in each direction: 1gbit, as tc writes it."""
        tc = needs("tc", "iproute2")
        bucket = ["root", "tbf", "rate", rate, "burst", "128k", "latency", "200ms"]
        for host in self.hosts:
            run(*host.inside(tc, "qdisc", "replace", "dev", "eth0", *bucket))
            run(*self._at_switch, tc, "qdisc", "replace", "dev", f"port{host.number}", *bucket)

    def close(self):
        for host in self.hosts:
            with contextlib.suppress(RuntimeError):
                host.lose_power()
        for holder in self._holders:
            holder.kill()
            holder.communicate()

    def require_empty(self, result):
        """Requires that nothing of a job is left on any host."""
        end_s = time.monotonic() + GRACE_S
        while left := [self._left_on(host) for host in self.hosts if self._left_on(host)]:
            require(time.monotonic() < end_s, f"left behind: {left}", result)
            time.sleep(0.05)

    def _left_on(self, host):
        processes = [f"{pid} {proc_text(pid, 'cmdline')}" for pid in host.processes() if not is_ssh(pid)]
        files = run(*host.inside("ls", "/dev/shm")).split()
        return f"on {host.name}: {processes} {files}" if processes or files else ""


@contextlib.contextmanager
def network(hosts):
    needs("ip", "iproute2")
    needs("nft", "nftables")
    needs("nsenter", "util-linux")
    with tempfile.TemporaryDirectory(prefix="kill-test-") as directory:
        made = Network(directory)
        try:
            try:
                made.add_hosts(hosts)
            except RuntimeError as error:
                raise Skip(f"no network can be made here: {error}") from None
            yield made
        finally:
            made.close()


# ---------------------------------------------------------------------------------------------- ssh


class Ssh:
    """An sshd on each host, a key that all of them know, and the command that uses it."""

    def __init__(self, net):
        self.net, self._directory = net, net.directory
        self._sshd = needs("sshd", "openssh-server")
        os.makedirs("/run/sshd", exist_ok=True)  # sshd wants it to be there
        for key in ("host", "user", "other"):
            run(needs("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-f", f"{self._directory}/{key}")
        shutil.copy(f"{self._directory}/user.pub", f"{self._directory}/authorized")
        with open(f"{self._directory}/host.pub") as file:
            public = " ".join(file.read().split()[:2])
        lines = [f"{host.address} {public}\n" for host in net.hosts]
        for name, known in (("known", lines), ("known_but_last", lines[:-1])):
            with open(f"{self._directory}/{name}", "w") as file:
                file.writelines(known)
        for host in net.hosts:
            self._start(host)
        first = net.hosts[0]
        tried = first.inside(*self.command().split(), first.address, "true")
        done = subprocess.run(tried, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Skip(f"ssh does not work here: {done.stderr}")

    def _start(self, host):
        config = f"{self._directory}/config.{host.number}"
        settings = {
            "ListenAddress": host.address, "HostKey": f"{self._directory}/host",
            "AuthorizedKeysFile": f"{self._directory}/authorized", "PidFile": "none",
            "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no", "UsePAM": "no",
            "PermitRootLogin": "prohibit-password", "StrictModes": "no", "MaxStartups": "64",
        }  # fmt: skip
        with open(config, "w") as file:
            file.writelines(f"{name} {value}\n" for name, value in settings.items())
        log = f"{config}.log"
        server = host.serve(self._sshd, "-D", "-e", "-f", config, log=log)
        end_s = time.monotonic() + READY_S
        while "Server listening" not in (said := open_text(log)):
            if server.poll() is not None:
                raise Skip(f"sshd does not run here: {said}")
            if time.monotonic() > end_s:
                raise RuntimeError(f"sshd does not answer: {said}")
            time.sleep(0.01)

    def command(self, key="user", known="known"):
        options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=5", "LogLevel=ERROR"]
        options.append(f"UserKnownHostsFile={self._directory}/{known}")
        return " ".join(["ssh", "-F", "none", "-i", f"{self._directory}/{key}", *(f"-o {option}" for option in options)])


def is_ssh(pid):
    """Whether it is sshd, or what it has started for a connection that it has not seen the end of."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("sshd")
    return False


def open_text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


# -------------------------------------------------------------------------------------------- Slurm

SETTINGS = """
ClusterName=rejoin
SlurmctldHost={first.name}({first.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={there}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
SlurmdTimeout=10
InactiveLimit=0
KillWait=2
StateSaveLocation={there}/state
SlurmdSpoolDir={there}/%n
SlurmctldPidFile={there}/slurmctld.pid
SlurmdPidFile={there}/%n.pid
SlurmctldLogFile={there}/slurmctld.log
SlurmdLogFile={there}/%n.log
"""
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nIgnoreSystemd=yes\n"


class Slurm:
    """A Slurm whose controller is on host 0, with a node on each of the others."""

    def __init__(self, net):
        self.net, self._there = net, f"{net.directory}/slurm"
        first, nodes = net.hosts[0], net.hosts[1:]
        for part in ("munge", "state"):
            os.makedirs(f"{self._there}/{part}", mode=0o700)
        with open(f"{self._there}/slurm.conf", "w") as file:
            file.write(SETTINGS.format(first=first, there=self._there))
            for host in nodes:
                file.write(f"NodeName={host.name} NodeAddr={host.address} CPUs=8 RealMemory=500 State=UNKNOWN\n")
            file.write(f"PartitionName=all Nodes={','.join(host.name for host in nodes)} Default=YES MaxTime=INFINITE\n")
        with open(f"{self._there}/cgroup.conf", "w") as file:
            file.write(CGROUPS)
        self.environment = ["env", f"SLURM_CONF={self._there}/slurm.conf"]
        self._start_munge(first)
        self._serve(first, needs("slurmctld", "slurmctld"), "-D")
        for host in nodes:
            self._serve(host, needs("slurmd", "slurmd"), "-D", "-N", host.name)
        self._await_nodes(len(nodes))

    def _start_munge(self, host):
        there = f"{self._there}/munge"
        with open(f"{there}/key", "wb") as file:
            os.chmod(f"{there}/key", 0o600)
            file.write(os.urandom(128))
        files = [f"--{name}-file={there}/{name}" for name in ("key", "pid", "log", "seed")]
        command = [needs("munged", "munge"), "--foreground", "--force", f"--socket={there}/socket", *files]
        host.serve(*command, log=f"{there}/out")

    def _serve(self, host, *command):
        host.serve(*self.environment, *command, log=f"{self._there}/{host.name}.out")

    def _await_nodes(self, wanted):
        end_s = time.monotonic() + READY_S
        command = self.net.hosts[0].inside(*self.environment, "sinfo", "-h", "-t", "idle", "-o", "%D")
        while True:
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            if said.stdout.strip() == str(wanted):
                return
            logs = [open_text(f"{self._there}/{name}.out")[-300:] for name in ("host0", "host1")]
            if any(server.poll() is not None for host in self.net.hosts for server in host.servers):
                raise Skip(f"Slurm does not run here: {logs}")
            if time.monotonic() > end_s:
                raise RuntimeError(f"the nodes of Slurm are not idle: {said.stdout} {said.stderr} {logs}")
            time.sleep(0.1)

    def run(self, *command, env=None):
        """Runs one of Slurm's commands on host 0. Returns what it printed."""
        return run(*self.net.hosts[0].inside(*self.environment, *command), env=env)

    def allocation(self, slots):
        """The command that runs another one in a job with so many tasks on each of all nodes."""
        nodes = len(self.net.hosts) - 1
        size = [f"--nodes={nodes}", f"--ntasks-per-node={slots}"]
        return [*self.environment, "salloc", "--quiet", *size, "--no-kill"]

    def submit(self, directory, ftrun, script, *arguments):
        """Submits a batch script, which writes to `out` of that directory. Returns the job's number."""
        environment = dict(os.environ, PATH=f"{os.path.dirname(ftrun)}:{os.environ['PATH']}")
        there = ["--chdir", directory, "--output", f"{directory}/out", "--parsable"]
        return self.run("sbatch", *there, script, *arguments, env=environment).strip()

    def job(self, number):
        """The state of a batch job, in Slurm's words."""
        return dict(word.partition("=")[::2] for word in self.run("scontrol", "show", "job", number).split())
