/* Two ranks send a message to and fro; rank 0 prints what half a round trip takes.
 *
 *   refrain run -n 2 --protocol pessimist -- ./pingpong 8
 *
 * pingpong [BYTES [ROUND-TRIPS [SERIES]]]: the least and the median of all series, in
 * nanoseconds, and what one call of refrain_rank takes. */
#define _POSIX_C_SOURCE 199309L
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SERIES_MAX = 1000 };

static void check(int code)
{
    if (code != REFRAIN_OK) {
        fprintf(stderr, "pingpong: %s: %s\n", refrain_error_name(code), refrain_last_error());
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void round_trip(refrain_world *world, int rank, void *buffer, size_t bytes)
{
    if (rank == 0) {
        check(refrain_send(world, buffer, bytes, 1, 0));
        check(refrain_recv(world, buffer, bytes, 1, 0, NULL));
    } else if (rank == 1) {
        check(refrain_recv(world, buffer, bytes, 0, 0, NULL));
        check(refrain_send(world, buffer, bytes, 0, 0));
    }
}

static double half_round_trip_ns(refrain_world *world, int rank, void *buffer, size_t bytes,
                                 uint64_t trips)
{
    double began = now_ns();
    for (uint64_t trip = 0; trip < trips; trip++)
        round_trip(world, rank, buffer, bytes);
    return (now_ns() - began) / (double)trips / 2;
}

static double call_ns(refrain_world *world, uint64_t calls)
{
    double began = now_ns();
    for (uint64_t call = 0; call < calls; call++)
        if (refrain_rank(world) < 0)
            check(REFRAIN_ERR_WORLD);
    return (now_ns() - began) / (double)calls;
}

static int by_size(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void print(const char *what, double figures[], size_t series)
{
    qsort(figures, series, sizeof *figures, by_size);
    printf("%s: least %.1f ns, median %.1f ns\n", what, figures[0], figures[series / 2]);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
    uint64_t trips = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    size_t series = argc > 3 ? strtoull(argv[3], NULL, 10) : 100;
    double half[SERIES_MAX], call[SERIES_MAX];
    void *buffer = calloc(1, bytes + 1);
    refrain_world *world;

    check(refrain_init(&world));
    int rank = refrain_rank(world);
    if (refrain_size(world) != 2 || series < 1 || series > SERIES_MAX || trips < 1 || !buffer) {
        fprintf(stderr, "pingpong: 2 ranks, 1 to %d series\n", SERIES_MAX);
        return 1;
    }
    half_round_trip_ns(world, rank, buffer, bytes, trips);
    for (size_t i = 0; i < series; i++)
        half[i] = half_round_trip_ns(world, rank, buffer, bytes, trips);
    for (size_t i = 0; i < series; i++)
        call[i] = call_ns(world, trips);
    if (rank == 0) {
        printf("%zu bytes, %" PRIu64 " round trips, %zu series\n", bytes, trips, series);
        print("half round trip", half, series);
        print("refrain_rank", call, series);
    }
    check(refrain_finalize(world));
    free(buffer);
    return 0;
}
