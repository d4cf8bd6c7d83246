"""Jobs that end as a whole and go on from a directory: --checkpoint-dir, --resume."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile

from harness import MOMENTS, Kill, Result, Skip, check_deaths, check_returns, require, scenario

RANKS = 3
HEAD_BYTES = 56 + 16 * RANKS  # the heads of a file: CheckpointHead, Checksum{ranks}
GLOBAL_BYTES = 80


def files_in(directory):
    """Returns the checkpoint files of a directory, oldest first."""
    return sorted(f for f in os.listdir(directory) if f.endswith(".rejoin"))


def version_of(file):
    return int(re.search(r"\d+", file)[0])


def checksums(directory):
    found = {}
    for entry in os.scandir(directory):
        if entry.is_file():
            with open(entry.path, "rb") as file:
                found[entry.name] = hashlib.sha256(file.read()).hexdigest()
    return found


def program(versions, pause_us=0):
    return ("checkpoints", f"versions={versions}", f"pause_us={pause_us}")


PROGRAM = program(400, 3000)  # the program that writes the files of Files


# The recovery points of a job, by kind.
KINDS = {"versions": ["--snapshots", "off"], "images": ["--snapshots", "0.02"]}


def until(version):
    """Returns flags with which PROGRAM ends after that version."""
    return ["-x", f"VERSIONS={version}"]


class Files:
    """A directory with two checkpoints of a job that ended because a rank died."""

    def __init__(self, t, place, kind):
        self.place, self.path = place, f"{place}/checkpoints"

        def interfere(job):
            # While one is written others pass.
            job.until(
                lambda: os.path.isdir(self.path) and len(files_in(self.path)) == 2,
                "there were two checkpoints",
            )
            job.kill(1)

        flags = ["--checkpoint-dir", self.path, "--max-restarts", "0", *KINDS[kind]]
        result = t.run(RANKS, *PROGRAM, flags=flags, interfere=interfere)
        require(result.code == 128 + signal.SIGKILL, f"exit code {result.code}", result)
        check_deaths(result, [])
        require(not result.named("respawn"), "it was started again", result)
        self.files = files_in(self.path)
        require(len(self.files) == 2, f"there are {self.files}", result)
        require(len(os.listdir(self.path)) == 2, "and something else", result)
        self.older, self.newest = map(version_of, self.files)
        with open(f"{self.path}/{self.files[1]}", "rb") as file:
            self.texts_bytes = struct.unpack_from("<Q", file.read(), 40)[0]

    def copy(self):
        """Makes another directory with the same contents, in place of the former one."""
        path = f"{self.place}/copy"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.path, path)
        return path


@contextlib.contextmanager
def ended_job(t, kind="versions"):
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        yield Files(t, place, kind)


def goes_on(t, path, version, kills=(), more=3, kind="versions"):
    """--resume continues after that version, with the result of a job without deaths."""
    ends = until(version + more)
    expected = t.undisturbed(RANKS, *PROGRAM, flags=ends)
    flags = ["--checkpoint-dir", path, "--resume", *ends, *KINDS[kind]]
    result = t.run(RANKS, *PROGRAM, kills=kills, flags=flags)
    require(result.code == 0, f"exit code {result.code}", result)
    require(f"going on from checkpoint {version}\n" in result.err, "it does not say so", result)
    wanted = [
        line
        for line in expected.out.split("\n")
        if not line.startswith("rank") or int(re.search(r"version (\d+)", line)[1]) > version
    ]
    require(sorted(result.out.split("\n")) == sorted(wanted), "not the end of the whole", result)
    check_deaths(result, kills)
    check_returns(result, RANKS)
    return result


@scenario(kind=list(KINDS))
def resume(t, kind):
    """Several jobs in sequence: each continues the one before, and writes newer files."""
    with ended_job(t, kind) as files:
        version = files.newest
        for _ in range(3):
            result = goes_on(t, files.path, version, kind=kind)
            newest = version_of(files_in(files.path)[-1])
            # A job of images writes the first one, and others as long as that costs next to nothing.
            least = version + 3 if kind == "versions" else version + 1
            require(least <= newest <= version + 3, f"the newest is of version {newest}", result)
            require(len(os.listdir(files.path)) == 2, "not two files are kept", result)
            version = newest


@scenario(sweeps=True, limit_s=180, kind=list(KINDS))
def resume_then_die(t, kind):
    """Ranks of a resumed job die before its own first checkpoint and after it."""
    with ended_job(t, kind) as files:
        for _ in range(100 if t.long else 12):
            ranks = t.rng.sample(range(RANKS), t.rng.randint(1, RANKS))
            point = t.rng.randint(1, 20)
            kills = [Kill(rank, point, t.rng.choice(MOMENTS)) for rank in ranks]
            goes_on(t, files.copy(), files.newest, kills, kind=kind)


@scenario(kind=list(KINDS))
def resume_at_the_end(t, kind):
    """A job that resumes at its last version ends at once, without an error."""
    with ended_job(t, kind) as files:
        goes_on(t, files.path, files.newest, more=0, kind=kind)


# --------------------------------------------------------------------------------- damaged files

# Places of damage: a bit of that byte is changed, or the file is truncated there.
FLIPS_OF_HEADS = {
    "magic": 0,
    "format": 8,
    "ranks": 12,
    "version": 16,
    "size of the global model": 26,
    "sum of the global model": 32,
    "size of the texts": 40,
    "sum of the head": 48,
    "size of a local model": 58,
    "sum of a local model": 64,
    "program": HEAD_BYTES + 1,
}
FLIPS_OF_MODELS = {  # places after the texts
    "global model": 5,
    "end of the global model": GLOBAL_BYTES - 1,
    "first local model": GLOBAL_BYTES,
    "last local model": -1,
}
CUTS = (0, 1, 50, 55, 56, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 20, -40, -1)


def flip(path, at, bit):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[at] ^= 1 << bit
        file.seek(0)
        file.write(data)


def cut(path, to):
    os.truncate(path, to if to >= 0 else os.path.getsize(path) + to)


def damages(t, files):
    """Returns functions that damage a file, each with its name."""
    behind = HEAD_BYTES + files.texts_bytes
    flips = {
        **FLIPS_OF_HEADS,
        "last argument": behind - 2,
        **{name: at if at < 0 else behind + at for name, at in FLIPS_OF_MODELS.items()},
    }
    ways = [
        (f"bit {bit} of the {name}", lambda path, at=at, bit=bit: flip(path, at, bit))
        for name, at in flips.items()
        for bit in (range(8) if t.long else [t.rng.randrange(8)])
    ]
    ways += [(f"cut at {to}", lambda path, to=to: cut(path, to)) for to in CUTS]
    return ways


def says_why(result, path):
    """Requires a line of standard error for a file that is refused."""
    lines = [line for line in result.err.split("\n") if path in line]
    require(len(lines) == 1, f"{len(lines)} lines about {path}", result)
    words = ("damaged", "cut off", "no checkpoint of Rejoin", "another format")
    require(any(word in lines[0] for word in words), f"it does not say why: {lines[0]}", result)


@scenario(sweeps=True, limit_s=180)
def resume_newest_damaged(t):
    """The newest file is refused with one line, and the older one is used."""
    with ended_job(t) as files:
        for name, damage in damages(t, files):
            path = files.copy()
            damage(f"{path}/{files.files[1]}")
            result = goes_on(t, path, files.older, more=2)
            says_why(result, f"{path}/{files.files[1]}")
            require("older one" in result.err, f"{name}: it does not say what it does", result)


def refused(t, ranks, *command, flags, path, words):
    """The job does not begin, a line gives the reason, and no file is changed."""
    before = checksums(path) if os.path.isdir(path) else None
    result = t.run(ranks, *command, flags=flags)
    require(result.code in (1, 2), f"exit code {result.code}", result)
    require(not result.out and not result.named("start"), "it began", result)
    lines = result.err.rstrip("\n").split("\n")
    for word in words:
        require(word in lines[-1], f"it does not say '{word}'", result)
    after = checksums(path) if os.path.isdir(path) else None
    require(before == after, f"files were {before}, are {after}", result)
    return result


@scenario(sweeps=True, limit_s=180)
def resume_all_damaged(t):
    with ended_job(t) as files:
        ways = damages(t, files)
        for _ in range(100 if t.long else 8):
            path = files.copy()
            for file in files.files:
                _, damage = t.rng.choice(ways)
                damage(f"{path}/{file}")
            flags = ["--checkpoint-dir", path, "--resume"]
            words = ("--resume", "no complete checkpoint", path)
            result = refused(t, RANKS, *program(9), flags=flags, path=path, words=words)
            for file in files.files:
                says_why(result, f"{path}/{file}")


# --------------------------------------------------------------------------------- refused outright


def refused_in_a_line(t, ranks, *command, flags, path, words):
    result = refused(t, ranks, *command, flags=flags, path=path, words=words)
    require(result.err.count("\n") == 1, "not one line", result)


@scenario()
def resume_by_another_job(t):
    """A job with another number of ranks, or another program, is refused."""
    with ended_job(t) as files:
        flags = ["--checkpoint-dir", files.path, "--resume"]
        for n in (1, 2, 4):
            words = (f"{RANKS} ranks", f"-n {RANKS}", files.files[1])
            refused_in_a_line(t, n, *program(9), flags=flags, path=files.path, words=words)
        words = ("checkpoints", "misuse", files.files[1])
        refused_in_a_line(t, RANKS, "misuse", "no_load", flags=flags, path=files.path, words=words)


@scenario()
def resume_with_other_arguments(t):
    """The line names the first argument that differs."""
    with ended_job(t) as files:
        flags = ["--checkpoint-dir", files.path, "--resume"]
        for command, words in (
            (program(9, 3000), ("argument 1 was 'versions=400' and is 'versions=9'",)),
            (PROGRAM[:2], ("argument 2 was 'pause_us=3000' and is none",)),
            ((*PROGRAM, "lazy=1"), ("argument 3 was none and is 'lazy=1'",)),
        ):
            words = (*words, "give the same arguments, or start the job anew", files.files[1])
            refused_in_a_line(t, RANKS, *command, flags=flags, path=files.path, words=words)
        goes_on(t, files.path, files.newest)


def other_build(t, path):
    """Makes a copy of the program, as if it was linked again: one byte of its build-id differs."""
    with open(t.program("checkpoints"), "rb") as file:
        image = bytearray(file.read())
    note = image.index(struct.pack("<III", 4, 20, 3) + b"GNU\0")  # NT_GNU_BUILD_ID
    image[note + 16] ^= 1
    with open(path, "wb") as file:
        file.write(image)
    os.chmod(path, 0o755)
    return image[note + 16 : note + 36].hex()


@scenario()
def resume_by_another_build(t):
    """The line has both build-ids. A copy of the same build is accepted."""
    with ended_job(t) as files:
        flags = ["--checkpoint-dir", files.path, "--resume"]
        command = f"{files.place}/checkpoints.d/checkpoints"
        os.mkdir(os.path.dirname(command))
        build = other_build(t, command)
        words = ("another build of checkpoints (build-id ", f"this is build-id {build}")
        refused_in_a_line(t, RANKS, command, *PROGRAM[1:], flags=flags, path=files.path, words=words)
        shutil.copy(t.program("checkpoints"), command)
        ends = until(files.newest + 2)
        result = t.run(RANKS, command, *PROGRAM[1:], flags=[*flags, *ends])
        require(result.code == 0, f"exit code {result.code}", result)
        require(f"going on from checkpoint {files.newest}\n" in result.err, "it did not", result)


@scenario()
def resume_of_a_script(t):
    """A script has no build-id: it is the same script if its text is the same."""
    text = f"#!/bin/sh\nexec {t.program('checkpoints')} \"$@\"\n"
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        path = f"{place}/checkpoints"
        flags = ["--checkpoint-dir", path, *KINDS["versions"]]
        result = t.run(2, t.script("wrap", text), "model=8", flags=flags)
        require(result.code == 0, f"exit code {result.code}", result)
        flags += ["--resume"]
        result = t.run(2, t.script("wrap", text), "model=8", flags=[*flags, *until(6)])
        require(result.code == 0, f"exit code {result.code}", result)
        require("going on from checkpoint 4\n" in result.err, "it did not go on", result)
        changed = t.script("wrap", text + "# changed\n")
        words = ("another build of wrap (hash ", "this is hash ")
        refused_in_a_line(t, 2, changed, "model=8", flags=flags, path=path, words=words)


@scenario()
def checkpoint_directory_in_use(t):
    """A new job does not write to a directory with checkpoints of an old one."""
    with ended_job(t) as files:
        flags = ["--checkpoint-dir", files.path]
        words = ("--resume", files.path, str(files.newest))
        refused_in_a_line(t, RANKS, *program(9), flags=flags, path=files.path, words=words)


@scenario()
def resume_from_nowhere(t):
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        path = f"{place}/checkpoints"
        words = ("--resume", "--checkpoint-dir")
        refused_in_a_line(t, 2, *program(9), flags=["--resume"], path=path, words=words)
        flags = ["--checkpoint-dir", path, "--resume"]
        words = ("--resume", path)
        refused_in_a_line(t, 2, *program(9), flags=flags, path=path, words=words)
        require(not os.path.exists(path), f"it made {path}", t.undisturbed(2, *program(9)))
        os.mkdir(path)
        words = ("--resume", "no complete checkpoint", path)
        refused_in_a_line(t, 2, *program(9), flags=flags, path=path, words=words)


@scenario()
def checkpoint_directory_not_writable(t):
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        file = f"{place}/file"
        with open(file, "w") as opened:
            opened.write("mine")
        paths = [file, f"{file}/below", "/proc/checkpoints"]
        if os.geteuid() != 0:
            os.mkdir(f"{place}/closed", 0o500)
            paths.append(f"{place}/closed")
        for path in paths:
            for flags in (["--checkpoint-dir", path], ["--checkpoint-dir", path, "--resume"]):
                missing = "--resume" in flags and not os.path.isdir(path)
                words = ("--resume" if missing else "--checkpoint-dir", path)
                refused_in_a_line(t, 2, *program(9), flags=flags, path=place, words=words)


@scenario()
def checkpoint_directory_full(t):
    """A full disk is reported at once, and only once; the job continues."""
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        # A file system of one page that only the job sees: the first file fits, the second does not.
        mounted = f'mount -t tmpfs -o size=4k none {place} && exec "$@"'
        prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", mounted, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
            raise Skip("no file system can be mounted here")

        def interfere(job):
            job.until(lambda: "no checkpoint" in job.err(), "the directory was full")
            require(job.processes(1), "it was said only at the end", Result(job, 0))

        command = program(100, 3000)
        flags = ["--checkpoint-dir", place]
        result = t.run(RANKS, *command, flags=flags, prefix=prefix, interfere=interfere)
        require(result.code == 0, f"exit code {result.code}", result)
        expected = t.undisturbed(RANKS, *command)
        same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
        require(same, "not as without a directory", result)
        lines = [line for line in result.err.split("\n") if "no checkpoint" in line]
        require(len(lines) == 1 and "No space left" in lines[0], f"it says {lines}", result)


@scenario()
def half_written_checkpoints(t):
    """An ftrun removes an incomplete file of one that was killed, and no other file."""
    with ended_job(t) as files:
        ours = ("checkpoint-0000000001.rejoin.part", "checkpoint-0000000999.rejoin.part")
        theirs = ("checkpoint-x.rejoin.part", "checkpoint-0000000001.part", "mine.rejoin.part")
        for name in (*ours, *theirs):
            with open(f"{files.path}/{name}", "w") as file:
                file.write("half")
        result = goes_on(t, files.path, files.newest)
        left = sorted(set(os.listdir(files.path)) - set(files_in(files.path)))
        require(left == sorted(theirs), f"beside the checkpoints there is {left}", result)


@scenario()
def checkpoint_directory_goes(t):
    """A directory that disappears is reported; the job continues."""
    with tempfile.TemporaryDirectory(prefix="kill-test-") as place:
        path = f"{place}/checkpoints"

        def interfere(job):
            job.until(lambda: os.path.isdir(path) and files_in(path), "there was a checkpoint")
            os.rename(path, f"{place}/away")

        command = program(100, 2000)
        flags = ["--checkpoint-dir", path]
        result = t.run(RANKS, *command, flags=flags, interfere=interfere)
        expected = t.undisturbed(RANKS, *command)
        require(result.code == 0, f"exit code {result.code}", result)
        same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
        require(same, "not as without a directory", result)
        lines = [line for line in result.err.split("\n") if "no checkpoint" in line]
        require(len(lines) == 1 and path in lines[0], "it does not say so, once", result)
