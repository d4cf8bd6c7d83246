#!/usr/bin/env python3
"""Tests the harness: it ends a job that hangs in time, and reports what every rank does.

harness_test.py --ftrun FTRUN --fake FAKE_RANK
"""

import argparse
import contextlib
import io
import os
import re
import sys
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is

import harness  # noqa: E402
import results  # noqa: E402
from processes import NoEnd, processes_with, run_ftrun, standing  # noqa: E402

RANKS = 2
HANGS = ("init", "op:3", "hang")
LIMIT_S = 1
END_S = 30  # the limit, including the report
OPTIONS = argparse.Namespace()


class JobThatHangs(unittest.TestCase):
    def tells_all(self, text):
        self.assertIn(f"no end within {LIMIT_S} s", text)
        where = standing(text)
        for rank in range(RANKS):
            self.assertTrue(where.get(rank, ("", ""))[0].startswith("after operation #3"), text)
            # Frames of a stack, or without a debugger the state that the kernel reports.
            self.assertRegex(where[rank][1], r"#\d|Thread|TID|wchan|syscall")

    def setUp(self):
        self.start_s = time.monotonic()

    def tearDown(self):
        self.assertLess(time.monotonic() - self.start_s, END_S)

    def test_in_a_scenario(self):
        test = harness.Test("hangs", OPTIONS.ftrun, "/nowhere", 1, False)
        self.addCleanup(test.close)
        with self.assertRaises(harness.Failure) as failed:
            test.run(RANKS, OPTIONS.fake, *HANGS, limit_s=LIMIT_S)
        self.tells_all(str(failed.exception))
        self.assertIn('"event": "register"', str(failed.exception))
        self.assertEqual(processes_with(f"TMPDIR={test._directory}/0/work"), [])

    def test_ranks_without_the_mark_of_the_job(self):
        test = harness.Test("hangs", OPTIONS.ftrun, "/nowhere", 1, False)
        self.addCleanup(test.close)
        program = ["/usr/bin/env", "-u", "REJOIN_KILL_TEST", OPTIONS.fake, *HANGS]
        with self.assertRaises(harness.Failure) as failed:
            test.run(RANKS, *program, limit_s=LIMIT_S)
        stacks = str(failed.exception).split("--- where every rank stands")[0]
        self.assertEqual(len(re.findall(rf"--- process \d+: {OPTIONS.fake}", stacks)), RANKS)

    def test_a_moment_that_has_passed(self):
        tries = []

        def late(test):
            tries.append(test.name)
            test.run(1, "/bin/true", interfere=lambda job: job.until_event("init"))

        harness.SCENARIOS["late"] = harness.Scenario(late, 1, (), False, {})
        self.addCleanup(harness.SCENARIOS.pop, "late")
        options = argparse.Namespace(ftrun=OPTIONS.ftrun, programs="/nowhere", seed="1", long=False,
                                     jobs=None, names=["late"])
        totals = harness.Totals()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            harness.run_scenario("late", options, lambda *_: None, totals)
        self.assertEqual((len(tries), totals.failed), (harness.MOST_TRIES, 1))
        self.assertEqual(printed.getvalue().count("missed late: the job ended before event init"), 4)
        self.assertIn("FAILED late: missed 5 times", printed.getvalue())

    def test_in_a_process(self):
        mark = f"REJOIN_HARNESS_TEST={os.getpid()}"
        name, _, value = mark.partition("=")
        command = [OPTIONS.ftrun, "-n", str(RANKS), OPTIONS.fake, *HANGS]
        with self.assertRaises(NoEnd) as failed:
            run_ftrun(command, LIMIT_S, env={**os.environ, name: value})
        self.tells_all(str(failed.exception))
        self.assertEqual(processes_with(mark), [])

    def test_one_that_ends_in_time(self):
        done = run_ftrun([OPTIONS.ftrun, "-n", "1", "cat"], END_S, input="x\n", text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "x\n", ""))


class Deaths(unittest.TestCase):
    """Which deaths the harness takes for its own."""

    def check(self, killed, images_killed, pids):
        events = [{"event": "death", "rank": 2, "pid": pid, "cause": "signal 9 (Killed)"} for pid in pids]
        result = argparse.Namespace(killed=killed, images_killed=images_killed, events=events)
        result.named = lambda name: [e for e in events if e["event"] == name]
        with unittest.mock.patch.object(results, "describe", lambda _: "the job"):
            results.check_deaths(result, [])

    def test_of_a_rank_and_of_an_image_that_was_woken_before(self):
        self.check(killed=[2], images_killed=[11], pids=[11, 12])
        self.check(killed=[2], images_killed=[12], pids=[11, 12])

    def test_that_nothing_from_outside_has_caused(self):
        with self.assertRaisesRegex(results.Failure, "unexpected deaths.*'pid': 13"):
            self.check(killed=[2], images_killed=[11], pids=[11, 12, 13])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--fake", required=True, type=os.path.abspath)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
