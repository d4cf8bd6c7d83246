#!/usr/bin/env python3
"""Tests which sections bench/report retains and replaces, and which ratios are bold."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import tables  # noqa: E402


def load_report():
    loader = importlib.machinery.SourceFileLoader("report", os.path.join(HERE, "report"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
    loader.exec_module(module)
    return module


class Report(unittest.TestCase):
    def setUp(self):
        self.report = load_report()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "performance.md")
        os.makedirs(os.path.join(directory.name, "bin"))
        open(os.path.join(directory.name, "bin", "ftrun"), "w").close()
        self.build = directory.name
        self.says("first")

    def says(self, what, command="/bin/echo"):
        self.report.SECTIONS = tuple(
            self.report.Section(name, f"Title {name}", "Text.", [f"{command} {what}-{name} {{rounds}}"])
            for name in ("one", "two")
        )

    def run_report(self, *arguments):
        sys.argv = ["report", "--out", self.path, "--build", self.build, *arguments]
        with contextlib.redirect_stderr(io.StringIO()):
            self.report.main()
        with open(self.path, encoding="utf-8") as source:
            return source.read()

    def test_writes_all_sections_in_order(self):
        text = self.run_report("--rounds", "7")
        self.assertIn("first-one 7", text)
        self.assertLess(text.index("## Title one"), text.index("## Title two"))
        self.assertTrue(text.startswith(self.report.PREFACE))

    def test_replaces_the_section_that_is_named(self):
        self.run_report()
        self.says("second")
        text = self.run_report("--section", "one")
        self.assertIn("second-one", text)
        self.assertNotIn("first-one", text)
        self.assertIn("first-two", text)
        self.assertEqual(text.count("## Title one"), 1)

    def test_same_measurements_give_the_same_file(self):
        self.assertEqual(self.run_report(), self.run_report())

    def test_a_command_that_fails_leaves_the_file_as_it_was(self):
        before = self.run_report()
        self.says("third", command="/bin/false")
        with self.assertRaises(SystemExit):
            self.run_report("--section", "two")
        with open(self.path, encoding="utf-8") as source:
            self.assertEqual(source.read(), before)
        self.assertEqual(sorted(os.listdir(self.build)), ["bin", "performance.md"])


class Targets(unittest.TestCase):
    def test_by_size(self):
        target = tables.targets("4K:0.65,1M:0.5,0.7")
        for row, wanted in (("8 B", 0.65), ("4 KiB", 0.65), ("32 KiB", 0.5), ("1 MiB", 0.5),
                            ("4 MiB", 0.7), ("wall time", 0.65)):  # fmt: skip
            self.assertEqual(target(row), wanted, row)

    def test_no_limit_no_target(self):
        self.assertIsNone(tables.targets("4K:0.65")("1 MiB"))

    def test_only_what_is_missed_is_bold(self):
        self.assertEqual(tables.marked(0.65, 0.65), "0.65")
        self.assertEqual(tables.marked(0.66, 0.65), "**0.66**")
        self.assertEqual(tables.marked(9.0, None), "9.00")


if __name__ == "__main__":
    unittest.main()
