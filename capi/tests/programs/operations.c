/* Every operation between two ranks, and its results. */
#include "refrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 5 };

static void check_at(int line, int code)
{
    if (code == REFRAIN_OK)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, refrain_error_name(code), refrain_last_error());
    exit(1);
}

#define CHECK(call) check_at(__LINE__, call)
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int is(const refrain_status *status, int source, int tag, uint64_t bytes)
{
    return status->source == source && status->tag == tag && status->bytes == bytes &&
           status->cancelled == 0;
}

static void blocking(refrain_world *world, int rank, int peer)
{
    int out = 40 + rank, in = 0;
    refrain_status status;
    if (rank == 0) {
        CHECK(refrain_send(world, &out, sizeof out, peer, -7));
        CHECK(refrain_ssend(world, NULL, 0, peer, 8));
    } else {
        CHECK(refrain_recv(world, &in, sizeof in, peer, -7, &status));
        HOLDS(in == 40 && is(&status, 0, -7, sizeof in));
        CHECK(refrain_recv(world, NULL, 0, REFRAIN_ANY_SOURCE, REFRAIN_ANY_TAG, &status));
        HOLDS(is(&status, 0, 8, 0));
    }
    CHECK(refrain_sendrecv(world, &out, sizeof out, peer, 1 + rank, &in, sizeof in, peer, 1 + peer,
                           &status));
    HOLDS(in == 40 + peer && is(&status, peer, 1 + peer, sizeof in));
}

static void probes(refrain_world *world, int rank, int peer)
{
    refrain_message message = REFRAIN_MESSAGE_NULL;
    refrain_request request;
    refrain_status status;
    char text[16];
    int found = 7;
    CHECK(refrain_iprobe(world, peer, 99, &found, &status));
    HOLDS(found == 0);
    found = 7;
    CHECK(refrain_improbe(world, peer, 99, &found, &message, &status));
    HOLDS(found == 0 && message.serial == 0);
    CHECK(refrain_send(world, "first", 6, peer, 20));
    CHECK(refrain_send(world, "second", 7, peer, 21));
    CHECK(refrain_send(world, "third", 6, peer, 22));

    CHECK(refrain_probe(world, REFRAIN_ANY_SOURCE, 21, &status));
    HOLDS(is(&status, peer, 21, 7));
    CHECK(refrain_iprobe(world, peer, REFRAIN_ANY_TAG, &found, &status));
    HOLDS(found == 1 && is(&status, peer, 20, 6));
    CHECK(refrain_mprobe(world, peer, 20, &message, &status));
    HOLDS(is(&status, peer, 20, 6));
    CHECK(refrain_iprobe(world, peer, 20, &found, NULL));
    HOLDS(found == 0);
    CHECK(refrain_mrecv(world, text, sizeof text, &message, &status));
    HOLDS(strcmp(text, "first") == 0 && is(&status, peer, 20, 6));
    CHECK(refrain_improbe(world, peer, 21, &found, &message, &status));
    HOLDS(found == 1 && is(&status, peer, 21, 7));
    CHECK(refrain_imrecv(world, text, sizeof text, &message, &request));
    HOLDS(message.serial == 0);
    CHECK(refrain_wait(world, &request, &status));
    HOLDS(strcmp(text, "second") == 0 && is(&status, peer, 21, 7));
    CHECK(refrain_recv(world, text, sizeof text, peer, 22, NULL));
    HOLDS(strcmp(text, "third") == 0 && rank != peer);
}

/* Tags of this round begin at `tag`. */
static void begin(refrain_world *world, int peer, int tag, int in[], int out[],
                  refrain_request receives[], refrain_request sends[])
{
    for (int i = 0; i < MANY; i++) {
        out[i] = tag + i;
        in[i] = 0;
        CHECK(refrain_irecv(world, &in[i], sizeof in[i], peer, tag + i, &receives[i]));
    }
    CHECK(refrain_barrier(world));
    for (int i = MANY - 1; i >= 0; i--)
        CHECK(refrain_isend(world, &out[i], sizeof out[i], peer, tag + i, &sends[i]));
}

