/* A group of some ranks and a persistent collective of it, in a program that takes
 * checkpoints: a later life has the group from its protected memory, and prepares the
 * collective again.
 *
 * groups_restored STEPS CHECKPOINT-EVERY */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    uint64_t step;
    uint64_t sum;
    refrain_group half;
} state;

static void check(int code)
{
    if (code == REFRAIN_OK)
        return;
    fprintf(stderr, "%s: %s\n", refrain_error_name(code), refrain_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    const uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    uint64_t number, mine, sum, total = 0;
    refrain_world *world;
    refrain_request request;
    refrain_group copy;

    check(refrain_init(&world));
    const int rank = refrain_rank(world);
    const refrain_group all = refrain_group_all(world);
    check(refrain_protect(world, 1, &state, sizeof state));
    check(refrain_restored(world, &number));
    if (number == 0)
        check(refrain_group_split(world, all, rank % 2, -rank, &state.half));
    check(refrain_prepare(world,
                          refrain_scan(state.half, &mine, &sum, 1, REFRAIN_UINT64, REFRAIN_SUM),
                          &request));
    while (state.step < steps) {
        mine = state.sum ^ (state.step + (uint64_t)rank);
        check(refrain_start(world, &request));
        check(refrain_do(world, refrain_allreduce(all, &mine, &total, 1, REFRAIN_UINT64,
                                                  REFRAIN_BXOR)));
        check(refrain_wait(world, &request, NULL));
        state.sum = state.sum * 31 + (sum ^ total);
        /* New groups get their contexts also after a restart. */
        if (state.step % 7 == 0) {
            check(refrain_group_duplicate(world, state.half, &copy));
            check(refrain_do(world, refrain_bcast(copy, 0, &state.sum, 1, REFRAIN_UINT64)));
            check(refrain_group_release(world, &copy));
        }
        state.step++;
        if (every > 0 && state.step % every == 0)
            check(refrain_checkpoint(world, NULL));
    }
    check(refrain_do(world, refrain_allreduce(all, &state.sum, &total, 1, REFRAIN_UINT64,
                                              REFRAIN_SUM)));
    check(refrain_finalize(world));
    if (rank == 0)
        printf("groups: %" PRIu64 " steps, %016" PRIx64 "\n", state.step, total);
    return 0;
}
