#!/usr/bin/env python3
"""Evolves DNA along a random tree and writes the files with which ExaML searches for that tree.

Writes PREFIX.phy (the alignment, in relaxed PHYLIP), PREFIX.true.tree (the tree along which it
evolved) and PREFIX.start.tree (a tree of the same taxa that is some random moves away, from which
the search begins). The same options and seed give the same files.

The model is a Yule tree with exponential branch lengths, and HKY-like substitution with unequal
base frequencies. Every site has its own rate, drawn from a gamma distribution of mean 1. The events
of a branch of length t are drawn exactly: their number is Poisson, each falls on a site with
probability proportional to the site's rate, and they are applied in order (uniformisation).
"""

import argparse
import itertools
import random

BASES = "ACGT"
FREQUENCIES = (0.30, 0.20, 0.22, 0.28)
TRANSITION_BIAS = 3.0  # a <-> g and c <-> t happen this many times more often than the others
TRANSITION_PARTNER = {0: 2, 1: 3, 2: 0, 3: 1}


class Node:
    """A node of a rooted binary tree; `length` is the branch to its parent in expected events."""

    def __init__(self, length, name=None, children=()):
        self.length = length
        self.name = name
        self.children = list(children)


def branch_length(rng, mean):
    """Returns a random branch length, not so short that data cannot show it, and not saturated."""
    return min(max(rng.expovariate(1.0 / mean), 0.2 * mean), 4.0 * mean)


def yule_tree(rng, taxa_count, mean):
    """Returns a random tree: begins with two leaves, and splits random leaves until all are there."""
    leaves = [Node(branch_length(rng, mean)), Node(branch_length(rng, mean))]
    root = Node(0.0, children=leaves)
    leaves = list(leaves)
    while len(leaves) < taxa_count:
        parent = leaves.pop(rng.randrange(len(leaves)))
        parent.children = [Node(branch_length(rng, mean)), Node(branch_length(rng, mean))]
        leaves += parent.children
    width = len(str(taxa_count))
    for number, leaf in enumerate(leaves, start=1):
        leaf.name = f"t{number:0{width}d}"
    return root


def jump_table():
    """Returns for each state the cumulated probabilities of the next state, self loops included.

    The self loops make the rate of events the same for all states, as uniformisation requires.
    """
    rates = []
    for state in range(4):
        rates.append(
            [
                0.0
                if other == state
                else FREQUENCIES[other]
                * (TRANSITION_BIAS if TRANSITION_PARTNER[state] == other else 1.0)
                for other in range(4)
            ]
        )
    fastest = max(sum(row) for row in rates)
    for state, row in enumerate(rates):
        row[state] = fastest - sum(row)
    # Branch lengths count changes of state, so events, which include self loops, are more frequent.
    mean_rate = sum(FREQUENCIES[state] * (fastest - rates[state][state]) for state in range(4))
    return [list(itertools.accumulate(row)) for row in rates], fastest / mean_rate


def poisson(rng, mean):
    """Returns the number of arrivals of a unit-rate process in the time `mean`."""
    count = 0
    time = rng.expovariate(1.0)
    while time < mean:
        count += 1
        time += rng.expovariate(1.0)
    return count


def evolve(rng, root, sites_count, gamma_shape):
    """Returns {taxon name: bytes of bases}."""
    rates = [rng.gammavariate(gamma_shape, 1.0 / gamma_shape) for _ in range(sites_count)]
    cumulated_rates = list(itertools.accumulate(rates))
    jumps, events_per_change = jump_table()
    sites = range(sites_count)
    states = range(4)
    sequences = {}
    ancestor = bytearray(rng.choices(states, FREQUENCIES, k=sites_count))
    to_bases = bytes.maketrans(bytes(states), BASES.encode())
    stack = [(child, ancestor) for child in reversed(root.children)]
    while stack:
        node, parent_sequence = stack.pop()
        sequence = bytearray(parent_sequence)
        events = poisson(rng, node.length * events_per_change * cumulated_rates[-1])
        for site in rng.choices(sites, cum_weights=cumulated_rates, k=events):
            sequence[site] = rng.choices(states, cum_weights=jumps[sequence[site]])[0]
        if node.name:
            sequences[node.name] = bytes(sequence).translate(to_bases)
        for child in reversed(node.children):
            stack.append((child, sequence))
    return sequences


