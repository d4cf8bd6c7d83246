#!/usr/bin/env python3
"""Tests ftrun alone: the command line, and kept journals."""

import glob
import json
import os
import subprocess

from launcher_case import LIMIT_S, OPTIONS, LauncherTest, main


class CommandLine(LauncherTest):
    def assert_refused(self, arguments, code, pattern):
        done = self.ftrun(*arguments)
        self.assertEqual(done.code, code, done.err)
        self.assertEqual(done.out, "")
        self.assertRegex(done.err, pattern)
        self.assertTrue(done.err.startswith("rejoin: "), done.err)
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertEqual(sorted(os.listdir(self.directory)), self.files_before)

    def test_bad_usage(self):
        self.write_file("plain", "text", 0o644)
        self.write_file("noformat", "text", 0o755)
        self.write_file("windows", "#!/bin/sh\r\necho\r\n")
        self.write_file("windows_env", "#!/usr/bin/env sh\r\necho\r\n")
        self.write_file("lost", "#!/no/such/interpreter\n")
        os.mkdir(self.path("subdirectory"))
        self.files_before = sorted(os.listdir(self.directory))
        for arguments, code, pattern in (
            ([], 2, "no program to run"),
            (["-n", "2"], 2, "no program to run"),
            (["--tag-outputs", "true"], 2, "unknown option --tag-outputs.*--tag-output"),
            (["-z", "true"], 2, "unknown option -z"),
            (["-n"], 2, "-n needs a value"),
            (["-n", "0", "true"], 2, "-n 0: not a number of ranks; give a whole number from 1 to 1024"),
            (["-n", "1025", "true"], 2, "1 to 1024"),
            (["-n", "99999999999", "true"], 2, "1 to 1024"),
            (["-n", "-3", "true"], 2, "-n -3: not a number of ranks"),
            (["-np", "two", "true"], 2, "-n two: not a number of ranks"),
            (["--kill", "nonsense", "true"], 2, "--kill nonsense: there is no @"),
            (["--kill", "0@0", "true"], 2, "number from 1"),
            (["-n", "2", "--kill", "2@1", "true"], 2, "there is no rank 2"),
            (["--journal-limit", "12Q", "true"], 2, "--journal-limit.*is not a size"),
            (["--timeout", "soon", "true"], 2, "--timeout soon: not a time"),
            (["--bind-to", "moon", "true"], 2, "--bind-to moon.*auto, none, hwthread, core.*socket"),
            (["--libc-recording", "maybe", "true"], 2, "--libc-recording maybe.*on, off"),
            (["--max-restarts", "1e3", "true"], 2, "--max-restarts 1e3: not a number of restarts; give a whole number from 0 to"),
            (["--no-restart=1", "true"], 2, "does not take a value"),
            (["no-such-program"], 127, "no-such-program: there is no such program in PATH"),
            (["plain"], 127, "write ./plain"),
            (["./none"], 127, "./none: No such file"),
            (["./plain"], 126, "./plain: not executable"),
            (["./subdirectory"], 126, "is a directory"),
            (["./windows"], 126, "./windows: its first line ends with a carriage return"),
            (["./windows_env"], 126, "./windows_env: its first line ends with a carriage return"),
            (["./lost"], 127, "./lost: its interpreter /no/such/interpreter does not exist"),
            (["--checkpoint-dir", "/proc/no", "true"], 1, "--checkpoint-dir /proc/no: cannot create it"),
            (["check"], 2, "check: .*; write ftrun check PROGRAM"),
            (["check", "./none"], 127, "./none: No such file"),
            (["check", "./noformat"], 126, "neither a program nor a script"),
            (["-n", "1", "./noformat"], 126, "Exec format error"),
            (["--wdir", "/no/where", "true"], 1, "--wdir /no/where: there is no such directory"),
            (["--journal-dir", "/no/where", "true"], 1, "cannot write to --journal-dir /no/where"),
            (["--journal-dir", "/proc", "true"], 1, "--journal-dir /proc"),
            (["--events", "/no/where/e", "true"], 1, "cannot write --events /no/where/e"),
            (["inspect"], 2, "inspect"),
            (["inspect", "none"], 1, "cannot read none"),
            (["inspect", "--json", "plain"], 1, "plain is not a journal"),
            (["inspect", "plain"], 1, "plain is not a journal"),
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
        self.assertRegex(done.out, r"=libm.so.6:[^:]*/librejoin_libc.so:[^:]*/libmpi.so.40\n")

    def test_binding(self):
        done = self.ftrun("-n", 2, "--bind-to", "core", "sh", "-c",
                          "grep Cpus_allowed_list /proc/self/status")
        self.assertEqual(done.code, 0, done.err)
        sets = [set(line.split(":")[1].strip()) for line in done.out.splitlines()]
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(len(sets), 2)
            self.assertNotEqual(sets[0], sets[1])

    def test_binding_by_itself(self):
        """If there are as many ranks as processors, each gets one; otherwise each gets all of them."""
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
        self.assertRegex(done.stderr, rb"^rejoin: ulimit -n 64 is too low: ftrun needs \d+ descriptors "
                                      rb"for 100 ranks; raise it, or use fewer ranks\n$")

    def test_every_limit_on_descriptors_has_a_reason(self):
        for limit in range(8, 56, 3):
            command = f"ulimit -n {limit}; exec '{OPTIONS.ftrun}' -n 3 '{OPTIONS.fake}' init op finalize"
            done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=LIMIT_S)
            if done.returncode != 0:
                self.assertRegex(done.stderr, rb"^rejoin: (ulimit -n \d+ is too low: |.*Too many open files)")

    def test_no_file_may_be_written(self):
        command = f"ulimit -f 0; exec '{OPTIONS.ftrun}' -n 2 true"
        done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb"^rejoin: cannot create shared memory: File too large \(ulimit -f "
                                      rb"limits its size; set it to unlimited: the file is sparse and occupies little space\)\n$")

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


