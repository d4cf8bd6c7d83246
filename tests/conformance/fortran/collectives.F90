! Conformance of nonblocking collectives, persistent collectives and persistent messages in Fortran,
! with mpif.h, (USE_MPI) the module mpi or (USE_F08) the module mpi_f08. Many are outstanding at once,
! on two communicators, and are completed in several ways. The last line is a digest of all that was
! received.
#ifdef USE_F08
#define HANDLE(kind) type(kind)
#else
#define HANDLE(kind) integer
#endif

program collectives
#ifdef USE_F08
  use mpi_f08
  use mpi_f08_ext
#endif
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#if !defined(USE_F08) && !defined(USE_MPI)
  include 'mpif.h'
#endif
  integer, parameter :: most = 8, length = 3 * most, functions = 17, rounds = 5
  integer, parameter :: wide = selected_int_kind(18)
  integer, parameter :: bcast = 2, exscan = 17  ! as begin() numbers them
  ! The input and output of each function, for each of the two communicators.
  integer, asynchronous :: in(length, functions, 2), out(length, functions, 2)
  integer :: counts(most), places(most), bytes(most), same(most, 2)
  HANDLE(MPI_Datatype) :: types(most)
  HANDLE(MPI_Comm) :: comms(2)
  HANDLE(MPI_Request) :: requests(functions, 2)
  integer :: rank, size, error, c, round, me, root
  integer(wide) :: digest, total

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call expect(size <= most, 'the number of ranks')
  comms(1) = MPI_COMM_WORLD
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, comms(2), error)
  counts = [(1 + mod(c, 2), c = 1, most)]
  places = [(3 * (c - 1), c = 1, most)]
  bytes = 4 * places
  types = MPI_INTEGER
  digest = 0
  do round = 1, rounds
    call nonblocking()
  end do
  call persistent()
  call messages()
  call MPI_Comm_free(comms(2), error)
  call MPI_Allreduce(digest, total, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,i0)', 'digest ', total
  call MPI_Finalize(error)

