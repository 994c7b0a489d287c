! Buffers of all kinds, between neighbours of a ring and in collectives. WAY tells how MPI comes in:
! F08, MODULE, or neither for mpif.h.
#ifdef F08
#define REQUEST_OF type(MPI_Request)
#define STATUS_OF(name) type(MPI_Status) :: name
#define TYPE_OF type(MPI_Datatype)
#else
#define REQUEST_OF integer
#define STATUS_OF(name) integer :: name(MPI_STATUS_SIZE)
#define TYPE_OF integer
#endif
program buffers
#if defined(F08)
  use mpi_f08
#elif defined(MODULE)
  use mpi
#endif
  implicit none
#if !defined(F08) && !defined(MODULE)
  include 'mpif.h'
#endif
  type :: particle
    sequence
    double precision :: mass
    integer :: kind, number
  end type particle
  integer :: rank, ranks, left, right, round, failures, ierror

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  failures = 0
  do round = 1, 10
    call scalars()
    call contiguous_arrays()
    call strided_sections()
    call sections_of_matrices()
    call parts_of_sections()
    call allocated_and_pointed()
    call characters()
    call derived_types()
    call absolute_addresses()
    call in_place()
    call sections_in_collectives()
#ifdef F08
    call sections_without_blocking()
#endif
  end do
  print '(A,I0,A,I0,A)', 'rank ', rank, ': ', failures, ' failures'
  call MPI_Finalize(ierror)

contains

  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (.not. is_right) then
      failures = failures + 1
      print '(A,I0,3A,I0)', 'rank ', rank, ': ', what, ' in round ', round
    end if
  end subroutine check

  subroutine scalars()
    integer :: sent, got, ierror
    double precision :: long_sent, long_got
    complex :: pair_sent, pair_got
    logical :: truth
    STATUS_OF(status)
    sent = 100 * round + rank
    call MPI_Sendrecv(sent, 1, MPI_INTEGER, right, 1, got, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, status, ierror)
    call check(got == 100 * round + left .and. ierror == MPI_SUCCESS, 'integer')
#ifdef F08
    call check(status%MPI_SOURCE == left .and. status%MPI_TAG == 1, 'status')
#else
    call check(status(MPI_SOURCE) == left .and. status(MPI_TAG) == 1, 'status')
