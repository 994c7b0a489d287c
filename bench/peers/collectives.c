/* The loop of bench/src/collectives/rank.rs over MPI, for `refrain bench collectives --peers`.
 *
 *     collectives OPERATION SECONDS TESTS OVERLAP SIZE:BATCH...
 *
 * Arguments and output are those of `refrain-workload collective-loop`. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of batches of a measurement. It stops earlier when it takes LATE times the planned time. */
enum { BATCHES = 32, BATCHES_MIN = 3, LATE = 10 };
enum kind { BLOCKING, NON_BLOCKING, COMPUTE, BOTH };

static const char *operation;
static double time_s;
static int tests;
static int rank, ranks;
static float *input, *output;
/* Elements of the vector or block, and iterations of the computation. */
static int count;
static long iterations;

/* As the launcher of Refrain: a core for each rank, or none. */
static void pin(void) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < ranks)
        return;
    for (int core = 0, left = rank; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && left-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(core, &own);
            sched_setaffinity(0, sizeof own, &own);
            return;
        }
    }
}

static int is(const char *name) { return strcmp(operation, name) == 0; }

enum operation { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN };
static const char *const names[] = {"barrier", "bcast", "gather", "scatter", "allgather",
                                    "alltoall", "reduce", "allreduce", "reduce-scatter", "scan"};
static enum operation which;

static void blocking(void) {
    MPI_Comm all = MPI_COMM_WORLD;
    switch (which) {
    case BARRIER: MPI_Barrier(all); return;
    case BCAST: MPI_Bcast(output, count, MPI_FLOAT, 0, all); return;
    case GATHER: MPI_Gather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, all); return;
    case SCATTER: MPI_Scatter(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, all); return;
    case ALLGATHER: MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, all); return;
    case ALLTOALL: MPI_Alltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, all); return;
    case REDUCE: MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, all); return;
    case ALLREDUCE: MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, all); return;
    case REDUCE_SCATTER: MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, all); return;
    case SCAN: MPI_Scan(input, output, count, MPI_FLOAT, MPI_SUM, all); return;
    }
}

static MPI_Request begin(void) {
    MPI_Comm all = MPI_COMM_WORLD;
    MPI_Request it = MPI_REQUEST_NULL;
    switch (which) {
    case BARRIER: MPI_Ibarrier(all, &it); break;
    case BCAST: MPI_Ibcast(output, count, MPI_FLOAT, 0, all, &it); break;
    case GATHER: MPI_Igather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, all, &it); break;
    case SCATTER: MPI_Iscatter(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, all, &it); break;
    case ALLGATHER: MPI_Iallgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, all, &it); break;
    case ALLTOALL: MPI_Ialltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, all, &it); break;
    case REDUCE: MPI_Ireduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, all, &it); break;
    case ALLREDUCE: MPI_Iallreduce(input, output, count, MPI_FLOAT, MPI_SUM, all, &it); break;
    case REDUCE_SCATTER: MPI_Ireduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, all, &it); break;
    case SCAN: MPI_Iscan(input, output, count, MPI_FLOAT, MPI_SUM, all, &it); break;
    }
    return it;
}

/* A chain of dependent operations in registers. */
static void compute(long steps) {
    volatile double seed = 1.0;
    double x = seed;
    for (; steps > 0; steps--) x = x * 0.999999 + 1e-6;
    seed = x;
}

static void once(enum kind kind) {
    if (kind == BLOCKING) {
        blocking();
        return;
    }
    MPI_Request request = kind == COMPUTE ? MPI_REQUEST_NULL : begin();
    if (kind != NON_BLOCKING) {
        for (int slice = 0; slice <= tests; slice++) {
            int done;
            compute(iterations / (tests + 1));
            if (kind == BOTH && slice < tests) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Time between barriers, of the slowest rank. */
static double batch(enum kind kind, long repeats) {
    double most;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (; repeats > 0; repeats--) once(kind);
    double own = MPI_Wtime() - start;
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Of one operation: median over batches of the mean time in a batch, and mean over all. */
struct times { double median, mean; };

/* All ranks know the same times, and so plan the same. */
static struct times measure(enum kind kind, long batch_max) {
    double means[BATCHES], total = 0;
    /* The least: other processes may have the core meanwhile. */
    double least = batch(kind, 1);
    long repeats = 1;
    while (least * (double)repeats < time_s / BATCHES && repeats < batch_max) {
        repeats = 2 * repeats < batch_max ? 2 * repeats : batch_max;
        double mean = batch(kind, repeats) / (double)repeats;
        if (mean < least) least = mean;
    }
    double planned = time_s / BATCHES / least;
    repeats = planned < 1 ? 1 : planned < (double)batch_max ? (long)planned : batch_max;
    int count = 0;
    while (count < BATCHES && (count < BATCHES_MIN || total < LATE * time_s)) {
        double seconds = batch(kind, repeats);
        total += seconds;
        means[count++] = seconds / (double)repeats;
    }
    qsort(means, (size_t)count, sizeof *means, by_size);
    struct times times = {means[count / 2], total / (double)(count * repeats)};
    if (count % 2 == 0) times.median = (times.median + means[count / 2 - 1]) / 2;
    return times;
}

static void figure(long bytes, const char *name, double seconds) {
    if (rank == 0) printf("figure %ld %s %.9g\n", bytes, name, seconds);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pin();
    if (argc < 6) {
        fprintf(stderr, "usage: collectives OPERATION SECONDS TESTS OVERLAP SIZE:BATCH...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    operation = argv[1];
    while (!is(names[which])) {
        if (++which > SCAN) {
            fprintf(stderr, "there is no operation %s\n", operation);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    time_s = atof(argv[2]);
    tests = atoi(argv[3]);
    int overlap = strcmp(argv[4], "true") == 0;
    long most = 0;
    for (int i = 5; i < argc; i++)
        if (atol(argv[i]) > most) most = atol(argv[i]);
    size_t room = (size_t)most * (size_t)ranks + 4096;
    if (posix_memalign((void **)&input, 4096, room) || posix_memalign((void **)&output, 4096, room))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < room / sizeof *input; i++) input[i] = (float)(rank + 1), output[i] = (float)(rank + 1);
    /* Iterations per second, with all ranks at work. */
    iterations = 1000;
    double seconds = 0;
    if (overlap) {
        while ((seconds = batch(COMPUTE, 1)) < time_s / 2) iterations *= 2;
    }
    double rate = overlap ? (double)iterations / seconds : 0;
    for (int i = 5; i < argc; i++) {
        char *end;
        long bytes = strtol(argv[i], &end, 10);
        long batch_max = atol(end + 1);
        count = (int)(bytes / (long)sizeof *input);
        struct times blocking = measure(BLOCKING, batch_max);
        figure(bytes, "blocking", blocking.median);
        figure(bytes, "mean", blocking.mean);
        if (overlap) {
            double alone = measure(NON_BLOCKING, batch_max).median;
            iterations = (long)(alone * rate);
            double computation = measure(COMPUTE, batch_max).median;
            double both = measure(BOTH, batch_max).median;
            figure(bytes, "non-blocking", alone);
            figure(bytes, "computation", computation);
            figure(bytes, "both", both);
        }
    }
    MPI_Finalize();
    return 0;
}
