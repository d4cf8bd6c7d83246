#!/usr/bin/env python3
"""Writes docs/recording.svg: what a terminal shows of a run whose ranks are killed.

    docs/recording.py [--build BUILD]

The run is a real one, of examples/jacobi; only the prompt is drawn, and paths begin at the checkout.
"""

import argparse
import html
import os
import shlex
import subprocess
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = "ftrun -n 4 --snapshots 0.1 --kill 2@3000 --kill 0@5000 jacobi -s 6000 -e 0 -n 400"
COLUMNS, LINE, CHARACTER, MARGIN = 112, 18, 8.0, 14


def record(build):
    """Returns the lines that the command prints."""
    words = shlex.split(COMMAND)
    environment = dict(os.environ, PATH=f"{build}/bin:{os.environ['PATH']}")
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=True)  # fmt: skip
    here = os.path.dirname(HERE) + os.sep  # of whoever records it
    return [f"$ {COMMAND}", *done.stdout.replace(here, "").splitlines()]


def wrapped(lines):
    for line in lines:
        yield from textwrap.wrap(line, COLUMNS, subsequent_indent="    ") or [""]


def svg(lines):
    lines = list(wrapped(lines))
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    rows = []
    for number, line in enumerate(lines):
        colour = "#7fd17f" if line.startswith("$") else "#e0e0e0"
        colour = "#f0c674" if line.startswith(("rejoin:", "    ")) else colour
        y = MARGIN + number * LINE + 13
        rows.append(f'<text x="{MARGIN}" y="{y}" fill="{colour}" xml:space="preserve">{html.escape(line)}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        'font-family="monospace" font-size="13">',
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1e1e1e"/>',
        *rows, "</svg>", ""])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    build = os.path.join(os.path.dirname(HERE), "build")
    parser.add_argument("--build", default=build, help="(default build)")
    lines = record(os.path.abspath(parser.parse_args().build))
    with open(os.path.join(HERE, "recording.svg"), "w", encoding="utf-8") as target:
        target.write(svg(lines))


if __name__ == "__main__":
    main()
