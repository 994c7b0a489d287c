/* Sends memory that it has never written, as real programs do: padding, unused fields,
 * dummy words. The bytes have no meaning, but a later life has to send the same
 * (REC-8).
 *
 * Each round every rank sends to two others and receives two messages from any
 * source.
 *
 * unwritten stack|deep|heap|calls|dummy|errors [ROUNDS] */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 1 << 15, ROUND = 1, SELF = 2 };

/* Volatile pointers hide the allocator from the compiler. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give_back)(void *) = free;

struct padded {
    char kind;
    /* 7 bytes that are never written. */
    uint64_t round;
    char filler[1000];
};

static void fail(const char *what)
{
    fprintf(stderr, "unwritten: %s\n", what);
    exit(1);
}

static void check(int code)
{
    if (code != REFRAIN_OK)
        fail(refrain_last_error());
}

static int size, rank;
static uint64_t sum;

/* Receives two messages from any source; checks only the first bytes. */
__attribute__((noinline)) static void receive_two(refrain_world *world)
{
    static unsigned char room[MESSAGE_MAX];
    refrain_status status;
    for (int i = 0; i < 2; i++) {
        check(refrain_recv(world, room, sizeof room, REFRAIN_ANY_SOURCE, ROUND, &status));
        sum = sum * 31 + (uint64_t)status.source;
    }
}

static void send_two(refrain_world *world, const void *data, size_t bytes)
{
    check(refrain_send(world, data, bytes, (rank + 1) % size, ROUND));
    check(refrain_send(world, data, bytes, (rank + 2) % size, ROUND));
}

/* A struct on the stack of which two fields are written; its other bytes lay below the
 * frames of earlier calls. */
__attribute__((noinline)) static void from_stack(refrain_world *world, uint64_t round)
{
    struct padded padded;
    padded.kind = 'k';
    padded.round = round;
    send_two(world, &padded, sizeof padded);
}

/* Reaches as far down as code that ran before main: constructors and the loader. */
__attribute__((noinline)) static void from_deep_stack(refrain_world *world, uint64_t round)
{
    unsigned char deep[MESSAGE_MAX];
    deep[0] = (unsigned char)round;
    send_two(world, deep, sizeof deep);
}

/* Blocks that were freed and allocated again, and new ones. */
__attribute__((noinline)) static void from_heap(refrain_world *world, uint64_t round)
{
    static const size_t sizes[] = {24, 56, 104, 200, 488, 1000, 2040, 4000};
    static void *kept[8];
    size_t bytes = sizes[round % 8];
    struct padded *block = take(bytes);
    block->kind = 'k';
    if (bytes >= 2 * sizeof round)
        block->round = round;
    send_two(world, block, bytes);
    give_back(kept[round % 8]);
    kept[round % 8] = block;
    if (round % 3 == 0) {
        give_back(kept[round % 8]);
        kept[round % 8] = NULL;
    }
}

/* An int from new memory is sent as a signal. */
__attribute__((noinline)) static void from_dummy(refrain_world *world, uint64_t round)
{
    int *dummy = take(sizeof *dummy + round % 64);
    send_two(world, dummy, sizeof *dummy);
    give_back(dummy);
}

/* Calls of many kinds; each may leave bytes below the caller's frame. */
__attribute__((noinline)) static void many_calls(refrain_world *world, uint64_t round)
{
    uint64_t out = round, in = 0;
    size_t index, ended, indices[2];
    int found = 0, done = 0, requested;
    refrain_status status;
    refrain_message message;
    refrain_request requests[2];

    check(refrain_irecv(world, &in, sizeof in, rank, SELF, &requests[0]));
    check(refrain_isend(world, &out, sizeof out, rank, SELF, &requests[1]));
    switch (round % 6) {
    case 0:
        check(refrain_wait(world, &requests[0], &status));
        while (!done)
            check(refrain_test(world, &requests[1], &done, NULL));
        break;
    case 1:
        check(refrain_wait_all(world, 2, requests, NULL));
        break;
    case 2:
        check(refrain_wait_any(world, 2, requests, &index, &status));
        check(refrain_wait_some(world, 2, requests, &ended, indices, NULL));
        break;
    case 3:
        while (!done)
            check(refrain_test_all(world, 2, requests, &done, NULL));
        break;
    case 4:
        check(refrain_test_any(world, 2, requests, &index, NULL));
        check(refrain_test_some(world, 2, requests, &ended, indices, NULL));
        check(refrain_wait_all(world, 2, requests, NULL));
        break;
    default:
        check(refrain_wait_all(world, 2, requests, NULL));
        check(refrain_send(world, &out, sizeof out, rank, SELF));
        while (!found)
            check(refrain_iprobe(world, rank, SELF, &found, &status));
        check(refrain_mprobe(world, rank, SELF, &message, &status));
        check(refrain_mrecv(world, &in, sizeof in, &message, NULL));
        check(refrain_irecv(world, &in, sizeof in, rank, SELF, &requests[0]));
        check(refrain_cancel(world, &requests[0]));
        check(refrain_wait(world, &requests[0], NULL));
        break;
    }
    check(refrain_progress(world));
    check(refrain_checkpoint_requested(world, &requested));
    if (round % 40 == 7)
        check(refrain_barrier(world));
}

/* Calls that fail: their texts and codes leave no bytes, either. */
__attribute__((noinline)) static void errors(refrain_world *world, uint64_t round)
{
    uint64_t out = round;
    unsigned char in;
    refrain_request none = {77, 1};
    if (refrain_send(world, &out, sizeof out, size, 0) != REFRAIN_ERR_RANK)
        fail("a rank that does not exist was sent to");
    if (refrain_recv(NULL, &in, 1, 0, 0, NULL) != REFRAIN_ERR_WORLD)
        fail("NULL is a world");
    if (refrain_wait(world, &none, NULL) != REFRAIN_ERR_REQUEST)
        fail("an invented request was waited for");
    check(refrain_send(world, &out, sizeof out, rank, SELF));
    if (refrain_recv(world, &in, 1, rank, SELF, NULL) != REFRAIN_ERR_TRUNCATED)
        fail("8 bytes went into 1");
}

int main(int argc, char **argv)
{
    const char *sin = argc > 1 ? argv[1] : "stack";
    uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    refrain_world *world;

    check(refrain_init(&world));
    size = refrain_size(world);
    rank = refrain_rank(world);
    for (uint64_t round = 0; round < rounds; round++) {
        if (strcmp(sin, "calls") == 0)
            many_calls(world, round);
        if (strcmp(sin, "errors") == 0)
            errors(world, round);
        if (strcmp(sin, "heap") == 0)
            from_heap(world, round);
        else if (strcmp(sin, "dummy") == 0)
            from_dummy(world, round);
        else if (strcmp(sin, "deep") == 0)
            from_deep_stack(world, round);
        else
            from_stack(world, round);
        receive_two(world);
    }
    if (rank == 0)
        printf("unwritten: %s, %" PRIu64 " rounds\n", sin, rounds);
    check(refrain_finalize(world));
    return 0;
}
