"""Messages to the user about recoveries: during one, when a rank is back, and at the end."""

import re

from harness import Kill, check_deaths, check_returns, require, require_met, scenario


def returns(result, rank):
    """Returns the line and the event of each return of the rank."""
    lines = re.findall(rf"^rejoin: (rank {rank} is back after .*)$", result.err, re.M)
    events = [e for e in result.events if "took_ms" in e and e["rank"] == rank]
    require(len(lines) == len(events) > 0, f"{len(lines)} lines, {len(events)} events", result)
    return list(zip(lines, events))


@scenario()
def long_recovery(t):
    """The progress of a rank that computes for some seconds is reported, with the time it will take."""
    count, pause_us = 1000, 3000
    program = ("steps", f"count={count}", f"pause_us={pause_us}")
    result = t.run(2, *program, kills=[Kill(1, count)], flags=["--snapshots", "off"])
    require(result.code == 0, f"exit code {result.code}", result)
    said = re.findall(
        rf"^rejoin: rank 1 has been catching up for ([\d.]+) s: at operation #([\d,]+) of "
        rf"#{count:,} \((\d+) %\)(, about \d+ s left)?$",
        result.err,
        re.M,
    )
    told = result.named("catching_up", 1)
    require(said and len(said) == len(told), f"{len(said)} lines, {len(told)} events", result)
    for (seconds, done, percent, estimate), event in zip(said, told):
        done = int(done.replace(",", ""))
        require(float(seconds) >= 2, "too soon", result)
        require(0 < done <= count and int(percent) == 100 * done // count, "wrong", result)
        require(event["position"]["ordinal"] == done and event["known_ops"] == count, "", result)
        require(bool(estimate) == ("left_ms" in event), "an estimate here and not there", result)
    [(line, event)] = returns(result, 1)
    require(" of its own computing, " in line, line, result)
    least_ms = 0.9 * (count - 1) * pause_us / 1000  # the part of replay is an estimate
    require(event["computing_ms"] >= least_ms, f"it computed for {least_ms} ms", result)
    check_returns(result, 2)


@scenario()
def parts_of_a_recovery(t):
    """Replaying, computing and starting are reported apart; with --quiet nothing is printed."""
    program = ("steps", "count=4000")
    kills = [Kill(1, 4000), Kill(0, 2000)]
    flags = ["--snapshots", "off"]
    result = t.recovers(2, *program, kills=kills, flags=flags)
    for rank, operations in ((1, 3999), (0, 1999)):
        [(line, event)] = returns(result, rank)
        require(event["replayed_ops"] == operations, "other operations", result)
        require(f"replay of {operations:,} operations" in line, line, result)
        require(event["replay_ms"] > 0, "a replay takes time", result)
    require("journal at most" in result.err, "there is no summary", result)
    quiet = t.recovers(2, *program, kills=kills, flags=[*flags, "-q"])
    require(not quiet.err, "something is said", quiet)
    require(quiet.named("summary"), "and the record is missing", quiet)


@scenario()
def recovery_from_a_checkpoint(t):
    command = ("checkpoints", "versions=6", "steps=2")
    result = t.run(2, *command, kills=[Kill(1, 60)], flags=["--snapshots", "off"])
    require(result.code == 0, f"exit code {result.code}", result)
    check_deaths(result, [Kill(1, 60)])
    [(line, event)] = returns(result, 1)
    version = re.search(r"ms, from checkpoint (\d+): ", line)
    require(version and int(version[1]) > 0, line, result)
    require(event["from"] == f"checkpoint {version[1]}", "another one in the event", result)
    require(event["kind"] == "checkpoint", f"{event}", result)


@scenario()
def recovery_from_a_snapshot(t):
    """Replaying is measured in the clone of an image, too."""
    program = ("steps", "count=600", "pause_us=1000")
    result = t.recovers(2, *program, kills=[Kill(1, 560)], flags=["--snapshots", "0.1"])
    [(line, event)] = returns(result, 1)
    require(re.search(r"ms, from the snapshot [\d.]+ m?s before its death: ", line), line, result)
    require(event["from"].startswith("the snapshot "), f"{event}", result)
    require(event["kind"] == "snapshot", f"{event}", result)
    require("rejoin: 1 death, 1 restart (1 from a snapshot), " in result.err, "not counted", result)
    require_met(event["replayed_ops"] > 0, "the snapshot was made just before the death", result)
    require(event["replayed_ops"] < 559, f"{event}", result)
    # The clock may show no time for a few operations.
    require(event["replay_ms"] > 0 or event["replayed_ops"] < 20, f"{event}", result)


@scenario()
def summary(t):
    """Deaths with the same cause at the same place have one line, with the time of all."""
    kills = [Kill(r, 20, "inside", i) for r in (0, 2) for i in range(2)] + [Kill(1, 30)]
    result = t.recovers(3, "steps", "count=60", kills=kills)
    places = result.named("summary")[0]["places"]
    require(sum(p["deaths"] for p in places) == 5, "not five", result)
    most = places[0]
    require(most["ranks"] == {"0": 2, "2": 2} and most["deaths"] == 4, f"{most}", result)
    require(re.fullmatch(r".*steps\.c:\d+::\w+", most["site"]), f"{most}", result)
    line = f"rejoin:   ranks 0 (twice), 2 (twice): signal 9, Killed, {most['where']} at {most['site']}\n"
    require(line in result.err, f"there is no line {line}", result)
    require(
        re.search(r"^rejoin: 5 deaths, 5 restarts \([1-5] from .*\), .* lost, .* the longest "
                  r"\(rank \d\); journal at most [\d.]+ [KM]iB(; \d+ snapshots?, at most [\d.]+ m?s of a rank's time"
                  r"( and [\d.]+ ([KM]iB|bytes))?)?$",
                  result.err, re.M),
        "there is no first line",
        result,
    )
