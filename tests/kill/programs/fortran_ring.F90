! fortran_ring ROUNDS: ranks send numbers along a ring, by every kind of call that converts something
! between Fortran and C. What a rank sends depends on what it has received. The last line is a digest
! of everything that all ranks have received. If ROUNDS is negative, the program makes a call that is
! not supported.
#ifdef USE_F08
#define HANDLE(kind) type(kind)
#else
#define HANDLE(kind) integer
#endif

program fortran_ring
#ifdef USE_F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: wide = selected_int_kind(18)
  integer(wide), parameter :: prime = 1000003_wide, modulus = 2147483647_wide
  integer :: rank, size, next, before, error, rounds, round
  integer(wide) :: digest, total
  HANDLE(MPI_Op) :: fold
  HANDLE(MPI_Datatype) :: column
  HANDLE(MPI_Comm) :: half
  character(len=32) :: argument

  call get_command_argument(1, argument)
  read (argument, *) rounds
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  next = mod(rank + 1, size)
  before = mod(rank + size - 1, size)
  digest = rank + 1
  if (rounds < 0) call unsupported()
  call MPI_Op_create(fold_values, .false., fold, error)
  call MPI_Type_vector(3, 1, 4, MPI_INTEGER8, column, error)
  call MPI_Type_commit(column, error)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  do round = 1, rounds
    call exchange()
    call gather_any()
    call reduce()
  end do
  call MPI_Type_free(column, error)
  call MPI_Op_free(fold, error)
  call MPI_Comm_free(half, error)
  call MPI_Reduce(digest, total, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(i0,a,i0)', rounds, ' rounds, digest ', total
  call MPI_Finalize(error)

contains

  subroutine take(value)
    integer(wide), intent(in) :: value
    digest = mod(digest * prime + value, modulus)
  end subroutine

  ! Sends and receives a column of a matrix at the same time.
  subroutine exchange()
    HANDLE(MPI_Request) :: requests(2)
    integer(wide), asynchronous :: mine(4, 3), theirs(4, 3)
    integer :: row, i
    row = mod(round, 4) + 1
    mine = 0
    theirs = 0
    mine(row, :) = [digest, digest + 1, digest + 2]
    call MPI_Irecv(theirs(row, 1), 1, column, before, 1, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(mine(row, 1), 1, column, next, 1, MPI_COMM_WORLD, requests(2), error)
    do i = 1, 2
      call wait_for_one(requests)
    end do
    if (count(theirs /= 0) /= 3) call fail('a column came with gaps, or not at all')
    call take(sum(theirs))
  end subroutine

  subroutine wait_for_one(requests)
    HANDLE(MPI_Request), intent(inout) :: requests(2)
    integer :: index
    call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, error)
    if (index < 1 .or. index > 2) call fail('an index of MPI_Waitany is out of bounds')
  end subroutine

  ! Rank 0 receives from any source. The next messages depend on the sum only.
  subroutine gather_any()
    integer(wide) :: value, total
    integer :: i
    total = 0
    if (rank == 0) then
      do i = 2, size
        call MPI_Recv(value, 1, MPI_INTEGER8, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &
          MPI_STATUS_IGNORE, error)
        total = total + value
      end do
    else
      call MPI_Send(digest, 1, MPI_INTEGER8, 0, 2, MPI_COMM_WORLD, error)
    end if
    call MPI_Bcast(total, 1, MPI_INTEGER8, 0, MPI_COMM_WORLD, error)
    call take(total)
  end subroutine

  subroutine reduce()
    integer(wide) :: both(2)
    both = [digest, int(round, wide)]
    call MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_INTEGER8, fold, MPI_COMM_WORLD, error)
    call take(both(1) + both(2))
    both = digest
    call MPI_Allreduce(MPI_IN_PLACE, both, 1, MPI_INTEGER8, MPI_MAX, half, error)
    call take(both(1))
  end subroutine

  ! An operation that is associative and not commutative: the last value that 7 does not divide, or the
  ! first of all values.
  subroutine fold_values(given, folded, length, type)
#ifdef USE_F08
    use, intrinsic :: iso_c_binding
    type(c_ptr), value :: given, folded
    integer :: length
    type(MPI_Datatype) :: type
    integer(wide), pointer :: in(:), out(:)
    call c_f_pointer(given, in, [length])
    call c_f_pointer(folded, out, [length])
    if (type /= MPI_INTEGER8) call fail('the type of an operation')
    where (mod(out, 7_wide) == 0) out = in
#else
    integer :: length, type
    integer(wide) :: given(length), folded(length)
    if (type /= MPI_INTEGER8) call fail('the type of an operation')
    where (mod(folded, 7_wide) == 0) folded = given
#endif
  end subroutine

  subroutine unsupported()
    HANDLE(MPI_Win) :: win
    call MPI_Win_create(digest, 8_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
    call fail('a function that is not supported has returned')
  end subroutine

  subroutine fail(what)
    character(len=*), intent(in) :: what
    print '(a,i0,2a)', 'rank ', rank, ': ', what
    call MPI_Abort(MPI_COMM_WORLD, 9, error)
  end subroutine
end program
