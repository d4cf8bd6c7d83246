"""Ranks of scripts that wait for them: the ranks go on from images, and the scripts go on afterwards."""

import os
import re
import signal
import time

from harness import require, scenario
from processes import is_alive, proc_text
from scenarios.endings import messages
from scenarios.snapshots import EVERY_10_MS, PYTHON, at_random, from_images, judge, names_of_files

KEEPER = "rejoin-keeper"
SHELL = '"$@"; code=$?; echo "ended $REJOIN_RANK with $code"; exit $code'
SUBPROCESS = """
import os, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print("ended", os.environ["REJOIN_RANK"], "with", code)
sys.exit(code)
"""
LOST = re.compile(
    r"rejoin: rank 1 cannot be started again: the process that its wrapper script waits for was "
    r"killed, and the journal does not reach back to the start of the program any more"
)


def wrapped(t, how, *command):
    program = (t.program(command[0]), *command[1:])
    shell = "/bin/sh", "-c"
    return {
        "sh": (*shell, SHELL, "sh", *program),
        "shells": (*shell, SHELL, "sh", *shell, '"$@"; exit $?', "sh", *program),
        "timeout": ("/usr/bin/timeout", "300", *program),
        "python": (PYTHON, t.script("run_it.py", SUBPROCESS), *program),
        "session": ("/usr/bin/setsid", "--wait", *program),
        "execs": (*shell, 'exec "$@"', "sh", *program),
    }[how]


def keepers(job, rank=None):
    return [pid for pid in job.processes(rank) if proc_text(pid, "comm") == KEEPER]


def all_moved(job, n):
    """Waits until all ranks have moved, each of which then registers a second time. Until then a
    rank's first process may become its keeper."""

    def moved():
        registered = [event["rank"] for event in job.events if event["event"] == "register"]
        return all(registered.count(rank) >= 2 for rank in range(n))

    job.until(moved, "all have moved")
    job.run_for(0.03)


def at_random_behind(rng, n):
    def interfere(job):
        all_moved(job, n)
        at_random(rng)(job)

    return interfere


def goes_on_from_image(result, times):
    require(result.err.count(", from the snapshot ") == times, "not from its image", result)


@scenario(how=["sh", "shells", "timeout", "python", "session", "execs"], sweeps=True)
def snapshots_wrapped(t, how):
    """Random deaths: each line is printed once, also the script's own."""
    n = 3
    command = wrapped(t, how, "frozen", "messages", "steps=900")
    expected = t.undisturbed(n, *command)
    for rank in range(n if how in ("sh", "shells", "python") else 0):
        require(expected.out.count(f"ended {rank} with 0\n") == 1, "not ended once", expected)
    woken = 0
    for _ in t.runs(2, 30, lambda: woken):
        interfere = at_random(t.rng) if how == "execs" else at_random_behind(t.rng, n)
        result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
        judge(result, expected, n)
        woken += from_images(result)
    require(woken > 0, "no rank went on from an image", result)


@scenario()
def snapshots_wrapped_undisturbed(t):
    """A run without deaths: the rank has moved, and what it prints about itself has not changed."""
    n, command = 2, wrapped(t, "sh", "frozen", "messages", "steps=900")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        all_moved(job, n)
        for pid in keepers(job):
            with open(f"/proc/{pid}/status") as file:
                kib = int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1])
            require(kib < 200, f"the keeper has {kib} KiB", job)
            files = os.listdir(f"/proc/{pid}/fd")
            require(len(files) == 2, f"the keeper has {files} open", job)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(len(result.named("death")) == 0, "deaths", result)
    end = result.named("end")[0]
    require(0 < end["snapshot_cost_ms"] < 1000 * end["t"], "snapshots take more than all time", result)


@scenario()
def snapshots_wrapped_before_an_image(t):
    """A rank that dies before it has an image begins from the start, with its script."""
    text = f'#!/bin/sh\necho begin; {t.program("frozen")} messages steps=200\necho end\n'
    n, script = 2, t.script("waits", text)
    expected = t.undisturbed(n, script)

    def interfere(job):
        job.until_output("rank 1, step 100")
        job.kill(1)

    result = t.run(n, script, flags=["--snapshots", "100"], interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 0, "a rank did not go back to its start", result)


