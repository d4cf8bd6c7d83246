"""Finds the processes and files of a job, and those that it has left."""

import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile

REPORT_S = 6  # the time that ftrun may take to report where every rank is
GRACE_S = 3  # the time that it may take to end its ranks


class NoEnd(Exception):
    """Raised if a job does not end in time. The text describes where every rank is."""


class FtrunProcess(subprocess.Popen):
    """An ftrun process. If it does not end in time, it reports the state of every rank and is ended."""

    def communicate(self, input=None, timeout=None):
        try:
            return super().communicate(input, timeout)
        except subprocess.TimeoutExpired:
            raise NoEnd(f"no end within {timeout} s\n{self._report()}") from None

    def _report(self):
        stack = stack_of(self.pid)
        self.send_signal(signal.SIGUSR1)
        said = self._hear(REPORT_S)
        self.terminate()
        said = self._hear(GRACE_S) or said
        self.kill()
        said = self._hear(GRACE_S) or said
        return f"--- ftrun's own stack\n{stack}\n--- what it has said\n{said[-20000:]}"

    def _hear(self, limit_s):
        """Returns the output of both streams, until the end or the limit."""
        try:
            streams = super().communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as expired:
            streams = (expired.output, expired.stderr)
        texts = [s.decode(errors="replace") if isinstance(s, bytes) else s or "" for s in streams]
        return "".join(texts)


def run_ftrun(command, timeout, input=None, **named):
    """Runs ftrun like subprocess.run with captured output, but as a FtrunProcess."""
    pipe = subprocess.PIPE
    stdin = subprocess.DEVNULL if input is None else pipe
    with FtrunProcess(command, stdin=stdin, stdout=pipe, stderr=pipe, **named) as process:
        out, err = process.communicate(input, timeout)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def processes_with(*entries):
    """Returns all processes with all of these NAME=VALUE in their environment."""
    wanted = {entry.encode() for entry in entries}
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if wanted <= set(file.read().split(b"\0")):
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass  # it ended meanwhile
    return found


def descendants(pid):
    """Returns all descendants of a process."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(path.split("/")[2]))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found


def is_alive(pid):
    """Returns whether the process runs. A zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def images(job, rank=None):
    """Returns the images of a job's ranks, or of one rank, that have registered with the agent."""
    return [pid for pid in job.processes(rank) if proc_text(pid, "comm") == "rejoin-image"]


def proc_text(pid, name):
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read().replace("\0", " ").strip()
    except OSError as error:
        return f"({error.strerror})"


def stack_of(pid):
    """Returns the stacks of all threads by gdb, or else the state that the kernel reports."""
    if shutil.which("gdb"):
        command = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 24"]
        try:
            shown = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
        except subprocess.TimeoutExpired:
            shown = ""
        frames = [line for line in shown.split("\n") if line.startswith(("#", "Thread "))]
        if frames:
            return "\n".join(frames)
    states = [line for line in proc_text(pid, "status").split("\n") if line.startswith("State")]
    return "\n".join([*states, "wchan " + proc_text(pid, "wchan"), proc_text(pid, "syscall")])


def rejoin_files():
    """Returns the files that a job may have left outside its own directory."""
    found = set()
    for directory in ("/dev/shm", tempfile.gettempdir()):
        with os.scandir(directory) as entries:
            for entry in entries:
                if "rejoin" in entry.name and not entry.is_dir(follow_symlinks=False):
                    found.add(entry.path)
    return found


def standing(text):
    """Returns {rank: (position, first line of its stack)} from all reports in ftrun's output."""
    found = {}
    heading = r"^rejoin: ranks? ([\d, -]+) \(process(?:es)? [^)]*\) (?:is|are) (.*)\n(?: +(.*))?"
    for ranks, where, line in re.findall(heading, text, re.MULTILINE):
        for part in ranks.split(", "):
            first, _, last = part.partition("-")
            found.update((r, (where, line)) for r in range(int(first), int(last or first) + 1))
    return found
