#!/usr/bin/env python3
"""Runs every command that README and docs show, in a directory that looks like a clone that was built.

What a page shows in a block is a command, output or part of a file: a block that is none of them is
a failure, so that no command is passed over. Run one theme: commands_test.py --build BUILD Pages
"""

import argparse
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 120  # of one command
OPTIONS = argparse.Namespace()
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Pages with commands of bench/report, which runs them itself (unit.bench_report).
WRITTEN = ("docs/performance.md", "docs/performance-notes.md")
# Their blocks are drawings and a grammar.
DRAWN = ("docs/architecture.md", "docs/journal.md")

COMMAND = re.compile(
    r"(?:\w+=\S+ )*(?:ftrun|ftmpi\w+|build(?:-asan)?/bin/\w+|\./\w+|\.ci/\w+|bench/\w+|tests/\w+/\w+\.py|"
    r"cmake|cpack|ctest|docker|pip|cc|python3)(?: |$)"
)
SHOWN = re.compile(r"rejoin: |\[\d+\] |find_package\(")  # output, and lines of a CMakeLists.txt

# Commands that are not run here, and what runs the same.
ELSEWHERE = {
    "./check": "this test is a part of it",
    "./quickstart": "examples.quickstart",
    "python3 examples/examl/demo.py": "examples.quickstart",
    "cmake --preset release && cmake --build --preset release": "./check and ./quickstart build so",
    ".ci/sanitize asan": "./check",
    "ftrun -H a:4,b:4 ./a.out": "kill.hosts_by_name",
    "ftrun -H a:4,b:4,c:4 --survive host --spares 1 ./a.out": "kill.host_is_frozen, kill.host_is_lost.*",
    "ftrun -H a:4,b:4 --encrypt ./a.out": "kill.encrypted_hosts_cut.*",
    "ftrun --listen :7000 --nodes 2 --npernode 4 ./a.out": "kill.joined_ranks_die.nodes",
    "ftrun --listen :7000 --nodes 2 --npernode 4 --secret-file secret ./a.out": "kill.joined_before_ftrun",
    "ftrun agent --join head:7000 --secret-file secret": "kill.joined_before_ftrun",
    "ftrun -H a:4,b:4 --survive host --oversubscribe-on-loss ./a.out": "kill.host_is_lost_without_spare.*",
    "ftrun -H a:4,b:4 --checkpoint-dir saved ./a.out": "kill.written_on_hosts.*",
    "ftrun -H a:4,b:4 --checkpoint-dir saved --resume ./a.out": "kill.written_on_hosts.*",
    "ftrun -n 4 --checkpoint-dir saved --grace 30 ./a.out ARGS": "kill.notice.one",
    "ftrun -H a:4,b:4,c:4 --checkpoint-dir saved --spares 1 ./a.out": "kill.cluster_begins_again_elsewhere.spare",
    "ftrun -H a:4,b:4 --between-nodes fabric ./a.out": "kill.fabric_hosts_cut.*",
    "FI_PROVIDER='verbs;ofi_rxm' ftrun -H a:4,b:4 --between-nodes fabric ./a.out": "needs such a network",
    "ftrun --hostfile hosts -n 6 ./a.out": "kill.hosts_by_name, unit.Options.HostsOfAFile",
    "docker build -t rejoin -f examples/Dockerfile .": "needs docker and a registry",
    "docker run --rm rejoin ftrun -n 4 --kill 1@100 jacobi": "needs docker and a registry",
}

SHORT, LONG = 1200, 8000  # steps of PROGRAM: in no time, in about 16 s
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, steps = argc > 1 ? atoi(argv[1]) : 1200;
  long sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < steps; ++i) {
    long mine = (sum * 31 + rank) % 1000003;
    if (steps > 1200) usleep(2000);
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("sum %ld\n", sum);
  MPI_Finalize();
  return 0;
}
"""
MPI4PY = "from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1))\n"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer C CXX)
find_package(MPI REQUIRED C)
add_executable(program program.c)
target_link_libraries(program MPI::MPI_C)
"""


class Strange(Exception):
    """A block that is neither commands nor output."""


def without_comment(line):
    return re.sub(r"\s+#\s.*", "", line).strip()


def commands_of_block(lines):
    """The commands of a block: all of its lines, with continued ones joined; none if it shows output."""
    if SHOWN.match(lines[0]):
        return []
    commands = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n"):
        if not COMMAND.match(line):
            raise Strange(line)
        commands.append(without_comment(line))
    return commands


