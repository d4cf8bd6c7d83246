#!/usr/bin/env python3
"""ftrun alone: restarts, exit codes, output, input, signals, bad usage, and what is left behind.

Ranks are fake_rank, whose arguments are its program (see fake_rank.cc). Run one theme:
launcher_test.py --ftrun FTRUN --fake FAKE_RANK Restart
"""

import argparse
import glob
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # the source directory stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from processes import FtrunProcess, run_ftrun  # noqa: E402

LIMIT_S = 30
OPTIONS = argparse.Namespace()


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def signal_taken(pid, number):
    """Whether that signal is not pending any more."""
    with open(f"/proc/{pid}/status") as file:
        pending = [line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(int(mask, 16) >> (number - 1) & 1 for mask in pending)


class LauncherTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="rejoin-launcher-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def write_file(self, name, text, mode=0o755):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def ftrun(self, *arguments, stdin=b"", env=None, cwd=None):
        """Runs ftrun to its end; also checks that it leaves no process behind."""
        done = run_ftrun(
            [OPTIONS.ftrun, *map(str, arguments)],
            LIMIT_S,
            input=stdin,
            env=env,
            cwd=cwd or self.directory,
        )
        self.assert_nothing_left()
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def fake(self, ranks, *words, flags=(), **named):
        return self.ftrun("-n", ranks, *flags, OPTIONS.fake, *words, **named)

    def start(self, *arguments, **named):
        named.setdefault("stdin", subprocess.DEVNULL)
        process = FtrunProcess(
            [OPTIONS.ftrun, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            **named,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def events(self, name="events.jsonl"):
        with open(self.path(name)) as file:
            return [json.loads(line) for line in file]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.005)
        self.fail(f"waited {LIMIT_S} s for {what}")

    def wait_until_asleep(self, process):
        """Waits until ftrun waits, and goes on doing so."""
        def switches():
            with open(f"/proc/{process.pid}/status") as file:
                return [line for line in file if "ctxt_switches" in line or line.startswith("State")]

        def same_again():
            seen = switches()
            time.sleep(0.05)
            return "sleeping" in seen[0] and seen == switches()

        self.wait_for(same_again, "ftrun to wait")

    def processes_here(self):
        """Processes that work in this test's directory, whoever their parents are."""
        found = []
        for link in glob.glob("/proc/[0-9]*/cwd"):
            try:
                if os.readlink(link) == self.directory:
                    found.append(int(link.split("/")[2]))
            except OSError:
                pass
        return found

    def assert_nothing_left(self):
        self.wait_for(lambda: not self.processes_here(), f"processes {self.processes_here()} to end")


class Restart(LauncherTest):
    def test_only_the_dead_rank_is_started_again(self):
        done = self.fake(3, "init", "op:5", "1/kill:9@0", "op:5", "print:done", "finalize",
                         flags=["--events", "events.jsonl"])
        self.assertEqual((done.code, done.out), (0, "done\n" * 3))
        self.assertRegex(
            done.err,
            r"^rejoin: rank 1 died \(signal 9, Killed\) after operation #5; starting it again "
            r"\(1 of 4\)\nrejoin: rank 1 is back after [\d.]+ ms \(replayed 5 operations in "
            r"[\d.]+ ms\)\n$")
        events = self.events()
        self.assertEqual([e["rank"] for e in events if e["event"] == "respawn"], [1])
        death = next(e for e in events if e["event"] == "death")
        self.assertEqual(death["cause"], "signal 9 (Killed)")
        self.assertEqual((death["incarnation"], death["epoch"]), (0, 1))
        self.assertEqual((death["position"]["ordinal"], death["position"]["sequence"]), (5, 4))
        live = next(e for e in events if e["event"] == "live" and e["incarnation"] == 1)
        self.assertEqual(live["replayed_ops"], 5)
        times = [e["t"] for e in events]
        self.assertEqual(len(set(e["pid"] for e in events if e["event"] == "register")), 4)
        self.assertGreater(min(times), 0)

    def test_all_ranks_die_at_once(self):
        done = self.fake(4, "init", "op:3", "kill:9@0", "op:3", "print:done", "finalize")
        self.assertEqual((done.code, done.out), (0, "done\n" * 4))
        self.assertEqual(done.err.count("starting it again (1 of 4)"), 4)

    def test_deaths_of_replacements_up_to_the_limit(self):
        done = self.fake(1, "init", "op", "kill:9@0", "kill:9@1", "kill:9@2", "finalize",
                         flags=["--max-restarts", "3"])
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("(3 of 3)", done.err)

    def test_more_deaths_than_the_limit(self):
        done = self.fake(2, "init", "op", "0/kill:9", "hang", flags=["--max-restarts", "2"])
        self.assertEqual(done.code, 128 + 9)
        self.assertRegex(done.err, r"rank 0 died \(signal 9, Killed\) after operation #1.*"
                                   r"started again twice already, so the job ends \(--max-restarts\)")

    def test_same_place_and_cause_is_final(self):
        done = self.fake(2, "init", "op:7", "1/kill:11", "hang")
        self.assertEqual(done.code, 128 + 11)
        self.assertEqual(done.err.count("starting it again"), 1)
        self.assertRegex(done.err, r"rank 1 died \(signal 11, Segmentation fault\) after operation "
                                   r"#7.*; it died there by the same cause before")

    def test_same_exit_code_at_the_same_place_is_final(self):
        done = self.fake(1, "init", "op:7", "exit:3")
        self.assertEqual(done.code, 3)
        self.assertEqual(done.err.count("starting it again"), 1)

    def test_same_cause_elsewhere_is_not_final(self):
        done = self.fake(1, "init", "op:7", "kill:11@0", "op:1", "kill:11@1", "op", "finalize")
        self.assertEqual(done.code, 0, done.err)

    def test_a_death_before_init_is_repaired(self):
        done = self.fake(2, "register", "1/kill:9@0", "init", "op", "print:done", "finalize")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"))
        self.assertIn("before its first MPI operation", done.err)

    def test_a_signal_after_finalize_is_repaired(self):
        done = self.fake(2, "init", "op", "finalize", "0/kill:9@0", "print:done")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"))

    def test_no_restart(self):
        done = self.fake(2, "init", "0/kill:9", "hang", flags=["--no-restart"])
        self.assertEqual(done.code, 128 + 9)
        self.assertIn("--no-restart", done.err)

    def test_quiet(self):
        done = self.fake(2, "init", "op", "0/kill:9@0", "finalize", flags=["-q"])
        self.assertEqual((done.code, done.err), (0, ""))

    def test_kill_points(self):
        for point in ("init.before", "init", "init.after", "3.before", "3", "3.after",
                      "finalize.before", "finalize.after"):
            with self.subTest(point):
                done = self.fake(2, "init", "op:5", "finalize", "print:done",
                                 flags=["--kill", "1@" + point])
                self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)
                self.assertEqual(done.err.count("starting it again"), 1)

    def test_kill_in_the_second_incarnation(self):
        done = self.fake(2, "init", "op:5", "finalize",
                         flags=["--kill", "1@2", "--kill", "1@4#1", "--kill", "0@5"])
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.err.count("starting it again"), 3)

    def test_a_kill_that_does_not_fire_is_an_error(self):
        done = self.fake(1, "init", "op:5", "finalize",
                         flags=["--kill", "0@9", "--events", "events.jsonl"])
        self.assertEqual(done.code, 1)
        self.assertIn("--kill 0@9.inside#0 did not fire", done.err)
        self.assertIn("kill_unfired", [e["event"] for e in self.events()])

    def test_the_journal_met_its_limit(self):
        done = self.fake(2, "init", "op", "0/limit", "sleep:100", "1/kill:9", "hang",
                         flags=["--journal-limit", "64M"])
        self.assertEqual(done.code, 128 + 9)
        self.assertIn("the journal is full (64 MiB)", done.err)
        self.assertRegex(done.err, "rank 1 died.*the journal was full")

    def test_environment_and_addresses_repeat(self):
        words = ["init", "op", "places", "env:REJOIN_RANK", "env:PYTHONHASHSEED"]
        done = self.fake(1, *words, "kill:9@0", "op", "finalize")
        self.assertEqual(done.code, 0, done.err)
        # Printed again by the replacement: if it differed ftrun would have said so.
        self.assertEqual(len(done.out.splitlines()), 3)
        self.assertNotIn("did not print the same", done.err)


