"""Rounds on the module rabit, in every form of model, set-up and call.

forms.py [model=global|local|lazy] [lines=1|2] [setup=before|behind|first] [mark=0|1] [shares=0|1]
         [rounds=8] [rest_ms=0] [mock=...]

lines=2: rank 0 calls broadcast from a line of its own. setup: the set-up is before the load, behind
it, or where the first round of a process needs it. mark=1: the set-up is marked with is_bootstrap.
shares=1: the first round maps memory that is shared with others, so there are no images. The set-up has 4 operations, and so has a
round. Every rank prints a digest of its models.
"""

import hashlib
import sys
import mmap
import time

import numpy as np

import rabit

OPTIONS = {
    "model": "global", "lines": "1", "setup": "before", "mark": "0", "shares": "0", "rounds": "8",
    "rest_ms": "0",
}  # fmt: skip
OPTIONS.update(word.split("=", 1) for word in sys.argv[1:])


def add(values, is_setup=False):
    return rabit.allreduce(values, rabit.SUM, is_bootstrap=is_setup and OPTIONS["mark"] == "1")


def send(value, is_setup=False):
    marked = is_setup and OPTIONS["mark"] == "1"
    if rabit.get_rank() == 0 and OPTIONS["lines"] == "2":
        return rabit.broadcast(value, 0, is_bootstrap=marked)
    return rabit.broadcast(value if rabit.get_rank() == 0 else None, 0, is_bootstrap=marked)


def set_up():
    histogram = add(np.arange(8.0) + rabit.get_rank(), True)
    cuts = send([float(x) for x in histogram[:3]], True)
    scale = add(np.array([1.0 + rabit.get_rank()]), True)[0]
    return {"histogram": histogram, "cuts": cuts, "scale": scale}


def main():
    rabit.init()
    rank = rabit.get_rank()
    made = set_up() if OPTIONS["setup"] == "before" else None
    assert rabit.version_number() == 0
    with_local = OPTIONS["model"] == "local"
    version, model, *local = rabit.load_checkpoint(with_local=with_local)
    assert rabit.version_number() == version and (version > 0 or model is None and not any(local))
    if version == 0:
        model = {"weights": np.ones(8), "log": []}
        local = [[rank]]
    if OPTIONS["setup"] == "behind":
        made = set_up()
    shared = None
    for number in range(version, int(OPTIONS["rounds"])):
        time.sleep(int(OPTIONS["rest_ms"]) / 1000)
        if OPTIONS["shares"] == "1" and shared is None:
            shared = mmap.mmap(-1, 4096)
        if made is None:
            made = set_up()
        mine = local[0] if with_local else model["log"]
        total = add(model["weights"] * (rank + number) + len(mine) + sum(mine[-2:]))
        word = send({"round": number, "total": total, "cuts": made["cuts"]})
        greatest = rabit.allreduce(np.array([rank * number % 5, sum(mine) % 11]), rabit.MAX)
        model["weights"] = (total * made["scale"] + word["total"] + made["histogram"]) % 97
        model["log"].append(int(greatest[0]) + number)
        if with_local:
            local[0].append(int(total[0]) % 13 + rank)
            rabit.checkpoint(model, local[0])
        elif OPTIONS["model"] == "lazy":
            rabit.lazy_checkpoint(model)
        else:
            rabit.checkpoint(model)
        assert rabit.version_number() == number + 1
    text = repr((model, local if with_local else None)).encode()
    print(f"[{rank}] version {rabit.version_number()} {hashlib.sha1(text).hexdigest()}", flush=True)
    rabit.finalize()


if __name__ == "__main__":
    main()
