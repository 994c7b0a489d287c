/* Rank 0 reads numbers from the standard input and sends each to all. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, number = 0, count = 0;
    long sum = 0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (number >= 0) {
        if (rank == 0 && scanf("%d", &number) != 1)
            number = -1;
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
        count++;
        sum += (long)number * count;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %d numbers, sum %ld of %ld\n", rank, count, sum, all);
    MPI_Finalize();
    return 0;
}
