! Arguments that are no buffers: texts, logicals, handles, indices, attributes, functions. F08,
! MODULE, or neither for mpif.h, tells how MPI comes in.
#ifdef F08
#define COMM_OF type(MPI_Comm)
#define GROUP_OF type(MPI_Group)
#define INFO_OF type(MPI_Info)
#define HANDLER_OF type(MPI_Errhandler)
#define OP_OF type(MPI_Op)
#define REQUEST_OF type(MPI_Request)
#define TYPE_OF type(MPI_Datatype)
#define STATUS_OF type(MPI_Status)
#else
#define COMM_OF integer
#define GROUP_OF integer
#define INFO_OF integer
#define HANDLER_OF integer
#define OP_OF integer
#define REQUEST_OF integer
#define TYPE_OF integer
#define STATUS_OF integer, dimension(MPI_STATUS_SIZE)
#endif
#if defined(F08)
#define USE_MPI use mpi_f08
#define INCLUDE_MPI implicit none
#elif defined(MODULE)
#define USE_MPI use mpi
#define INCLUDE_MPI implicit none
#else
#define USE_MPI use, intrinsic :: iso_c_binding, only: c_ptr
#define INCLUDE_MPI include 'mpif.h'
#endif
module functions
  implicit none
  integer :: copies = 0, deletions = 0, errors = 0, freed = 0
contains
#ifdef F08
  subroutine greatest(from, to, length, datatype)
    use, intrinsic :: iso_c_binding
    USE_MPI
    type(c_ptr), value :: from, to
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(from, a, [length])
    call c_f_pointer(to, b, [length])
    if (datatype == MPI_INTEGER) b = max(a, b)
  end subroutine greatest
#else
  subroutine greatest(from, to, length, datatype)
    USE_MPI
    INCLUDE_MPI
    integer :: length, datatype, from(length), to(length)
    if (datatype == MPI_INTEGER) to = max(from, to)
  end subroutine greatest
#endif
  subroutine copy(comm, keyval, extra, from, to, flag, ierror)
    USE_MPI
    INCLUDE_MPI
    COMM_OF :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, from, to
    logical :: flag
    copies = copies + 1
    to = from + extra
    flag = from /= 13
    ierror = MPI_SUCCESS
  end subroutine copy
  subroutine delete(comm, keyval, value, extra, ierror)
    USE_MPI
    INCLUDE_MPI
    COMM_OF :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    deletions = deletions + 1
    ierror = MPI_SUCCESS
  end subroutine delete
  subroutine handle(comm, code)
    USE_MPI
    INCLUDE_MPI
    COMM_OF :: comm
    integer :: code
    if (comm /= MPI_COMM_NULL) errors = errors + 1
  end subroutine handle
  subroutine query(extra, status, ierror)
    USE_MPI
    INCLUDE_MPI
    integer(kind=MPI_ADDRESS_KIND) :: extra
    STATUS_OF :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra), ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
  end subroutine query
  subroutine finish(extra, ierror)
    USE_MPI
    INCLUDE_MPI
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    freed = freed + int(extra)
    ierror = MPI_SUCCESS
  end subroutine finish
  subroutine cancel(extra, complete, ierror)
    USE_MPI
    INCLUDE_MPI
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine cancel
end module functions

program calls
  USE_MPI
  use functions
  INCLUDE_MPI
  integer :: rank, ranks, failures, ierror
  logical :: flag

  failures = 0
  call MPI_Initialized(flag, ierror)
  call check(.not. flag, 'MPI_Initialized before')
  call MPI_Init(ierror)
  call MPI_Initialized(flag, ierror)
  call check(flag .eqv. .true., 'MPI_Initialized')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call texts()
  call topologies()
  call requests()
  call attributes()
  call operators()
  call error_handlers()
  call generalized_requests()
  call statuses()
  call types()
  call functions_with_results()
#ifdef F08
  call large_counts()
#endif
  print '(A,I0,A,I0,A)', 'rank ', rank, ': ', failures, ' failures'
  call MPI_Finalize(ierror)

