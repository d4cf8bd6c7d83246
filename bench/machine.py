"""Describes the machine on which numbers were measured."""

import os
import platform
import re
import subprocess
import typing


def _first_match(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def _output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def description():
    """Returns processor, cores, kernel and the versions of the other MPIs."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as source:
        processor = _first_match(r"^model name\s*:(.*)$", source.read())
    open_mpi = _first_match(r"(\d+\.\d+\.\d+)", _output("mpirun.openmpi", "--version"))
    mpich = _first_match(r"Version:\s*(\S+)", _output("mpiexec.mpich", "--version"))
    return (
        f"{processor}, {os.cpu_count()} cores, Linux {platform.release()}; "
        f"Open MPI {open_mpi}, MPICH {mpich}"
    )


class Copy(typing.NamedTuple):
    """Times of a copy of one size, in ns, for each distance between the beginnings of its buffers modulo a page."""

    memcpy: list  # of the C library
    ours: list


def copies(build):
    """Returns {bytes: Copy}, measured in a tenth of a second by the program of `build`."""
    found = {}
    for line in _output(os.path.join(build, "bench", "copies")).splitlines()[1:]:
        size_bytes, _, memcpy, ours, _ = line.split()
        copy = found.setdefault(int(size_bytes), Copy([], []))
        copy.memcpy.append(float(memcpy))
        copy.ours.append(float(ours))
    return found


def range_text(times):
    return f"{min(times):.0f} to {max(times):.0f}"


def copies_line(build):
    """Returns the times of Rejoin's copies in one line."""
    return "Copies (bench/cpu), ns: " + ", ".join(
        f"{size_bytes >> 10} KiB {range_text(copy.ours)}" for size_bytes, copy in copies(build).items()
    )