@scenario(how=["input", "input_bytes"], sweeps=True)
def snapshots_wrapped_input(t, how):
    """The script reads before and after the program, from the same input."""
    steps = 900
    program = f"{t.program('frozen')} {how} steps={steps}"
    read = 'test $REJOIN_RANK = 0 && read -r line && echo "got $line"'
    # A program that reads through a buffer may read more than its own lines.
    behind = read if how == "input_bytes" else "true"
    script = t.script("waits", f"#!/bin/sh\n{read}\n{program}\ncode=$?\n{behind}\nexit $code\n")
    lines = "".join(f"line {i} of {steps}\n" for i in range(steps + 3))
    prefix = ["bash", "-c", f'exec "$@" < {t.script("lines", lines)}', "bash"]
    expected = t.run(2, script, prefix=prefix)
    require(expected.code == 0 and "got line 0 of" in expected.out, "undisturbed", expected)
    for _ in range(30 if t.long else 2):
        interfere = at_random_behind(t.rng, 2)
        result = t.run(2, script, flags=EVERY_10_MS, interfere=interfere, prefix=prefix)
        judge(result, expected, 2)


@scenario(sweeps=True)
def snapshots_wrapped_files(t):
    """The program writes files, and its output goes to a file that its script writes, too."""
    n = 2
    program = f"{t.program('frozen')} files steps=600"
    text = "#!/bin/sh\nexec > log.$REJOIN_RANK\necho begin\n%s\ncode=$?\necho end\nexit $code\n"
    script = t.script("waits", text % program)
    leaves = names_of_files(n) + [f"log.{rank}" for rank in range(n)]
    expected = t.run(n, script, leaves=leaves)
    require(len(expected.files) == len(leaves), "the files are not there", expected)
    woken = 0
    for _ in t.runs(3, 60, lambda: woken):
        flags, interfere = EVERY_10_MS, at_random_behind(t.rng, n)
        result = t.run(n, script, flags=flags, interfere=interfere, leaves=leaves)
        judge(result, expected, n)
        woken += from_images(result)
        for name, contents in expected.files.items():
            require(result.files.get(name) == contents, f"{name} is not as undisturbed", result)
    require(woken > 0, "no rank went on from an image", result)


