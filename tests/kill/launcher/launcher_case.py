"""The base of the tests of ftrun alone: runs ftrun, and checks that it leaves no process or file.

Ranks are fake_rank, whose arguments are its program (see fake_rank.cc). To run one class of tests:
deaths_test.py --ftrun FTRUN --fake FAKE_RANK Restart
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from processes import FtrunProcess, run_ftrun, standing  # noqa: E402, F401

LIMIT_S = 30
OPTIONS = argparse.Namespace()


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


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
        """Waits until ftrun is asleep and stays asleep."""
        def switches():
            with open(f"/proc/{process.pid}/status") as file:
                shown = ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
                return [line for line in file if line.startswith(shown)]

        def same_again():
            seen = switches()
            time.sleep(0.05)
            return "sleeping" in seen[0] and seen == switches()

        self.wait_for(same_again, "ftrun to wait")

    def processes_here(self):
        """Returns all processes whose working directory is this test's."""
        found = []
        for link in glob.glob("/proc/[0-9]*/cwd"):
            try:
                if os.readlink(link) == self.directory:
                    found.append(int(link.split("/")[2]))
            except OSError:
                pass
        return found

    def assert_nothing_left(self):
        left = self.processes_here()
        self.wait_for(lambda: not self.processes_here(), f"processes {left} to end")


def main(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("--fake", required=True, type=os.path.abspath)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(module="__main__", argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
