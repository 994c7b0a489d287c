/* Collectives on communicators of all kinds; prints what they compute. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 3000

static unsigned long sum;

static void add(long number)
{
    sum = sum * 1000003u + (unsigned long)number;
}

static void product(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    /* 2 by 2 matrices modulo a prime: does not commute */
    unsigned *a = in, *b = inout;
    int bytes;
    MPI_Type_size(*datatype, &bytes);
    for (int i = 0; i < *count; i++, a += 4, b += 4) {
        unsigned c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                         a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        for (int j = 0; j < 4; j++)
            b[j] = c[j] % 10007;
    }
    if (bytes != 16)
        printf("wrong type\n");
}

static void collectives(MPI_Comm comm)
{
    int rank, size;
    static int in[8 * N], out[8 * N];
    int counts[8], starts[8];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 8 * N; i++)
        in[i] = i * (rank + 1);
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        starts[i] = 10 * (size - 1 - i);
    }
    MPI_Barrier(comm);
    out[0] = rank;
    MPI_Bcast(out, N, MPI_INT, size - 1, comm);
    add(out[0]);
    MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, comm);
    add(out[N - 1]);
    MPI_Allgather(in, 5, MPI_INT, out, 5, MPI_INT, comm);
    add(out[5 * size - 1]);
    MPI_Allgatherv(in, rank + 1, MPI_INT, out, counts, starts, MPI_INT, comm);
    add(out[starts[size - 1] + size - 1]);
    MPI_Alltoall(in, 7, MPI_INT, out, 7, MPI_INT, comm);
    add(out[7 * size - 1]);
    MPI_Reduce(in, out, N, MPI_INT, MPI_MAX, 0, comm);
    if (rank == 0)
        add(out[N - 1]);
    MPI_Gather(in, 3, MPI_INT, out, 3, MPI_INT, 0, comm);
    if (rank == 0)
        add(out[3 * size - 1]);
    MPI_Scatter(in, 4, MPI_INT, out, 4, MPI_INT, 0, comm);
    add(out[3]);
    MPI_Reduce_scatter_block(in, out, 6, MPI_INT, MPI_SUM, comm);
    add(out[5]);
    MPI_Scan(in, out, 9, MPI_INT, MPI_SUM, comm);
    add(out[8]);
    struct { double value; int index; } here = {(rank * 7) % size, rank}, there;
    MPI_Allreduce(&here, &there, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    add(there.index);
    MPI_Op op;
    MPI_Datatype matrix;
    unsigned mine[4] = {rank + 1, 2, 3, rank + 4}, all[4];
    MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(product, 0, &op);
    MPI_Allreduce(mine, all, 1, matrix, op, comm);
    add(all[0] + all[3]);
    MPI_Op_free(&op);
    MPI_Type_free(&matrix);
    /* Several under way at once, in another order of waiting. */
    MPI_Request requests[3];
    int a = rank, b = 0, c[8] = {0};
    MPI_Iallreduce(&a, &b, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Iallgather(&a, 1, MPI_INT, c, 1, MPI_INT, comm, &requests[1]);
    MPI_Ibarrier(comm, &requests[2]);
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    add(b * 100 + c[size - 1]);
    MPI_Request again;
    MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &again);
    for (int i = 0; i < 3; i++) {
        a = rank + i;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        add(b);
    }
    MPI_Request_free(&again);
}

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, size, key, flag, result;
    void *value;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    collectives(MPI_COMM_WORLD);
    collectives(MPI_COMM_SELF);
    /* Halves in reversed order; a duplicate with an attribute; an intercommunicator of the halves. */
    MPI_Comm half, same, inter, merged, grid;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    collectives(half);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(half, key, (char *)0 + 41);
    MPI_Comm_dup(half, &same);
    MPI_Comm_get_attr(same, key, &value, &flag);
    add(flag * 1000 + (int)((char *)value - (char *)0));
    MPI_Comm_compare(half, same, &result);
    add(result == MPI_CONGRUENT);
    if (size > 1) {
        /* The leader is the first of each half: the highest rank of it. */
        int other = rank % 2 ? (size - 1) - (size - 1) % 2 : size - 1 - size % 2;
        int mine = rank, theirs = -1;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 5, &inter);
        MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, inter);
        add(theirs);
        /* Combines anew what the other half gives at each start. */
        MPI_Request again;
        MPI_Allreduce_init(&mine, &theirs, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &again);
        for (int i = 0; i < 3; i++) {
            int expected = 0;
            for (int r = 1 - rank % 2; r < size; r += 2)
                expected += r * i;
            mine = rank * i;
            MPI_Start(&again);
            MPI_Wait(&again, MPI_STATUS_IGNORE);
            if (theirs != expected) {
                printf("start %d: %d, not %d\n", i, theirs, expected);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
        }
        MPI_Request_free(&again);
        MPI_Intercomm_merge(inter, rank % 2, &merged);
        collectives(merged);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&inter);
    }
    MPI_Comm_free(&same);
    MPI_Comm_free(&half);
    int dims[1] = {0}, periods[1] = {1}, left, right, got[2];
    MPI_Dims_create(size, 1, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &left, &right);
    int give[2] = {rank * 2, rank * 2 + 1};
    MPI_Neighbor_alltoall(give, 1, MPI_INT, got, 1, MPI_INT, grid);
    /* From the left comes what it sends to the right. */
    add(got[0] == left * 2 + 1);
    add(got[1] == right * 2);
    MPI_Comm_free(&grid);
    printf("rank %d: %lx\n", rank, sum);
    MPI_Finalize();
    return 0;
}
