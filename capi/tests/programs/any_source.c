/* Workers send numbers. Rank 0 receives them from any source and answers each with a
 * ticket, in the order of its receives. Which worker gets which tickets depends on
 * timing; that each ticket is given once does not.
 *
 * any_source [NUMBERS-PER-WORKER [CHECKPOINT-EVERY]] */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 3, RANKS_MAX = 16, NUMBER = 1, TICKET = 2, SUM = 3 };

struct state {
    /* Rank 0: numbers taken. A worker: numbers sent. */
    uint64_t done;
    uint64_t sum;
    /* Rank 0: the next number of each worker. */
    uint64_t next[RANKS_MAX];
};

static void fail(const char *what)
{
    fprintf(stderr, "any_source: %s\n", what);
    exit(1);
}

static void check(int code)
{
    if (code != REFRAIN_OK)
        fail(refrain_last_error());
}

/* Receives of all open numbers, and answers to them. */
static void take_wave(refrain_world *world, struct state *state, uint64_t total)
{
    uint64_t numbers[AHEAD], tickets[AHEAD];
    refrain_request receives[AHEAD], sends[AHEAD];
    size_t wave = total - state->done < AHEAD ? (size_t)(total - state->done) : AHEAD;
    for (size_t i = 0; i < wave; i++)
        check(refrain_irecv(world, &numbers[i], sizeof numbers[i], REFRAIN_ANY_SOURCE, NUMBER,
                            &receives[i]));
    for (size_t i = 0; i < wave; i++) {
        size_t index;
        refrain_status status;
        check(refrain_wait_any(world, wave, receives, &index, &status));
        if (index == REFRAIN_NONE || receives[index].serial != 0)
            fail("a wait for any has ended none");
        if (status.bytes != sizeof numbers[index] || status.tag != NUMBER)
            fail("a number has another status");
        state->sum += numbers[index] * (uint64_t)status.source;
        /* The messages of one worker match in their order, but may be completed in any
         * order. */
        state->next[status.source]++;
        tickets[i] = state->done++;
        check(refrain_isend(world, &tickets[i], sizeof tickets[i], status.source, TICKET,
                            &sends[i]));
    }
    check(refrain_wait_all(world, wave, sends, NULL));
}

/* Sends one number, and receives the ticket for it. */
static void give(refrain_world *world, struct state *state)
{
    uint64_t number = state->done + 1, ticket = 0;
    refrain_request requests[2];
    check(refrain_irecv(world, &ticket, sizeof ticket, 0, TICKET, &requests[0]));
    check(refrain_isend(world, &number, sizeof number, 0, NUMBER, &requests[1]));
    int done = 0;
    check(refrain_test_all(world, 2, requests, &done, NULL));
    if (!done)
        check(refrain_wait_all(world, 2, requests, NULL));
    state->done++;
    state->sum += ticket;
}

int main(int argc, char **argv)
{
    uint64_t each = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    struct state state;
    uint64_t checkpoint, total, steps = 0;
    refrain_world *world;

    memset(&state, 0, sizeof state);
    check(refrain_init(&world));
    int rank = refrain_rank(world), size = refrain_size(world);
    if (size < 2 || size > RANKS_MAX)
        fail("2 to 16 ranks");
    check(refrain_protect(world, 7, &state, sizeof state));
    check(refrain_restored(world, &checkpoint));

    total = rank == 0 ? each * (uint64_t)(size - 1) : each;
    while (state.done < total) {
        if (rank == 0)
            take_wave(world, &state, total);
        else
            give(world, &state);
        if (every > 0 && ++steps % every == 0)
            check(refrain_checkpoint(world, NULL));
    }

    if (rank != 0) {
        check(refrain_ssend(world, &state.sum, sizeof state.sum, 0, SUM));
    } else {
        uint64_t tickets = 0, sum;
        for (int worker = 1; worker < size; worker++) {
            check(refrain_recv(world, &sum, sizeof sum, worker, SUM, NULL));
            tickets += sum;
            if (state.next[worker] != each)
                fail("a worker gave another number of numbers");
        }
        if (tickets != total * (total - 1) / 2)
            fail("a ticket is missing, or was given twice");
        printf("any_source: %d ranks, %" PRIu64 " numbers, sum %" PRIu64 "\n", size, total,
               state.sum);
    }
    check(refrain_finalize(world));
    return 0;
}