@scenario()
def snapshots_wrapped_pipe(t):
    """No images are made of a program whose output goes to a pipe of its script, and a line says so."""
    n = 2
    script = t.script("pipe", f"#!/bin/sh\n{t.program('frozen')} messages steps=200 | cat\n")
    expected = t.undisturbed(n, script)

    def interfere(job):
        job.until_output("rank 1, step 100")
        job.kill(1)

    result = t.run(n, script, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    require(from_images(result) == 0, "a rank did not go back to its start", result)
    said = r"because it has pipe:\[\d+\] for its standard output instead of what ftrun gave it"
    require(len(re.findall(said, result.err)) == n, f"not said: {said}", result)


@scenario(sweeps=True)
def snapshots_wrapped_keeper_killed(t):
    """The keeper is killed: its script goes on as if the program had ended, so the rank is ended."""
    n, command = 2, wrapped(t, "sh", "frozen", "messages", "steps=4000")

    def interfere(job):
        all_moved(job, n)
        job.run_for(t.rng.uniform(0, 0.1))
        for pid in keepers(job, 1):
            os.kill(pid, signal.SIGKILL)

    for _ in range(30 if t.long else 2):
        result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
        require(result.code == 1, f"exit code {result.code}", result)
        require(LOST.fullmatch(messages(result)[-1]), "not the line", result)


@scenario()
def snapshots_wrapped_keeper_killed_at_once(t):
    """The rank is ended as soon as its keeper is killed, although its script goes on for long."""
    shell = ("/bin/sh", "-c", '"$@"; sleep 60', "sh")
    n, command = 2, (*shell, t.program("frozen"), "messages", "steps=4000")
    killed_at = []

    def interfere(job):
        all_moved(job, n)
        for pid in keepers(job, 1):
            os.kill(pid, signal.SIGKILL)
        killed_at.append(time.monotonic())

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    require(result.code == 1, f"exit code {result.code}", result)
    require(LOST.fullmatch(messages(result)[-1]), "not the line", result)
    require(time.monotonic() - killed_at[0] < 30, "the job went on without the keeper", result)


@scenario(sweeps=True)
def snapshots_wrapped_shell_killed(t):
    """The script is killed: the program goes on, also from images; a line reports the rest undone."""
    n, command = 2, wrapped(t, "sh", "frozen", "messages", "steps=400")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        all_moved(job, n)
        os.kill(job.until_event("start", 1)["pid"], signal.SIGKILL)
        job.until(lambda: len(keepers(job)) == n - 1, "its keeper has ended")
        job.run_for(0.02)
        job.kill(1)

    for _ in range(30 if t.long else 2):
        result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
        require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
        require("rank 1: the script that started the program died" in result.err, "it does not say so", result)
        without = expected.out.replace("ended 1 with 0\n", "")
        same = sorted(result.out.split("\n")) == sorted(without.split("\n"))
        require(same, "the output is not as undisturbed", result)
        goes_on_from_image(result, 1)


@scenario()
def snapshots_wrapped_exit_code(t):
    """The program's exit code goes to the script, and the script's to ftrun."""
    program = t.script("ends", SCRIPT_THAT_EXITS)
    text = '"$@"; code=$?; echo "ended with $code"; exit $((code + 1))'

    def interfere(job):
        all_moved(job, 1)
        job.kill(0)

    command = ("/bin/sh", "-c", text, "sh", PYTHON, program)
    result = t.run(1, *command, flags=EVERY_10_MS, interfere=interfere)
    require(result.code == 8, f"exit code {result.code}", result)
    require(result.out == "ended with 7\n", "not what its script says", result)
    goes_on_from_image(result, 1)


SCRIPT_THAT_EXITS = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40")
mpi.MPI_Init(None, None)
world = ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
for step in range(1000):
    mpi.MPI_Barrier(ctypes.c_void_p(world))
    time.sleep(0.001)
mpi.MPI_Finalize()
os._exit(7)
"""


@scenario(number=["SIGTERM", "SIGUSR1"])
def snapshots_wrapped_signals(t, number):
    """Signals that the script sends to the process for which it waits reach the rank."""
    script = t.script("signals.py", SCRIPT_WITH_HANDLER % number)

    def interfere(job):
        all_moved(job, 1)
        os.kill(keepers(job)[0], getattr(signal, number))

    command = ("/bin/sh", "-c", SHELL, "sh", PYTHON, script)
    result = t.run(1, *command, flags=EVERY_10_MS, interfere=interfere)
    require(result.code == 0, f"exit code {result.code}", result)
    require(result.out == "signalled\nended 0 with 0\n", "the rank was not signalled", result)


SCRIPT_WITH_HANDLER = """
import ctypes, signal, sys, time
seen = []
signal.signal(signal.%s, lambda *_: seen.append(1))
mpi = ctypes.CDLL("libmpi.so.40")
mpi.MPI_Init(None, None)
world = ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
end = time.monotonic() + 20
while not seen and time.monotonic() < end:
    mpi.MPI_Barrier(ctypes.c_void_p(world))
    time.sleep(0.001)
mpi.MPI_Finalize()
print("signalled" if seen else "not signalled", flush=True)
"""


@scenario(how=["SIGKILL", "SIGINT", "SIGTERM"], sweeps=True)
def snapshots_wrapped_end_with_ftrun(t, how):
    """No process is left of a job whose ftrun is killed or interrupted, keepers and scripts included."""
    number = getattr(signal, how)

    def interfere(job):
        all_moved(job, 3)
        job.kill(1)
        if t.rng.random() < 0.5:
            job.until_event("live", 1, 1)
        job.process.send_signal(number)

    command = wrapped(t, t.rng.choice(["sh", "session"]), "frozen", "messages", "steps=4000")
    for _ in range(30 if t.long else 2):
        result = t.run(3, *command, flags=EVERY_10_MS, interfere=interfere, limit_s=20)
        code = -number if how == "SIGKILL" else 128 + number
        require(result.code == code, f"exit code {result.code}", result)


@scenario()
def snapshots_wrapped_background(t):
    """Processes that the script has left running do not belong to the rank, and outlive its deaths."""
    n, command = 2, ("frozen", "messages", "steps=900")
    text = 'sleep 1000 & "$@"; code=$?; kill $!; exit $code'
    command = ("/bin/sh", "-c", text, "sh", t.program(command[0]), *command[1:])
    expected = t.undisturbed(n, *command)

    def interfere(job):
        all_moved(job, n)
        sleeping = [p for p in job.processes(1) if proc_text(p, "comm") == "sleep"]
        require(len(sleeping) == 1, f"{sleeping} sleep", job)
        job.kill(1)
        job.until_event("live", 1, 1)
        require(is_alive(sleeping[0]), "it died with the rank", job)

    result = t.run(n, *command, flags=EVERY_10_MS, interfere=interfere)
    judge(result, expected, n)
    goes_on_from_image(result, 1)


@scenario()
def snapshots_wrapped_twice(t):
    """A second MPI program after the first is refused, as without images."""
    program = f"{t.program('frozen')} messages steps=100"
    script = t.script("twice", f"#!/bin/sh\n{program} && {program}\n")
    for flags in (EVERY_10_MS, ["--snapshots", "off"]):
        result = t.run(1, script, flags=flags)
        require(result.code != 0, f"exit code {result.code}", result)
        said = "rank 0 has ended or called MPI_Finalize already"
        require(said in result.err, "it does not say why", result)