contains

  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (.not. is_right) then
      failures = failures + 1
      print '(A,I0,2A)', 'rank ', rank, ': ', what
    end if
  end subroutine check

  subroutine texts()
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=4) :: short
    character(len=30) :: value
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=MPI_MAX_PROCESSOR_NAME) :: processor
    integer :: length, class
    INFO_OF :: info
    COMM_OF :: comm
    call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
    call MPI_Comm_set_name(comm, 'a name  ', ierror)
    name = repeat('x', MPI_MAX_OBJECT_NAME)
    call MPI_Comm_get_name(comm, name, length, ierror)
    call check(name == 'a name' .and. length == 6, 'MPI_Comm_get_name')
    call MPI_Comm_get_name(comm, short, length, ierror)
    call check(short == 'a na', 'a short name')
    call MPI_Comm_free(comm, ierror)
    call check(comm == MPI_COMM_NULL, 'MPI_Comm_free')
    call MPI_Get_library_version(version, length, ierror)
    call check(len_trim(version) == length .and. length > 0, 'MPI_Get_library_version')
    call MPI_Get_processor_name(processor, length, ierror)
    call check(len_trim(processor) == length .and. length > 0, 'MPI_Get_processor_name')
    call MPI_Error_string(MPI_ERR_RANK, text, length, ierror)
    call check(len_trim(text) > 0, 'MPI_Error_string')
    call MPI_Error_class(MPI_ERR_RANK, class, ierror)
    call check(class == MPI_ERR_RANK, 'MPI_Error_class')
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, ' a key ', '  a value  ', ierror)
    call MPI_Info_get(info, 'a key', 30, value, flag, ierror)
    call check(flag .and. value == 'a value', 'MPI_Info_get')
    length = 30
    call MPI_Info_get_string(info, 'a key', length, value, flag, ierror)
    call check(flag .and. value == 'a value' .and. length == 7, 'MPI_Info_get_string')
    call MPI_Info_get(info, 'no key', 30, value, flag, ierror)
    call check(.not. flag, 'MPI_Info_get without')
    call MPI_Info_get_nthkey(info, 0, value, ierror)
    call check(value == 'a key', 'MPI_Info_get_nthkey')
    call MPI_Info_free(info, ierror)
    call check(info == MPI_INFO_NULL, 'MPI_Info_free')
  end subroutine texts

  subroutine topologies()
    COMM_OF :: grid, line, graph
    integer :: dims(2), coords(2), list(1), sources(1), weights(1), n, m
    logical :: periods(2)
    dims = 0
    call MPI_Dims_create(ranks, 2, dims, ierror)
    call check(product(dims) == ranks, 'MPI_Dims_create')
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., grid, ierror)
    periods = [.false., .true.]
    call MPI_Cart_get(grid, 2, dims, periods, coords, ierror)
    call check(periods(1) .and. .not. periods(2), 'MPI_Cart_get')
    call MPI_Cart_sub(grid, [.true., .false.], line, ierror)
    call MPI_Comm_size(line, n, ierror)
    call check(n == dims(1), 'MPI_Cart_sub')
    call MPI_Comm_free(line, ierror)
    call MPI_Comm_free(grid, ierror)
    list = mod(rank + 1, ranks)
    sources = mod(rank + ranks - 1, ranks)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, list, MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, n, m, flag, ierror)
    call check(n == 1 .and. m == 1 .and. .not. flag, 'MPI_UNWEIGHTED')
    call MPI_Comm_free(graph, ierror)
    weights = 3
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, weights, 1, list, weights, &
        MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, n, m, flag, ierror)
    call check(flag, 'weights')
    call MPI_Comm_free(graph, ierror)
  end subroutine topologies

  subroutine requests()
    REQUEST_OF :: list(100)
    integer :: data(100), indices(100), count, index, i
    logical :: is_done(100)
    list = MPI_REQUEST_NULL
    call MPI_Irecv(data(3), 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, list(3), ierror)
    call MPI_Send(7, 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF, ierror)
    call MPI_Waitany(5, list, index, MPI_STATUS_IGNORE, ierror)
    call check(index == 3 .and. data(3) == 7, 'MPI_Waitany')
    call MPI_Waitany(5, list, index, MPI_STATUS_IGNORE, ierror)
    call check(index == MPI_UNDEFINED, 'MPI_Waitany of none')
    ! More than fit a list on the stack.
    do i = 1, 100
      call MPI_Irecv(data(i), 1, MPI_INTEGER, 0, i, MPI_COMM_SELF, list(i), ierror)
      call MPI_Send(i, 1, MPI_INTEGER, 0, i, MPI_COMM_SELF, ierror)
    end do
    is_done = .false.
    do while (.not. all(is_done))
      call MPI_Waitsome(100, list, count, indices, MPI_STATUSES_IGNORE, ierror)
      if (count == MPI_UNDEFINED) exit
      do i = 1, count
        is_done(indices(i)) = data(indices(i)) == indices(i)
      end do
    end do
    call check(all(is_done), 'MPI_Waitsome')
    call MPI_Testall(100, list, flag, MPI_STATUSES_IGNORE, ierror)
    call check(flag, 'MPI_Testall')
    call MPI_Testany(100, list, index, flag, MPI_STATUS_IGNORE, ierror)
    call check(flag .and. index == MPI_UNDEFINED, 'MPI_Testany')
  end subroutine requests

  subroutine attributes()
    integer :: key
    integer(kind=MPI_ADDRESS_KIND) :: value, great
    COMM_OF :: comm, other
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB')
    call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
    call MPI_Comm_create_keyval(copy, delete, key, 100_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_get_attr(comm, key, value, flag, ierror)
    call check(.not. flag, 'no attribute')
    great = 2_MPI_ADDRESS_KIND**40
    call MPI_Comm_set_attr(comm, key, great, ierror)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Comm_get_attr(other, key, value, flag, ierror)
    call check(flag .and. value == great + 100 .and. copies == 1, 'copied attribute')
    call MPI_Comm_free(other, ierror)
    call check(deletions == 1, 'deleted attribute')
    call MPI_Comm_set_attr(comm, key, 13_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Comm_get_attr(other, key, value, flag, ierror)
    call check(.not. flag .and. copies == 2 .and. deletions == 2, 'attribute that is not copied')
    call MPI_Comm_free(other, ierror)
    call MPI_Comm_free_keyval(key, ierror)
    call check(key == MPI_KEYVAL_INVALID, 'MPI_Comm_free_keyval')
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_attr(comm, key, -5_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(comm, other, ierror)
    call MPI_Comm_get_attr(other, key, value, flag, ierror)
    call check(flag .and. value == -5, 'MPI_COMM_DUP_FN')
    call MPI_Comm_free(other, ierror)
    call MPI_Comm_free(comm, ierror)
  end subroutine attributes

  subroutine operators()
    OP_OF :: op
    integer :: data(3), all_data(3)
    call MPI_Op_create(greatest, .true., op, ierror)
    call MPI_Op_commutative(op, flag, ierror)
    call check(flag, 'MPI_Op_commutative')
    data = [rank, -rank, 5]
    call MPI_Allreduce(data, all_data, 3, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
    call check(all(all_data == [ranks - 1, 0, 5]), 'own operator')
    call MPI_Op_free(op, ierror)
    call check(op == MPI_OP_NULL, 'MPI_Op_free')
  end subroutine operators

  subroutine error_handlers()
    HANDLER_OF :: handler
    COMM_OF :: comm
    integer :: code, class
    call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
    call MPI_Comm_create_errhandler(handle, handler, ierror)
    call MPI_Comm_set_errhandler(comm, handler, ierror)
    call MPI_Send(1, 1, MPI_INTEGER, 17, 0, comm, code)
    call check(errors == 1, 'error handler')
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
    call MPI_Send(1, 1, MPI_INTEGER, 17, 0, comm, code)
    call MPI_Error_class(code, class, ierror)
    call check(errors == 1 .and. class == MPI_ERR_RANK, 'MPI_ERRORS_RETURN')
    call MPI_Comm_free(comm, ierror)
  end subroutine error_handlers

  subroutine generalized_requests()
    REQUEST_OF :: request
    STATUS_OF :: status
    integer :: count
    call MPI_Grequest_start(query, finish, cancel, 6_MPI_ADDRESS_KIND, request, ierror)
    call MPI_Test(request, flag, MPI_STATUS_IGNORE, ierror)
    call check(.not. flag, 'generalized request')
    call MPI_Grequest_complete(request, ierror)
    call MPI_Wait(request, status, ierror)
    call MPI_Get_elements(status, MPI_INTEGER, count, ierror)
    call check(count == 6 .and. freed == 6, 'generalized request, completed')
  end subroutine generalized_requests

  subroutine statuses()
    STATUS_OF :: status
    integer :: array(MPI_STATUS_SIZE), source
    call MPI_Status_set_source(status, 3, ierror)
    call MPI_Status_set_tag(status, 4, ierror)
    call MPI_Status_set_error(status, MPI_SUCCESS, ierror)
    call MPI_Status_get_source(status, source, ierror)
    call check(source == 3, 'MPI_Status_get_source')
#ifdef F08
    call MPI_Status_f082f(status, array)
    call check(array(MPI_SOURCE) == 3 .and. array(MPI_TAG) == 4, 'MPI_Status_f082f')
    array(MPI_TAG) = 5
    call MPI_Status_f2f08(array, status)
    call check(status%MPI_TAG == 5, 'MPI_Status_f2f08')
#else
    array = status
    call check(array(MPI_TAG) == 4, 'status')
#endif
  end subroutine statuses

  subroutine types()
    TYPE_OF :: one, two, parts(1)
    integer :: integers, addresses, datatypes, combiner, numbers(3), size
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent, places(1)
    call MPI_Type_vector(2, 3, 4, MPI_REAL, one, ierror)
    call MPI_Type_get_envelope(one, integers, addresses, datatypes, combiner, ierror)
    call check(combiner == MPI_COMBINER_VECTOR .and. integers == 3 .and. datatypes == 1, 'MPI_Type_get_envelope')
    call MPI_Type_get_contents(one, 3, 0, 1, numbers, places, parts, ierror)
    call check(all(numbers == [2, 3, 4]) .and. parts(1) == MPI_REAL, 'MPI_Type_get_contents')
    call MPI_Type_get_extent(one, lower, extent, ierror)
    call check(lower == 0 .and. extent == 28, 'MPI_Type_get_extent')
    call MPI_Type_create_f90_real(15, MPI_UNDEFINED, two, ierror)
    call MPI_Type_size(two, size, ierror)
    call check(size == 8, 'MPI_Type_create_f90_real')
    call MPI_Type_create_struct(2, [1, 1], [0_MPI_ADDRESS_KIND, extent], [one, two], two, ierror)
    call MPI_Type_size(two, size, ierror)
    call check(size == 32, 'MPI_Type_create_struct')
    call MPI_Type_free(one, ierror)
    call MPI_Type_free(two, ierror)
    call check(one == MPI_DATATYPE_NULL, 'MPI_Type_free')
  end subroutine types

  subroutine functions_with_results()
    double precision :: before
    integer(kind=MPI_ADDRESS_KIND) :: difference
    before = MPI_Wtime()
    call check(MPI_Wtime() >= before .and. MPI_Wtick() > 0 .and. PMPI_Wtime() >= before, 'MPI_Wtime')
    difference = MPI_Aint_diff(MPI_Aint_add(1000_MPI_ADDRESS_KIND, 24_MPI_ADDRESS_KIND), 1000_MPI_ADDRESS_KIND)
    call check(difference == 24, 'MPI_Aint_diff')
    call PMPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine functions_with_results

#ifdef F08
  subroutine large_counts()
    type(MPI_Datatype) :: large
    type(MPI_Status) :: status
    integer(kind=MPI_COUNT_KIND) :: size, counts(64), places(64)
    integer :: data(2), got(64), i
    call MPI_Type_contiguous(2_MPI_COUNT_KIND**32, MPI_INTEGER, large)
    call MPI_Type_size(large, size)
    call check(size == 4 * 2_MPI_COUNT_KIND**32, 'MPI_Type_contiguous for large counts')
    call MPI_Type_free(large)
    data = [1, 2]
    call MPI_Sendrecv(data, 2_MPI_COUNT_KIND, MPI_INTEGER, 0, 1, got, 64_MPI_COUNT_KIND, MPI_INTEGER, 0, 1, &
        MPI_COMM_SELF, status)
    call MPI_Get_count(status, MPI_INTEGER, size)
    call check(size == 2 .and. all(got(1:2) == data), 'MPI_Sendrecv for large counts')
    counts = 1
    places = [(ranks - i, i = 1, 64)]
    call MPI_Allgatherv(rank, 1_MPI_COUNT_KIND, MPI_INTEGER, got, counts, places, MPI_INTEGER, MPI_COMM_WORLD)
    call check(all(got(1:ranks) == [(ranks - i, i = 1, ranks)]), 'MPI_Allgatherv for large counts')
  end subroutine large_counts
#endif
end program calls
