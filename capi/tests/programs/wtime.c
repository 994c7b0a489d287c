/* A program whose messages depend on the time: random numbers seeded by it travel
 * around a ring, and each rank's time for that is reduced over all ranks.
 *
 * wtime [ROUNDS [CHECKPOINT-EVERY]] */
#define _POSIX_C_SOURCE 200809L
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 1, TIMES = 2, ALL = 3 };

struct state {
    uint64_t round;
    uint64_t sum;
    double seconds;
    double last;
    unsigned random;
};

static void fail(const char *what)
{
    fprintf(stderr, "wtime: %s\n", what);
    exit(1);
}

static void check(int code)
{
    if (code != REFRAIN_OK)
        fail(refrain_last_error());
}

/* It never goes back. */
static double now(refrain_world *world, struct state *state)
{
    double seconds = -1;
    check(refrain_wtime(world, &seconds));
    if (seconds < state->last)
        fail("the time goes back");
    state->last = seconds;
    return seconds;
}

/* Sends to the right and receives from the left; the number grows by each rank's value. */
static void pass(refrain_world *world, struct state *state, int left, int right)
{
    double began = now(world, state);
    uint64_t out[2] = {(uint64_t)rand_r(&state->random), state->sum}, in[2];
    check(refrain_sendrecv(world, out, sizeof out, right, NUMBER, in, sizeof in, left, NUMBER,
                           NULL));
    state->sum += in[0] ^ in[1];
    state->seconds += now(world, state) - began;
}

/* Reduces times as programs report them: the longest, and the sum. */
static void reduce(refrain_world *world, struct state *state, int rank, int size)
{
    double mine = state->seconds, all[2] = {mine, mine};
    if (rank != 0) {
        check(refrain_send(world, &mine, sizeof mine, 0, TIMES));
        check(refrain_recv(world, all, sizeof all, 0, ALL, NULL));
    }
    for (int other = 1; rank == 0 && other < size; other++) {
        double seconds;
        check(refrain_recv(world, &seconds, sizeof seconds, REFRAIN_ANY_SOURCE, TIMES, NULL));
        all[0] = seconds > all[0] ? seconds : all[0];
        all[1] += seconds;
    }
    for (int other = 1; rank == 0 && other < size; other++)
        check(refrain_send(world, all, sizeof all, other, ALL));
    if (all[0] < mine || all[1] < all[0])
        fail("the sum of times is less than one of them");
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    struct state state;
    uint64_t checkpoint;
    double seconds;
    refrain_world *world;

    memset(&state, 0, sizeof state);
    check(refrain_init(&world));
    int rank = refrain_rank(world), size = refrain_size(world);
    check(refrain_protect(world, 1, &state, sizeof state));
    if (refrain_incarnation(world) > 0) {
        /* A life that continues from a checkpoint may ask for the time before it has
         * loaded it. A life without a checkpoint would diverge, since the first life did
         * not ask here. */
        int found;
        uint64_t bytes;
        check(refrain_restored_bytes(world, 1, &found, &bytes));
        if (found)
            check(refrain_wtime(world, &seconds));
    }
    check(refrain_restored(world, &checkpoint));
    if (checkpoint == 0)
        state.random = (unsigned)(now(world, &state) * 1e9) + (unsigned)rank;
    while (state.round < rounds) {
        pass(world, &state, (rank + size - 1) % size, (rank + 1) % size);
        state.round++;
        if (every > 0 && state.round % every == 0)
            check(refrain_checkpoint(world, NULL));
    }
    reduce(world, &state, rank, size);
    check(refrain_finalize(world));
    if (rank == 0)
        printf("wtime: %d ranks, %" PRIu64 " rounds\n", size, state.round);
    return 0;
}
