#!/usr/bin/env python3
"""Writes docs/rooms.svg: the rooms of src in layers, with an arrow for includes.

    docs/rooms.py [--root ROOT]           draws the sources below ROOT/src
    docs/rooms.py --list [--root ROOT]    prints a line for every arrow, and how many files it stands for

The rooms and their order are those of .ci/rooms. An arrow that others imply is not drawn; its number
is in the box of the room that it would begin at. An include against the order is drawn in red.
"""

import argparse
import collections
import html
import importlib.machinery
import importlib.util
import math
import os
import sys
import textwrap

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = importlib.machinery.SourceFileLoader("ci_rooms", os.path.join(HERE, "..", ".ci", "rooms"))
RULES = importlib.util.module_from_spec(importlib.util.spec_from_loader("ci_rooms", LOADER))
LOADER.exec_module(RULES)

BOX, COLUMNS, LINE, GAP_X, GAP_Y, MARGIN, DUMMY = 186, 29, 15, 34, 52, 24, 24
CAPTION = (
    "An arrow means that files of the upper room include files of the lower one; its number is how many files do.",
    "Arrows that others imply are left out. Each box lists all rooms that its files include, with the same number.",
)


def room_of(path):
    """Like RULES.room_of; a file that is in no room is in one with the name of its folder."""
    return RULES.room_of(path) or os.path.dirname(path)


def read(root):
    """Returns {room: files} and {(room, included room): files that include it}."""
    os.chdir(root)
    files, includes = collections.Counter(), collections.defaultdict(set)
    for folder, _, names in os.walk("src"):
        for name in names:
            if not name.endswith((".h", ".cc", ".c", ".inc")):
                continue
            path = os.path.relpath(os.path.join(folder, name), "src")
            room = room_of(path)
            files[room] += 1
            for _, _, included in RULES.includes_in(path):
                other = room_of(included) if "/" in included else room
                if other != room:
                    includes[room, other].add(path)
    return files, {arrow: len(paths) for arrow, paths in includes.items()}


def layers_of(rooms, down):
    """Returns {room: layer}; a room is above all that it includes. `rooms`: in the table's order."""
    layers = {}
    for room in rooms:
        layers[room] = max((layers[other] + 1 for upper, other in down if upper == room), default=0)
    return layers


def without_implied(down):
    below = collections.defaultdict(set)
    for upper, lower in down:
        below[upper].add(lower)

    def all_below(room):
        found, left = set(), [room]
        while left:
            new = below[left.pop()] - found
            found |= new
            left += new
        return found

    return [(u, low) for u, low in down if not any(low in all_below(o) for o in below[u] - {low})]


class Node:
    """A room's box, or the place where an arrow passes through a layer."""

    def __init__(self, layer, width, x):
        self.layer, self.width, self.x, self.near = layer, width, x, []


def place(nodes):
    """Moves the nodes of each layer towards those that they are connected with."""
    layers = collections.defaultdict(list)
    for node in nodes:
        layers[node.layer].append(node)
    for _ in range(60):
        for number in sorted(layers):
            row = layers[number]
            wanted = {n: sum(m.x for m in n.near) / len(n.near) if n.near else n.x for n in row}
            row.sort(key=lambda n: wanted[n])
            at = -math.inf
            for node in row:
                node.x = max(wanted[node], at + node.width / 2)
                at = node.x + node.width / 2 + GAP_X
            shift = sum(wanted[n] - n.x for n in row) / len(row)
            for node in row:
                node.x += shift


def short(room):
    return room.removeprefix("launcher/")


def lines_of(room, includes):
    own = sorted(((n, low) for (u, low), n in includes.items() if u == room), reverse=True)
    # A number stays on the line of its room.
    text = ", ".join(f"{short(low)}\u00a0{n}" for n, low in own)
    return textwrap.wrap(text, COLUMNS, break_on_hyphens=False)


def arrow(points, number, colour):
    """A curve through the points, with a number near its beginning."""
    path = "M{:.1f},{:.1f}".format(*points[0])
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        bend = (y1 - y0) * 0.45
        path += f" C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}"
    (x0, y0), (x1, y1) = points[0], points[1]
    width = 1 + 1.3 * math.sqrt(number)
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:.1f}" marker-end="url(#head)"/>',
        f'<text class="number" x="{x0 + (x1 - x0) * 0.32:.1f}" y="{y0 + (y1 - y0) * 0.4 + 4:.1f}">{number}</text>',
    )


