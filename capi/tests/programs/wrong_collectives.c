/* Wrong calls of groups and collectives: each returns a code and a text, and the program
 * continues. A job of two ranks. */
#include "refrain.h"

#include <stdio.h>
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
#define IS_WRONG(collective, words)                                                                \
    FAILS(refrain_do(world, collective), REFRAIN_ERR_ARGUMENT, words)
#define WORKS(call) expect(__LINE__, call, REFRAIN_OK, "")
#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static double in[8], out[8];

static void groups(refrain_world *world, refrain_group all)
{
    refrain_group part = REFRAIN_GROUP_NULL, copy;
    FAILS(refrain_group_split(world, all, -2, 0, &part), REFRAIN_ERR_ARGUMENT, "color -2");
    FAILS(refrain_group_split(world, all, 0, 0, NULL), REFRAIN_ERR_ARGUMENT, "part is NULL");
    FAILS(refrain_group_duplicate(world, all, NULL), REFRAIN_ERR_ARGUMENT, "copy is NULL");
    FAILS(refrain_group_members(world, all, NULL), REFRAIN_ERR_ARGUMENT, "ranks is NULL");
    FAILS(refrain_group_release(world, NULL), REFRAIN_ERR_ARGUMENT, "group is NULL");
    FAILS(refrain_group_release(world, &all), REFRAIN_ERR_ARGUMENT, "stays");
    FAILS(refrain_group_release(world, &part), REFRAIN_ERR_ARGUMENT, "released");
    HOLDS(refrain_group_all(NULL).serial == 0);
    HOLDS(refrain_group_size(world, part) == -1 && refrain_group_place(world, part) == -1);
    HOLDS(refrain_group_size(world, all) == 2 && refrain_group_size(NULL, all) == -1);

    WORKS(refrain_group_duplicate(world, all, &part));
    copy = part;
    WORKS(refrain_group_release(world, &part));
    HOLDS(part.serial == 0);
    IS_WRONG(refrain_barrier_of(copy), "the group was released");
    IS_WRONG(refrain_barrier_of(part), "the group was released");
    FAILS(refrain_group_split(world, copy, 0, 0, &part), REFRAIN_ERR_ARGUMENT, "released");
    copy = all;
    copy.size = 3;
    IS_WRONG(refrain_barrier_of(copy), "fields of the group");
    copy.size = 2;
    copy.place = 1 - all.place;
    IS_WRONG(refrain_barrier_of(copy), "fields of the group");
}

