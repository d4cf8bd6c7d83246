! Conformance of callbacks in Fortran, with mpif.h or (USE_MPI) the module mpi: operations, copy and
! delete functions of attributes in the forms of MPI 1 and MPI 2, error handlers.
module callback_functions
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#ifndef USE_MPI
  include 'mpif.h'
#endif
  integer, parameter :: address = MPI_ADDRESS_KIND
  integer :: copied = 0, deleted = 0, raised = 0, raised_class = 0, raised_on = 0
  integer(address) :: last_deleted = 0

contains

  ! An operation that is associative and not commutative: (a, b) * (c, d) = (a * c, b * c + d).
  subroutine compose(in, inout, length, type)
    integer :: length, type, i
    integer(address) :: in(2, length), inout(2, length)
    if (type == MPI_DATATYPE_NULL) stop 4
    do i = 1, length
      inout(2, i) = mod(in(2, i) * inout(1, i) + inout(2, i), 1000003_address)
      inout(1, i) = mod(in(1, i) * inout(1, i), 1000003_address)
    end do
  end subroutine

  subroutine larger_magnitude(in, inout, length, type)
    integer :: length, type
    double precision :: in(length), inout(length)
    if (type /= MPI_DOUBLE_PRECISION) stop 4
    where (abs(in) > abs(inout)) inout = in
  end subroutine

  subroutine copy_next(comm, keyval, extra, in, out, flag, error)
    integer :: comm, keyval, error
    integer(address) :: extra, in, out
    logical :: flag
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) stop 4
    copied = copied + 1
    out = in + extra
    flag = .true.
    error = MPI_SUCCESS
  end subroutine

  subroutine delete_value(comm, keyval, value, extra, error)
    integer :: comm, keyval, error
    integer(address) :: value, extra
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) stop 4
    deleted = deleted + 1
    last_deleted = value + extra
    error = MPI_SUCCESS
  end subroutine

  subroutine query_request(extra, status, error)
    integer(address) :: extra
    integer :: status(MPI_STATUS_SIZE), error
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra), error)
    call MPI_Status_set_cancelled(status, .false., error)
    status(MPI_TAG) = 77
    copied = copied + 1
    error = MPI_SUCCESS
  end subroutine

  subroutine free_request(extra, error)
    integer(address) :: extra
    integer :: error
    last_deleted = extra
    extra = extra + 1
    deleted = deleted + 1
    error = MPI_SUCCESS
  end subroutine

  subroutine cancel_request(extra, complete, error)
    integer(address) :: extra
    logical :: complete
    integer :: error
    if (complete) raised = raised + int(extra)
    error = MPI_SUCCESS
  end subroutine

  subroutine copy_old(comm, keyval, extra, in, out, flag, error)
    integer :: comm, keyval, extra, in, out, error
    logical :: flag
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) stop 4
    copied = copied + 100
    out = in * extra
    flag = in > 0
    error = MPI_SUCCESS
  end subroutine

  subroutine delete_old(comm, keyval, value, extra, error)
    integer :: comm, keyval, value, extra, error
    if (comm == MPI_COMM_NULL .or. keyval == MPI_KEYVAL_INVALID) stop 4
    deleted = deleted + 100
    last_deleted = value * extra
    error = MPI_SUCCESS
  end subroutine

  subroutine note_error(comm, code)
    integer :: comm, code, error
    raised = raised + 1
    raised_on = comm
    call MPI_Error_class(code, raised_class, error)
  end subroutine
end module

program callbacks
  use callback_functions
  implicit none
  integer :: rank, size, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call operations()
  call attributes()
  call type_attributes()
  call generalized_requests()
  call old_attributes()
  call both_manners()
  call predefined_attributes()
  call error_handlers()
  if (rank == 0) print '(a,i0)', 'done by ', size
  call MPI_Finalize(error)

