#!/usr/bin/env python3
"""ftrun alone: the command line, and kept journals."""

import glob
import os
import subprocess

from launcher_case import LIMIT_S, OPTIONS, LauncherTest, main


class CommandLine(LauncherTest):
    def assert_refused(self, arguments, code, pattern):
        done = self.ftrun(*arguments)
        self.assertEqual(done.code, code, done.err)
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, pattern)
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertEqual(sorted(os.listdir(self.directory)), self.files_before)

    def test_bad_usage(self):
        self.write_file("plain", "text", 0o644)
        self.write_file("noformat", "text", 0o755)
        os.mkdir(self.path("subdirectory"))
        self.files_before = sorted(os.listdir(self.directory))
        for arguments, code, pattern in (
            ([], 2, "no program to run"),
            (["-n", "2"], 2, "no program to run"),
            (["--tag-outputs", "true"], 2, "unknown option --tag-outputs.*--tag-output"),
            (["-z", "true"], 2, "unknown option -z"),
            (["-n"], 2, "-n needs a value"),
            (["-n", "0", "true"], 2, "-n 0: a job has 1 to 1024 ranks"),
            (["-n", "1025", "true"], 2, "1 to 1024"),
            (["-n", "99999999999", "true"], 2, "1 to 1024"),
            (["-n", "-3", "true"], 2, "-n -3: not a number of ranks"),
            (["-np", "two", "true"], 2, "-n two: not a number of ranks"),
            (["--kill", "nonsense", "true"], 2, "--kill nonsense: there is no @"),
            (["--kill", "0@0", "true"], 2, "number from 1"),
            (["-n", "2", "--kill", "2@1", "true"], 2, "there is no rank 2"),
            (["--journal-limit", "12Q", "true"], 2, "--journal-limit.*is no size"),
            (["--timeout", "soon", "true"], 2, "--timeout soon: not a time"),
            (["--bind-to", "moon", "true"], 2, "--bind-to moon.*auto, none, core, socket"),
            (["--libc-recording", "maybe", "true"], 2, "--libc-recording maybe.*on, off"),
            (["--max-restarts", "-1", "true"], 2, "max-restarts"),
            (["--no-restart=1", "true"], 2, "takes no value"),
            (["no-such-program"], 127, "no-such-program: no such program in PATH"),
            (["plain"], 127, "write ./plain"),
            (["./none"], 127, "./none: No such file"),
            (["./plain"], 126, "./plain: not executable"),
            (["./subdirectory"], 126, "is a directory"),
            (["-n", "1", "./noformat"], 126, "Exec format error"),
            (["--wdir", "/no/where", "true"], 1, "--wdir /no/where: no such directory"),
            (["--journal-dir", "/no/where", "true"], 1, "cannot write to --journal-dir /no/where"),
            (["--journal-dir", "/proc", "true"], 1, "--journal-dir /proc"),
            (["--events", "/no/where/e", "true"], 1, "cannot write --events /no/where/e"),
            (["inspect"], 2, "inspect"),
            (["inspect", "none"], 1, "cannot read none"),
            (["inspect", "one", "two"], 2, "not expected: two; .* one journal at a time"),
            (["inspect", "plain"], 1, "plain is no journal"),
        ):
            with self.subTest(arguments):
                self.assert_refused(arguments, code, pattern)

    def test_help_and_version(self):
        done = self.ftrun("-h")
        self.assertEqual((done.code, done.err), (0, ""))
        for word in ("--max-restarts", "--kill", "ftrun -n 4 ./a.out", "Exit code", "inspect"):
            self.assertIn(word, done.out)
        self.assertLessEqual(max(map(len, done.out.splitlines())), 100)
        self.assertRegex(self.ftrun("--version").out, r"^ftrun \(Rejoin\) \d+\.\d+")

    def test_mpiruns_spellings(self):
        done = self.ftrun("-np", 2, "-wdir", "/usr", "-tag-output", "--oversubscribe", "-x",
                          "A=b c", "--allow-run-as-root", "sh", "-c", "echo $PWD $A")
        self.assertEqual(sorted(done.out.splitlines()),
                         ["[0]<stdout>: /usr b c", "[1]<stdout>: /usr b c"])

    def test_what_follows_the_program_is_its_own(self):
        done = self.ftrun("-n1", "echo", "-n", "5", "--kill")
        self.assertEqual(done.out, "5 --kill")
        done = self.ftrun("--n=1", "--", "echo", "--", "x")
        self.assertEqual(done.out, "-- x\n")

    def test_a_program_relative_to_wdir(self):
        os.mkdir(self.path("sub"))
        self.write_file("sub/script", "#!/bin/sh\necho here $PWD\n")
        done = self.ftrun("-n", 1, "--wdir", "sub", "./script")
        self.assertEqual(done.out, f"here {self.path('sub')}\n")

    def test_an_exported_variable_that_is_not_set(self):
        done = self.ftrun("-n", 1, "-x", "SURELY_NOT_SET", "true")
        self.assertEqual(done.code, 0)
        self.assertIn("-x SURELY_NOT_SET", done.err)

    def test_libc_recording_off(self):
        done = self.fake(1, "env:REJOIN_LIBC_RECORDING", "env:LD_PRELOAD",
                         flags=["--libc-recording", "off"])
        self.assertRegex(done.out, r"REJOIN_LIBC_RECORDING=off\nLD_PRELOAD=[^:]*/libmpi.so.40\n")
        done = self.fake(1, "env:LD_PRELOAD", env=dict(os.environ, LD_PRELOAD="libm.so.6"))
        self.assertRegex(done.out, r"=[^:]*/librejoin_libc.so:[^:]*/libmpi.so.40:libm.so.6\n")

    def test_binding(self):
        done = self.ftrun("-n", 2, "--bind-to", "core", "sh", "-c",
                          "grep Cpus_allowed_list /proc/self/status")
        self.assertEqual(done.code, 0, done.err)
        sets = [set(line.split(":")[1].strip()) for line in done.out.splitlines()]
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(len(sets), 2)
            self.assertNotEqual(sets[0], sets[1])

    def test_binding_by_itself(self):
        """Ranks that fill the machine get a processor each, others all of them."""
        mine = len(os.sched_getaffinity(0))
        for ranks, alone in ((mine, True), (mine + 1, False)):
            done = self.ftrun("-n", ranks, "sh", "-c", "nproc")
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(set(done.out.split()), {"1" if alone else str(mine)})

    def test_a_program_of_another_mpi(self):
        source = self.write_file("other.c", "int MPI_Init(); int main() { return MPI_Init(); }")
        library = self.write_file("library.c", "int MPI_Init() { return 0; }")
        subprocess.run(["cc", "-shared", "-o", self.path("libmpich.so.12"), library,
                        "-Wl,-soname,libmpich.so.12"], check=True)
        subprocess.run(["cc", "-w", "-o", self.path("other"), source, self.path("libmpich.so.12")],
                       check=True)
        done = self.ftrun("-n", 2, "./other")
        self.assertEqual(done.code, 1)
        self.assertRegex(
            done.err, r"^rejoin: ./other was built for MPICH .*\(libmpich.so.12\).*\n$")

    def test_too_few_descriptors(self):
        limit = f"ulimit -n 64; exec '{OPTIONS.ftrun}' -n 100 sleep 10"
        done = subprocess.run(["sh", "-c", limit], capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb"^rejoin: cannot start rank \d+, sleep \(pipe\): "
                                      rb"Too many open files.*\n$")

    def test_a_full_journal_directory(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to mount a small file system")
        os.mkdir(self.path("small"))
        mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", self.path("small")]
        mounted = subprocess.run(mount, capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("may not mount here")
        try:
            done = self.ftrun("-n", 4, "--journal-dir", "small", "true")
        finally:
            subprocess.run(["umount", self.path("small")], check=True)
        self.assertEqual(done.code, 1)
        self.assertRegex(
            done.err, "^rejoin: there is no room for a journal in --journal-dir small.*\n$")


class Journal(LauncherTest):
    def kept(self, directory="."):
        return glob.glob(os.path.join(self.directory, directory, "rejoin-*.journal"))

    def test_keep_and_inspect(self):
        done = self.fake(2, "init", "op:3", "0/kill:9@0", "finalize", flags=["--keep", "-q"])
        self.assertEqual(done.code, 0, done.err)
        [journal] = self.kept()
        self.assertRegex(done.err, rf"{os.path.basename(journal)} \(\d+ KiB on disk, sparse\)")
        self.assertLess(os.stat(journal).st_blocks * 512, 64 << 20)
        shown = self.ftrun("inspect", journal)
        self.assertEqual(shown.code, 0, shown.err)
        self.assertRegex(shown.out, r"^job [0-9a-f]{16}: 2 ranks, 1 death,")
        self.assertRegex(shown.out, r"\nrank 0: 2 incarnations, ")
        self.assertRegex(shown.out, r"\nrank 1: 1 incarnation, ")
        one = self.ftrun("inspect", journal, "--rank", "1")
        self.assertNotIn("rank 0", one.out)
        self.assertEqual(self.ftrun("inspect", journal, "--rank", "2").code, 2)

    def test_a_damaged_journal(self):
        self.fake(1, "init", "op", "finalize", flags=["--keep"])
        [journal] = self.kept()
        with open(journal, "r+b") as file:
            file.truncate(1 << 20)
        done = self.ftrun("inspect", journal)
        self.assertEqual(done.code, 1)
        self.assertIn("damaged", done.err)

    def test_a_directory_for_the_journal(self):
        os.mkdir(self.path("d"))
        done = self.fake(2, "init", "op:3", "0/kill:9@0", "finalize", flags=["--journal-dir", "d"])
        self.assertEqual((done.code, os.listdir(self.path("d"))), (0, []))
        done = self.fake(2, "init", "finalize", flags=["--journal-dir", "d", "--keep"])
        self.assertEqual((done.code, len(self.kept("d"))), (0, 1))

    def test_a_planted_link_is_not_followed(self):
        self.write_file("precious", "mine")
        process = self.start("-n", 1, "--keep", OPTIONS.fake, "init", "env:REJOIN_SOCKET", "line",
                             "finalize", stdin=subprocess.PIPE)
        job = process.stdout.readline().decode().strip().removeprefix("REJOIN_SOCKET=")
        os.symlink(self.path("precious"), self.path(f"{job}.journal"))
        _, err = process.communicate(b"go on\n", timeout=LIMIT_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"File exists", err)
        with open(self.path("precious")) as file:
            self.assertEqual(file.read(), "mine")

    def test_a_kept_journal_is_private(self):
        self.fake(1, "init", "finalize", flags=["--keep"])
        [journal] = self.kept()
        self.assertEqual(os.stat(journal).st_mode & 0o777, 0o600)

    def test_a_journal_that_cannot_be_kept(self):
        done = self.fake(1, "init", "finalize", flags=["--keep", "--journal-dir", "/proc"])
        self.assertEqual(done.code, 1)


if __name__ == "__main__":
    main(__doc__)
