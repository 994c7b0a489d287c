! Sends in all ways, for tools: of C (tool.c), and one in Fortran that sees mpif.h alone.
subroutine MPI_Recv(buf, count, datatype, source, tag, comm, status, ierror)
  implicit none
  integer :: buf(*), count, datatype, source, tag, comm, status(*), ierror
  print '(A)', 'a receive'
  call PMPI_Recv(buf, count, datatype, source, tag, comm, status, ierror)
end subroutine MPI_Recv

subroutine with_f08()
  use mpi_f08
  implicit none
  integer :: data(4)
  data = 1
  call MPI_Send(data(1:4:2), 2, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF)
  call PMPI_Send(data, 2, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF)
end subroutine with_f08

subroutine with_module()
  use mpi
  implicit none
  integer :: ierror
  call MPI_Send(1, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, ierror)
end subroutine with_module

program profiled
  implicit none
  include 'mpif.h'
  integer :: data(1), status(MPI_STATUS_SIZE), ierror
  call MPI_Init(ierror)
  call with_f08()
  call with_module()
  call MPI_Send(1, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, ierror)
  call MPI_Recv(data, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, status, ierror)
  call MPI_Finalize(ierror)
end program profiled