class Endings(LauncherTest):
    def test_a_program_without_mpi(self):
        done = self.ftrun("-n", 2, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE")
        self.assertEqual((done.code, sorted(done.out.split()), done.err), (0, ["0/2", "1/2"], ""))

    def test_an_exit_code_without_init_is_final(self):
        done = self.ftrun("-n", 2, "sh", "-c", "exit 4")
        self.assertEqual(done.code, 4)
        self.assertRegex(done.err, r"rejoin: rank \d ended with exit code 4, without calling MPI_Init")

    def test_a_signal_before_init_is_a_death(self):
        done = self.ftrun("-n", 1, "sh", "-c", "test -e once || { touch once; kill -9 $$; }; echo x")
        self.assertEqual((done.code, done.out), (0, "x\n"), done.err)
        self.assertIn("rank 0 died (signal 9, Killed) before its first MPI operation; starting it "
                      "again (1 of 4)", done.err)

    def test_the_same_fault_before_init_again_is_final(self):
        done = self.ftrun("-n", 1, "sh", "-c", "kill -6 $$")
        self.assertEqual(done.code, 128 + 6)
        self.assertEqual(done.err.count("starting it again"), 1)

    def test_an_exit_code_after_finalize_is_the_jobs(self):
        done = self.fake(3, "init", "finalize", "1/exit:7", "sleep:200", "print:done")
        self.assertEqual((done.code, done.out), (7, "done\ndone\n"))

    def test_exit_0_between_init_and_finalize(self):
        done = self.fake(2, "init", "op:2", "0/exit:0@0", "op:2", "print:done", "finalize")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)

    def test_exit_0_before_finalize_again_is_final(self):
        done = self.fake(2, "init", "op:2", "0/exit:0", "hang")
        self.assertEqual(done.code, 1)
        self.assertEqual(done.err.count("starting it again"), 1)
        self.assertRegex(done.err, r"rank 0 died \(exit code 0\) after operation #2.*it ended there "
                                   "before.*has to call MPI_Finalize")

    def test_exit_0_without_init_where_others_call_it(self):
        done = self.fake(2, "0/exit:0", "sleep:50", "init", "hang")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, "rank 0 exited with code 0 without calling MPI_Init, but others")

    def test_abort(self):
        for code, expected in ((77, 77), (0, 0), (256, 0), (-1, 255)):
            with self.subTest(code):
                done = self.fake(2, "init", f"0/abort:{code}", "hang")
                self.assertEqual(done.code, expected)
                self.assertEqual(done.err, f"rejoin: rank 0 called MPI_Abort({code})\n")

    def test_divergence(self):
        done = self.fake(2, "init", "0/diverge:operation 3 is another one", "hang")
        self.assertEqual((done.code, done.err), (1, "rejoin: operation 3 is another one\n"))

    def test_a_notice(self):
        done = self.fake(1, "init", "notice:something\x1bodd\n", "finalize")
        self.assertEqual((done.code, done.err), (0, "rejoin: rank 0: something odd \n"))

    def test_a_foreign_mpi_behind_a_script(self):
        done = self.fake(2, "0/foreign:libmpich.so.12", "hang")
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, r"MPICH.*\(libmpich.so.12\).*ftmpicc")

    def test_timeout_says_where_all_stand(self):
        done = self.fake(2, "init", "op:3", "hang", flags=["--timeout", "0.3"])
        self.assertEqual(done.code, 110)
        for rank in (0, 1):
            self.assertRegex(done.err, rf"rank {rank} \(process \d+, sleeping\) is after operation #3")
        self.assertIn("--timeout", done.err)

    def test_a_job_in_which_every_rank_waits(self):
        begin = time.monotonic()
        done = self.fake(3, "init", "op:3", "2/finalize", "2/sleep:100000", "wait",
                         flags=["--events", "events.jsonl"])
        self.assertEqual(done.code, 1, done.err)
        self.assertLess(time.monotonic() - begin, 10)
        for rank in (0, 1):
            self.assertRegex(done.err, rf"rank {rank} \(process \d+, \w+\) is after operation #3")
        self.assertRegex(done.err, "rejoin: deadlock: every rank waits")
        self.assertIn("deadlock", [event["event"] for event in self.events()])

    def test_jobs_in_which_somebody_can_go_on(self):
        for words in (["init", "op", "0/sleep:2500", "1/wait:8"],  # rank 0 computes
                      ["0/sleep:2500", "init", "1/wait:8"],  # and before MPI_Init
                      ["init"] + ["wait:1", "op"] * 10):
            with self.subTest(words):
                done = self.fake(2, *words, "print:done", "finalize")
                self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)

    def test_a_rank_that_ignores_sigterm(self):
        begin = time.monotonic()
        done = self.fake(2, "ignore:15", "init", "1/abort:5", "hang")
        self.assertEqual(done.code, 5)
        self.assertLess(time.monotonic() - begin, 10)


