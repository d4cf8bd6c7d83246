#!/usr/bin/env python3
"""Tests ftrun alone: restarts, ends of jobs, and process trees."""

import os
import shutil
import signal
import subprocess
import time

from launcher_case import LIMIT_S, OPTIONS, Finished, LauncherTest, main, standing


class Restart(LauncherTest):
    def test_only_the_dead_rank_is_started_again(self):
        done = self.fake(3, "init", "op:5", "1/kill:9@0", "op:5", "print:done", "finalize",
                         flags=["--events", "events.jsonl"])
        self.assertEqual((done.code, done.out), (0, "done\n" * 3))
        self.assertRegex(
            done.err,
            r"^rejoin: rank 1 died \(signal 9, Killed\) after operation #5; starting it again "
            r"\(1 of 4\)\nrejoin: rank 1 is back after [\d.]+ ms(: |.*, )0.00 ms replay of 5 operations"
            r"\nrejoin: 1 death, 1 restart \(1 from main\), [\d.]+ ms lost; journal at most 0 bytes"
            r"\nrejoin:   rank 1: signal 9, Killed, after an operation\n$")
        events = self.events()
        self.assertEqual([e["rank"] for e in events if e["event"] == "respawn"], [1])
        death = next(e for e in events if e["event"] == "death")
        self.assertEqual(death["cause"], "signal 9 (Killed)")
        self.assertEqual((death["incarnation"], death["epoch"]), (0, 0))
        self.assertEqual((death["position"]["ordinal"], death["position"]["sequence"]), (5, 4))
        live = next(e for e in events if e["event"] == "live" and e["incarnation"] == 1)
        self.assertEqual(live["replayed_ops"], 5)
        self.assertAlmostEqual(live["start_ms"] + live["computing_ms"], live["took_ms"], delta=0.004)
        self.assertEqual(live["replay_ms"], 0)  # fake_rank does not measure it
        job, summary, end = events[0], events[-2], events[-1]
        self.assertEqual((job["event"], job["ranks"]), ("job", 3))
        self.assertEqual(job["programs"][0]["command"][0], OPTIONS.fake)
        self.assertRegex(job["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual((end["event"], end["code"], end["snapshots"]), ("end", 0, 0))
        self.assertEqual(summary["event"], "summary")
        self.assertEqual((summary["deaths"], summary["restarts"]), (1, 1))
        self.assertAlmostEqual(summary["lost_ms"], live["took_ms"], delta=0.004)
        self.assertEqual((summary["longest_ms"], summary["longest_rank"]), (summary["lost_ms"], 1))
        self.assertEqual(summary["journal_peak_bytes"], 0)  # fake_rank has no journal
        self.assertEqual(summary["places"], [{
            "deaths": 1, "ranks": {"1": 1}, "cause": "signal 9 (Killed)",
            "where": "after an operation", "site": ""}])
        times = [e["t"] for e in events]
        self.assertEqual(len(set(e["pid"] for e in events if e["event"] == "register")), 4)
        self.assertGreater(min(times), 0)

    def test_wrong_arguments_are_no_deaths(self):
        """Every rank prints an error, and ftrun reports the end once."""
        done = self.fake(3, "init", "err:usage", "sleep:20", "exit:2")
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertEqual(sorted(done.err.splitlines())[1:], ["usage"] * 3)
        self.assertRegex(done.err, r"(^|\n)rejoin: rank \d ended with exit code 2 before its first MPI operation\n")
        done = self.fake(3, "init", "0/exit:2", "hang")  # the others do not end by themselves
        self.assertEqual(done.code, 2)

    def test_a_long_way_back_is_told(self):
        done = self.fake(2, "init", "op:100", "1/kill:9@0", "1/sleep:2500@1", "op", "finalize",
                         flags=["--events", "events.jsonl"])
        self.assertEqual(done.code, 0, done.err)
        line = r"rejoin: rank 1 has been catching up for [\d.]+ s: at operation #100 of #100 \(100 %\)\n"
        self.assertRegex(done.err, line)
        told = [e for e in self.events() if e["event"] == "catching_up"]
        self.assertTrue(told)
        for e in told:
            self.assertEqual((e["rank"], e["incarnation"], e["known_ops"]), (1, 1, 100))
        self.assertRegex(done.err, r"is back after [\d.]+ s: .* of its own computing, 0.00 ms replay of "
                                   r"100 operations\n")

    def test_a_job_that_ends_with_its_first_death_has_said_all(self):
        done = self.fake(2, "init", "op", "0/kill:9", "hang",
                         flags=["--no-restart", "--events", "events.jsonl"])
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertEqual(self.events()[-2]["event"], "summary")

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
        self.assertRegex(
            done.err, r"rank 0 died \(signal 9, Killed\) after operation #1.*"
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

    def test_the_journal_is_full(self):
        done = self.fake(2, "init", "op", "0/limit", "sleep:100", "1/kill:9", "hang",
                         flags=["--journal-limit", "64M"])
        self.assertEqual(done.code, 128 + 9)
        self.assertIn("the journal is full (64 MiB)", done.err)
        self.assertRegex(done.err, "rank 1 died.*the journal was full")

    def test_environment_and_addresses_repeat(self):
        words = ["init", "op", "places", "env:REJOIN_RANK", "env:PYTHONHASHSEED"]
        done = self.fake(1, *words, "kill:9@0", "op", "finalize")
        self.assertEqual(done.code, 0, done.err)
        # The next incarnation prints it again; ftrun would report a difference.
        self.assertEqual(len(done.out.splitlines()), 3)
        self.assertNotIn("its replay wrote other bytes", done.err)


    def replaced(self, program, replacement, *flags):
        """Rank 0 dies after the program's file has been replaced."""
        process = self.start("-n", 1, *flags, program, "init", "print:begun", "op", "line", "kill:9@0",
                             "print:done", "finalize", stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"begun\n")
        os.rename(replacement, program)
        out, err = process.communicate(b"go on\n", timeout=LIMIT_S)
        return Finished(process.returncode, out.decode(), err.decode())

    def script(self, name):
        return self.write_file(name, f"#!/bin/sh\nexec {OPTIONS.fake} \"$@\"\n")

    def test_a_program_that_was_replaced(self):
        done = self.replaced(self.script("program"), self.script("new"))
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, r"rejoin: \S*/program has been replaced since the job began, and "
                                   r"rank 0 would have to run the new file from main, so the job ends; ")
        done = self.replaced(self.script("program"), self.script("new"), "--on-divergence", "warn")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(done.err, "has been replaced .*: its replay may differ from the first execution")

    def test_the_same_build_again_is_no_other_program(self):
        program, new = self.path("program"), self.path("new")
        shutil.copy(OPTIONS.fake, program)
        shutil.copy(OPTIONS.fake, new)
        done = self.replaced(program, new)
        self.assertEqual(done.code, 0, done.err)
        self.assertNotIn("replaced", done.err)


class Endings(LauncherTest):
    def test_a_program_without_mpi(self):
        done = self.ftrun("-n", 2, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE")
        self.assertEqual((done.code, sorted(done.out.split()), done.err), (0, ["0/2", "1/2"], ""))

    def test_an_exit_code_without_init_is_final(self):
        done = self.ftrun("-n", 2, "sh", "-c", "exit 4")
        self.assertEqual(done.code, 4)
        self.assertRegex(
            done.err, r"rejoin: rank \d ended with exit code 4, without calling MPI_Init")

    def test_a_signal_before_init_is_a_death(self):
        script = "test -e once || { touch once; kill -9 $$; }; echo x"
        done = self.ftrun("-n", 1, "sh", "-c", script)
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
        self.assertRegex(
            done.err, r"rank 0 died \(exit code 0\) after operation #2.*it ended there before.*"
                      r"has to call MPI_Finalize")

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
        where = standing(done.err)
        for rank in (0, 1):
            self.assertTrue(where.get(rank, ("", ""))[0].startswith("after operation #3"), done.err)
        self.assertIn("--timeout", done.err)

    def test_a_job_in_which_every_rank_waits(self):
        begin = time.monotonic()
        done = self.fake(3, "init", "op:3", "2/finalize", "2/sleep:100000", "wait",
                         flags=["--events", "events.jsonl"])
        self.assertEqual(done.code, 1, done.err)
        self.assertLess(time.monotonic() - begin, 10)
        where = standing(done.err)
        for rank in (0, 1):
            self.assertTrue(where.get(rank, ("", ""))[0].startswith("after operation #3"), done.err)
        self.assertRegex(done.err, "rejoin: deadlock: every rank waits")
        self.assertIn("deadlock", [event["event"] for event in self.events()])

    def test_jobs_in_which_a_rank_can_go_on(self):
        for words in (["init", "op", "0/sleep:2500", "1/wait:8"],  # rank 0 computes
                      ["0/sleep:2500", "init", "1/wait:8"],  # rank 0 computes before MPI_Init
                      ["init"] + ["wait:1", "op"] * 10):
            with self.subTest(words):
                done = self.fake(2, *words, "print:done", "finalize")
                self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)

    def test_a_rank_that_ignores_sigterm(self):
        begin = time.monotonic()
        done = self.fake(2, "ignore:15", "init", "1/abort:5", "hang")
        self.assertEqual(done.code, 5)
        self.assertLess(time.monotonic() - begin, 10)


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
        self.assertRegex(
            done.out, r"^refused: process \d+ is rank 0 already.*\nrefused: .*MPI_Finalize")

    def test_a_wrong_secret_is_refused(self):
        done = self.fake(1, "register:guess")
        self.assertEqual((done.code, done.out), (0, "refused: it does not have the secret of this job\n"))

    def test_no_message_ends_a_job_without_its_secret(self):
        done = self.fake(2, "0/stranger:libmpich.so.12", "init", "finalize")
        self.assertEqual((done.code, done.out, done.err), (0, "refused\n", ""))

    def test_a_registration_of_a_dead_process_is_void(self):
        done = self.fake(2, "1/ghost", "init", "op", "print:done", "finalize")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"), done.err)

    def test_the_whole_tree_dies_before_the_next_incarnation(self):
        # Children that still ran would hold the rank's output open, and the job would not end.
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

    def test_the_end_of_the_guardian_is_told(self):
        process = self.start("-n", 2, "sh", "-c", "echo; read line; exit 0", stdin=subprocess.PIPE)
        process.stdout.readline()
        guardian = self.guardian_of(process)
        os.kill(guardian, signal.SIGKILL)
        told = process.stderr.readline().decode()
        self.assertRegex(told, rf"^rejoin: the guardian of this job \(process {guardian}\) has ended; the job goes on")
        _, err = process.communicate(b"\n", timeout=LIMIT_S)
        self.assertEqual((process.returncode, err), (0, b""))

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
    main(__doc__)
