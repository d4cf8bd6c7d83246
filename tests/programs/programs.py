"""The programs: how each is given its input, how it is started, and what it must give.

A program is made with the directory for what all its runs read. `command(directory)` is its command
line for a run in `directory`, after the files that it wants there were written. `results(directory)`
is a dictionary of everything that no death may change; times are left out. `check(results)` raises
AssertionError where the program itself says that something is wrong.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
sys.path.insert(0, os.path.join(EXAMPLES, "examl"))

import examl  # noqa: E402


def read(path):
    with open(path, encoding="utf-8", errors="replace") as source:
        return source.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as target:
        target.write(text)


class Program:
    executable = None  # the program that must be installed
    package = None
    ranks = 4
    steady_share = 1.0  # share of the operations that every run makes, independently of time

    def __init__(self, input_directory):
        self.input = input_directory

    @classmethod
    def is_there(cls):
        return shutil.which(cls.executable) is not None

    def last(self):
        """Makes a run take long enough for images, also on a fast machine."""

    def check(self, results):
        assert results, "the program gave nothing"


class ExaML(Program):
    """The likelihood of phylogenetic trees; collectives."""

    executable, package = "examl", "examl"

    def __init__(self, input_directory):
        super().__init__(input_directory)
        examl.make_input(self.input, "--taxa", "20", "--sites", "1500", "--moves", "4")

    def command(self, directory):
        return examl.command(self.input, directory)

    def results(self, directory):
        return examl.results(directory)


class PhyML(Program):
    """The bootstrap of a phylogenetic tree; rank 0 distributes work by messages."""

    executable, package = "phyml-mpi", "phyml"
    ranks = 3
    options = ("-b", "9", "-m", "HKY85", "-c", "4", "-a", "0.5", "--r_seed", "4", "--quiet",
               "--no_memory_check")  # fmt: skip

    def __init__(self, input_directory):
        super().__init__(input_directory)
        generator = [sys.executable, f"{EXAMPLES}/examl/make_input.py", "input"]
        subprocess.run([*generator, "--taxa", "8", "--sites", "300"], cwd=self.input, check=True)

    def command(self, directory):
        shutil.copy(f"{self.input}/input.phy", f"{directory}/input.phy")  # PhyML writes beside its input
        return ["phyml-mpi", "-i", "input.phy", *self.options]

    def results(self, directory):
        prefix = f"{directory}/input.phy_phyml"
        output = read(f"{directory}/output")
        return {
            "tree": read(f"{prefix}_tree.txt"),
            "likelihood": re.search(r"Log likelihood of the current tree: (\S+)\.", output)[1],
            "bootstrap": sorted(read(f"{prefix}_boot_trees.txt").splitlines()),
            "statistics": [line for line in read(f"{prefix}_stats.txt").splitlines()
                           if "Time used" not in line and "seconds" not in line],
        }  # fmt: skip

    def check(self, results):
        trees = len(results["bootstrap"])
        wanted = -(-9 // self.ranks) * self.ranks  # the same number for each rank
        assert trees == wanted, f"{trees} trees of the bootstrap, not {wanted}"


class Lammps(Program):
    """The melting of a Lennard-Jones crystal; messages between neighbours."""

    executable, package = "lmp", "lammps"
    cells = 7  # number of cells in each direction; a cell has four atoms
    steps = 100
    script = """\
