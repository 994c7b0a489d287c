/* Sends addresses and descriptor numbers, as programs do that return them to
 * themselves: of the stack, of small and large heap blocks, of mapped memory. A later
 * life has to send the same (REC-8).
 *
 * pointers [ROUNDS] */
#define _DEFAULT_SOURCE
#include "refrain.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUND = 1 };

struct addresses {
    const void *stack, *small, *large, *mapped;
    int64_t descriptor;
};

static void check(int code)
{
    if (code != REFRAIN_OK) {
        fprintf(stderr, "pointers: %s\n", refrain_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    void *large = NULL;
    refrain_world *world;

    check(refrain_init(&world));
    int size = refrain_size(world), rank = refrain_rank(world);
    for (uint64_t round = 0; round < rounds; round++) {
        struct addresses mine, other;
        void *small = malloc(48 + round % 100);
        free(large);
        large = malloc((size_t)(1 + round % 5) << 20);
        void *mapped = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int file = open("/dev/null", O_RDONLY);
        memset(&mine, 0, sizeof mine);
        mine.stack = &mine;
        mine.small = small;
        mine.large = large;
        mine.mapped = mapped;
        mine.descriptor = file;
        check(refrain_send(world, &mine, sizeof mine, (rank + 1) % size, ROUND));
        check(refrain_send(world, &mine, sizeof mine, (rank + 2) % size, ROUND));
        for (int i = 0; i < 2; i++)
            check(refrain_recv(world, &other, sizeof other, REFRAIN_ANY_SOURCE, ROUND, NULL));
        /* Every eighth round keeps its resources. */
        if (round % 8 != 0) {
            close(file);
            munmap(mapped, 1 << 16);
            free(small);
        }
    }
    if (rank == 0)
        printf("pointers: %" PRIu64 " rounds\n", rounds);
    check(refrain_finalize(world));
    return 0;
}
