#!/usr/bin/env python3
"""Runs ExaML twice under ftrun, once undisturbed and once with ranks killed, and compares.

The kills are real: the demo sends SIGKILL to the processes of ranks, at points of the search that
are spread over the run. Three ranks are killed, one of them twice. The demo prints ExaML's
progress, and ftrun prints every death and every restart. The exit code is 0 only if both runs have
the same result.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import examl  # noqa: E402
import ftrun_events  # noqa: E402

RANKS = 4
# (rank, share of the time). The rank is killed when ExaML's log has as many lines as in the
# undisturbed run at this share of its time. A kill at a time would depend on the machine's load.
# Rank 2 dies twice.
KILLS = ((2, 0.15), (0, 0.35), (2, 0.55), (3, 0.75))
POLL_INTERVAL_S = 0.05
STOP_GRACE_S = 10


class Run:
    """A run of ExaML under ftrun whose progress is followed."""

    def __init__(self, ftrun, title, input_directory, directory):
        print(f"\n== {title}", flush=True)
        self.directory = directory
        self.events = ftrun_events.Follower(f"{directory}/events.json")
        command = examl.command(input_directory, directory)
        command = [ftrun, "-n", str(RANKS), "--events", self.events.path, *command]
        print("$ " + " ".join(command).replace(os.getcwd() + "/", ""), flush=True)
        self._shown = 0
        self._output = open(f"{directory}/output.txt", "wb")
        self._start = time.monotonic()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output)

    def elapsed_s(self):
        return time.monotonic() - self._start

    def say(self, text):
        print(f"{self.elapsed_s():7.1f} s  {text}", flush=True)

    def watch(self, kills):
        """Prints progress and kills ranks. kills: (rank, lines of ExaML's log) pairs."""
        kills = list(kills)
        while self._process.poll() is None:
            self.events.poll()
            for _, likelihood in examl.log_lines(self.directory)[self._shown :]:
                self.say(f"ExaML: log likelihood {likelihood}")
                self._shown += 1
            while kills and self._shown >= kills[0][1] and kills[0][0] in self.events.pids:
                rank, _ = kills.pop(0)
                pid = self.events.pids.pop(rank)
                self.say(f"kill -9 {pid}   (rank {rank})")
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    sys.exit(f"rank {rank} had ended before it could be killed")
            time.sleep(POLL_INTERVAL_S)
        self.events.poll()
        self._output.close()
        if self._process.returncode != 0:
            sys.exit(f"ftrun ended with {self._process.returncode}; see {self._output.name}")
        if kills:
            sys.exit(f"the run ended before its ranks could be killed: {kills}")
        self.say("done")

    def stop(self):
        """Ends a run that has not ended, as Ctrl-C does, and waits for its end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def watched(run, kills=()):
    try:
        run.watch(kills)
    finally:
        run.stop()


def kills_by_progress(undisturbed):
    """Returns (rank, lines of ExaML's log) pairs. Every kill comes before the log's last line."""
    times = [float(seconds) for seconds, _ in examl.log_lines(undisturbed)]
    return [
        (rank, min(sum(t <= share * times[-1] for t in times), len(times) - 1))
        for rank, share in KILLS
    ]


def compare(undisturbed, killed):
    """Prints both results side by side; returns whether they are equal."""
    expected, actual = examl.results(undisturbed), examl.results(killed)
    print("\n== Both results")
    print(f"{'':14}{'undisturbed':>20}{'with 4 kills':>20}")
    print(f"{'log likelihood':14}{expected['likelihood']:>20}{actual['likelihood']:>20}")
    tree_sizes = [f"{len(result['tree'])} bytes" for result in (expected, actual)]
    print(f"{'tree file':14}{tree_sizes[0]:>20}{tree_sizes[1]:>20}")
    different = examl.differences(expected, actual)
    if different:
        print(f"DIFFERENT: {', '.join(different)} (compare {undisturbed} and {killed})")
        return False
    print(f"same likelihood {expected['likelihood']}, same tree: byte for byte")
    return True


def demo(ftrun, out, input_options):
    input_directory = f"{out}/input"
    print("== Evolving DNA along a random tree", flush=True)
    examl.make_input(input_directory, *input_options)
    undisturbed, killed = f"{out}/undisturbed", f"{out}/killed"
    for directory in (undisturbed, killed):
        os.makedirs(directory)
    watched(Run(ftrun, "ExaML on 4 ranks, undisturbed", input_directory, undisturbed))
    run = Run(ftrun, "ExaML on 4 ranks, three of them killed", input_directory, killed)
    watched(run, kills_by_progress(undisturbed))
    print("\n== How long each recovery took")
    print("\n".join(ftrun_events.recovery_table(run.events.events)))
    return compare(undisturbed, killed)


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ftrun", default="build/bin/ftrun", help="(default build/bin/ftrun)")
    parser.add_argument("--out", default="quickstart-out", help="(default quickstart-out)")
    parser.add_argument(
        "--sites", default="20000", help="length of the DNA; the time grows with it (default 20000)"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    out = os.path.abspath(arguments.out)
    shutil.rmtree(out, ignore_errors=True)
    try:
        equal = demo(os.path.abspath(arguments.ftrun), out, ["--sites", arguments.sites])
    except KeyboardInterrupt:
        shutil.rmtree(out, ignore_errors=True)
        sys.exit("\ninterrupted")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
