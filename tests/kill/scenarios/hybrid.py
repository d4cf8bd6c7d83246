"""Ranks with several threads, of which one calls MPI: they go on from images, threads and all."""

import glob
import os
import time

from harness import Kill, Skip, require, scenario
from processes import images
from scenarios.endings import messages
from scenarios.snapshots import PYTHON, at_random, judge
from scenarios.snapshots_wrappers import at_random_behind, wrapped
from scenarios.written_images import place, require_whole

EVERY_20_MS = ["--snapshots", "0.02", "--max-restarts", "100000"]
KINDS = ["counts", "spins", "sleeps", "post", "polls", "cancelled", "signals", "sigwait", "allocates"]
KINDS += ["prints", "creates", "owns", "computes", "stack", "particular", "loads"]
LLVM = "/usr/lib/x86_64-linux-gnu/libomp.so.5"


def at_random_with_images(rng, _):
    """Kills at random once each rank has an image."""

    def interfere(job):
        job.until_event("snapshot")
        at_random(rng)(job)

    return interfere


def goes_on(t, ranks, *command, flags=(), few=1, many=60, interfere=at_random_with_images):
    """Runs a program with random deaths; the output is that of a run without deaths."""
    expected = t.undisturbed(ranks, *command, flags=flags)
    for _ in t.runs(few, many, lambda: t.returns["image"] > 0):
        every = [*EVERY_20_MS, *flags]
        result = t.run(ranks, *command, flags=every, interfere=interfere(t.rng, ranks))
        judge(result, expected, ranks)
        require("no snapshot can be made" not in result.err, "it was refused an image", result)
    require(t.returns["image"] > 0, "no rank went on from an image", result)
    require(t.returns["main"] == 0, f"ranks returned to {dict(t.returns)}", result)


def openmp(threads):
    return ["-x", f"OMP_NUM_THREADS={threads}"]


@scenario(sweeps=True, labels=["threads"])
def hybrid_zoo(t):
    """Threads of all kinds at once: waiting, sleeping, computing, holding locks, being created."""
    goes_on(t, 2, "team", "zoo=1", "steps=1500", "pause_us=300", few=2, many=100)


@scenario(kind=KINDS, sweeps=True, labels=["threads"])
def hybrid_kind(t, kind):
    """Threads of one kind, beside those that the main thread computes with."""
    goes_on(t, 2, "team", f"kind={kind}", "steps=3000", "pause_us=300", many=20)


@scenario(threads=[2, 4, 8], sweeps=True, labels=["threads"])
def hybrid_openmp(t, threads):
    """OpenMP of gcc: loops, tasks, critical sections, barriers."""
    goes_on(t, 2, "openmp", "steps=4000", flags=openmp(threads))


@scenario(policy=["active", "passive"], labels=["threads"])
def hybrid_openmp_waits(t, policy):
    """Threads of OpenMP that spin while they wait, and threads that sleep."""
    goes_on(t, 2, "openmp", "steps=2000", flags=[*openmp(3), "-x", f"OMP_WAIT_POLICY={policy}"])


@scenario(sweeps=True, labels=["threads"])
def hybrid_openmp_llvm(t):
    """The OpenMP library of LLVM, which programs of gcc can use, too."""
    if not os.path.exists(LLVM):
        raise Skip("no libomp")
    goes_on(t, 2, "openmp", "steps=600", flags=[*openmp(3), "-x", f"LD_PRELOAD={LLVM}"])


@scenario(sweeps=True, labels=["threads"])
def hybrid_openmp_fortran(t):
    """OpenMP of Fortran."""
    goes_on(t, 3, "openmp_fortran", "2000", flags=openmp(3))


@scenario(labels=["threads"])
def hybrid_many_threads(t):
    """A rank with 128 threads goes on from an image within 10 s."""
    command = ("team", "workers=127", "steps=100", "pause_us=20000")
    expected = t.undisturbed(2, *command)

    def interfere(job):
        # The image of a process may be there before it is kept.
        kept = lambda: any(e["event"] == "snapshot" and e["ranks_without"] == 0 for e in job.events)
        for rank in (1, 0):
            job.until(lambda: kept() and images(job, rank), "there is an image")
            job.kill(rank)
            killed_at_s = time.monotonic()
            job.until_event("live", rank, 1)
            require(time.monotonic() - killed_at_s < 10, "it took more than 10 s", job)

    result = t.run(2, *command, flags=["--snapshots", "0.3"], interfere=interfere)
    judge(result, expected, 2)
    require(t.returns["image"] == 2, f"it returned to {dict(t.returns)}", result)


@scenario(labels=["threads"])
def hybrid_wrapped(t):
    """The rank of a script moves into a clone, with its threads; those that it leaves behind end."""
    command = wrapped(t, "sh", "team", "zoo=1", "steps=2500", "pause_us=300")
    goes_on(t, 2, *command, interfere=at_random_behind)