contains

  include 'expect.inc'

  ! Returns element `i` of what member `from` passes to function `f`.
  integer elemental function value(from, i, f)
    integer, intent(in) :: from, i, f
    value = 10000 * round + 1000 * from + 30 * f + i + c
  end function

  ! Chooses communicator `which` for the following calls.
  subroutine choose(which)
    integer, intent(in) :: which
    c = which
    call MPI_Comm_rank(comms(c), me, error)
    root = mod(round + c, size)
    same(:, c) = counts(me + 1)
  end subroutine

  subroutine fill()
    integer :: f, i
    do f = 1, functions
      in(:, f, c) = [(value(me, i, f), i = 1, length)]
    end do
    out(:, :, c) = -1
    if (me == root) out(1:2, bcast, c) = in(1:2, bcast, c)
  end subroutine

  integer function block_sum(f, first, last, at)
    integer, intent(in) :: f, first, last, at
    integer :: r
    block_sum = sum([(value(r, at, f), r = first, last)])
  end function

  ! Compares the output of all functions, and the gaps, which must not have changed.
  subroutine check()
    integer :: wanted(length, functions), i, r, at
    wanted = -1
    at = sum(counts(1:me))
    do i = 1, 2
      wanted(i, bcast) = value(root, i, bcast)
      wanted(i, 3) = block_sum(3, 0, size - 1, i)
      wanted(i, 7) = block_sum(7, 0, size - 1, 2 * me + i)
      if (me == root) wanted(i, 8) = block_sum(8, 0, size - 1, i)
      wanted(i, 11) = value(root, 2 * me + i, 11)
      wanted(i, 16) = block_sum(16, 0, me, i)
      wanted(i, exscan) = block_sum(exscan, 0, me - 1, i)
      do r = 0, size - 1
        wanted(2 * r + i, 4) = value(r, i, 4)
        if (me == root) wanted(2 * r + i, 9) = value(r, i, 9)
        wanted(2 * r + i, 13) = value(r, 2 * me + i, 13)
        if (i <= counts(r + 1)) wanted(places(r + 1) + i, 5) = value(r, i, 5)
        if (i <= counts(r + 1) .and. me == root) wanted(places(r + 1) + i, 10) = value(r, i, 10)
        if (i > same(1, c)) cycle
        wanted(places(r + 1) + i, 14) = value(r, places(me + 1) + i, 14)
        wanted(places(r + 1) + i, 15) = value(r, places(me + 1) + i, 15)
      end do
      if (i > same(1, c)) cycle
      wanted(i, 6) = block_sum(6, 0, size - 1, at + i)
      wanted(i, 12) = value(root, places(me + 1) + i, 12)
    end do
    if (me == 0) out(:, exscan, c) = wanted(:, exscan)  ! it is undefined
    do i = 1, functions
      if (all(out(:, i, c) == wanted(:, i))) cycle
      print '(3(a,i0))', 'function ', i, ', round ', round, ', communicator ', c
      call expect(.false., 'a result')
    end do
    digest = mod(digest * 31 + sum(int(out(:, :, c), wide)), 1000000007_wide)
  end subroutine

  subroutine begin()
    associate (comm => comms(c), r => requests(:, c))
      call MPI_Ibarrier(comm, r(1), error)
      call MPI_Ibcast(out(1, 2, c), 2, MPI_INTEGER, root, comm, r(2), error)
      call MPI_Iallreduce(in(1, 3, c), out(1, 3, c), 2, MPI_INTEGER, MPI_SUM, comm, r(3), error)
      call MPI_Iallgather(in(1, 4, c), 2, MPI_INTEGER, out(1, 4, c), 2, MPI_INTEGER, comm, r(4), error)
      call MPI_Iallgatherv(in(1, 5, c), same(1, c), MPI_INTEGER, out(1, 5, c), counts, places, &
        MPI_INTEGER, comm, r(5), error)
      call MPI_Ireduce_scatter(in(1, 6, c), out(1, 6, c), counts, MPI_INTEGER, MPI_SUM, comm, r(6), &
        error)
      call MPI_Ireduce_scatter_block(in(1, 7, c), out(1, 7, c), 2, MPI_INTEGER, MPI_SUM, comm, r(7), &
        error)
      call MPI_Ireduce(in(1, 8, c), out(1, 8, c), 2, MPI_INTEGER, MPI_SUM, root, comm, r(8), error)
      call MPI_Igather(in(1, 9, c), 2, MPI_INTEGER, out(1, 9, c), 2, MPI_INTEGER, root, comm, r(9), &
        error)
      call MPI_Igatherv(in(1, 10, c), same(1, c), MPI_INTEGER, out(1, 10, c), counts, places, &
        MPI_INTEGER, root, comm, r(10), error)
      call MPI_Iscatter(in(1, 11, c), 2, MPI_INTEGER, out(1, 11, c), 2, MPI_INTEGER, root, comm, &
        r(11), error)
      call MPI_Iscatterv(in(1, 12, c), counts, places, MPI_INTEGER, out(1, 12, c), same(1, c), &
        MPI_INTEGER, root, comm, r(12), error)
      call MPI_Ialltoall(in(1, 13, c), 2, MPI_INTEGER, out(1, 13, c), 2, MPI_INTEGER, comm, r(13), &
        error)
      call MPI_Ialltoallv(in(1, 14, c), counts, places, MPI_INTEGER, out(1, 14, c), same(:, c), places, &
        MPI_INTEGER, comm, r(14), error)
      call MPI_Ialltoallw(in(1, 15, c), counts, bytes, types, out(1, 15, c), same(:, c), bytes, types, &
        comm, r(15), error)
      call MPI_Iscan(in(1, 16, c), out(1, 16, c), 2, MPI_INTEGER, MPI_SUM, comm, r(16), error)
      call MPI_Iexscan(in(1, 17, c), out(1, 17, c), 2, MPI_INTEGER, MPI_SUM, comm, r(17), error)
    end associate
  end subroutine

  subroutine init()
    associate (comm => comms(c), r => requests(:, c))
      call MPIX_Barrier_init(comm, MPI_INFO_NULL, r(1), error)
      call MPIX_Bcast_init(out(1, 2, c), 2, MPI_INTEGER, root, comm, &
        MPI_INFO_NULL, r(2), error)
      call MPIX_Allreduce_init(in(1, 3, c), out(1, 3, c), 2, MPI_INTEGER, MPI_SUM, comm, &
        MPI_INFO_NULL, r(3), error)
      call MPIX_Allgather_init(in(1, 4, c), 2, MPI_INTEGER, out(1, 4, c), 2, MPI_INTEGER, comm, &
        MPI_INFO_NULL, r(4), error)
      call MPIX_Allgatherv_init(in(1, 5, c), same(1, c), MPI_INTEGER, out(1, 5, c), counts, places, &
        MPI_INTEGER, comm, MPI_INFO_NULL, r(5), error)
      call MPIX_Reduce_scatter_init(in(1, 6, c), out(1, 6, c), counts, MPI_INTEGER, MPI_SUM, comm, &
        MPI_INFO_NULL, r(6), error)
      call MPIX_Reduce_scatter_block_init(in(1, 7, c), out(1, 7, c), 2, MPI_INTEGER, MPI_SUM, comm, &
        MPI_INFO_NULL, r(7), error)
      call MPIX_Reduce_init(in(1, 8, c), out(1, 8, c), 2, MPI_INTEGER, MPI_SUM, root, comm, &
        MPI_INFO_NULL, r(8), error)
      call MPIX_Gather_init(in(1, 9, c), 2, MPI_INTEGER, out(1, 9, c), 2, MPI_INTEGER, root, comm, &
        MPI_INFO_NULL, r(9), error)
      call MPIX_Gatherv_init(in(1, 10, c), same(1, c), MPI_INTEGER, out(1, 10, c), counts, places, &
        MPI_INTEGER, root, comm, MPI_INFO_NULL, r(10), error)
      call MPIX_Scatter_init(in(1, 11, c), 2, MPI_INTEGER, out(1, 11, c), 2, MPI_INTEGER, root, comm, MPI_INFO_NULL, r(11), error)
      call MPIX_Scatterv_init(in(1, 12, c), counts, places, MPI_INTEGER, out(1, 12, c), same(1, c), &
        MPI_INTEGER, root, comm, MPI_INFO_NULL, r(12), error)
      call MPIX_Alltoall_init(in(1, 13, c), 2, MPI_INTEGER, out(1, 13, c), 2, MPI_INTEGER, comm, &
        MPI_INFO_NULL, r(13), error)
      call MPIX_Alltoallv_init(in(1, 14, c), counts, places, MPI_INTEGER, out(1, 14, c), same(:, c), places, &
        MPI_INTEGER, comm, MPI_INFO_NULL, r(14), error)
      call MPIX_Alltoallw_init(in(1, 15, c), counts, bytes, types, out(1, 15, c), same(:, c), bytes, types, &
        comm, &
        MPI_INFO_NULL, r(15), error)
      call MPIX_Scan_init(in(1, 16, c), out(1, 16, c), 2, MPI_INTEGER, MPI_SUM, comm, &
        MPI_INFO_NULL, r(16), error)
      call MPIX_Exscan_init(in(1, 17, c), out(1, 17, c), 2, MPI_INTEGER, MPI_SUM, comm, &
        MPI_INFO_NULL, r(17), error)
    end associate
  end subroutine

  ! Completes all requests of both communicators, in one of several ways.
  subroutine complete(n, all)
    integer, intent(in) :: n
    HANDLE(MPI_Request), intent(inout) :: all(n)
    integer :: i, index
    logical :: flag
    select case (mod(round, 5))
    case (0)
      call MPI_Waitall(n, all, MPI_STATUSES_IGNORE, error)
    case (1)
      do i = n, 1, -1
        call MPI_Wait(all(i), MPI_STATUS_IGNORE, error)
      end do
    case (2)
      do i = 1, n
        call MPI_Waitany(n, all, index, MPI_STATUS_IGNORE, error)
        call expect(index >= 1 .and. index <= n, 'an index of MPI_Waitany')
      end do
      call MPI_Waitany(n, all, index, MPI_STATUS_IGNORE, error)
      call expect(index == MPI_UNDEFINED, 'no index of MPI_Waitany')
    case (3)
      do i = 1, n
        flag = .false.
        do while (.not. flag)
          call MPI_Test(all(i), flag, MPI_STATUS_IGNORE, error)
        end do
      end do
    case default
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(n, all, flag, MPI_STATUSES_IGNORE, error)
      end do
    end select
  end subroutine

  subroutine nonblocking()
    integer :: which, f
    do which = 1, 2
      call choose(which)
      call fill()
      call begin()
    end do
    call complete(2 * functions, requests)
    do which = 1, 2
      call choose(which)
      call check()
      do f = 1, functions
        call expect(requests(f, c) == MPI_REQUEST_NULL, 'a request that is over is null')
      end do
    end do
  end subroutine

  ! A persistent request has the root with which it was created.
  subroutine persistent()
    integer :: which, f, again, first_round
    first_round = rounds + 1
    do which = 1, 2
      round = first_round
      call choose(which)
      call init()
    end do
    do again = 0, rounds - 1
      do which = 1, 2
        call choose(which)
        round = first_round + again
        root = mod(first_round + c, size)
        call fill()
        call MPI_Startall(functions, requests(:, c), error)
      end do
      call complete(2 * functions, requests)
      do which = 1, 2
        call choose(which)
        root = mod(first_round + c, size)
        call check()
      end do
    end do
    do which = 1, 2
      do f = 1, functions
        call expect(requests(f, which) /= MPI_REQUEST_NULL, 'a persistent request stays')
        call MPI_Request_free(requests(f, which), error)
        call expect(requests(f, which) == MPI_REQUEST_NULL, 'MPI_Request_free')
      end do
    end do
  end subroutine

  ! Sends every kind of persistent message to the next rank, and receives from the rank before.
  subroutine messages()
    use, intrinsic :: iso_c_binding, only: c_ptr
    integer, parameter :: kinds = 4