class OtherLaunchers(LauncherTest):
    """Tests options of mpirun, mpiexec and srun, and environment variables that these set."""

    def test_several_programs(self):
        done = self.ftrun("-n", 1, "-x", "A=a", "sh", "-c", "echo $PMI_RANK $REJOIN_PROGRAM $A", ":",
                          "-n", 2, "--wdir", "/usr", "-x", "A=b", "sh", "-c",
                          "echo $PMI_RANK $REJOIN_PROGRAM $A $PWD")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["0 0 a", "1 1 b /usr", "2 1 b /usr"])

    def test_a_rank_of_several_programs_dies(self):
        done = self.ftrun("-n", 1, OPTIONS.fake, "init", "op:3", "0/print:first", "finalize", ":",
                          "-n", 2, OPTIONS.fake, "init", "op:3", "2/kill:9@0", "2/print:third",
                          "finalize")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["first", "third"])
        self.assertIn("rank 2 died", done.err)

    def test_one_of_several_programs_is_missing(self):
        done = self.ftrun("-n", 1, "true", ":", "-n", 1, "./none")
        self.assertEqual((done.code, done.err), (127, "rejoin: ./none: No such file or directory\n"))

    def test_ranks_know_themselves(self):
        left = dict(os.environ, OMPI_COMM_WORLD_SIZE="7", PMI_FD="5", PMIX_NAMESPACE="other",
                    SLURM_PROCID="3")  # fmt: skip
        names = ("OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_NODE_RANK "
                 "OMPI_UNIVERSE_SIZE PMIX_RANK PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS "
                 "PMI_FD PMIX_NAMESPACE SLURM_PROCID WORLD_SIZE").split()
        show = " ".join(f"${{{name}-none}}" for name in names)
        done = self.ftrun("-n", 2, "sh", "-c", f"echo {show}", env=left)
        self.assertEqual(sorted(done.out.splitlines()),
                         [f"{r} 2 {r} 2 {r} {r} 2 {r} 2 none none none none" for r in range(2)])
        show = "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT"
        done = self.ftrun("-n", 1, "--torch", "sh", "-c", show,
                          env=dict(os.environ, MASTER_PORT="1234"))
        self.assertEqual(done.out, "0 0 1 127.0.0.1 1234\n")

    def test_processors_of_each_rank(self):
        here = sorted(os.sched_getaffinity(0))
        if len(here) < 2:
            self.skipTest("needs two processors")
        done = self.ftrun("-n", 1, "-c", 2, "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
        self.assertEqual((done.code, done.err), (0, ""))
        shown = done.out.split()[1].replace("-", ",").split(",")
        self.assertEqual([int(shown[0]), int(shown[-1])], here[:2])
        done = self.ftrun("-n", len(here), "--cpus-per-task", 2, "true")
        self.assertEqual(done.code, 2)
        self.assertEqual(done.err, f"rejoin: --cpus-per-rank: {len(here)} ranks need {2 * len(here)} processors, and "
                                   f"{len(here)} are available; use fewer processors for each rank, or --bind-to none\n")

    def test_processors_that_are_not_there(self):
        done = self.ftrun("--cpu-set", "0,1000-1001", "true")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, r"^rejoin: --cpu-set: processors (0,)?1000-1001 are not available; without this option "
                                   r"ranks may use [0-9,-]+\n$")

    def test_as_many_ranks_as_the_batch_system_was_asked_for(self):
        done = self.ftrun("echo", "x", env=dict(os.environ, SLURM_NTASKS="3"))
        self.assertEqual(done.out, "x\nx\nx\n")
        done = self.ftrun("-n", 1, "echo", "x", env=dict(os.environ, SLURM_NTASKS="3"))
        self.assertEqual(done.out, "x\n")

    def test_a_batch_job_of_one_host_needs_no_command_of_the_batch_system(self):
        job = dict(os.environ, SLURM_JOB_NODELIST="elsewhere", SLURM_TASKS_PER_NODE="1", SLURM_NNODES="1")
        done = self.ftrun("-n", 2, "echo", "x", env=job)
        self.assertEqual((done.code, done.out), (0, "x\nx\n"))

    def test_what_the_batch_system_says_and_ftrun_cannot_do(self):
        for words, variables, said in (
            ((), {"SLURM_NTASKS": "abc"}, "rejoin: SLURM_NTASKS=abc is not a number of ranks from 1 to "),
            ((), {"SLURM_NTASKS": ""}, "rejoin: SLURM_NTASKS= is not a number of ranks from 1 to "),
            (("-n", 1), {"SLURM_NNODES": "2"}, "rejoin: SLURM_NNODES=2, but SLURM_JOB_NODELIST does not name"),
        ):
            done = self.ftrun(*words, "echo", "x", env=dict(os.environ, **variables))
            self.assertEqual((done.code, done.out), (2, ""))
            self.assertTrue(done.err.startswith(said), done.err)
        done = self.ftrun("-n", 1, "echo", "x", env=dict(os.environ, SLURM_NNODES="1", SLURM_NTASKS="abc"))
        self.assertEqual((done.code, done.out), (0, "x\n"))

    def test_what_has_no_effect_is_said(self):
        done = self.ftrun("--mca", "btl", "self", "--map-by", "core", "-n", 1, "true")
        self.assertEqual(done.code, 0)
        self.assertRegex(done.err, r"^rejoin: --mca btl=self has no effect: .*\n"
                                   r"rejoin: --map-by core has no effect: .*\n$")

    def test_unfinished_lines_stay_apart(self):
        done = self.ftrun("-n", 2, "--tag-output", "sh", "-c",
                          'printf a$PMI_RANK; sleep 0.$((PMI_RANK * 4 + 5)); printf "b\nc\n"')
        tag = "[{}]<stdout>: "
        for line in done.out.splitlines():
            self.assertRegex(line, r"^\[[01]\]<stdout>: (a[01]b?|b|c)$")
        for rank in range(2):
            mine = [line.removeprefix(tag.format(rank)) for line in done.out.splitlines()
                    if line.startswith(tag.format(rank))]  # fmt: skip
            self.assertEqual("".join(mine), f"a{rank}bc")

    def test_files_have_no_tags(self):
        self.ftrun("-n", 2, "-l", "--output-filename", "a/b", "sh", "-c",
                   'printf x$PMI_RANK; printf e >&2; sleep 0.$((PMI_RANK * 4 + 5)); echo y')
        for rank in range(2):
            for stream, text in (("stdout", f"x{rank}y\n"), ("stderr", "e")):
                with open(self.path(f"a/b/rank.{rank}/{stream}")) as file:
                    self.assertEqual(file.read(), text)

    def test_streams_do_not_mix_in_a_line(self):
        script = "printf a; printf b >&2; sleep 0.6; echo c; echo d >&2"
        done = self.ftrun("-n", 1, "-l", "sh", "-c", script)
        self.assertEqual((done.out, done.err), ("[0]<stdout>: ac\n", "[0]<stderr>: bd\n"))
        done = self.ftrun("-n", 1, "-l", "--merge-stderr-to-stdout", "sh", "-c", script)
        for line in done.out.splitlines():
            self.assertRegex(line, r"^\[0\]<(stdout|stderr)>: (ac?|bd?|c|d)$")

    def test_a_job_that_does_not_start_leaves_files_alone(self):
        self.write_file("events", "mine")
        os.makedirs(self.path("d/rank.0"))
        self.write_file("d/rank.0/stdout", "mine")
        flags = ["--events", "events", "--output-filename", "d", "--journal-dir", "/no/where"]
        self.assertEqual(self.ftrun("-n", 1, *flags, "true").code, 1)
        for name in ("events", "d/rank.0/stdout"):
            with open(self.path(name)) as file:
                self.assertEqual(file.read(), "mine")

    def test_times_before_lines(self):
        done = self.ftrun("-n", 1, "--timestamp-output", "-l", "echo", "hi")
        self.assertRegex(done.out, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[0\]<stdout>: hi\n$")

    def test_merged_output(self):
        done = self.ftrun("-n", 2, "--merge-stderr-to-stdout", "sh", "-c", "echo e >&2")
        self.assertEqual((done.out, done.err), ("e\ne\n", ""))

    def test_output_in_files(self):
        script = "echo o$PMI_RANK; echo e$PMI_RANK >&2"
        for suffix, shown in (("", "o0\no1\n"), (":nocopy", "")):
            done = self.ftrun("-n", 2, "--output-filename", "d" + suffix, "sh", "-c", script)
            self.assertEqual((done.code, "".join(sorted(done.out.splitlines(True)))), (0, shown))
            for rank in range(2):
                for stream, letter in (("stdout", "o"), ("stderr", "e")):
                    with open(self.path(f"d/rank.{rank}/{stream}")) as file:
                        self.assertEqual(file.read(), f"{letter}{rank}\n")
        done = self.ftrun("-n", 1, "--output-filename", "/proc/d", "true")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, "^rejoin: --output-filename: cannot make the directory .*\n$")

    def test_output_in_files_is_written_once(self):
        done = self.fake(2, "init", "print:one", "op:3", "1/kill:9@0", "print:two", "finalize",
                         flags=["--output-filename", "d"])
        self.assertEqual(done.code, 0, done.err)
        for rank in range(2):
            with open(self.path(f"d/rank.{rank}/stdout")) as file:
                self.assertEqual(file.read(), "one\ntwo\n")

    def test_standard_input_of_no_rank(self):
        self.assertEqual(self.ftrun("-n", 1, "--stdin", "none", "cat", stdin=b"x").out, "")
        self.assertEqual(self.ftrun("-n", 1, "--stdin", "0", "cat", stdin=b"x").out, "x")

    def test_bindings(self):
        allowed = sorted(os.sched_getaffinity(0))
        show = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        done = self.ftrun("-n", 1, "--cpu-set", allowed[-1], "--report-bindings", *show)
        self.assertEqual(done.out.split()[-1], str(allowed[-1]))
        self.assertEqual(done.err, f"rejoin: rank 0 is bound to processors {allowed[-1]}\n")
        for what in ("hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket"):
            done = self.ftrun("-n", 1, "--bind-to", what, "--report-bindings", *show)
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(done.out.split()[-1], done.err.split()[-1], what)
        if len(allowed) > 1:
            two = ",".join(map(str, allowed[:2]))
            threads = self.ftrun("-n", 1, "--cpu-set", two, "-x", "OMP_NUM_THREADS=2,4", "--report-bindings", *show)
            self.assertIn(threads.out.split()[-1], (two, two.replace(",", "-")))
            self.assertEqual(threads.err, f"rejoin: rank 0 is bound to processors {threads.out.split()[-1]}\n")
        done = self.ftrun("-n", 1, "--cpu-set", 1000, "true")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, "^rejoin: --cpu-set: processors 1000 are not available; without this option ranks may use [0-9,-]+\n$")

    def test_events_on_standard_output(self):
        done = self.ftrun("-n", 1, "--events", "-", "true")
        self.assertEqual([json.loads(line)["event"] for line in done.out.splitlines()],
                         ["job", "start", "exit", "end"])


