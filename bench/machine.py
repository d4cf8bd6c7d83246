"""A line that describes the machine on which numbers were measured."""

import os
import platform
import re
import subprocess


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
