/* Messages of all kinds between three ranks or more; prints what arrived. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20
#define LONG 40000

static int rank, size;
/* For receives from anybody: other messages have another context. */
static MPI_Comm apart;
static unsigned long sum;

static void add(long number)
{
    sum = sum * 1000003u + (unsigned long)number;
}

static void modes(int round)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got[4];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int data[4] = {round, round * 2, round * 3, rank};
    for (int i = 0; i < 4; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Send(&data[0], 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    MPI_Bsend(&data[1], 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    MPI_Rsend(&data[2], 1, MPI_INT, to, 2, MPI_COMM_WORLD);
    MPI_Request last;
    MPI_Issend(&data[3], 1, MPI_INT, to, 3, MPI_COMM_WORLD, &last);
    MPI_Waitall(4, requests, statuses);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++)
        add(got[i] * 10 + statuses[i].MPI_TAG);
    MPI_Sendrecv_replace(&data[3], 1, MPI_INT, to, 9, from, 9, MPI_COMM_WORLD, &statuses[0]);
    add(data[3]);
    MPI_Recv(&got[0], 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &statuses[0]);
    add(statuses[0].MPI_SOURCE);
}

/* Rank 0 takes messages of all others in the order in which they arrive, and answers with it. */
static void any_order(int round)
{
    if (rank) {
        int order;
        int *data = malloc(LONG * sizeof(int));
        for (int i = 0; i < LONG; i++)
            data[i] = i * rank + round;
        MPI_Send(data, round % 3 ? 7 : LONG, MPI_INT, 0, rank, apart);
        free(data);
        MPI_Recv(&order, 1, MPI_INT, 0, 1, apart, MPI_STATUS_IGNORE);
        return;
    }
    int *data = malloc(LONG * sizeof(int));
    long all = 0;
    for (int i = 1; i < size; i++) {
        MPI_Status status;
        MPI_Message message;
        int count;
        if (i % 2) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, apart, &status);
            MPI_Recv(data, LONG, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, apart,
                     &status);
        } else {
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, apart, &message, &status);
            MPI_Mrecv(data, LONG, MPI_INT, &message, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        if (status.MPI_SOURCE != status.MPI_TAG || data[count - 1] != (count - 1) * status.MPI_TAG + round)
            printf("rank %d: wrong data\n", rank);
        all += count;
        MPI_Send(&i, 1, MPI_INT, status.MPI_SOURCE, 1, apart);
    }
    add(all);
    free(data);
}

/* Tests and waits for some; the sum does not depend on the order. */
static void some(int round)
{
    MPI_Request requests[8];
    int got[8], indices[8], ended, left = 0;
    for (int i = 0; i < 8; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, (rank + i) % size, 20 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 8; i++) {
        int data = round + i, to = (rank + 8 * size - i) % size;
        MPI_Send(&data, 1, MPI_INT, to, 20 + i, MPI_COMM_WORLD);
    }
    while (left < 8) {
        int index, flag;
        if (left % 3 == 0) {
            MPI_Waitsome(8, requests, &ended, indices, MPI_STATUSES_IGNORE);
        } else if (left % 3 == 1) {
            MPI_Waitany(8, requests, &index, MPI_STATUS_IGNORE);
            ended = index != MPI_UNDEFINED;
        } else {
            MPI_Testany(8, requests, &index, &flag, MPI_STATUS_IGNORE);
            ended = flag && index != MPI_UNDEFINED;
        }
        left += ended;
    }
    long all = 0;
    for (int i = 0; i < 8; i++)
        all += got[i];
    add(all);
}

static void persistent(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, out = rank, in = -1, flag;
    MPI_Request requests[2];
    MPI_Recv_init(&in, 1, MPI_INT, from, 40, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&out, 1, MPI_INT, to, 40, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 5; i++) {
        out = rank * 100 + i;
        MPI_Startall(2, requests);
        do
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        while (!flag);
        add(in);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void cancelled(void)
{
    int got, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    add(flag);
}

static void truncated(void)
{
    int data[4] = {1, 2, 3, 4}, got[2], class, code;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Request request;
    MPI_Isend(data, 4, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    code = MPI_Recv(got, 2, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    add(class == MPI_ERR_TRUNCATE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    code = MPI_Send(data, 1, MPI_INT, 5, 0, MPI_COMM_SELF);
    MPI_Error_class(code, &class);
    add(class == MPI_ERR_RANK);
}

int main(int argc, char **argv)
{
    static char buffer[10000];
    void *detached;
    int bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &apart);
    MPI_Buffer_attach(buffer, sizeof buffer);
    for (int round = 0; round < ROUNDS; round++) {
        modes(round);
        any_order(round);
        some(round);
    }
    persistent();
    cancelled();
    truncated();
    MPI_Buffer_detach(&detached, &bytes);
    add(detached == buffer && bytes == (int)sizeof buffer);
    MPI_Comm_free(&apart);
    printf("rank %d: %lx\n", rank, sum);
    MPI_Finalize();
    return 0;
}
