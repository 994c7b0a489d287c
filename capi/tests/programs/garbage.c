/* Rank 0 sends messages to rank 1 of which some bytes differ in each life, and rank 1
 * answers each with a hash of all bytes that it has received so far. If rank 1 gets
 * other bytes in a later life, its answers differ.
 *
 * garbage KIND [ROUNDS [DEATHS-OF-0 [DEATHS-OF-1]]]
 *
 * DEATHS like 20,10,30: the first life kills itself before round 20, the second before
 * round 10, the third before round 30.
 *
 * What differs, by KIND:
 *   none     nothing
 *   padding  8 of the 24 bytes of a struct that nobody has set
 *   structs  the same in an array of 100
 *   word     a dummy word of 4 bytes that is sent as a signal, beside equal messages
 *   timing   one duration of 8 bytes, beside equal messages
 *   timings  13 durations, once in 10 rounds, beside equal messages
 *   doubles  an array of 64 random numbers, seeded by the clock
 *   keys     an array of 256 random integers below 2^19, seeded by the clock
 *   small    an array of 256 random integers below 100, seeded by the clock
 *   tasks    one random integer, seeded by the clock
 *   length   the length of a message, seeded by the clock */
#define _XOPEN_SOURCE 700
#include "refrain.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { DATA = 1, HASH = 2, BYTES_MAX = 4096, RANDOM_STATE = 3 };

struct atom {
    int32_t species;
    /* 4 bytes of padding. */
    double position;
    int32_t cell;
    /* 4 bytes of padding. */
};

struct message {
    unsigned char data[BYTES_MAX];
    size_t bytes;
};

static unsigned short random_state[RANDOM_STATE];

static void die_if_due(const char *deaths, int64_t life, int round)
{
    for (; deaths != NULL && life > 0; life--) {
        deaths = strchr(deaths, ',');
        deaths = deaths == NULL ? NULL : deaths + 1;
    }
    if (deaths != NULL && atoi(deaths) == round && round > 0)
        raise(SIGKILL);
}

static void check(int code)
{
    if (code == REFRAIN_OK)
        return;
    fprintf(stderr, "garbage: %s\n", refrain_last_error());
    exit(1);
}

static int is(const char *kind, const char *other)
{
    return strcmp(kind, other) == 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void seed_by_the_clock(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    random_state[0] = (unsigned short)now.tv_usec;
    random_state[1] = (unsigned short)(now.tv_usec >> 16 ^ now.tv_sec);
}

/* Garbage, as in memory that was used for something else before. */
static void litter(void *memory, size_t bytes, int64_t life)
{
    memset(memory, (int)(0x5a + life), bytes);
}

static void set_atoms(struct message *message, int count, int round, int64_t life)
{
    struct atom atoms[100];
    litter(atoms, sizeof atoms, life);
    for (int i = 0; i < count; i++) {
        atoms[i].species = i;
        atoms[i].position = round * 0.5 + i;
        atoms[i].cell = round;
    }
    message->bytes = (size_t)count * sizeof atoms[0];
    memcpy(message->data, atoms, message->bytes);
}

static void set_doubles(struct message *message, int count)
{
    message->bytes = (size_t)count * sizeof(double);
    for (int i = 0; i < count; i++) {
        double number = erand48(random_state);
        memcpy(message->data + (size_t)i * sizeof number, &number, sizeof number);
    }
}

static void set_integers(struct message *message, int count, int32_t below)
{
    message->bytes = (size_t)count * sizeof(int32_t);
    for (int i = 0; i < count; i++) {
        int32_t number = (int32_t)(nrand48(random_state) % below);
        memcpy(message->data + (size_t)i * sizeof number, &number, sizeof number);
    }
}

static void set_timings(struct message *message, int count, double began)
{
    message->bytes = (size_t)count * sizeof(double);
    for (int i = 0; i < count; i++) {
        double duration = (seconds() - began) / (i + 1);
        memcpy(message->data + (size_t)i * sizeof duration, &duration, sizeof duration);
    }
}

/* 1 KiB that is the same in each life. */
static void set_equal(struct message *message, int round)
{
    message->bytes = 1024;
    for (size_t i = 0; i < message->bytes; i++)
        message->data[i] = (unsigned char)(i * 7 + (size_t)round);
}

static void set(struct message *message, const char *kind, int round, int64_t life, double began)
{
    if (is(kind, "padding"))
        set_atoms(message, 1, round, life);
    else if (is(kind, "structs"))
        set_atoms(message, 100, round, life);
    else if (is(kind, "doubles"))
        set_doubles(message, 64);
    else if (is(kind, "keys"))
        set_integers(message, 256, 1 << 19);
    else if (is(kind, "small"))
        set_integers(message, 256, 100);
    else if (is(kind, "tasks"))
        set_integers(message, 1, 1 << 30);
    else if (is(kind, "length"))
        message->bytes = 1 + (size_t)nrand48(random_state) % 1000;
    else if (is(kind, "word") && round % 2 == 0) {
        message->bytes = 4;
        litter(message->data, 4, life);
    } else if (is(kind, "timing") && round % 2 == 0)
        set_timings(message, 1, began);
    else if (is(kind, "timings") && round % 10 == 9)
        set_timings(message, 13, began);
    else
        set_equal(message, round);
}

static void send_all(refrain_world *world, const char *kind, int rounds, const char *deaths)
{
    struct message message = {{0}, 0};
    int64_t life = refrain_incarnation(world);
    double began = seconds();
    uint64_t hash;
    seed_by_the_clock();
    for (int round = 0; round < rounds; round++) {
        die_if_due(deaths, life, round);
        set(&message, kind, round, life, began);
        check(refrain_send(world, message.data, message.bytes, 1, DATA));
        check(refrain_recv(world, &hash, sizeof hash, 1, HASH, NULL));
    }
    printf("garbage: %d rounds\n", rounds);
}

static void answer_all(refrain_world *world, int rounds, const char *deaths)
{
    int64_t life = refrain_incarnation(world);
    struct message message;
    uint64_t hash = 14695981039346656037u;
    for (int round = 0; round < rounds; round++) {
        refrain_status status;
        die_if_due(deaths, life, round);
        check(refrain_recv(world, message.data, sizeof message.data, 0, DATA, &status));
        for (size_t i = 0; i < status.bytes; i++)
            hash = (hash ^ message.data[i]) * 1099511628211u;
        check(refrain_send(world, &hash, sizeof hash, 0, HASH));
    }
}

int main(int argc, char **argv)
{
    refrain_world *world;
    int rounds = argc > 2 ? atoi(argv[2]) : 40;
    if (argc < 2) {
        fprintf(stderr, "usage: garbage KIND [ROUNDS [DEATHS-OF-0 [DEATHS-OF-1]]]\n");
        return 2;
    }
    check(refrain_init(&world));
    if (refrain_rank(world) == 0)
        send_all(world, argv[1], rounds, argc > 3 ? argv[3] : NULL);
    else
        answer_all(world, rounds, argc > 4 ? argv[4] : NULL);
    check(refrain_finalize(world));
    return 0;
}
