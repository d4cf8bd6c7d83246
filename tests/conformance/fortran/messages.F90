! Conformance of messages, requests and statuses in Fortran, with mpif.h or (USE_MPI) the module mpi:
! indices from 1, logicals, constants that are recognised by their addresses.
program messages
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#ifndef USE_MPI
  include 'mpif.h'
#endif
  integer, parameter :: many = 40, tag = 7
  integer :: rank, size, next, before, error, sum

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  next = mod(rank + 1, size)
  before = mod(rank + size - 1, size)
  sum = 0
  call environment()
  call blocking()
  call probes()
  call completion()
  call persistent()
  call proc_null()
  call MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,i0)', 'sum of what was received: ', sum
  call MPI_Finalize(error)

contains

  include 'expect.inc'

  subroutine environment()
    logical :: flag
    integer :: version, subversion, length, level
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    double precision :: start
    call MPI_Initialized(flag, error)
    call expect(flag, 'MPI_Initialized')
    call MPI_Finalized(flag, error)
    call expect(.not. flag, 'MPI_Finalized')
    call MPI_Get_version(version, subversion, error)
    call expect(version == MPI_VERSION .and. subversion == MPI_SUBVERSION, 'MPI_Get_version')
    name = repeat('x', len(name))
    call MPI_Get_processor_name(name, length, error)
    call expect(len_trim(name) == length .and. length > 0, 'MPI_Get_processor_name')
    call MPI_Query_thread(level, error)
    call expect(level >= MPI_THREAD_SINGLE, 'MPI_Query_thread')
    call MPI_Is_thread_main(flag, error)
    call expect(flag, 'MPI_Is_thread_main')
    start = MPI_Wtime()
    call expect(MPI_Wtime() >= start, 'MPI_Wtime')
    call expect(MPI_Wtick() > 0d0, 'MPI_Wtick')
    if (rank == 0) print '(a,i0,a,i0)', 'MPI ', version, '.', subversion
  end subroutine

  subroutine blocking()
    integer :: status(MPI_STATUS_SIZE), got, count
    double precision :: field(4), there(4)
    field = [1, 2, 3, 4] * rank
    there = -1
    call MPI_Sendrecv(field, 4, MPI_DOUBLE_PRECISION, next, tag, there, 4, MPI_DOUBLE_PRECISION, &
      before, tag, MPI_COMM_WORLD, status, error)
    call expect(error == MPI_SUCCESS, 'error of MPI_Sendrecv')
    call expect(all(nint(there) == [1, 2, 3, 4] * before), 'MPI_Sendrecv')
    call expect(status(MPI_SOURCE) == before .and. status(MPI_TAG) == tag, 'its status')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count, error)
    call expect(count == 4, 'MPI_Get_count')
    got = rank
    call MPI_Sendrecv_replace(got, 1, MPI_INTEGER, next, tag, before, tag, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, error)
    call expect(got == before, 'MPI_Sendrecv_replace')
    sum = sum + got
    if (size > 1 .and. rank == 0) then
      call MPI_Send(rank, 1, MPI_INTEGER, next, tag, MPI_COMM_WORLD, error)
    else if (rank == 1) then
      call MPI_Recv(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, error)
      call expect(got == 0 .and. status(MPI_SOURCE) == 0, 'MPI_Recv of any source')
    end if
  end subroutine

  subroutine probes()
    integer :: status(MPI_STATUS_SIZE), request, message, got, count
    logical :: flag
    call MPI_Isend(rank, 1, MPI_INTEGER, next, 111, MPI_COMM_WORLD, request, error)
    call MPI_Probe(before, 111, MPI_COMM_WORLD, status, error)
    call MPI_Get_count(status, MPI_INTEGER, count, error)
    call expect(count == 1 .and. status(MPI_SOURCE) == before, 'MPI_Probe')
    call MPI_Iprobe(before, 111, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, error)
    call expect(flag, 'MPI_Iprobe of what is there')
    call MPI_Iprobe(before, 112, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, error)
    call expect(.not. flag, 'MPI_Iprobe of what is not there')
    call MPI_Mprobe(before, 111, MPI_COMM_WORLD, message, status, error)
    call MPI_Mrecv(got, 1, MPI_INTEGER, message, status, error)
    call expect(got == before .and. message == MPI_MESSAGE_NULL, 'MPI_Mrecv')
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    call expect(request == MPI_REQUEST_NULL, 'a request that is done')
  end subroutine

  ! Completes more requests than the library's small arrays have room for.
  subroutine completion()
    integer :: requests(2 * many), statuses(MPI_STATUS_SIZE, 2 * many), status(MPI_STATUS_SIZE)
    integer, volatile :: values(many)
    integer :: i, k, index, indices(many), outcount, left
    logical :: flag, done(many)
    do i = 1, many
      call MPI_Irecv(values(i), 1, MPI_INTEGER, before, i, MPI_COMM_WORLD, requests(i), error)
      call MPI_Isend(rank * 100 + i, 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, requests(many + i), &
        error)
    end do
    call MPI_Waitall(2 * many, requests, statuses, error)
    call expect(all(requests == MPI_REQUEST_NULL), 'requests after MPI_Waitall')
    call expect(all(values == [(before * 100 + i, i = 1, many)]), 'MPI_Waitall')
    call expect(all(statuses(MPI_SOURCE, 1:many) == before), 'sources of MPI_Waitall')
    call expect(all(statuses(MPI_TAG, 1:many) == [(i, i = 1, many)]), 'tags of MPI_Waitall')
    do k = 1, 4
      done = .false.
      left = many
      values = -1
      do i = 1, many
        call MPI_Irecv(values(i), 1, MPI_INTEGER, before, i, MPI_COMM_WORLD, requests(i), error)
      end do
      do i = many, 1, -1
        call MPI_Send(rank * 100 + i, 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, error)
      end do
      do while (left > 0)
        outcount = 1
        flag = .true.
        select case (k)
        case (1)
          call MPI_Waitany(many, requests, indices(1), status, error)
          call expect(status(MPI_TAG) == indices(1), 'the index of MPI_Waitany')
        case (2)
          call MPI_Testany(many, requests, indices(1), flag, status, error)
          if (flag) call expect(status(MPI_TAG) == indices(1), 'the index of MPI_Testany')
        case (3)
          call MPI_Waitsome(many, requests, outcount, indices, statuses, error)
          call expect(all(statuses(MPI_TAG, 1:outcount) == indices(1:outcount)), 'MPI_Waitsome')
        case (4)
          call MPI_Testsome(many, requests, outcount, indices, statuses, error)
          call expect(all(statuses(MPI_TAG, 1:outcount) == indices(1:outcount)), 'MPI_Testsome')
        end select
        if (.not. flag) cycle
        do i = 1, outcount
          index = indices(i)
          call expect(index >= 1 .and. index <= many, 'an index out of bounds')
          call expect(.not. done(index) .and. values(index) == before * 100 + index, 'a value')
          done(index) = .true.
          sum = sum + values(index)
        end do
        left = left - outcount
      end do
    end do
    call MPI_Waitany(many, requests, index, MPI_STATUS_IGNORE, error)
    call expect(index == MPI_UNDEFINED, 'MPI_Waitany of nothing')
    call MPI_Waitsome(many, requests, outcount, indices, MPI_STATUSES_IGNORE, error)
    call expect(outcount == MPI_UNDEFINED, 'MPI_Waitsome of nothing')
    call MPI_Testall(many, requests, flag, MPI_STATUSES_IGNORE, error)
    call expect(flag, 'MPI_Testall of nothing')
    call MPI_Irecv(values(1), 1, MPI_INTEGER, before, 99, MPI_COMM_WORLD, requests(1), error)
    call MPI_Test(requests(1), flag, status, error)
    call expect(.not. flag .and. requests(1) /= MPI_REQUEST_NULL, 'MPI_Test of nothing sent')
    call MPI_Cancel(requests(1), error)
    call MPI_Wait(requests(1), status, error)
    call MPI_Test_cancelled(status, flag, error)
    call expect(flag, 'MPI_Test_cancelled')
  end subroutine

  subroutine persistent()
    integer :: requests(2), status(MPI_STATUS_SIZE), i
    integer, volatile :: value, got
    logical :: flag
    call MPI_Send_init(value, 1, MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(1), error)
    call MPI_Recv_init(got, 1, MPI_INTEGER, before, 3, MPI_COMM_WORLD, requests(2), error)
    do i = 1, 3
      value = 1000 * i + rank
      got = 0
      call MPI_Startall(2, requests, error)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
      call expect(got == 1000 * i + before, 'a persistent receive')
      call expect(all(requests /= MPI_REQUEST_NULL), 'persistent requests stay')
    end do
    call MPI_Request_get_status(requests(1), flag, status, error)
    call expect(flag, 'MPI_Request_get_status')
    call MPI_Request_free(requests(1), error)
    call MPI_Request_free(requests(2), error)
    call expect(all(requests == MPI_REQUEST_NULL), 'MPI_Request_free')
  end subroutine

  subroutine proc_null()
    integer :: status(MPI_STATUS_SIZE), got
    got = 5
    call MPI_Recv(got, 1, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status, error)
    call expect(got == 5 .and. status(MPI_SOURCE) == MPI_PROC_NULL, 'MPI_PROC_NULL')
    call expect(status(MPI_TAG) == MPI_ANY_TAG, 'the tag of MPI_PROC_NULL')
  end subroutine
end program
