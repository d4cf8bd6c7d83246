"""Prints times that were measured in rounds as a Markdown table, or plots them."""

import collections
import re
import statistics
import typing

BOUND_TARGET = 1.4  # of the ratio to the time of the copies


class Time(typing.NamedTuple):
    """The time of a row in one run, over its repetitions; page faults, if they were counted."""

    median: float
    least: float
    faults: float = None


def time_of(value):
    return value if isinstance(value, Time) else Time(value, value)


def size_text(size_bytes):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def number_text(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def bytes_of(text):
    factors = {"K": 1 << 10, "M": 1 << 20}
    return int(text[:-1]) * factors[text[-1]] if text[-1] in factors else int(text)


def targets(text):
    """Parses --target: returns a function from a row's name to its target ratio, or None."""
    limits = [part.rpartition(":") for part in text.split(",")]
    limits = [(bytes_of(up_to) if up_to else float("inf"), float(ratio)) for up_to, _, ratio in limits]

    def target(row):
        found = re.match(r"(\d+) (B|KiB|MiB)\b", row)
        size = int(found[1]) << {"B": 0, "KiB": 10, "MiB": 20}[found[2]] if found else 0
        return next((ratio for up_to, ratio in limits if size <= up_to), None)

    return target


class Round(typing.NamedTuple):
    mode: str  # the machine's, before and after the round: "same", "cross" or "changing"
    times: dict  # {launcher name: {row: Time}}
    bounds: dict  # {row: microseconds}


def of_one_mode(rounds):
    """Returns the rounds that had the most frequent mode; prints how many had which mode."""
    modes = collections.Counter(r.mode for r in rounds)
    steady = [mode for mode, _ in modes.most_common() if mode != "changing"]
    mode = steady[0] if steady else "changing"
    counts = ", ".join(f"{count} {name}" for name, count in modes.most_common())
    print(f"The machine's mode in these rounds: {counts}; the table is of mode {mode}.\n")
    return [r for r in rounds if r.mode == mode]


class Row(typing.NamedTuple):
    """A row of a table: medians over the rounds, and the least. Ratios may be None."""

    name: str
    times: dict  # {launcher name: Time}
    ratio: float
    bound: float
    to_bound: float


def summary(rounds):
    """Returns a list of Row, in the order in which they were measured."""
    names = list(rounds[0].times)
    others = [name for name in names if name != "ours"]
    rows = []
    for row in rounds[0].times[names[0]]:
        times = {}
        for name in names:
            of_rounds = [r.times[name][row] for r in rounds]
            median = statistics.median(t.median for t in of_rounds)
            faults = [t.faults for t in of_rounds if t.faults is not None]
            times[name] = Time(
                median, min(t.least for t in of_rounds), statistics.median(faults) if faults else None
            )
        ratio = bound = to_bound = None
        if "ours" in names and others:
            ratio = statistics.median(
                r.times["ours"][row].median / min(r.times[name][row].median for name in others)
                for r in rounds
            )
        if row in rounds[0].bounds and "ours" in names:
            bound = statistics.median(r.bounds[row] for r in rounds)
            to_bound = statistics.median(
                r.times["ours"][row].median / r.bounds[row] for r in rounds
            )
        rows.append(Row(row, times, ratio, bound, to_bound))
    return rows


def marked(ratio, target):
    return f"**{ratio:.2f}**" if target is not None and ratio > target else f"{ratio:.2f}"


def print_table(title, unit, rounds, targets, bound="the copies"):
    """Prints the table of `rounds`, a list of Round. targets: see targets(). bound: what Round.bounds
    are. Returns the summary."""
    rows = summary(of_one_mode(rounds))
    names = list(rows[0].times)
    with_ratio = any(row.ratio is not None for row in rows)
    with_bound = any(row.bound is not None for row in rows)
    heads = [title, *(f"{name} ({unit})" for name in names)]
    if with_ratio:
        heads.append("ratio to the faster" if len(names) > 2 else "ratio")
    if with_bound:
        heads += [f"{bound} ({unit})", "ratio to that"]
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1))
    for row in rows:
        cells = [row.name]
        for t in row.times.values():
            least = "" if t.least == t.median else f" ({number_text(t.least)})"
            faults = "" if t.faults is None else f", {t.faults:.1f} faults"
            cells.append(number_text(t.median) + least + faults)
        if with_ratio:
            cells.append("–" if row.ratio is None else marked(row.ratio, targets(row.name)))
        if with_bound:
            some = row.bound is not None
            to_bound = targets(row.name) and BOUND_TARGET
            cells += [number_text(row.bound), marked(row.to_bound, to_bound)] if some else ["–", "–"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return rows


def plot(path, title, rows, bound="the copies"):
    """Writes the times of a collective by size to an SVG file. rows: from summary()."""
    import matplotlib  # noqa: PLC0415 - only for this

    matplotlib.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(7, 4))
    places = range(len(rows))
    for name in rows[0].times:
        axes.plot(places, [row.times[name].median for row in rows], marker="o", label=name)
    bounds = [(place, row.bound) for place, row in zip(places, rows) if row.bound is not None]
    if bounds:
        axes.plot(*zip(*bounds), linestyle="--", color="black", label=bound)
    axes.set_yscale("log")
    axes.set_xticks(list(places), [row.name for row in rows], rotation=45, ha="right")
    axes.set_ylabel("µs")
    axes.set_title(title)
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
