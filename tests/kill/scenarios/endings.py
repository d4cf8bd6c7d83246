"""Jobs that must end: each ends in time, with one clear message and the right exit code."""

import os
import re
import shutil
import signal

from harness import Kill, Skip, check_deaths, require, scenario
from processes import standing

SEGV, ABRT, KILLED = 128 + signal.SIGSEGV, 128 + signal.SIGABRT, 128 + signal.SIGKILL


def messages(result):
    """Returns the lines of ftrun's own messages, without the summary at the end."""
    lines = [line for line in result.err.split("\n") if line.startswith("rejoin: ")]
    summary = [i for i, line in enumerate(lines) if re.match(r"rejoin: \d+ deaths?, ", line)]
    return lines[: summary[0]] if summary else lines


# ------------------------------------------------------------------------------ calls that disagree

DISAGREEMENTS = [
    "kind", "count", "type", "operator", "bcast_count", "bcast_root", "bcast_roots", "gather_root",
    "gather_reduce", "scatter_gather", "channel_replicated", "grid", "neighbours",
    "one_more", "one_less",
]  # fmt: skip


def check_disagreement(result):
    """Requires one line that names both calls, with the places that the program has printed before."""
    require(0 < result.code < 128, f"exit code {result.code}", result)
    said = re.search(r"lines (\d+) and (\d+)", result.out)
    require(said, "the program did not get that far", result)
    found = [line for line in messages(result) if re.search(r"MPI_\w+ of .* where rank \d+ ", line)]
    places = [set(re.findall(r"disagree\.c:(\d+)::make_\w+", line)) for line in found]
    require(set(said.groups()) in places, f"no line names both calls: {places}", result)


@scenario(how=DISAGREEMENTS)
def disagree(t, how):
    """Ranks make different collective calls: the report names both, by file and line."""
    for n in (2, 3):
        result = t.run(n, "disagree", how)
        check_disagreement(result)


@scenario(how=["kind", "count", "bcast_root", "gather_reduce"])
def disagree_after_death(t, how):
    """Ranks disagree in a second incarnation, and a rank dies in the operation itself."""
    for kill in (Kill(1, 3), Kill(0, 6, "before"), Kill(1, 6, "before"), Kill(0, 5, "after")):
        result = t.run(2, "disagree", how, kills=[kill])
        check_disagreement(result)
        check_deaths(result, [kill])


# ------------------------------------------------------------------------------------ wrong calls


WRONG = ["unsupported", "message", "collective", "query", "freed", "type", "wait", "abort"]


@scenario(how=WRONG)
def wrong(t, how):
    """An invalid call is reported with its place, also by a second incarnation."""
    for kills in ([], [Kill(0, 1)], [Kill(0, 1, "after")]):
        result = t.run(2, "wrong", how, kills=kills)
        require(0 < result.code < 128, f"exit code {result.code}", result)
        [line] = re.findall(r"line (\d+)", result.out)
        place = rf" at \S*wrong\.c:{line}::make_{how}\b"
        said = [text for text in messages(result) if re.search(place, text)]
        require(len(said) == 1, "no line names the place", result)
        require("{" not in result.err, "a place is not resolved", result)
        check_deaths(result, kills)


@scenario(how=[how for how in WRONG if how != "abort"])
def wrong_returned(t, how):
    """The text of an error that is returned has the place, and is the same in every incarnation."""
    result = t.undisturbed(2, "wrong", how, "returns")
    told = re.findall(r"told: MPI_ERR_\w+: MPI_\w+ at wrong\+0x[0-9a-f]+: .*\w", result.out)
    require(len(told) == 1, "no such text", result)
    for point in (1, 2):
        t.recovers(2, "wrong", how, "returns", kills=[Kill(0, point, "after")])


@scenario()
def unsupported_returned(t):
    """A function that is not supported is reported once in the job, also by a second incarnation."""
    for kills in ([], [Kill(1, 2)]):
        result = t.run(3, "unsupported", kills=kills)
        require(result.code == 0, f"exit code {result.code}", result)
        for name in ("MPI_File_open", "MPI_Win_create"):
            said = [line for line in messages(result) if name in line]
            require(len(said) == 1, f"{len(said)} lines name {name}", result)
            wanted = rf"rejoin: {name} at \S*unsupported\.c:\d+::main: this function is not supported"
            require(re.match(wanted, said[0]), "the line does not say what and where", result)
        check_deaths(result, kills)


@scenario()
def unsupported_fatal(t):
    """If an unsupported function ends the job, there is only one line about it."""
    result = t.run(1, "unsupported", "fatal")
    require(0 < result.code < 128, f"exit code {result.code}", result)
    said = [line for line in messages(result) if "MPI_File_open" in line]
    require(len(said) == 1, f"{len(said)} lines name it", result)


