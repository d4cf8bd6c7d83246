#!/usr/bin/env python3
"""Runs scenarios in which real processes under ftrun are killed.

kill_test.py --ftrun FTRUN --programs DIR [--seed S] [--long] NAME...    runs scenarios
kill_test.py --list                                                      names, limits, labels
"""

import sys

sys.dont_write_bytecode = sys.pycache_prefix is None  # the source directory stays as it is

# The scenarios register themselves.
import harness  # noqa: E402
from scenarios import (  # noqa: E402, F401
    checkpoint_files,
    checkpoint_rules,
    checkpoints,
    clusters,
    containers,
    created,
    deaths,
    divergence,
    endings,
    file_names,
    fortran,
    going_back,
    hosts,
    hosts_encrypted,
    hosts_fabric,
    hosts_joined,
    hosts_lost,
    hybrid,
    kept_journals,
    layouts,
    log_ops,
    members,
    memory,
    nobody,
    nonblocking,
    programs,
    recoveries,
    recovery_points,
    rounds,
    shells,
    sides,
    snapshots,
    snapshots_sizes,
    snapshots_wrappers,
    threads,
    topologies,
    versions_and_sets,
    written_images,
    written_on_hosts,
)

if __name__ == "__main__":
    sys.exit(harness.main(__doc__, programs="build/tests/kill/programs"))