@scenario(sweeps=True, limit_s=300, labels=["threads"])
def hybrid_written(t):
    """Written images have the threads, too: the job goes on after the end of ftrun."""
    command = ("team", "zoo=1", "steps=1500", "pause_us=1000")
    expected = t.undisturbed(2, *command)
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            where.killed(2, *command)
            result = where.resumes(2, *command)
            require_whole(where, result, expected, 2)


ODD = {
    "raw": "has a thread (team) that was not started by the C library (pthread_create)",
    "inherit": "uses mutexes with priority inheritance, of which the kernel knows the owner by its thread id",
    "deaf": "has a thread (team) that did not stop within half a second",
    "apart": "has a thread (team) with open files or a working directory of its own (unshare)",
    "filtered": "has a thread (team) with a seccomp filter of its own",
}


@scenario(odd=list(ODD), labels=["threads"])
def hybrid_refused(t, odd):
    """A thread that could not be created again is named in one line, and the job goes on without."""
    command = ("team", f"odd={odd}", "steps=300", "pause_us=2000")
    flags = ["--snapshots", "0.05"]
    result = t.recovers(2, *command, kills=[Kill(1, 150)], flags=flags, ordered=False)
    require(t.returns["main"] == 1, f"it returned to {dict(t.returns)}", result)
    said = [line for line in messages(result) if ODD[odd] in line]
    require(len(said) == 1, f"said {len(said)} times: {ODD[odd]}", result)


POOL = """
from concurrent.futures import ThreadPoolExecutor
import threading, time
from mpi4py import MPI
import numpy

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
over = threading.Event()
ticks = 0

def tick():
    global ticks
    while not over.wait(0.002):
        ticks += 1

clock = threading.Thread(target=tick)
clock.start()
total = 1
with ThreadPoolExecutor(4) as pool:
    for step in range(300):
        parts = pool.map(lambda i: int(numpy.arange(1000 + i, dtype=numpy.int64).sum()) * total % 1000003, range(16))
        total = comm.allreduce(sum(parts) + rank) % 1000003
        matrix = numpy.full((64, 64), 1 + total % 3)
        total = comm.allreduce(int((matrix @ matrix).sum()) + total) % 1000003
        print(f"rank {rank}, step {step}: {total}")
over.set()
clock.join()
print(f"rank {rank}: {total} {ticks > 0}")
"""


@scenario(sweeps=True, labels=["threads"])
def hybrid_python(t):
    """Threads of Python, also of a pool, and those of NumPy's BLAS if it has some."""
    if os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "import mpi4py, numpy"]) != 0:
        raise Skip("no mpi4py, or no numpy")
    goes_on(t, 2, PYTHON, t.script("pool.py", POOL), many=20)


ASYNCIO = """
import asyncio
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()

async def count(queue, total):
    loop = asyncio.get_running_loop()
    for step in range(400):
        await asyncio.sleep(0.0005)
        part = await loop.run_in_executor(None, lambda: (total + step) * 7919 % 1000003)
        total = await loop.run_in_executor(None, lambda: part + 1)
        total = comm.allreduce(total + rank) % 1000003
        await queue.put((step, total))
    await queue.put(None)

async def main():
    queue = asyncio.Queue(3)
    counting = asyncio.create_task(count(queue, rank))
    while (item := await queue.get()) is not None:
        if item[0] % 50 == 0:
            print(f"rank {rank}, step {item[0]}: {item[1]}")
    await counting

asyncio.run(main())
"""


@scenario(sweeps=True, labels=["threads"])
def hybrid_python_asyncio(t):
    """An event loop of Python, with its epoll set, its pair of sockets, and a pool of threads."""
    if os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "import mpi4py"]) != 0:
        raise Skip("no mpi4py")
    goes_on(t, 2, PYTHON, t.script("loop.py", ASYNCIO), many=20)


@scenario(labels=["threads"])
def hybrid_python_openblas(t):
    """The threads that OpenBLAS starts when it is loaded."""
    found = glob.glob("/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3")
    if not found or os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "import mpi4py, numpy"]) != 0:
        raise Skip("no OpenBLAS, mpi4py or numpy")
    flags = ["-x", f"LD_PRELOAD={found[0]}", "-x", "OPENBLAS_NUM_THREADS=4"]
    goes_on(t, 2, PYTHON, t.script("pool.py", POOL), flags=flags)


@scenario(sweeps=True, limit_s=240)
def own_channels(t):
    """Pipes, socket pairs, event descriptors and timers that a rank has for itself, with contents."""
    goes_on(t, 2, "channels", "3000", "300", few=2, many=100)


@scenario(sweeps=True, limit_s=240)
def own_channels_written(t):
    """Written images have them, too."""
    command = ("channels", "1500", "800")
    expected = t.undisturbed(2, *command)
    for _ in range(10 if t.long else 1):
        with place(t) as where:
            where.killed(2, *command)
            where.killed(2, *command, count=1, resume=True)
            result = where.resumes(2, *command)
            require_whole(where, result, expected, 2)


@scenario(sweeps=True, limit_s=240)
def own_channels_behind_a_script(t):
    """The rank of a script takes them along when it moves into a clone."""
    goes_on(t, 2, *wrapped(t, "sh", "channels", "3000", "300"), interfere=at_random_behind)
