#!/usr/bin/env python3
"""Reads the file that `ftrun --events FILE` writes. As a program, it prints a table of recoveries.

The file has one JSON object in each line. As a module, this file is for scripts that follow a job
while it runs (`Follower`), and for those that read the events afterwards (`recoveries`,
`recovery_table`).
"""

import json
import sys


TOLD = ("replayed_ops", "start_ms", "computing_ms", "replay_ms")


class Follower:
    """Follows an events file while ftrun is still writing it.

    `pids` maps each rank to its present process. A rank between two incarnations is not in it.
    """

    def __init__(self, path):
        self.path = path
        self.events = []
        self.pids = {}
        self._offset = 0

    def poll(self):
        """Returns the events that were added since the last call, oldest first; never waits."""
        try:
            with open(self.path, "rb") as source:
                source.seek(self._offset)
                text = source.read()
        except FileNotFoundError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        added = [json.loads(line) for line in complete.splitlines()]
        for event in added:
            if event["event"] == "register":
                self.pids[event["rank"]] = event["pid"]
            elif event["event"] in ("death", "exit"):
                self.pids.pop(event["rank"], None)
        self.events += added
        return added


def read_events(path):
    """Returns all events of a finished job, oldest first."""
    return Follower(path).poll()


def recoveries(events):
    """Returns one dictionary for each death, in the order of the deaths.

    Keys: rank, incarnation (the one that died), cause, pid; the times in seconds death, respawn,
    register, init (MPI_Init is done) and back (the first operation that no record answered, or
    MPI_Finalize); and from the event of `back` replayed_ops, start_ms, computing_ms, replay_ms.
    Values are None if the rank died again before their event.
    """
    result = []
    coming_back = {}
    for event in events:
        kind, rank = event["event"], event.get("rank")
        if kind == "death":
            item = {key: event.get(key) for key in ("rank", "incarnation", "cause", "pid")}
            item["death"] = event["t"]
            item.update(dict.fromkeys(("respawn", "register", "init", "back", *TOLD)))
            coming_back[rank] = item
            result.append(item)
        elif rank in coming_back:
            if kind in ("respawn", "register", "init"):
                coming_back[rank][kind] = event["t"]
            elif kind in ("live", "finalize"):
                item = coming_back.pop(rank)
                item.update({"back": event["t"], **{key: event.get(key) for key in TOLD}})
    return result


def recovery_table(events):
    """Returns a table as lines of text: each death, and the times until the rank was back.

    A rank is back when it executes its first operation that no record answers.
    """
    form = "{:>8}  {:>4}  {:>11}  {:<18}  {:>9}  {:>14}  {:>9}".format
    lines = [form("died at", "rank", "incarnation", "cause", "back in", "until MPI_Init", "replayed")]
    for item in recoveries(events):

        def since_death(step, item=item):
            return "-" if item[step] is None else f"{item[step] - item['death']:.3f} s"

        lines.append(
            form(
                f"{item['death']:.3f} s",
                item["rank"],
                item["incarnation"],
                item["cause"],
                since_death("back"),
                since_death("init"),
                "-" if item["replayed_ops"] is None else item["replayed_ops"],
            )
        )
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit("usage: ftrun_events.py FILE    (FILE was written by ftrun --events FILE)")
    print("\n".join(recovery_table(read_events(sys.argv[1]))))
