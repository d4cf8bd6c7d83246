"""Jobs of unmodified programs that go on after the end of the whole job: --checkpoint-dir, --resume."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from harness import GRACE_S, Skip, check_deaths, check_returns, require, require_met, scenario
from processes import proc_text, processes_with
from scenarios.snapshots import PYTHON, SCRIPT, lines_of, names_of_files

OFTEN = ["--snapshots", "0.05", "--checkpoint-every", "0.2", "--max-restarts", "1000"]
WRITER = "rejoin-writer"


def sets_in(path):
    """Returns the numbers of the sets in a directory, oldest first."""
    names = os.listdir(path) if os.path.isdir(path) else []
    found = [re.fullmatch(r"images-(\d+)\.rejoin", name) for name in names]
    return sorted(int(match[1]) for match in found if match)


def writers(job):
    return [pid for pid in job.processes() if proc_text(pid, "comm") == WRITER]


class Place:
    """The place of jobs that go on from each other: their working directory, and the sets of images."""

    def __init__(self, t, path, layout=None):
        self.t, self.work, self.sets = t, f"{path}/work", f"{path}/sets"
        os.mkdir(self.work)
        on_hosts = ["--layout", layout, "--between-nodes", "sockets"] if layout else []
        self.often = [*OFTEN, *on_hosts]  # flags of all jobs
        hosts = range(len(layout.split(","))) if layout else []
        self.places = [f"{self.sets}/host-{host}" for host in hosts] or [self.sets]  # of sets
        self.out, self.err = [], []  # of each job, in their order
        self.mark = f"REJOIN_PLACE={uuid.uuid4().hex}"  # of all processes of all jobs

    def flags(self, *more):
        there = ["--wdir", self.work, "--checkpoint-dir", self.sets, "-x", self.mark]
        return [*there, *self.often, *more]

    def whole(self, job, count=2):
        """Waits until this job has written that many sets."""
        written = lambda: sum(event["event"] == "images" for event in job.events) >= count
        job.until(written, f"{count} sets were written")

    def run(self, n, *command, resume=False, flags=(), interfere=None, beside=False, **named):
        more = [*(["--resume"] if resume else []), *flags]
        flags = self.flags(*more)
        result = self.t.run(n, *command, flags=flags, interfere=interfere, limit_s=240, **named)
        self.out.append(result.out)
        self.err.append(result.err)
        end_s = time.monotonic() + GRACE_S
        while (left := processes_with(self.mark)) and not beside:
            require(time.monotonic() < end_s, f"left behind: {left}", result)
            time.sleep(0.01)
        for there in filter(os.path.isdir, self.places if not beside else []):
            parts = [name for name in os.listdir(there) if name.endswith(".part")]
            require(not parts, f"left behind: {parts}", result)
        return result

    def require_kept(self, result):
        """Requires that the two newest sets are there, and no more than one that is not whole."""
        kept = [sets_in(there) for there in self.places]
        if len(kept) == 1:
            # If ftrun was killed when the newest set was complete, the oldest may not be removed yet.
            newest = f"{self.sets}/images-{max(kept[0], default=0)}.rejoin"
            told = any(event.get("text") == newest for event in result.events)
            require(1 <= len(kept[0]) <= (2 if told else 3), f"the sets are {kept}", result)
        else:
            whole = set.intersection(*map(set, kept))
            require(whole and all(len(each) <= 4 for each in kept), f"the sets are {kept}", result)

    def killed(self, n, *command, count=2, before=lambda job: None, after=0.0, **named):
        """A job whose ftrun is killed once it has written that many sets."""

        def interfere(job):
            before(job)
            self.whole(job, count)
            job.run_for(self.t.rng.uniform(0, after))
            job.process.kill()

        result = self.run(n, *command, interfere=interfere, **named)
        require_met(result.code != 0, "the job ended before ftrun was killed", result)
        require(result.code == -signal.SIGKILL, f"exit code {result.code}", result)
        self.require_kept(result)
        return result

    def resumes(self, n, *command, **named):
        result = self.run(n, *command, resume=True, **named)
        require(result.code == 0, f"exit code {result.code}", result)
        require("rejoin: going on from " in result.err, "it does not say so", result)
        check_deaths(result, [])
        check_returns(result, n)
        return result


@contextlib.contextmanager
def place(t, layout=None):
    with tempfile.TemporaryDirectory(prefix="kill-test-") as path:
        yield Place(t, path, layout)


def require_whole(where, result, expected, ranks):
    """Requires that the outputs of a rank in all jobs together are its output without deaths."""
    for rank in range(ranks):
        for stream, parts, wanted in (
            ("output", where.out, lines_of(expected.out, rank)),
            ("standard error", where.err, lines_of(expected.err, rank)),
        ):
            at = 0  # the output up to here has been shown
            for part in (lines_of(text, rank) for text in parts):
                if not part:
                    continue
                begin = wanted.index(part[0]) if part[0] in wanted else None
                what = f"{stream} of rank {rank}"
                require(begin is not None and begin <= at, f"{what} has a gap", result)
                there = wanted[begin : begin + len(part)]
                wrong = [i for i, pair in enumerate(zip(part, there)) if pair[0] != pair[1]]
                seen = part[wrong[0] - 2 : wrong[0] + 3] if wrong else part[len(there) :]
                require(part == there, f"{what} is not as undisturbed: {seen}", result)
                at = begin + len(part)
            require(at == len(wanted), f"{stream} of rank {rank} is not whole", result)


def goes_on(t, n, *command, times=1, layout=None, **named):
    """Kills ftrun repeatedly; the last job ends like one without deaths."""
    expected = t.undisturbed(n, *command)
    for _ in range(10 if t.long else times):
        with place(t, layout) as where:
            where.killed(n, *command, after=0.3, **named)
            where.killed(n, *command, count=1, after=0.3, resume=True, **named)
            result = where.resumes(n, *command, **named)
            require_whole(where, result, expected, n)


# ------------------------------------------------------------------------------------------ scenarios


@scenario(limit_s=300, n=[1, 2, 4], sweeps=True)
def written_images(t, n):
    """Collectives and messages, one of which is outstanding across every step."""
    goes_on(t, n, "frozen", "messages", "steps=900", "pause_us=2000")


@scenario(limit_s=300, sweeps=True)
def written_images_polls(t):
    """Programs with Tests and probes."""
    goes_on(t, 3, "frozen", "polls", "steps=900", "pause_us=2000")


@scenario(limit_s=300)
def written_images_mutexes(t):
    """Mutexes that contain their owner's id."""
    goes_on(t, 2, "frozen", "mutexes", "steps=900", "pause_us=2000")


