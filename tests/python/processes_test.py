#!/usr/bin/env python3
"""The Python module rabit from outside: how its library is found, wrong order of calls, failing
prepare functions, its installation, and ranks that are killed.

REJOIN_FTRUN, REJOIN_LIBRARY_DIR: what is tested (build/bin/ftrun and build/lib).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.dont_write_bytecode = True  # the source directory stays as it is

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [f"{SOURCES}/python", f"{SOURCES}/tests/kill", f"{SOURCES}/tests/rabit"]

import harness  # noqa: E402
import mock_deaths  # noqa: E402
from harness import Kill  # noqa: E402
from processes import run_ftrun  # noqa: E402
from rabit import _models  # noqa: E402

FTRUN = os.environ.get("REJOIN_FTRUN", f"{SOURCES}/build/bin/ftrun")
LIBRARY_DIR = os.environ.get("REJOIN_LIBRARY_DIR", f"{SOURCES}/build/lib")
LIMIT_S = 30
RANKS = 3


def environment(**changes):
    """Returns the result of a process that finds the module but not the library, unless `changes`
    sets its place."""
    result = {name: value for name, value in os.environ.items() if not name.startswith("REJOIN_")}
    result.update(PYTHONPATH=f"{SOURCES}/python", PYTHONDONTWRITEBYTECODE="1")
    result.pop("LD_LIBRARY_PATH", None)
    return {**result, **changes}


def python(program, *flags, prefix=(), **changes):
    """Runs a program, given as text. Returns the result of subprocess.run."""
    command = [*prefix, sys.executable, *flags, "-c", program]
    return run_ftrun(command, LIMIT_S, env=environment(**changes), text=True)


class Processes(unittest.TestCase):
    def succeeds(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def fails(self, result, *texts):
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for text in texts:
            self.assertIn(text, result.stderr)


class Library(Processes):
    joins = "import rabit; rabit.init({}); print(rabit.get_world_size()); rabit.finalize()"

    def module_elsewhere(self):
        """Makes a directory with a copy of the module, far from any build directory."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        shutil.copytree(f"{SOURCES}/python/rabit", f"{directory.name}/python/rabit")
        return directory.name

    def test_by_environment(self):
        out = self.succeeds(python(self.joins.format(""), REJOIN_LIBRARY_DIR=LIBRARY_DIR))
        self.assertEqual(out, "1\n")

    def test_by_the_dynamic_linker(self):
        there = {"PYTHONPATH": self.module_elsewhere() + "/python", "LD_LIBRARY_PATH": LIBRARY_DIR}
        self.assertEqual(self.succeeds(python(self.joins.format(""), **there)), "1\n")

    def test_in_the_build_directory(self):
        checkout = self.module_elsewhere()
        os.mkdir(f"{checkout}/build")
        os.symlink(LIBRARY_DIR, f"{checkout}/build/lib")
        result = python(self.joins.format(""), PYTHONPATH=f"{checkout}/python")
        self.assertEqual(self.succeeds(result), "1\n")

    def test_under_ftrun(self):
        there = {"PYTHONPATH": self.module_elsewhere() + "/python"}
        result = python(self.joins.format(""), prefix=[FTRUN, "-n", "2"], **there)
        self.assertEqual(self.succeeds(result), "2\n2\n")

    def test_by_path(self):
        for words in (f"lib='{LIBRARY_DIR}/librabit.so'", f"[], '{LIBRARY_DIR}/librabit.so'"):
            self.assertEqual(self.succeeds(python(self.joins.format(words))), "1\n")

    def test_the_ancestors_ways(self):
        for words in ("lib='mock'", "[], 'standard'", "lib='mpi', args=['a']"):
            result = python(self.joins.format(words), REJOIN_LIBRARY_DIR=LIBRARY_DIR)
            self.assertEqual(self.succeeds(result), "1\n")
        program = f"import ctypes; dll = ctypes.CDLL('{LIBRARY_DIR}/librabit.so'); "
        result = python(program + self.joins.format("lib_dll=dll"))
        self.assertEqual(self.succeeds(result), "1\n")

    def test_missing(self):
        elsewhere = self.module_elsewhere()
        result = python(self.joins.format(""), PYTHONPATH=f"{elsewhere}/python")
        self.fails(result, "cannot load", "build/lib/librabit.so", "ftrun", "REJOIN_LIBRARY_DIR")
        result = python(self.joins.format(""), REJOIN_LIBRARY_DIR="/nowhere")
        self.fails(result, "/nowhere/librabit.so: cannot open", "set REJOIN_LIBRARY_DIR")
        result = python(self.joins.format("lib='/nowhere/else.so'"))
        self.fails(result, "/nowhere/else.so: cannot open")

    def test_another_library(self):
        result = python(self.joins.format("lib='libm.so.6'"))
        self.fails(result, "not Rejoin's library: libm.so.6 has no RabitInit")

    def test_a_file_that_is_no_library(self):
        result = python(self.joins.format(f"lib='{HERE}/rounds.py'"))
        self.fails(result, "invalid ELF header")

    def test_failed_init_can_be_repeated(self):
        program = (
            "import rabit\n"
            "try: rabit.init(lib='/nowhere.so')\n"
            "except OSError: rabit.init(); print(rabit.get_rank()); rabit.finalize()"
        )
        self.assertEqual(self.succeeds(python(program, REJOIN_LIBRARY_DIR=LIBRARY_DIR)), "0\n")

    def test_no_numpy(self):
        self.fails(python("import rabit", "-S"), "ImportError", "apt-get install python3-numpy")


