/* Errors that a later life may make before it continues from its checkpoint. Rank 1 is
 * killed some barriers after it; the checkpoint determines the length of its memory. */
#include "refrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARRIERS = 60, CHECKPOINT_AT = 10, STEP = 1, TEXT = 2 };

static int failures;

static void expect(int line, int code, int wanted, const char *words)
{
    if (code == wanted && (wanted == REFRAIN_OK || strstr(refrain_last_error(), words)))
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, refrain_error_name(code), refrain_last_error());
    failures++;
}

#define FAILS(call, wanted, words) expect(__LINE__, call, wanted, words)
#define WORKS(call) expect(__LINE__, call, REFRAIN_OK, "")
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* Makes all errors, and then the correct call. */
static void go_on(refrain_world *world, int *step, char **text, uint64_t bytes)
{
    uint64_t number = 0, other = 9;
    int found = 9;
    refrain_request request;
    char room[8];
    *text = malloc(bytes);
    memset(*text, '?', bytes);

    WORKS(refrain_restored_bytes(world, STEP, &found, &other));
    HOLDS(found == 1 && other == sizeof *step);
    WORKS(refrain_restored_bytes(world, 3, &found, &other));
    HOLDS(found == 0 && other == 0);
    FAILS(refrain_barrier(world), REFRAIN_ERR_CHECKPOINT, "call refrain_restored before");
    FAILS(refrain_irecv(world, room, 8, 0, 0, &request), REFRAIN_ERR_CHECKPOINT, "before any");
    FAILS(refrain_checkpoint(world, NULL), REFRAIN_ERR_CHECKPOINT, "before any");
    FAILS(refrain_restored(world, &number), REFRAIN_ERR_CHECKPOINT, "no memory is protected");
    WORKS(refrain_protect(world, STEP, step, sizeof *step));
    WORKS(refrain_protect(world, TEXT, *text, bytes - 1));
    FAILS(refrain_restored(world, &number), REFRAIN_ERR_CHECKPOINT, "the memory has");
    HOLDS(*step == 0 && (*text)[0] == '?');
    WORKS(refrain_protect(world, TEXT, *text, bytes));
    WORKS(refrain_protect(world, 3, &found, sizeof found));
    FAILS(refrain_restored(world, &number), REFRAIN_ERR_CHECKPOINT, "it has no section 3");
    WORKS(refrain_unprotect(world, 3));
    HOLDS(number == 0 && *step == 0);
    WORKS(refrain_restored(world, &number));
    HOLDS(number == 1 && *step == CHECKPOINT_AT && strcmp(*text, "a text of rank 1") == 0);
    WORKS(refrain_restored(world, &number));
    HOLDS(number == 0);
}

int main(void)
{
    refrain_world *world;
    int step = 0, found;
    char *text = NULL;
    uint64_t bytes, number;
    WORKS(refrain_init(&world));
    int rank = refrain_rank(world);
    WORKS(refrain_restored_bytes(world, TEXT, &found, &bytes));
    if (found) {
        go_on(world, &step, &text, bytes);
    } else {
        HOLDS(bytes == 0);
        WORKS(refrain_restored(world, &number));
        HOLDS(number == 0);
        text = malloc(32);
        bytes = (uint64_t)snprintf(text, 32, "a text of rank %d", rank) + 1;
        WORKS(refrain_protect(world, STEP, &step, sizeof step));
        WORKS(refrain_protect(world, TEXT, text, bytes));
        /* The memory is read when the checkpoint is taken. */
        WORKS(refrain_protect(world, 3, &found, sizeof found));
        WORKS(refrain_unprotect(world, 3));
    }
    while (step < BARRIERS) {
        if (step == CHECKPOINT_AT && !found) {
            number = 9;
            WORKS(refrain_checkpoint(world, &number));
            HOLDS(number <= 1);
        }
        WORKS(refrain_barrier(world));
        step++;
        /* Otherwise the other ranks would wait for this one. */
        if (failures)
            return 1;
    }
    WORKS(refrain_finalize(world));
    printf("restored: rank %d: %s, %d barriers\n", rank, text, step);
    free(text);
    return failures != 0;
}
