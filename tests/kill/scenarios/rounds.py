"""Loops that had wrong results, or did not end, after a death in earlier versions of Rejoin."""

from harness import MOMENTS, POINTS, Kill, check_deaths, require, scenario

UNMARKED = "only before its first checkpoint"


@scenario(points=list(POINTS))
def roots_that_move(t, points):
    """A worker of a broadcast whose root calls from another line in late iterations: after its
    death the output is right, or the job stops and says why. One of images does not."""
    expected = t.undisturbed(3, "rounds", "roots")
    stopped = 0
    last = expected.operations(1)
    places = range(1, last, 1 if t.long else 5)
    for point in places:
        kill = Kill(1 + point % 2, point, MOMENTS[point % 3])
        result = t.run(3, "rounds", "roots", kills=[kill], flags=POINTS[points])
        if result.code == 0:
            same = sorted(result.out.split("\n")) == sorted(expected.out.split("\n"))
            require(same, "another output", result)
        else:
            stopped += 1
            require(UNMARKED in result.err and "rejoin_bootstrap" in result.err, "no word", result)
    most = len(places) / 2 if points == "versions" else 1
    require(stopped < most, f"{stopped} of {len(places)} stopped", result)


@scenario()
def root_of_a_replayed_broadcast(t):
    """With --on-divergence warn it gets the bytes that all ranks got; by default the job stops."""
    for moment in MOMENTS:
        kill = Kill(0, 2, moment)
        result = t.run(3, "rounds", "identity", kills=[kill], flags=["--on-divergence", "warn"])
        require(result.code == 0, f"exit code {result.code}", result)
        check_deaths(result, [kill])
        require("contributes other bytes" in result.err, "no warning", result)
        result = t.run(3, "rounds", "identity", kills=[kill])
        require(result.code == 1, f"exit code {result.code}", result)
        require("contributes other bytes" in result.err, "no reason", result)


@scenario(limit_s=110)
def many_communicators(t):
    """More communicators than 65,536 in one job, with deaths early and late."""
    t.recovers(2, "rounds", "comms", kills=[Kill(1, 500), Kill(0, 70000, "after")], ordered=False)


@scenario(points=list(POINTS))
def refused_checkpoint(t, points):
    """A checkpoint that is refused changes nothing; in a job of images it is made."""
    how, flags = "refused" if points == "versions" else "made", POINTS[points]
    last = t.undisturbed(3, "rounds", how, flags=flags).operations(1)
    for point in range(1, last, 1 if t.long else 3):
        kills = [Kill(1, point, MOMENTS[point % 3])]
        t.recovers(3, "rounds", how, kills=kills, ordered=False, flags=flags)