static void requests(refrain_world *world, int peer)
{
    int in[MANY], out[MANY], done = 0;
    refrain_request receives[MANY], sends[MANY];
    refrain_status statuses[MANY], status;
    size_t indices[MANY], ended, index, seen;

    begin(world, peer, 100, in, out, receives, sends);
    CHECK(refrain_wait_all(world, MANY, receives, statuses));
    for (int i = 0; i < MANY; i++)
        HOLDS(in[i] == 100 + i && is(&statuses[i], peer, 100 + i, sizeof(int)) &&
              receives[i].serial == 0);
    CHECK(refrain_wait_all(world, MANY, sends, NULL));

    begin(world, peer, 200, in, out, receives, sends);
    for (seen = 0; seen < MANY; seen++) {
        CHECK(refrain_wait_any(world, MANY, receives, &index, &status));
        HOLDS(index < MANY && is(&status, peer, 200 + (int)index, sizeof(int)) &&
              in[index] == 200 + (int)index && receives[index].serial == 0);
    }
    CHECK(refrain_wait_any(world, MANY, receives, &index, &status));
    HOLDS(index == REFRAIN_NONE);
    CHECK(refrain_test_any(world, MANY, receives, &index, &status));
    HOLDS(index == REFRAIN_NONE);
    for (seen = 0; seen < MANY; seen += ended) {
        CHECK(refrain_wait_some(world, MANY, sends, &ended, indices, statuses));
        HOLDS(ended > 0);
    }

    begin(world, peer, 300, in, out, receives, sends);
    for (seen = 0; seen < MANY; seen += ended) {
        CHECK(refrain_wait_some(world, MANY, receives, &ended, indices, statuses));
        HOLDS(ended > 0 && seen + ended <= MANY);
        for (size_t i = 0; i < ended; i++)
            HOLDS(is(&statuses[i], peer, 300 + (int)indices[i], sizeof(int)) &&
                  in[indices[i]] == 300 + (int)indices[i] && receives[indices[i]].serial == 0);
    }
    CHECK(refrain_wait_some(world, MANY, receives, &ended, indices, NULL));
    HOLDS(ended == 0);
    while (!done)
        CHECK(refrain_test_all(world, MANY, sends, &done, statuses));
    HOLDS(is(&statuses[1], peer, 301, sizeof(int)));

    begin(world, peer, 400, in, out, receives, sends);
    for (seen = 0; seen < MANY;) {
        CHECK(refrain_test_any(world, MANY, receives, &index, &status));
        if (index == REFRAIN_NONE)
            continue;
        HOLDS(is(&status, peer, 400 + (int)index, sizeof(int)));
        seen++;
    }
    for (seen = 0; seen < MANY; seen += ended)
        CHECK(refrain_test_some(world, MANY, sends, &ended, indices, NULL));
    HOLDS(in[4] == 404);
}

static void one_request(refrain_world *world, int peer)
{
    int in = 0, out = 5, done = 0;
    refrain_request receive, send, never;
    refrain_status status;
    CHECK(refrain_irecv(world, &in, sizeof in, peer, 30, &receive));
    CHECK(refrain_irecv(world, &in, sizeof in, peer, 31, &never));
    CHECK(refrain_test(world, &receive, &done, NULL));
    HOLDS(!done && receive.serial != 0);
    CHECK(refrain_barrier(world));
    CHECK(refrain_issend(world, &out, sizeof out, peer, 30, &send));
    CHECK(refrain_wait(world, &send, &status));
    HOLDS(is(&status, peer, 30, sizeof out));
    while (!done)
        CHECK(refrain_test(world, &receive, &done, &status));
    HOLDS(in == 5 && is(&status, peer, 30, sizeof in) && receive.serial == 0);
    CHECK(refrain_cancel(world, &never));
    CHECK(refrain_wait(world, &never, &status));
    HOLDS(status.cancelled == 1);
}

static void times(refrain_world *world)
{
    double before = -1, now = -1;
    CHECK(refrain_wtime(world, &before));
    HOLDS(before > 0 && before < 3600);
    for (int i = 0; i < 1000; i++) {
        CHECK(refrain_wtime(world, &now));
        HOLDS(now >= before);
        before = now;
    }
}

int main(void)
{
    refrain_world *world;
    int requested = 7;
    uint64_t number = 7;
    CHECK(refrain_init(&world));
    int rank = refrain_rank(world), peer = 1 - rank;
    HOLDS(refrain_size(world) == 2 && rank >= 0 && rank < 2);
    HOLDS(refrain_incarnation(world) >= 0);
    CHECK(refrain_restored(world, &number));
    HOLDS(number == 0);

    blocking(world, rank, peer);
    probes(world, rank, peer);
    requests(world, peer);
    one_request(world, peer);
    times(world);
    CHECK(refrain_progress(world));
    CHECK(refrain_checkpoint_requested(world, &requested));
    HOLDS(requested == 0 || requested == 1);
    int recovers = refrain_recovers(world);
    CHECK(refrain_finalize(world));
    printf("operations: rank %d, recovers %d\n", rank, recovers);
    return 0;
}
