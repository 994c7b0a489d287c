! Both modules in one program: types of handles and statuses are the same.
subroutine of_mpi()
  use mpi
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Status) :: status
  integer :: array(MPI_STATUS_SIZE), ierror
  comm%MPI_VAL = MPI_COMM_WORLD
  call of_f08(comm)
  array = 0
  array(MPI_TAG) = 3
  call MPI_Status_f2f08(array, status, ierror)
  if (status%MPI_TAG == 3) print '(A)', 'status'
contains
  subroutine of_f08(comm)
    use mpi_f08
    type(MPI_Comm), intent(in) :: comm
    integer :: ranks
    call MPI_Comm_size(comm, ranks)
    if (ranks == 1 .and. comm == MPI_COMM_WORLD .and. .not. comm /= MPI_COMM_WORLD) print '(A)', 'handle'
  end subroutine of_f08
end subroutine of_mpi

program both
  use mpi_f08, only: MPI_Init, MPI_Finalize
  implicit none
  call MPI_Init()
  call of_mpi()
  call MPI_Finalize()
end program both