@scenario(limit_s=300)
def written_images_deadlines(t):
    """Waits until a time of a clock end in time, also on a machine whose clock has begun anew."""
    n, command = 2, ("frozen", "deadlines", "steps=250", "pause_us=2000")
    machine = ["unshare", "-T", "--kill-child=KILL", "--monotonic"]
    if subprocess.run([*machine, "9", "true"], capture_output=True).returncode != 0:
        raise Skip("may not make a time namespace")
    expected = t.undisturbed(n, *command)
    with place(t) as where:
        where.killed(n, *command, prefix=[*machine, "2000000"])
        where.killed(n, *command, count=1, resume=True, prefix=[*machine, "1000000"])
        require_whole(where, where.resumes(n, *command), expected, n)


@scenario(limit_s=300)
def written_images_itself(t):
    """Open devices, and functions that get the calling thread as an argument."""
    goes_on(t, 2, "frozen", "itself", "steps=900", "pause_us=2000")


@scenario(limit_s=300)
def written_images_limits(t):
    """Limits of the program: fewer descriptors than the job has, a nice value, timer slack."""
    goes_on(t, 2, "frozen", "limits", "steps=900", "pause_us=2000")


@scenario(limit_s=300, sweeps=True)
def written_images_random_program(t):
    """Random programs."""
    for seed in range(1, 20 if t.long else 3):
        goes_on(t, 3, "random_collectives", seed, 20000, 4096)


@scenario(limit_s=300, sweeps=True)
def written_images_mpi4py(t):
    """Objects of Python through mpi4py."""
    if os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "import mpi4py"]) != 0:
        raise Skip("no mpi4py")
    goes_on(t, 2, PYTHON, t.script("program.py", SCRIPT.replace("300", "1200")))


@scenario(limit_s=300, how=["input", "input_bytes"])
def written_images_input(t, how):
    """Rank 0 has got all of its standard input when the images are written."""
    steps = 900
    command = ("frozen", how, f"steps={steps}", "pause_us=2000")
    path = t.script("lines", "".join(f"line {i} of {steps}\n" for i in range(steps)))
    prefix = ["bash", "-c", f'exec "$@" < {path}', "bash"]
    expected = t.run(2, *command, prefix=prefix)
    with place(t) as where:
        where.killed(2, *command, after=0.3, prefix=prefix)
        result = where.resumes(2, *command)  # without the input
        require_whole(where, result, expected, 2)