#endif
    long_sent = sent + 0.5d0
    call MPI_Sendrecv(long_sent, 1, MPI_DOUBLE_PRECISION, right, 2, long_got, 1, MPI_DOUBLE_PRECISION, left, 2, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(long_got == 100 * round + left + 0.5d0, 'double precision')
    pair_sent = cmplx(rank, round)
    call MPI_Sendrecv(pair_sent, 1, MPI_COMPLEX, right, 3, pair_got, 1, MPI_COMPLEX, left, 3, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(pair_got == cmplx(left, round), 'complex')
    truth = rank == 0
    call MPI_Bcast(truth, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD, ierror)
    call check(truth, 'logical')
    truth = rank /= 0
    call MPI_Allreduce(MPI_IN_PLACE, truth, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
    call check(.not. truth, 'logical and')
  end subroutine scalars

  subroutine contiguous_arrays()
    integer :: sent(1000), got(1000), matrix(10, 10), i, ierror
    REQUEST_OF :: requests(2)
    sent = [(rank + i, i = 1, 1000)]
    call MPI_Irecv(got, 1000, MPI_INTEGER, left, 4, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Isend(sent, 1000, MPI_INTEGER, right, 4, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    call check(all(got == [(left + i, i = 1, 1000)]), 'array')
    call check(all(requests == MPI_REQUEST_NULL), 'requests')
    matrix = rank
    call MPI_Sendrecv(sent(101), 20, MPI_INTEGER, right, 5, matrix(1, 3), 20, MPI_INTEGER, left, 5, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(matrix(:, 3) == [(left + i, i = 101, 110)]), 'element of an array')
    call check(all(matrix(:, 4) == [(left + i, i = 111, 120)]), 'elements behind it')
    call check(all(matrix(:, 5) == rank), 'elements that stay')
    call MPI_Sendrecv(sent(11:30), 20, MPI_INTEGER, right, 6, matrix(:, 7:8), 20, MPI_INTEGER, left, 6, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(matrix(:, 8) == [(left + i, i = 21, 30)]), 'contiguous section')
    call of_assumed_size(sent, got)
    call check(all(got(1:50) == [(left + i, i = 1, 50)]), 'array of assumed size')
  end subroutine contiguous_arrays

  subroutine of_assumed_size(sent, got)
    integer :: sent(10, *), got(*), ierror
    call MPI_Sendrecv(sent, 50, MPI_INTEGER, right, 7, got, 50, MPI_INTEGER, left, 7, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine of_assumed_size

  subroutine strided_sections()
    double precision :: sent(100), got(100)
    integer :: i, ierror
    sent = [(rank * 1000 + i, i = 1, 100)]
    got = -1
    call MPI_Sendrecv(sent(1:100:2), 50, MPI_DOUBLE_PRECISION, right, 8, got(1:50), 50, MPI_DOUBLE_PRECISION, left, 8, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(1:50) == [(left * 1000 + i, i = 1, 100, 2)]), 'section with stride, sent')
    call check(all(got(51:) == -1), 'behind it')
    got = -1
    call MPI_Sendrecv(sent(1:20), 20, MPI_DOUBLE_PRECISION, right, 9, got(5:100:3), 20, MPI_DOUBLE_PRECISION, left, 9, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(5:64:3) == [(left * 1000 + i, i = 1, 20)]), 'section with stride, received')
    call check(count(got == -1) == 80, 'between')
    call MPI_Sendrecv(sent(100:1:-1), 100, MPI_DOUBLE_PRECISION, right, 10, got, 100, MPI_DOUBLE_PRECISION, left, 10, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got == [(left * 1000 + i, i = 100, 1, -1)]), 'backwards')
    call MPI_Sendrecv(sent, 100, MPI_DOUBLE_PRECISION, right, 10, got(100:1:-1), 100, MPI_DOUBLE_PRECISION, left, 10, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got == [(left * 1000 + i, i = 100, 1, -1)]), 'received backwards')
  end subroutine strided_sections

  subroutine sections_of_matrices()
    integer :: sent(6, 7, 8), got(6, 7, 8), expected(6, 7, 8), i, j, k, ierror
    do k = 1, 8
      do j = 1, 7
        do i = 1, 6
          sent(i, j, k) = rank * 1000 + 100 * i + 10 * j + k
          expected(i, j, k) = left * 1000 + 100 * i + 10 * j + k
        end do
      end do
    end do
    got = 0
    call MPI_Sendrecv(sent(2:5, 1:7:3, 3:4), 24, MPI_INTEGER, right, 11, got(2:5, 1:7:3, 3:4), 24, MPI_INTEGER, left, 11, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(2:5, 1:7:3, 3:4) == expected(2:5, 1:7:3, 3:4)), 'section of three dimensions')
    call check(count(got /= 0) == 24, 'around it')
  end subroutine sections_of_matrices

  subroutine parts_of_sections()
    integer :: sent(4, 5), got(20), places(10, 10), i, ierror
    sent = reshape([(rank * 100 + i, i = 1, 20)], [4, 5])
    got = 0
    ! A part of the section: its first seven elements.
    call MPI_Sendrecv(sent(1:3, 1:5), 7, MPI_INTEGER, right, 14, got, 20, MPI_INTEGER, left, 14, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(1:7) == left * 100 + [1, 2, 3, 5, 6, 7, 9]), 'part of a section')
    places = 0
    call MPI_Sendrecv(got, 7, MPI_INTEGER, right, 15, places(2:4, 1:10:2), 7, MPI_INTEGER, left, 15, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(count(places /= 0) == 7 .and. all(places(2:4, 3) /= 0) .and. places(2, 5) /= 0, 'part received')
    ! Items of two elements.
    call MPI_Sendrecv(sent(1:3, 1:2), 3, MPI_2INTEGER, right, 16, got, 6, MPI_INTEGER, left, 16, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(1:6) == left * 100 + [1, 2, 3, 5, 6, 7]), 'items of two elements')
    call MPI_Sendrecv(sent(1:3, 1:2), 0, MPI_INTEGER, right, 17, got, 0, MPI_INTEGER, left, 17, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine parts_of_sections

  subroutine allocated_and_pointed()
    integer, allocatable :: sent(:, :)
    integer, allocatable, target :: got(:, :)
    integer, pointer :: column(:), row(:)
    integer :: i, ierror
    allocate (sent(0:4, -2:7), got(5, 10))
    sent = reshape([(rank * 100 + i, i = 1, 50)], [5, 10])
    got = 0
    call MPI_Sendrecv(sent, 50, MPI_INTEGER, right, 18, got, 50, MPI_INTEGER, left, 18, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got == reshape([(left * 100 + i, i = 1, 50)], [5, 10])), 'allocatable')
    column => got(:, 2)
    row => got(2, :)
    call MPI_Sendrecv(sent(0, -2), 5, MPI_INTEGER, right, 19, column, 5, MPI_INTEGER, left, 19, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(:, 2) == [(left * 100 + i, i = 1, 5)]), 'pointer')
    call MPI_Sendrecv_replace(row, 10, MPI_INTEGER, right, 20, left, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    i = mod(left + ranks - 1, ranks) * 100
    call check(all(row(1:4) == i + [2, 2, 12, 17]), 'pointer with stride')
  end subroutine allocated_and_pointed

  subroutine characters()
    character(len=12) :: sent, got
    character(len=3) :: list(6), other(6)
    integer :: ierror
    write (sent, '(A,I4)') 'from ', rank
    got = 'nothing'
    call MPI_Sendrecv(sent, 12, MPI_CHARACTER, right, 21, got, 12, MPI_CHARACTER, left, 21, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(got(1:5) == 'from ', 'characters')
    call MPI_Sendrecv('a literal', 9, MPI_CHARACTER, right, 22, got, 12, MPI_CHARACTER, left, 22, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(got(1:9) == 'a literal', 'literal')
    list = ['abc', 'def', 'ghi', 'jkl', 'mno', 'pqr']
    other = '---'
    call MPI_Sendrecv(list(1:6:2), 9, MPI_CHARACTER, right, 23, other(2:6:2), 9, MPI_CHARACTER, left, 23, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(other == ['---', 'abc', '---', 'ghi', '---', 'mno']), 'section of characters')
  end subroutine characters

  subroutine derived_types()
    type(particle) :: sent(8), got(8)
    integer :: i, ierror
    integer(kind=MPI_ADDRESS_KIND) :: places(2), base
    TYPE_OF :: types(2), one, whole
    do i = 1, 8
      sent(i) = particle(rank + 0.25d0 * i, i, rank)
      got(i) = particle(0, 0, 0)
    end do
    call MPI_Get_address(sent(1)%mass, places(1), ierror)
    call MPI_Get_address(sent(1)%kind, places(2), ierror)
    base = places(1)
    places = [MPI_Aint_diff(places(1), base), MPI_Aint_diff(places(2), base)]
    types = [MPI_DOUBLE_PRECISION, MPI_INTEGER]
    call MPI_Type_create_struct(2, [1, 2], places, types, one, ierror)
    call MPI_Type_create_resized(one, 0_MPI_ADDRESS_KIND, 16_MPI_ADDRESS_KIND, whole, ierror)
    call MPI_Type_commit(whole, ierror)
    call MPI_Sendrecv(sent, 8, whole, right, 24, got, 8, whole, left, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got%number == left) .and. got(8)%mass == left + 2, 'derived type')
    got%number = -1
    call MPI_Sendrecv(sent(2:8:2), 4, whole, right, 25, got(1:7:2), 4, whole, left, 25, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got(1:7:2)%kind == [2, 4, 6, 8]) .and. all(got(2:8:2)%number == -1), 'section of a derived type')
    call MPI_Type_free(one, ierror)
    call MPI_Type_free(whole, ierror)
    got%kind = 0
    call MPI_Sendrecv(sent%kind, 8, MPI_INTEGER, right, 26, got%kind, 8, MPI_INTEGER, left, 26, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call check(all(got%kind == [(i, i = 1, 8)]), 'component of an array')
  end subroutine derived_types

  subroutine absolute_addresses()
    integer, target :: sent(3), got(3)
    integer :: ierror
    integer(kind=MPI_ADDRESS_KIND) :: place(1)
    TYPE_OF :: from, to
    sent = rank + [1, 2, 3]
    got = 0
    call MPI_Get_address(sent, place(1), ierror)
    call MPI_Type_create_hindexed(1, [3], place, MPI_INTEGER, from, ierror)
    call MPI_Get_address(got, place(1), ierror)
    call MPI_Type_create_hindexed(1, [3], place, MPI_INTEGER, to, ierror)
    call MPI_Type_commit(from, ierror)
    call MPI_Type_commit(to, ierror)
    call MPI_Sendrecv(MPI_BOTTOM, 1, from, right, 27, MPI_BOTTOM, 1, to, left, 27, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Type_free(from, ierror)
    call MPI_Type_free(to, ierror)
    call MPI_Get_address(got, place(1), ierror)
    call check(all(got == left + [1, 2, 3]), 'MPI_BOTTOM')
  end subroutine absolute_addresses

  subroutine in_place()
    integer :: sums(3), all_ranks(64), ierror
    sums = [rank, 1, round]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(all(sums == [ranks * (ranks - 1) / 2, ranks, ranks * round]), 'MPI_IN_PLACE')
    all_ranks(rank + 1) = 7 * rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_ranks, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call check(all(all_ranks(1:ranks) == [(7 * ierror, ierror = 0, ranks - 1)]), 'MPI_Allgather in place')
  end subroutine in_place

  subroutine sections_in_collectives()
    integer :: own(8), many(2, 64), sums(4), i, ierror
    own = [(rank * 10 + i, i = 1, 8)]
    many = -1
    call MPI_Allgather(own(2:8:7), 1, MPI_INTEGER, many(2, :), 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call check(all(many(2, 1:ranks) == [(i * 10 + 2, i = 0, ranks - 1)]) .and. all(many(1, :) == -1), 'MPI_Allgather')
    call MPI_Gather(own(1:8:2), 1, MPI_INTEGER, many(1, :), 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) call check(all(many(1, 1:ranks) == [(i * 10 + 1, i = 0, ranks - 1)]), 'MPI_Gather')
    many(1, 1:ranks) = [(i, i = 1, ranks)]
    call MPI_Scatter(many(1, :), 1, MPI_INTEGER, own(3:5:2), 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
    call check(own(3) == rank + 1 .and. own(5) == rank * 10 + 5, 'MPI_Scatter')
    call MPI_Allreduce(own(2:8:2), sums, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(all(sums == [(5 * ranks * (ranks - 1) + ranks * i, i = 2, 8, 2)]), 'MPI_Allreduce of a section')
    call MPI_Allreduce(sums, own(1:7:2), 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
    call check(all(own(1:7:2) == sums) .and. own(2) == rank * 10 + 2, 'MPI_Allreduce into a section')
    own(1:8:2) = merge([4, 3, 2, 1], 0, rank == ranks - 1)
    call MPI_Bcast(own(1:8:2), 4, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierror)
    call check(all(own(1:8:2) == [4, 3, 2, 1]), 'MPI_Bcast of a section')
    many(2, 1:ranks) = [(rank * 100 + i, i = 1, ranks)]
    call MPI_Alltoall(many(2, :), 1, MPI_INTEGER, many(1, :), 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    call check(all(many(1, 1:ranks) == [(i * 100 + rank + 1, i = 0, ranks - 1)]), 'MPI_Alltoall of sections')
  end subroutine sections_in_collectives

#ifdef F08
  ! Without a copy: this is what the descriptors are for.
  subroutine sections_without_blocking()
    integer, asynchronous :: sent(20), got(3, 20)
    integer :: i
    type(MPI_Request) :: requests(3)
    sent = [(rank * 100 + i, i = 1, 20)]
    got = 0
    call MPI_Irecv(got(2, 1:20:2), 10, MPI_INTEGER, left, 28, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(sent(1:20:2), 10, MPI_INTEGER, right, 28, MPI_COMM_WORLD, requests(2))
    call MPI_Ibcast(got(3, 1:20:4), 5, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(3))
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
    call MPI_F_sync_reg(got)
    call check(all(got(2, 1:20:2) == [(left * 100 + i, i = 1, 20, 2)]), 'MPI_Irecv into a section')
    call check(count(got /= 0) == 10, 'around it')
    call MPI_Send_init(sent(20:2:-2), 10_MPI_COUNT_KIND, MPI_INTEGER, right, 29, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(got(1, 11:20), 10, MPI_INTEGER, left, 29, MPI_COMM_WORLD, requests(2))
    do i = 1, 3
      sent(2:20:2) = rank + i
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check(all(got(1, 11:20) == left + i), 'persistent sections')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call MPI_Sizeof(got(:, 1), i)
    call check(i == 4, 'MPI_Sizeof')
  end subroutine sections_without_blocking
#endif
end program buffers
