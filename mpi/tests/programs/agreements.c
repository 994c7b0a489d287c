/* Members of a communicator agree on a new one while partitioned sends with the same tag are prepared. */
#include <mpi.h>
#include <stdio.h>

#define PARTITIONS 4

int main(int argc, char **argv)
{
    int rank, size, sum, *number, is_set, data[PARTITIONS] = {0};
    MPI_Comm pair, grid, point;
    MPI_Group all, first;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 2, (int[]){0, 1}, &first);
    if (rank == 0) {
        for (int i = 0; i < PARTITIONS; i++)
            data[i] = 10 + i;
        MPI_Psend_init(data, PARTITIONS, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    }
    MPI_Comm_create_group(MPI_COMM_WORLD, first, 5, &pair);
    if (rank == 1)
        MPI_Precv_init(data, PARTITIONS, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank < 2) {
        MPI_Start(&request);
        if (rank == 0)
            MPI_Pready_range(0, PARTITIONS - 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, pair);
        if (sum != 1 || data[PARTITIONS - 1] != 9 + PARTITIONS)
            printf("rank %d: sum %d, data %d\n", rank, sum, data[PARTITIONS - 1]);
    }
    /* Each member of a grid alone, in a grid without dimensions. */
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){0}, 0, &grid);
    MPI_Cart_sub(grid, (int[]){0}, &point);
    sum = point == MPI_COMM_NULL ? -1 : 0;
    if (!sum)
        MPI_Cartdim_get(point, &sum);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &is_set);
    printf("rank %d: %d dimensions, program %d\n", rank, sum, is_set ? *number : -1);
    MPI_Finalize();
    return 0;
}