def svg(files, includes):
    known = [room for room in RULES.ROOMS if room in files]
    rooms = known + sorted(set(files) - set(known))
    order = {room: number for number, room in enumerate(rooms)}
    down = [a for a in sorted(includes) if order[a[0]] > order[a[1]]]
    against = [a for a in sorted(includes) if order[a[0]] < order[a[1]]]
    layers = layers_of(rooms, down)

    boxes = {room: Node(layers[room], BOX, order[room] * 40.0) for room in rooms}
    nodes, chains = list(boxes.values()), {}
    for upper, lower in without_implied(down):
        chain = [boxes[upper]]
        for layer in range(layers[upper] - 1, layers[lower], -1):
            chain.append(Node(layer, DUMMY, (boxes[upper].x + boxes[lower].x) / 2))
        chain.append(boxes[lower])
        nodes += chain[1:-1]
        chains[upper, lower] = chain
        for one, other in zip(chain, chain[1:]):
            one.near.append(other)
            other.near.append(one)
    place(nodes)

    text = {room: lines_of(room, includes) for room in rooms}
    height = {room: 42 + LINE * len(text[room]) for room in rooms}
    top, y = {}, MARGIN
    tallest = {layer: max(height[r] for r in rooms if layers[r] == layer) for layer in set(layers.values())}
    for layer in sorted(tallest, reverse=True):
        top[layer], y = y, y + tallest[layer] + GAP_Y
    left = min(n.x - n.width / 2 for n in nodes) - MARGIN
    width = max(n.x + n.width / 2 for n in nodes) - left + MARGIN

    shapes, numbers = [], []
    for (upper, lower), chain in chains.items():
        ends = [(chain[0].x - left, top[chain[0].layer] + height[upper])]
        for node in chain[1:-1]:
            ends.append((node.x - left, top[node.layer]))
            ends.append((node.x - left, top[node.layer] + tallest[node.layer]))
        ends.append((chain[-1].x - left, top[chain[-1].layer] - 7))
        shape, number = arrow(ends, includes[upper, lower], "#7a8793")
        shapes.append(shape)
        numbers.append(number)
    for upper, lower in against:
        ends = [(boxes[r].x - left, top[layers[r]] + height[r] / 2) for r in (upper, lower)]
        shape, number = arrow(ends, includes[upper, lower], "#c0392b")
        shapes.append(shape)
        numbers.append(number)
    for room in rooms:
        x, y0 = boxes[room].x - left, top[layers[room]]
        fill = "#fdf1e3" if room.startswith("launcher") else "#e6eff8"
        shapes.append(
            f'<rect x="{x - BOX / 2:.1f}" y="{y0}" width="{BOX}" height="{height[room]}" rx="5" fill="{fill}" stroke="#4a5661"/>'
        )
        plural = "" if files[room] == 1 else "s"
        shapes.append(f'<text class="room" x="{x:.1f}" y="{y0 + 18}">{html.escape(room)}</text>')
        shapes.append(f'<text class="small" x="{x:.1f}" y="{y0 + 33}">{files[room]} file{plural}</text>')
        for number, line in enumerate(text[room]):
            shapes.append(f'<text x="{x:.1f}" y="{y0 + 49 + LINE * number}">{html.escape(line)}</text>')
    for number, line in enumerate(CAPTION):
        shapes.append(f'<text class="caption" x="{MARGIN}" y="{y + 16 * number - GAP_Y + 28}">{line}</text>')
    bottom = y - GAP_Y + 28 + 16 * len(CAPTION)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {bottom:.0f}" font-family="sans-serif" font-size="11.5" text-anchor="middle">',
        '<defs><marker id="head" viewBox="0 0 10 10" refX="3" refY="5" markerWidth="10" markerHeight="10" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0,0 L10,5 L0,10 z" fill="#4a5661"/></marker></defs>',
        "<style>.room{font-size:14px;font-weight:bold}.small{fill:#5c6873}.caption{text-anchor:start;fill:#4a5661}"
        ".number{font-size:12px;font-weight:bold;stroke:#fff;stroke-width:3;paint-order:stroke}</style>",
        f'<rect width="{width:.0f}" height="{bottom:.0f}" rx="8" fill="#fff"/>',
        *shapes, *numbers, "</svg>", ""])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", default=os.path.dirname(HERE), help="(default: this repository)")
    parser.add_argument("--list", action="store_true", help="prints the arrows instead")
    given = parser.parse_args()
    files, includes = read(given.root)
    if given.list:
        for (upper, lower), number in sorted(includes.items()):
            print(upper, "->", lower, number)
        return
    with open(os.path.join(HERE, "rooms.svg"), "w", encoding="utf-8") as target:
        target.write(svg(files, includes))


if __name__ == "__main__":
    main()
