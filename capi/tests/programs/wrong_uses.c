/* All errors of a program that the library promises to detect: each returns a code and
 * a text, and the program continues. A job of one rank. */
#include "refrain.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int line, int code, int wanted, const char *words)
{
    if (code == wanted && (wanted == REFRAIN_OK || strstr(refrain_last_error(), words)))
        return;
    printf("line %d: %s: %s\n", line, refrain_error_name(code), refrain_last_error());
    failures++;
}

#define FAILS(call, wanted, words) expect(__LINE__, call, wanted, words)
#define WORKS(call) expect(__LINE__, call, REFRAIN_OK, "")
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static void *on_another_thread(void *world)
{
    FAILS(refrain_barrier((refrain_world *)world), REFRAIN_ERR_WORLD, "on this thread");
    HOLDS(refrain_rank((refrain_world *)world) == -1);
    return NULL;
}

static void arguments(refrain_world *world)
{
    char data[8] = "1234567", room[8];
    refrain_request request;
    refrain_status status;
    size_t ended;

    FAILS(refrain_send(NULL, data, 1, 0, 0), REFRAIN_ERR_WORLD, "the world is NULL");
    FAILS(refrain_send(world, data, 1, 1, 0), REFRAIN_ERR_RANK, "rank 1 does not exist");
    FAILS(refrain_send(world, data, 1, -1, 0), REFRAIN_ERR_RANK, "rank -1 does not exist");
    FAILS(refrain_recv(world, room, 1, -2, 0, NULL), REFRAIN_ERR_RANK, "rank -2 does not exist");
    FAILS(refrain_recv(world, room, 1, 9, 0, NULL), REFRAIN_ERR_RANK, "rank 9 does not exist");
    FAILS(refrain_send(world, NULL, 1, 0, 0), REFRAIN_ERR_ARGUMENT, "data is NULL");
    FAILS(refrain_recv(world, NULL, 1, 0, 0, NULL), REFRAIN_ERR_ARGUMENT, "buffer is NULL");
    FAILS(refrain_send(world, data, (size_t)PTRDIFF_MAX + 1, 0, 0), REFRAIN_ERR_ARGUMENT,
          "bytes long");
    FAILS(refrain_irecv(world, room, SIZE_MAX, 0, 0, &request), REFRAIN_ERR_ARGUMENT,
          "bytes long");
    FAILS(refrain_send(world, data, 1, 0, REFRAIN_ANY_TAG), REFRAIN_ERR_ARGUMENT, "any tag");
    FAILS(refrain_isend(world, data, 1, 0, 0, NULL), REFRAIN_ERR_ARGUMENT, "request is NULL");
    FAILS(refrain_iprobe(world, 0, 0, NULL, &status), REFRAIN_ERR_ARGUMENT, "found is NULL");
    FAILS(refrain_mprobe(world, 0, 0, NULL, &status), REFRAIN_ERR_ARGUMENT, "message is NULL");
    FAILS(refrain_wait(world, NULL, &status), REFRAIN_ERR_ARGUMENT, "request is NULL");
    FAILS(refrain_wait_all(world, 2, NULL, NULL), REFRAIN_ERR_ARGUMENT, "requests is NULL");
    request = REFRAIN_REQUEST_NULL;
    FAILS(refrain_wait_all(world, SIZE_MAX / 8, &request, NULL), REFRAIN_ERR_ARGUMENT,
          "requests are too many");
    FAILS(refrain_wait_some(world, 1, &request, &ended, NULL, NULL), REFRAIN_ERR_ARGUMENT,
          "indices is NULL");
    FAILS(refrain_wait(world, (refrain_request *)(void *)(data + 1), NULL), REFRAIN_ERR_ARGUMENT,
          "not aligned");
    FAILS(refrain_protect(world, 1, NULL, 8), REFRAIN_ERR_ARGUMENT, "memory is NULL");
    FAILS(refrain_unprotect(world, 1), REFRAIN_ERR_ARGUMENT, "under id 1");
    FAILS(refrain_restored(world, NULL), REFRAIN_ERR_ARGUMENT, "number is NULL");
    FAILS(refrain_checkpoint_requested(world, NULL), REFRAIN_ERR_ARGUMENT, "requested is NULL");
    WORKS(refrain_wait_all(world, 0, NULL, NULL));
}

