"""Objects as bytes, the same bytes at every rank and in every incarnation of a rank."""

import io
import pickle

# The newest protocol that writes an array the same way whether it owns its memory or is a view.
_PROTOCOL = 4


def dump(value):
    """Returns bytes from which load() makes an equal object; the same bytes for equal objects.

    An ordinary pickle also records which parts of the object are identical. A rank that has just
    loaded its model differs in that from a rank that has built it. This function leaves it out: a
    part that is referenced twice becomes two parts. Objects that contain themselves need it, and
    are written as an ordinary pickle. Takes the time of one to two copies of the object's arrays.
    Raises the exceptions of pickle.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=_PROTOCOL)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (ValueError, RecursionError):
        return pickle.dumps(value, protocol=_PROTOCOL)
    return stream.getvalue()


def load(data, what):
    """Returns the object that dump() wrote into `data`, a bytes-like object that is not retained.

    what: the object's name for the message. Raises ValueError if `data` is not the whole pickle of
    an object.
    """
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ValueError(
            f"rabit: {what} ({len(data)} bytes) cannot be unpickled: "
            f"{type(error).__name__}: {error}"
        ) from error
