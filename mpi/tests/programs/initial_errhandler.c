/* Errors before MPI_Init, of the predefined communicators, and of one that is made from them. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int size;
    int errors = MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm all[] = {MPI_COMM_WORLD, MPI_COMM_SELF, comm};
    for (int i = 0; i < 3; i++)
        errors += MPI_Send(NULL, 0, MPI_INT, 99, 0, all[i]) != MPI_SUCCESS;
    MPI_Comm_free(&comm);
    MPI_Finalize();
    if (errors == 4)
        puts("goes on");
    return errors != 4;
}
