/* The measurements of `refrain bench mpi`, over any MPI library.
 *
 *     mpi SECONDS SENT_BYTES_MAX SIZE
 *
 * Rank 0 prints lines "figure NAME VALUE":
 *
 *     TYPE       half a round trip of one element of a type with SIZE bytes of data, in microseconds
 *     window     a message of WINDOW that go one way before a short one goes back, in microseconds
 *     start      MPI_Init and MPI_Finalize, in milliseconds, when SIZE is 0 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, BATCHES = 15 };
/* Types with gaps have at least so many bytes; longer messages have no window. */
enum { GAPS_BYTES_MIN = 1024, WINDOW_BYTES_MAX = 4096 };

static double time_s, sent_bytes_max;
static int rank, ranks;
static char *buffer;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* As the launcher of Refrain: a core for each rank, or none. */
static void pin(void) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < ranks) return;
    for (int core = 0, left = rank; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && left-- == 0) {
            CPU_ZERO(&own);
            CPU_SET(core, &own);
            sched_setaffinity(0, sizeof own, &own);
            return;
        }
    }
}

/* Types with `bytes` of data in one element. */
enum type { BYTES, VECTOR, BLOCKS, INDEXED, STRUCT, TYPES };
static const char *const names[] = {"contiguous", "vector", "blocks", "indexed", "struct"};

/* A particle with a gap between its parts, as a compiler lays it out. */
struct particle { double place[3]; char kind; int number; float charge[2]; };

static MPI_Datatype make(enum type type, int bytes) {
    MPI_Datatype made, part;
    int count = bytes / 8;
    switch (type) {
    case VECTOR: /* a column of a matrix of doubles */
        MPI_Type_vector(count, 1, 4, MPI_DOUBLE, &made);
        break;
    case BLOCKS: /* a face of a block of doubles: rows of 32 */
        MPI_Type_vector(count / 32, 32, 64, MPI_DOUBLE, &made);
        break;
    case INDEXED: { /* runs of 1 to 7 doubles, gaps of 1 to 4 */
        int *lengths = malloc(count * sizeof *lengths), *places = malloc(count * sizeof *places), runs = 0, place = 0;
        for (int left = count; left > 0; left -= lengths[runs++]) {
            int length = 1 + runs * 5 % 7;
            lengths[runs] = length < left ? length : left;
            places[runs] = place;
            place += length + 1 + runs * 3 % 4;
        }
        MPI_Type_indexed(runs, lengths, places, MPI_DOUBLE, &made);
        free(lengths);
        free(places);
        break;
    }
    case STRUCT: { /* an array of particles: 37 bytes of data in 48 */
        struct particle p;
        int lengths[] = {3, 1, 1, 2};
        MPI_Aint places[] = {(char *)&p.place - (char *)&p, &p.kind - (char *)&p, (char *)&p.number - (char *)&p,
                             (char *)&p.charge - (char *)&p};
        MPI_Datatype parts[] = {MPI_DOUBLE, MPI_CHAR, MPI_INT, MPI_FLOAT}, element;
        MPI_Type_create_struct(4, lengths, places, parts, &element);
        MPI_Type_create_resized(element, 0, sizeof p, &part);
        MPI_Type_contiguous((bytes + 36) / 37, part, &made);
        MPI_Type_free(&element);
        MPI_Type_free(&part);
        break;
    }
    default:
        MPI_Type_contiguous(bytes, MPI_BYTE, &made);
    }
    MPI_Type_commit(&made);
    return made;
}

static void round_trip(MPI_Datatype type) {
    if (rank == 0) {
        MPI_Send(buffer, 1, type, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, 1, type, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, 1, type, 0, 0, MPI_COMM_WORLD);
    }
}

static void window(MPI_Datatype type) {
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) MPI_Isend(buffer, 1, type, 1, 0, MPI_COMM_WORLD, &requests[i]);
        else MPI_Irecv(buffer, 1, type, 0, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(WINDOW, requests, statuses);
    if (rank == 0) MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Prints the median over batches of the mean time of `once`. `sent_bytes`: what a rank sends in it. */
static void measure(const char *name, void (*once)(MPI_Datatype), MPI_Datatype type, int sent_bytes, double parts) {
    double means[BATCHES];
    long repeats = 1, repeats_max = (long)(sent_bytes_max / sent_bytes / (BATCHES + 2));
    for (;; repeats *= 2) {
        double start = now_s(), time;
        for (long i = 0; i < repeats; i++) once(type);
        time = now_s() - start;
        MPI_Bcast(&time, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (time >= time_s / BATCHES || 2 * repeats > repeats_max) break;
    }
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now_s();
        for (long i = 0; i < repeats; i++) once(type);
        means[batch] = (now_s() - start) / repeats;
    }
    qsort(means, BATCHES, sizeof *means, by_size);
    if (rank == 0) printf("figure %s %.5f\n", name, means[BATCHES / 2] / parts * 1e6);
}

int main(int argc, char **argv) {
    double start = now_s(), begun;
    MPI_Init(&argc, &argv);
    begun = now_s() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4 || ranks != 2 || atoi(argv[3]) < 0) {
        fprintf(stderr, "usage: mpi SECONDS SENT_BYTES_MAX SIZE, with 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pin();
    time_s = atof(argv[1]);
    sent_bytes_max = atof(argv[2]);
    int bytes = atoi(argv[3]);
    /* A vector takes four times its data. */
    buffer = malloc(4 * (size_t)bytes + 4096);
    memset(buffer, rank + 1, 4 * (size_t)bytes + 4096);
    for (enum type kind = BYTES; bytes > 0 && kind < TYPES; kind++) {
        if (kind != BYTES && bytes < GAPS_BYTES_MIN) continue;
        MPI_Datatype type = make(kind, bytes);
        measure(names[kind], round_trip, type, bytes, 2);
        if (kind == BYTES && bytes <= WINDOW_BYTES_MAX) measure("window", window, type, WINDOW * bytes, WINDOW);
        MPI_Type_free(&type);
    }
    free(buffer);
    start = now_s();
    MPI_Finalize();
    if (rank == 0) printf("figure start %.3f\n", (begun + now_s() - start) * 1e3);
    return 0;
}
