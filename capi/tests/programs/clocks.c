/* Sends clocks and random bytes of the machine. All ranks but 0 send their values; rank
 * 0 receives them from any source and sends its own value back.
 *
 * clocks QUESTION [ROUNDS]
 *
 * QUESTION: seed (asked before refrain_init, and nothing later), time, usage, random,
 * interrupted, process, fork. */
#define _GNU_SOURCE
#include "refrain.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWERS = 64, QUESTION = 1, ANSWER = 2 };

struct answers {
    size_t count;
    uint64_t of[ANSWERS];
};

static int rank = -1;
static uint64_t seed[2];

static void fail(const char *what)
{
    fprintf(stderr, "clocks: rank %d: %s\n", rank, what);
    exit(1);
}

static void check(int code)
{
    if (code != REFRAIN_OK)
        fail(refrain_last_error());
}

static void add(struct answers *answers, uint64_t answer)
{
    if (answers->count == ANSWERS)
        fail("too many answers");
    answers->of[answers->count++] = answer;
}

static void ask_time(struct answers *answers)
{
    static const clockid_t clocks[] = {CLOCK_REALTIME,         CLOCK_MONOTONIC,
                                       CLOCK_MONOTONIC_RAW,    CLOCK_BOOTTIME,
                                       CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                                       CLOCK_REALTIME_COARSE,  CLOCK_TAI};
    enum { CLOCKS = sizeof clocks / sizeof *clocks };
    static struct timespec last[CLOCKS];
    struct timespec now;
    struct timeval day;
    for (size_t i = 0; i < CLOCKS; i++) {
        if (clock_gettime(clocks[i], &now) != 0)
            fail("a clock cannot be read");
        if (now.tv_sec < last[i].tv_sec ||
            (now.tv_sec == last[i].tv_sec && now.tv_nsec < last[i].tv_nsec))
            fail("a clock runs backwards");
        last[i] = now;
        add(answers, (uint64_t)now.tv_nsec);
    }
    gettimeofday(&day, NULL);
    add(answers, (uint64_t)day.tv_usec);
    add(answers, (uint64_t)time(NULL));
    add(answers, (uint64_t)clock());
    timespec_get(&now, TIME_UTC);
    add(answers, (uint64_t)now.tv_nsec);
}

static void ask_usage(struct answers *answers)
{
    struct rusage usage;
    struct tms times_of;
    getrusage(RUSAGE_SELF, &usage);
    add(answers, (uint64_t)usage.ru_utime.tv_usec);
    add(answers, (uint64_t)usage.ru_stime.tv_usec);
    add(answers, (uint64_t)usage.ru_minflt);
    add(answers, (uint64_t)usage.ru_nvcsw);
    getrusage(RUSAGE_THREAD, &usage);
    add(answers, (uint64_t)usage.ru_utime.tv_usec);
    add(answers, (uint64_t)times(&times_of));
    add(answers, (uint64_t)times_of.tms_utime);
}

static void ask_random(struct answers *answers)
{
    uint64_t bytes[2];
    char many[600];
    uint64_t sum = 0;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        fail("no random bytes");
    add(answers, bytes[0]);
    add(answers, bytes[1]);
    if (getentropy(bytes, sizeof bytes) != 0)
        fail("no entropy");
    add(answers, bytes[0]);
    if (getrandom(many, sizeof many, 0) != sizeof many)
        fail("not many random bytes");
    for (size_t i = 0; i < sizeof many; i++)
        sum = sum * 31 + (unsigned char)many[i];
    add(answers, sum);
}

static void on_alarm(int number)
{
    (void)number;
}

/* A signal ends the system call after its first 256 bytes. */
static void ask_interrupted(struct answers *answers)
{
    static char many[32768];
    uint64_t sum = 0;
    struct itimerval every = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &every, NULL);
    ssize_t given = getrandom(many, sizeof many, 0);
    setitimer(ITIMER_REAL, &never, NULL);
    add(answers, (uint64_t)given);
    for (ssize_t i = 0; i < given; i++)
        sum = sum * 31 + (unsigned char)many[i];
    add(answers, sum);
}

static void ask_process(struct answers *answers)
{
    cpu_set_t cores;
    pid_t told = getpid();
    add(answers, (uint64_t)told);
    if (gettid() != told)
        fail("the main thread has another id");
    if (kill(told, 0) != 0 || getpgid(told) != getpgrp())
        fail("the process that getpid names is not there");
    if (sched_getaffinity(told, sizeof cores, &cores) != 0)
        fail("the process that getpid names has no cores");
    add(answers, (uint64_t)rand());
}

/* A child is another process than its parent, and must see that. */
static void ask_child(struct answers *answers)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct timespec now;
        int same = getpid() == (pid_t)syscall(SYS_getpid);
        clock_gettime(CLOCK_REALTIME, &now);
        _exit(same && now.tv_sec > 0 ? 7 : 8);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        fail("a child does not know who it is");
    ask_time(answers);
}

static void ask(const char *question, struct answers *answers)
{
    answers->count = 0;
    memset(answers->of, 0, sizeof answers->of);
    if (strcmp(question, "seed") == 0) {
        add(answers, (uint64_t)rand());
        add(answers, seed[0]++);
        add(answers, seed[1]++);
    } else if (strcmp(question, "time") == 0)
        ask_time(answers);
    else if (strcmp(question, "usage") == 0)
        ask_usage(answers);
    else if (strcmp(question, "random") == 0)
        ask_random(answers);
    else if (strcmp(question, "interrupted") == 0)
        ask_interrupted(answers);
    else if (strcmp(question, "process") == 0)
        ask_process(answers);
    else if (strcmp(question, "fork") == 0)
        ask_child(answers);
    else
        fail("there is no such question");
}

/* As in programs that close all inherited descriptors. */
static void close_all_but(const char *variable)
{
    const char *kept = getenv(variable);
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        if (!kept || descriptor != atoi(kept))
            close(descriptor);
}

int main(int argc, char **argv)
{
    const char *question = argc > 1 ? argv[1] : "time";
    int rounds = argc > 2 ? atoi(argv[2]) : 40;
    struct answers own, other;
    refrain_world *world;

    if (strcmp(question, "seed") == 0) {
        close_all_but("REFRAIN_CONTROL_FD");
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        srand((unsigned)time(NULL) ^ (unsigned)now.tv_nsec);
        seed[0] = (uint64_t)getpid();
        if (getrandom(&seed[1], sizeof seed[1], 0) != sizeof seed[1])
            fail("no seed");
    } else if (strcmp(question, "process") == 0)
        srand((unsigned)getpid());
    check(refrain_init(&world));
    rank = refrain_rank(world);
    int size = refrain_size(world);
    for (int round = 0; round < rounds; round++) {
        if (rank != 0) {
            ask(question, &own);
            check(refrain_send(world, own.of, sizeof own.of, 0, QUESTION));
            check(refrain_recv(world, other.of, sizeof other.of, 0, ANSWER, NULL));
            continue;
        }
        for (int i = 1; i < size; i++) {
            refrain_status status;
            check(refrain_recv(world, other.of, sizeof other.of, REFRAIN_ANY_SOURCE, QUESTION,
                               &status));
            ask(question, &own);
            check(refrain_send(world, own.of, sizeof own.of, status.source, ANSWER));
        }
    }
    check(refrain_finalize(world));
    printf("clocks: rank %d of %d: %d rounds\n", rank, size, rounds);
    return 0;
}