#ifdef USE_F08
    type(c_ptr) :: detached
#else
    integer(MPI_ADDRESS_KIND) :: detached
#endif
    integer, asynchronous :: sent(kinds), got(kinds)
    character, allocatable :: buffer(:)
    HANDLE(MPI_Request) :: all(2 * kinds)
    integer :: i, next, before, room, bytes_attached
    next = mod(rank + 1, size)
    before = mod(rank + size - 1, size)
    room = 10 * (MPI_BSEND_OVERHEAD + 64)
    allocate (buffer(room))
    call MPI_Buffer_attach(buffer, room, error)
    call MPI_Send_init(sent(1), 1, MPI_INTEGER, next, 1, MPI_COMM_WORLD, all(1), error)
    call MPI_Ssend_init(sent(2), 1, MPI_INTEGER, next, 2, MPI_COMM_WORLD, all(2), error)
    call MPI_Bsend_init(sent(3), 1, MPI_INTEGER, next, 3, MPI_COMM_WORLD, all(3), error)
    call MPI_Rsend_init(sent(4), 1, MPI_INTEGER, next, 4, MPI_COMM_WORLD, all(4), error)
    do i = 1, kinds
      call MPI_Recv_init(got(i), 1, MPI_INTEGER, before, i, MPI_COMM_WORLD, all(kinds + i), error)
    end do
    do round = 1, rounds
      sent = [(1000 * round + 10 * rank + i, i = 1, kinds)]
      got = -1
      call MPI_Startall(kinds, all(kinds + 1:), error)
      call MPI_Barrier(MPI_COMM_WORLD, error)  ! a ready send needs its receive
      do i = 1, kinds
        call MPI_Start(all(i), error)
      end do
      call complete(2 * kinds, all)
      call expect(all_equal(got, [(1000 * round + 10 * before + i, i = 1, kinds)]), 'messages')
      digest = digest + sum(got)
    end do
    do i = 1, 2 * kinds
      call MPI_Request_free(all(i), error)
    end do
    call MPI_Buffer_detach(detached, bytes_attached, error)
    call expect(bytes_attached == room, 'MPI_Buffer_detach')
  end subroutine

  logical function all_equal(a, b)
    integer, intent(in) :: a(:), b(:)
    all_equal = all(a == b)
  end function
end program
