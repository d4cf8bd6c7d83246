! openmp_fortran STEPS: as openmp.c, with OpenMP of Fortran.
program openmp_fortran
  use mpi
  use omp_lib
  implicit none
  integer, parameter :: long = selected_int_kind(18), cells = 3000
  integer :: error, provided, rank, step, steps, i
  integer(long) :: mine, all, salt, cell(cells)
  character(len=32) :: text

  call mpi_init_thread(MPI_THREAD_FUNNELED, provided, error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, text)
  read (text, *) steps
  salt = 1
  do step = 1, steps
    mine = 0
    !$omp parallel
    !$omp do schedule(dynamic, 50)
    do i = 1, cells
      cell(i) = mod(salt * i + step + rank, 1000003_long)
    end do
    !$omp end do
    !$omp do reduction(+ : mine)
    do i = 1, cells
      mine = mine + mod(cell(i) * cell(cells + 1 - i), 1000003_long)
    end do
    !$omp end do
    !$omp end parallel
    call mpi_allreduce(mine, all, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
    salt = mod(all + step, 1000003_long)
    if (mod(step, 10) == 0) print '(a,i0,a,i0,a,i0)', 'rank ', rank, ', step ', step, ': ', salt
  end do
  print '(a,i0,a,i0,a)', 'rank ', rank, ' had ', omp_get_max_threads(), ' threads'
  call mpi_finalize(error)
end program openmp_fortran
