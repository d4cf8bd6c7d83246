"""ftrun inspect: the operations of a program in a journal that --keep has retained."""

import json
import os
import re
import subprocess
import tempfile
import time

from harness import Failure, require, scenario

RANKS = 3
SITE = r"\([^()]*kept\.c:\d+::main#"
# The required lines of rank 1, and those of its communicators.
LINES = (
    rf"\[1\] allreduce {SITE}4x1\) finished, seq 0, sum 6",
    rf"\[1\] allreduce {SITE}8x1\) finished, seq 1, max -0\.5",
    rf"\[1\] allreduce {SITE}16x1\) finished, seq 2, minloc 5\.25@2, at byte \d+",
    rf"\[1\] allreduce {SITE}4x6\) finished, seq 3, sum 0\.75 3 6 9 \.\.\., at byte \d+",
    rf"\[1\] bcast {SITE}1x8 root 0\) finished, seq 4, bytes 72656a6f696e2100",
    r"MPI_COMM_WORLD of rank 1: member 1 of 3 \(0 1 2\), \d+ operations",
    r"MPI_COMM_SELF of rank 1: member 0 of 1 \(1\), \d+ operations?",
    r"MPI_Comm_dup 8 of MPI_COMM_WORLD of rank 1: member 1 of 3 \(0 1 2\), 1 operation",
    r"MPI_Comm_split 0 of MPI_Comm_dup 8 of MPI_COMM_WORLD, colour 1 of rank 1: "
    r"member 0 of 1 \(1\), \d+ operations?",
)
# One member's view of the same four, as --json prints it.
OBJECTS = (
    {"sequence": 0, "operation": "MPI_Allreduce", "element": "int32", "reduction": "sum", "values": "6"},
    {"sequence": 1, "element": "double", "reduction": "max", "values": "-0.5"},
    {"sequence": 2, "element": "double and int", "reduction": "minloc", "values": "5.25@2"},
    {"sequence": 3, "element": "float", "count": 6, "values": "0.75 3 6 9 ..."},
    {"sequence": 4, "operation": "MPI_Bcast", "root": 0, "bytes": "72656a6f696e2100"},
)


def kept(t, directory, versions):
    """Runs the program; returns the path of its journal."""
    before = set(os.listdir(directory))
    flags = ["--keep", "--journal-dir", directory, "--snapshots", "off"]
    result = t.run(RANKS, "kept", f"versions={versions}", flags=flags)
    require(result.code == 0, f"exit code {result.code}", result)
    told = [e["checkpoint"] for e in result.named("checkpoint")]
    require(told == list(range(1, versions + 1)), f"events of checkpoints {told}", result)
    [name] = set(os.listdir(directory)) - before
    return os.path.join(directory, name)


def shown(t, *arguments):
    done = subprocess.run([t.ftrun, "inspect", *arguments], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    if done.returncode != 0 or done.stderr:
        raise Failure(f"inspect {arguments}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


@scenario()
def kept_journals(t):
    """Values with types, communicators with names, and versions are shown as text and as JSON."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.time()
        plain, versions = kept(t, directory, 0), kept(t, directory, 5)
        text = shown(t, plain)
        for line in LINES:
            if not re.search(rf"^{line}$", text, re.MULTILINE):
                raise Failure(f"not there: {line}\n{text}")
        both = shown(t, plain, versions)
        if not both.startswith(f"{plain}:\n{text}{versions}:\n"):
            raise Failure(f"not one behind the other:\n{both}")
        with_versions = shown(t, versions, "--rank", "1")
        made = r"made \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, behind operation \d+, global model 256 bytes, local model 0 bytes"
        numbers = re.findall(rf"^version (\d+) of rank 1: {made}$", with_versions, re.MULTILINE)
        if not numbers or numbers[-1] != "5" or numbers != sorted(numbers):
            raise Failure(f"versions {numbers}:\n{with_versions}")
        # After a checkpoint memory of results is reused.
        if "minloc 5.25" in with_versions or "sum 6" not in with_versions:
            raise Failure(f"values behind a checkpoint:\n{with_versions}")
        check_json([json.loads(line) for line in shown(t, "--json", plain, versions).splitlines()],
                   plain, versions, begin)  # fmt: skip


def check_json(objects, plain, versions, begin):
    jobs = [o for o in objects if o["kind"] == "job"]
    seen = [(o["file"], o["ranks"], o["deaths"], o["at_limit"]) for o in jobs]
    if seen != [(plain, RANKS, 0, False), (versions, RANKS, 0, False)]:
        raise Failure(f"{jobs}")
    if not all(begin - 1 <= o["started"] <= time.time() for o in jobs):
        raise Failure(f"started when? {jobs}")
    first = objects[: objects.index(jobs[1])]
    world = [o["context"] for o in first if o.get("name") == "MPI_COMM_WORLD"]
    for rank in range(RANKS):
        mine = [o for o in first if o["kind"] == "operation" and o["rank"] == rank]
        mine = {o["sequence"]: o for o in mine if o["context"] == world[0]}
        for wanted in OBJECTS:
            found = mine[wanted["sequence"]]
            if not wanted.items() <= found.items():
                raise Failure(f"{wanted} is not in {found}")
    made = [v["made"] for o in objects if o["kind"] == "rank" for v in o["versions"]]
    if not made or not all(begin - 1 <= one <= time.time() for one in made):
        raise Failure(f"versions made when? {made}")


@scenario()
def kept_in_pieces(t):
    """Large sums among nodes that share only messages lie in pieces; they are shown as any other."""
    values = []
    for way, snapshots in (("memory", "off"), ("messages", "off"), ("messages", "0.01")):
        with tempfile.TemporaryDirectory() as directory:
            flags = ["--keep", "--journal-dir", directory, "--snapshots", snapshots]
            flags += ["--layout", "1,1", "--between-nodes", way]
            result = t.run(2, "relayed", "steps=6", "kib=256", "sums=1", flags=flags)
            require(result.code == 0, f"exit code {result.code}", result)
            [name] = os.listdir(directory)
            text = shown(t, "--json", os.path.join(directory, name))
        sums = [o for o in map(json.loads, text.splitlines()) if o.get("reduction") == "sum"]
        if not all(0 < o["at"] < 1 << 48 for o in sums):
            raise Failure(f"{sums}")
        values.append([(o["rank"], o["sequence"], o["count"], o.get("values")) for o in sums])
    # Behind an image, memory may have been reused, so no values are shown.
    if len(values[0]) < 12 or values[0] != values[1] or any(v[3] is None for v in values[1]):
        raise Failure(f"{values}")
