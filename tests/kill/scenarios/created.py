"""Communicators that only some ranks make (MPI_Comm_create_group), and checkpoints."""

from harness import POINTS, Kill, check_deaths, require, scenario
from scenarios.endings import messages


@scenario(n=[2, 3])
def created(t, n):
    """Before the load such communicators can be made again; after it the job ends with one line."""
    flags = POINTS["versions"]
    early = t.undisturbed(n, "created", "early")
    for ordinal in range(1, early.operations(0) + 1):
        t.recovers(n, "created", "early", kills=[Kill(0, ordinal)], flags=flags)
    # The fourth operation of each of the four versions is a checkpoint. A rank that dies inside of the
    # first one goes back to main if it was not complete, and loads it if it was.
    for ordinal in (1, 2, 3):
        t.recovers(n, "created", kills=[Kill(0, ordinal)], flags=flags)
    expected = t.undisturbed(n, "created")
    for ordinal in range(4, 16):
        result = t.run(n, "created", kills=[Kill(0, ordinal)], flags=flags)
        if ordinal == 4 and result.code == 0:
            require(result.out == expected.out, f"the output is not\n{expected.out}", result)
            check_deaths(result, [Kill(0, ordinal)])
            continue
        require(result.code != 0, "the job went on", result)
        said = "and cannot find out how often MPI_Comm_create_group was called before that version"
        require(said in messages(result)[-1], "it does not say why", result)


@scenario(n=[2, 3], when=["early", "late"])
def created_in_a_job_of_images(t, n, when):
    """A process that begins at an image, or at main, knows how many were made."""
    last = t.undisturbed(n, "created", when).operations(0)
    for ordinal in range(1, last + 1):
        t.recovers(n, "created", when, kills=[Kill(0, ordinal)], flags=POINTS["images"])
