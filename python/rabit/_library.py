"""Finds librabit.so, loads it, and declares its functions' parameters and results."""

import ctypes
import os
import shutil

NAME = "librabit.so"
# Names of the ancestor's builds. Here all of them mean the same library, in which mock failures
# work.
ANCESTORS_NAMES = ("standard", "mock", "mpi")

PREPARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SERIALIZE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def _status(code):
    if code != 0:
        raise RuntimeError("rabit: librabit.so refused a call; standard error says why")


_c_ulong_p = ctypes.POINTER(ctypes.c_ulong)
_c_void_pp = ctypes.POINTER(ctypes.c_void_p)
_SIGNATURES = {
    "RabitInit": (ctypes.c_bool, [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
    "RabitFinalize": (ctypes.c_bool, []),
    "RabitGetRank": (ctypes.c_int, []),
    "RabitGetWorldSize": (ctypes.c_int, []),
    "RabitVersionNumber": (ctypes.c_int, []),
    "RabitTrackerPrint": (_status, [ctypes.c_char_p]),
    "RabitGetProcessorName": (_status, [ctypes.c_char_p, _c_ulong_p, ctypes.c_ulong]),
    "RabitBroadcast": (_status, [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int]),
    "RabitAllreduce": (
        _status,
        [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            PREPARE,
            ctypes.c_void_p,
        ],
    ),
    "RabitLoadCheckPoint": (ctypes.c_int, [_c_void_pp, _c_ulong_p, _c_void_pp, _c_ulong_p]),
    "RabitCheckPoint": (
        _status,
        [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_ulong],
    ),
    "RabitLazyCheckPoint": (_status, [SERIALIZE, ctypes.c_void_p]),
    "RabitStreamWrite": (None, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong]),
    "rejoin_bootstrap": (None, [ctypes.c_char_p]),
    "rejoin_call_site": (None, [ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p]),
}


def _candidates():
    """Returns the paths to try, best first. The dynamic linker looks for a bare name.

    The linker comes before the build tree because ftrun puts the directory of its own libraries
    first in LD_LIBRARY_PATH, and only its own library fits it. A program that runs without ftrun
    finds the library beside the ftrun in PATH.
    """
    directory = os.environ.get("REJOIN_LIBRARY_DIR")
    if directory:
        return [os.path.join(directory, NAME)]
    here = os.path.dirname(os.path.abspath(__file__))
    ftrun = shutil.which("ftrun")
    installed = []
    if ftrun:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(ftrun)))
        installed = [os.path.join(prefix, "lib", "rejoin", NAME)]
    return [NAME, *installed, os.path.normpath(os.path.join(here, "..", "..", "build", "lib", NAME))]


def load(lib=None):
    """Returns the library as a ctypes.CDLL whose functions are declared.

    lib: the path of a library, a ctypes.CDLL, or None (or one of ANCESTORS_NAMES) to look for it.
    Raises OSError with every place that was tried if no library can be loaded, or if a library that
    was found is not Rejoin's.
    """
    if isinstance(lib, ctypes.CDLL):
        return _declare(lib)
    paths = _candidates() if lib is None or lib in ANCESTORS_NAMES else [os.fspath(lib)]
    failures = []
    for path in paths:
        try:
            return _declare(ctypes.CDLL(path))
        except OSError as error:
            failures.append(f"  {path}: {error}")
    raise OSError(
        "\n".join(
            [
                f"rabit: cannot load Rejoin's {NAME}. Tried",
                *failures,
                "Start the program with ftrun, which knows where it is, or set REJOIN_LIBRARY_DIR "
                "to the directory that holds it (lib/ of the build directory).",
            ]
        )
    )


def _declare(library):
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise OSError(f"not Rejoin's library: {library._name} has no {name}") from None
        function.restype, function.argtypes = result, arguments
    return library
