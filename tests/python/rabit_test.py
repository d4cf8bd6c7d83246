#!/usr/bin/env python3
"""The Python module rabit, as its documentation says. Every rank of a world of any size runs this.

PYTHONPATH=python REJOIN_LIBRARY_DIR=build/lib /usr/bin/python3 tests/python/rabit_test.py
PYTHONPATH=python build/bin/ftrun -n 3 --no-restart /usr/bin/python3 tests/python/rabit_test.py
"""

import unittest
import warnings

import numpy as np

import rabit

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
INTEGERS = tuple(name for name in TYPES if "int" in name)
OPERATIONS = {
    rabit.MAX: np.maximum.reduce,
    rabit.MIN: np.minimum.reduce,
    rabit.SUM: lambda parts: np.add.reduce(parts, dtype=parts[0].dtype),
    rabit.BITOR: np.bitwise_or.reduce,
}


def setUpModule():
    rabit.init(["rabit_test", "an_argument=of_the_program"])


def tearDownModule():
    rabit.finalize()


def part(rank, shape, dtype):
    """Returns the contribution of a rank: small whole numbers, so that every type holds every sum
    exactly."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + rank * 5) % 23).astype(dtype).reshape(shape)


def all_parts(shape, dtype):
    return [part(rank, shape, dtype) for rank in range(rabit.get_world_size())]


class Same:
    """A model that is equal to another if the attributes are, and is pickled by name."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def __eq__(self, other):
        return type(other) is Same and self.__dict__ == other.__dict__


