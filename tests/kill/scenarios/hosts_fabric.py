"""Jobs whose hosts are joined by libfabric (--between-nodes fabric): deaths as over sockets, with
the providers that need no special network."""

import contextlib
import ctypes
import os

from harness import Skip, require, scenario
from scenarios.endings import messages
from scenarios.hosts import (
    flags_of,
    hosts_cut,
    hosts_large_messages,
    hosts_relays_and_ranks_die,
    hosts_relays_die,
)
from scenarios.hosts_encrypted import without
from scenarios.hosts_lost import drifts
from scenarios.layouts import layout_images

FABRIC = ("--between-nodes", "fabric")
PROVIDERS = {"tcp": "tcp;ofi_rxm", "net": "net", "udp": "udp;ofi_rxd"}


def needs_libfabric():
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        raise Skip("libfabric (libfabric1) is not installed") from None


@contextlib.contextmanager
def provider(name):
    """The environment chooses a provider of libfabric."""
    needs_libfabric()
    os.environ["FI_PROVIDER"] = PROVIDERS[name]
    try:
        yield
    finally:
        del os.environ["FI_PROVIDER"]


@scenario(layout=["1,1", "2,1,2"], over=["tcp", "net"], sweeps=True, labels=["threads"], limit_s=480)
def fabric_relays_die(t, layout, over):
    """Relays are killed again and again, and with them all that libfabric knows."""
    with provider(over):
        hosts_relays_die(t, layout, *FABRIC)


@scenario(layout=["1,1", "2,1,2"], sweeps=True, labels=["threads"], limit_s=480)
def fabric_relays_and_ranks_die(t, layout):
    """The same, while ranks die and go on from images."""
    with provider("tcp"):
        hosts_relays_and_ranks_die(t, layout, *FABRIC)


@scenario(layout=["1,1", "2,1"], option=["images", "sums", "main"], sweeps=True, labels=["threads"], limit_s=480)
def fabric_large_messages(t, layout, option):
    """Ranks die while large messages are announced and read."""
    with provider("tcp"):
        hosts_large_messages(t, layout, option, *FABRIC)


@scenario(layout=["1,1", "2,1,2", "2,2,2,2"], labels=["threads"], limit_s=480)
def fabric_layout_images(t, layout):
    """Each result has the bits that it has over sockets, while ranks die."""
    with provider("tcp"):
        layout_images(t, layout, "fabric")


@scenario(over=["net", "udp"], limit_s=480)
def fabric_layout_images_over(t, over):
    """The same, with other providers."""
    with provider(over):
        layout_images(t, "2,1", "fabric")


@scenario(cut_s=[1, 20], over=["tcp", "net"])
def fabric_hosts_cut(t, cut_s, over):
    """The network between two hosts is down for a while."""
    with provider(over):
        hosts_cut(t, cut_s, *FABRIC)


@scenario(layout=["1,1", "2,2", "1,1,1"], sweeps=True, limit_s=480)
def fabric_host_is_lost(t, layout):
    """Agents are killed, and with them the ranks of their hosts; spares take their places."""
    with provider("tcp"):
        drifts(t, layout, 3, "--spares", "3", *FABRIC)


@scenario(option=["provider", "encrypt", "library"])
def fabric_refuses(t, option):
    """One line says what is wrong, before anything starts."""
    flags, environment, code, without_one = flags_of("1,1", *FABRIC), [], 1, contextlib.nullcontext()
    if option == "provider":
        needs_libfabric()
        environment = ["env", "FI_PROVIDER=unknown"]
        says = "--between-nodes fabric: FI_PROVIDER=unknown is none that can be used"
    elif option == "encrypt":
        flags, code = [*flags, "--encrypt"], 2
        says = "--encrypt: what goes through libfabric is not encrypted"
    else:
        without_one = without(t, "librejoin_fabric.so")
        says = "--between-nodes fabric needs libfabric (libfabric1)"
    with without_one:
        result = t.run(2, "steps", "count=3", flags=flags, prefix=environment)
    said = messages(result)
    require(result.code == code and len(said) == 1, f"exit code {result.code}", result)
    require(says in said[0], f"it says {said}", result)


@scenario()
def fabric_on_one_host(t):
    """There is nothing to reach: the option has no effect."""
    result = t.run(2, "steps", "count=20", flags=FABRIC)
    require(result.code == 0 and not messages(result), f"exit code {result.code}", result)