class Preflight(LauncherTest):
    """Tests ftrun check, and the messages at the start of a job that is certain to fail."""

    def compile(self, name, text, *flags):
        source = self.write_file(f"{name}.c", text)
        subprocess.run(["cc", "-w", "-o", self.path(name), source, *flags], check=True)
        return f"./{name}"

    def stand_in(self):
        """Makes another library with the name of ours."""
        names = ("MPI_Init", "MPI_Put", "MPI_Win_create", "MPI_Win_fence")
        source = self.write_file("library.c", "".join(f"int {name}() {{}}" for name in names))
        subprocess.run(["cc", "-w", "-shared", "-o", self.path("libmpi.so.40"), source,
                        "-Wl,-soname,libmpi.so.40"], check=True)
        return self.path("libmpi.so.40")

    def test_supported(self):
        program = self.compile("good", "int main() { MPI_Init(); }", self.stand_in())
        done = self.ftrun("check", program, "and", "--its", "arguments")
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertEqual(done.out.splitlines()[0],
                         "./good: a 64-bit program, linked against libmpi.so.40: ftrun runs it as it is")
        self.assertIn("calls 1 functions of MPI", done.out)
        self.assertNotIn("threads", done.out)

    def test_not_supported(self):
        text = "int main() { MPI_Init(); MPI_Win_create(); pthread_create(); }"
        program = self.compile("bad", text, self.stand_in(), "-pthread")
        done = self.ftrun("check", program)
        self.assertEqual(done.code, 1)
        self.assertIn("calls functions that are not supported and return an MPI error: MPI_Win_create\n", done.out)
        self.assertIn("can start threads", done.out)

    def test_what_every_cxx_program_names(self):
        mpi = self.stand_in()
        classes = self.write_file("classes.c", "int classes;")
        subprocess.run(["cc", "-w", "-shared", "-o", self.path("libmpi_cxx.so.40"), classes,
                        "-Wl,-soname,libmpi_cxx.so.40"], check=True)
        linked = ["-Wl,--no-as-needed", mpi, self.path("libmpi_cxx.so.40")]
        program = self.compile("classes", "int main() { MPI_Init(); MPI_Put(); MPI_Win_fence(); }", *linked)
        done = self.ftrun("check", program)
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertIn("they are not supported, and a call is an MPI error: MPI_Put, MPI_Win_fence\n", done.out)
        program = self.compile("creates", "int main() { MPI_Put(); MPI_Win_create(); }", *linked)
        done = self.ftrun("check", program)
        self.assertEqual(done.code, 1)
        self.assertIn("are not supported and return an MPI error: MPI_Win_create\n", done.out)

    def test_the_library_of_a_fortran_module(self):
        name = "libmpi_usempif08_test.so.40"
        module = self.write_file("module.c", "int module;")
        subprocess.run(["cc", "-shared", "-o", self.path(name), module, f"-Wl,-soname,{name}"], check=True)
        program = self.compile("fortran", "int main() { return 0; }", "-Wl,--no-as-needed", self.path(name),
                               f"-Wl,-rpath,{self.directory}")
        done = self.ftrun("check", program)
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertIn(f"whose {name} it needs at run time\n", done.out)
        os.remove(self.path(name))
        done = self.ftrun("check", program)
        self.assertEqual(done.code, 1)
        self.assertIn(f"whose {name} it needs at run time: it is missing", done.out)

    def test_a_library_that_calls_mpi(self):
        mpi = self.stand_in()
        source = self.write_file("layer.c", "int layer() { MPI_Win_create(); }")
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", self.path("liblayer.so"), source, mpi],
                       check=True)
        program = self.compile("above", "int main() { layer(); }", self.path("liblayer.so"),
                               f"-Wl,-rpath,{self.directory}")
        self.assertIn("MPI_Win_create", self.ftrun("check", program).out)

    def test_shared_libraries_and_files_that_are_cut(self):
        library = self.compile("libx.so", "int MPI_Barrier(void*); int f() { return MPI_Barrier(0); }",
                               "-shared", "-fPIC")
        os.chmod(self.path("libx.so"), 0o644)
        done = self.ftrun("check", library)
        self.assertEqual(done.code, 0, done.out)
        self.assertIn("a 64-bit shared library", done.out)
        self.assertIn("calls 1 functions of MPI", done.out)
        with open(OPTIONS.fake, "rb") as whole, open(self.path("cut"), "wb") as cut:
            cut.write(whole.read(1000))
        os.chmod(self.path("cut"), 0o755)
        done = self.ftrun("check", "./cut")
        self.assertEqual((done.code, done.out), (1, "./cut is truncated: the file is shorter than its headers say\n"))

    def test_out_of_reach(self):
        program = self.compile("fixed", "int main() { return 0; }", "-static")
        done = self.ftrun("check", program)
        self.assertEqual(done.code, 1)
        self.assertIn("./fixed is linked statically", done.out)
        done = self.ftrun("-n", 1, program)
        self.assertEqual(done.code, 0)
        self.assertRegex(done.err, r"^rejoin: ./fixed is linked statically: .*\n$")

    def test_never_runs_the_program(self):
        """Not even where its dynamic linker does not know how to only list libraries."""
        text = """
            #include <sys/syscall.h>
            static long call(long number, const void* first, long second) {
              long result;
              asm volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second)
                           : "rcx", "r11", "memory");
              return result;
            }
            void _start() {
              call(SYS_creat, "%s", 0600);
              call(SYS_exit_group, 0, 0);
            }"""
        linker = self.compile("linker", text % self.path("was_run"), "-static", "-nostdlib",
                              "-fno-stack-protector")
        linker = self.path(os.path.basename(linker))
        program = self.compile("foreign", "int main() { return 0; }",
                               f"-Wl,--dynamic-linker={linker}")
        done = self.ftrun("check", program)
        self.assertIn("./foreign: a 64-bit program", done.out)
        self.assertFalse(os.path.exists(self.path("was_run")))
        subprocess.run([self.path("foreign")], check=True)
        self.assertTrue(os.path.exists(self.path("was_run")), "this proves nothing")

    def test_scripts(self):
        for interpreter, says in (("/bin/sh", "which programs it starts"),
                                  ("/usr/bin/python3", "which modules it loads")):
            self.write_file("script", f"#!{interpreter}\n")
            done = self.ftrun("check", "./script")
            self.assertEqual(done.code, 0)
            self.assertIn(says, done.out)
        self.assertIn("a Python interpreter", self.ftrun("check", "/usr/bin/python3").out)


