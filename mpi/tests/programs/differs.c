/* Sends its process id as the kernel knows it, which no message may depend on, on a communicator with a name. With an argument
 * errors are returned. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, ranks, got, process = (int)syscall(SYS_getpid);
    MPI_Comm named;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "halo");
    if (argc > 1) MPI_Comm_set_errhandler(named, MPI_ERRORS_RETURN);
    if (rank == 0) MPI_Send(&process, 1, MPI_INT, 1, 6, named);
    if (rank == 1) MPI_Recv(&got, 1, MPI_INT, 0, 6, named, MPI_STATUS_IGNORE);
    for (int round = 0; round < 20; round++)
        MPI_Sendrecv(&round, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT, (rank + ranks - 1) % ranks, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&named);
    MPI_Finalize();
    printf("rank %d got %d\n", rank, got);
    return 0;
}
