/* Two sessions one after the other, without MPI_Init. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    for (int round = 0; round < 2; round++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        char name[MPI_MAX_PSET_NAME_LEN];
        int sets, length = sizeof name, rank, sum;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
        if (sets != 2 || strcmp(name, "mpi://WORLD"))
            printf("wrong sets: %d, %s\n", sets, name);
        if (MPI_Group_from_session_pset(session, "mpi://NONE", &group) == MPI_SUCCESS)
            printf("a set that does not exist\n");
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Comm_create_from_group(group, "round", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Comm_rank(comm, &rank);
        for (int i = 0; i < 10; i++)
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (round)
            printf("rank %d: %d\n", rank, sum);
        MPI_Comm_free(&comm);
        MPI_Group_free(&group);
        MPI_Session_finalize(&session);
    }
    return 0;
}
