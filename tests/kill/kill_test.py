#!/usr/bin/env python3
"""Real processes under the real ftrun, really killed.

kill_test.py --ftrun FTRUN --programs DIR [--seed S] [--long] NAME...    runs scenarios
kill_test.py --list                                                      names, limits, labels
"""

import argparse
import os
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source directory stays as it is

# The scenarios register themselves.
import harness  # noqa: E402
from scenarios import deaths, endings, members, memory, shells  # noqa: E402, F401

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def run(name, options):
    """Runs one scenario; True unless it failed."""
    test = harness.Test(name, options.ftrun, options.programs, options.seed, options.long)
    start_s = time.monotonic()
    try:
        scenario = harness.SCENARIOS[name]
        scenario.function(test, **scenario.arguments)
    except harness.Failure as failure:
        again = f"{sys.argv[0]} --ftrun {options.ftrun} --programs {options.programs}"
        again += f" --seed {options.seed}{' --long' * options.long} {name}"
        print(f"FAILED {name}: {failure}\nagain: {again}", flush=True)
        return False
    finally:
        test.close()
    print(f"passed {name}: {test.jobs} jobs, {time.monotonic() - start_s:.1f} s", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ftrun", default="build/bin/ftrun", type=os.path.abspath)
    parser.add_argument("--programs", default="build/tests/kill/programs", type=os.path.abspath)
    parser.add_argument("--seed", default="1", help="of what is random (default 1)")
    parser.add_argument("--long", action="store_true", help="sweep over far more")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.list:
        for name, scenario in harness.SCENARIOS.items():
            print(name, scenario.limit_s, int(scenario.sweeps), *scenario.labels)
        return 0
    unknown = [name for name in options.names if name not in harness.SCENARIOS]
    if unknown or not options.names:
        parser.error(f"no such scenario: {' '.join(unknown)}; --list names them")
    # Whoever ends the test ends its job as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return 0 if all([run(name, options) for name in options.names]) else 1
    except harness.Skip as reason:
        print(f"skipped: {reason}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
