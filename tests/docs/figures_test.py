#!/usr/bin/env python3
"""Whether figures of speed in the documents are those that docs/performance.md has measured.

A quoted figure is between two comments, of which the first names its place:

    <!-- gather/4 KiB/ratio to the faster -->3.21<!-- -->

SECTION/ROW/COLUMN, as in performance.md; before ROW the first cell of its table's head where a
section has several (others-8/bcast/8 B/ratio). A figure with % is what a ratio is above 1. In words:

    <!-- reduce/*/ratio to the faster < 1 -->faster<!-- -->

holds for every row. A paragraph that links to performance.md has no other figures than these.
"""

import glob
import os
import re
import unittest

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WRITTEN = ("docs/performance.md", "docs/performance-notes.md")
QUOTE = re.compile(r"<!-- ([^<>]+?)(?: ([<>]) ([\d.]+))? -->(.*?)<!-- -->", re.DOTALL)
# Sizes, numbers of ranks and of versions are no figures.
HARMLESS = re.compile(r"\d+ (?:B|KiB|MiB)\b|\d+ ranks\b|`[^`]*`|\[[^]]*\]\([^)]*\)|MPI \d")


def read(path):
    with open(os.path.join(SOURCES, path), encoding="utf-8") as file:
        return file.read()


def tables_of(text):
    """{(section, table, row, column): the number there}"""
    found, section, head = {}, "", None
    for line in text.split("\n"):
        mark = re.fullmatch(r"<!-- ([\w-]+) -->", line)
        section = mark[1] if mark else section
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        for column, cell in zip(head[1:], cells[1:]):
            number = re.match(r"\**([\d.]+)", cell)
            if number:
                found[section, head[0], cells[0], column] = float(number[1])
    return found


def cells_of(source, tables):
    """The numbers that SECTION/ROW/COLUMN or SECTION/TABLE/ROW/COLUMN names."""
    words = source.split("/")
    section, row, column = words[0], words[-2], words[-1]
    return [number for (s, t, r, c), number in tables.items()
            if (s, c) == (section, column) and row in ("*", r) and (len(words) == 3 or t == words[1])]  # fmt: skip


def faults_of(text, tables):
    """Yields each statement of a page that the tables do not confirm."""
    for source, relation, limit, said in QUOTE.findall(text):
        cells = cells_of(source, tables)
        if not cells:
            yield f"nothing is measured at {source}"
        elif relation:
            wrong = [c for c in cells if not (c < float(limit) if relation == "<" else c > float(limit))]
            if wrong:
                yield f"'{said}': not all of {source} are {relation} {limit}: {wrong}"
        elif len(cells) > 1:
            yield f"{source} names {len(cells)} figures"
        else:
            digits = re.fullmatch(r"(\d+(?:\.(\d+))?)( ?%)?", said)
            value = 100 * (cells[0] - 1) if digits and digits[3] else cells[0]
            if not digits or f"{value:.{len(digits[2] or '')}f}" != digits[1]:
                yield f"{source} is {cells[0]}, and not '{said}'"
    for paragraph in re.split(r"\n(?:\n|(?=[*-] ))", text):
        if "performance.md" in paragraph:
            rest = HARMLESS.sub("", QUOTE.sub("", re.sub(r"\n {4}.*", "", paragraph)))
            for figure in re.findall(r"(?<![\w.-])\d[\d.]*", rest):
                yield f"{figure} is not said to be from performance.md: {paragraph[:60]}…"


class Figures(unittest.TestCase):
    TABLE = "<!-- one -->\n| a | x |\n| --- | --- |\n| 8 B | **1.04** (0.9) |\n| 4 B | 0.5 |\n"

    def faults(self, text):
        return list(faults_of(text, tables_of(self.TABLE)))

    def test_the_documents(self):
        tables = tables_of(read("docs/performance.md"))
        self.assertGreater(len(tables), 300)
        quoted = 0
        for path in ["README.md", "examples/README.md", *glob.glob("docs/*.md", root_dir=SOURCES)]:
            if path in WRITTEN:
                continue
            text = read(path)
            quoted += len(QUOTE.findall(text))
            self.assertEqual(list(faults_of(text, tables)), [], path)
        self.assertGreater(quoted, 8)

    def test_what_is_right(self):
        self.assertEqual(self.faults("<!-- one/8 B/x -->1.04<!-- -->, <!-- one/a/8 B/x -->4 %<!-- -->"), [])
        self.assertEqual(self.faults("<!-- one/*/x < 1.1 -->not slower<!-- -->, as performance.md has it"), [])

    def test_another_figure(self):
        self.assertEqual(len(self.faults("<!-- one/8 B/x -->1.05<!-- -->")), 1)
        self.assertEqual(len(self.faults("<!-- one/8 B/x -->5 %<!-- -->")), 1)
        self.assertEqual(len(self.faults("<!-- one/*/x < 1 -->faster<!-- -->")), 1)

    def test_a_place_that_is_not_there(self):
        self.assertEqual(len(self.faults("<!-- one/16 B/x -->1.04<!-- -->")), 1)

    def test_a_figure_without_its_place(self):
        self.assertEqual(len(self.faults("3.5 times (performance.md)")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
