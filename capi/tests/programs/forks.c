/* Forks a child that calls the library, which is refused, and exits; the parent
 * continues. */
#define _DEFAULT_SOURCE
#include "refrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int code)
{
    if (code != REFRAIN_OK) {
        fprintf(stderr, "forks: %s\n", refrain_last_error());
        exit(1);
    }
}

static void refused(int code)
{
    if (code != REFRAIN_ERR_WORLD || strstr(refrain_last_error(), "fork") == NULL) {
        fprintf(stderr, "forks: a child was told %s: %s\n", refrain_error_name(code),
                refrain_last_error());
        exit(1);
    }
}

static void child(refrain_world *world, int next)
{
    char byte = 7;
    uint64_t number;
    refrain_world *other;
    refused(refrain_send(world, &byte, 1, next, 0));
    refused(refrain_recv(world, &byte, 1, next, 0, NULL));
    refused(refrain_barrier(world));
    refused(refrain_checkpoint(world, &number));
    refused(refrain_finalize(world));
    refused(refrain_init(&other));
    if (refrain_rank(world) != -1)
        exit(1);
    exit(0);
}

int main(void)
{
    refrain_world *world;
    int status;
    char byte = 1;

    check(refrain_init(&world));
    int size = refrain_size(world), rank = refrain_rank(world), next = (rank + 1) % size;
    for (int round = 0; round < 5; round++) {
        pid_t pid = fork();
        if (pid == 0)
            child(world, next);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            fprintf(stderr, "forks: the child ended with %d\n", status);
            return 1;
        }
        for (int i = 0; i < 20; i++)
            check(refrain_sendrecv(world, &byte, 1, next, 0, &byte, 1, REFRAIN_ANY_SOURCE, 0,
                                   NULL));
    }
    check(refrain_checkpoint(world, NULL));
    if (rank == 0)
        puts("forks: fine");
    check(refrain_finalize(world));
    return 0;
}