class World(unittest.TestCase):
    def test_every_rank_is_there_once(self):
        size, rank = rabit.get_world_size(), rabit.get_rank()
        self.assertIn(rank, range(size))
        places = np.zeros(size, dtype="int32")
        places[rank] = 1
        np.testing.assert_array_equal(rabit.allreduce(places, rabit.SUM), np.ones(size))

    def test_processor_name_is_text(self):
        name = rabit.get_processor_name()
        self.assertIsInstance(name, str)
        self.assertTrue(name)

    def test_tracker_print_takes_anything(self):
        rabit.tracker_print("a line, über alles\n")
        rabit.tracker_print(["no", "text"])

    def test_second_init_warns_and_does_nothing(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rabit.init()
        self.assertEqual(len(caught), 1)
        self.assertIn("called before", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)


class Allreduce(unittest.TestCase):
    def check(self, shape, dtype, op):
        mine = part(rabit.get_rank(), shape, dtype)
        before = mine.copy()
        result = rabit.allreduce(mine, op)
        np.testing.assert_array_equal(mine, before)
        expected = OPERATIONS[op](all_parts(shape, dtype))
        np.testing.assert_array_equal(result, expected)
        self.assertEqual((result.dtype, result.shape), (mine.dtype, mine.shape))
        self.assertIs(type(result), np.ndarray)
        self.assertFalse(np.shares_memory(result, mine))

    def test_types_and_operations(self):
        for dtype in TYPES:
            for op in OPERATIONS:
                if op != rabit.BITOR or dtype in INTEGERS:
                    with self.subTest(dtype=dtype, op=op):
                        self.check((5,), dtype, op)

    def test_shapes(self):
        for shape in ((), (0,), (1,), (3, 4), (2, 0, 3), (2, 3, 4), (100_000,)):
            with self.subTest(shape=shape):
                self.check(shape, "float64", rabit.SUM)

    def test_extreme_values(self):
        for dtype in INTEGERS:
            limits = np.iinfo(dtype)
            ends = np.array([limits.min, limits.max], dtype)
            with self.subTest(dtype=dtype):
                for op in (rabit.MAX, rabit.MIN):
                    np.testing.assert_array_equal(rabit.allreduce(ends, op), ends)

    def test_every_name_of_a_type(self):
        for dtype in ("longlong", "ulonglong", "intc", "int_", "=f8"):
            with self.subTest(dtype=dtype):
                self.check((3,), dtype, rabit.MAX)

    def test_views(self):
        whole = part(rabit.get_rank(), (6, 8), "float32")
        parts = all_parts((6, 8), "float32")
        for name, view in (
            ("transposed", lambda a: a.T),
            ("every second", lambda a: a[::2, 1::2]),
            ("backwards", lambda a: a[::-1]),
            ("one column", lambda a: a[:, 3]),
            ("column order", np.asfortranarray),
        ):
            with self.subTest(name):
                result = rabit.allreduce(view(whole), rabit.SUM)
                np.testing.assert_array_equal(result, sum(view(p) for p in parts))

    def test_read_only(self):
        mine = part(rabit.get_rank(), (4,), "int32")
        mine.flags.writeable = False
        np.testing.assert_array_equal(
            rabit.allreduce(mine, rabit.MAX), np.maximum.reduce(all_parts((4,), "int32"))
        )

    def test_same_bits_everywhere(self):
        mine = np.random.default_rng(rabit.get_rank()).standard_normal(1000)
        result = rabit.allreduce(mine, rabit.SUM)
        from_first = rabit.broadcast(result.tobytes(), 0)
        self.assertEqual(result.tobytes(), from_first)

    def test_numbers(self):
        size = rabit.get_world_size()
        ranks = size * (size - 1) // 2
        for value, expected in ((rabit.get_rank(), ranks), (1.5 * rabit.get_rank(), 1.5 * ranks),
                                ([1, rabit.get_rank()], [size, ranks]),
                                ([0.5], [0.5 * size])):  # fmt: skip
            with self.subTest(value=value):
                result = rabit.allreduce(value, rabit.SUM)
                self.assertEqual((result, type(result)), (expected, type(value)))
        result = rabit.allreduce(np.float32(2), rabit.SUM)
        self.assertEqual((result, type(result)), (2 * size, np.float32))

    def test_bool(self):
        mine = np.array([rabit.get_rank() == 0, True, False])
        for op, expected in ((rabit.MAX, [True, True, False]), (rabit.BITOR, [True, True, False]),
                             (rabit.MIN, [rabit.get_world_size() == 1, True, False])):  # fmt: skip
            result = rabit.allreduce(mine, op)
            self.assertEqual((result.tolist(), result.dtype), (expected, np.bool_))
        self.assertIs(rabit.allreduce(rabit.get_rank() == 0, rabit.MAX), True)
        with self.assertRaisesRegex(TypeError, "SUM does not take bool"):
            rabit.allreduce(mine, rabit.SUM)

    def test_half_precision_is_rounded_once(self):
        mine = np.array([2048, 1], np.float16)  # 2049 lies between two numbers of float16.
        result = rabit.allreduce(mine, rabit.SUM)
        expected = (np.array([2048, 1], np.float32) * rabit.get_world_size()).astype(np.float16)
        self.assertEqual(result.dtype, np.float16)
        np.testing.assert_array_equal(result, expected)
        with self.assertRaisesRegex(TypeError, "prepare_fun fills a numpy.ndarray"):
            rabit.allreduce(mine, rabit.SUM, lambda data: None)

    def test_only_numbers(self):
        for value in ((1,), [], ["1"], [[1]], 1j, "text", None, memoryview(b"1")):
            with self.subTest(value=value):
                with self.assertRaisesRegex(TypeError, "takes a numpy.ndarray, a number or a list"):
                    rabit.allreduce(value, rabit.SUM)

    def test_only_some_types(self):
        swapped = np.dtype("float64").newbyteorder()
        for dtype in ("longdouble", "complex128", "int16", "U3", "O", swapped):
            with self.subTest(dtype=dtype):
                with self.assertRaisesRegex(TypeError, "does not combine .* only int8"):
                    rabit.allreduce(np.zeros(3, dtype), rabit.SUM)

    def test_no_bits_of_floats(self):
        for dtype in ("float32", "float64"):
            with self.assertRaisesRegex(TypeError, "BITOR takes integers, not " + dtype):
                rabit.allreduce(np.zeros(3, dtype), rabit.BITOR)

    def test_only_some_operations(self):
        for op in (-1, 4, None, "sum"):
            with self.subTest(op=op):
                with self.assertRaisesRegex(ValueError, "op must be MAX, MIN, SUM or BITOR, not"):
                    rabit.allreduce(np.zeros(3), op)


class Allgather(unittest.TestCase):
    def test_arrays_of_any_numbers(self):
        for dtype in (*TYPES, "float16", "bool", "complex128", "int16", "i4,f8"):
            for shape in ((), (0,), (3,), (2, 3)):
                with self.subTest(dtype=dtype, shape=shape):
                    mine = np.zeros(shape, dtype)
                    mine.reshape(-1).view("u1")[:] = rabit.get_rank() + 1 if dtype != "bool" else 1
                    result = rabit.allgather(mine)
                    self.assertEqual((result.dtype, result.shape),
                                     (mine.dtype, (rabit.get_world_size(), *shape)))
                    self.assertEqual(result[rabit.get_rank()].tobytes(), mine.tobytes())
                    self.assertEqual(rabit.broadcast(result.tobytes(), 0), result.tobytes())

    def test_numbers(self):
        result = rabit.allgather(-0.0 if rabit.get_rank() == 0 else float("nan"))
        self.assertTrue(np.signbit(result[0]))
        self.assertEqual(rabit.allgather(rabit.get_rank()).tolist(),
                         list(range(rabit.get_world_size())))

    def test_nothing_else(self):
        for value in ("text", None, np.array(["x"]), [object()]):
            with self.assertRaisesRegex(TypeError, "takes arrays of numbers"):
                rabit.allgather(value)


class Barrier(unittest.TestCase):
    def test_all_ranks_come(self):
        for _ in range(3):
            self.assertIsNone(rabit.barrier())


class Prepare(unittest.TestCase):
    def test_fills_the_array(self):
        calls = []

        def fill(array):
            calls.append(array)
            array[:] = part(rabit.get_rank(), (4,), "float64")

        data = np.full(4, -1.0)
        result = rabit.allreduce(data, rabit.SUM, prepare_fun=fill)
        np.testing.assert_array_equal(result, sum(all_parts((4,), "float64")))
        np.testing.assert_array_equal(data, part(rabit.get_rank(), (4,), "float64"))
        self.assertEqual(len(calls), 1)
        self.assertIs(calls[0], data)

    def test_fills_a_view(self):
        whole = np.zeros((3, 4), "int32")
        column = whole[:, 2]
        result = rabit.allreduce(column, rabit.MAX, lambda array: array.fill(7))
        np.testing.assert_array_equal(result, [7, 7, 7])
        self.assertEqual(whole.sum(), 21)

    def test_must_be_callable(self):
        with self.assertRaisesRegex(TypeError, "prepare_fun must be callable, not list"):
            rabit.allreduce(np.zeros(3), rabit.SUM, [])

    def test_exception_reaches_the_caller(self):
        if rabit.get_world_size() > 1:
            self.skipTest("the process ends; processes_test.py looks at that")
        for error in (ZeroDivisionError("mine"), KeyboardInterrupt()):

            def fail(_, error=error):
                raise error

            with self.assertRaises(type(error)) as caught:
                rabit.allreduce(np.zeros(3), rabit.SUM, fail)
            self.assertIs(caught.exception, error)


class Broadcast(unittest.TestCase):
    def check(self, value):
        for root in range(rabit.get_world_size()):
            is_root = rabit.get_rank() == root
            received = rabit.broadcast(value if is_root else "ignored", root)
            self.assertEqual(received, value)
            self.assertIs(type(received), type(value))

    def test_objects(self):
        recursive = []
        for value in (
            None,
            True,
            -(10**40),
            2.5,
            "text, Ümlaut",
            b"",
            b"bytes\0",
            (1, [2, {"three": {4, 5}}]),
            Same(name="x", values=[Same(a=1)]),
            Same,
            range(10**6),
            list(range(100_000)),
        ):
            with self.subTest(value=str(value)[:40]):
                self.check(value)
        recursive.append(recursive)
        received = rabit.broadcast(recursive, 0)
        self.assertIs(received[0], received)

    def test_arrays(self):
        for value in (
            np.arange(12.0).reshape(3, 4).T,
            np.array(3 + 4j),
            np.array(["a", "bcd"]),
            np.arange(1_000_000, dtype="int16"),
        ):
            received = rabit.broadcast(value if rabit.get_rank() == 0 else None, 0)
            np.testing.assert_array_equal(received, value)
            self.assertEqual(received.dtype, value.dtype)
            self.assertTrue(received.flags.writeable)

    def test_root_gets_its_object(self):
        value = [1]
        received = rabit.broadcast(value, 0)
        self.assertEqual(received is value, rabit.get_rank() == 0)

    def test_bad_root(self):
        for root in (-1, rabit.get_world_size(), 10**10):
            with self.assertRaisesRegex(ValueError, f"root {root} is not in 0 to"):
                rabit.broadcast(1, root)

    def test_what_does_not_pickle(self):
        with self.assertRaisesRegex(Exception, "pickle"):
            rabit.broadcast(lambda: 1, rabit.get_rank())


class Checkpoints(unittest.TestCase):
    def test_versions(self):
        """Loads first, as every program does; then the version is the number of checkpoints."""
        self.assertEqual(rabit.load_checkpoint(with_local=True), (0, None, None))
        self.assertEqual(rabit.version_number(), 0)
        model = {"weights": np.arange(5.0), "history": []}
        for version in range(1, 6):
            model["history"].append({"version": version})
            if version % 2:
                rabit.checkpoint(model)
            else:
                rabit.checkpoint(model, local_model=("mine", rabit.get_rank()))
            self.assertEqual(rabit.version_number(), version)
        with self.assertRaisesRegex(Exception, "pickle"):
            rabit.checkpoint(lambda: 1)
        with self.assertRaisesRegex(Exception, "pickle"):
            rabit.checkpoint(1, lambda: 1)
        self.assertEqual(rabit.version_number(), 5)


if __name__ == "__main__":
    unittest.main()
