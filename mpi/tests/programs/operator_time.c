/* MPI_Wtime within an operator and behind the end: the last time, not zero. */
#include <mpi.h>
#include <stdio.h>

static double asked;

static void ask(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
    asked = MPI_Wtime();
}

int main(void)
{
    int number = 1, result;
    MPI_Op op;
    MPI_Init(NULL, NULL);
    MPI_Op_create(ask, 1, &op);
    double begin = MPI_Wtime();
    MPI_Allreduce(&number, &result, 1, MPI_INT, op, MPI_COMM_WORLD);
    printf("operator: %d\n", asked >= begin);
    MPI_Finalize();
    printf("end: %d\n", MPI_Wtime() >= begin);
    return 0;
}
