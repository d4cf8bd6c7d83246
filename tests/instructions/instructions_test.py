#!/usr/bin/env python3
"""Counts the processor's instructions of calls of MPI with 8 bytes, by callgrind, and compares them with bounds.

Instructions do not depend on the machine's load, so a path that becomes longer is noticed where times are too noisy.
The counts are of calls that wait for nothing, without images, and differ a little between compilers. If a path has
become shorter, or longer for a good reason, set its number to what this prints.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# Instructions of a call: of the rank that calls first, and of the other one.
PATHS = {
    "send": (518, 758),  # MPI_Send; MPI_Recv
    "isend": (770, 983),  # MPI_Isend, and one of 64 of an MPI_Waitall; MPI_Irecv, and the same
    "bcast": (684, 730),  # the root; the other member
    "gather": (878, 1205),  # a member; the root
    "scatter": (1111, 1077),  # the root; a member
    "rank": (33, 33),  # MPI_Comm_rank
}
ALLOWED = 1.06  # times as many: compilers and processors differ a little
CALLS = (256, 1280)


def total(path):
    match = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
    if match is None:
        sys.exit(f"callgrind has written no total to {path.name}")
    return int(match[1])


def count(options, name, folder):
    """Returns the instructions of a call of each rank."""
    for calls in CALLS:
        files = [folder / f"{name}.{calls}.done.{rank}" for rank in range(2)]
        profile = folder / f"{name}.{calls}.%q{{OMPI_COMM_WORLD_RANK}}"
        subprocess.run([options.ftrun, "--quiet", "--snapshots", "off", "-n", "2", options.valgrind, "-q",
                        "--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={profile}",
                        options.program, name, str(calls), *files], check=True, timeout=100)
    few, many = CALLS
    return [(total(folder / f"{name}.{many}.{rank}") - total(folder / f"{name}.{few}.{rank}")) / (many - few)
            for rank in range(2)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("ftrun", "program", "valgrind"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    too_many = []
    with tempfile.TemporaryDirectory() as folder:
        for name, bounds in PATHS.items():
            counts = count(options, name, pathlib.Path(folder))
            for rank, (counted, bound) in enumerate(zip(counts, bounds)):
                print(f"{name}, rank {rank}: {counted:.0f} instructions a call (known: {bound})")
                if not 1 <= counted <= ALLOWED * bound:
                    too_many.append(f"{name}, rank {rank}: {counted:.0f} instead of {bound}")
    if too_many:
        sys.exit("calls take more instructions than they did:\n  " + "\n  ".join(too_many))


if __name__ == "__main__":
    main()
