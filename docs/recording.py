#!/usr/bin/env python3
"""Writes docs/recording.svg: what a terminal shows of a run whose ranks are killed.

    docs/recording.py [--build BUILD]

The run is a real one, of Debian's LAMMPS as it is; only the prompt is drawn.
"""

import argparse
import html
import os
import subprocess
import tempfile
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = "ftrun -n 4 --snapshots 0.1 --kill 2@3000 --kill 0@9000 lmp -in in.melt | sed -un '/^Step/,/^Loop/p'"
COLUMNS, LINE, CHARACTER, MARGIN = 112, 18, 8.0, 14
INPUT = """
units           lj
atom_style      atomic
lattice         fcc 0.8
region          all block 0 10 0 10 0 10
create_box      1 all
create_atoms    1 box
mass            1 1.0
velocity        all create 2.5 4711 loop geom
pair_style      lj/cut 2.4
pair_coeff      1 1 1.0 1.0
neighbor        0.4 bin
fix             move all nve
thermo          500
run             1500
"""


def record(build):
    """Returns the lines that the command prints."""
    environment = dict(os.environ, PATH=f"{build}/bin:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "in.melt"), "w", encoding="utf-8") as script:
            script.write(INPUT)
        done = subprocess.run(["bash", "-c", COMMAND], cwd=directory, env=environment, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=True)  # fmt: skip
    return [f"$ {COMMAND}", *done.stdout.splitlines()]


def colour_of(line):
    return "#7fd17f" if line.startswith("$") else "#f0c674" if line.startswith("rejoin:") else "#e0e0e0"


def wrapped(lines):
    """Yields lines that fit, each with the colour of the whole one."""
    for line in lines:
        for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ") or [""]:
            yield part, colour_of(line)


def svg(lines):
    lines = list(wrapped(lines))
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    rows = []
    for number, (line, colour) in enumerate(lines):
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
