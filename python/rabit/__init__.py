"""Allreduce, broadcast and checkpoints for programs whose ranks may die; the API of rabit 1.0.

    import numpy as np
    import rabit

    rabit.init()
    version, model = rabit.load_checkpoint()
    if version == 0:
        model = np.zeros(10)
    for iteration in range(version, 20):
        model += rabit.allreduce(my_part_of_the_work(model), rabit.SUM)
        rabit.checkpoint(model)
    rabit.finalize()

Run it with `ftrun -n 4 python3 program.py`; without ftrun it is a world of one. A rank that is
killed is started again. It goes on from a snapshot of its process, or the program runs from its
start and gets the recorded results of its earlier operations. If no snapshots can be made, because
there are other threads, the rank goes on at the newest checkpoint, which it loads.

Every rank must call the same functions in the same order, from its main thread, between init() and
finalize(); other calls raise RuntimeError. What an iteration computes may depend only on the model,
the rank and what the functions return. Random numbers and the clock are recorded from init() on,
and repeated in a restarted rank.
"""

import ctypes
import os
import sys
import traceback
import warnings

try:
    import numpy as np
except ImportError as error:
    raise ImportError(
        "rabit needs NumPy for this Python (Debian: apt-get install python3-numpy)"
    ) from error

from . import _library, _models, _values

__version__ = "0.1.0"
__all__ = [
    "MAX",
    "MIN",
    "SUM",
    "BITOR",
    "init",
    "finalize",
    "get_rank",
    "get_world_size",
    "get_processor_name",
    "tracker_print",
    "allreduce",
    "allgather",
    "barrier",
    "broadcast",
    "load_checkpoint",
    "checkpoint",
    "lazy_checkpoint",
    "version_number",
]

MAX, MIN, SUM, BITOR = range(4)
_OPERATION_NAMES = ("MAX", "MIN", "SUM", "BITOR")

_PROCESSOR_NAME_BYTES = 256

_lib = None
_is_finalized = False
_has_loaded = False
_texts = {}  # file and function names as C strings: the library keeps pointers to them


def init(args=None, lib=None, lib_dll=None):
    """Joins the job. Must be called before all other functions of this module.

    args: list of str, the program's arguments. The library reads those of the form rabit_NAME=VALUE
    and mock=RANK,VERSION,SEQUENCE,DEATHS. None: sys.argv.
    lib: path of librabit.so. None, or one of the ancestor's "standard", "mock" and "mpi": the
    library is looked for in REJOIN_LIBRARY_DIR if that is set. Otherwise the dynamic linker looks
    for it (under ftrun it finds ftrun's own); then it is looked for beside the ftrun in PATH and in
    the build directory beside this module. lib_dll: a ctypes.CDLL to use instead.

    Waits until all ranks have called it. Raises OSError with the places that were tried if there is
    no library, and RuntimeError after finalize(), because a process can join only once. A second
    call before that only warns.

    Returns a context manager, for `with rabit.init(): ...`, that calls finalize() at its end unless
    an exception ends the block.
    """
    global _lib
    if _is_finalized:
        raise RuntimeError("rabit.init: a process that has called finalize() cannot join again")
    if _lib is not None:
        warnings.warn("rabit.init was called before; this call does nothing", stacklevel=2)
        return _Joined()
    words = [os.fsencode(word) for word in (sys.argv if args is None else args)]
    library = _library.load(lib if lib_dll is None else lib_dll)
    if not library.RabitInit(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)):
        raise RuntimeError("rabit.init: MPI was finalized in this process; it cannot join again")
    _lib = library
    return _Joined()


class _Joined:
    def __enter__(self):
        return self

    # After an exception this rank must not wait for the others, which may never call finalize().
    def __exit__(self, exception_type, *_):
        if exception_type is None and _lib is not None:
            finalize()


def finalize():
    """Leaves the job; waits for all ranks. No function of this module may be called afterwards."""
    global _lib, _is_finalized
    library = _joined("finalize")
    _flush()
    library.RabitFinalize()
    _lib = None
    _is_finalized = True


def get_rank():
    """Returns the number of this process, from 0."""
    return _joined("get_rank").RabitGetRank()


def get_world_size():
    """Returns the number of ranks."""
    return _joined("get_world_size").RabitGetWorldSize()


def get_processor_name():
    """Returns the name of this host, a str."""
    library = _joined("get_processor_name")
    name = ctypes.create_string_buffer(_PROCESSOR_NAME_BYTES)
    length = ctypes.c_ulong()
    library.RabitGetProcessorName(name, ctypes.byref(length), _PROCESSOR_NAME_BYTES)
    return os.fsdecode(name.value)


def tracker_print(msg):
    """Prints str(msg) to the user, without adding a line end."""
    _joined("tracker_print").RabitTrackerPrint(str(msg).encode())


