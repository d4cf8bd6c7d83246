#!/usr/bin/env python3
"""The installed files: a prefix (also one with spaces), other builds that find it, the Debian package
and the Python module. Run one theme: install_test.py --build BUILD ... Prefix
"""

import argparse
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 200
OPTIONS = argparse.Namespace()
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HELLO_C = r"""
#include <mpi.h>
#include <rejoin.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 20; ++i) {
    sum = rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("sum %d, version %d\n", sum, rejoin_version());
  MPI_Finalize();
  return 0;
}
"""
LOOP_C = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank;
  long sum = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 500; ++i) {
    long mine = (sum * 31 + rank) % 1000003;
    usleep(2000);
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("sum %ld\n", sum);
  MPI_Finalize();
  return 0;
}
"""
HELLO_RABIT = r"""
#include <rabit/rabit.h>
#include <stdio.h>
int main(int argc, char** argv) {
  rabit::Init(argc, argv);
  int sum = rabit::GetRank() + 1;
  rabit::Allreduce<rabit::op::Sum>(&sum, 1);
  if (rabit::GetRank() == 0) printf("sum %d\n", sum);
  rabit::Finalize();
  return 0;
}
"""
HELLO_FORTRAN = """
program hello
  use mpi
  implicit none
  integer :: ierr, rank, total
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Allreduce(rank + 1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a, i0)', 'sum ', total
  call MPI_Finalize(ierr)
