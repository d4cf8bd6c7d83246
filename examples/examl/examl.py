"""ExaML's input, command line and results, for the demo, the tests and bench/."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BINARIES = "/usr/lib/examl/bin"
RUN_ID = "run"


def best_binary():
    """Returns the path of the ExaML binary for this processor's best vector instructions."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as source:
        flags = set(re.search(r"^flags\s*:(.*)$", source.read(), re.MULTILINE).group(1).split())
    for suffix, flag in (("avx2", "avx2"), ("avx", "avx"), ("sse3", "pni"), ("sse2", "sse2")):
        path = f"{BINARIES}/examl-{suffix}"
        if flag in flags and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"no ExaML binary in {BINARIES}: install the package examl")


def make_input(directory, *options):
    """Writes alignment, start tree and ExaML's binary form of the alignment into `directory`.

    options: a list of options of make_input.py. Makes the directory; replaces files that are there.
    """
    os.makedirs(directory, exist_ok=True)
    for old in ("input.binary", "RAxML_info.input"):  # parse-examl refuses to replace its output
        if os.path.exists(f"{directory}/{old}"):
            os.remove(f"{directory}/{old}")
    generator = [sys.executable, f"{HERE}/make_input.py", "input", *options]
    parser = ["parse-examl", "-s", "input.phy", "-m", "DNA", "-n", "input"]
    subprocess.run(generator, cwd=directory, check=True)
    with open(f"{directory}/parse.log", "wb") as log:
        subprocess.run(parser, cwd=directory, check=True, stdout=log, stderr=subprocess.STDOUT)


def command(input_directory, output_directory):
    """Returns ExaML's command line, which follows that of a launcher; makes the output directory.

    -i 5 -D: ExaML uses a fixed radius of tree moves, and stops when a cycle changes next to
    nothing.
    """
    os.makedirs(output_directory, exist_ok=True)
    return [
        best_binary(),
        "-s", f"{input_directory}/input.binary",
        "-t", f"{input_directory}/input.start.tree",
        "-n", RUN_ID,
        "-m", "GAMMA",
        "-i", "5",
        "-D",
        "-w", os.path.abspath(output_directory) + "/",
    ]  # fmt: skip


def log_lines(output_directory):
    """Returns the (seconds, likelihood) pairs, as text, that ExaML has logged so far."""
    try:
        with open(f"{output_directory}/ExaML_log.{RUN_ID}", encoding="ascii") as log:
            lines = log.read().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [tuple(line.split()) for line in lines if line.endswith("\n")]


def results(output_directory):
    """Returns a dictionary of all results that must not depend on deaths; it has no times.

    Keys: likelihood (text, with all digits that are printed), tree (bytes), and model, search and
    info: the text of the three files that ExaML appends to, in which lines that are lost or written
    twice can be seen.
    """

    def read(kind):
        with open(f"{output_directory}/ExaML_{kind}.{RUN_ID}", "rb") as source:
            return source.read()

    info = read("info").decode()
    timeless = [
        line
        for line in info.splitlines()
        if "Time" not in line and "written to" not in line and BINARIES not in line
    ]
    return {
        "likelihood": re.search(r"^Likelihood\s*:\s*(\S+)", info, re.MULTILINE).group(1),
        "tree": read("result"),
        "model": read("modelFile").decode(),
        "search": [likelihood for _, likelihood in log_lines(output_directory)],
        "info": timeless,
    }


def differences(expected, actual):
    """Returns the keys whose values differ between two `results`, in their order."""
    return [key for key in expected if expected[key] != actual[key]]