@scenario(limit_s=300)
def written_images_input_not_ended(t):
    """Standard input that has not ended cannot be read again: one line reports it."""
    command = ("frozen", "input", "steps=900", "pause_us=2000")
    text = 'exec "$@" < <(i=0; while echo "line $((i++))"; do sleep 0.001; done)'
    with place(t) as where:
        where.killed(2, *command, prefix=["bash", "-c", text, "bash"])
        refused(where, "the job had read a part of its standard input", command)


@scenario(limit_s=300, sweeps=True)
def written_images_files(t):
    """Files that are added to, renamed over, and extended while they are open to be read."""
    n, command = 2, ("frozen", "files", "steps=900", "pause_us=2000")
    expected = t.run(n, *command, leaves=names_of_files(n))
    for _ in range(20 if t.long else 2):
        with place(t) as where:
            goes_on_with_files(where, n, command, expected)


def goes_on_with_files(where, n, command, expected):
    where.killed(n, *command, after=0.3)
    where.killed(n, *command, count=1, after=0.3, resume=True)
    result = where.resumes(n, *command)
    require_whole(where, result, expected, n)
    require(sorted(os.listdir(where.work)) == sorted(expected.files), "files", result)
    for name, contents in expected.files.items():
        with open(f"{where.work}/{name}", "rb") as file:
            require(file.read() == contents, f"{name} is not as undisturbed", result)


@scenario(limit_s=300, sweeps=True)
def written_images_then_deaths(t):
    """Ranks of the resumed job die before their first own image, and after it."""
    goes_on_then_deaths(t, 3)


def goes_on_then_deaths(t, n, layout=None):
    command = ("frozen", "messages", "steps=900", "pause_us=2000")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        job.until_event("init")
        for _ in range(10):
            ranks = sorted(job.pids)
            if job.poll() and ranks:
                job.kill(*t.rng.sample(ranks, t.rng.choice([1, 1, len(ranks)])))
            job.run_for(t.rng.uniform(0.01, 0.1))

    for _ in range(20 if t.long else 2):
        with place(t, layout) as where:
            where.killed(n, *command, after=0.3)
            result = where.resumes(n, *command, interfere=interfere)
            require(result.killed, "no rank was killed", result)
            require_whole(where, result, expected, n)


@scenario(limit_s=300)
def written_images_deaths_while_restoring(t):
    """Processes die while they are restored: they are restored once more."""
    n, command = 2, ("frozen", "messages", "steps=900", "pause_us=2000", "resident=64")
    expected = t.undisturbed(n, *command)

    def interfere(job):
        for count in range(1, 6):
            started = lambda: [e for e in job.events if e["event"] in ("start", "respawn")]
            job.until(lambda: len(started()) >= count, "a process was started")
            newest = started()[count - 1]
            with contextlib.suppress(ProcessLookupError):
                os.kill(newest["pid"], signal.SIGKILL)
                job.killed.append(newest["rank"])

    with place(t) as where:
        where.killed(n, *command)
        result = where.resumes(n, *command, interfere=interfere)
        require_whole(where, result, expected, n)


# -------------------------------------------------------------------------------- while it is written


def children(job, name=None):
    """Returns the child processes of ftrun, or those with that name."""
    pid = job.process.pid
    found = map(int, proc_text(pid, f"task/{pid}/children").split())
    return [child for child in found if name in (None, proc_text(child, "comm"))]


def kill_writer(job):
    os.kill(children(job, WRITER)[0], signal.SIGKILL)


def kill_image(job):
    for pid in children(job, "rejoin-image"):
        os.kill(pid, signal.SIGKILL)


def kill_rank(job):
    job.kill(1)


def kill_ftrun(job):
    job.process.kill()


VICTIMS = {"writer": kill_writer, "images": kill_image, "rank": kill_rank, "ftrun": kill_ftrun}


@scenario(limit_s=300, who=list(VICTIMS))
def written_images_while_written(t, who):
    """A process dies while a set is written: that set is complete or dropped, the next one is written."""
    n = 2
    command = ("frozen", "messages", "steps=1500", "pause_us=2000", "resident=128")
    expected = t.undisturbed(n, *command)

    def before(job):
        def strike():
            try:
                VICTIMS[who](job)
            except ProcessLookupError:
                return False
            return True

        job.until(lambda: sets_in(where.sets), "a set was written")
        while not (children(job, WRITER) and strike()):
            require(job.poll(), "the job ended before a set was written", job)

    with place(t) as where:
        if who == "ftrun":
            result = where.run(n, *command, interfere=before)
        else:
            result = where.killed(n, *command, before=before, count=3)
        whole = sets_in(where.sets)
        require(whole, "there is no set", result)
        result = where.resumes(n, *command)
        require(f"images-{whole[-1]}.rejoin" in result.err, "not from the newest whole one", result)
        require_whole(where, result, expected, n)
        parts = [name for name in os.listdir(where.sets) if name.endswith(".part")]
        require(not parts, f"left behind: {parts}", result)


