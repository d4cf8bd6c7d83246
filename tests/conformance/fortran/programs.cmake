# Fortran programs, built by Open MPI's wrapper, each with mpif.h (NAME_mpifh) and the module mpi
# (NAME_mpi), some also with the module mpi_f08 (NAME_f08).
find_program(OPENMPI_MPIFORT mpifort.openmpi)
if(NOT OPENMPI_MPIFORT)
  message(FATAL_ERROR "mpifort.openmpi is missing. Run: apt-get install libopenmpi-dev gfortran")
endif()

# fortran_program(NAME SOURCE FLAGS...)
function(fortran_program name source)
  # Programs of one source are compiled beside each other: each has its modules elsewhere.
  set(modules_dir ${CMAKE_CURRENT_BINARY_DIR}/modules/${name})
  file(MAKE_DIRECTORY ${modules_dir})
  add_custom_command(
    OUTPUT ${programs_dir}/${name}
    COMMAND ${OPENMPI_MPIFORT} -O2 -g1 -J${modules_dir} ${ARGN} ${CMAKE_CURRENT_SOURCE_DIR}/fortran/${source} -o
            ${programs_dir}/${name}
    DEPENDS fortran/${source} fortran/expect.inc
    COMMENT "Compiling conformance/fortran/${source} with Open MPI"
    VERBATIM)
  list(APPEND conformance_programs ${programs_dir}/${name})
  set(conformance_programs ${conformance_programs} PARENT_SCOPE)
endfunction()

# mpif.h declares no arguments: a compiler then sees calls that differ.
set(mpifh_flags -std=legacy -fallow-argument-mismatch -w)
set(module_flags -Wall -Wextra -Werror -Wno-function-elimination)
foreach(name callbacks collectives messages objects types)
  fortran_program(fortran_${name}_mpifh ${name}.F90 ${mpifh_flags})
  fortran_program(fortran_${name}_mpi ${name}.F90 -DUSE_MPI ${module_flags})
endforeach()
fortran_program(fortran_collectives_f08 collectives.F90 -DUSE_F08 ${module_flags})