class Output(LauncherTest):
    def test_lines_are_shown_once(self):
        done = self.fake(1, "init", "print:a", "op", "print:b", "err:e", "kill:9@0", "op",
                         "print:c", "kill:9@1", "op", "print:d", "finalize", flags=["-q"])
        self.assertEqual((done.code, done.out, done.err), (0, "a\nb\nc\nd\n", "e\n"))

    def test_an_unfinished_line_is_continued(self):
        done = self.fake(1, "init", "op", "write:one ", "sleep:250", "kill:9@0", "op", "write:two",
                         "finalize", flags=["-q"])
        self.assertEqual((done.code, done.out), (0, "one two"))

    def test_a_difference_is_told_once(self):
        done = self.fake(1, "init", "op", "print:1st@0", "print:second@1", "print:third@2",
                         "kill:9@0", "op", "kill:9@1", "print:end", "finalize")
        self.assertEqual((done.code, done.out), (0, "1st\nend\n"))
        self.assertEqual(done.err.count("did not print the same to standard output"), 1)

    def test_a_replay_that_prints_less(self):
        done = self.fake(1, "init", "op", "print:only once@0", "kill:9@0", "finalize")
        self.assertEqual(done.out, "only once\n")
        self.assertEqual(done.err.count("did not print the same to standard output"), 1)

    def test_tags(self):
        done = self.fake(2, "init", "1/sleep:100", "print:x", "err:y", "finalize",
                         flags=["--tag-output"])
        self.assertEqual(done.out, "[0]<stdout>: x\n[1]<stdout>: x\n")
        self.assertEqual(done.err, "[0]<stderr>: y\n[1]<stderr>: y\n")

    def test_lines_of_ranks_do_not_mix(self):
        script = "for i in $(seq 300); do printf '%s' aaaaaaaaaaaaaaaaaaaa; printf '%s\\n' bbbb; done"
        done = self.ftrun("-n", 4, "sh", "-c", script)
        self.assertEqual(done.out, ("a" * 20 + "bbbb\n") * 1200)

    def test_much_output(self):
        done = self.ftrun("-n", 2, "sh", "-c", "head -c 30000000 /dev/zero")
        self.assertEqual((done.code, len(done.out)), (0, 60000000))

    def test_a_slow_reader(self):
        process = self.start("-n", 1, "sh", "-c", "head -c 20000000 /dev/zero")
        self.wait_until_asleep(process)  # it has stopped reading
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, len(out)), (0, 20000000))

    def test_a_slow_reader_tears_no_line(self):
        program = 'BEGIN { while (n++ < 500) s = s c; while (m++ < 20000) print s }'
        script = f"awk -v c=$REJOIN_RANK '{program}'"
        process = self.start("-n", 2, "sh", "-c", script)
        self.wait_until_asleep(process)  # it has stopped reading
        time.sleep(0.6)  # longer than an unfinished line waits for its end: the subject
        out, _ = process.communicate(timeout=LIMIT_S)
        whole = [str(rank).encode() * 500 for rank in (0, 1)]
        self.assertEqual([line for line in out.splitlines() if line not in whole], [])
        self.assertEqual(out.count(b"\n"), 40000)

    def test_a_reader_that_goes_away(self):
        process = self.start("-n", 2, "yes")
        process.stdout.read(100)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=LIMIT_S), 128 + signal.SIGPIPE)
        self.assert_nothing_left()

    def test_a_full_disk(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([OPTIONS.ftrun, "-n", "1", "echo", "x"], stdout=full,
                                  stderr=subprocess.PIPE, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left on device", done.stderr)

    def test_what_a_background_child_prints(self):
        done = self.ftrun("-n", 1, "sh", "-c", "(sleep 0.3; echo late) & echo early")
        self.assertEqual((done.code, done.out), (0, "early\nlate\n"))

    def test_a_background_child_that_holds_the_output(self):
        begin = time.monotonic()
        done = self.ftrun("-n", 2, "sh", "-c", "sleep 600 & echo done")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"))
        self.assertLess(time.monotonic() - begin, 10)

    def test_closed_standard_descriptors(self):
        done = subprocess.run(
            ["sh", "-c", f"exec '{OPTIONS.ftrun}' -n 2 '{OPTIONS.fake}' init op finalize 0<&- 1>&-"],
            stderr=subprocess.PIPE, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class StandardInput(LauncherTest):
    def test_rank_0_reads_it_and_the_others_nothing(self):
        done = self.fake(2, "init", "cat", "print:end", "finalize", stdin=b"a\nb\n")
        self.assertEqual((done.code, sorted(done.out.split())), (0, ["a", "b", "end", "end"]))

    def test_the_next_incarnation_reads_it_from_the_start(self):
        done = self.fake(1, "init", "op", "line", "line", "kill:9@0", "op", "cat", "finalize",
                         flags=["-q"], stdin=b"1\n2\n3\n4\n")
        self.assertEqual((done.code, done.out), (0, "1\n2\n3\n4\n"))

    def test_much_input(self):
        data = b"0123456789abcde\n" * 200000
        done = self.fake(1, "init", "finalize", "exit:0", stdin=data)
        self.assertEqual(done.code, 0)
        done = self.ftrun("-n", 1, "wc", "-c", stdin=data)
        self.assertEqual(done.out.strip(), str(len(data)))

    def test_input_that_comes_later(self):
        process = self.start("-n", 1, "--events", "events.jsonl", OPTIONS.fake, "init", "line",
                             "finalize", stdin=subprocess.PIPE)
        self.wait_for(lambda: os.path.exists(self.path("events.jsonl")) and
                      [e for e in self.events() if e["event"] == "register"], "a rank that reads")
        self.wait_until_asleep(process)
        out, _ = process.communicate(b"late\n", timeout=LIMIT_S)
        self.assertEqual((process.returncode, out), (0, b"late\n"))


    def test_an_endless_input(self):
        yes = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
        self.addCleanup(yes.wait)
        self.addCleanup(yes.kill)
        done = subprocess.run([OPTIONS.ftrun, "-n", "2", "sh", "-c", "head -n 1; exec <&-; sleep 0.1"],
                              stdin=yes.stdout, capture_output=True, timeout=LIMIT_S)
        yes.stdout.close()
        self.assertEqual((done.returncode, done.stdout), (0, b"y\n"), done.stderr)


class Signals(LauncherTest):
    def start_and_wait(self, *arguments, ranks=2):
        self.write_file("events.jsonl", "")
        process = self.start("-n", ranks, "--events", "events.jsonl", *arguments)

        def all_initialized():
            try:
                return sum(e["event"] == "init" for e in self.events()) >= ranks
            except (OSError, ValueError):
                return False
        self.wait_for(all_initialized, "all ranks to call MPI_Init")
        return process

    def end(self, process):
        _, err = process.communicate(timeout=LIMIT_S)
        self.assert_nothing_left()
        return process.returncode, err.decode()

    def test_signals_that_end_the_job(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                process = self.start_and_wait(OPTIONS.fake, "init", "hang")
                process.send_signal(number)
                code, err = self.end(process)
                self.assertEqual(code, 128 + number)
                self.assertRegex(err, rf"^rejoin: signal {int(number)} \(.*\): ending all ranks\n$")

    def test_a_second_ctrl_c_is_at_once(self):
        process = self.start_and_wait(OPTIONS.fake, "ignore:15", "init", "hang")
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        # The first has been taken, and the ranks' time to end has begun.
        self.wait_for(lambda: signal_taken(process.pid, signal.SIGINT), "the first signal's end")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 130)
        self.assertLess(time.monotonic() - begin, 0.8)

    def test_a_rank_gets_sigterm_first(self):
        script = "trap 'echo cleaned; exit 0' TERM; '%s' init finalize; while :; do sleep 0.05; done"
        process = self.start_and_wait("sh", "-c", script % OPTIONS.fake, ranks=1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, out), (130, b"cleaned\n"))

    def test_sigkill_of_ftrun_leaves_nothing(self):
        process = self.start_and_wait(OPTIONS.fake, "init", "child", "daemon", "hang")
        self.wait_for(lambda: len(self.processes_here()) >= 8, "children")
        process.kill()
        process.wait(timeout=LIMIT_S)
        self.assert_nothing_left()
        self.assertEqual(os.listdir(self.directory), ["events.jsonl"])

    def test_sigusr1_says_where_all_stand_and_goes_on(self):
        process = self.start_and_wait(OPTIONS.fake, "init", "op:4", "sleep:4000", "finalize")
        process.send_signal(signal.SIGUSR1)
        code, err = self.end(process)
        self.assertEqual(code, 0)
        for rank in (0, 1):
            self.assertRegex(err, rf"rank {rank} \(process \d+, \w+\) is after operation #4")

    def test_sigusr2_is_passed_on(self):
        process = self.start_and_wait(OPTIONS.fake, "ignore:10", "init", "1/ignore:12", "hang")
        process.send_signal(signal.SIGUSR2)
        # Rank 0 dies of it: a death like any other.
        self.wait_for(lambda: any(e["event"] == "respawn" for e in self.events()), "a respawn")
        process.send_signal(signal.SIGTERM)
        self.assertIn("rank 0 died (signal 12, User defined signal 2)", self.end(process)[1])

    def test_stop_and_continue(self):
        process = self.start_and_wait(OPTIONS.fake, "init", "sleep:300", "print:done", "finalize")
        process.send_signal(signal.SIGTSTP)

        def states():
            found = []
            for pid in self.processes_here():
                with open(f"/proc/{pid}/stat") as stat:
                    found.append(stat.read().rsplit(")", 1)[1].split()[0])
            return found

        self.wait_for(lambda: states().count("T") == 3, "ftrun and two ranks to stop")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, out), (0, b"done\ndone\n"))

    def test_a_stopped_rank_that_is_killed(self):
        process = self.start_and_wait(OPTIONS.fake, "init", "op", "hang@0", "print:done", "finalize")
        for event in self.events():
            if event["event"] == "register" and event["rank"] == 1:
                os.kill(event["pid"], signal.SIGSTOP)
                os.kill(event["pid"], signal.SIGKILL)
        self.wait_for(lambda: any(e["event"] == "exit" and e["rank"] == 1 for e in self.events()),
                      "the end of rank 1")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 130)

    def test_ctrl_c_at_a_terminal(self):
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.directory)
            os.execv(OPTIONS.ftrun, [OPTIONS.ftrun, "-n", "2", OPTIONS.fake, "init", "0/line", "hang"])
        self.addCleanup(os.close, terminal)
        os.write(terminal, b"typed\n")
        shown = b""
        while shown.count(b"typed") < 2:  # the terminal's echo, and rank 0's answer
            shown += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 130)
        self.assert_nothing_left()

    def test_in_the_background_of_a_terminal(self):
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.directory)
            script = f"'{OPTIONS.ftrun}' -n 1 '{OPTIONS.fake}' init sleep:200 finalize & wait $!"
            os.execlp("bash", "bash", "-c", "set -m; " + script)
        self.addCleanup(os.close, terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


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
        done = self.ftrun("-np", 2, "-wdir", "/usr", "-tag-output", "--oversubscribe", "-x", "A=b c",
                          "--allow-run-as-root", "sh", "-c", "echo $PWD $A")
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
        done = self.fake(1, "env:REJOIN_LIBC_RECORDING", "env:LD_PRELOAD", flags=["--libc-recording", "off"])
        self.assertRegex(done.out, r"REJOIN_LIBC_RECORDING=off\nLD_PRELOAD=[^:]*/libmpi.so.40\n")
        done = self.fake(1, "env:LD_PRELOAD", env=dict(os.environ, LD_PRELOAD="libm.so.6"))
        self.assertRegex(done.out, r"=[^:]*/librejoin_libc.so:[^:]*/libmpi.so.40:libm.so.6\n")

    def test_binding(self):
        done = self.ftrun("-n", 2, "--bind-to", "core", "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
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
        self.assertRegex(done.err, r"^rejoin: ./other was built for MPICH .*\(libmpich.so.12\).*\n$")

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
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", self.path("small")],
                                 capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("may not mount here")
        try:
            done = self.ftrun("-n", 4, "--journal-dir", "small", "true")
        finally:
            subprocess.run(["umount", self.path("small")], check=True)
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, "^rejoin: there is no room for a journal in --journal-dir small.*\n$")


class Journal(LauncherTest):
    def kept(self, directory="."):
        return glob.glob(os.path.join(self.directory, directory, "rejoin-*.journal"))

    def test_keep_and_inspect(self):
        done = self.fake(2, "init", "op:3", "0/kill:9@0", "finalize", flags=["--keep", "-q"])
        self.assertEqual(done.code, 0, done.err)
        [journal] = self.kept()
        self.assertIn(os.path.basename(journal), done.err)
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


class Trees(LauncherTest):
    def test_a_program_behind_a_shell(self):
        script = f"'{OPTIONS.fake}' init op:4 kill:9@0 op print:done finalize; code=$?; exit $code"
        done = self.ftrun("-n", 2, "sh", "-c", script)
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)
        self.assertEqual(done.err.count("starting it again"), 2)

    def test_the_shells_exit_code_counts(self):
        done = self.ftrun("-n", 1, "sh", "-c", f"'{OPTIONS.fake}' init op finalize; exit 6")
        self.assertEqual(done.code, 6)

    def test_a_program_that_looks_before_it_runs(self):
        script = f"'{OPTIONS.fake}' register; '{OPTIONS.fake}' init op print:x finalize; true"
        done = self.ftrun("-n", 2, "sh", "-c", script)
        self.assertEqual((done.code, done.out), (0, "x\nx\n"), done.err)

    def test_a_second_registration_is_refused(self):
        done = self.fake(1, "init", "second", "finalize", "second")
        self.assertEqual(done.code, 0)
        self.assertRegex(done.out, r"^refused: process \d+ is rank 0 already.*\nrefused: .*MPI_Finalize")

    def test_a_wrong_secret_is_refused(self):
        done = self.fake(1, "register:guess")
        self.assertEqual((done.code, done.out), (0, "refused: wrong secret\n"))

    def test_nobody_ends_a_job_without_its_secret(self):
        done = self.fake(2, "0/stranger:libmpich.so.12", "init", "finalize")
        self.assertEqual((done.code, done.out, done.err), (0, "refused\n", ""))

    def test_a_registration_of_a_dead_process_is_void(self):
        done = self.fake(2, "1/ghost", "init", "op", "print:done", "finalize")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)

    def test_the_whole_tree_dies_before_the_next_incarnation(self):
        # Children that lived on would hold the rank's output open, and with it the job.
        done = self.fake(2, "init", "0/child@0", "0/daemon@0", "op", "0/kill:9@0", "print:done",
                         "finalize")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"))

    def guardian_of(self, ftrun):
        def find():
            for pid in self.processes_here():
                with open(f"/proc/{pid}/stat") as stat:
                    name, _, rest = stat.read().partition("(")[2].rpartition(")")
                if name == "ftrun-guardian" and int(rest.split()[1]) == ftrun.pid:
                    return pid
            return None
        return self.wait_for(find, "the guardian")

    def test_ftrun_and_its_guardian_are_killed_together(self):
        process = self.start("-n", 2, "sh", "-c", "echo; sleep 600 | cat; true")
        for _ in range(2):
            process.stdout.readline()
        guardian = self.guardian_of(process)
        os.kill(guardian, signal.SIGSTOP)
        process.kill()
        process.wait()
        os.kill(guardian, signal.SIGKILL)
        self.assert_nothing_left()

    def test_ftrun_is_killed_and_a_child_hides(self):
        hidden = "setsid env -i sh -c 'echo; sleep 600' & sleep 600; true"
        process = self.start("-n", 2, "sh", "-c", hidden)
        for _ in range(2):
            process.stdout.readline()
        process.kill()
        process.wait()
        self.assert_nothing_left()

    def test_many_deaths_in_a_row(self):
        words = ["init"]
        for incarnation in range(40):
            words += ["op", f"kill:9@{incarnation}"]
        done = self.fake(2, *words, "print:done", "finalize", flags=["--max-restarts", "40", "-q"])
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--fake", required=True, type=os.path.abspath)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
