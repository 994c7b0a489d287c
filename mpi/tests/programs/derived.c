/* A ring that sends derived types round after round, each rank to the next one, and compares what
 * arrives with plain loops. Prints one line for each rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 12, CELLS = SIDE * SIDE * SIDE, ROUNDS = 12, KINDS = 7 };

struct particle {
    char kind;
    double place[3];
    short charge;
};

static int rank, ranks, failures;
static unsigned long checksum;

static MPI_Datatype column(void)
{
    MPI_Datatype vector, resized;
    MPI_Type_vector(SIDE, 1, SIDE, MPI_DOUBLE, &vector);
    MPI_Type_create_resized(vector, 0, sizeof(double), &resized);
    MPI_Type_free(&vector);
    MPI_Type_commit(&resized);
    return resized;
}

static MPI_Datatype particles(void)
{
    int lengths[3] = {1, 3, 1};
    MPI_Aint places[3] = {0, 8, 32};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, type;
    MPI_Type_create_struct(3, lengths, places, types, &type);
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype block(int order)
{
    int sizes[3] = {SIDE, SIDE, SIDE}, parts[3] = {5, 4, 3}, starts[3] = {2, 1, 7};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype distributed(void)
{
    int sizes[3] = {SIDE, SIDE, SIDE}, grid[3] = {2, 2, 1};
    int kinds[3] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    int arguments[3] = {2, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Datatype type;
    MPI_Type_create_darray(4, 3, 3, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype scattered(void)
{
    int lengths[SIDE], places[SIDE];
    MPI_Datatype type;
    for (int i = 0; i < SIDE; ++i) {
        lengths[i] = i % 3;
        places[i] = 17 * (SIDE - i);
    }
    MPI_Type_indexed(SIDE, lengths, places, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Which cells of the cube a kind sends, in order. */
static int cells(int kind, int *list)
{
    int number = 0;
    for (int i = 0; i < SIDE; ++i)
        for (int j = 0; j < SIDE; ++j)
            for (int k = 0; k < SIDE; ++k) {
                int c = (i * SIDE + j) * SIDE + k; /* k is contiguous in either order */
                int in_block = i >= 2 && i < 7 && j >= 1 && j < 5 && k >= 7 && k < 10;
                if (kind == 1 && i == 0)
                    list[number++] = k * SIDE + j; /* columns of the first plane */
                if (kind == 2 && in_block)
                    list[number++] = c;
                if (kind == 3 && k >= 2 && k < 7 && j >= 1 && j < 5 && i >= 7 && i < 10)
                    list[number++] = c;
                if (kind == 4 && i / 2 % 2 == 1 && j >= 6)
                    list[number++] = c;
                if (kind == 5 && i == 0 && k < j % 3)
                    list[number++] = 17 * (SIDE - j) + k;
            }
    return number;
}

static void add(const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; ++i)
        checksum = checksum * 31 + ((const unsigned char *)bytes)[i];
}

static double value(int from, int round, int at)
{
    return from * 1e6 + round * 1e4 + at;
}

static void check(int condition, int kind, int round)
{
    if (!condition && failures++ == 0)
        printf("rank %d, round %d: type %d arrived wrongly\n", rank, round, kind);
}

/* Exchanges parts of a cube; in odd rounds the receiver takes them contiguously. */
static void exchange_cells(int kind, int round, MPI_Datatype type, int count)
{
    static double from[CELLS], to[CELLS];
    static int list[CELLS];
    int number = cells(kind, list), left = (rank + ranks - 1) % ranks, is_dense = round % 2;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int received, elements;
    for (int i = 0; i < CELLS; ++i) {
        from[i] = value(rank, round, i);
        to[i] = -1;
    }
    if (is_dense)
        MPI_Irecv(to, CELLS, MPI_DOUBLE, left, kind, MPI_COMM_WORLD, &requests[0]);
    else
        MPI_Irecv(to, count, type, left, kind, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(from, count, type, (rank + 1) % ranks, kind, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    MPI_Get_count(&statuses[0], is_dense ? MPI_DOUBLE : type, &received);
    MPI_Get_elements(&statuses[0], type, &elements);
    check(received == (is_dense ? number : count) && elements == number, kind, round);
    for (int i = 0; i < number; ++i) {
        int at = is_dense ? i : list[i];
        check(to[at] == value(left, round, list[i]), kind, round);
        to[at] = -1;
    }
    for (int i = 0; i < CELLS; ++i)
        check(to[i] == -1, kind, round);
    add(&number, sizeof number);
}

static void exchange_particles(int round, MPI_Datatype type)
{
    struct particle from[64], to[64];
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    memset(from, 0, sizeof from);
    memset(to, 0x11, sizeof to);
    for (int i = 0; i < 64; ++i) {
        from[i].kind = (char)(rank + i);
        from[i].place[2] = value(rank, round, i);
        from[i].charge = (short)(round - i);
        /* Bytes between the members differ in each process. */
        memset(&from[i].kind + 1, (int)((size_t)&from >> 4 & 0x7f), 7);
    }
    MPI_Sendrecv(from, 64, type, right, 0, to, 64, type, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 64; ++i) {
        int good = to[i].kind == (char)(left + i) && to[i].place[2] == value(left, round, i)
                   && to[i].charge == (short)(round - i) && (&to[i].kind)[1] == 0x11;
        check(good, 0, round);
        add(&to[i].place, sizeof to[i].place);
    }
}

/* Two variables that are apart, by their addresses. */
static void exchange_addresses(int round)
{
    static int first;
    static double last[1000];
    int lengths[2] = {1, 1000}, left = (rank + ranks - 1) % ranks, got = 0;
    MPI_Aint places[2];
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, type;
    char packed[sizeof first + sizeof last];
    MPI_Get_address(&first, &places[0]);
    MPI_Get_address(last, &places[1]);
    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    first = rank + round;
    for (int i = 0; i < 1000; ++i)
        last[i] = value(rank, round, i);
    MPI_Request request;
    MPI_Irecv(packed, sizeof packed, MPI_PACKED, left, 6, MPI_COMM_WORLD, &request);
    MPI_Send(MPI_BOTTOM, 1, type, (rank + 1) % ranks, 6, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Unpack(packed, sizeof packed, &got, MPI_BOTTOM, 1, type, MPI_COMM_WORLD);
    check(got == sizeof packed && first == left + round, 6, round);
    for (int i = 0; i < 1000; ++i)
        check(last[i] == value(left, round, i), 6, round);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Datatype types[KINDS] = {particles(), column(), block(MPI_ORDER_C),
                                 block(MPI_ORDER_FORTRAN), distributed(), scattered()};
    for (int round = 0; round < ROUNDS; ++round) {
        exchange_particles(round, types[0]);
        for (int kind = 1; kind < 6; ++kind)
            exchange_cells(kind, round, types[kind], kind == 1 ? SIDE : 1);
        exchange_addresses(round);
    }
    for (int kind = 0; kind < 6; ++kind)
        MPI_Type_free(&types[kind]);
    printf("rank %d: %d failures, sum %lx\n", rank, failures, checksum);
    MPI_Finalize();
    return failures != 0;
}
