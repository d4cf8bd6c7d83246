#!/bin/bash
# live.sh BUILD [--record]
#
# Runs every conformance test with Open MPI's mpirun and with ftrun, and requires that mpirun still has
# the output and exit codes of expected/. With --record, writes expected/ instead. Environment: that of
# run.sh.

set -u

here=$(dirname "$0")
build=$1
record=
[ "${2:-}" != --record ] || record=yes
seen=$(mktemp -d) || exit 2
trap 'rm -rf "$seen"' EXIT
[ -z "$record" ] || mkdir -p "$here/expected"

failed=0
while read -r name program ranks arguments; do
  # shellcheck disable=SC2086  # words of a line
  if ! EXPECTED="$seen/$name" RECORD=yes "$here/run.sh" "$build/tests/conformance/$program" "$ranks" \
    "$build/bin/ftrun" $arguments >"$seen/said"; then
    echo "$name:"
    cat "$seen/said"
    failed=$((failed + 1))
  elif [ -n "$record" ]; then
    cp "$seen/$name" "$here/expected/$name"
  elif ! diff -u "$here/expected/$name" "$seen/$name"; then
    failed=$((failed + 1))
  fi
done <"$build/tests/conformance/compared"
echo "$failed differ of $(wc -l <"$build/tests/conformance/compared")"
[ "$failed" -eq 0 ]