class Journal(LauncherTest):
    def kept(self, directory="."):
        return glob.glob(os.path.join(self.directory, directory, "rejoin-*.journal"))

    def test_keep_and_inspect(self):
        done = self.fake(2, "init", "op:3", "0/kill:9@0", "finalize", flags=["--keep", "-q"])
        self.assertEqual(done.code, 0, done.err)
        [journal] = self.kept()
        self.assertRegex(done.err, rf"{os.path.basename(journal)} \(\d+ KiB\); ")
        self.assertLess(os.stat(journal).st_size, 1 << 20)
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
            file.truncate(os.stat(journal).st_size // 2)
        done = self.ftrun("inspect", journal)
        self.assertEqual(done.code, 1)
        self.assertIn("damaged", done.err)

    def test_what_is_not_used_is_not_kept(self):
        """The journal of a segment that is larger than the largest file of a file system."""
        done = self.fake(140, "init", "op:3", "finalize", flags=["--keep", "-q", "--journal-limit", "64G"])
        self.assertEqual(done.code, 0, done.err)
        [journal] = self.kept()
        self.assertLess(os.stat(journal).st_size, 8 << 20)
        shown = self.ftrun("inspect", journal)
        self.assertEqual(shown.code, 0, shown.err)
        self.assertIn("\nrank 139: 1 incarnation, ", shown.out)

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
