foreach(name messages)
  conformance_test(fortran_${name}_mpifh fortran_${name}_mpifh "1;2;4")
  conformance_test(fortran_${name}_mpi fortran_${name}_mpi "2")
endforeach()