def allreduce(data, op, prepare_fun=None, *, is_bootstrap=False):
    """Combines the arrays of all ranks, element by element, and returns the result.

    data: a numpy.ndarray of the same shape and dtype at every rank: int8, uint8, int32, uint32,
    int64, uint64, float16, float32, float64 or bool, in this machine's byte order. Or a number, or
    a list of numbers that is not empty. It is not changed, except by prepare_fun.
    op: MAX, MIN, SUM or BITOR. BITOR takes integers and bool only, and SUM does not take bool.
    float16 is combined as float32 and rounded once.
    prepare_fun: only for arrays of other types than float16 and bool. prepare_fun(data) is called
    to fill `data` in place before it is used, unless the result is recorded: a restarted rank does
    not compute its part of a recorded result again.
    is_bootstrap: whether every process calls this operation after load_checkpoint() and before the
    iterations. A rank that begins at a checkpoint then gets the recorded result, although the other
    ranks called the operation long ago. The result is identified by the line of the call and by how
    often it was called there.

    Returns a new array of the shape and dtype of `data` (a number for a number, a list for a list),
    with the same bits at every rank and in every incarnation.

    Raises TypeError for other data, for a prepare_fun that cannot be used, and ValueError for
    another op; nothing is sent then. If prepare_fun raises an exception, this function raises it in
    a world of one. In a larger world the exception is printed and the process ends, because the
    other ranks wait for the numbers and must not get wrong ones.

    Waits for all ranks. Costs one copy of `data` (two with prepare_fun), some microseconds in
    Python, and the time of MPI_Allreduce.
    """
    library = _joined("allreduce")
    if op not in range(len(_OPERATION_NAMES)):
        raise ValueError(f"rabit.allreduce: op must be MAX, MIN, SUM or BITOR, not {op!r}")
    operand = _values.operand(data, op == BITOR, op == SUM)
    if prepare_fun is not None and not callable(prepare_fun):
        raise TypeError(
            f"rabit.allreduce: prepare_fun must be callable, not {_values.kind(prepare_fun)}"
        )
    if prepare_fun is not None and operand.array is not data:
        raise TypeError(
            f"rabit.allreduce: prepare_fun fills a numpy.ndarray, not {_values.kind(data)} or a "
            "float16 or bool array"
        )
    result = np.array(operand.array, order="C", copy=True)
    errors = []

    def prepare(_):
        try:
            prepare_fun(data)
            np.copyto(result, data)
        except BaseException as error:  # ctypes would print and forget it
            if library.RabitGetWorldSize() > 1:
                _end_process("prepare_fun")
            errors.append(error)

    callback = _library.PREPARE() if prepare_fun is None else _library.PREPARE(prepare)
    _announce(library, is_bootstrap)
    library.RabitAllreduce(result.ctypes.data, result.size, operand.type_number, op, callback, None)
    if errors:
        raise errors[0]
    return operand.restored(result)


def allgather(data, *, is_bootstrap=False):
    """Returns an array of the arrays of all ranks: result[r] is that of rank r.

    data: a numpy.ndarray of the same shape and dtype at every rank, or a number. The dtype may be
    any without Python objects or text. is_bootstrap: as in allreduce().
    Returns a new array of shape (get_world_size(), *data.shape), the same bytes at every rank.
    Raises TypeError for other data. Waits for all ranks. Costs an allreduce of as many bytes as the
    result has.
    """
    library = _joined("allgather")
    mine = np.asarray(data)
    if mine.dtype.hasobject or mine.dtype.kind in "US":
        raise TypeError(f"rabit.allgather takes arrays of numbers, not {_values.kind(data)}")
    result = np.zeros((library.RabitGetWorldSize(), *mine.shape), mine.dtype)
    result[library.RabitGetRank()] = mine
    # Every part is zero at all ranks but one, so the bitwise or of the bytes is the gathered array.
    bits = result.reshape(-1).view(np.uint8)
    _announce(library, is_bootstrap)
    library.RabitAllreduce(bits.ctypes.data, bits.size, _values.BYTES, BITOR, _library.PREPARE(), None)
    return result


def barrier():
    """Waits until every rank has called it."""
    library = _joined("barrier")
    one = np.zeros(1, np.uint8)
    _announce(library)
    library.RabitAllreduce(one.ctypes.data, 1, _values.BYTES, BITOR, _library.PREPARE(), None)


def broadcast(data, root, *, is_bootstrap=False):
    """Returns at every rank an object equal to the one that rank `root` passes as `data`.

    data: an object that can be pickled; ignored at the other ranks. At these, a part that is
    referenced twice becomes two equal parts. The root gets `data` itself.
    is_bootstrap: as in allreduce().
    Raises ValueError if root is no rank. At the root it raises the exceptions of pickle before it
    sends anything. Waits for the root. Costs pickling, two MPI_Bcast (the length and the bytes) and
    unpickling.
    """
    library = _joined("broadcast")
    if not 0 <= root < library.RabitGetWorldSize():
        size = library.RabitGetWorldSize()
        raise ValueError(f"rabit.broadcast: root {root} is not in 0 to {size - 1}")
    is_root = root == library.RabitGetRank()
    pickled = _models.dump(data) if is_root else b""
    length = ctypes.c_ulong(len(pickled))
    _announce(library, is_bootstrap)
    library.RabitBroadcast(ctypes.byref(length), ctypes.sizeof(length), root)
    buffer = ctypes.create_string_buffer(pickled, length.value)
    _announce(library, is_bootstrap)
    library.RabitBroadcast(buffer, length.value, root)
    return data if is_root else _models.load(memoryview(buffer), f"what rank {root} sent")


