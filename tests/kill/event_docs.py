"""Checks that docs/ftrun.md describes all that ftrun writes to its event log."""

import functools
import os
import re


@functools.cache
def documented_events():
    """Returns the names of fields, and those of events, in the table of docs/ftrun.md."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "ftrun.md")
    with open(path, encoding="utf-8") as page:
        section = page.read().split("\n## Events\n")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if row.startswith("| `")]
    fields = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    [events] = [row[2] for row in rows if row[0] == "| `event`"]
    [position] = [row[2] for row in rows if row[0] == "| `position`"]
    names = re.findall(r"`(\w+)`", position)
    return fields | set(names), set(re.findall(r"`(\w+)`", events))


def undocumented(event):
    """Returns the names in an event, its fields and its position that the table does not have."""
    fields, events = documented_events()
    unknown = [name for name in (*event, *event.get("position", ())) if name not in fields]
    return unknown + ([event["event"]] if event["event"] not in events else [])
