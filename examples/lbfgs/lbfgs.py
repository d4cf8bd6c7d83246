#!/usr/bin/env python3
"""Logistic regression by L-BFGS, with the Python module rabit.

Every rank has a part of the rows, and all ranks make the same steps. The global model is all that
an iteration starts from: the weights, the gradient there, and the last few steps. A rank that is
killed is started again, loads the model, and goes on from there.

    export PYTHONPATH=$PWD/python
    build/bin/ftrun -n 4 /usr/bin/python3 examples/lbfgs/lbfgs.py
    build/bin/ftrun -n 4 --kill 1@10 /usr/bin/python3 examples/lbfgs/lbfgs.py

Both commands print the same. The program needs NumPy (Debian: python3-numpy) and the module rabit:
from python/ of this repository, as here, or installed with `pip install ./python`. Without ftrun it
is a world of one.
"""

import argparse
import os

# NumPy gets one thread in each rank: the ranks run in parallel, and a rank must compute sums in the
# same order in every incarnation.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import rabit  # noqa: E402

SUFFICIENT = 1e-4  # a step must bring this share of the decrease that the gradient predicts
SHORTEST_STEP = 1e-10


def made_up_rows(rank, ranks, rows, features, seed):
    """Returns this rank's (features, labels): shapes (its rows, features) and (its rows,)."""
    first, end = rows * rank // ranks, rows * (rank + 1) // ranks
    truth = np.random.default_rng(seed).standard_normal(features)
    x = np.empty((end - first, features))
    y = np.empty(end - first)
    for i in range(first, end):
        random = np.random.default_rng((seed, i))  # a row is the same whichever rank makes it
        x[i - first] = random.standard_normal(features)
        y[i - first] = random.random() < 1 / (1 + np.exp(-x[i - first] @ truth))
    return x, y


def objective(x, y, weights, penalty):
    """Returns the regularised negative log-likelihood of all rows, and its gradient."""

    def add_my_rows(total):
        margin = x @ weights
        total[0] = np.sum(np.logaddexp(0, margin) - y * margin)
        total[1:] = (1 / (1 + np.exp(-margin)) - y) @ x

    # A restarted rank does not compute its part again if the journal has the result.
    total = rabit.allreduce(np.zeros(len(weights) + 1), rabit.SUM, add_my_rows)
    return total[0] + penalty / 2 * weights @ weights, total[1:] + penalty * weights


def direction(gradient, steps):
    """Returns minus the gradient times an estimate of the inverse Hessian from the last steps.

    steps: pairs of arrays, the oldest first: the change of the weights, and that of the gradient.
    """
    result = -gradient
    shares = []
    for went, change in reversed(steps):
        share = went @ result / (went @ change)
        result = result - share * change
        shares.append(share)
    if steps:
        went, change = steps[-1]
        result = result * (went @ change / (change @ change))
    for (went, change), share in zip(steps, reversed(shares)):
        result = result + (share - change @ result / (went @ change)) * went
    return result


def iterate(model, x, y, options):
    """Makes one step: changes the model, or marks it as done if no step decreases the loss enough."""
    weights, gradient = model["weights"], model["gradient"]
    downhill = direction(gradient, model["steps"])
    slope = gradient @ downhill
    length = 1.0 if model["steps"] else 1 / np.linalg.norm(gradient)
    while True:
        went = length * downhill
        value, new_gradient = objective(x, y, weights + went, options.penalty)
        if value <= model["value"] + SUFFICIENT * length * slope:
            break
        length /= 2
        if length < SHORTEST_STEP:
            model["is_done"] = True
            return
    change = new_gradient - gradient
    if went @ change > 0:
        model["steps"] = [*model["steps"], (went, change)][-options.memory :]
    model.update(weights=weights + went, value=value, gradient=new_gradient)
    model["is_done"] = bool(np.max(np.abs(new_gradient)) < options.tolerance)


def start(x, y, options):
    weights = np.zeros(options.features)
    value, gradient = objective(x, y, weights, options.penalty)
    return dict(weights=weights, value=value, gradient=gradient, steps=[], is_done=False)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4000, help="made-up rows (4000)")
    parser.add_argument("--features", type=int, default=20, help="numbers in a row (20)")
    parser.add_argument("--seed", type=int, default=1, help="of the rows (1)")
    parser.add_argument("--iterations", type=int, default=50, help="at most (50)")
    parser.add_argument("--memory", type=int, default=5, help="steps that are remembered (5)")
    parser.add_argument("--penalty", type=float, default=1.0, help="of large weights (1.0)")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="of the gradient (1e-6)")
    options = parser.parse_args()
    for name, value in vars(options).items():
        least = 1 if name in ("rows", "features", "memory") else 0
        if not value >= least:
            parser.error(f"--{name} {value}: at least {least} is needed")
    return options


def main():
    options = parse_arguments()
    rabit.init()
    rank = rabit.get_rank()
    x, y = made_up_rows(
        rank, rabit.get_world_size(), options.rows, options.features, options.seed
    )

    version, model = rabit.load_checkpoint()
    if version == 0:
        model = start(x, y, options)
    while version < options.iterations and not model["is_done"]:
        iterate(model, x, y, options)
        if rank == 0:
            print(f"iteration {version + 1}: objective {model['value']:.17g}")
        rabit.checkpoint(model)
        version += 1

    if rank == 0:
        print(f"{version} iterations, largest gradient {np.max(np.abs(model['gradient'])):.3g}")
        print(*(f"{weight:.17g}" for weight in model["weights"]), sep="\n")
    rabit.finalize()


if __name__ == "__main__":
    main()
