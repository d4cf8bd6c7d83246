"""Converts the data that allreduce() accepts to arrays that the library combines."""

import typing

import numpy as np

# NumPy's kind and size in bytes -> the C API's number of the type.
_TYPES = {"i1": 0, "u1": 1, "i4": 2, "u4": 3, "i8": 4, "u8": 5, "f4": 6, "f8": 7}
_TYPE_NAMES = "int8, uint8, int32, uint32, int64, uint64, float16, float32, float64 and bool"
BYTES = _TYPES["u1"]


class Operand(typing.NamedTuple):
    """An array of a type that the library combines. restored(result) converts the result back."""

    array: np.ndarray
    type_number: int
    restored: typing.Callable


def kind(value):
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def operand(data, of_bits, is_sum):
    """Returns the Operand for `data`. Raises TypeError for data that cannot be combined.

    of_bits: whether the operation is BITOR; is_sum: whether it is SUM.
    """
    if isinstance(data, np.ndarray):
        return _of_array(data, of_bits, is_sum)
    if isinstance(data, (bool, int, float, np.number, np.bool_)):
        inner = _of_array(np.array(data), of_bits, is_sum)
        if isinstance(data, np.generic):
            return inner._replace(restored=lambda result: inner.restored(result)[()])
        return inner._replace(restored=lambda result: inner.restored(result).item())
    if isinstance(data, list) and data and all(isinstance(v, (bool, int, float)) for v in data):
        inner = _of_array(np.array(data), of_bits, is_sum)
        return inner._replace(restored=lambda result: inner.restored(result).tolist())
    raise TypeError(
        f"rabit.allreduce takes a numpy.ndarray, a number or a list of numbers, not {kind(data)}; "
        "convert it with numpy.array()"
    )


def _of_array(data, of_bits, is_sum):
    if of_bits and data.dtype.kind == "f":
        raise TypeError(f"rabit.allreduce: BITOR takes integers, not {data.dtype}")
    if data.dtype == np.bool_:
        if is_sum:
            raise TypeError(
                "rabit.allreduce: SUM does not take bool; convert it with data.astype(int)"
            )
        return Operand(data.view(np.uint8), BYTES, lambda result: result.view(np.bool_))
    if data.dtype == np.float16 and data.dtype.isnative:
        wider = data.astype(np.float32)
        return Operand(wider, _TYPES["f4"], lambda result: result.astype(np.float16))
    number = _TYPES.get(f"{data.dtype.kind}{data.dtype.itemsize}")
    if number is None or not data.dtype.isnative:
        raise TypeError(
            f"rabit.allreduce does not combine {data.dtype.str} ({data.dtype}), only {_TYPE_NAMES} "
            "in native byte order; convert it with data.astype()"
        )
    return Operand(data, number, lambda result: result)