static void buffers(refrain_world *world, refrain_group all)
{
    const int other = 1 - refrain_group_place(world, all);
    void *here = REFRAIN_IN_PLACE;
    FAILS(refrain_do(NULL, refrain_barrier_of(all)), REFRAIN_ERR_WORLD, "the world is NULL");
    IS_WRONG(refrain_allreduce(all, NULL, out, 3, REFRAIN_DOUBLE, REFRAIN_SUM),
             "the input has 0 elements, and needs 3");
    IS_WRONG(refrain_allreduce(all, in, NULL, 3, REFRAIN_DOUBLE, REFRAIN_SUM),
             "the output has 0 elements, and needs 3");
    IS_WRONG(refrain_bcast(all, 0, NULL, 3, REFRAIN_DOUBLE), "has 0 elements");
    WORKS(refrain_do(world, refrain_allreduce(all, NULL, NULL, 0, REFRAIN_DOUBLE, REFRAIN_SUM)));
    IS_WRONG(refrain_allreduce(all, in, in, 3, REFRAIN_DOUBLE, REFRAIN_SUM),
             "input and output are the same memory");
    IS_WRONG(refrain_bcast(all, 0, here, 3, REFRAIN_DOUBLE), "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_allgather(all, in, here, 3, REFRAIN_DOUBLE), "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_gather(all, other, here, out, 3, REFRAIN_DOUBLE),
             "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_reduce(all, other, here, out, 3, REFRAIN_DOUBLE, REFRAIN_SUM),
             "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_scatter(all, other, in, here, 3, REFRAIN_DOUBLE),
             "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_scatter(all, 0, here, out, 3, REFRAIN_DOUBLE),
             "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_allgather(all, in, out, UINT64_MAX, REFRAIN_DOUBLE), "than a memory can hold");
    IS_WRONG(refrain_bcast(all, 0, out, UINT64_MAX / 16, REFRAIN_DOUBLE), "than a memory can hold");
    IS_WRONG(refrain_bcast(all, -1, out, 3, REFRAIN_DOUBLE), "place -1 does not exist");
    IS_WRONG(refrain_reduce(all, 2, in, out, 3, REFRAIN_DOUBLE, REFRAIN_SUM),
             "place 2 is not in a group of 2");
}

static void lists(refrain_world *world, refrain_group all)
{
    const uint64_t huge[2] = {UINT64_MAX, UINT64_MAX}, one[2] = {1, 1}, far[2] = {0, UINT64_MAX};
    const int good[2] = {0, 1}, negative[2] = {0, -5}, outside[2] = {0, 2};
    refrain_neighbours edges = {good, good, 2, 2};
    refrain_collective unknown;
    IS_WRONG(refrain_allgatherv(all, in, out, NULL, NULL, REFRAIN_DOUBLE), "counts is NULL");
    IS_WRONG(refrain_alltoallv(all, in, NULL, NULL, out, one, NULL, REFRAIN_DOUBLE),
             "counts is NULL");
    IS_WRONG(refrain_allgatherv(all, in, out, huge, NULL, REFRAIN_DOUBLE), "can hold");
    IS_WRONG(refrain_allgatherv(all, in, out, one, far, REFRAIN_DOUBLE), "can hold");
    IS_WRONG(refrain_allgatherv(all, in, out, (const uint64_t *)(const void *)((char *)out + 1),
                                NULL, REFRAIN_DOUBLE),
             "counts is not aligned");
    IS_WRONG(refrain_reduce_scatter(all, in, out, huge, REFRAIN_DOUBLE, REFRAIN_SUM), "can hold");
    edges.sources = negative;
    IS_WRONG(refrain_neighbour_allgather(all, edges, in, out, 1, REFRAIN_DOUBLE),
             "place -5 does not exist");
    edges.sources = outside;
    IS_WRONG(refrain_neighbour_allgather(all, edges, in, out, 1, REFRAIN_DOUBLE),
             "place 2 is not in a group of 2");
    edges.sources = NULL;
    IS_WRONG(refrain_neighbour_alltoall(all, edges, in, out, 1, REFRAIN_DOUBLE),
             "sources is NULL");
    edges.sources = good;
    IS_WRONG(refrain_neighbour_alltoall(all, edges, in, REFRAIN_IN_PLACE, 1, REFRAIN_DOUBLE),
             "REFRAIN_IN_PLACE is not for");
    edges.destinations = NULL;
    IS_WRONG(refrain_neighbour_alltoallv(all, edges, in, one, NULL, out, one, NULL, REFRAIN_DOUBLE),
             "destinations is NULL");
    unknown = refrain_barrier_of(all);
    unknown.operation = 0;
    IS_WRONG(unknown, "collective 0 does not exist");
    unknown.operation = 23;
    IS_WRONG(unknown, "collective 23 does not exist");
}

static void layouts(refrain_world *world, refrain_group all)
{
    const refrain_span pair[2] = {{0, 8}, {16, 8}}, twice[2] = {{0, 8}, {4, 8}};
    const refrain_layout gaps = {pair, 2, 0, 1, 32}, overlapping = {twice, 2, 0, 1, 16};
    const refrain_layout none = {NULL, 2, 0, 1, 0}, empty = {NULL, 0, 0, 0, 0};
    const refrain_layout huge = {pair, 2, INT64_MAX, 8, 0}, many = {pair, UINT64_MAX, 0, 1, 0};
    const refrain_laid_out good[2] = {{&gaps, 1, 0}, {&gaps, 1, 64}};
    const refrain_laid_out missing[2] = {{&gaps, 1, 0}, {NULL, 1, 0}};
    const refrain_laid_out far[2] = {{&gaps, UINT64_MAX / 16, 0}, {&gaps, UINT64_MAX / 16, 0}};
    const refrain_collective three = refrain_allgather(all, in, out, 3, REFRAIN_DOUBLE);
    const refrain_collective sum =
        refrain_allreduce(all, in, out, 2, REFRAIN_DOUBLE, REFRAIN_SUM);
    IS_WRONG(refrain_with_layouts(three, &gaps, NULL), "are not a whole number of layouts of 16");
    IS_WRONG(refrain_with_layouts(three, NULL, &empty), "are not a whole number of layouts of 0");
    IS_WRONG(refrain_with_layouts(three, NULL, &overlapping), "to receive into overlap");
    IS_WRONG(refrain_with_layouts(three, NULL, &none), "spans is NULL");
    IS_WRONG(refrain_with_layouts(three, NULL, &many), "spans are too many");
    IS_WRONG(refrain_with_layouts(three, &huge, NULL), "beyond the largest possible buffer");
    IS_WRONG(refrain_with_layouts(sum, &gaps, NULL), "give no layouts");
    IS_WRONG(refrain_alltoallw(all, in, NULL, out, good), "blocks is NULL");
    IS_WRONG(refrain_alltoallw(all, in, good, out, missing), "layout is NULL");
    IS_WRONG(refrain_alltoallw(all, in, far, out, good), "more than 2^64 bytes");
    IS_WRONG(refrain_alltoallw(all, in, good, REFRAIN_IN_PLACE, good),
             "REFRAIN_IN_PLACE is not for");
    IS_WRONG(refrain_with_layouts(refrain_alltoallw(all, in, good, out, good), NULL, &gaps),
             "have layouts of their own");

    /* The offset of a NULL buffer is an address. */
    const refrain_span here = {(int64_t)(intptr_t)&in[5], 8};
    const refrain_layout absolute = {&here, 1, 0, 1, 8};
    in[5] = 2.5 + refrain_group_place(world, all);
    WORKS(refrain_do(world, refrain_with_layouts(
                                refrain_allgather(all, NULL, out, 1, REFRAIN_DOUBLE), &absolute,
                                NULL)));
    HOLDS(out[0] == 2.5 && out[1] == 3.5);
}

/* Calls the library, which it must not. */
static void calls(const void *left, void *right, uint64_t count, void *world)
{
    for (uint64_t i = 0; i < count; i++)
        ((double *)right)[i] += ((const double *)left)[i];
    FAILS(refrain_barrier(world), REFRAIN_ERR_WORLD, "under way");
}

static void operators(refrain_world *world, refrain_group all)
{
    const struct {
        refrain_type type;
        refrain_operator by;
        const char *words;
    } wrong[] = {
        {0, REFRAIN_SUM, "element type 0x0 does not exist"},
        {17, REFRAIN_SUM, "element type 0x11 does not exist"},
        {0x200, REFRAIN_SUM, "does not exist"},
        {UINT64_MAX, REFRAIN_SUM, "does not exist"},
        {REFRAIN_LOCATED(REFRAIN_DOUBLE, REFRAIN_BOOL), REFRAIN_MINLOC, "does not exist"},
        {REFRAIN_BYTES(0), REFRAIN_SUM, "does not exist"},
        {REFRAIN_BYTES(8), REFRAIN_SUM, "only by operators of refrain_own"},
        {REFRAIN_DOUBLE, REFRAIN_OPERATOR(0), "operator 0 does not exist"},
        {REFRAIN_DOUBLE, REFRAIN_OPERATOR(14), "operator 14 does not exist"},
        {REFRAIN_DOUBLE, REFRAIN_BAND, "no BitAnd of F64"},
        {REFRAIN_DOUBLE, REFRAIN_MAXLOC, "no MaxLoc of F64"},
        {REFRAIN_BYTE, REFRAIN_SUM, "no Sum of Byte"},
        {REFRAIN_LONG_DOUBLE, REFRAIN_BXOR, "no BitXor of LongDouble"},
        {REFRAIN_LONG_DOUBLE_COMPLEX, REFRAIN_MIN, "no Min of ComplexLongDouble"},
        {REFRAIN_DOUBLE_COMPLEX, REFRAIN_MAX, "no Max of Complex64"},
        {REFRAIN_LOCATED(REFRAIN_FLOAT, REFRAIN_FLOAT), REFRAIN_SUM, "no Sum of (F32, F32)"},
        {REFRAIN_DOUBLE, refrain_own(NULL, NULL, 1), "combine is NULL"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        IS_WRONG(refrain_allreduce(all, in, out, 1, wrong[i].type, wrong[i].by), wrong[i].words);
    IS_WRONG(refrain_bcast(all, 0, out, 1, 99), "element type 0x63 does not exist");
    in[0] = 4;
    WORKS(refrain_do(world, refrain_allreduce(all, in, out, 1, REFRAIN_DOUBLE,
                                              refrain_own(calls, world, 1))));
    HOLDS(out[0] == 8);
}

static void requests(refrain_world *world, refrain_group all)
{
    refrain_request request = REFRAIN_REQUEST_NULL, copy;
    FAILS(refrain_begin(world, refrain_barrier_of(all), NULL), REFRAIN_ERR_ARGUMENT,
          "request is NULL");
    FAILS(refrain_prepare(world, refrain_barrier_of(all), NULL), REFRAIN_ERR_ARGUMENT,
          "request is NULL");
    FAILS(refrain_prepare(world, refrain_bcast(all, 5, out, 1, REFRAIN_DOUBLE), &request),
          REFRAIN_ERR_ARGUMENT, "place 5 is not in a group of 2");
    FAILS(refrain_start(world, NULL), REFRAIN_ERR_ARGUMENT, "request is NULL");
    FAILS(refrain_free(world, NULL), REFRAIN_ERR_ARGUMENT, "request is NULL");
    FAILS(refrain_start(world, &request), REFRAIN_ERR_ARGUMENT, "not persistent");
    WORKS(refrain_free(world, &request));

    WORKS(refrain_begin(world, refrain_barrier_of(all), &request));
    FAILS(refrain_start(world, &request), REFRAIN_ERR_ARGUMENT, "not persistent");
    FAILS(refrain_free(world, &request), REFRAIN_ERR_OPEN, "wait for it first");
    FAILS(refrain_checkpoint(world, NULL), REFRAIN_ERR_OPEN, "1 requests were not waited for");
    WORKS(refrain_wait(world, &request, NULL));

    WORKS(refrain_prepare(world, refrain_barrier_of(all), &request));
    WORKS(refrain_wait(world, &request, NULL));
    WORKS(refrain_start(world, &request));
    FAILS(refrain_start(world, &request), REFRAIN_ERR_ARGUMENT, "still active");
    FAILS(refrain_free(world, &request), REFRAIN_ERR_OPEN, "wait for it first");
    FAILS(refrain_finalize(world), REFRAIN_ERR_OPEN, "1 requests were not waited for");
    WORKS(refrain_wait(world, &request, NULL));
    WORKS(refrain_checkpoint(world, NULL));
    copy = request;
    WORKS(refrain_free(world, &request));
    HOLDS(request.serial == 0);
    FAILS(refrain_start(world, &copy), REFRAIN_ERR_ARGUMENT, "was freed");
    FAILS(refrain_free(world, &copy), REFRAIN_ERR_REQUEST, "ended");
    FAILS(refrain_wait(world, &copy, NULL), REFRAIN_ERR_REQUEST, "ended");

    /* The job may end with it. */
    WORKS(refrain_prepare(world, refrain_barrier_of(all), &request));
}

int main(void)
{
    refrain_world *world;
    WORKS(refrain_init(&world));
    const refrain_group all = refrain_group_all(world);
    groups(world, all);
    buffers(world, all);
    lists(world, all);
    layouts(world, all);
    operators(world, all);
    requests(world, all);
    WORKS(refrain_do(world, refrain_barrier_of(all)));

    /* Each member notices by the other one's message. */
    const uint64_t count = 3 + (uint64_t)refrain_rank(world);
    IS_WRONG(refrain_allreduce(all, in, out, count, REFRAIN_DOUBLE, REFRAIN_SUM),
             "do all members call the same");
    WORKS(refrain_finalize(world));
    printf("%d failures\n", failures);
    return failures != 0;
}