def blocks_of(text):
    """The blocks of a page that are indented, as lists of lines."""
    for language in re.findall(r"^```([^\n]*)\n.*?^```$", text, re.DOTALL | re.MULTILINE):
        if language not in ("", "c", "c++", "python"):
            raise Strange(f"a block of {language}")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    block, before = [], ""
    for line in [*text.split("\n"), ""]:
        if line.startswith("    ") and (block or not before.strip()):
            block.append(line[4:])
        elif block:
            yield block
            block = []
        before = line


def commands_of(page, text):
    """All commands of a page, in their order: its blocks', then those inside of sentences that name a program."""
    commands = []
    if page not in DRAWN:
        for block in blocks_of(text):
            commands += commands_of_block(block)
    prose = "\n".join(line for line in text.split("\n") if not line.startswith("    "))
    for words in re.findall(r"`([^`\n]+)`", prose):
        if COMMAND.match(words) and re.search(r" (-h|\./\S+|\S+/bin/\w+|\S+\.(py|c))( |$)|&&", words):
            commands.append(without_comment(words))
    return list(dict.fromkeys(commands))


def pages():
    names = ["README.md", "CONTRIBUTING.md", "examples/README.md", "tests/hostile/README.md"]
    names += sorted(os.path.relpath(path, SOURCES) for path in glob.glob(f"{SOURCES}/docs/*.md"))
    return [name for name in names if name not in WRITTEN]


def text_of(page):
    with open(f"{SOURCES}/{page}", encoding="utf-8") as file:
        return file.read()


class Rules(unittest.TestCase):
    """Which lines are commands."""

    def test_a_block_of_commands(self):
        found = commands_of_block(["ftrun -n 4 ./a.out    # runs it", "cmake -S . \\", "  -B out"])
        self.assertEqual(found, ["ftrun -n 4 ./a.out", "cmake -S . -B out"])

    def test_output_is_none(self):
        self.assertEqual(commands_of_block(["rejoin: rank 1 died", "  more"]), [])

    def test_what_is_neither(self):
        with self.assertRaises(Strange):
            commands_of_block(["ftrun ./a.out", "frobnicate ./a.out"])

    def test_a_block_of_another_language(self):
        with self.assertRaises(Strange):
            list(blocks_of("```sh\nftrun ./a.out\n```\n"))

    def test_inside_of_a_sentence(self):
        text = "`ftrun check ./a.out` tells; `ftrun` and `ftrun --keep` are no commands\n"
        self.assertEqual(commands_of("page", text), ["ftrun check ./a.out"])

    def test_blocks(self):
        text = "words\n\n    one\n    two\n\n```c\n    code\n```\n- item\n    of an item\n\n    three\n"
        self.assertEqual(list(blocks_of(text)), [["one", "two"], ["three"]])


