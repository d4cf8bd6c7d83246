"""A program for the module rabit whose ranks are killed.

rounds.py ROUNDS [NOTES] [lazy=1] [rest_ms=0] [mock=...]

Each round reduces, broadcasts and makes a checkpoint of a global and a local model; rank 0 prints.
lazy: the checkpoints are lazy ones, of one large model, which contains the local one and is the same
at all ranks. lazy=broken: this model cannot be pickled. NOTES: every call of a prepare function adds
a line to the file NOTES.RANK.
"""

import sys
import time

import numpy as np

import rabit


def main():
    rounds, notes = int(sys.argv[1]), [word for word in sys.argv[2:] if "=" not in word]
    lazy = [word[5:] for word in sys.argv[2:] if word.startswith("lazy=")]
    rest_s = sum(float(word[8:]) / 1000 for word in sys.argv[2:] if word.startswith("rest_ms="))
    rabit.init()
    rank, size = rabit.get_rank(), rabit.get_world_size()

    version, model, local = rabit.load_checkpoint(with_local=True)
    mine = 0 if lazy else rank
    # Every incarnation executes this: a restarted rank receives results that the others got long
    # ago.
    shift = rabit.allreduce(np.array([1.0 + rank]), rabit.SUM, is_bootstrap=True)[0]
    names = rabit.broadcast(["north", "south"] if rank == 0 else None, 0, is_bootstrap=True)
    if version == 0:
        model = {"total": np.zeros(4), "log": []}
        local = [mine]
        if lazy:
            model["ballast"] = np.arange(2e5)
    elif lazy:
        local = model["local"]
    for number in range(version, rounds):
        time.sleep(rest_s)

        def fill(array, number=number):
            for path in notes:
                with open(f"{path}.{rank}", "a") as file:
                    print(number, file=file)
            array[:] = model["total"] * (rank + 1) + number + shift

        total = rabit.allreduce(np.zeros(4), rabit.SUM, fill)
        root = number % size
        word = None
        if rank == root:
            word = {"root": root, "local": list(local), "name": names[number % 2]}
        word = rabit.broadcast(word, root)
        # Parts that are the same object here are two objects in a rank that has loaded them.
        model["total"] = total % 97 + 1
        model["log"].append({"round": number, "word": word, "total": model["total"]})
        local.append(int(total[0]) % 1009 + mine)
        if rank == 0:
            print(f"round {number}: {total[0]:.17g} {word}")
        if lazy:
            model["local"] = local
            rabit.lazy_checkpoint(model if lazy != ["broken"] else lambda: None)
        else:
            rabit.checkpoint(model, local)

    everything = [rabit.broadcast(local, root) for root in range(size)]
    if rank == 0:
        print(rabit.version_number(), everything, model)
    rabit.finalize()


if __name__ == "__main__":
    main()