static void no_place(refrain_world *world)
{
    double seconds = 9;
    FAILS(refrain_wtime(world, NULL), REFRAIN_ERR_ARGUMENT, "seconds is NULL");
    FAILS(refrain_wtime(NULL, &seconds), REFRAIN_ERR_WORLD, "the world is NULL");
    HOLDS(seconds == 9);
}

static void truncation(refrain_world *world)
{
    char data[8] = "1234567", room[8] = "abcdefg";
    refrain_request requests[2];
    refrain_message message;
    refrain_status status;
    size_t index;
    int done;

    WORKS(refrain_send(world, data, 8, 0, 5));
    FAILS(refrain_recv(world, room, 3, 0, 5, &status), REFRAIN_ERR_TRUNCATED,
          "a message of 8 bytes from rank 0 (tag 5) met a receive of 3 bytes");
    HOLDS(status.bytes == 8 && status.tag == 5 && status.source == 0 && !status.cancelled);
    HOLDS(memcmp(room, "123defg", 8) == 0);

    WORKS(refrain_send(world, data, 8, 0, 6));
    WORKS(refrain_irecv(world, room, 2, 0, 6, &requests[1]));
    requests[0] = REFRAIN_REQUEST_NULL;
    memset(&status, 0, sizeof status);
    FAILS(refrain_wait_any(world, 2, requests, &index, &status), REFRAIN_ERR_TRUNCATED, "8 bytes");
    HOLDS(index == 1 && requests[1].serial == 0 && status.bytes == 8 && status.tag == 6);

    WORKS(refrain_send(world, data, 8, 0, 7));
    WORKS(refrain_irecv(world, room, 2, 0, 7, &requests[0]));
    memset(&status, 0, sizeof status);
    FAILS(refrain_test(world, &requests[0], &done, &status), REFRAIN_ERR_TRUNCATED, "8 bytes");
    HOLDS(done && requests[0].serial == 0 && status.bytes == 8);

    WORKS(refrain_send(world, data, 8, 0, 8));
    WORKS(refrain_irecv(world, room, 2, 0, 8, &requests[0]));
    WORKS(refrain_isend(world, data, 8, 0, 9, &requests[1]));
    FAILS(refrain_wait_all(world, 2, requests, NULL), REFRAIN_ERR_TRUNCATED, "8 bytes");
    HOLDS(requests[0].serial == 0 && requests[1].serial == 0);

    WORKS(refrain_mprobe(world, 0, 9, &message, NULL));
    FAILS(refrain_mrecv(world, room, 1, &message, &status), REFRAIN_ERR_TRUNCATED, "8 bytes");
    HOLDS(message.serial == 0 && status.bytes == 8);
}

static void handles(refrain_world *world)
{
    char data[8] = "1234567", room[8];
    refrain_request request, copy, both[2];
    refrain_message message, taken;
    refrain_status status;
    int done;

    WORKS(refrain_isend(world, data, 8, 0, 1, &request));
    copy = request;
    WORKS(refrain_wait(world, &request, NULL));
    HOLDS(request.serial == 0);
    WORKS(refrain_wait(world, &request, NULL));
    FAILS(refrain_wait(world, &copy, NULL), REFRAIN_ERR_REQUEST, "request 0 of the call has ended");
    HOLDS(copy.serial != 0);
    FAILS(refrain_cancel(world, &copy), REFRAIN_ERR_REQUEST, "ended");
    FAILS(refrain_test(world, &copy, &done, NULL), REFRAIN_ERR_REQUEST, "ended");

    /* The slot is reused; the copy still names the old request. */
    WORKS(refrain_irecv(world, room, 8, 0, 1, &request));
    FAILS(refrain_wait(world, &copy, NULL), REFRAIN_ERR_REQUEST, "ended");
    both[0] = request;
    both[1] = request;
    FAILS(refrain_wait_all(world, 2, both, NULL), REFRAIN_ERR_REQUEST, "request 1 of the call");
    both[1].slot = UINT64_MAX;
    FAILS(refrain_test_all(world, 2, both, &done, NULL), REFRAIN_ERR_REQUEST, "request 1");
    /* None of these calls has changed the request itself. */
    WORKS(refrain_wait(world, &request, &status));
    HOLDS(status.bytes == 8 && memcmp(room, data, 8) == 0);

    WORKS(refrain_send(world, data, 8, 0, 2));
    WORKS(refrain_mprobe(world, REFRAIN_ANY_SOURCE, REFRAIN_ANY_TAG, &message, &status));
    HOLDS(status.tag == 2);
    taken = message;
    WORKS(refrain_mrecv(world, room, 8, &message, NULL));
    HOLDS(message.serial == 0);
    FAILS(refrain_mrecv(world, room, 8, &message, NULL), REFRAIN_ERR_REQUEST, "null");
    FAILS(refrain_mrecv(world, room, 8, &taken, NULL), REFRAIN_ERR_REQUEST, "received already");
    FAILS(refrain_imrecv(world, room, 8, &taken, &request), REFRAIN_ERR_REQUEST, "already");
}