def nodes_below(root):
    """Returns every (parent, child) pair, parents first."""
    pairs = []
    stack = [root]
    while stack:
        parent = stack.pop()
        for child in parent.children:
            pairs.append((parent, child))
            stack.append(child)
    return pairs


def prune_and_regraft(rng, root):
    """Moves one random subtree to another random branch."""
    while True:
        pairs = nodes_below(root)
        parent, moved = rng.choice([pair for pair in pairs if pair[0] is not root])
        forbidden = {id(node) for _, node in nodes_below(moved)} | {id(moved), id(parent)}
        sibling = next(child for child in parent.children if child is not moved)
        forbidden.add(id(sibling))
        targets = [pair for pair in pairs if id(pair[1]) not in forbidden]
        if targets:
            break
    grandparent = next(above for above, node in pairs if node is parent)
    target_parent, target = rng.choice(targets)
    sibling.length += parent.length
    grandparent.children[grandparent.children.index(parent)] = sibling
    parent.children = [target, moved]
    parent.length = target.length = target.length / 2
    target_parent.children[target_parent.children.index(target)] = parent


def newick(root):
    """Returns the unrooted tree as text: three branches meet at the top level, as ExaML expects."""

    def text(node):
        inner = f"({','.join(text(child) for child in node.children)})" if node.children else ""
        return f"{inner}{node.name or ''}:{node.length:.6f}"

    first, second = root.children
    if not first.children:
        first, second = second, first
    second.length += first.length
    branches = [*first.children, second]
    result = f"({','.join(text(branch) for branch in branches)});\n"
    second.length -= first.length
    return result


def write_phylip(path, sequences):
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{len(sequences)} {len(next(iter(sequences.values())))}\n")
        for name in sorted(sequences):
            out.write(f"{name} {sequences[name].decode()}\n")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", help="path before the extensions of the files to write")
    parser.add_argument("--taxa", type=int, default=48, help="leaves of the tree (default 48)")
    parser.add_argument(
        "--sites", type=int, default=20000, help="columns of the alignment (default 20000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    parser.add_argument(
        "--moves",
        type=int,
        default=8,
        help="random subtree moves between the true tree and the start tree (default 8)",
    )
    parser.add_argument(
        "--branch", type=float, default=0.01, help="mean changes a site on a branch (default 0.01)"
    )
    parser.add_argument(
        "--alpha", type=float, default=0.7, help="shape of the sites' gamma rates (default 0.7)"
    )
    arguments = parser.parse_args()
    if arguments.taxa < 5:
        parser.error("--taxa: a tree that can be searched has at least 5 leaves")
    if arguments.sites < 1:
        parser.error("--sites: at least 1")
    if arguments.moves < 0:
        parser.error("--moves: at least 0")
    if not arguments.branch > 0 or not arguments.alpha > 0:
        parser.error("--branch and --alpha must be positive")
    return arguments


def main():
    arguments = parse_arguments()
    rng = random.Random(arguments.seed)
    root = yule_tree(rng, arguments.taxa, arguments.branch)
    sequences = evolve(rng, root, arguments.sites, arguments.alpha)
    write_phylip(f"{arguments.prefix}.phy", sequences)
    with open(f"{arguments.prefix}.true.tree", "w", encoding="ascii") as out:
        out.write(newick(root))
    for _ in range(arguments.moves):
        prune_and_regraft(rng, root)
    with open(f"{arguments.prefix}.start.tree", "w", encoding="ascii") as out:
        out.write(newick(root))


if __name__ == "__main__":
    main()