@scenario(how=["gather", "scatter", "reduce", "order"])
def unmatched(t, how):
    """Calls that do not match are reported as the program's error, in whatever order they are found."""
    result = t.run(4, "unmatched", how)
    require(0 < result.code < 128, f"exit code {result.code}", result)
    require("defect of Rejoin" not in result.err, "it is called a defect of Rejoin", result)
    both = r"rank \d+ calls MPI_\w+ of .* where rank \d+ calls MPI_\w+ of .* must make the same"
    named = [line for line in messages(result) if re.search(both, line)]
    require(named, "no line names both calls", result)


@scenario()
def unmatched_count(t):
    """Later calls, and a replay, do not report a disagreement again that was returned as an error."""
    for kills in ([], [Kill(1, 2, "before")], [Kill(0, 2)]):
        result = t.run(3, "unmatched", "count", kills=kills)
        require(result.code == 0, f"exit code {result.code}", result)
        lines = sorted(line for line in result.out.split("\n") if line.startswith("rank"))
        wanted = [f"rank {r}: {what}" for r in range(3)
                  for what in ("allreduce: not the same", "barrier: well")]
        require(lines == wanted, "it was told something else", result)
        check_deaths(result, kills)


@scenario()
def unmatched_room(t):
    """A message that is too long is an error at its receiver, and at no other rank."""
    for kills in ([], [Kill(0, 1, "after")], [Kill(0, 2)], [Kill(2, 2, "before")]):
        result = t.run(3, "unmatched", "room", kills=kills)
        require(result.code == 0, f"exit code {result.code}", result)
        lines = sorted(line for line in result.out.split("\n") if line.startswith("rank"))
        wrong = ["rank 0: alltoall: truncated", "rank 0: gather: truncated",
                 "rank 2: alltoall: truncated"]
        require([line for line in lines if not line.endswith(": well")] == wrong,
                "it was told something else", result)
        require(len(lines) == 9, f"{len(lines)} lines", result)
        check_deaths(result, kills)


# -------------------------------------------------------------------------------- crashing for ever


@scenario()
def crash_loop(t):
    """After a second crash at the same place the rank is not restarted, which is reported."""
    for how, code in (("segv", SEGV), ("abort", ABRT), ("exit", 7)):
        for rank in (0, 1):
            result = t.run(2, "crash", how, f"rank={rank}", "at=20")
            require(result.code == code, f"exit code {result.code}, not {code}", result)
            deaths = result.named("death")
            require([d["rank"] for d in deaths] == [rank, rank], "other deaths", result)
            last = messages(result)[-1]
            for word in (f"rank {rank} died", "after Allreduce #20", "crash.c:", "same cause"):
                require(word in last, f"the report does not say '{word}'", result)


FAULTS = {
    "segv": (11, "address 0x0 is not mapped"),
    "abort": (6, None),
    "divide": (8, "an integer was divided by zero"),
    "call": (11, "address 0x0 is not mapped"),
    "deep": (11, "the stack is full (ulimit -s)"),
}


@scenario(how=list(FAULTS))
def fault_report(t, how):
    """A crash is reported where it happened, with its stack, which is shown once."""
    number, reason = FAULTS[how]
    result = t.run(2, "crash", how, "rank=1", "at=20")
    require(result.code == 128 + number, f"exit code {result.code}", result)
    place = r"\S*crash\.c:\d+::" + ("recurse" if how == "deep" else "fail_by")
    where = rf", at {place}" + (f": {re.escape(reason)}" if reason else "")
    died = [line for line in messages(result) if "rank 1 died" in line]
    require(len(died) == 2, "other deaths", result)
    for line in died:
        require(re.search(rf"\(signal {number}, .*\) after Allreduce #20.*{where}; ", line),
                f"'{line}' does not say '{where}'", result)
    stack = [line for line in messages(result) if re.match(r"rejoin:   #\d+ ", line)]
    frames = [line.split()[-1] for line in stack if "crash.c:" in line]
    wanted = {"deep": ["recurse"], "call": ["fail_by"]}.get(how, ["fail_by", "main"])
    require([f.split("::")[1] for f in frames][: len(wanted)] == wanted, f"{stack}", result)
    require(len(stack) <= 16 and stack[-1].split()[1][1:] == str(len(stack) - 1), "twice", result)
    for death in result.named("death"):
        require(re.search(place, death["fault"]["site"]), f"{death}", result)
        require(len(death["fault"]["stack"]) == len(stack), f"{death}", result)
    require(stack and messages(result).index(stack[0]) == messages(result).index(died[0]) + 1,
            "the stack is elsewhere", result)


