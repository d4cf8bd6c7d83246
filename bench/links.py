"""Hosts of a network that exists only on this machine, joined by links of a given rate, and the launchers
of MPI programs on them. Needs root, iproute2 and openssh-server (tests/kill/network.py)."""

import atexit
import contextlib
import os
import re
import signal
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "kill"))

from harness import Skip  # noqa: E402
from network import Ssh, network  # noqa: E402

# How many times what a rank contributes has to pass the busiest link, in one direction, between n hosts
# with a rank each; there and back for pingpong.
PASSES = {
    "bcast": lambda n: 1, "bcast_rotating": lambda n: 1, "reduce": lambda n: 1,
    "allreduce": lambda n: 2 * (n - 1) / n, "allgather": lambda n: n - 1, "alltoall": lambda n: n - 1,
    "gather": lambda n: n - 1, "scatter": lambda n: n - 1, "pingpong": lambda n: 2,
}  # fmt: skip


def bits_per_second(rate):
    """Of a rate as tc writes it: 1gbit, 200mbit."""
    found = re.fullmatch(r"([\d.]+)([kmg])bit", rate)
    if not found:
        raise ValueError(f"{rate} is no rate such as 1gbit or 200mbit")
    if float(found[1]) == 0:
        raise ValueError("nothing gets through with a rate of 0")
    return float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2]]


def bound_us(what, hosts, size_bytes, rate):
    """Microseconds that an operation takes at least, because of its busiest link."""
    return PASSES[what](hosts) * size_bytes * 8 / bits_per_second(rate) * 1e6


class Links:
    def __init__(self, hosts, rate):
        stack = contextlib.ExitStack()
        atexit.register(stack.close)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
        try:
            self._net = stack.enter_context(network(hosts))
            self._ssh = Ssh(self._net)
            if rate:
                self._net.limit(rate)
        except (Skip, RuntimeError) as why:
            sys.exit(f"--hosts: {why}")

    def commands(self, ours, open_mpi, mpich, ranks):
        """How each of the three starts `ranks` ranks on the hosts, from the first of them."""
        hosts = self._net.hosts
        slots = ",".join(f"{host.address}:{ranks // len(hosts)}" for host in hosts)
        shell = os.path.join(self._net.directory, "shell")
        with open(shell, "w") as file:
            file.write(f'#!/bin/sh\nexec {self._ssh.command()} "$@"\n')
        os.chmod(shell, 0o755)
        subnet = f"{hosts[0].address}/24"
        settings = {"plm_rsh_agent": shell, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": subnet,
                    "oob_tcp_if_include": subnet}  # fmt: skip
        if ranks > os.cpu_count():  # all hosts share this machine's processors, which no MPI knows
            settings["mpi_yield_when_idle"] = "1"
        mca = [word for name, value in settings.items() for word in ("--mca", name, value)]
        ucx = ["env", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"]
        ssh = ["-launcher", "ssh", "-launcher-exec", shell, "-iface", "eth0", "-hosts", slots]
        commands = (
            [*ours, "-H", slots, "--remote-shell", shell],
            [*open_mpi, "--host", slots, "--bind-to", "none", *mca],
            [*ucx, *mpich, *ssh],
        )
        return [hosts[0].inside(*command) for command in commands]
