"""Files that are renamed, removed and made while a job can go on from written images."""

import os
import shutil
import signal
import tempfile
import time

from harness import require, scenario
from scenarios.written_images import flip, place, sets_in

HOWS = ["rotate", "replace", "queue", "tree"]


def tree(directory):
    """Returns the paths below a directory, with contents or targets."""
    found = {}
    for path, directories, files in os.walk(directory):
        for name in directories + files:
            whole = f"{path}/{name}"
            relative = os.path.relpath(whole, directory)
            if os.path.islink(whole):
                found[relative] = os.readlink(whole)
            elif os.path.isdir(whole):
                found[relative] = "directory"
            else:
                with open(whole, "rb") as file:
                    found[relative] = file.read()
    return found


def command(how):
    return ("renames", how, "steps=600", "pause_us=2000")


def undisturbed(t, how):
    with place(t) as where:
        result = where.run(2, *command(how))
        require(result.code == 0, f"exit code {result.code}", result)
        return tree(where.work)


@scenario(limit_s=300, sweeps=True, how=HOWS)
def file_names(t, how):
    """ftrun is killed twice, some time after a set: the files are those of a run without deaths."""
    expected = undisturbed(t, how)
    for _ in range(20 if t.long else 1):
        with place(t) as where:
            # After the last set, and until the job would write the next one.
            where.often = ["--snapshots", "0.05", "--checkpoint-every", "0.4"]
            where.killed(2, *command(how), count=1, after=0.4)
            where.killed(2, *command(how), count=1, after=0.4, resume=True)
            where.often = ["--snapshots", "0.05", "--checkpoint-every", "1000"]
            where.run(2, *command(how), resume=True, interfere=killed_soon(t))
            result = where.run(2, *command(how), resume=True)
            require(result.code == 0, f"exit code {result.code}", result)
            require("everything is where it belongs" in result.out, "no result", result)
            now = tree(where.work)
            differs = sorted(k for k in {*now, *expected} if now.get(k) != expected.get(k))
            first = [(now.get(name), expected.get(name)) for name in differs[:1]]
            require(not differs, f"files are not as undisturbed: {differs[:5]}, {first}", result)


def killed_soon(t):
    def interfere(job):
        job.run_for(t.rng.uniform(0.05, 0.4))
        job.process.kill()

    return interfere


@scenario(limit_s=300, sweeps=True)
def file_names_killed_at_once(t):
    """ftrun is killed again and again while it has put names back and ranks have not gone on yet."""
    expected = undisturbed(t, "rotate")
    for _ in range(20 if t.long else 2):
        with place(t) as where:
            where.often = ["--snapshots", "0.05", "--checkpoint-every", "0.4"]
            where.killed(2, *command("rotate"), count=1, after=0.3)
            where.often = ["--snapshots", "0.05", "--checkpoint-every", "1000"]
            for _ in range(8):
                where.run(2, *command("rotate"), resume=True, interfere=killed_at_start(t))
            result = where.run(2, *command("rotate"), resume=True)
            require(result.code == 0, f"exit code {result.code}", result)
            require(tree(where.work) == expected, "files are not as undisturbed", result)


def killed_at_start(t):
    def interfere(job):
        job.until_event("start")
        time.sleep(t.rng.choice([0, t.rng.uniform(0, 0.01)]))
        job.process.kill()

    return interfere


def refused(where, how, text):
    """--resume ends with one line, and changes nothing."""
    before = tree(where.work)
    result = where.run(2, *command(how), resume=True)
    require(result.code == 1, f"exit code {result.code}", result)
    lines = result.err.splitlines()
    require(len(lines) == 1 and text in lines[0], f"it does not say: {text}", result)
    require(tree(where.work) == before, "a file was changed", result)


