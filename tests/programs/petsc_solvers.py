"""Solves one system of linear equations with several of PETSc's methods, and prints for each how many
iterations it took, and the norm of the solution to ten digits."""

import sys

import petsc4py

petsc4py.init(sys.argv)

from petsc4py import PETSc  # noqa: E402

SIZE = (40, 40, 20)
METHODS = [("cg", "jacobi"), ("gmres", "bjacobi"), ("bcgs", "asm"), ("cg", "gamg"), ("fgmres", "ksp")]
STEPS = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]


def matrix_of(grid):
    """Returns the operator of a diffusion that differs a little from point to point."""
    matrix = grid.createMatrix()
    row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
    (x0, x1), (y0, y1), (z0, z1) = grid.getRanges()
    for z in range(z0, z1):
        for y in range(y0, y1):
            for x in range(x0, x1):
                row.index = (x, y, z)
                matrix.setValueStencil(row, row, 6 + 0.01 * ((7 * x + 3 * y + z) % 5))
                for step in STEPS:
                    at = (x + step[0], y + step[1], z + step[2])
                    if all(0 <= a < size for a, size in zip(at, SIZE)):
                        column.index = at
                        matrix.setValueStencil(row, column, -1.0)
    matrix.assemble()
    return matrix


def main():
    grid = PETSc.DMDA().create(SIZE, dof=1, stencil_width=1, comm=PETSc.COMM_WORLD)
    matrix = matrix_of(grid)
    right, solution = grid.createGlobalVec(), grid.createGlobalVec()
    right.set(1.0)
    for method, preconditioner in METHODS:
        solver = PETSc.KSP().create(PETSc.COMM_WORLD)
        solver.setOperators(matrix)
        solver.setType(method)
        solver.getPC().setType(preconditioner)
        solver.setTolerances(rtol=1e-13)
        solver.solve(right, solution)
        iterations, norm = solver.getIterationNumber(), solution.norm()
        PETSc.Sys.Print(f"{method} {preconditioner} {iterations} {norm:.9e}")


main()
