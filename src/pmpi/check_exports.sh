#!/bin/sh
# Checks what libmpi.so.40 shows to the process that it runs in and what it wants from it.
set -eu

if [ $# -ne 1 ]; then
  echo "usage: check_exports.sh LIBRARY" >&2
  exit 2
fi
library=$1
status=0

complain() {
  echo "check_exports: $library $1:" >&2
  echo "$2" >&2
  status=1
}

strange=$(nm -D --defined-only "$library" | awk '{ print $NF }' |
  grep -vE '^(P?MPIX?_|ompi_|OMPI_C_|mpi_fortran_|rejoin_)' || true)
[ -z "$strange" ] || complain "exports names that are not MPI's" "$strange"

# Everything that is not weak must come from libc (the dynamic linker's __tls_get_addr is part of it).
foreign=$(nm -D --undefined-only "$library" | awk '$1 == "U" { print $2 }' |
  grep -vE '@GLIBC_[0-9.]+$' || true)
[ -z "$foreign" ] || complain "needs symbols that libc does not have" "$foreign"

needed=$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' |
  grep -vE '^(libc\.so\.6|ld-linux-x86-64\.so\.2)$' || true)
[ -z "$needed" ] || complain "needs libraries besides libc" "$needed"

if objdump -p "$library" | grep -qw SYMBOLIC; then
  complain "is linked with -Bsymbolic" "it would not see the copies of its objects in executables"
fi

# Open MPI's own library, if it is installed, has no name of MPI that ours lacks, and no predefined
# object of another size: executables hold copies of them.
names() {
  nm -D --defined-only "$1" | awk '{ print $NF }' |
    grep -E '^(P?MPI_[A-Z][a-z]|P?MPI_T_|P?MPIX_|OMPI_C_|MPI_F_|mpi_fortran_)' | sort -u
}
sizes() {
  nm -DS --defined-only "$1" |
    awk '/ (ompi_mpi_|ompi_request_null|ompi_message_n|mpi_fortran_)/ { print $4, $2 }'
}
reference=/usr/lib/$(uname -m)-linux-gnu/libmpi.so.40
if [ -e "$reference" ]; then
  missing=$( (names "$library"; names "$library"; names "$reference") | sort | uniq -u)
  [ -z "$missing" ] || complain "lacks names that Open MPI's has" "$missing"
  differing=$( (sizes "$reference"; sizes "$library") | sort -u | awk '
    $1 == name && $2 != size { print $1 ": " size " and " $2 " bytes" } { name = $1; size = $2 }')
  [ -z "$differing" ] || complain "has objects of another size than Open MPI's" "$differing"
fi
exit $status