end program
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer C CXX)
find_package(Rejoin 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello Rejoin::MPI)
add_executable(hello_rabit hello_rabit.cc)
target_link_libraries(hello_rabit Rejoin::rabit)
find_package(MPI REQUIRED C)
add_executable(hello_mpi hello_mpi.c)
target_link_libraries(hello_mpi MPI::MPI_C)
enable_testing()
add_test(NAME hello COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3 $<TARGET_FILE:hello_mpi>)
set_tests_properties(hello PROPERTIES PASS_REGULAR_EXPRESSION "sum 6")
"""
PROJECT_OF_ANY_MPI = """
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(MPI REQUIRED C)
add_executable(hello_mpi hello_mpi.c)
target_link_libraries(hello_mpi MPI::MPI_C)
enable_testing()
add_test(NAME hello COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 3 $<TARGET_FILE:hello_mpi>)
set_tests_properties(hello PROPERTIES PASS_REGULAR_EXPRESSION "sum 6")
"""


def environment(**more):
    """Returns the environment without the variables that lead to the build directory."""
    found = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    return {**found, **more}


class InstallTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="rejoin-install-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def succeeds(self, *command, env=None, cwd=None):
        """Runs a command. Returns (its standard output, its standard error)."""
        words = [str(word) for word in command]
        done = subprocess.run(words, env=environment(**(env or {})), cwd=cwd or self.directory,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def install(self, name):
        self.succeeds(OPTIONS.cmake, "--install", OPTIONS.build, "--prefix", self.path(name))
        return self.path(name)

    def check_recovery(self, prefix):
        """An unmodified program, killed; symbols, binding and images included."""
        program = [OPTIONS.openmpi_program, "-s", "400", "-e", "0"]
        ftrun = os.path.join(prefix, "bin", "ftrun")
        expected, _ = self.succeeds(ftrun, "-n", 2, *program)
        out, err = self.succeeds(ftrun, "-n", 2, "--bind-to", "core", "--kill", "1@200", *program)
        self.assertEqual(out, expected)
        self.assertRegex(err, r" at \S+/jacobi\.c:\d+::", "no symbols")
        out, err = self.succeeds(ftrun, "-n", 2, "--snapshots", "0.01", "--kill", "0@300", *program)
        self.assertEqual(out, expected)


class Prefix(InstallTest):
    def test_everything_is_there(self):
        prefix = self.install("prefix")
        here = {os.path.relpath(path, prefix) for path in
                glob.glob(f"{prefix}/**", recursive=True) if not os.path.isdir(path)}  # fmt: skip
        for name in ("bin/ftrun", "bin/ftmpicc", "bin/ftmpicxx", "bin/ftmpifort",
                     "lib/rejoin/libmpi.so.40", "lib/rejoin/libmpi_cxx.so.40",
                     "lib/rejoin/libmpi_mpifh.so.40", "lib/rejoin/librabit.so",
                     "lib/rejoin/librejoin_libc.so", "lib/rejoin/librejoin_restore.so",
                     "lib/rejoin/librejoin_binding.so", "lib/rejoin/librejoin_symbols.so", "lib/rejoin/librejoin_tls.so",
                     "lib/pkgconfig/rejoin.pc", "lib/cmake/Rejoin/RejoinConfig.cmake",
                     "include/rejoin/rejoin.h", "include/rejoin/rabit/rabit.h",
                     "share/man/man1/ftrun.1", "share/man/man1/ftmpicc.1",
                     "share/doc/rejoin/LICENSE", "share/doc/rejoin/docs/ftrun.md",
                     "share/bash-completion/completions/ftrun"):  # fmt: skip
            self.assertIn(name, here)
        for name in here:
            if name.endswith((".pc", ".cmake")) or name.startswith("share/man") or name.startswith("bin/ftmpi"):
                with open(os.path.join(prefix, name)) as file:
                    self.assertNotIn(OPTIONS.build, file.read(), name)

    def test_programs_outlive_their_ranks(self):
        self.check_recovery(self.install("prefix"))

    def test_with_spaces_and_moved(self):
        self.install("a prefix")
        self.check_recovery(self.path("a prefix"))
        os.rename(self.path("a prefix"), self.path("moved: there"))
        self.check_recovery(self.path("moved: there"))

    def test_written_images(self):
        ftrun = os.path.join(self.install("a prefix"), "bin", "ftrun")
        self.write("loop.c", LOOP_C)
        self.succeeds("mpicc.openmpi", "-o", "loop", "loop.c")
        program = ["./loop"]
        expected, _ = self.succeeds(ftrun, "-n", 2, *program)
        often = ["--snapshots", "0.02", "--checkpoint-dir", "sets", "--checkpoint-every", "0.05"]
        job = subprocess.Popen([ftrun, "-n", "2", *often, *program], cwd=self.directory,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
        while job.poll() is None and not glob.glob(self.path("sets", "images-*.rejoin")):
            time.sleep(0.005)
        job.kill()
        out, _ = job.communicate(timeout=LIMIT_S)
        self.assertEqual((job.returncode, out), (-9, ""))
        self.check_inspect(ftrun)
        again, err = self.succeeds(ftrun, "-n", 2, *often, "--resume", *program)
        self.assertIn("going on from", err)
        self.assertEqual(again, expected)

    def check_inspect(self, ftrun):
        """Tests `ftrun inspect` on the directory, in which one set is damaged."""
        shown, _ = self.succeeds(ftrun, "inspect", "sets")
        self.assertRegex(shown, r"images-\d+\.rejoin: set \d+, 2 ranks, \d+ \w+, cut at \S+ \S+, \d+ s ago\n")
        self.assertRegex(shown, r"\n    program   loop, build build-id [0-9a-f]+\n")
        self.assertRegex(shown, r"\n    image-1 +\d+ KiB, checksum correct\n")
        self.assertIn("--resume  can go on from this set here\n", shown)
        shutil.copytree(self.path("sets"), self.path("damaged"))
        for image in glob.glob(self.path("damaged", "images-*.rejoin", "image-0")):
            with open(image, "r+b") as file:
                file.seek(5000)
                file.write(b"other")
        done = subprocess.run([ftrun, "inspect", "--json", "damaged"], cwd=self.directory, check=False,
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("no complete set", done.stderr)
        for line in done.stdout.splitlines():
            self.assertEqual({file["name"]: file["fault"] for file in json.loads(line)["files"]}["image-0"],
                             "has a wrong checksum")  # fmt: skip

    def test_man_pages_and_completion(self):
        prefix = self.install("prefix")
        said, _ = self.succeeds(f"{prefix}/bin/ftrun", "-h")
        options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", said, re.MULTILINE))
        self.assertGreater(len(options), 30)
        with open(f"{prefix}/share/man/man1/ftrun.1") as file:
            page = file.read().replace("\\-", "-")
        for option in options:
            self.assertIn(option, page)
        script = (f"source '{prefix}/share/bash-completion/completions/ftrun'; "
                  f"COMP_WORDS=('{prefix}/bin/ftrun' --); COMP_CWORD=1; _ftrun; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')  # fmt: skip
        out, _ = self.succeeds("bash", "-c", script)
        self.assertEqual(options - set(out.splitlines()), set())

    def completions(self, shell, line):
        """Returns the completions that a shell offers after `line`."""
        prefix = self.path("prefix")
        there = {"PATH": f"{prefix}/bin:{os.environ['PATH']}"}
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        if shell == "bash":
            words = shlex.split(line) + [""] * line.endswith(" ")
            script = (f"source '{prefix}/share/bash-completion/completions/ftrun'; COMP_WORDS=({shlex.join(words)}); "
                      f"COMP_CWORD={len(words) - 1}; _ftrun; " 'printf "%s\\n" "${COMPREPLY[@]}"')  # fmt: skip
            return self.succeeds("bash", "-c", script, env=there)[0].split()
        if shell == "fish":
            script = f"source '{prefix}/share/fish/vendor_completions.d/ftrun.fish'; complete -C {shlex.quote(line)}"
            out, _ = self.succeeds("fish", "--no-config", "-c", script, env=there)
            return [said.split("\t")[0] for said in out.splitlines()]
        # zsh offers completions only on a terminal, so the words that it would add are printed
        # instead.
        words = shlex.split(line) + [""] * line.endswith(" ")
        script = ("compdef() { }; compadd() { shift; print -l -- $@ }; _files() { }; _command_names() { }; "
                  f"words=({shlex.join(words)}); CURRENT={len(words)}; "
                  f"source '{prefix}/share/zsh/site-functions/_ftrun'")  # fmt: skip
        return self.succeeds("zsh", "-f", "-c", script, env=there)[0].split()

    def test_completion_of_subcommands(self):
        self.install("prefix")
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                self.assertIn("inspect", self.completions(shell, "ftrun in"))
                self.assertIn("check", self.completions(shell, "ftrun ch"))
                self.assertIn("--kill", self.completions(shell, "ftrun --k"))
                offered = self.completions(shell, "ftrun inspect --j")
                self.assertIn("--json", offered)
                self.assertNotIn("--kill", offered)

    def test_the_names_of_other_mpis(self):
        prefix = self.install("a prefix")
        names = f"{prefix}/lib/rejoin/bin"
        self.write("hello.c", HELLO_C)
        self.succeeds(f"{names}/mpicc", "-o", "hello", "hello.c")
        out, _ = self.succeeds(f"{names}/mpirun", "-n", 3, "./hello")
        self.assertRegex(out, "^sum 6,")

    def test_the_modulefile_and_the_python_module(self):
        prefix = self.install("a prefix")
        modules = "/usr/share/modules/init/bash"
        if not os.path.exists(modules):
            self.skipTest("environment-modules is not installed")
        script = (f". {modules}; module use {shlex.quote(prefix)}/share/modulefiles; module load rejoin; "
                  f"mpirun -n 2 /usr/bin/python3 -c {shlex.quote(Python.PROGRAM)}")  # fmt: skip
        out, _ = self.succeeds("bash", "-c", script)
        self.assertEqual(out, "2\n2\n")

    def test_links_of_the_documents(self):
        there = os.path.join(self.install("prefix"), "share/doc/rejoin")
        links, dead = 0, []
        for page in glob.glob(f"{there}/**/*.md", recursive=True):
            with open(page) as file:
                text = re.sub(r"```.*?```|`[^`]*`", "", file.read(), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)#\s]+)", text):
                if not target.startswith("http"):
                    links += 1
                    where = os.path.normpath(os.path.join(os.path.dirname(page), target))
                    if not (os.path.exists(where) and where.startswith(there)):
                        dead.append(f"{os.path.relpath(page, there)}: {target}")
        self.assertEqual(dead, [])
        self.assertGreater(links, 40)

    def test_the_version_names_the_revision(self):
        out, _ = self.succeeds(f"{OPTIONS.build}/bin/ftrun", "--version")
        self.assertRegex(out, r"^ftrun \(Rejoin\) \d+\.\d+\.\d+(, revision [0-9a-f]{10})?\n$")


class Builds(InstallTest):
    """Programs that are built against the installed files."""

    def setUp(self):
        super().setUp()
        self.prefix = self.install("a prefix")
        self.ftrun = f"{self.prefix}/bin/ftrun"
        self.write("hello.c", HELLO_C)

    def check_hello(self, program="./hello"):
        out, _ = self.succeeds(self.ftrun, "-n", 3, "--kill", "1@10", program)
        self.assertRegex(out, r"^sum 6, version \d+\n$")

    def test_ftmpicc(self):
        self.succeeds(f"{self.prefix}/bin/ftmpicc", "-o", "hello", "hello.c")
        self.check_hello()

    def test_ftmpifort(self):
        self.write("hello.f90", HELLO_FORTRAN)
        self.succeeds(f"{self.prefix}/bin/ftmpifort", "-o", "hello_f", "hello.f90")
        self.assertEqual(self.succeeds(self.ftrun, "-n", 3, "./hello_f")[0], "sum 6\n")
        self.write("hello_f08.f90", HELLO_FORTRAN.replace("use mpi", "use mpi_f08"))
        self.succeeds(f"{self.prefix}/bin/ftmpifort", "-o", "hello_f08", "hello_f08.f90")
        linked, _ = self.succeeds("ldd", "./hello_f08")
        self.assertIn(f"libmpi.so.40 => {self.prefix}/lib/rejoin/libmpi.so.40", linked)
        self.assertEqual(self.succeeds("./hello_f08")[0], "sum 1\n")

    def test_pkg_config(self):
        out, _ = self.succeeds("pkg-config", "--cflags", "--libs", "rejoin",
                               env={"PKG_CONFIG_PATH": f"{self.prefix}/lib/pkgconfig"})
        self.succeeds("cc", "-o", "hello", "hello.c", *shlex.split(out))
        self.check_hello()

    def test_cmake(self):
        self.write("CMakeLists.txt", PROJECT)
        self.write("hello_rabit.cc", HELLO_RABIT)
        self.write("hello_mpi.c", HELLO_C.replace("#include <rejoin.h>", "").replace(
            ", version %d", "").replace(", rejoin_version()", ""))  # fmt: skip
        self.succeeds(OPTIONS.cmake, "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                      f"-DMPI_C_COMPILER={self.prefix}/bin/ftmpicc",
                      f"-DMPIEXEC_EXECUTABLE={self.ftrun}")
        self.succeeds(OPTIONS.cmake, "--build", "out")
        self.check_hello("out/hello")
        self.assertEqual(self.succeeds(self.ftrun, "-n", 3, "out/hello_rabit")[0], "sum 6\n")
        out, _ = self.succeeds(os.path.join(os.path.dirname(OPTIONS.cmake), "ctest"), "--test-dir", "out")
        self.assertIn("100% tests passed, 0 tests failed out of 1", out)

    def test_cmake_with_mpi_home(self):
        self.write("CMakeLists.txt", PROJECT_OF_ANY_MPI)
        self.write("hello_mpi.c", HELLO_C.replace("#include <rejoin.h>", "").replace(
            ", version %d", "").replace(", rejoin_version()", ""))  # fmt: skip
        self.succeeds(OPTIONS.cmake, "-S", ".", "-B", "out", f"-DMPI_HOME={self.prefix}/lib/rejoin")
        self.succeeds(OPTIONS.cmake, "--build", "out")
        linked, _ = self.succeeds("ldd", "out/hello_mpi")
        self.assertIn(f"libmpi.so.40 => {self.prefix}/lib/rejoin/libmpi.so.40", linked)
        out, _ = self.succeeds(os.path.join(os.path.dirname(OPTIONS.cmake), "ctest"), "--test-dir", "out")
        self.assertIn("100% tests passed, 0 tests failed out of 1", out)

    def test_what_mpichs_wrappers_print(self):
        for flag in ("-compile_info", "-link_info"):
            out, _ = self.succeeds(f"{self.prefix}/bin/ftmpicc", flag)
            self.assertIn("-I", out)
        self.assertIn("libmpi.so.40", out)


class Package(InstallTest):
    """Debian's package."""

    def test_installed(self):
        cpack = os.path.join(os.path.dirname(OPTIONS.cmake), "cpack")
        self.succeeds(cpack, "-G", "DEB", "-B", self.path("packages"), cwd=OPTIONS.build)
        [package] = glob.glob(self.path("packages", "*.deb"))
        shown, _ = self.succeeds("dpkg", "--info", package)
        self.assertRegex(shown, r" Package: rejoin\n")
        root = self.path("root")
        os.makedirs(f"{root}/var/lib/dpkg/updates")
        os.makedirs(f"{root}/var/lib/dpkg/info")
        open(f"{root}/var/lib/dpkg/status", "w").close()
        if os.geteuid() != 0:
            self.succeeds("dpkg-deb", "--extract", package, root)
        else:
            self.succeeds("dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless",
                          "--install", package)  # fmt: skip
        self.check_recovery(f"{root}/usr")
        self.assertTrue(os.path.exists(f"{root}/usr/lib/python3/dist-packages/rabit/__init__.py"))
        self.assertEqual(glob.glob(f"{root}/usr/lib/*.so*"), [], "the system's linker would find it")


