"""Pickled objects, arrays, requests and communicators through mpi4py.

Every rank prints a digest of all that it received, which determines what it sends next.
"""

import hashlib

import numpy
from mpi4py import MPI

ROUNDS = 12

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
following, before = (rank + 1) % size, (rank - 1) % size
digest = hashlib.sha256(str(rank).encode())


def take(what):
    """Adds a received object to the digest, from which all later messages are made."""
    if isinstance(what, numpy.ndarray):
        what = what.tobytes()
    digest.update(what if isinstance(what, bytes) else repr(what).encode())


def number():
    return int.from_bytes(digest.digest()[:4], "little")


def thing():
    """An object whose size differs by rank and round."""
    n = number()
    return {"rank": rank, "list": list(range(n % 50)), "text": "x" * (n % 3000), "pair": (n, None)}


def objects():
    take(world.sendrecv(thing(), dest=following, source=before))
    request = world.isend(thing(), dest=following, tag=4)
    got = world.irecv(1 << 16, source=before, tag=4)
    take(got.wait())
    request.wait()
    take(world.bcast(thing() if rank == 0 else None, root=0))
    take(world.allgather(thing()))
    take(world.gather(thing(), root=size - 1))
    take(world.scatter([thing()] * size if rank == 0 else None, root=0))
    take(world.alltoall([(rank, to, number()) for to in range(size)]))
    take(world.allreduce(number()))
    take(world.reduce([rank], root=0))  # lists are concatenated
    take(world.scan(number()))


def arrays():
    values = numpy.random.default_rng(number()).integers(0, 1 << 40, 500)
    got = numpy.empty_like(values)
    requests = [world.Irecv(got, source=before, tag=5), world.Isend(values, following, tag=5)]
    MPI.Request.Waitall(requests)
    take(got)
    world.Allreduce(values, got, op=MPI.MAX)
    take(got)
    world.Allreduce(MPI.IN_PLACE, got, op=MPI.SUM)
    take(got)
    matrix = numpy.arange(36, dtype="i8").reshape(6, 6) * (number() % 97)
    column = MPI.INT64_T.Create_vector(6, 1, 6).Commit()
    row = numpy.empty(6, dtype="i8")
    world.Sendrecv([matrix.ravel()[2:], 1, column], following, recvbuf=row, source=before)
    column.Free()
    take(row)
    counts = [i + 1 for i in range(size)]
    parts = numpy.empty(sum(counts), dtype="f8")
    world.Allgatherv(numpy.full(rank + 1, number() / 7), [parts, counts])
    take(parts)


def any_source():
    """Rank 0 receives messages in the order of their arrival; the digest does not depend on it."""
    if rank == 0:
        status = MPI.Status()
        got = {}
        for _ in range(size - 1):
            world.Probe(status=status)
            source = status.Get_source()
            got[source] = world.recv(source=source, tag=status.Get_tag())
        take(sorted(got.items()))
    else:
        world.send(number(), dest=0, tag=rank)
    world.Barrier()


def operation():
    def larger_odd(first, second, datatype):
        a = numpy.frombuffer(first, dtype="i8")
        b = numpy.frombuffer(second, dtype="i8")
        b[:] = numpy.maximum(a | 1, b | 1)

    op = MPI.Op.Create(larger_odd, commute=True)
    got = numpy.empty(8, dtype="i8")
    world.Allreduce(numpy.full(8, number(), dtype="i8"), got, op=op)
    op.Free()
    take(got)


def communicators():
    half = world.Split(color=rank % 2, key=-rank)
    take(half.allgather((rank, number())))
    half.Free()
    grid = world.Create_cart(MPI.Compute_dims(size, 2), periods=[True, False])
    source, dest = grid.Shift(0, 1)
    take(grid.sendrecv(number(), dest=dest, source=source))
    keyval = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: value + 1)
    grid.Set_attr(keyval, 41)
    copy = grid.Dup()
    take(copy.Get_attr(keyval))
    copy.Free()
    grid.Free()
    MPI.Comm.Free_keyval(keyval)


for _ in range(ROUNDS):
    objects()
    arrays()
    any_source()
    operation()
    communicators()
print(f"rank {rank} of {size}: {digest.hexdigest()}", flush=True)
