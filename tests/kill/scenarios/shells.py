"""Programs that shells start: the process that calls MPI is the rank; all that its shell started dies with it."""

import os
import signal

from harness import Kill, require, scenario
from processes import is_alive

ARGUMENTS = "count=200 pause_us=1000"

# A script that starts two processes in the background, one of them in a session of its own, and the
# program, and kills both at its end. They outlive the script if it is killed.
WITH_CHILDREN = """#!/bin/sh
sleep 1000 > /dev/null 2>&1 &
first=$!
setsid sleep 1000 > /dev/null 2>&1 &
second=$!
%s
code=$?
kill $first $second
exit $code
"""


@scenario()
def shell_that_execs(t):
    command = f"exec {t.program('steps')} count=20"
    for kill in (Kill(1, 10), Kill(0, "init", "before"), Kill(1, "finalize", "after")):
        t.recovers(2, "/bin/sh", "-c", command, kills=[kill])


@scenario()
def shell_that_waits(t):
    """The program is the shell's child. The shell executes its later commands once."""
    text = f"#!/bin/sh\n{t.program('steps')} count=20\ncode=$?\necho the end\nexit $code\n"
    script = t.script("waits", text)
    for kill in (Kill(1, 10), Kill(0, "init"), Kill(1, 5, "after"), Kill(0, 20, "before")):
        result = t.recovers(2, script, kills=[kill], ordered=False)
        require(result.out.count("the end\n") == 2, "not once for each rank", result)
    t.recovers(2, script, kills=[Kill(0, 10), Kill(1, 10)], ordered=False)


@scenario()
def shell_with_children(t):
    """The whole tree of an incarnation is gone before the next one registers."""
    script = t.script("children", WITH_CHILDREN % f"{t.program('steps')} {ARGUMENTS}")

    def interfere(job):
        job.until_event("init", rank=1)
        job.until_event("init", rank=0)  # the script has then started all of its tree
        job.run_for(0.02)
        tree = job.processes(rank=1)
        require(len(tree) == 4, f"the tree is {tree}", job)
        job.kill(1)
        job.until_event("register", rank=1, incarnation=1)
        alive = [pid for pid in tree if is_alive(pid)]
        require(not alive, f"{alive} of {tree} outlived their incarnation", job)
        require(len(job.processes(rank=0)) == 4, "the other rank's tree was harmed", job)

    t.recovers(2, script, interfere=interfere)


@scenario()
def shell_is_killed(t):
    """The shell dies without its program: the rank continues, and a line reports the unfinished script."""
    script = t.script("waits", f"#!/bin/sh\n{t.program('steps')} {ARGUMENTS}\nexit $?\n")

    def interfere(job):
        job.until_event("init", rank=0)
        job.run_for(0.02)
        shell = job.until_event("start", rank=0)["pid"]
        require(shell != job.pids[0], "the program is no child of the shell", job)
        os.kill(shell, signal.SIGKILL)

    expected = t.undisturbed(2, script)
    result = t.run(2, script, interfere=interfere)
    require(result.out == expected.out, "another result", result)
    require(not result.named("death"), "the rank died", result)
    require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
    said = "rank 0: the script that started the program died (signal 9, Killed)"
    require(result.err.count(said) == 1, "it does not say so once", result)


@scenario()
def shell_left_behind(t):
    """The shell ends while its program runs in the background: the rank continues, and may die."""
    command = f"{t.program('steps')} count=300 pause_us=1000 & sleep 0.1; exit 0"
    t.recovers(2, "/bin/sh", "-c", command, kills=[Kill(1, 250), Kill(0, 280, "before")])