class Python(InstallTest):
    """A wheel that is built and installed without a network. Needs pip, setuptools and wheel."""

    PROGRAM = "import rabit; rabit.init(); print(rabit.get_world_size()); rabit.finalize()"

    def test_a_wheel(self):
        shutil.copytree(f"{SOURCES}/python", self.path("python"))  # pip builds in there
        pip = ["/usr/bin/python3", "-m", "pip"]
        offline = ["--no-index", "--no-build-isolation"]
        self.succeeds(*pip, "wheel", *offline, "--no-deps", "-w", self.path("wheels"), "./python")
        [wheel] = glob.glob(self.path("wheels", "rejoin_rabit-*.whl"))
        self.succeeds(*pip, "install", *offline, "--no-deps", "--target", self.path("site"), wheel)
        prefix = self.install("prefix")
        there = {"PYTHONPATH": self.path("site")}
        command = ["/usr/bin/python3", "-c", self.PROGRAM]
        out, _ = self.succeeds(f"{prefix}/bin/ftrun", "-n", 2, *command, env=there)
        self.assertEqual(out, "2\n2\n")
        # Without REJOIN_LIBRARY_DIR the module finds the library by ftrun.
        there["PATH"] = f"{prefix}/bin:{os.environ['PATH']}"
        self.assertEqual(self.succeeds(*command, env=there)[0], "1\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--openmpi-program", required=True, type=os.path.abspath)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
