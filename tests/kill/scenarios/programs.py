"""Several programs in one job, and the library in processes that another launcher has started."""

import os
import re
import resource
import subprocess

from harness import Failure, Kill, Skip, require, scenario


def require_of(condition, what, done):
    if not condition:
        raise Failure(f"{what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def with_ours(t, *command, **variables):
    """Runs a command with the library preloaded, without ftrun."""
    library = os.path.join(os.path.dirname(os.path.dirname(t.ftrun)), "lib", "libmpi.so.40")
    environment = dict(os.environ, **variables)
    return subprocess.run(["env", f"LD_PRELOAD={library}", *command], env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip


@scenario(sweeps=True)
def several_programs(t):
    """Ranks of both programs die. All print their ranks, and have the same digest."""
    path = t.program("appnum")
    command = (path, "one", ":", "-n", 2, path, "two")
    expected = t.undisturbed(1, *command)
    said = sorted(line.split(", ")[0] for line in expected.out.splitlines())
    wanted = ["one 0 of 3 is program 0", "two 1 of 3 is program 1", "two 2 of 3 is program 1"]
    require(said == wanted, f"{said}", expected)
    for kills in ([Kill(0, 150)], [Kill(2, 150), Kill(1, 150)], [Kill(1, 390, "after")]):
        t.recovers(1, *command, kills=kills, ordered=False)
    for _ in range(60 if t.long else 3):
        moment_s, rank = t.rng.uniform(0, 0.05), t.rng.randrange(3)

        def interfere(job):
            job.until_event("init", rank=rank)
            job.run_for(moment_s)
            job.kill(rank)

        t.recovers(1, *command, interfere=interfere, ordered=False)


@scenario(limit_s=300, labels=["alone"])
def most_ranks(t):
    """1,024 ranks start, meet in MPI_Init and end."""
    n = 1024
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 64 + 8 * n:
        raise Skip("ftrun may not open so many files")
    result = t.run(n, "appnum", "x", "steps=0", limit_s=240)
    require(result.code == 0, f"exit code {result.code}", result)
    # Not by lines, because ftrun shows a line that is not finished for a quarter of a second.
    said = set(re.findall(r"x (\d+) of 1024", result.out))
    require(len(said) == n, f"{len(said)} ranks have printed their numbers", result)


@scenario(limit_s=200, labels=["alone"], more=[0, 1, 2, 3])
def ranks_beyond_any_descriptor(t, more):
    """No output is lost, whichever descriptors ftrun has for a rank."""
    n, taken = 500, "; ".join(f"exec {fd}< /dev/null" for fd in range(5, 5 + more)) or ":"
    result = t.run(n, "appnum", "x", "steps=0", prefix=["sh", "-c", f'{taken}; exec "$@"', "sh"], limit_s=150)
    require(result.code == 0, f"exit code {result.code}", result)
    said = set(re.findall(r"x (\d+) of 500", result.out))
    require(len(said) == n, f"{len(said)} ranks have printed their numbers", result)


@scenario()
def names(t):
    """Whole arrays of which MPI fills the beginning are sent, and are the same in a replay."""
    last = t.undisturbed(3, "names").operations(1)
    for ordinal in range(1, last + 1, 3):
        t.recovers(3, "names", kills=[Kill(ordinal % 3, ordinal)])
    t.recovers(3, "names", kills=[Kill(rank, last // 2, "inside") for rank in range(3)])


@scenario()
def system_values(t):
    """Values that the system reports are the same in a replay."""
    last = t.undisturbed(3, "system_values").operations(1)
    for ordinal in range(2, last + 1, 5):
        kills = [Kill(ordinal % 3, ordinal), Kill((ordinal + 1) % 3, last // 2, "inside")]
        t.recovers(3, "system_values", kills=kills, flags=["--snapshots", "off"])
    t.recovers(3, "system_values", "steps=100", kills=[Kill(1, 150)], flags=["--snapshots", "0.02"])


@scenario()
def started_by_another(t):
    """A rank of another launcher gets an error; a process without a launcher is a world of one."""
    program = t.program("appnum")
    for variable, launcher in (
        ("OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"),
        ("PMI_SIZE", "mpiexec"),
        ("SLURM_STEP_NUM_TASKS", "srun"),
    ):
        done = with_ours(t, program, "x", **{variable: "3"})
        wanted = f"rejoin: MPI_Init: this process is one of 3 that {launcher} has started"
        require_of(done.returncode == 1, "not 1", done)
        require_of(done.stderr.startswith(wanted) and done.stderr.count("\n") == 1, "says", done)
        require_of("ftrun -n 3" in done.stderr and done.stdout == "", "what to do", done)
        done = with_ours(t, program, "x", "steps=3", **{variable: "1"})
        require_of(done.returncode == 0, "a world of one", done)
    done = with_ours(t, program, "x", "steps=3", SLURM_NTASKS="4")  # in a batch script
    require_of(done.returncode == 0 and "0 of 1" in done.stdout, "a world of one", done)
