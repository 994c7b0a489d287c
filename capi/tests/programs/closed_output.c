/* Closes descriptors 0 to 2 before it joins, and prints nevertheless: the output must
 * not reach files that the library has opened. Rank 0 receives messages and checks
 * their bytes.
 *
 * closed_output FILE: rank 0 writes there what went wrong, or "fine". */
#define _DEFAULT_SOURCE
#include "refrain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 200, BYTES = 1000 };

static const char *file;

static void say(const char *text)
{
    int to = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (to < 0 || write(to, text, strlen(text)) < 0)
        _exit(3);
    close(to);
}

static void check(int code)
{
    if (code != REFRAIN_OK) {
        say(refrain_last_error());
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    static char line[1 << 16];
    unsigned char message[BYTES];
    refrain_world *world;

    if (argc != 2)
        return 2;
    file = argv[1];
    for (int descriptor = 0; descriptor < 3; descriptor++)
        close(descriptor);
    check(refrain_init(&world));
    memset(line, 'x', sizeof line);
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) != -1) {
            say("a descriptor of the library is below 3\n");
            _exit(1);
        }
    int rank = refrain_rank(world), peer = 1 - rank;
    for (int round = 0; round < ROUNDS; round++) {
        for (int descriptor = 0; descriptor < 3; descriptor++)
            if (write(descriptor, line, sizeof line) >= 0) {
                say("a descriptor of the library took the output\n");
                _exit(1);
            }
        memset(message, round, sizeof message);
        check(refrain_sendrecv(world, message, sizeof message, peer, 0, line, sizeof message, peer,
                               0, NULL));
        if (memcmp(message, line, sizeof message) != 0)
            say("a message has other bytes\n");
    }
    check(refrain_finalize(world));
    if (rank == 0)
        say("fine\n");
    return 0;
}
