#!/bin/bash
# Checks which names libmpi_mpifh.so.40 exports: every name that Open MPI's library has, those that
# Open MPI's libraries for the Fortran modules need, and none that does not belong to MPI.
set -eu -o pipefail

if [ $# -ne 2 ]; then
  echo "usage: check_exports.sh LIBMPI_MPIFH LIBMPI" >&2
  exit 2
fi
library=$1
libmpi=$2
status=0

complain() {
  echo "check_exports: $library $1:" >&2
  echo "$2" >&2
  status=1
}
defined() { nm -D --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u; }
undefined() { nm -D --undefined-only "$1" | awk '$1 == "U" { print $2 }' | sort -u; }

strange=$(defined "$library" | grep -vE '^(p?mpix?_|P?MPIX?_|ompix?_)' || true)
[ -z "$strange" ] || complain "exports names that are not MPI's" "$strange"

needed=$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' |
  grep -vE '^(libmpi\.so\.40|libc\.so\.6|ld-linux-x86-64\.so\.2)$' || true)
[ -z "$needed" ] || complain "needs libraries besides libmpi.so.40 and libc" "$needed"

directory=/usr/lib/$(uname -m)-linux-gnu
if [ -e "$directory/libmpi_mpifh.so.40" ]; then
  # The two names that are left out are internal to that library.
  missing=$(comm -13 <(defined "$library") <(defined "$directory/libmpi_mpifh.so.40") |
    grep -vxE 'mpiext_pcollreq_mpifh_dummy|ompi_intercept_extra_state_t_class' || true)
  [ -z "$missing" ] || complain "lacks names that Open MPI's has" "$missing"
fi
for module in "$directory"/libmpi_usempi*.so.40; do
  [ -e "$module" ] || continue
  missing=$(comm -13 <(defined "$library" "$libmpi") <(undefined "$module" | grep -v @) || true)
  [ -z "$missing" ] || complain "lacks names that $module asks for" "$missing"
done
exit $status
