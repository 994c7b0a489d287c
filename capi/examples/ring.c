/* A token goes round the ranks; each adds to it. Whichever rank is killed on the way,
 * the line at the end is the same:
 *
 *   refrain run -n 4 --protocol pessimist --kill 2@clock=300 -- ./ring 1000 100
 *
 * ring [ROUNDS [CHECKPOINT-EVERY]] */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* All that a rank needs to go on. */
struct state {
    uint64_t round;
    uint64_t token;
};

static void check(int code)
{
    if (code != REFRAIN_OK) {
        fprintf(stderr, "ring: %s: %s\n", refrain_error_name(code), refrain_last_error());
        exit(1);
    }
}

static uint64_t mixed(uint64_t token, uint64_t round, int rank)
{
    return (token ^ round ^ (uint64_t)rank) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    struct state state = {0, 1};
    uint64_t checkpoint;
    refrain_world *world;

    check(refrain_init(&world));
    int rank = refrain_rank(world);
    int size = refrain_size(world);
    int next = (rank + 1) % size;
    int before = (rank + size - 1) % size;

    /* What checkpoints hold, and then: does this process go on from one? */
    check(refrain_protect(world, 1, &state, sizeof state));
    check(refrain_restored(world, &checkpoint));

    while (state.round < rounds) {
        if (rank == 0)
            check(refrain_send(world, &state.token, sizeof state.token, next, 0));
        check(refrain_recv(world, &state.token, sizeof state.token, before, 0, NULL));
        state.token = mixed(state.token, state.round, rank);
        if (rank != 0)
            check(refrain_send(world, &state.token, sizeof state.token, next, 0));
        state.round++;

        int requested = 0;
        check(refrain_checkpoint_requested(world, &requested));
        if (requested || (every > 0 && state.round % every == 0))
            check(refrain_checkpoint(world, NULL));
    }

    check(refrain_finalize(world));
    if (rank == 0)
        printf("ring: %d ranks, %" PRIu64 " rounds, token %016" PRIx64 "\n", size, rounds,
               state.token);
    return 0;
}
