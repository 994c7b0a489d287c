/* Requests of other kinds: parts of messages, operations of the program, buffers of communicators,
 * persistent collectives that ranks start in different orders, cancelled sends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 6
#define ITEMS 20

static int rank, size;
static long sum;

static void add(long value)
{
    sum = sum * 31 + value;
}

/* The sender has PARTS partitions, and the receiver half as many of twice the length. */
static void in_parts(void)
{
    int out[PARTS * ITEMS], in[PARTS * ITEMS + ITEMS];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Precv_init(in, PARTS / 2, 2 * ITEMS, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Psend_init(out, PARTS, ITEMS, MPI_INT, next, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    for (int round = 0; round < 3; round++) {
        int count, flag = 0;
        memset(in, 0, sizeof in);
        MPI_Startall(2, requests);
        for (int part = PARTS - 1; part >= 0; part--) {
            for (int i = 0; i < ITEMS; i++)
                out[part * ITEMS + i] = rank + round * 100 + part * ITEMS + i;
            if (part)
                MPI_Pready(part, requests[1]);
        }
        /* The last of the receiver's parts is there before the sender's first is ready. */
        while (!flag)
            MPI_Parrived(requests[0], PARTS / 2 - 1, &flag);
        add(in[PARTS * ITEMS - 1]);
        MPI_Pready(0, requests[1]);
        if (round)
            MPI_Waitall(2, requests, statuses);
        else
            for (int left = 2; left; left--) {
                int index;
                MPI_Waitany(2, requests, &index, &statuses[0]);
                if (!index)
                    statuses[1] = statuses[0];
            }
        MPI_Get_count(&statuses[round ? 0 : 1], MPI_INT, &count);
        if (count != PARTS * ITEMS)
            printf("%d items in parts\n", count);
        for (int i = 0; i < PARTS * ITEMS; i++)
            if (in[i] != previous + round * 100 + i)
                printf("rank %d: item %d is %d\n", rank, i, in[i]);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static int calls;

static int query(void *extra, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, *(int *) extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    calls += 1;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void) extra;
    calls += 10;
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete)
{
    (void) extra;
    calls += complete ? 100 : 1000;
    return MPI_SUCCESS;
}

static void of_program(void)
{
    int items = 3, flag, count;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Grequest_start(query, release, cancelled, &items, &requests[0]);
    MPI_Irecv(&count, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    add(flag);
    MPI_Cancel(&requests[0]);
    MPI_Grequest_complete(requests[0]);
    MPI_Request_get_status(requests[0], &flag, &status);
    add(flag);
    MPI_Wait(&requests[0], &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    if (calls != 1 + 1 + 10 + 1000 || count != 3 || status.MPI_SOURCE != 5)
        printf("calls %d, count %d, source %d\n", calls, count, status.MPI_SOURCE);
    /* Only the program could end it. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Grequest_start(query, release, cancelled, &items, &requests[0]);
    if (MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS)
        printf("a wait without end has ended\n");
    MPI_Request_free(&requests[0]);
}

static void buffered(void)
{
    static char room[1000], own[100 + MPI_BSEND_OVERHEAD];
    char data[100], in[100];
    void *back;
    int bytes, next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(room, sizeof room);
    MPI_Comm_attach_buffer(comm, own, sizeof own);
    memset(data, rank, sizeof data);
    MPI_Bsend(data, 100, MPI_CHAR, next, 1, comm);
    memset(data, 99, sizeof data);
    MPI_Recv(in, 100, MPI_CHAR, previous, 1, comm, MPI_STATUS_IGNORE);
    add(in[50]);
    if (MPI_Bsend(room, 200, MPI_CHAR, next, 1, comm) == MPI_SUCCESS)
        printf("a message that is longer than its buffer\n");
    MPI_Comm_detach_buffer(comm, &back, &bytes);
    if (back != own || bytes != (int) sizeof own)
        printf("another buffer of the communicator\n");
    MPI_Buffer_detach(&back, &bytes);
    if (back != room || bytes != (int) sizeof room)
        printf("another buffer\n");
    MPI_Comm_free(&comm);
}

static void persistent(void)
{
    int in[3], out[3];
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++)
        MPI_Allreduce_init(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &requests[i]);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++)
            in[i] = rank + i * 10 + round;
        for (int i = 0; i < 3; i++)
            MPI_Start(&requests[(rank + i) % 3]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 3; i++)
            add(out[i]);
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
}

static void cancelled_sends(void)
{
    int flag, data = 17, in = 0;
    MPI_Request request;
    MPI_Status status;
    /* A wait for it does not need the receiver. */
    MPI_Issend(&data, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    status.MPI_ERROR = 77;
    if (!flag)
        MPI_Recv(&in, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &status);
    if (status.MPI_ERROR != 77)
        printf("the error of a status was changed\n");
    add(flag ? 17 : in);
    /* An empty status has all fields. */
    request = MPI_REQUEST_NULL;
    MPI_Wait(&request, &status);
    if (status.MPI_ERROR != MPI_SUCCESS || status.MPI_SOURCE != MPI_ANY_SOURCE)
        printf("no empty status\n");
}

static void counters(void)
{
    int provided, number, index, count;
    unsigned long long before, after;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_get_num(&number);
    if (MPI_T_pvar_get_index("no such counter", MPI_T_PVAR_CLASS_COUNTER, &index) !=
        MPI_T_ERR_INVALID_NAME)
        printf("a counter that does not exist\n");
    if (MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_COUNTER, &index) || index >= number)
        printf("bytes_sent is missing\n");
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
    MPI_T_pvar_read(session, handle, &before);
    MPI_Send(&rank, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
    MPI_Recv(&number, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_T_pvar_read(session, handle, &after);
    if (after - before != sizeof rank)
        printf("%llu bytes sent\n", after - before);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    in_parts();
    of_program();
    buffered();
    persistent();
    cancelled_sends();
    counters();
    printf("rank %d: %ld\n", rank, sum);
    MPI_Finalize();
    return 0;
}