units           lj
atom_style      atomic
lattice         fcc 0.8
region          all block 0 {cells} 0 {cells} 0 {cells}
create_box      1 all
create_atoms    1 box
mass            1 1.0
velocity        all create 2.5 4711 loop geom
pair_style      lj/cut 2.4
pair_coeff      1 1 1.0 1.0
neighbor        0.4 bin
neigh_modify    every 10 delay 0 check yes
fix             move all nve
thermo          10
thermo_modify   format float %.15g
run             {steps}
write_dump      all custom atoms.txt id x y z vx vy vz modify sort id format float %.15g
"""

    def last(self):
        self.steps = 1500

    def command(self, directory):
        script = self.script.format(cells=self.cells, steps=self.steps)
        write(f"{directory}/in.melt", script)
        return ["lmp", "-in", "in.melt"]

    def results(self, directory):
        rows = re.search(r"^Step Temp .*?^Loop time", read(f"{directory}/log.lammps"), re.M | re.S)
        # The screen and the file have the same rows.
        assert rows and rows[0] in read(f"{directory}/output"), "no table of the run"
        return {"table": rows[0].splitlines(), "atoms": read(f"{directory}/atoms.txt")}

    def check(self, results):
        rows = self.steps // 10 + 1
        assert len(results["table"]) == rows + 2, f"not {rows} rows between title and end"
        atoms = len(results["atoms"].splitlines()) - 9
        assert atoms == 4 * self.cells**3, f"{atoms} atoms"


class Hpcc(Program):
    """The whole HPC Challenge benchmark, on a small problem."""

    executable, package = "hpcc", "hpcc"
    ranks = 2
    # The last part measures how often something can be done in a time, so its number of operations
    # varies.
    steady_share = 0.4
    size, block = 160, 24  # of the matrices
    # Each line has a value, then its name.
    lines = (
        "small problem", "for a test",
        "HPL.out  file", "8  the output is that of HPCC",
        "1  size of problem", "{size}  N", "1  size of block", "{block}  NB", "0  rows first",
        "1  grid", "1  P", "2  Q", "16.0  threshold",
        "1  panel factorisation", "2  PFACT", "1  recursion stops at", "4  NBMIN",
        "1  panels in recursion", "2  NDIV", "1  recursive factorisation", "1  RFACT",
        "1  broadcast", "1  BCAST", "1  look-ahead", "1  DEPTH", "2  swapping", "64  threshold",
        "0  L1 transposed", "0  U transposed", "1  equilibration", "8  alignment",
        "---", "0  more sizes for PTRANS", "{size}  N", "0  more blocks for PTRANS", "{block}  NB",
    )  # fmt: skip
    # The residual of PTRANS is that of its fastest run.
    measured = re.compile(
        r"time|GBs|flops|GUPs|_usec|GBytes|STREAM_(Copy|Scale|Add|Triad)|PTRANS_residual",
        re.IGNORECASE,
    )

    def command(self, directory):
        text = "\n".join(self.lines).format(size=self.size, block=self.block)
        write(f"{directory}/hpccinf.txt", text + "\n")
        return ["hpcc"]

    def results(self, directory):
        text = read(f"{directory}/hpccoutf.txt")
        summary = re.search(r"^Begin of Summary section.\n(.*?)^End of Summary", text, re.M | re.S)
        assert summary, "no summary"
        pairs = [line.split("=", 1) for line in summary[1].splitlines()]
        results = {key: value for key, value in pairs if not self.measured.search(key)}
        # The program prints this line only if the processor time was more than 0, and the kernel
        # counts a new process's time in clock ticks at first.
        text = re.sub(r"^CPU .*\n", "", text, flags=re.MULTILINE)
        # The number of ranks that report success, in each part.
        for said in ("PASSED", "FAILED", "Found 0 errors", "Node(s) with error 0",
                     "Solution Validates"):  # fmt: skip
            results[said] = text.count(said)
        return results

    def check(self, results):
        assert results["Success"] == "1", "no success"
        assert results["FAILED"] == 0 and results["PASSED"] > 0, "a residual is too large"
        assert results["MPIRandomAccess_Errors"] == results["MPIRandomAccess_LCG_Errors"] == "0"
        assert float(results["MPIFFT_maxErr"]) < 1e-12, "the Fourier transform is wrong"
        assert results["Found 0 errors"] > 0 and results["Node(s) with error 0"] > 0
        assert results["Solution Validates"] > 0, "STREAM is wrong"


class ScaLapack(Program):
    """The test of ScaLAPACK's LU factorisation, a Fortran program."""

    executable = f"/usr/lib/{os.uname().machine}-linux-gnu/scalapack/openmpi-tests/xdlu"
    package = "scalapack-mpi-test"
    lines = (
        "LU factorisations", "for a test", "'LU.out'  file", "6  standard output",
        "3  sizes", "31 64 97  M", "31 64 97  N", "2  blocks", "7 16  NB",
        "2  right-hand sides", "1 6  NRHS", "1  blocks of them", "4  NBRHS",
        "3  grids", "2 1 4  P", "2 4 1  Q", "1.0  threshold", "F  no refinement, which fails now and then, with any MPI",
    )  # fmt: skip

    def command(self, directory):
        write(f"{directory}/LU.dat", "\n".join(self.lines) + "\n")
        return [self.executable]

    def results(self, directory):
        rows = [line.split() for line in read(f"{directory}/output").splitlines()]
        rows = [row for row in rows if row and row[0] == "WALL"]
        return {"rows": [row[1:8] + row[11:] for row in rows], "count": len(rows)}

    def check(self, results):
        assert results["count"] == 3 * 2 * 2 * 3, f"{results['count']} rows"
        assert all(row[-1] == "PASSED" for row in results["rows"]), "a residual is too large"


