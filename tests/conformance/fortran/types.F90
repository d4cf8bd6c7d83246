! Conformance of datatypes, collectives, and buffers that are recognised by their addresses in
! Fortran, with mpif.h or (USE_MPI) the module mpi.
program types
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#ifndef USE_MPI
  include 'mpif.h'
#endif
  integer, parameter :: address = MPI_ADDRESS_KIND
  integer, parameter :: double = kind(1d0), wide = selected_int_kind(18)
  integer :: rank, size, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call predefined()
  call sizes()
  call reductions()
  call collectives()
  call derived()
  call absolute()
  call contents()
  call packing()
  call by_kind()
  if (rank == 0) print '(a,i0)', 'done by ', size
  call MPI_Finalize(error)

contains

  include 'expect.inc'

  subroutine predefined()
    integer, parameter :: all(27) = [ MPI_BYTE, MPI_PACKED, MPI_CHARACTER, MPI_LOGICAL, &
      MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_REAL, MPI_REAL4, &
      MPI_REAL8, MPI_REAL16, MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, &
      MPI_COMPLEX32, MPI_DOUBLE_COMPLEX, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER, &
      MPI_INT, MPI_DOUBLE, MPI_AINT, MPI_OFFSET, MPI_COUNT ]
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer :: i, bytes, length
    integer(address) :: lb, extent
    do i = 1, ubound(all, 1)
      call MPI_Type_size(all(i), bytes, error)
      call MPI_Type_get_extent(all(i), lb, extent, error)
      call MPI_Type_get_name(all(i), name, length, error)
      call expect(len_trim(name) == length, 'MPI_Type_get_name')
      if (rank == 0) print '(2a,3(1x,i0))', 'type ', trim(name), bytes, lb, extent
    end do
  end subroutine

  ! Sends a number of each kind that the compiler has.
  subroutine sizes()
    integer(selected_int_kind(2)) :: i1
    integer(wide) :: i8(3)
    real :: r4(2, 2)
    real(double) :: r8
    complex(double) :: c16(2)
    logical :: l
    character :: c
    integer :: got(7)
    call MPI_Sizeof(i1, got(1), error)
    call MPI_Sizeof(i8, got(2), error)
    call MPI_Sizeof(r4, got(3), error)
    call MPI_Sizeof(r8, got(4), error)
    call MPI_Sizeof(c16, got(5), error)
    call MPI_Sizeof(l, got(6), error)
    call MPI_Sizeof(c, got(7), error)
    call expect(all(got == [1, 8, 4, 8, 16, 4, 1]), 'MPI_Sizeof')
  end subroutine

  subroutine reductions()
    integer :: pair(2), i
    integer(selected_int_kind(4)) :: short(2)
    integer(wide) :: long(2)
    logical :: flags(3), folded(3)
    complex(double) :: z(2), zs(2)
    real(double) :: where_max(2, 2), at(2, 2)
    pair = [mod(rank * 7, 5), rank]
    call MPI_Allreduce(MPI_IN_PLACE, pair, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, error)
    flags = [rank == 0, rank >= 0, .false.]
    call MPI_Allreduce(flags, folded, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, error)
    call expect(folded(2) .and. .not. folded(3) .and. (folded(1) .eqv. size == 1), 'MPI_LAND')
    call MPI_Allreduce(flags, folded, 3, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD, error)
    call expect(folded(1) .and. (folded(2) .eqv. mod(size, 2) == 1), 'MPI_LXOR')
    z = [cmplx(rank + 1, -rank, double), cmplx(1, 1, double)]
    call MPI_Allreduce(z, zs, 2, MPI_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD, error)
    where_max = reshape([1d0 * mod(rank * 3, 4), 1d0 * rank, -1d0 * rank, 10d0 + rank], [2, 2])
    call MPI_Allreduce(where_max, at, 2, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD, error)
    short = int([rank, 100 - rank], kind(short))
    call MPI_Allreduce(MPI_IN_PLACE, short, 2, MPI_INTEGER2, MPI_MIN, MPI_COMM_WORLD, error)
    long = [3000000000_wide * (rank + 1), -1_wide]
    call MPI_Allreduce(MPI_IN_PLACE, long, 2, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
    if (rank == 0) then
      print '(a,99(1x,i0))', 'integers', pair, short, long
      print '(a,99f12.3)', 'numbers', zs, (at(:, i), i = 1, 2)
    end if
  end subroutine

  subroutine collectives()
    integer :: counts(size), places(size), types(size), i, mine(size), got(size)
    integer, allocatable :: part(:), whole(:)
    character(len=8) :: word, words(size)
    counts = [(i, i = 1, size)]
    places = [(i * (i - 1) / 2, i = 1, size)]
    allocate (part(rank + 1), whole(size * (size + 1) / 2))
    part = rank * 10
    whole = -1
    call MPI_Allgatherv(part, rank + 1, MPI_INTEGER, whole, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD, error)
    call expect(all(whole(places + 1) == [((i - 1) * 10, i = 1, size)]), 'MPI_Allgatherv')
    call MPI_Scatterv(whole, counts, places, MPI_INTEGER, part, rank + 1, MPI_INTEGER, 0, &
      MPI_COMM_WORLD, error)
    call expect(all(part == rank * 10), 'MPI_Scatterv')
    mine = [(rank * 100 + i, i = 1, size)]
    call MPI_Alltoall(mine, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
    call expect(all(got == [((i - 1) * 100 + rank + 1, i = 1, size)]), 'MPI_Alltoall')
    types = MPI_INTEGER
    got = -1
    call MPI_Alltoallw(mine, [(1, i = 1, size)], [((i - 1) * 4, i = 1, size)], types, got, &
      [(1, i = 1, size)], [((i - 1) * 4, i = 1, size)], types, MPI_COMM_WORLD, error)
    call expect(all(got == [((i - 1) * 100 + rank + 1, i = 1, size)]), 'MPI_Alltoallw')
    write (word, '(a,i0)') 'rank', rank
    call MPI_Gather(word, 8, MPI_CHARACTER, words, 8, MPI_CHARACTER, 0, MPI_COMM_WORLD, error)
    if (rank == 0) print '(99(a,1x))', (trim(words(i)), i = 1, size)
    if (rank == 0) then
      got = [(i * 3, i = 1, size)]
      call MPI_Scatter(got, 1, MPI_INTEGER, MPI_IN_PLACE, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
      call expect(got(1) == 3, 'MPI_Scatter in place')
    else
      call MPI_Scatter(got, 1, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
      call expect(got(1) == (rank + 1) * 3, 'MPI_Scatter')
    end if
    got = rank
    call MPI_Reduce_scatter_block(got, i, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call expect(i == size * (size - 1) / 2, 'MPI_Reduce_scatter_block')
    call MPI_Barrier(MPI_COMM_WORLD, error)
  end subroutine

  ! Sends a part of a matrix, in Fortran's order.
  subroutine derived()
    integer :: window, matrix(6, 5), other(6, 5), i, bytes, status(MPI_STATUS_SIZE), elements
    integer(address) :: lb, extent
    call MPI_Type_create_subarray(2, [6, 5], [2, 3], [1, 2], MPI_ORDER_FORTRAN, MPI_INTEGER, &
      window, error)
    call MPI_Type_commit(window, error)
    call MPI_Type_size(window, bytes, error)
    call MPI_Type_get_true_extent(window, lb, extent, error)
    call expect(bytes == 24 .and. lb == 4 * (2 * 6 + 1), 'MPI_Type_create_subarray')
    matrix = reshape([(100 * rank + i, i = 1, 30)], [6, 5])
    other = 0
    call MPI_Sendrecv(matrix, 1, window, mod(rank + 1, size), 1, other, 1, window, &
      mod(rank + size - 1, size), 1, MPI_COMM_WORLD, status, error)
    call MPI_Get_elements(status, window, elements, error)
    call expect(elements == 6 .and. count(other /= 0) == 6, 'a window that was received')
    call expect(all(other(2:3, 3:5) == matrix(2:3, 3:5) - 100 * rank + &
      100 * mod(rank + size - 1, size)), 'its values')
    call MPI_Type_free(window, error)
    call expect(window == MPI_DATATYPE_NULL, 'MPI_Type_free')
  end subroutine

  ! Sends two variables by their addresses from MPI_BOTTOM.
  subroutine absolute()
    integer, volatile :: number
    real(double), volatile :: values(3)
    integer(address) :: places(2)
    integer :: both
    number = 0
    values = 0
    if (rank == 0) number = 42
    if (rank == 0) values = [1.5d0, 2.5d0, 3.5d0]
    call MPI_Get_address(number, places(1), error)
    call MPI_Get_address(values, places(2), error)
    call expect(MPI_Aint_diff(MPI_Aint_add(places(1), 8_address), places(1)) == 8, 'MPI_Aint_add')
    call MPI_Type_create_struct(2, [1, 3], places, [MPI_INTEGER, MPI_DOUBLE_PRECISION], both, error)
    call MPI_Type_commit(both, error)
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, error)
    call expect(number == 42 .and. nint(2 * values(3)) == 7, 'MPI_BOTTOM')
    call MPI_Type_free(both, error)
  end subroutine

  subroutine contents()
    integer :: made, integers(8), types(2), ni, na, nt, combiner
    integer(address) :: addresses(3)
    call MPI_Type_create_struct(2, [2, 1], [0_address, 16_address], [MPI_INTEGER, MPI_REAL8], made, &
      error)
    call MPI_Type_get_envelope(made, ni, na, nt, combiner, error)
    call expect(ni == 3 .and. na == 2 .and. nt == 2 .and. combiner == MPI_COMBINER_STRUCT, &
      'MPI_Type_get_envelope')
    call MPI_Type_get_contents(made, 8, 3, 2, integers, addresses, types, error)
    call expect(all(integers(1:3) == [2, 2, 1]) .and. addresses(2) == 16, 'MPI_Type_get_contents')
    call expect(types(1) == MPI_INTEGER .and. types(2) == MPI_REAL8, 'the types of a type')
    call MPI_Type_set_name(made, '  two and one  ', error)
    call MPI_Type_free(made, error)
  end subroutine

  subroutine packing()
    character(len=64) :: buffer
    integer :: position, number, bytes
    real(double) :: value
    position = 0
    call MPI_Pack_size(1, MPI_INTEGER, MPI_COMM_WORLD, bytes, error)
    call expect(bytes >= 4, 'MPI_Pack_size')
    call MPI_Pack(rank, 1, MPI_INTEGER, buffer, 64, position, MPI_COMM_WORLD, error)
    call MPI_Pack(2.5d0, 1, MPI_DOUBLE_PRECISION, buffer, 64, position, MPI_COMM_WORLD, error)
    call expect(position == 12, 'MPI_Pack')
    position = 0
    call MPI_Unpack(buffer, 64, position, number, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
    call MPI_Unpack(buffer, 64, position, value, 1, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, error)
    call expect(number == rank .and. nint(value * 2) == 5, 'MPI_Unpack')
  end subroutine

  ! Makes types by precision and range, and finds types by size.
  subroutine by_kind()
    integer :: type, again, ni, na, nt, combiner, integers(2), bytes(7), i
    integer(address) :: nothing(1)
    integer :: none(1)
    real(double) :: x
    call MPI_Type_create_f90_real(12, 100, type, error)
    call MPI_Type_create_f90_real(12, 100, again, error)
    call expect(type == again, 'the same type twice')
    call MPI_Type_get_envelope(type, ni, na, nt, combiner, error)
    call expect(ni == 2 .and. na == 0 .and. nt == 0 .and. combiner == MPI_COMBINER_F90_REAL, &
      'its envelope')
    call MPI_Type_get_contents(type, 2, 0, 0, integers, nothing, none, error)
    call expect(all(integers == [12, 100]), 'its contents')
    x = rank + 0.5d0
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, type, MPI_SUM, MPI_COMM_WORLD, error)
    call expect(nint(2 * x) == size * size, 'a sum of that type')
    call MPI_Type_size(type, bytes(1), error)
    call MPI_Type_create_f90_real(6, 37, type, error)
    call MPI_Type_size(type, bytes(2), error)
    call MPI_Type_create_f90_real(MPI_UNDEFINED, 38, type, error)
    call MPI_Type_size(type, bytes(3), error)
    call MPI_Type_create_f90_complex(15, MPI_UNDEFINED, type, error)
    call MPI_Type_size(type, bytes(4), error)
    do i = 0, 2
      call MPI_Type_create_f90_integer(i * 4 + 2, type, error)
      call MPI_Type_size(type, bytes(5 + i), error)
    end do
    if (rank == 0) print '(a,7(1x,i0))', 'bytes', bytes
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type, error)
    call MPI_Type_size(type, bytes(1), error)
    call expect(bytes(1) == 8, 'MPI_Type_match_size')
  end subroutine
end program
