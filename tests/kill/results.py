"""Results of jobs that have ended, and the checks that every one of them must pass."""

import collections
import json
import re
import shlex

from kills import KILLED

# The points from which a rank may go on, as the events name them.
RETURNS = ("main", "snapshot", "written", "checkpoint")


class Failure(Exception):
    """Raised if a job does not do what it must."""


class Missed(Failure):
    """Raised if a job went well, but the moment has passed at which the scenario wanted to interfere,
    because the machine is busy. The scenario is tried again."""


class Skip(Exception):
    """Raised if this machine does not allow the scenario."""


class Result:
    """The result of a job that has ended."""

    def __init__(self, job, took_s):
        self.command, self.events = job.command, job.events
        self.killed, self.images_killed = job.killed, job.images_killed
        self.code, self.out, self.err = job.process.returncode, job.out(), job.err()
        self.took_s = took_s
        self.files = job.files

    def named(self, name, rank=None):
        """Returns the events of that name, and of that rank if one is given."""
        return [e for e in self.events if e["event"] == name and rank in (None, e.get("rank"))]

    def operations(self, rank):
        """Returns the number of MPI operations of the rank in its last incarnation."""
        return self.named("exit", rank)[-1]["position"]["ordinal"]


def describe(job):
    """Describes a job (or a Result) for a failure: the command to run it again, and its output."""
    out, err = (job.out, job.err) if isinstance(job, Result) else (job.out(), job.err())
    shown = job.events[-80:]
    lines = [f"the job: {shlex.join(job.command)}"]
    if job.killed:
        lines.append(f"killed from outside: ranks {job.killed}")
    lines += [f"--- the last {len(shown)} events", *(json.dumps(event) for event in shown)]
    lines += ["--- standard error", err[-6000:], "--- the end of standard output", out[-2000:]]
    return "\n".join(lines)


def require(condition, text, result):
    if not condition:
        raise Failure(f"{text}\n{describe(result)}")


def require_met(condition, text, result):
    """Requires that something came in time. A job that is to be judged was judged before."""
    if not condition:
        raise Missed(f"{text}\n{describe(result)}")


def require_killed(result, ranks):
    """Requires that these ranks were killed from outside, in this order."""
    require_met(result.killed == ranks, f"ranks {result.killed} were killed instead of {ranks}", result)


def returns_by_kind(result):
    """Counts how often a rank that died went on from "main", from an "image", or from a "version".

    A rank that dies again before it is back has not returned.
    """
    kinds = collections.Counter()
    for back in (e for e in result.events if "took_ms" in e):
        text = back.get("from", "main")
        kind = "image" if "snapshot" in text or "image" in text else text.split()[0]
        kinds["version" if kind == "checkpoint" else kind] += 1
    return kinds


def rungs(result):
    """Counts how the job went on: returns of single ranks by kind, of all ranks, and begun again."""
    counts = collections.Counter({f"from {k}": n for k, n in returns_by_kind(result).items()})
    counts["all back"] = len(result.named("rollback"))
    counts["begun again"] = len(result.named("begin_again"))
    return +counts


def why_begun_again(result):
    """Counts the reasons why the job began again, without numbers."""
    return collections.Counter(re.sub(r"\d+", "N", e["text"]) for e in result.named("begin_again"))


def require_mostly(kinds, kind):
    """Requires that at least half of the returns are of the kind that the scenario is for."""
    if 2 * kinds[kind] < kinds.total() or not kinds[kind]:
        raise Failure(f"too few returns from '{kind}': {dict(kinds)}")


def check_deaths(result, kills):
    """Requires that each ordered kill has happened, and that other deaths were caused from outside."""
    deaths = result.named("death")
    for kill in kills:
        found = [death for death in deaths if kill.is_death(death)]
        require(len(found) == 1, f"--kill {kill} happened {len(found)} times", result)
        require(found[0]["cause"] in KILLED, f"--kill {kill}: by something else", result)
        deaths.remove(found[0])
    # An image may have been woken, as the rank, before the signal came.
    deaths = [death for death in deaths if death["pid"] not in result.images_killed]
    for rank in result.killed:
        found = [death for death in deaths if death["rank"] == rank]
        if found:  # otherwise the rank had ended before the signal
            deaths.remove(found[0])
    require(not deaths, f"unexpected deaths: {deaths}", result)


def check_returns(result, ranks):
    """Requires that the next incarnation followed every death, and that every rank ended well."""
    for death in result.named("death"):
        after = result.events[result.events.index(death) + 1 :]
        rank, incarnation = death["rank"], death["incarnation"]
        next_one = (rank, incarnation + 1)
        news = [e["event"] for e in after if (e.get("rank"), e.get("incarnation")) == next_one]
        # On a busy machine it may count as late before it has been started.
        news = [event for event in news if event != "catching_up"]
        where = f"rank {rank} after its death in incarnation {incarnation}"
        require(news[:1] == ["respawn"], f"{where} was not started again", result)
        back = "live" in news or "finalize" in news or "death" in news
        require(back, f"{where} did not come back: {news}", result)
    for rank in range(ranks):
        ends = [e["cause"] for e in result.named("exit", rank)]
        require(ends == ["exit code 0"], f"rank {rank} ended {len(ends)} times: {ends}", result)
    check_told(result)
    epochs = [e["epoch"] for e in result.events]
    require(epochs == sorted(epochs), "an epoch went back", result)


def check_told(result):
    """Requires that the parts of each return sum up to its time, and that the summary has every death."""
    for back in (e for e in result.events if "took_ms" in e):
        parts = [back[part] for part in ("start_ms", "computing_ms", "replay_ms")]
        require(min(parts) >= 0, f"{back}", result)
        require(abs(sum(parts) - back["took_ms"]) < 4e-3, f"{back}", result)
    deaths, summaries = result.named("death"), result.named("summary")
    require(len(summaries) == bool(deaths), f"{len(summaries)} summaries", result)
    for told in summaries:
        require(told["deaths"] == len(deaths), f"{told} of {len(deaths)}", result)
        require(told["restarts"] == len(result.named("respawn")), f"{told}", result)
        kinds = [e["kind"] for e in result.events if "took_ms" in e]
        require(told["returns"] == {k: kinds.count(k) for k in RETURNS}, f"{told}", result)
        require(sum(p["deaths"] for p in told["places"]) == len(deaths), f"{told}", result)
        took = max([e["took_ms"] for e in result.events if "took_ms" in e], default=0)
        require(told["lost_ms"] >= told["longest_ms"] >= took, f"{told}", result)
        require(told["journal_peak_bytes"] > 0, f"{told}", result)
        places = {p["site"] for p in told["places"]}
        sites = {death["position"]["site"] for death in deaths}
        require(places <= sites, f"{places} are not among {sites}", result)
