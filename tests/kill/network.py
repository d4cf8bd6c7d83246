"""Hosts of a network that exists only on this machine: namespaces, joined by a switch.

Each host has its own network, name and /dev/shm; processes, users and all other files are those of
this machine. Everything is gone when the processes that hold the namespaces are: none of it outlasts
the test, however that ends.
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

READY_S = 20  # until a server that was started answers
GRACE_S = 20  # until what a job has started on its hosts is gone
HOLDER = 'mount -t tmpfs tmpfs /dev/shm && hostname "$1" && ip link set lo up && echo ready && exec sleep infinity'


def run(*words):
    """Runs a command that has to succeed. Returns what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def needs(program, package):
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        raise Skip(f"no {program} (Debian's package {package})")
    return found


def hold(name):
    """Starts a process with namespaces of its own, which ends with this one."""
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "sh", "-c", HOLDER, "sh", name]
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


class Host:
    def __init__(self, number, holder):
        self.number, self.holder = number, holder
        self.name, self.address = f"host{number}", f"10.79.0.{number + 1}"
        self.network = network_of(holder.pid)
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
        while self.signal_all(signal.SIGKILL):
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
        needs("nft", "nftables")
        text = "flush ruleset\ntable inet test {\n"
        for chain in ("input", "output"):
            mine = [rule.partition(" ")[2] for rule in rules if rule.startswith(chain)]
            text += f"chain {chain} {{ type filter hook {chain} priority 0;\n" + "".join(f"{rule}\n" for rule in mine) + "}\n"
        done = subprocess.run(self.inside("nft", "-f", "-"), input=f"{text}}}\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skip(f"no nftables in this kernel: {done.stderr.splitlines()[0]}")


class Network:
    def __init__(self, hosts, directory):
        self.directory = directory
        self._switch = hold("switch")
        self._holders = [self._switch]
        self.hosts = []
        self._at_switch = ["nsenter", "--target", str(self._switch.pid), "--net"]
        run(*self._at_switch, "ip", "link", "add", "switch", "type", "bridge")
        run(*self._at_switch, "ip", "link", "set", "switch", "up")
        for number in range(hosts):
            self._holders.append(hold(f"host{number}"))
            host = Host(number, self._holders[-1])
            port = ["ip", "link", "add", f"port{number}", "type", "veth", "peer", "name", "eth0", "netns", host.holder.pid]
            run(*self._at_switch, *port)
            run(*self._at_switch, "ip", "link", "set", f"port{number}", "master", "switch", "up")
            run(*host.inside("ip", "address", "add", f"{host.address}/24", "dev", "eth0"))
            run(*host.inside("ip", "link", "set", "eth0", "up"))
            self.hosts.append(host)

    def cut(self, number):
        """Pulls the host's cable out of the switch."""
        run(*self._at_switch, "ip", "link", "set", f"port{number}", "down")

    def mend(self, number):
        run(*self._at_switch, "ip", "link", "set", f"port{number}", "up")

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
    needs("nsenter", "util-linux")
    with tempfile.TemporaryDirectory(prefix="kill-test-") as directory:
        made = None
        try:
            made = Network(hosts, directory)
            yield made
        finally:
            if made is not None:
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
            self.start(host)

    def start(self, host):
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
            if server.poll() is not None or time.monotonic() > end_s:
                raise Skip(f"sshd does not run here: {said}")
            time.sleep(0.01)

    def command(self, key="user", known="known"):
        options = ["BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=5", "LogLevel=ERROR"]
        options.append(f"UserKnownHostsFile={self._directory}/{known}")
        return " ".join(["ssh", "-F", "none", "-i", f"{self._directory}/{key}", *(f"-o {option}" for option in options)])


def is_ssh(pid):
    """Whether it is sshd, or what it has started for a connection that it has not seen the end of."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "sshd"
    return False


def open_text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""
