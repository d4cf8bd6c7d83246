#!/bin/bash
# run.sh PROG N FTRUN [ARGS...]
#
# Runs PROG with N ranks under Open MPI's mpirun and under FTRUN, and requires the same standard output
# and the same exit code. Standard error is not compared, because launchers have their own messages.
# FTRUN runs once. If the two differ, mpirun runs up to twice more: Open MPI 4.1.4 itself fails
# sometimes (it passes MPI_COMM_NULL to a Fortran delete function in 2 of 100 runs).
#
# If EXPECTED is set, it names a file with an earlier result of mpirun: "exit code N", then the standard
# output. FTRUN's result is compared with it, and mpirun runs only if the two differ. If RECORD is set as
# well, the file is written when mpirun and FTRUN had the same result.
#
# Exit code: 0: the same; 1: different, or a check of the program failed under both; 2: wrong usage or a
# missing program; 3: mpirun did not end in time, so there is nothing to compare with.
# Environment: MPIRUN, the reference launcher (mpirun.openmpi); LIMIT_S, the time limit of each of the
# two runs (25 s); EXPECTED and RECORD; FTRUN_FLAGS, options for FTRUN, separated by blanks.

set -u

fail_usage() {
  echo "run.sh: $1" >&2
  echo "usage: run.sh PROG N FTRUN [ARGS...]" >&2
  exit 2
}

[ $# -ge 3 ] || fail_usage "expected at least three arguments, got $#"
prog=$1
ranks=$2
ftrun=$3
shift 3
mpirun=${MPIRUN:-mpirun.openmpi}
limit_s=${LIMIT_S:-25}
case $ranks in
  '' | *[!0-9]*) fail_usage "N must be a number, not '$ranks'" ;;
esac
[ -x "$prog" ] || fail_usage "$prog is not an executable file"
command -v "$ftrun" >/dev/null || fail_usage "$ftrun is not an executable file"
command -v "$mpirun" >/dev/null || fail_usage "$mpirun is missing; apt-get install openmpi-bin"

results=$(mktemp -d) || exit 2
trap 'rm -rf "$results"' EXIT

# run_bounded NAME COMMAND...: runs the command, and writes NAME.out, NAME.err and NAME.code.
run_bounded() {
  local name=$1
  shift
  timeout --kill-after=2 "$limit_s" "$@" \
    </dev/null >"$results/$name.out" 2>"$results/$name.err"
  echo $? >"$results/$name.code"
}

run_reference() (
  export OMPI_MCA_rmaps_base_oversubscribe=1
  # Containers forbid the single-copy mechanism, which Open MPI would report in every run.
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  run_bounded openmpi "$mpirun" --oversubscribe --allow-run-as-root -n "$ranks" "$prog" "$@"
)
# At its own time limit, which is shorter, ftrun prints where every rank is.
read -ra flags <<< "${FTRUN_FLAGS:-}"
run_bounded ftrun "$ftrun" "${flags[@]}" --timeout $((limit_s - 6)) -n "$ranks" "$prog" "$@"
code=$(cat "$results/ftrun.code")

same() {
  reference_code=$(cat "$results/openmpi.code")
  [ "$reference_code" = "$code" ] && [ "$code" != 124 ] && [ "$code" != 137 ] &&
    cmp -s "$results/openmpi.out" "$results/ftrun.out"
}

accept() {
  if grep -q '^FAIL' "$results/ftrun.out" "$results/ftrun.err"; then
    echo "the same under both, but a check of the program's own fails:"
    grep -h '^FAIL' "$results/ftrun.out" "$results/ftrun.err"
    exit 1
  fi
  lines=$(wc -l <"$results/ftrun.out")
  echo "same: exit code $code, $lines lines, last: $(tail -n 1 "$results/ftrun.out")"
  exit 0
}

expected=${EXPECTED:-}
record=${RECORD:-}
{ echo "exit code $code"; cat "$results/ftrun.out"; } >"$results/ftrun.whole"
if [ -n "$expected" ] && [ -z "$record" ]; then
  cmp -s "$expected" "$results/ftrun.whole" && accept
  echo "under ftrun it differs from $expected:"
  diff -u --label expected --label ftrun "$expected" "$results/ftrun.whole"
fi

for attempt in 1 2 3; do
  run_reference "$@"
  same && break
  echo "run $attempt under mpirun (exit code $reference_code) differs"
done

# Prints an exit code, with the meaning of the codes 124 and 137 of timeout.
show_code() {
  case $1 in
    124 | 137) echo "$1 (no end within $limit_s s)" ;;
    *) echo "$1" ;;
  esac
}

if same; then
  [ -z "$record" ] || cp "$results/ftrun.whole" "$expected"
  [ -n "$expected" ] && [ -z "$record" ] || accept
  echo "but it is what mpirun does now: docs/testing.md says how to record that"
  exit 1
fi

echo "different: exit code under mpirun $(show_code "$reference_code")," \
  "under ftrun $(show_code "$code")"
diff -u --label mpirun --label ftrun "$results/openmpi.out" "$results/ftrun.out"
for name in openmpi ftrun; do
  if [ -s "$results/$name.err" ]; then
    echo "--- standard error under $name, last lines"
    tail -n 200 "$results/$name.err"
  fi
done
echo "reproduce: FTRUN_FLAGS='${flags[*]}' $(printf '%q ' "$0" "$prog" "$ranks" "$ftrun" "$@")"
case $reference_code in
  124 | 137) exit 3 ;;
esac
exit 1
