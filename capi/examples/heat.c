/* Heat spreads along a ring until it changes little; each rank has a part of the ring.
 * Whichever rank is killed on the way, the line at the end is the same:
 *
 *   refrain run -n 4 --protocol pessimist --kill 2@clock=1000 -- ./heat 16 100
 *
 * heat [CELLS-OF-A-RANK [CHECKPOINT-EVERY]] */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS_MAX = 1000, LOOK_EVERY = 10 };

/* All that a rank needs to go on. cell[0] and cell[n + 1] are cells of the neighbours. */
static struct {
    uint64_t step;
    double change;
    double cell[CELLS_MAX + 2];
} state;

static void check(int code)
{
    if (code != REFRAIN_OK) {
        fprintf(stderr, "heat: %s: %s\n", refrain_error_name(code), refrain_last_error());
        exit(1);
    }
}

/* Returns the largest change of a cell. */
static double spread(uint64_t n)
{
    double before = state.cell[0], change = 0;
    for (uint64_t i = 1; i <= n; i++) {
        double here = state.cell[i];
        double flow = 0.4 * (before - 2 * here + state.cell[i + 1]);
        double size = flow < 0 ? -flow : flow;
        state.cell[i] = here + flow;
        change = size > change ? size : change;
        before = here;
    }
    return change;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 16;
    uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    uint64_t checkpoint;
    double total = 0;
    refrain_world *world;
    refrain_request exchange;

    if (n < 1 || n > CELLS_MAX) {
        fprintf(stderr, "heat: 1 to %d cells\n", CELLS_MAX);
        return 1;
    }
    check(refrain_init(&world));
    refrain_group all = refrain_group_all(world);
    int rank = refrain_rank(world), size = refrain_size(world);
    state.cell[1] = rank == 0 ? 100 : 0;
    state.change = 1;

    /* What checkpoints hold, and then: does this process go on from one? */
    check(refrain_protect(world, 1, &state, sizeof state));
    check(refrain_restored(world, &checkpoint));

    /* Each step, the first cell goes to the rank before, and the last one to the next. */
    int before = (rank + size - 1) % size, next = (rank + 1) % size;
    int destinations[2] = {before, next}, sources[2] = {next, before};
    uint64_t one[2] = {1, 1}, sent[2] = {1, n}, received[2] = {n + 1, 0};
    refrain_neighbours ring = {sources, destinations, 2, 2};
    check(refrain_prepare(world,
                          refrain_neighbour_alltoallv(all, ring, state.cell, one, sent, state.cell,
                                                      one, received, REFRAIN_DOUBLE),
                          &exchange));

    while (state.change > 1e-3) {
        check(refrain_start(world, &exchange));
        check(refrain_wait(world, &exchange, NULL));
        double change = spread(n);
        if (state.step % LOOK_EVERY == 0)
            check(refrain_do(world, refrain_allreduce(all, &change, &state.change, 1,
                                                      REFRAIN_DOUBLE, REFRAIN_MAX)));
        state.step++;
        if (every > 0 && state.step % every == 0)
            check(refrain_checkpoint(world, NULL));
    }

    for (uint64_t i = 1; i <= n; i++)
        total += state.cell[i];
    check(refrain_do(world, refrain_reduce(all, 0, rank == 0 ? REFRAIN_IN_PLACE : &total, &total, 1,
                                           REFRAIN_DOUBLE, REFRAIN_SUM)));
    check(refrain_free(world, &exchange));
    check(refrain_finalize(world));
    if (rank == 0)
        printf("heat: %d ranks, %" PRIu64 " steps, total %.12g, first cell %.17g\n", size,
               state.step, total, state.cell[1]);
    return 0;
}
