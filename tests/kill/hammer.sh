#!/bin/bash
# hammer.sh NAME N [BUILD]: runs the scenario NAME of kill_test.py N times, each time with another
# seed, prints failures at once, and counts them. BUILD (default: build) is the directory of the
# build. Exits with 0 only if all runs have passed.
set -u

if [ $# -lt 2 ]; then
  echo "usage: hammer.sh NAME N [BUILD]" >&2
  exit 2
fi
name=$1
runs=$2
build=${3:-build}
here=$(dirname "${BASH_SOURCE[0]}")
failed=0
for ((seed = 1; seed <= runs; ++seed)); do
  said=$("$here/kill_test.py" --ftrun "$build/bin/ftrun" --programs "$build/tests/kill/programs" \
    --seed "$seed" "$name" 2>&1)
  if [ $? -ne 0 ]; then
    failed=$((failed + 1))
    printf '%s\n' "$said"
  fi
done
echo "$name: $((runs - failed)) of $runs passed"
[ "$failed" -eq 0 ]