@scenario(how=["SIGKILL", "SIGTERM"])
def an_interrupted_set(t, how):
    """If ftrun ends while it writes a set, no incomplete set is left."""
    with place(t) as where:

        def interfere(job):
            where.whole(job, 1)
            begun = lambda: any(name.endswith(".part") for name in os.listdir(where.sets))
            job.until(begun, "a set is being written")
            job.process.send_signal(getattr(signal, how))

        where.run(2, "frozen", "messages", "steps=900", "pause_us=5000", "resident=48",
                  interfere=interfere)
        require(sets_in(where.sets), "no set", where.sets)


# -------------------------------------------------------------------------------------------- refusals

LONG = ("frozen", "messages", "steps=900", "pause_us=2000")


def sum_of(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    return b"%016x" % library.XXH3_64bits(data, ctypes.c_size_t(len(data)))


def edit(path, change):
    """Changes an entry in the list of a set, and its checksum with it."""
    with open(f"{path}/set", "rb") as file:
        listed = json.loads(file.read()[17:])
    change(listed)
    data = json.dumps(listed).encode()
    with open(f"{path}/set", "wb") as file:
        file.write(sum_of(data) + b"\n" + data)


def refused(where, text, command, n=2, flags=(), beside=False):
    before = sets_in(where.sets)
    result = where.run(n, *command, resume=True, flags=flags, beside=beside)
    require(result.code == 1, f"exit code {result.code}", result)
    lines = [line for line in result.err.split("\n") if line]
    require(len(lines) == 1 and text in lines[0], f"it does not say: {text}", result)
    require(sets_in(where.sets) == before, "the sets are others now", result)


def lacks_a_feature(listed):
    listed["cpu_features"].append("avx1024")


def has_another_library(listed):
    name = next(path for path in listed["libraries"] if "/libc.so" in path)
    listed["libraries"][name] = "build-id 0123"


def has_lost_a_library(listed):
    listed["libraries"]["/nowhere/libgone.so"] = "build-id 0123"


def has_another_vdso(listed):
    listed["vdso"] = "0123456789abcdef"


@scenario(limit_s=300)
def written_images_refused(t):
    """Another job or another machine is refused, with a line about the difference; the right one is not."""
    with place(t) as where:
        where.killed(2, *LONG)
        newest = f"{where.sets}/images-{sets_in(where.sets)[-1]}.rejoin"
        refused(where, "with other arguments (argument 3 was", (*LONG[:3], "pause_us=1000"))
        refused(where, "was written by 2 ranks; go on with -n 2", LONG, n=3)
        refused(where, "was written by frozen, not by steps", ("steps",))
        other = t.script("frozen", "")
        shutil.copy(t.program("steps"), other)
        refused(where, "was written by another build of frozen", (other, *LONG[1:]))
        refused(where, "--snapshots off", LONG, flags=["--no-restart"])
        for change, text in (
            (lacks_a_feature, "the processor feature avx1024, which this one lacks"),
            (has_another_library, "with another build of /"),
            (has_lost_a_library, "with another build of /nowhere/libgone.so"),
            (has_another_vdso, "another kernel (its vdso differs)"),
        ):
            saved = f"{newest}/set", f"{where.work}/saved"
            shutil.copy(*saved)
            edit(newest, change)
            refused(where, text, LONG)
            os.replace(*reversed(saved))
        anew = where.run(2, *LONG)
        require(anew.code == 1 and "add --resume" in anew.err, "it began anew", anew)
        del where.out[1:], where.err[1:]
        result = where.resumes(2, *LONG)
        require_whole(where, result, t.undisturbed(2, *LONG), 2)


@scenario(limit_s=300)
def written_images_one_job(t):
    """Two jobs cannot write to one directory at the same time."""
    with place(t) as where:

        def interfere(job):
            where.whole(job)
            job.process.send_signal(signal.SIGSTOP)  # the sets stay as they are
            refused(where, "another job uses this directory", LONG, beside=True)
            job.process.kill()

        where.run(2, *LONG, interfere=interfere)


def flip(path, at):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[at] ^= 1 << 3
        file.seek(0)
        file.write(data)


@scenario(limit_s=300)
def written_images_damaged(t):
    """A damaged set is reported, and the one before it is used."""
    expected = t.undisturbed(2, *LONG)
    with place(t) as where:
        where.killed(2, *LONG, count=3)
        older, newest = sets_in(where.sets)
        saved = f"{where.work}/saved"
        shutil.copytree(where.sets, saved)
        for name in ("set", "journal", "image-0", "image-1"):
            for cut in (False, True):
                path = f"{where.sets}/images-{newest}.rejoin/{name}"
                size = os.path.getsize(path)
                os.truncate(path, size - 1) if cut else flip(path, t.rng.randrange(size))
                del where.out[1:], where.err[1:]
                result = where.resumes(2, *LONG)
                require(f"images-{newest}.rejoin is damaged" in result.err, "not named", result)
                require(f"going on from {where.sets}/images-{older}" in result.err, "which", result)
                require_whole(where, result, expected, 2)
                shutil.rmtree(where.sets)
                shutil.copytree(saved, where.sets)
        for number in (older, newest):
            os.remove(f"{where.sets}/images-{number}.rejoin/set")
        result = where.run(2, *LONG, resume=True)
        require(result.code == 1, f"exit code {result.code}", result)
        require("there is no complete set of images" in result.err, "it does not say so", result)


@scenario(limit_s=300, sweeps=True)
def written_images_compressed(t):
    """Sets that are compressed are gone on from, with or without --compress; a damaged one is reported."""
    expected = t.undisturbed(2, *LONG)
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            where.killed(2, *LONG, flags=["--compress"], after=0.3)
            where.killed(2, *LONG, count=1, after=0.3, resume=True, flags=["--compress"])
            for number in sets_in(where.sets):
                names = sorted(os.listdir(f"{where.sets}/images-{number}.rejoin"))
                wanted = ["image-0.zst", "image-1.zst", "input", "journal.zst", "set"]
                require(names == wanted, f"a set has {names}", expected)
            newest = f"{where.sets}/images-{sets_in(where.sets)[-1]}.rejoin"
            flip(f"{newest}/image-1.zst", t.rng.randrange(os.path.getsize(f"{newest}/image-1.zst")))
            result = where.resumes(2, *LONG)
            said = "is damaged: image-1.zst has a wrong checksum"
            require(said in result.err, "it does not name the damaged file", result)
            require_whole(where, result, expected, 2)


@scenario(limit_s=300)
def written_images_none(t):
    """If no images can be made, one line reports that, and that the directory remains empty."""
    with place(t) as where:
        result = where.run(2, "frozen", "thread", "steps=400", "pause_us=2000")
        require(result.code == 0, f"exit code {result.code}", result)
        said = "has a thread (frozen) that was not started by the C library"
        lines = [line for line in result.err.split("\n") if said in line]
        require(len(lines) == 1, f"said {len(lines)} times", result)
        require(f"no images are written to {where.sets}" in lines[0], "not the directory", result)
        require(sets_in(where.sets) == [], "there is a set", result)


@scenario(limit_s=300)
def written_images_wrapped(t):
    """If a script waits for the program, no set is written; a line reports that, and what to do."""
    program = f"{t.program('frozen')} messages steps=400 pause_us=2000"
    command = ("/bin/sh", "-c", f"{program}; :")
    expected = t.undisturbed(2, *command)
    with place(t) as where:
        result = where.run(2, *command)
        require(result.code == 0, f"exit code {result.code}", result)
        require_whole(where, result, expected, 2)
        lines = [line for line in result.err.split("\n") if line.startswith("rejoin: no images are written to ")]
        said = rf"rejoin: no images are written to {re.escape(where.sets)}: rank [01] is run by a script that waits for it, "
        one = len(lines) == 1 and re.match(said, lines[0]) and "let it end by exec" in lines[0]
        require(one, f"not one line that says so: {lines}", result)
        require(sets_in(where.sets) == [], "there is a set", result)
        where.killed(2, "/bin/sh", "-c", f"exec {program}")  # as the line says


@scenario(limit_s=300)
def written_images_full_disk(t):
    """A disk that is too small is reported once, before anything is written, and the job goes on."""
    with place(t) as where:
        os.mkdir(where.sets)
        mount = f'mount -t tmpfs -o size=100k none "{where.sets}" && exec "$@"'
        alone = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            raise Skip("a file system cannot be mounted here")
        expected = t.undisturbed(2, "steps", "count=300")
        result = where.run(2, "steps", "count=300", "pause_us=5000", prefix=alone)
        require((result.code, result.out) == (0, expected.out), "another result", result)
        lines = [line for line in result.err.split("\n") if line.startswith("rejoin: no images are written to ")]
        said = rf"rejoin: no images are written to {where.sets}: \d+ KiB are free there, and a set may take [0-9.]+ MiB"
        require(len(lines) == 1 and re.fullmatch(said, lines[0]), f"{lines}", result)