contains

  include 'expect.inc'

  subroutine operations()
    integer :: op, larger, i, pair
    integer(address) :: mine(2, 100), all(2, 100), scanned(2, 100)
    double precision :: x(3), y(3)
    logical :: commutes
    call MPI_Op_create(compose, .false., op, error)
    call MPI_Op_commutative(op, commutes, error)
    call expect(.not. commutes, 'MPI_Op_commutative of what is not')
    do i = 1, 100
      mine(:, i) = [int(rank + i + 1, address), int(3 * rank + i, address)]
    end do
    call MPI_Type_contiguous(2, MPI_AINT, pair, error)
    call MPI_Type_commit(pair, error)
    call MPI_Allreduce(mine, all, 100, pair, op, MPI_COMM_WORLD, error)
    call MPI_Scan(mine, scanned, 100, pair, op, MPI_COMM_WORLD, error)
    if (rank == size - 1) call expect(all_equal(all, scanned), 'the last of MPI_Scan')
    if (rank == 0) then
      call expect(all_equal(mine, scanned), 'the first of MPI_Scan')
      print '(a,4(1x,i0))', 'composed', all(:, 1), all(:, 100)
    end if
    call MPI_Op_free(op, error)
    call expect(op == MPI_OP_NULL, 'MPI_Op_free')
    call MPI_Op_create(larger_magnitude, .true., larger, error)
    call MPI_Op_commutative(larger, commutes, error)
    call expect(commutes, 'MPI_Op_commutative')
    x = [1d0 * rank, -2d0 * rank, 5d0 - rank]
    call MPI_Allreduce(MPI_IN_PLACE, x, 3, MPI_DOUBLE_PRECISION, larger, MPI_COMM_WORLD, error)
    if (rank == 0) print '(a,3f8.2)', 'larger', x
    y = [0d0, 100d0, -200d0]
    call MPI_Reduce_local(x, y, 3, MPI_DOUBLE_PRECISION, larger, error)
    call expect(nint(y(2)) == 100 .and. nint(y(3)) == -200, 'MPI_Reduce_local')
    call MPI_Op_free(larger, error)
    call MPI_Type_free(pair, error)
  end subroutine

  logical function all_equal(a, b)
    integer(address), intent(in) :: a(:, :), b(:, :)
    all_equal = all(a == b)
  end function

  subroutine attributes()
    integer :: keyval, none, dup, copy
    integer(address) :: value
    logical :: flag
    copied = 0
    deleted = 0
    call MPI_Comm_create_keyval(copy_next, delete_value, keyval, 1000_address, error)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, none, 0_address, &
      error)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, dup, 0_address, error)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, flag, error)
    call expect(.not. flag, 'an attribute that was not set')
    ! This value does not fit into INTEGER.
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, 5000000000_address, error)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, none, 17_address, error)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, dup, -18_address, error)
    call MPI_Comm_dup(MPI_COMM_WORLD, copy, error)
    call expect(copied == 1, 'calls of the copy function')
    call MPI_Comm_get_attr(copy, keyval, value, flag, error)
    call expect(flag .and. value == 5000001000_address, 'what the copy function gave')
    call MPI_Comm_get_attr(copy, none, value, flag, error)
    call expect(.not. flag, 'MPI_COMM_NULL_COPY_FN')
    call MPI_Comm_get_attr(copy, dup, value, flag, error)
    call expect(flag .and. value == -18, 'MPI_COMM_DUP_FN')
    call MPI_Comm_set_attr(copy, keyval, 7_address, error)
    call expect(deleted == 1 .and. last_deleted == 5000002000_address, 'a value set again')
    call MPI_Comm_delete_attr(copy, keyval, error)
    call expect(deleted == 2 .and. last_deleted == 1007, 'MPI_Comm_delete_attr')
    call MPI_Comm_free(copy, error)
    call expect(deleted == 2, 'nothing left to delete')
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, error)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, none, error)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, dup, error)
    call expect(deleted == 3, 'the delete function of each')
    call MPI_Comm_free_keyval(keyval, error)
    call MPI_Comm_free_keyval(none, error)
    call MPI_Comm_free_keyval(dup, error)
    call expect(keyval == MPI_KEYVAL_INVALID, 'MPI_Comm_free_keyval')
  end subroutine

  subroutine type_attributes()
    integer :: keyval, none, dup, windows, type, copy
    integer(address) :: value
    logical :: flag
    copied = 0
    deleted = 0
    call MPI_Type_create_keyval(copy_next, delete_value, keyval, 1000_address, error)
    call MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, none, 0_address, &
      error)
    call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, dup, 0_address, error)
    call MPI_Type_contiguous(2, MPI_INTEGER, type, error)
    call MPI_Type_get_attr(type, keyval, value, flag, error)
    call expect(.not. flag, 'a type without the attribute')
    call MPI_Type_set_attr(type, keyval, 5000000000_address, error)
    call MPI_Type_set_attr(type, none, 17_address, error)
    call MPI_Type_set_attr(type, dup, -18_address, error)
    call MPI_Type_dup(type, copy, error)
    call expect(copied == 1, 'calls of the copy function of a type')
    call MPI_Type_get_attr(copy, keyval, value, flag, error)
    call expect(flag .and. value == 5000001000_address, 'what a type''s copy function gave')
    call MPI_Type_get_attr(copy, none, value, flag, error)
    call expect(.not. flag, 'MPI_TYPE_NULL_COPY_FN')
    call MPI_Type_get_attr(copy, dup, value, flag, error)
    call expect(flag .and. value == -18, 'MPI_TYPE_DUP_FN')
    call MPI_Type_delete_attr(copy, dup, error)
    call MPI_Type_free(copy, error)
    call expect(deleted == 1 .and. last_deleted == 5000002000_address, 'MPI_Type_free')
    call MPI_Type_delete_attr(type, keyval, error)
    call expect(deleted == 2 .and. last_deleted == 5000001000_address, 'MPI_Type_delete_attr')
    call MPI_Type_free(type, error)
    call expect(deleted == 2, 'nothing left to delete of a type')
    call MPI_Type_free_keyval(keyval, error)
    call MPI_Type_free_keyval(none, error)
    call MPI_Type_free_keyval(dup, error)
    call expect(keyval == MPI_KEYVAL_INVALID, 'MPI_Type_free_keyval')
    call MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, windows, 0_address, error)
    call MPI_Win_free_keyval(windows, error)
    call expect(windows == MPI_KEYVAL_INVALID, 'MPI_Win_free_keyval')
  end subroutine

  subroutine generalized_requests()
    integer :: request, status(MPI_STATUS_SIZE), length
    integer(address), volatile :: state
    logical :: flag
    copied = 0
    deleted = 0
    raised = 0
    state = 1
    call MPI_Grequest_start(query_request, free_request, cancel_request, state, request, error)
    state = 1234
    call MPI_Test(request, flag, status, error)
    call expect(.not. flag .and. copied == 0, 'a request that is not complete')
    call MPI_Grequest_complete(request, error)
    call MPI_Cancel(request, error)
    call expect(raised == 1234, 'the cancel function')
    call MPI_Wait(request, status, error)
    call MPI_Get_count(status, MPI_INTEGER, length, error)
    call expect(copied == 1 .and. length == 1234, 'the query function')
    call expect(status(MPI_TAG) == 77 .and. request == MPI_REQUEST_NULL, 'its status')
    call expect(deleted == 1 .and. last_deleted == 1234, 'the free function')
    call expect(state == 1235, 'what a function left in the variable')
    raised = 0
  end subroutine

  subroutine old_attributes()
    integer :: keyval, dup, copy, value
    logical :: flag
    copied = 0
    deleted = 0
    call MPI_Keyval_create(copy_old, delete_old, keyval, 3, error)
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, dup, 0, error)
    call MPI_Attr_put(MPI_COMM_SELF, keyval, 14, error)
    call MPI_Attr_put(MPI_COMM_SELF, dup, -2, error)
    call MPI_Comm_dup(MPI_COMM_SELF, copy, error)
    call MPI_Attr_get(copy, keyval, value, flag, error)
    call expect(flag .and. value == 42 .and. copied == 100, 'what the old copy function gave')
    call MPI_Attr_get(copy, dup, value, flag, error)
    call expect(flag .and. value == -2, 'MPI_DUP_FN')
    call MPI_Comm_free(copy, error)
    call expect(deleted == 100 .and. last_deleted == 126, 'the old delete function')
    call MPI_Attr_delete(MPI_COMM_SELF, keyval, error)
    call MPI_Attr_delete(MPI_COMM_SELF, dup, error)
    call expect(deleted == 200 .and. last_deleted == 42, 'MPI_Attr_delete')
    call MPI_Keyval_free(keyval, error)
    call MPI_Keyval_free(dup, error)
  end subroutine

  ! Values that are set by the functions of MPI 1 are visible to those of MPI 2, and vice versa.
  subroutine both_manners()
    integer :: keyval, value
    integer(address) :: wide
    logical :: flag
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, &
      0_address, error)
    call MPI_Attr_put(MPI_COMM_SELF, keyval, -77, error)
    call MPI_Comm_get_attr(MPI_COMM_SELF, keyval, wide, flag, error)
    call expect(flag .and. wide == -77, 'an INTEGER read as an address')
    call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 4294967296_address + 5, error)
    call MPI_Attr_get(MPI_COMM_SELF, keyval, value, flag, error)
    call expect(flag .and. value == 5, 'an address read as an INTEGER')
    call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval, error)
    call MPI_Comm_free_keyval(keyval, error)
  end subroutine

  subroutine predefined_attributes()
    integer(address) :: value
    integer :: old
    logical :: flag
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, error)
    call expect(flag .and. value >= 32767, 'MPI_TAG_UB')
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, old, flag, error)
    call expect(flag .and. old == value, 'MPI_TAG_UB in the manner of MPI 1')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, error)
    call expect(flag .and. (value == 0 .or. value == 1), 'MPI_WTIME_IS_GLOBAL')
  end subroutine

  subroutine error_handlers()
    integer :: handler, same, comm, value, code, class, length, newclass
    character(len=MPI_MAX_ERROR_STRING) :: text
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
    call MPI_Comm_create_errhandler(note_error, handler, error)
    call MPI_Comm_set_errhandler(comm, handler, error)
    call MPI_Comm_get_errhandler(comm, same, error)
    call expect(same == handler, 'MPI_Comm_get_errhandler')
    call MPI_Send(value, 1, MPI_INTEGER, size + 3, 1, comm, code)
    call expect(raised == 1 .and. raised_class == MPI_ERR_RANK, 'an error of the wrong rank')
    call expect(raised_on == comm, 'the communicator that is given to an error handler')
    call MPI_Error_class(code, class, error)
    call expect(class == MPI_ERR_RANK, 'the error code that is returned')
    call MPI_Comm_call_errhandler(comm, MPI_ERR_TAG, error)
    call expect(raised == 2 .and. raised_class == MPI_ERR_TAG, 'MPI_Comm_call_errhandler')
    call MPI_Errhandler_free(same, error)
    call MPI_Errhandler_free(handler, error)
    call expect(handler == MPI_ERRHANDLER_NULL, 'MPI_Errhandler_free')
    call MPI_Send(value, -1, MPI_INTEGER, 0, 1, comm, code)
    call expect(raised == 3 .and. raised_class == MPI_ERR_COUNT, 'the handler stays in use')
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, error)
    call MPI_Send(value, 1, MPI_DATATYPE_NULL, 0, 1, comm, code)
    call expect(raised == 3 .and. code /= MPI_SUCCESS, 'MPI_ERRORS_RETURN')
    text = repeat('x', len(text))
    call MPI_Error_string(code, text, length, error)
    call expect(len_trim(text) == length .and. length > 0, 'MPI_Error_string')
    call MPI_Add_error_class(newclass, error)
    call MPI_Add_error_string(newclass, '  no such planet   ', error)
    call MPI_Error_string(newclass, text, length, error)
    call expect(index(text, 'no such planet') > 0, 'MPI_Add_error_string')
    call MPI_Comm_free(comm, error)
  end subroutine
end program
