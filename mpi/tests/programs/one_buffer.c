/* A wrong call: the buffers of a reduction are one. */
#include <mpi.h>

int main(int argc, char **argv) {
    int number = 1;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&number, &number, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return number != 1;
}