class PythonProgram(Program):
    executable = "/usr/bin/python3"
    module = script = None

    @classmethod
    def is_there(cls):
        look = [cls.executable, "-c", f"import {cls.module}"]
        return super().is_there() and subprocess.run(look, capture_output=True, check=False).returncode == 0

    def command(self, directory):
        return [self.executable, f"{HERE}/{self.script}"]


class Mpi4py(PythonProgram):
    """Python objects and arrays in every kind of call."""

    module, script, package = "mpi4py", "mpi4py_mix.py", "python3-mpi4py"

    def results(self, directory):
        return {"digests": sorted(read(f"{directory}/output").splitlines())}

    def check(self, results):
        assert len(results["digests"]) == self.ranks


class Petsc(PythonProgram):
    """Solvers and preconditioners of PETSc on a grid of three dimensions."""

    module, script, package = "petsc4py", "petsc_solvers.py", "python3-petsc4py"

    def results(self, directory):
        return {"solutions": read(f"{directory}/output").splitlines()}

    def check(self, results):
        norms = {line.split()[3] for line in results["solutions"]}
        assert len(results["solutions"]) == 5 and len(norms) == 1, results["solutions"]


class QuantumEspresso(Program):
    """The ground state of silicon; a Fortran program that splits its ranks, and each part once more."""

    executable, package = "pw.x", "quantum-espresso and quantum-espresso-data"
    potential = "/usr/share/doc/quantum-espresso/examples/EPW/sic/pp/Si.pz-vbc.UPF.gz"
    script = """\
&control
  calculation = 'scf', prefix = 'silicon', pseudo_dir = '{input}', outdir = 'state'
/
&system
  ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 24
/
&electrons
  conv_thr = 1e-9
/
ATOMIC_SPECIES
  Si 28.085 silicon.upf
ATOMIC_POSITIONS alat
  Si 0 0 0
  Si 0.25 0.25 0.25
K_POINTS automatic
  {points} {points} {points} 1 1 1
"""
    points = 4

    def __init__(self, input_directory):
        super().__init__(input_directory)
        with gzip.open(self.potential) as source, open(f"{input_directory}/silicon.upf", "wb") as target:
            shutil.copyfileobj(source, target)

    @classmethod
    def is_there(cls):
        return super().is_there() and os.path.exists(cls.potential)

    def last(self):
        self.points = 8

    def command(self, directory):
        write(f"{directory}/silicon.in", self.script.format(input=self.input, points=self.points))
        return ["pw.x", "-nk", "2", "-in", "silicon.in"]

    def results(self, directory):
        output = read(f"{directory}/output")
        named = ("total energy", "estimated scf accuracy", "ethr", "highest occupied level")
        lines = [line for line in output.splitlines() if any(name in line for name in named)]
        bands = re.search(r"End of self-consistent calculation\n(.*?)highest occupied", output, re.S)
        return {"energies": lines, "bands": bands[1] if bands else None, "done": "JOB DONE" in output}

    def check(self, results):
        assert results["done"] and results["bands"], "it has not come to an end"


ALL = {
    "examl": ExaML,
    "hpcc": Hpcc,
    "lammps": Lammps,
    "mpi4py": Mpi4py,
    "petsc": Petsc,
    "phyml": PhyML,
    "quantum-espresso": QuantumEspresso,
    "scalapack": ScaLapack,
}