class Pages(unittest.TestCase):
    """The commands of each page."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="rejoin-docs-")
        self.addCleanup(directory.cleanup)
        self.root = directory.name

    def run_command(self, tree, command):
        """Runs one; returns (its exit code, what it printed)."""
        paths = [f"{OPTIONS.build}/bin", OPTIONS.cmake_directory, os.environ["PATH"]]
        environment = {**os.environ, "PATH": ":".join(paths), "PIP_TARGET": f"{tree}/site",
                       "PKG_CONFIG_PATH": f"{self.root}/prefix/lib/pkgconfig",
                       "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tree, env=environment, timeout=LIMIT_S, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return done.returncode, done.stdout.decode(errors="replace")

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def make_tree(self, page):
        """A clone that was built, by links; with what users bring along."""
        tree = f"{self.root}/{page.replace('/', '-')}"
        os.makedirs(f"{tree}/build")
        for name in os.listdir(SOURCES):
            if name not in (".git", "python") and not name.startswith("build"):
                os.symlink(f"{SOURCES}/{name}", f"{tree}/{name}")
        shutil.copytree(f"{SOURCES}/python", f"{tree}/python")  # pip builds in there
        for name in os.listdir(OPTIONS.build):
            # ctest would replace the log of the one that runs this test.
            if not name.startswith("check-results") and name != "Testing":
                os.symlink(f"{OPTIONS.build}/{name}", f"{tree}/build/{name}")
        results = ('<testsuite tests="1"><testcase name="unit.A" time="1.5" status="run"><system-out/>'
                   "</testcase></testsuite>")  # fmt: skip
        for directory in ("build", "build-asan", "build-tsan"):
            self.write(f"{tree}/{directory}/check-results.xml", results)
        os.symlink(f"{OPTIONS.build}/bin", f"{tree}/build-asan/bin")
        self.write(f"{tree}/program.c", PROGRAM)
        self.write(f"{tree}/program.py", MPI4PY)
        [program] = [block for block in re.findall(r"```c\n(.*?)```", text_of("docs/checkpoints.md"), re.DOTALL)
                     if "main(" in block]  # fmt: skip
        self.write(f"{tree}/prog.c", program)
        self.write(f"{tree}/fuzz_journal.found", "not a journal")
        code, said = self.run_command(tree, "mpicc.openmpi -g -o a.out program.c")
        self.assertEqual(code, 0, said)
        return tree

    def adapted(self, command):
        """The command for this machine: other places, and seconds instead of minutes."""
        command = command.replace("/opt/rejoin", f"{self.root}/prefix")
        command = command.replace(" ARGS", f" {LONG if '--checkpoint-dir' in command else SHORT}")
        command = command.replace("--seconds 600", "--seconds 1").replace("--deaths 300", "--deaths 1")
        if command.startswith("ctest "):
            return command + " -N"
        if command.startswith("pip "):
            return "/usr/bin/python3 -m " + command
        return command

    def try_command(self, page, tree, command):
        if "mpi4py" in page and subprocess.run(["/usr/bin/python3", "-c", "import mpi4py"], check=False,
                                               capture_output=True).returncode:  # fmt: skip
            self.skipTest("mpi4py is not installed")
        if "-DMPI_C_COMPILER" in command:
            self.install()
            tree = f"{self.root}/consumer"
            self.write(f"{tree}/CMakeLists.txt", PROJECT)
            self.write(f"{tree}/program.c", PROGRAM)
        if "pkg-config" in command:
            self.install()
        if "--checkpoint-dir saved ./a.out" in command:
            self.kill_when_it_has_images(tree, self.adapted(command))
            return
        code, said = self.run_command(tree, self.adapted(command))
        self.assertEqual(code, 0, said)
        if "--kill" in command:
            self.assertIn(" is back after ", said)
        if command.startswith("ctest "):
            self.assertRegex(said, r"Total Tests: [1-9]")
        if "--resume" in command:
            self.assertIn("going on from ", said)

    def install(self):
        if not os.path.exists(f"{self.root}/prefix"):
            command = f"{shlex.quote(OPTIONS.cmake_directory)}/cmake --install {shlex.quote(OPTIONS.build)} --prefix"
            code, said = self.run_command(self.root, f"{command} {self.root}/prefix")
            self.assertEqual(code, 0, said)

    def kill_when_it_has_images(self, tree, command):
        """The end of the whole job, for the next command, which resumes it."""
        words = [f"{OPTIONS.build}/bin/ftrun", *shlex.split(command)[1:]]
        job = subprocess.Popen(words, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        end_s = time.monotonic() + LIMIT_S
        while not glob.glob(f"{tree}/saved/images-*.rejoin") and job.poll() is None and time.monotonic() < end_s:
            time.sleep(0.05)
        job.send_signal(signal.SIGKILL)
        out, _ = job.communicate(timeout=LIMIT_S)
        self.assertEqual((job.returncode, out), (-9, b""), "it was to be killed with images written")

    def test_commands(self):
        tried = 0
        for page in pages():
            try:
                commands = commands_of(page, text_of(page))
            except Strange as line:
                self.fail(f"{page}: neither a command nor output: {line}")
            tree = self.make_tree(page) if commands else None
            for command in commands:
                if command in ELSEWHERE:
                    continue
                tried += 1
                start_s = time.monotonic()
                with self.subTest(page=page, command=command):
                    self.try_command(page, tree, command)
                print(f"{time.monotonic() - start_s:6.1f} s  {page}: {command}", flush=True)
        self.assertGreater(tried, 35)

    def test_what_runs_elsewhere_is_shown_and_run(self):
        shown = {command for page in pages() for command in commands_of(page, text_of(page))}
        self.assertEqual(set(ELSEWHERE) - shown, set())
        tree = self.make_tree("tests")
        code, tests = self.run_command(tree, "ctest --test-dir build -N")
        self.assertEqual(code, 0, tests)
        self.assertIn("examples.quickstart", tests)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--cmake-directory", default="/usr/bin", help="where cmake, ctest and cpack are")
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
