foreach(name callbacks messages objects types)
  conformance_test(fortran_${name}_mpifh fortran_${name}_mpifh "1;3")
  conformance_test(fortran_${name}_mpi fortran_${name}_mpi "2")
endforeach()
