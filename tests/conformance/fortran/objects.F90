! Conformance of groups, communicators, topologies, names and info objects in Fortran, with mpif.h or
! (USE_MPI) the module mpi: text with blanks at its end, logicals in arrays, weights of graphs.
program objects
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#ifndef USE_MPI
  include 'mpif.h'
#endif
  integer :: rank, size, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call names()
  call infos()
  call groups()
  call grids()
  call graphs()
  if (rank == 0) print '(a,i0)', 'done by ', size
  call MPI_Finalize(error)

contains

  include 'expect.inc'

  subroutine names()
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=5) :: short
    integer :: comm, length
    call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, error)
    call expect(name == 'MPI_COMM_WORLD' .and. length == 14, 'the name of MPI_COMM_WORLD')
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
    call expect(comm /= MPI_COMM_WORLD .and. comm /= MPI_COMM_NULL, 'MPI_Comm_dup')
    name = repeat('z', len(name))
    call MPI_Comm_get_name(comm, name, length, error)
    call expect(length == 0 .and. name == ' ', 'a communicator without a name')
    call MPI_Comm_set_name(comm, 'a name    ', error)
    call MPI_Comm_get_name(comm, name, length, error)
    call expect(length == 6 .and. name == 'a name', 'MPI_Comm_set_name')
    call MPI_Comm_get_name(comm, short, length, error)
    call expect(short == 'a nam', 'a name that is cut off')
    call MPI_Comm_free(comm, error)
    call expect(comm == MPI_COMM_NULL, 'MPI_Comm_free')
  end subroutine

  subroutine infos()
    integer :: info, copy, keys, length
    character(len=MPI_MAX_INFO_KEY) :: key
    character(len=30) :: value
    logical :: flag
    call MPI_Info_create(info, error)
    call MPI_Info_set(info, '  colour ', ' dark  green  ', error)
    call MPI_Info_set(info, 'size', '12', error)
    call MPI_Info_get_nkeys(info, keys, error)
    call expect(keys == 2, 'MPI_Info_get_nkeys')
    value = 'untouched'
    call MPI_Info_get(info, 'none', 20, value, flag, error)
    call expect(.not. flag .and. value == 'untouched', 'a key that is not there')
    call MPI_Info_get(info, 'colour', 20, value, flag, error)
    call expect(flag .and. value == 'dark  green', 'MPI_Info_get')
    call MPI_Info_get(info, ' colour', 6, value, flag, error)
    call expect(flag .and. value == 'dark  ', 'MPI_Info_get of a part')
    call MPI_Info_get_valuelen(info, 'colour', length, flag, error)
    call expect(flag .and. length == 11, 'MPI_Info_get_valuelen')
    call MPI_Info_get_nthkey(info, 1, key, error)
    call expect(key == 'size', 'MPI_Info_get_nthkey')
    call MPI_Info_dup(info, copy, error)
    call MPI_Info_delete(info, 'size ', error)
    call MPI_Info_get_nkeys(info, keys, error)
    call expect(keys == 1, 'MPI_Info_delete')
    call MPI_Info_get(copy, 'size', 30, value, flag, error)
    call expect(flag .and. value == '12', 'MPI_Info_dup')
    call MPI_Info_free(info, error)
    call MPI_Info_free(copy, error)
    call expect(info == MPI_INFO_NULL, 'MPI_Info_free')
  end subroutine

  subroutine groups()
    integer :: world, part, both, ranges(3, 1), relation, members, mine, comm, got(size), i
    call MPI_Comm_group(MPI_COMM_WORLD, world, error)
    ranges(:, 1) = [0, size - 1, 2]
    call MPI_Group_range_incl(world, 1, ranges, part, error)
    call MPI_Group_size(part, members, error)
    call expect(members == (size + 1) / 2, 'MPI_Group_range_incl')
    call MPI_Group_union(part, world, both, error)
    call MPI_Group_compare(world, both, relation, error)
    call expect(relation == MPI_SIMILAR .or. relation == MPI_IDENT, 'MPI_Group_compare')
    call MPI_Group_translate_ranks(part, members, [(i, i = 0, members - 1)], world, got, error)
    call expect(all(got(1:members) == [(2 * i, i = 0, members - 1)]), 'MPI_Group_translate_ranks')
    call MPI_Group_rank(part, mine, error)
    call expect(mine == merge(rank / 2, MPI_UNDEFINED, mod(rank, 2) == 0), 'MPI_Group_rank')
    call MPI_Comm_create(MPI_COMM_WORLD, part, comm, error)
    call expect((comm == MPI_COMM_NULL) .eqv. (mod(rank, 2) == 1), 'MPI_Comm_create')
    if (comm /= MPI_COMM_NULL) call MPI_Comm_free(comm, error)
    call MPI_Comm_split(MPI_COMM_WORLD, merge(MPI_UNDEFINED, 5, rank == 0), -rank, comm, error)
    call expect((comm == MPI_COMM_NULL) .eqv. (rank == 0), 'MPI_Comm_split')
    if (comm /= MPI_COMM_NULL) then
      call MPI_Comm_rank(comm, mine, error)
      call expect(mine == size - 1 - rank, 'its order')
      call MPI_Comm_free(comm, error)
    end if
    call MPI_Group_free(part, error)
    call MPI_Group_free(both, error)
    call MPI_Group_free(world, error)
    call expect(world == MPI_GROUP_NULL, 'MPI_Group_free')
  end subroutine

  subroutine grids()
    integer :: dims(2), coords(2), comm, row, source, dest, got, kind, there(2), line
    logical :: periods(2)
    dims = 0
    call MPI_Dims_create(size, 2, dims, error)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., comm, error)
    call MPI_Topo_test(comm, kind, error)
    call expect(kind == MPI_CART, 'MPI_Topo_test')
    dims = 0
    periods = [.false., .true.]
    call MPI_Cart_get(comm, 2, dims, periods, coords, error)
    call expect(periods(1) .and. .not. periods(2), 'periods of MPI_Cart_get')
    call MPI_Cart_rank(comm, coords, got, error)
    call expect(got == rank, 'MPI_Cart_rank')
    call MPI_Cart_shift(comm, 1, 1, source, dest, error)
    call expect((source == MPI_PROC_NULL) .eqv. (coords(2) == 0), 'MPI_Cart_shift')
    call MPI_Cart_sub(comm, [.false., .true.], row, error)
    call MPI_Comm_size(row, got, error)
    call expect(got == dims(2), 'MPI_Cart_sub')
    call MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, line, error)
    call expect(line == rank .or. line == MPI_UNDEFINED, 'MPI_Cart_map')
    call MPI_Cart_coords(comm, rank, 2, there, error)
    call expect(all(there == coords), 'MPI_Cart_coords')
    call MPI_Comm_free(row, error)
    call MPI_Comm_free(comm, error)
  end subroutine

  subroutine graphs()
    integer :: comm, in, out, sources(2), dests(2), before(2), behind(2), got(2), plain
    logical :: weighted
    integer :: types(2)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [mod(rank + size - 1, size)], [7], 1, &
      [mod(rank + 1, size)], [8], MPI_INFO_NULL, .false., comm, error)
    call MPI_Dist_graph_neighbors_count(comm, in, out, weighted, error)
    call expect(in == 1 .and. out == 1 .and. weighted, 'a graph with weights')
    call MPI_Dist_graph_neighbors(comm, 1, sources, before, 1, dests, behind, error)
    call expect(before(1) == 7 .and. behind(1) == 8, 'its weights')
    call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, comm, error)
    call expect(got(1) == sources(1), 'MPI_Neighbor_allgather')
    types = MPI_INTEGER
    call MPI_Neighbor_alltoallw(rank, [1], [0_MPI_ADDRESS_KIND], types, got, [1], &
      [4_MPI_ADDRESS_KIND], types, comm, error)
    call expect(got(2) == sources(1), 'MPI_Neighbor_alltoallw')
    call MPI_Comm_free(comm, error)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [rank], MPI_UNWEIGHTED, 1, [rank], &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., plain, error)
    call MPI_Dist_graph_neighbors_count(plain, in, out, weighted, error)
    call expect(in == 1 .and. out == 1 .and. .not. weighted, 'a graph without weights')
    call MPI_Dist_graph_neighbors(plain, 1, sources, before, 1, dests, behind, error)
    call expect(sources(1) == rank .and. dests(1) == rank, 'its neighbours')
    call MPI_Comm_free(plain, error)
    if (rank == 0) then
      call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [0], [1], [size - 1], [3], &
        MPI_INFO_NULL, .false., plain, error)
    else
      call MPI_Dist_graph_create(MPI_COMM_WORLD, 0, [0], [0], [0], MPI_WEIGHTS_EMPTY, &
        MPI_INFO_NULL, .false., plain, error)
    end if
    call MPI_Comm_free(plain, error)
  end subroutine
end program