@scenario()
def fault_while_locked(t):
    """A fault whose report would wait for a lock for ever ends the rank after 2 s."""
    result = t.run(2, "crash", "locked", "rank=1", "at=20", flags=["--max-restarts", "0"])
    require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
    [death] = result.named("death")
    require("fault" not in death and death["cause"] == "signal 9 (Killed)", f"{death}", result)


@scenario()
def fault_from_outside(t):
    """A signal that another process has sent is no fault of the program."""
    result = t.run(2, "crash", "kill", "rank=1", "at=20")
    require(result.code == SEGV, f"exit code {result.code}", result)
    require(not any("fault" in death for death in result.named("death")), "a fault", result)


@scenario()
def faults_that_are_handled(t):
    """A program's own handlers see the faults, and neither our handler nor our stack."""
    for flags in ([], ["--snapshots", "0.001"], ["--libc-recording", "off"]):
        t.undisturbed(2, "crash", "handled", "at=20", flags=flags)
    t.recovers(2, "crash", "handled", "at=20", kills=[Kill(1, 30), Kill(0, 25)])


@scenario()
def crash_loop_after_a_kill(t):
    """A kill from outside between two crashes does not hide that they are the same."""
    kills = [Kill(1, 10, "inside", 1)]
    result = t.run(2, "crash", "segv", "at=20", kills=kills)
    require(result.code == SEGV, f"exit code {result.code}", result)
    causes = [death["cause"][:9] for death in result.named("death")]
    require(causes == ["signal 11", "signal 9 ", "signal 11"], f"deaths by {causes}", result)


@scenario()
def crash_before_init(t):
    """A program exits before MPI_Init: its exit code is the job's."""
    result = t.run(2, "crash", "init")
    require(result.code == 7, f"exit code {result.code}", result)
    require(len(result.named("respawn")) <= 2, "it was tried again and again", result)


@scenario(n=[2, 4])
def deadlock(t, n):
    """Ranks wait for each other in different communicators: reported at once, with call sites."""
    for kills in ([], [Kill(1, 7)]):
        result = t.run(n, "crossed", kills=kills)
        require(result.code == 1, f"exit code {result.code}", result)
        require(result.took_s < 15, f"it took {result.took_s} s", result)
        require(messages(result)[-1].startswith("rejoin: deadlock:"), "it does not say so", result)
        line = re.search(r"lines (\d+)", result.out)[1]
        where = standing(result.err)
        for rank in range(n):
            wanted = rf"in Barrier #\d+ at \S*crossed\.c:{line}:"
            require(re.match(wanted, where.get(rank, ("", ""))[0]), f"rank {rank}: no call site", result)


@scenario(tool=["eu-stack", "gdb"])
def stacks(t, tool):
    """A stack from either debugger has one line for the library, then the program's own functions."""
    found = shutil.which(tool)
    if found is None:
        raise Skip(f"{tool} is not installed")
    directory = t.next_work_directory()
    os.symlink(found, f"{directory}/{tool}")
    prefix = ["/usr/bin/env", f"PATH={directory}"]
    result = t.run(2, "crossed", leaves=[tool], prefix=prefix)
    for rank, (_, line) in standing(result.err).items():
        require(re.fullmatch(r"#0( to #\d+)? in Rejoin", line), f"rank {rank}: {line}", result)
    require(re.search(r"^    #\d+ main \(crossed", result.err, re.MULTILINE), "no main", result)
    frames = re.findall(r"^    (#.*)$", result.err, re.MULTILINE)
    require(len(frames) <= 2 * 4, f"frames are not folded: {frames}", result)


@scenario(snapshots=["off", "0.01"])
def killed_while_its_stack_is_read(t, snapshots):
    """A rank dies while a debugger stops it for a report: it is restarted, and the report ends."""
    n, command = 3, ("steps", "count=300", "pause_us=3000")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_event("init")
        for i in range(4):
            rank = i % n
            job.until(lambda r=rank: r in job.pids, f"rank {rank} runs")
            job.process.send_signal(signal.SIGUSR1)
            job.run_for(t.rng.uniform(0.005, 0.08))
            job.kill(rank)
            job.until_event("live", rank, job.killed.count(rank))

    result = t.run(n, *command, flags=["--snapshots", snapshots], interfere=interfere)
    require(result.code == 0, f"exit code {result.code}", result)
    require(result.out == expected.out, "the output differs", result)
    require(len(result.named("death")) == 4, "deaths", result)
    require(standing(result.err), "nothing is reported", result)