def load_checkpoint(with_local=False):
    """Returns the state to go on from: (version, global model).

    with_local: return (version, global model, local model) instead.
    The version is that of the newest checkpoint if ranks go back to checkpoints; otherwise it is
    the one with which ftrun --resume has started the job. It is 0 if there is none, and the models
    are then None. A local model that was not passed to checkpoint() is None.

    Must be called once, before the first checkpoint. Raises RuntimeError when it is called again,
    and ValueError for a model that cannot be unpickled. Never waits. Costs unpickling.
    """
    global _has_loaded
    library = _joined("load_checkpoint")
    if _has_loaded:
        raise RuntimeError("rabit.load_checkpoint: called again; a process loads once, at its start")
    _has_loaded = True
    models = [(ctypes.c_void_p(), ctypes.c_ulong()) for _ in range(2)]
    wanted = [ctypes.byref(item) for model in models[: 1 + with_local] for item in model]
    version = library.RabitLoadCheckPoint(*(wanted if with_local else [*wanted, None, None]))
    loaded = [
        _models.load((ctypes.c_char * length.value).from_address(pointer.value), name)
        if version > 0 and length.value > 0
        else None
        for name, (pointer, length) in zip(
            (f"the global model of version {version}", f"the local model of version {version}"),
            models,
        )
    ]
    return (version, *loaded[: 1 + with_local])


def checkpoint(global_model, local_model=None):
    """Makes a checkpoint of the models, which must contain all that later iterations need.

    global_model: an object that can be pickled, equal at every rank; stored once. local_model: this
    rank's own object that can be pickled, or None. A local model is also copied to other places, so
    prefer the global one. Parts that are referenced twice become two equal parts.

    Flushes sys.stdout and sys.stderr first, so that a rank that goes on at the checkpoint does not
    print again what it had printed before. Waits for all ranks. Raises the exceptions of pickle
    before it communicates with other ranks. Costs pickling and a copy.
    """
    library = _joined("checkpoint")
    global_bytes = _models.dump(global_model)
    local_bytes = None if local_model is None else _models.dump(local_model)
    _flush()
    _announce(library)
    library.RabitCheckPoint(global_bytes, len(global_bytes), local_bytes, len(local_bytes or b""))


def lazy_checkpoint(global_model):
    """Makes a checkpoint for which the global model is pickled only if that is worth its cost.

    This is for models whose pickling is expensive compared with an iteration. A rank that goes back
    to checkpoints goes on from the newest model that was pickled, and replays the iterations after
    it. The library decides at rank 0 when to pickle: so often that it costs a fiftieth of the time,
    or when the journal has grown. There is no local model. An exception of pickle ends the job,
    because the other ranks know of the checkpoint already.

    Flushes as checkpoint() does. Waits for all ranks.
    """
    library = _joined("lazy_checkpoint")

    def serialize(_, stream):
        try:
            model = _models.dump(global_model)
            library.RabitStreamWrite(stream, model, len(model))
        except BaseException:  # ctypes would drop it, and the library would store half a model
            traceback.print_exc()
            _flush()
            os._exit(1)

    _flush()
    _announce(library)
    library.RabitLazyCheckPoint(_library.SERIALIZE(serialize), None)


def version_number():
    """Returns the version of the newest checkpoint, which is their number over all incarnations."""
    return _joined("version_number").RabitVersionNumber()


# ------------------------------------------------------------------------------------------- inside


def _joined(name):
    """Returns the library. Raises RuntimeError if this process has not joined a job."""
    if _lib is None:
        when = "after rabit.finalize()" if _is_finalized else "before rabit.init()"
        raise RuntimeError(f"rabit.{name} was called {when}")
    return _lib


def _text(text):
    if text not in _texts:
        _texts[text] = os.fsencode(text)
    return _texts[text]


def _announce(library, is_bootstrap=False):
    """Gives the library the line that calls the next operation, and its bootstrap mark."""
    frame = sys._getframe(2)
    code = frame.f_code
    library.rejoin_call_site(_text(code.co_filename), frame.f_lineno, _text(code.co_name))
    if is_bootstrap:
        library.rejoin_bootstrap(None)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _end_process(what):
    """Prints the exception that is being handled, and ends the process."""
    traceback.print_exc()
    sys.stderr.write(f"rabit: {what} failed; this rank ends before it contributes its numbers\n")
    _flush()
    os._exit(1)
