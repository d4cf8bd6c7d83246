# shellcheck shell=bash disable=SC2034
# Shared by ./quickstart and ./check: the list of packages, and the build. Sourced by bash.

# Packages that the build and most tests need.
needed_packages=(
  g++ gfortran cmake ninja-build pkg-config python3
  openmpi-bin libopenmpi-dev mpich libmpich-dev
  libcli11-dev libspdlog-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler libdw-dev libssl-dev libxxhash-dev libzstd-dev libhwloc-dev
  libgtest-dev libbenchmark-dev python3-numpy
)
# Optional packages: third-party programs, tools and modules that some tests use.
further_packages=(
  examl hpcc lammps phyml python3-mpi4py python3-petsc4py quantum-espresso quantum-espresso-data scalapack-mpi-test
  iproute2 nftables openssh-client libfabric-dev
  clang-tidy clang-format elfutils gdb valgrind libseccomp-dev libjemalloc2 libtcmalloc-minimal4 zsh fish environment-modules help2man python3-pip python3-setuptools python3-wheel python3-yaml
)
# Optional packages with servers, which some tests start for themselves. Where systemd runs, installing
# them would start them for the whole machine, so there it is left to its administrator.
server_packages=(openssh-server munge slurmctld slurmd slurm-client)
[ -d /run/systemd/system ] || further_packages+=("${server_packages[@]}")

say() { printf '\n== %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints those of the given packages that are missing.
missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed ||
      echo "$package"
  done
}

# Installs missing packages, or prints how to install them. Fails if a needed package is missing.
install_packages() {
  local needed further
  mapfile -t needed < <(missing_of "${needed_packages[@]}")
  mapfile -t further < <(missing_of "${further_packages[@]}")
  local all=("${needed[@]}" "${further[@]}")
  [ ${#all[@]} -eq 0 ] && return
  if [ "$(id -u)" -eq 0 ] || command -v sudo > /dev/null; then
    say "Installing ${#all[@]} packages: ${all[*]}"
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q < /dev/null &&
      as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${all[@]}" < /dev/null; then
      return
    fi
  fi
  echo "$0: ${#all[@]} packages are missing, and could not be installed here. As root:" >&2
  echo "  apt-get install --no-install-recommends ${all[*]}" >&2
  if [ ${#needed[@]} -gt 0 ]; then
    echo "$0: without these there is no build: ${needed[*]}" >&2
    return 1
  fi
  echo "$0: going on without them; tests that need them are skipped or fail" >&2
}

build_release() {
  say "Building into build/"
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
  cmake --build build
}