class Order(Processes):
    calls = (
        "finalize()",
        "get_rank()",
        "get_world_size()",
        "get_processor_name()",
        "tracker_print('')",
        "allreduce(None, 0)",
        "broadcast(1, 0)",
        "load_checkpoint()",
        "checkpoint(1)",
        "version_number()",
    )

    def test_before_init_and_after_finalize(self):
        program = f"import rabit\ncalls = {self.calls}\n" + (
            "def refused():\n"
            "    for call in calls:\n"
            "        try: eval('rabit.' + call)\n"
            "        except RuntimeError as error: print(error)\n"
            "refused(); rabit.init(); rabit.finalize(); refused()"
        )
        out = self.succeeds(python(program, REJOIN_LIBRARY_DIR=LIBRARY_DIR))
        names = [call.partition("(")[0] for call in self.calls]
        expected = [f"rabit.{name} was called before rabit.init()" for name in names]
        expected += [f"rabit.{name} was called after rabit.finalize()" for name in names]
        self.assertEqual(out.splitlines(), expected)

    def test_init_after_finalize(self):
        program = "import rabit; rabit.init(); rabit.finalize(); rabit.init()"
        result = python(program, REJOIN_LIBRARY_DIR=LIBRARY_DIR)
        self.fails(result, "RuntimeError: rabit.init: a process that has called finalize()")


class FailingPrepare(Processes):
    def test_no_rank_gets_wrong_numbers(self):
        program = (
            "import numpy, rabit\n"
            "def fill(array):\n"
            "    if rabit.get_rank() == 1: raise KeyError('no such column')\n"
            "    array[:] = 1\n"
            "rabit.init()\n"
            "try: print(rabit.allreduce(numpy.zeros(2), rabit.SUM, fill))\n"
            "except BaseException: print('it goes on')\n"
            "rabit.finalize()\n"
        )
        result = python(program, prefix=[FTRUN, "-n", "3", "--timeout", "20"])
        self.fails(result, "KeyError: 'no such column'", "in fill", "rabit: prepare_fun failed")
        self.assertEqual(result.stdout, "")