static void what_is_open(refrain_world *world)
{
    char data[8] = "1234567", room[8];
    refrain_request receive, send;
    refrain_message message;
    refrain_status status;
    uint64_t number = 9;

    WORKS(refrain_irecv(world, room, 8, 0, 3, &receive));
    FAILS(refrain_checkpoint(world, &number), REFRAIN_ERR_OPEN, "1 requests were not waited for");
    HOLDS(number == 9);
    FAILS(refrain_finalize(world), REFRAIN_ERR_OPEN, "refrain_finalize");
    WORKS(refrain_cancel(world, &receive));
    FAILS(refrain_checkpoint(world, NULL), REFRAIN_ERR_OPEN, "1 requests");
    WORKS(refrain_wait(world, &receive, &status));
    HOLDS(status.cancelled == 1);

    /* Also a send that ended long ago. */
    WORKS(refrain_isend(world, data, 8, 0, 3, &send));
    FAILS(refrain_checkpoint(world, NULL), REFRAIN_ERR_OPEN, "1 requests");
    WORKS(refrain_wait(world, &send, NULL));
    WORKS(refrain_mprobe(world, 0, 3, &message, NULL));
    FAILS(refrain_checkpoint(world, NULL), REFRAIN_ERR_OPEN, "1 messages of matched probes");
    WORKS(refrain_mrecv(world, room, 8, &message, NULL));
    WORKS(refrain_checkpoint(world, &number));
    HOLDS(number == 0);
}

int main(void)
{
    refrain_world *world = NULL, *second;
    pthread_t thread;

    HOLDS(strcmp(refrain_last_error(), "") == 0);
    HOLDS(strcmp(refrain_error_name(77), "unknown") == 0);
    FAILS(refrain_init(NULL), REFRAIN_ERR_ARGUMENT, "world is NULL");
    FAILS(refrain_barrier((refrain_world *)&second), REFRAIN_ERR_WORLD, "no such world");
    WORKS(refrain_init(&world));
    second = world;
    FAILS(refrain_init(&second), REFRAIN_ERR_WORLD, "has a world already");
    HOLDS(second == NULL);
    if (pthread_create(&thread, NULL, on_another_thread, world) == 0)
        pthread_join(thread, NULL);

    arguments(world);
    no_place(world);
    truncation(world);
    handles(world);
    what_is_open(world);

    WORKS(refrain_finalize(world));
    FAILS(refrain_finalize(world), REFRAIN_ERR_WORLD, "no such world");
    FAILS(refrain_barrier(world), REFRAIN_ERR_WORLD, "no such world");
    HOLDS(refrain_size(world) == -1);
    HOLDS(refrain_incarnation(world) == -1);
    /* Without a launcher, another job of one rank may follow. */
    WORKS(refrain_init(&second));
    FAILS(refrain_barrier(world), REFRAIN_ERR_WORLD, "no such world");
    WORKS(refrain_finalize(second));
    printf("%d failures\n", failures);
    return failures != 0;
}
