"""Programs that are not deterministic: a replay that shows other values ends the job."""

import re

from harness import Kill, require, scenario
from scenarios.endings import messages

# The place at which rank 1 dies in `courses`, and the message.
COURSES = {
    "shown": (Kill(1, 1), "contributes other bytes than the first execution did"),
    "to": (Kill(1, 3, "before"), r"before it has repeated 1 message to rank 0 of the first"),
    "receive": (Kill(1, 3, "before"), r"matches a message of rank 0 \(4 bytes\) with another receive"),
    "waits": (Kill(1, 3, "before"), "the replay of rank 1 waits"),
    "ends": (Kill(1, "finalize", "before"), r"before it has repeated 1 message to rank 0"),
    "asks": (Kill(1, 3, "before"), r"before it has repeated 1 message to rank 0"),
}


@scenario(how=list(COURSES))
def courses(t, how):
    """A second incarnation does something else where its first one has shown something already."""
    result = t.run(3, "courses", how, leaves=["second-is-next"])
    require(result.code == 0 and result.out == "done\n", "undisturbed it does not end", result)
    kill, pattern = COURSES[how]
    result = t.run(3, "courses", how, kills=[kill], leaves=["second-is-next"])
    require(result.code == 1, f"exit code {result.code}", result)
    lines = [line for line in messages(result) if "replay" in line and "is back" not in line]
    require(len(lines) == 1, f"{len(lines)} lines", result)
    require(re.search(pattern, lines[0]), f"the line has no '{pattern}'", result)
    require("docs/fault-model.md" in lines[0], "it names no page", result)
    if how != "waits":  # in this case ftrun finds it, which does not know the process
        require("likely causes: uninitialised memory" in lines[0], "it names no cause", result)


@scenario()
def courses_of_clocks(t):
    """A second incarnation reads other clocks, and more or less often, but shows the same values."""
    result = t.run(3, "courses", "clocks", kills=[Kill(1, "finalize", "before")], leaves=["second-is-next"])
    require(result.code == 0 and result.out == "done\n", "it does not end well", result)


def dies_once(t, n, steps, odds, flags):
    """Runs `undetermined` with one death. Returns its result."""
    moment = t.rng.choice(["before", "inside"])
    kill = Kill(t.rng.randrange(n), t.rng.randrange(2, 10 * steps), moment)
    words = ["undetermined", f"steps={steps}", f"odds={odds}"]
    return t.run(n, *words, kills=[kill], flags=flags)


@scenario(limit_s=180, sweeps=True, images=[False, True])
def undetermined(t, images):
    """Every step may differ: the laws of the program hold, also if all ranks have gone back, or one
    line reports the difference."""
    steps, odds = (2000, [300, 3000, 30000]) if images else (60, [4, 30, 300, 3000])
    flags = ["--snapshots", "0.02" if images else "off"]
    ended = diverged = 0
    for _ in range(500 if t.long else 40):
        result = dies_once(t, t.rng.choice([2, 3, 4]), steps, t.rng.choice(odds), flags)
        require("the law is broken" not in result.err, "a law is broken", result)
        if result.code == 0:
            require(result.out == "the laws hold\n", "no result", result)
            ended += 1
            diverged += bool(result.named("rollback"))
            continue
        require(result.code == 1, f"exit code {result.code}", result)
        lines = [line for line in messages(result) if "The program is not deterministic" in line]
        require(len(lines) == 1, "it does not say why", result)
        diverged += 1
    found = f"{ended} jobs ended well, {diverged} diverged"
    require(ended > 0 and diverged > 0, found, result)
    print(found)


@scenario(limit_s=180)
def undetermined_warned(t):
    """With --on-divergence warn the same jobs go on, and some break a law: the laws are no empty
    words."""
    for _ in range(60):
        result = dies_once(t, 2, 60, 30, ["--snapshots", "off", "--on-divergence", "warn"])
        if "the law is broken" in result.err:
            return
    require(False, "no law was broken in 60 jobs", result)