class Installation(Processes):
    """Needs Debian's packages python3-pip, python3-setuptools and python3-wheel."""

    def test_pip_without_a_network(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(f"{SOURCES}/python", f"{directory}/python")  # pip builds in there
            command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps"]
            command += ["--target", f"{directory}/installed", f"{directory}/python"]
            result = subprocess.run(
                command, env=environment(), capture_output=True, text=True, timeout=4 * LIMIT_S
            )
            self.succeeds(result)
            program = "import rabit; rabit.init(); print(rabit.__file__); rabit.finalize()"
            installed = {"PYTHONPATH": f"{directory}/installed"}
            result = python(program, prefix=[FTRUN, "-n", "2"], **installed)
            path = f"{directory}/installed/rabit/__init__.py"
            self.assertEqual(self.succeeds(result), f"{path}\n" * 2)


class Models(unittest.TestCase):
    def check(self, build, change):
        """A model continues in the same way in a rank that has built it and in one that has loaded
        it."""
        built = build()
        loaded = _models.load(_models.dump(built), "a model")
        for model in (built, loaded):
            change(model)
        self.assertEqual(_models.dump(built), _models.dump(loaded))

    def test_arrays_have_the_same_bytes(self):
        def change(model):
            model["new"] = np.arange(5.0)

        base = np.arange(24.0).reshape(4, 6)
        for array in (base, base.T, base[::2], base[:, 1], np.array(1.5), base[:0], base[:, ::-1]):
            self.check(lambda array=array: {"array": array, "again": array}, change)
        read_only = np.arange(3)
        read_only.flags.writeable = False
        self.check(lambda: {"array": read_only}, change)

    def test_texts_have_the_same_bytes(self):
        self.check(
            lambda: [{"loss": 1.0, "step": "loss"}],
            lambda model: model.append({"loss": 2.0, "step": "loss"}),
        )

    def test_objects_that_contain_themselves(self):
        model = []
        model.append(model)
        loaded = _models.load(_models.dump(model), "a model")
        self.assertIs(loaded[0], loaded)

    def test_what_is_no_model(self):
        whole = _models.dump({"some": "model"})
        for data in (b"", b"text", whole[:-1], whole[5:]):
            with self.assertRaisesRegex(ValueError, rf"the model \({len(data)} bytes\) cannot be"):
                _models.load(data, "the model")


class Killed(unittest.TestCase):
    """Ranks that go back to checkpoints."""

    way = "versions"
    flags = ("--snapshots", "off")
    step = 1  # distance of the operations at which test_everywhere kills
    rounds = 6
    bootstrap_operations = 3  # number after the load, in every incarnation
    operations_in_a_round = 4  # including the checkpoint

    def setUp(self):
        os.environ.update(PYTHONPATH=f"{SOURCES}/python", PYTHONDONTWRITEBYTECODE="1")
        self.test = harness.Test(self.id(), FTRUN, HERE, seed=1, long=False)
        self.addCleanup(self.test.close)
        self.command = (sys.executable, f"{HERE}/rounds.py", self.rounds)

    def operations(self):
        return self.test.undisturbed(RANKS, *self.command, flags=self.flags).operations(0)

    def recovers(self, *kills):
        return self.test.recovers(RANKS, *self.command, kills=kills, flags=self.flags)

    def check_returns(self, most=None):
        mock_deaths.check_kinds(self.test.returns, self.way, most)

    def test_everywhere(self):
        for point in ("init", *range(1, self.operations() + 1, self.step), "finalize"):
            place = point if isinstance(point, int) else 0
            self.recovers(Kill(place % RANKS, point, harness.MOMENTS[place // RANKS % 3]))
        self.check_returns()

    def test_several(self):
        half = self.operations() // 2
        self.recovers(*(Kill(rank, half) for rank in range(RANKS)))
        # An incarnation that has loaded a version counts the bootstrap operations again.
        later = half + self.bootstrap_operations + 1
        self.recovers(Kill(1, half), Kill(1, later, "before", incarnation=1), Kill(2, half + 2))
        self.check_returns()

    def test_mock_failures(self):
        """As in the ancestor's test: rank 1 dies after two checkpoints and one operation."""
        mocks = ("mock=1,2,1,0", "mock=1,4,0,1")
        result = self.test.run(RANKS, *self.command, *mocks, flags=self.flags)
        self.assertEqual(result.code, 0, harness.describe(result))
        undisturbed = self.test.undisturbed(RANKS, *self.command, flags=self.flags)
        self.assertEqual(result.out, undisturbed.out)
        deaths = [(event["rank"], event["incarnation"]) for event in result.named("death")]
        self.assertEqual(deaths, [(1, 0), (1, 1)])

    def test_goes_on_at_the_checkpoint(self):
        result = self.recovers(Kill(1, self.operations() - 2 * RANKS))
        replayed = result.named("live", 1)[-1]["replayed_ops"]
        most = self.bootstrap_operations + self.operations_in_a_round
        self.assertLessEqual(replayed, most, harness.describe(result))

    def test_lazy_checkpoints(self):
        """A rank goes on from a pickled model, which only some checkpoints write, and replays the
        rest."""
        # Which checkpoints are operations depends on the time that they take. The other operations
        # of a round are three.
        self.command = (*self.command[:2], 40, "lazy=1")
        for rank in range(RANKS):
            self.recovers(Kill(rank, 100 - rank))
        result = self.recovers(Kill(0, 60), Kill(1, 100), Kill(2, 100, "after"))
        self.assertTrue(result.named("checkpoint"), harness.describe(result))
        self.assertTrue(result.named("live", 1)[-1]["from"].startswith("checkpoint "))

    def test_a_lazy_model_that_cannot_be_pickled(self):
        # With snapshots, one that is made before the first checkpoint would make it copy nothing.
        result = self.test.run(RANKS, *self.command, "lazy=broken", flags=("--snapshots", "off"))
        self.assertEqual(result.code, 1, harness.describe(result))
        self.assertRegex(result.err, r"(?s)Traceback.*pickle.*lambda")
        self.assertNotIn("round 1:", result.out)

    def test_log_ops(self):
        """The call sites are those of the Python program."""
        result = self.test.run(RANKS, *self.command, flags=[*self.flags, "--log-ops"])
        self.assertEqual(result.code, 0, harness.describe(result))
        for name, shape, count in (("allreduce", "8x4", self.rounds), ("bcast", r"1x\d+", 1)):
            line = rf"\[1\] {name} \({HERE}/rounds\.py:\d+::main#{shape}\) finished version "
            self.assertGreaterEqual(len(re.findall(line, result.err)), count, result.err)

    def test_prepares_nothing_twice(self):
        """A rank that dies after an operation replays its result; it does not compute its
        contribution again."""
        half = self.operations() // 2
        for point in range(half, half + self.operations_in_a_round):
            with tempfile.TemporaryDirectory() as directory:
                # The notes must show the calls of all incarnations, which the recording of libc
                # would hide.
                command = (*self.command, f"{directory}/notes")
                kills = [Kill(1, point, "after")]
                flags = (*self.flags, "--libc-recording", "off")
                result = self.test.run(RANKS, *command, kills=kills, flags=flags)
                self.assertEqual(result.code, 0, harness.describe(result))
                harness.check_deaths(result, kills)
                with open(f"{directory}/notes.1") as notes:
                    calls = [int(line) for line in notes]
                self.assertEqual(calls, list(range(self.rounds)), f"killed after {point}")


class KilledWithoutCheckpoints(Killed):
    """The same ranks with the default snapshots: ranks go back to main or to an image."""

    way = "auto"
    flags = ()
    step = 5

    def test_several(self):
        half = self.operations() // 2
        self.recovers(*(Kill(rank, half) for rank in range(RANKS)))
        self.recovers(Kill(1, half), Kill(2, half + 2))
        self.check_returns()

    def test_goes_on_at_the_checkpoint(self):
        """The opposite: a rank computes everything again, or what followed its snapshot."""
        result = self.recovers(Kill(1, self.operations() - 2 * RANKS))
        self.assertFalse(result.named("live", 1)[-1].get("from", "").startswith("checkpoint"))

    def test_lazy_checkpoints(self):
        """All checkpoints except the first two are only counted."""
        self.command = (*self.command[:2], 40, "lazy=1")
        result = self.recovers(Kill(0, 60), Kill(1, 100), Kill(2, 100, "after"))
        made = {event["checkpoint"] for event in result.named("checkpoint")}
        self.assertLessEqual(made, {1, 2}, harness.describe(result))
        self.check_returns()


class KilledWithImages(KilledWithoutCheckpoints):
    """The same with a snapshot every 10 ms, and with rounds that are long enough for images."""

    way = "images"
    flags = ("--snapshots", "0.01")
    step = 6
    # If an image was made before the first checkpoint, no model is pickled.
    test_a_lazy_model_that_cannot_be_pickled = None

    def setUp(self):
        super().setUp()
        self.command = (*self.command, "rest_ms=25")

    def test_lazy_checkpoints(self):
        self.command = (*self.command[:2], 40, "lazy=1", "rest_ms=10")
        self.recovers(Kill(0, 60), Kill(1, 100), Kill(2, 100, "after"))
        self.check_returns()


if __name__ == "__main__":
    unittest.main()
