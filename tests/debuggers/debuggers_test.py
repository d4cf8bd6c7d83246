#!/usr/bin/env python3
"""Debuggers, sanitizers, profilers and allocators on ranks: docs/debuggers.md has what is tested here.

Run one theme: debuggers_test.py --ftrun BUILD/bin/ftrun --mpicc mpicc.openmpi Gdb
"""

import argparse
import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIMIT_S = 110
OPTIONS = argparse.Namespace()

# The program loses 77 bytes. With a second argument it writes beyond the end of an allocation.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, steps = atoi(argv[1]);
  long sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  volatile char* lost = malloc(77);
  int key;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, malloc(1234)); /* not lost */
  for (int i = 0; i < steps; ++i) {
    long mine = (sum * 31 + rank) % 1000003;
    usleep(1000);
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  if (argc > 2) lost[77] = 1;
  lost = NULL;
  if (rank == 0) printf("sum %ld\n", sum);
  MPI_Finalize();
  return 0;
}
"""
PROFILER = r"""
#include <mpi.h>
#include <stdio.h>
static int calls;
int MPI_Allreduce(const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  ++calls;
  return PMPI_Allreduce(from, to, n, t, op, comm);
}
int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d made %d\n", rank, calls);
  return PMPI_Finalize();
}
"""


def sum_of(steps, ranks=2):
    total = 1
    for _ in range(steps):
        total = sum((total * 31 + rank) % 1000003 for rank in range(ranks))
    return f"sum {total}\n"


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed")


class DebuggersTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="rejoin-debuggers-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.write("program.c", PROGRAM)

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def compile(self, *flags):
        subprocess.run([OPTIONS.mpicc, "-g", *flags], cwd=self.directory, check=True, timeout=LIMIT_S)

    def run_job(self, *words, code=0, **variables):
        """Returns (standard output, standard error) of `ftrun -n 2`."""
        done = subprocess.run([OPTIONS.ftrun, "-n", "2", *map(str, words)], cwd=self.directory, check=False,
                              env={**os.environ, **variables}, stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr


class Valgrind(DebuggersTest):
    @needs("valgrind")
    def test_its_leak_check_ends_and_finds_the_programs_errors_alone(self):
        self.compile("-o", "program", "program.c")
        out, err = self.run_job("--journal-limit", "64M", "valgrind", "--leak-check=full", "./program", 5, "behind")
        self.assertIn(sum_of(5), out)
        reports = re.findall(r"==\d+== (?:Invalid|Syscall|Conditional|Use of|\d.* lost ).*", err)
        for process in {report.split()[0] for report in reports}:
            mine = [report.removeprefix(process).strip() for report in reports if report.startswith(process)]
            self.assertEqual(mine, ["Invalid write of size 1",
                                    "77 bytes in 1 blocks are definitely lost in loss record 1 of 3"])  # fmt: skip
        self.assertEqual(len(reports), 4, err)
        self.assertNotIn("uninitialised", err)  # nor what a call of ours is given
        self.assertNotIn("disablement", err)

    @needs("valgrind")
    def test_a_death(self):
        self.compile("-o", "program", "program.c")
        out, err = self.run_job("--journal-limit", "64M", "--kill", "1@3", "valgrind", "-q", "./program", 5)
        self.assertEqual(out, sum_of(5))
        self.assertIn("1 restart (1 from main)", err)


class Sanitizers(DebuggersTest):
    def test_asan(self):
        self.compile("-fsanitize=address", "-o", "program", "program.c")
        quiet = {"ASAN_OPTIONS": "detect_leaks=0"}
        for flags in (["--snapshots", "off"], ["--snapshots", "0.01"]):
            out, err = self.run_job(*flags, "--kill", "1@60", "./program", 100, **quiet)
            self.assertEqual(out, sum_of(100))
            self.assertIn("1 death, 1 restart", err)
        _, err = self.run_job("./program", 5, "behind", code=1, **quiet)
        self.assertIn("heap-buffer-overflow", err)

    def test_asan_and_leaks(self):
        self.compile("-fsanitize=address", "-o", "program", "program.c")
        _, err = self.run_job("./program", 5, code=1)
        self.assertIn("Direct leak of 77 byte(s)", err)

    def test_tsan_is_refused_by_name(self):
        self.compile("-fsanitize=thread", "-o", "program", "program.c")
        done = subprocess.run([OPTIONS.ftrun, "check", "./program"], cwd=self.directory, check=False,
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("ThreadSanitizer", done.stdout)


class Gdb(DebuggersTest):
    @needs("gdb")
    def test_a_rank_begins_under_it(self):
        self.compile("-o", "program", "program.c")
        out, _ = self.run_job("gdb", "-q", "-batch", "-ex", "set breakpoint pending on", "-ex", "break PMPI_Finalize", "-ex", "run", "-ex", "backtrace", "-ex", "delete", "-ex", "continue",
                              "--args", "./program", 5)  # fmt: skip
        self.assertRegex(out, r"#1 .* main \(.*program\.c:")


class Perf(DebuggersTest):
    @needs("perf")
    def test_a_record_of_each_rank(self):
        self.compile("-o", "program", "program.c")
        script = "exec perf record -q -o perf.$OMPI_COMM_WORLD_RANK ./program 100"
        out, err = self.run_job("sh", "-c", script)
        self.assertIn(sum_of(100), out, err)
        for rank in range(2):
            self.assertTrue(os.path.exists(f"{self.directory}/perf.{rank}"))


class Profilers(DebuggersTest):
    EXPECTED = sorted([sum_of(100), "rank 0 made 100\n", "rank 1 made 100\n"])

    def check(self, program, **variables):
        out, err = self.run_job("--snapshots", "0.01", "--kill", "1@60", program, 100, **variables)
        self.assertEqual(sorted(out.splitlines(True)), self.EXPECTED)
        self.assertIn("1 death, 1 restart", err)

    def test_linked(self):
        self.write("profiler.c", PROFILER)
        self.compile("-o", "program", "program.c", "profiler.c")
        self.check("./program")

    def test_preloaded(self):
        self.write("profiler.c", PROFILER)
        self.compile("-o", "program", "program.c")
        self.compile("-shared", "-fPIC", "-o", "libprofiler.so", "profiler.c")
        self.check("./program", LD_PRELOAD=f"{self.directory}/libprofiler.so")


class Allocators(DebuggersTest):
    def test_preloaded(self):
        self.compile("-o", "program", "program.c")
        for name in ("jemalloc", "tcmalloc_minimal"):
            library = ctypes.util.find_library(name)
            if library is None:
                self.skipTest(f"{name} is not installed")
            with self.subTest(library=library):
                out, err = self.run_job("--snapshots", "0.01", "--kill", "1@60", "./program", 100, LD_PRELOAD=library)
                self.assertEqual(out, sum_of(100))
                self.assertIn("(1 from a snapshot)", err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--mpicc", required=True)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