# ------------------------------------------------------------------------------- what ftrun is given


@scenario()
def no_restart(t):
    """--no-restart: a death ends the job, as under mpirun."""
    for kill in (Kill(1, 10), Kill(0, "init", "after"), Kill(1, "finalize", "before")):
        result = t.run(3, "steps", "count=20", kills=[kill], flags=["--no-restart"])
        require(result.code == KILLED, f"exit code {result.code}", result)
        check_deaths(result, [kill])
        require(not result.named("respawn"), "it was started again", result)
        require("--no-restart" in messages(result)[-1], "it does not say why", result)


@scenario()
def unfired_kill(t):
    """A --kill that did not happen is an error at the end."""
    expected = t.undisturbed(2, "steps", "count=20")
    for kills in ([Kill(1, 1000)], [Kill(0, 10, "before", 1)], [Kill(1, 10), Kill(0, 23, "after")]):
        result = t.run(2, "steps", "count=20", kills=kills)
        require(result.code == 1, f"exit code {result.code}", result)
        require(result.out == expected.out, "the output differs", result)
        unfired = [event["text"] for event in result.named("kill_unfired")]
        require(unfired == [str(kills[-1])], f"unfired: {unfired}", result)
        require(f"--kill {kills[-1]} did not fire" in result.err, "it does not say so", result)


@scenario()
def exit_code(t):
    """The program's own exit code is the job's, with and without a death."""
    for kills in ([], [Kill(1, 10)], [Kill(0, "finalize", "after")]):
        result = t.run(2, "steps", "count=20", "exit=3", kills=kills)
        require(result.code == 3, f"exit code {result.code}", result)
        check_deaths(result, kills)


@scenario(sweeps=True)
def output_once(t):
    """Every rank prints a line after every operation; each is shown once, in the rank's order."""
    program = ("steps", "count=80", "lines=1", "pause_us=200")
    n = 3
    expected = t.undisturbed(n, *program)

    def interfere(job):
        job.until_event("init", rank=n - 1)
        for delay_s, rank in delays:
            job.run_for(delay_s)
            job.kill(rank)

    for _ in range(200 if t.long else 12):
        delays = [(t.rng.uniform(0, 0.03), t.rng.randrange(n)) for _ in range(t.rng.randint(1, 4))]
        result = t.recovers(n, *program, interfere=interfere, ordered=False)
        for rank in range(n):
            shown, wanted = (
                [line for line in out.split("\n") if line.startswith(f"rank {rank},")]
                for out in (result.out, expected.out)
            )
            require(shown == wanted, f"lines of rank {rank}: {shown[-3:]}, {len(shown)}", result)


# --------------------------------------------------------------------------------------- divergence


def diverges(t, how, flags=()):
    return t.run(2, "unsteady", how, kills=[Kill(1, 8)], flags=flags, leaves=["second-is-next"])


@scenario(how=["operation", "count", "order"])
def divergence(t, how):
    """A second incarnation calls another operation: the job stops and names both calls."""
    result = diverges(t, how)
    require(result.code == 1, f"exit code {result.code}", result)
    [line] = [line for line in messages(result) if "replay" in line]
    for pattern in (
        r"operation 4 of rank 1",
        r"MPI_Allreduce of 4 bytes at \S*unsteady\.c:\d+::main",
        r"and is MPI_\w+ of \d+ bytes.* at \S*unsteady\.c:\d+::unsteady_step",
    ):
        require(re.search(pattern, line), f"the report has no '{pattern}'", result)
    require("done" not in result.out, "it went on", result)


@scenario(how=["bytes", "message"])
def divergence_of_bytes(t, how):
    """--on-divergence warn: a rank that contributes other bytes gets the recorded result, and one
    line warns of it."""
    result = diverges(t, how, flags=["--on-divergence", "warn"])
    require(result.code == 0, f"exit code {result.code}", result)
    require(result.out == "done\n", "not as undisturbed", result)
    lines = [line for line in messages(result) if "replay" in line and "is back" not in line]
    require(len(lines) == 1, f"{len(lines)} warnings", result)
    for word in ("operation 4 of rank 1", "unsteady.c:"):
        require(word in lines[0], f"the warning does not say '{word}'", result)


@scenario(how=["bytes", "message"])
def divergence_stop(t, how):
    """Without that option the same is an error."""
    result = diverges(t, how)
    require(result.code == 1, f"exit code {result.code}", result)
    require(any("operation 4 of rank 1" in line for line in messages(result)), "no report", result)
    require("done" not in result.out, "it went on", result)