@scenario(limit_s=300)
def file_names_damaged(t):
    """A log of changes of files is damaged, missing, or of another rank: one line reports it."""
    with place(t) as where:
        where.often = ["--snapshots", "0.05", "--checkpoint-every", "0.4"]
        where.killed(2, *command("rotate"), count=1, after=0.3)
        logs = f"{where.sets}/opened"
        saved = f"{where.work}/../saved"
        shutil.copytree(logs, saved)
        names = sorted(name for name in os.listdir(logs) if name.startswith("rank-0"))
        newest = f"{logs}/{max(names, key=lambda name: os.path.getmtime(f'{saved}/{name}'))}"
        for at in range(0, os.path.getsize(newest), 1 + os.path.getsize(newest) // 25):
            flip(newest, at)
            refused(where, "rotate", "is damaged")
            flip(newest, at)
        others = sorted(name for name in os.listdir(logs) if name.startswith("rank-1"))
        shutil.copy(f"{saved}/{others[-1]}", newest)
        refused(where, "rotate", "is damaged")
        shutil.rmtree(logs)
        shutil.copytree(saved, logs)
        result = where.run(2, *command("rotate"), resume=True)
        require(result.code == 0, f"exit code {result.code}", result)


@scenario(limit_s=300)
def file_names_torn(t):
    """A rank is killed while it writes an entry: the next process continues after the last whole one."""
    expected = undisturbed(t, "rotate")
    with place(t) as where:
        where.often = ["--snapshots", "0.05", "--checkpoint-every", "0.4"]
        where.killed(2, *command("rotate"), count=1)

        head_bytes, part = 32, 60  # of the log's head; less than the head of an entry

        def newest_log():
            logs = [f"{where.sets}/opened/{n}" for n in os.listdir(f"{where.sets}/opened")]
            return max((log for log in logs if "/rank-1-" in log), key=os.path.getmtime)

        def tear(job):
            job.until_event("live", 1)
            job.run_for(0.2)
            job.until(lambda: os.path.getsize(newest_log()) > head_bytes + part, "there is an entry")
            job.signal(1, signal.SIGSTOP)
            newest = newest_log()
            with open(newest, "rb+") as log:
                log.seek(head_bytes)
                begin_of_first = log.read(part)
                require(len(begin_of_first) == part, "the log is empty", job)
                log.seek(0, os.SEEK_END)
                log.write(begin_of_first)
            job.kill(1)
            job.run_for(0.4)
            job.process.kill()

        where.often = ["--snapshots", "0.05", "--checkpoint-every", "1000"]
        where.run(2, *command("rotate"), resume=True, interfere=tear)
        result = where.run(2, *command("rotate"), resume=True)
        require(result.code == 0, f"exit code {result.code}", result)
        require(tree(where.work) == expected, "files are not as undisturbed", result)


@scenario(limit_s=300)
def file_names_of_exchanged_sets(t):
    """Two sets whose names were exchanged are refused."""
    with place(t) as where:
        where.killed(2, *command("rotate"), count=3)
        first, second = (f"{where.sets}/images-{n}.rejoin" for n in sets_in(where.sets)[-2:])
        os.rename(first, f"{where.sets}/aside")
        os.rename(second, first)
        os.rename(f"{where.sets}/aside", second)
        result = where.run(2, *command("rotate"), resume=True)
        require(result.code == 1, f"exit code {result.code}", result)
        require("which is not the number in its name" in result.err, "it does not say so", result)


@scenario(limit_s=300)
def file_names_elsewhere(t):
    """Files that were removed in another file system cannot be restored: one line, no changes."""
    with tempfile.TemporaryDirectory(prefix="kill-test-", dir="/dev/shm") as other, place(t) as where:
        if os.stat(other).st_dev == os.stat(where.work).st_dev:
            return
        where.work = other
        where.often = ["--snapshots", "0.05", "--checkpoint-every", "0.4"]
        where.killed(2, *command("queue"), count=1, after=0.0)
        where.often = ["--snapshots", "0.05", "--checkpoint-every", "1000"]
        where.run(2, *command("queue"), resume=True, interfere=lambda job: (job.run_for(0.4), job.process.kill()))
        refused(where, "queue", "there is no hard link to it")


@scenario(limit_s=300)
def file_names_former_job(t):
    """ftrun waits for a process of the former job that still runs; if it does not end, a line names it."""
    with place(t) as where:
        where.killed(2, *command("rotate"), count=1)
        pipe = os.pipe()
        with open("/proc/sys/kernel/random/boot_id") as boot, open(f"{where.sets}/job", "w") as note:
            note.write(boot.read() + os.readlink(f"/proc/self/fd/{pipe[0]}"))
        result = where.run(2, *command("rotate"), resume=True)
        require(result.code == 1, f"exit code {result.code}", result)
        named = f"process {os.getpid()} of the former job there still runs"
        require(named in result.err, "it does not name the process", result)
        result = {}

        def let_go(job):
            time.sleep(1)
            require(job.process.poll() is None, "it did not wait", result)
            for end in pipe:
                os.close(end)

        result = where.run(2, *command("rotate"), resume=True, interfere=let_go)
        require(result.code == 0, f"exit code {result.code}", result)
