! Types of MPI for Fortran, made by Refrain from its table of the ABI.
module mpi_types
  use, intrinsic :: iso_c_binding, only: c_ptr
  implicit none
  public
  integer, parameter :: MPI_ADDRESS_KIND = 8
  integer, parameter :: MPI_COUNT_KIND = 8
  integer, parameter :: MPI_INTEGER_KIND = 4
  integer, parameter :: MPI_OFFSET_KIND = 8
  integer, parameter :: MPI_STATUS_SIZE = 8
  type, bind(C) :: MPI_Status
    integer :: MPI_SOURCE
    integer :: MPI_TAG
    integer :: MPI_ERROR
    integer, private :: internal(5)
  end type MPI_Status
!HERE
  interface
    subroutine MPI_Status_f2f08(f_status, f08_status, ierror)
      import
      implicit none
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Status_f2f08
    subroutine MPI_Status_f082f(f08_status, f_status, ierror)
      import
      implicit none
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Status_f082f
    subroutine PMPI_Status_f2f08(f_status, f08_status, ierror)
      import
      implicit none
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine PMPI_Status_f2f08
    subroutine PMPI_Status_f082f(f08_status, f_status, ierror)
      import
      implicit none
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine PMPI_Status_f082f
    subroutine MPI_Sizeof(x, size, ierror) bind(C, name="mpi_sizeof_f08ts_")
      type(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine MPI_Sizeof
    subroutine PMPI_Sizeof(x, size, ierror) bind(C, name="pmpi_sizeof_f08ts_")
      type(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine PMPI_Sizeof
  end interface
end module mpi_types
