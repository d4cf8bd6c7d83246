"""Jobs whose hosts encrypt what they send to each other (--encrypt): deaths as without it, and what
can be read on the wire."""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import threading

from harness import Skip, require, scenario
from scenarios.endings import messages
from scenarios.hosts import (
    SLURM_JOB,
    flags_of,
    hosts_cut,
    hosts_large_messages,
    hosts_relays_alone,
    hosts_relays_and_ranks_die,
    hosts_relays_die,
    slurm,
)
from scenarios.hosts_lost import drifts, loses, survives
from scenarios.layouts import layout_images

ENCRYPT = "--encrypt"


@scenario(layout=["1,1", "2,1,2"], sweeps=True, labels=["threads"], limit_s=480)
def encrypted_relays_die(t, layout):
    """Relays are killed again and again, and with them the threads that encrypt."""
    hosts_relays_die(t, layout, ENCRYPT)


@scenario(layout=["1,1", "2,1,2"], sweeps=True, labels=["threads"], limit_s=480)
def encrypted_relays_and_ranks_die(t, layout):
    """The same, while ranks die and go on from images."""
    hosts_relays_and_ranks_die(t, layout, ENCRYPT)


@scenario(layout=["1,1", "2,1"], option=["images", "polls", "main"], sweeps=True, labels=["threads"])
def encrypted_large_messages(t, layout, option):
    """Ranks die while large messages fill the connections in both directions."""
    hosts_large_messages(t, layout, option, ENCRYPT)


@scenario(layout=["2,1,2"], labels=["threads"], limit_s=480)
def encrypted_relays_alone(t, layout):
    """Relays do everything themselves; ranks die."""
    hosts_relays_alone(t, layout, ENCRYPT)


@scenario(layout=["1,1", "2,1,2"], labels=["threads"], limit_s=480)
def encrypted_layout_images(t, layout):
    """Each result has the bits that it has without encryption, while ranks die."""
    layout_images(t, layout, "sockets", ENCRYPT)


@scenario(cut_s=[1, 20])
def encrypted_hosts_cut(t, cut_s):
    """The network between two hosts is down for a while."""
    hosts_cut(t, cut_s, ENCRYPT)


@scenario(layout=["1,1", "2,2", "1,1,1"], sweeps=True, limit_s=480)
def encrypted_host_is_lost(t, layout):
    """Agents are killed: parts are given and fetched over encrypted connections."""
    drifts(t, layout, 3, "--spares", "3", ENCRYPT)


class Wire:
    """What goes over this machine's loopback device: how many packets have each of some texts."""

    def __init__(self, *texts):
        self.seen, self.end = dict.fromkeys(texts, 0), secrets.token_bytes(16)

    def __enter__(self):
        every_protocol, system_may_give_more, bytes_of_room = 3, 33, 1 << 28
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(every_protocol))
            self.socket.setsockopt(socket.SOL_SOCKET, system_may_give_more, bytes_of_room)
        except PermissionError:
            raise Skip("to read what goes over the loopback device needs root") from None
        self.socket.bind(("lo", every_protocol))
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        return self

    def _read(self):
        while self.end not in (packet := self.socket.recv(1 << 20)):
            for text in self.seen:
                self.seen[text] += text.encode() in packet

    def __exit__(self, *_):
        """Reads until a packet of its own has come: others may send without a pause."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends:
            while self.thread.is_alive():
                sends.sendto(self.end, ("127.0.0.1", 9))
                self.thread.join(0.1)
        self.socket.close()


@scenario(limit_s=120)
def encrypted_on_the_wire(t):
    """Neither what ranks send nor what lies in their memory can be read on the wire, while a host is
    lost; without --encrypt both are there."""
    for option in ([ENCRYPT], []):
        sent, kept = secrets.token_hex(16), secrets.token_hex(16)
        with Wire(sent, kept) as wire:
            command = ("whispers", f"sent={sent}", f"kept={kept}", "steps=600")
            flags = survives("1,1", "--spares", "1", *option)
            result = t.run(2, *command, flags=flags, interfere=loses(t, 1))
        require(result.code == 0 and len(result.named("host_lost")) == 1, f"exit code {result.code}", result)
        if option:
            require(wire.seen == {sent: 0, kept: 0}, f"packets in clear: {wire.seen}", result)
        else:
            require(wire.seen[sent] > 100 and wire.seen[kept] > 0, f"only {wire.seen} packets were seen", result)


@scenario()
def encrypted_on_one_host(t):
    """Nothing is sent to other hosts: the option has no effect."""
    for flags in ([], ["--layout", "1,1"]):
        result = t.run(2, "steps", "count=20", flags=[ENCRYPT, *flags])
        require(result.code == 0 and not messages(result), f"exit code {result.code}", result)


@scenario()
def encrypted_refuses(t):
    """A remote shell that does not encrypt is refused, before anything starts."""
    slurms = ["env", f"PATH={slurm(t)}:{os.environ['PATH']}", *SLURM_JOB]
    jobs = (
        ("srun", slurms, []),
        ("srun", [], ["-H", "127.0.0.2,127.0.0.3", "--remote-shell", "/usr/bin/srun --overlap"]),
        ("rsh", [], ["-H", "127.0.0.2,127.0.0.3", "--remote-shell", "rsh"]),
    )
    for shell, prefix, flags in jobs:
        result = t.run(2, "steps", "count=3", flags=[ENCRYPT, *flags], prefix=prefix)
        said = messages(result)
        require(result.code == 2 and len(said) == 1, f"exit code {result.code}", result)
        require(f"--encrypt: {shell}, which would carry" in said[0], f"it says {said}", result)


@contextlib.contextmanager
def without(t, library):
    """An ftrun that lacks one of its libraries."""
    built, built_ftrun = os.path.dirname(os.path.dirname(os.path.realpath(t.ftrun))), t.ftrun
    with tempfile.TemporaryDirectory(prefix="kill-test-") as root:
        os.makedirs(f"{root}/bin")
        os.makedirs(f"{root}/lib")
        shutil.copy(t.ftrun, f"{root}/bin/ftrun")
        for name in os.listdir(f"{built}/lib"):
            if name != library:
                os.symlink(f"{built}/lib/{name}", f"{root}/lib/{name}")
        t.ftrun = f"{root}/bin/ftrun"
        try:
            yield
        finally:
            t.ftrun = built_ftrun


@scenario()
def encrypted_without_openssl(t):
    """One line says what is missing, before anything starts."""
    with without(t, "librejoin_tls.so"):
        result = t.run(2, "steps", "count=3", flags=flags_of("1,1", ENCRYPT))
    said = messages(result)
    require(result.code == 1 and len(said) == 1, f"exit code {result.code}", result)
    require("--encrypt need OpenSSL (libssl3)" in said[0], f"it says {said}", result)
