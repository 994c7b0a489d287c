! The module mpi, made by Refrain from its table of the ABI.
module mpi
  use mpi_types
  use, intrinsic :: iso_c_binding, only: c_ptr
  implicit none
  public
  private :: c_ptr
  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = .false.
  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .false.
!HERE
  interface
    subroutine MPI_F_sync_reg(buf)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      !DIR$ IGNORE_TKR buf
      type(*) :: buf(*)
    end subroutine MPI_F_sync_reg
    subroutine PMPI_F_sync_reg(buf)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      !DIR$ IGNORE_TKR buf
      type(*) :: buf(*)
    end subroutine PMPI_F_sync_reg
  end interface
end module mpi
