/* Short standard sends are over when they begin, also when the receiver makes no call and the log is full: rank 1 makes
 * none until rank 0 has made the file that the argument names. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 6000, BYTES = 1024 };

static void fill(unsigned char *data, int number) {
    for (int at = 0; at < BYTES; at++) data[at] = (unsigned char)(number * 7 + at);
}

int main(int argc, char **argv) {
    unsigned char data[BYTES], expected[BYTES];
    int rank, flag, wrong = 0;
    MPI_Request request, first = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int number = 0; number < MESSAGES; number++) {
            fill(data, number);
            MPI_Isend(data, BYTES, MPI_BYTE, 1, number % 5, MPI_COMM_WORLD, &request);
            if (number == 0) first = request;
            MPI_Test(&request, &flag, &status);
            wrong += !flag || request != MPI_REQUEST_NULL;
            memset(data, 0xff, BYTES);
        }
        fclose(fopen(argv[1], "w"));
        /* They may be asked for, cancelled and freed as others. */
        MPI_Request_get_status(first, &flag, MPI_STATUS_IGNORE);
        wrong += !flag;
        MPI_Cancel(&first);
        MPI_Request_free(&first);
        wrong += first != MPI_REQUEST_NULL;
        MPI_Isend(data, 0, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    }
    if (rank == 1) {
        while (access(argv[1], F_OK)) usleep(1000);
        for (int number = 0; number < MESSAGES; number++) {
            MPI_Recv(data, BYTES, MPI_BYTE, 0, number % 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fill(expected, number);
            wrong += memcmp(data, expected, BYTES) != 0;
        }
        MPI_Recv(data, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return 0;
}
