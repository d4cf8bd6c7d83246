#!/usr/bin/env python3
"""Tests ftrun alone: output, standard input and signals."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time

from launcher_case import LIMIT_S, OPTIONS, LauncherTest, main, standing


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
        self.assertEqual(done.err.count("its replay wrote other bytes to standard output"), 1)

    def test_a_replay_that_prints_less(self):
        done = self.fake(1, "init", "op", "print:only once@0", "kill:9@0", "finalize")
        self.assertEqual(done.out, "only once\n")
        self.assertEqual(done.err.count("its replay wrote other bytes to standard output"), 1)

    def test_tags(self):
        done = self.fake(2, "init", "1/sleep:100", "print:x", "err:y", "finalize",
                         flags=["--tag-output"])
        self.assertEqual(done.out, "[0]<stdout>: x\n[1]<stdout>: x\n")
        self.assertEqual(done.err, "[0]<stderr>: y\n[1]<stderr>: y\n")

    def test_lines_of_ranks_do_not_mix(self):
        parts = "printf '%s' aaaaaaaaaaaaaaaaaaaa; printf '%s\\n' bbbb"
        script = f"for i in $(seq 300); do {parts}; done"
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

    def test_a_question_at_the_end_drops_no_output(self):
        process = self.start("-n", 1, "sh", "-c", "head -c 200000 /dev/zero")
        self.wait_until_asleep(process)  # the program has ended; its output waits for the reader
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        out, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, out.count(b"\0")), (0, 200000))

    def test_a_slow_reader_tears_no_line(self):
        program = 'BEGIN { while (n++ < 500) s = s c; while (m++ < 20000) print s }'
        script = f"awk -v c=$REJOIN_RANK '{program}'"
        process = self.start("-n", 2, "sh", "-c", script)
        self.wait_until_asleep(process)  # it has stopped reading
        time.sleep(0.6)  # longer than ftrun waits for the end of an unfinished line
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

    def test_a_full_disk_under_the_events(self):
        done = self.fake(2, "init", "op:5", "1/kill:9@0", "op", "print:done", "finalize",
                         flags=["--events", "/dev/full"])
        self.assertEqual((done.code, done.out), (0, "done\n" * 2))
        lost = "rejoin: --events /dev/full: No space left on device; no more events are written"
        self.assertEqual(done.err.splitlines().count(lost), 1, done.err)

    def small_fifo(self):
        """Returns the path of a fifo of one page, and its open read end, from which no process reads."""
        path = self.path("events")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        return path, reader

    def test_no_rank_waits_for_a_reader_of_events(self):
        path, reader = self.small_fifo()
        process = self.start("-n", 2, "--max-restarts", 30, "--events", path, OPTIONS.fake, "init", "op:5",
                             *(f"1/kill:9@{i}" for i in range(30)), "op", "print:done", "finalize")
        self.assertEqual(process.stdout.read(10), b"done\ndone\n")
        os.set_blocking(reader, True)
        with os.fdopen(os.dup(reader), "rb") as rest:
            lines = rest.read().splitlines()
        self.assertEqual(process.wait(timeout=LIMIT_S), 0)
        self.assertEqual(json.loads(lines[-1])["event"], "end")
        self.assertEqual(sum(b'"death"' in line for line in lines), 30)

    def test_a_signal_is_enough_without_a_reader_of_events(self):
        path, _ = self.small_fifo()
        process = self.start("-n", 1, "--max-restarts", 30, "--events", path, OPTIONS.fake, "init", "op:5",
                             *(f"0/kill:9@{i}" for i in range(30)), "print:done", "finalize")
        self.assertEqual(process.stdout.read(5), b"done\n")
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=LIMIT_S)
        self.assert_nothing_left()

    def test_events_to_a_fifo_without_a_reader(self):
        os.mkfifo(self.path("events"))
        done = self.fake(2, "init", "op", "print:done", "finalize", flags=["--events", self.path("events")])
        self.assertEqual((done.code, done.out), (0, "done\n" * 2))
        self.assertEqual(done.err, f"rejoin: --events {self.path('events')}: no process reads it\n")

    def test_events_on_standard_output_are_whole_lines(self):
        with open(self.path("shown"), "wb") as shown:
            process = subprocess.Popen(
                [OPTIONS.ftrun, "-n", "4", "--max-restarts", "40", "--events", "-", OPTIONS.fake, "init", "op:5",
                 *(f"{i % 4}/kill:9@{i // 4}" for i in range(40)), *["print:" + "x" * 3000] * 20, "finalize"],
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=shown, stderr=subprocess.DEVNULL)  # fmt: skip
            self.assertEqual(process.wait(timeout=LIMIT_S), 0)
        with open(self.path("shown")) as shown:
            lines = shown.read().splitlines()
        events = [json.loads(line)["event"] for line in lines if line[0] != "x"]
        self.assertEqual((events[0], events[-1], events.count("death")), ("job", "end", 40))
        self.assertEqual({line for line in lines if line[0] == "x"}, {"x" * 3000})

    def test_what_a_background_child_prints(self):
        done = self.ftrun("-n", 1, "sh", "-c", "(sleep 0.3; echo late) & echo early")
        self.assertEqual((done.code, done.out), (0, "early\nlate\n"))

    def test_a_background_child_that_holds_the_output(self):
        begin = time.monotonic()
        done = self.ftrun("-n", 2, "sh", "-c", "sleep 600 & echo done")
        self.assertEqual((done.code, done.out), (0, "done\ndone\n"))
        self.assertLess(time.monotonic() - begin, 10)

    def test_closed_standard_descriptors(self):
        lost = b"rejoin: standard output cannot be written: Bad file descriptor; ending all ranks\n"
        for closed, prints, code, err in (
            ("0<&- 1>&-", "", 0, b""), ("1>&-", "print:done", 1, lost),
            ("0<&- 1>&- 2>&-", "print:done", 1, b""),
        ):
            script = f"exec '{OPTIONS.ftrun}' -n 2 '{OPTIONS.fake}' init op {prints} finalize {closed}"
            done = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stderr), (code, err))


class Messages(LauncherTest):
    """Tests ftrun's own messages, with and without a terminal as standard error."""

    def shown(self, columns=120, **variables):
        """Returns the output of a job with a death on a terminal."""
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(variables)
            time.sleep(0.1)  # until the terminal has its size
            os.execv(OPTIONS.ftrun, [OPTIONS.ftrun, "-n", "1", "--kill", "0@3", OPTIONS.fake, "init", "op:9", "finalize"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        said = b""
        try:
            while piece := os.read(terminal, 4096):
                said += piece
        except OSError:
            pass  # all other processes have closed it
        os.close(terminal)
        os.waitpid(child, 0)
        return said.decode().replace("\r\n", "\n")

    def test_colours(self):
        self.assertRegex(self.shown(TERM="xterm", NO_COLOR=""), r"\033\[33mrejoin: rank 0 died [^\033]*\033\[0m\n")
        for plain in ({"TERM": "dumb", "NO_COLOR": ""}, {"TERM": "xterm", "NO_COLOR": "1"}):
            said = self.shown(**plain)
            self.assertRegex(said, r"(?m)^rejoin: rank 0 died ")
            self.assertNotIn("\033", said)

    def test_lines_fit(self):
        said = self.shown(60, TERM="dumb")
        self.assertRegex(said, r"\nrejoin: rank 0 is back .*\n    \S")
        self.assertLessEqual(max(len(line) for line in said.split("\n")), 60)
        done = self.fake(1, "init", "op:9", "finalize", flags=["--kill", "0@3"], env={**os.environ, "TERM": "xterm"})
        self.assertNotIn("\033", done.err)
        self.assertNotIn("\n    ", done.err)


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
        script = "head -n 1; exec <&-; sleep 0.1"
        done = subprocess.run([OPTIONS.ftrun, "-n", "2", "sh", "-c", script],
                              stdin=yes.stdout, capture_output=True, timeout=LIMIT_S)
        yes.stdout.close()
        self.assertEqual((done.returncode, done.stdout), (0, b"y\n"), done.stderr)


def signal_handled(pid, number):
    """Returns whether that signal is not pending any more."""
    with open(f"/proc/{pid}/status") as file:
        pending = [line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(int(mask, 16) >> (number - 1) & 1 for mask in pending)


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
        # The first has been handled, and the ranks' time to end has begun.
        self.wait_for(lambda: signal_handled(process.pid, signal.SIGINT), "the first signal's end")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 130)
        self.assertLess(time.monotonic() - begin, 0.8)

    def test_a_rank_gets_sigterm_first(self):
        trap, wait = "trap 'echo cleaned; exit 0' TERM", "while :; do sleep 0.05; done"
        script = f"{trap}; '{OPTIONS.fake}' init finalize; {wait}"
        process = self.start_and_wait("sh", "-c", script, ranks=1)
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
        where = standing(err)
        for rank in (0, 1):
            self.assertTrue(where.get(rank, ("", ""))[0].startswith("after operation #4"), err)

    def test_sigusr2_is_passed_on(self):
        process = self.start_and_wait(OPTIONS.fake, "ignore:10", "init", "1/ignore:12", "hang")
        process.send_signal(signal.SIGUSR2)
        # The signal kills rank 0, which is restarted like after any other death.
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
        words = ["init", "op", "hang@0", "print:done", "finalize"]
        process = self.start_and_wait(OPTIONS.fake, *words)
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
            words = ["init", "0/line", "hang"]
            os.execv(OPTIONS.ftrun, [OPTIONS.ftrun, "-n", "2", OPTIONS.fake, *words])
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


if __name__ == "__main__":
    main(__doc__)
