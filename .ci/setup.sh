# shellcheck shell=bash disable=SC2034
# What ./quickstart and ./check share: the one list of packages, and the build. Sourced by bash.

packages=(
  g++ gfortran cmake ninja-build pkg-config python3
  openmpi-bin libopenmpi-dev mpich libmpich-dev
  examl hpcc lammps phyml python3-mpi4py scalapack-mpi-test
  libcli11-dev libspdlog-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler libdw-dev libxxhash-dev libhwloc-dev
  libgtest-dev libbenchmark-dev clang-tidy clang-format
  python3-numpy python3-pip python3-setuptools python3-wheel help2man
)

say() { printf '\n== %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    echo "$0: needs root (or sudo) to run: $*" >&2
    return 1
  fi
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed ||
      echo "$package"
  done
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] && return
  say "Installing ${#missing[@]} packages: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q < /dev/null
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" < /dev/null
}

build_release() {
  say "Building into build/"
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
  cmake --build build
}
