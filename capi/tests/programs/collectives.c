/* All collectives of groups, compared with what the plainest loops compute. Rank 0 prints
 * a line about all results. */
#include "refrain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 5, LONG = 3000, MODES = 4 };

static refrain_world *world;
static refrain_group group;
static int size, me, mode;
static uint64_t digest = 1;

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
            fprintf(stderr, "line %d: %s (member %d of %d, mode %d)\n", __LINE__, #condition, me,  \
                    size, mode);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Does a collective in one of the ways. */
static void run(refrain_collective collective)
{
    refrain_request request, copy;
    int done = 0;
    switch (mode) {
    case 0:
        CHECK(refrain_do(world, collective));
        return;
    case 1:
        CHECK(refrain_begin(world, collective, &request));
        CHECK(refrain_wait(world, &request, NULL));
        break;
    case 2:
        CHECK(refrain_prepare(world, collective, &request));
        copy = request;
        CHECK(refrain_wait(world, &request, NULL));
        CHECK(refrain_start(world, &request));
        CHECK(refrain_wait(world, &request, NULL));
        HOLDS(request.serial == copy.serial);
        CHECK(refrain_free(world, &request));
        break;
    default:
        CHECK(refrain_begin(world, collective, &request));
        for (int i = 0; i < 3 && !done; i++)
            CHECK(refrain_test(world, &request, &done, NULL));
        CHECK(refrain_wait(world, &request, NULL));
    }
    HOLDS(request.serial == 0);
}

/* Element `i` of what member `from` has for member `to`. */
static int64_t value(int from, int to, uint64_t i)
{
    return 1000003 * (int64_t)(from + 1) + 10007 * to + (int64_t)(i % 9973);
}

static void fill(int64_t *at, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        at[i] = value(from, to, i);
}

static int is(const int64_t *at, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (at[i] != value(from, to, i))
            return 0;
        digest = (digest ^ (uint64_t)at[i]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
    return 1;
}

/* Whether `at` has the sums of what the first `members` members have for `to`. */
static int is_sum(const int64_t *at, int members, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int from = 0; from < members; from++)
            sum += value(from, to, i);
        if (at[i] != sum)
            return 0;
        digest = (digest ^ (uint64_t)sum) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
    return 1;
}

static _Alignas(16) int64_t in[MEMBERS_MAX * LONG + 64], out[MEMBERS_MAX * LONG + 64];

static void clear(void)
{
    memset(in, -1, sizeof in);
    memset(out, -1, sizeof out);
}

static void moves(uint64_t n, int root, int in_place)
{
    const int own = me * (int)n;
    void *here = REFRAIN_IN_PLACE;
    clear();
    run(refrain_barrier_of(group));
    if (me == root)
        fill(out, root, 7, n);
    run(refrain_bcast(group, root, out, n, REFRAIN_INT64));
    HOLDS(is(out, root, 7, n));

    clear();
    fill(in_place && me == root ? out + own : in, me, 0, n);
    run(refrain_gather(group, root, in_place && me == root ? here : in, me == root ? out : NULL, n,
                       REFRAIN_INT64));
    for (int from = 0; from < size && me == root; from++)
        HOLDS(is(out + from * (int)n, from, 0, n));

    clear();
    for (int to = 0; to < size && me == root; to++)
        fill(in + to * (int)n, root, to, n);
    run(refrain_scatter(group, root, me == root ? in : NULL, in_place && me == root ? here : out,
                        n, REFRAIN_INT64));
    HOLDS(is(in_place && me == root ? in + own : out, root, me, n));

    clear();
    fill(in_place ? out + own : in, me, 0, n);
    run(refrain_allgather(group, in_place ? here : in, out, n, REFRAIN_INT64));
    for (int from = 0; from < size; from++)
        HOLDS(is(out + from * (int)n, from, 0, n));

    clear();
    for (int to = 0; to < size; to++)
        fill((in_place ? out : in) + to * (int)n, me, to, n);
    run(refrain_alltoall(group, in_place ? here : in, out, n, REFRAIN_INT64));
    for (int from = 0; from < size; from++)
        HOLDS(is(out + from * (int)n, from, me, n));
}

/* Blocks of different lengths, also 0, with gaps or one after the other. */
static void lists(uint64_t n, int root, int in_place, int gaps)
{
    uint64_t counts[MEMBERS_MAX], starts[MEMBERS_MAX], mine[MEMBERS_MAX], at[MEMBERS_MAX];
    const uint64_t *listed = gaps ? starts : NULL, *mine_listed = gaps ? at : NULL;
    void *here = REFRAIN_IN_PLACE;
    uint64_t end = 0, end_of_mine = 0;
    /* Place `b` sends to place `a` as much as `a` to `b`, so that this may be in place. */
    for (int place = 0; place < size; place++) {
        end += gaps ? 2 : 0;
        counts[place] = (uint64_t)place % 3 * n;
        starts[place] = end;
        end += counts[place];
        mine[place] = (uint64_t)(place + me) % 3 * n;
        at[place] = end_of_mine;
        end_of_mine += mine[place] + (gaps ? 1 : 0);
    }

    clear();
    fill(in_place && me == root ? out + starts[me] : in, me, 0, counts[me]);
    run(refrain_gatherv(group, root, in_place && me == root ? here : in, counts[me],
                        me == root ? out : NULL, me == root ? counts : NULL, listed,
                        REFRAIN_INT64));
    for (int from = 0; from < size && me == root; from++)
        HOLDS(is(out + starts[from], from, 0, counts[from]));
    HOLDS(!gaps || (out[0] == -1 && out[1] == -1));

    clear();
    for (int to = 0; to < size && me == root; to++)
        fill(in + starts[to], root, to, counts[to]);
    run(refrain_scatterv(group, root, in, me == root ? counts : NULL, listed,
                         in_place && me == root ? here : out, counts[me], REFRAIN_INT64));
    HOLDS(is(in_place && me == root ? in + starts[me] : out, root, me, counts[me]));

    clear();
    fill(in_place ? out + starts[me] : in, me, 0, counts[me]);
    run(refrain_allgatherv(group, in_place ? here : in, out, counts, listed, REFRAIN_INT64));
    for (int from = 0; from < size; from++)
        HOLDS(is(out + starts[from], from, 0, counts[from]));

    clear();
    for (int to = 0; to < size; to++)
        fill((in_place ? out : in) + at[to], me, to, mine[to]);
    run(refrain_alltoallv(group, in_place ? here : in, in_place ? NULL : mine, mine_listed, out,
                          mine, mine_listed, REFRAIN_INT64));
    for (int from = 0; from < size; from++)
        HOLDS(is(out + at[from], from, me, mine[from]));

    if (gaps)
        return;
    clear();
    for (int to = 0; to < size; to++)
        fill((in_place ? out : in) + starts[to], me, to, counts[to]);
    run(refrain_reduce_scatter(group, in_place ? here : in, out, counts, REFRAIN_INT64,
                               REFRAIN_SUM));
    HOLDS(is_sum(out, size, me, counts[me]));
}

static void sums(uint64_t n, int root, int in_place)
{
    void *here = REFRAIN_IN_PLACE;
    clear();
    fill(in_place && me == root ? out : in, me, 0, n);
    run(refrain_reduce(group, root, in_place && me == root ? here : in, me == root ? out : NULL, n,
                       REFRAIN_INT64, REFRAIN_SUM));
    HOLDS(me != root || is_sum(out, size, 0, n));

    clear();
    fill(in_place ? out : in, me, 0, n);
    run(refrain_allreduce(group, in_place ? here : in, out, n, REFRAIN_INT64, REFRAIN_SUM));
    HOLDS(is_sum(out, size, 0, n));

    clear();
    for (int to = 0; to < size; to++)
        fill((in_place ? out : in) + to * (int)n, me, to, n);
    run(refrain_reduce_scatter_block(group, in_place ? here : in, out, n, REFRAIN_INT64,
                                     REFRAIN_SUM));
    HOLDS(is_sum(out, size, me, n));

    clear();
    fill(in_place ? out : in, me, 0, n);
    run(refrain_scan(group, in_place ? here : in, out, n, REFRAIN_INT64, REFRAIN_SUM));
    HOLDS(is_sum(out, me + 1, 0, n));

    clear();
    fill(in_place ? out : in, me, 0, n);
    run(refrain_exscan(group, in_place ? here : in, out, n, REFRAIN_INT64, REFRAIN_SUM));
    if (me == 0)
        HOLDS(n == 0 || (in_place ? is(out, 0, 0, n) : out[0] == -1));
    else
        HOLDS(is_sum(out, me, 0, n));
}

/* A ring in which each member sends to both sides, and to itself. */
static void neighbours(uint64_t n)
{
    const int places[3] = {(me + size - 1) % size, (me + 1) % size, me};
    const int from[3] = {places[1], places[0], me};
    const refrain_neighbours ring = {from, places, 3, 3};
    uint64_t counts[3], starts[3];
    clear();
    fill(in, me, 0, n);
    run(refrain_neighbour_allgather(group, ring, in, out, n, REFRAIN_INT64));
    for (int edge = 0; edge < 3; edge++)
        HOLDS(is(out + edge * (int)n, from[edge], 0, n));

    clear();
    for (int edge = 0; edge < 3; edge++)
        fill(in + edge * (int)n, me, edge, n);
    run(refrain_neighbour_alltoall(group, ring, in, out, n, REFRAIN_INT64));
    for (int edge = 0; edge < 3; edge++)
        HOLDS(is(out + edge * (int)n, from[edge], edge, n));

    for (int edge = 0; edge < 3; edge++) {
        counts[edge] = (uint64_t)from[edge] % 2 * n + 1;
        starts[edge] = (uint64_t)edge * (n + 2);
    }
    clear();
    fill(in, me, 0, (uint64_t)me % 2 * n + 1);
    run(refrain_neighbour_allgatherv(group, ring, in, (uint64_t)me % 2 * n + 1, out, counts, starts,
                                     REFRAIN_INT64));
    for (int edge = 0; edge < 3; edge++)
        HOLDS(is(out + starts[edge], from[edge], 0, counts[edge]));

    for (int edge = 0; edge < 3; edge++)
        counts[edge] = (uint64_t)edge * n;
    clear();
    for (int edge = 0; edge < 3; edge++)
        fill(in + (edge == 2 ? n : 0), me, edge, counts[edge]);
    fill(in, me, 1, counts[1]);
    run(refrain_neighbour_alltoallv(group, ring, in, counts, NULL, out, counts, starts,
                                    REFRAIN_INT64));
    for (int edge = 1; edge < 3; edge++)
        HOLDS(is(out + starts[edge], from[edge], edge, counts[edge]));
}

/* As fill and is, with `step` elements from one to the next. */
static void fill_by(int64_t step, int64_t *at, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        at[(int64_t)i * step] = value(from, to, i);
}

static int is_by(int64_t step, const int64_t *at, int from, int to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (at[(int64_t)i * step] != value(from, to, i))
            return 0;
    return 1;
}

static const refrain_span one = {0, 8}, halves[2] = {{12, 4}, {0, 4}};
/* Every second element; the last element first; the halves of an element exchanged. */
static const refrain_layout seconds = {&one, 1, 0, 1, 16}, backwards = {&one, 1, 0, 1, -8},
                            apart = {halves, 2, 0, 1, 16};

/* Blocks of a matrix, whose rows are distributed: columns of the input, rows of the output. */
static void transposes(uint64_t n)
{
    const uint64_t width = n * (uint64_t)size;
    const refrain_span row = {0, 8 * n};
    const int64_t line = (int64_t)(8 * width);
    const refrain_layout column = {&one, 1, line, n, 8}, rows = {&row, 1, line, n, (int64_t)(8 * n)};
    clear();
    fill(in, me, 0, n * width);
    run(refrain_with_layouts(refrain_alltoall(group, in, out, n * n, REFRAIN_INT64), &column,
                             &rows));
    for (int from = 0; from < size; from++)
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t k = 0; k < n; k++)
                HOLDS(out[i * width + (uint64_t)from * n + k] ==
                      value(from, 0, k * width + (uint64_t)me * n + i));
}

static void layouts(uint64_t n, int root, int in_place)
{
    uint64_t counts[MEMBERS_MAX], starts[MEMBERS_MAX], end = 1;
    void *here = REFRAIN_IN_PLACE;
    for (int place = 0; place < size; place++) {
        counts[place] = (uint64_t)place % 3 * n;
        starts[place] = end;
        end += counts[place] + 2;
    }
    clear();
    if (me == root)
        fill_by(2, out, root, 7, n);
    /* Members have different layouts. */
    int64_t *last = n > 0 ? out + n - 1 : out;
    run(refrain_with_layouts(
        refrain_bcast(group, root, me != root && me % 2 ? last : out, n, REFRAIN_INT64), NULL,
        me == root ? &seconds : me % 2 ? &backwards : NULL));
    HOLDS(me == root ? out[1] == -1 && is_by(2, out, root, 7, n)
                     : is_by(me % 2 ? -1 : 1, me % 2 ? last : out, root, 7, n));

    clear();
    for (int i = 0; i < (int)counts[me]; i++) {
        const int64_t it = value(me, 0, (uint64_t)i);
        memcpy((char *)in + 16 * i + 12, &it, 4);
        memcpy((char *)in + 16 * i, (const char *)&it + 4, 4);
    }
    run(refrain_with_layouts(refrain_gatherv(group, root, in, counts[me], me == root ? out : NULL,
                                             counts, starts, REFRAIN_INT64),
                             &apart, me == root ? &seconds : NULL));
    for (int from = 0; from < size && me == root; from++)
        HOLDS(is_by(2, out + 2 * starts[from], from, 0, counts[from]));
    HOLDS(out[0] == -1 && out[1] == -1);

    clear();
    fill_by(in_place ? 2 : 1, in_place ? out + 2 * starts[me] : in, me, 0, counts[me]);
    run(refrain_with_layouts(refrain_allgatherv(group, in_place ? here : in, out, counts, starts,
                                                REFRAIN_INT64),
                             NULL, &seconds));
    for (int from = 0; from < size; from++)
        HOLDS(is_by(2, out + 2 * starts[from], from, 0, counts[from]));
    HOLDS(out[2 * starts[size - 1] + 1] == -1);
}

/* Each block has a layout: `input` every second element, `output` the last one first. */
static void blocks(uint64_t n, int shift, int number, refrain_laid_out input[],
                   refrain_laid_out output[])
{
    int64_t at = 1;
    for (int i = 0; i < number; i++) {
        const int64_t count = (i + shift) % 3 * (int64_t)n;
        const refrain_laid_out from = {&seconds, (uint64_t)count, 8 * at};
        const refrain_laid_out to = {&backwards, (uint64_t)count, 8 * (at + count - 1)};
        input[i] = from;
        output[i] = to;
        at += 2 * count + 1;
    }
}

static void own_layouts(uint64_t n, int in_place)
{
    refrain_laid_out from[MEMBERS_MAX], to[MEMBERS_MAX];
    const int places[3] = {(me + size - 1) % size, (me + 1) % size, me};
    const int sources[3] = {places[1], places[0], me};
    const refrain_neighbours ring = {sources, places, 3, 3};
    blocks(n, me, size, from, to);
    clear();
    for (int i = 0; i < size; i++)
        if (in_place)
            fill_by(-1, out + to[i].offset / 8, me, i, to[i].count);
        else
            fill_by(2, in + from[i].offset / 8, me, i, from[i].count);
    run(refrain_alltoallw(group, in_place ? REFRAIN_IN_PLACE : in, in_place ? NULL : from, out, to));
    for (int i = 0; i < size; i++)
        HOLDS(is_by(-1, out + to[i].offset / 8, i, me, to[i].count));

    blocks(n, 0, 3, from, to);
    clear();
    for (int edge = 0; edge < 3; edge++)
        fill_by(2, in + from[edge].offset / 8, me, edge, from[edge].count);
    run(refrain_neighbour_alltoallw(group, ring, in, from, out, to));
    for (int edge = 0; edge < 3; edge++)
        HOLDS(is_by(-1, out + to[edge].offset / 8, sources[edge], edge, to[edge].count));
    HOLDS(out[0] == -1);
}

/* Compares with a loop over what the members have: `first`, a function of the member m. */
#define REDUCES(type, code, operator, first, expression)                                           \
    do {                                                                                           \
        type a = 0, b, got = 0, mine = 0;                                                          \
        for (int m = 0; m < size; m++) {                                                           \
            b = (type)(first);                                                                     \
            a = m == 0 ? b : (type)(expression);                                                   \
            mine = m == me ? b : mine;                                                             \
        }                                                                                          \
        run(refrain_allreduce(group, &mine, &got, 1, code, operator));                             \
        HOLDS(got == a);                                                                           \
    } while (0)

#define NUMBER(type, code)                                                                         \
    do {                                                                                           \
        REDUCES(type, code, REFRAIN_SUM, m + 2, a + b);                                            \
        REDUCES(type, code, REFRAIN_PRODUCT, m % 2 + 1, a * b);                                    \
        REDUCES(type, code, REFRAIN_MIN, 7 - m, a < b ? a : b);                                    \
        REDUCES(type, code, REFRAIN_MAX, 2 + m % 3, a > b ? a : b);                                \
    } while (0)

#define LOGICAL(type, code)                                                                        \
    do {                                                                                           \
        REDUCES(type, code, REFRAIN_LAND, m % 2, a && b);                                          \
        REDUCES(type, code, REFRAIN_LOR, m == 2, a || b);                                          \
        REDUCES(type, code, REFRAIN_LXOR, 1, !a != !b);                                            \
    } while (0)

#define BITWISE(type, code)                                                                        \
    do {                                                                                           \
        REDUCES(type, code, REFRAIN_BAND, 12 + m, a & b);                                          \
        REDUCES(type, code, REFRAIN_BOR, 1 << m, a | b);                                           \
        REDUCES(type, code, REFRAIN_BXOR, 5 * m, a ^ b);                                           \
    } while (0)

#define INTEGER(type, code)                                                                        \
    do {                                                                                           \
        NUMBER(type, code);                                                                        \
        LOGICAL(type, code);                                                                       \
        BITWISE(type, code);                                                                       \
    } while (0)

struct double_int32 {
    double value;
    int32_t index;
};

struct long_double_int {
    long double value;
    int index;
};

struct int16_int64 {
    int16_t value;
    int64_t index;
};

static void types(void)
{
    INTEGER(int8_t, REFRAIN_INT8);
    INTEGER(int16_t, REFRAIN_INT16);
    INTEGER(int32_t, REFRAIN_INT32);
    INTEGER(int64_t, REFRAIN_INT64);
    INTEGER(uint8_t, REFRAIN_UINT8);
    INTEGER(uint16_t, REFRAIN_UINT16);
    INTEGER(uint32_t, REFRAIN_UINT32);
    INTEGER(uint64_t, REFRAIN_UINT64);
    NUMBER(float, REFRAIN_FLOAT);
    NUMBER(double, REFRAIN_DOUBLE);
    NUMBER(long double, REFRAIN_LONG_DOUBLE);
    /* Needs more bits than a double has. */
    REDUCES(long double, REFRAIN_LONG_DOUBLE, REFRAIN_SUM, m == 0 ? 0x1p60L + 1 : 1, a + b);
    LOGICAL(uint8_t, REFRAIN_BOOL);
    BITWISE(uint8_t, REFRAIN_BYTE);

    /* Turns by 90 degrees, and a sum of units. */
    float turn[2] = {0, 1}, turned[2];
    double unit[2] = {me, 1}, units[2];
    const float around[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    run(refrain_allreduce(group, turn, turned, 1, REFRAIN_FLOAT_COMPLEX, REFRAIN_PRODUCT));
    HOLDS(turned[0] == around[size % 4][0] && turned[1] == around[size % 4][1]);
    run(refrain_allreduce(group, unit, units, 1, REFRAIN_DOUBLE_COMPLEX, REFRAIN_SUM));
    HOLDS(units[0] == size * (size - 1) / 2 && units[1] == size);
    long double turn_long[2] = {0, 1}, turned_long[2];
    run(refrain_allreduce(group, turn_long, turned_long, 1, REFRAIN_LONG_DOUBLE_COMPLEX,
                          REFRAIN_PRODUCT));
    HOLDS(turned_long[0] == around[size % 4][0] && turned_long[1] == around[size % 4][1]);

    struct double_int32 mine = {me / 2 + 0.5, me}, least;
    run(refrain_allreduce(group, &mine, &least, 1, REFRAIN_LOCATED(REFRAIN_DOUBLE, REFRAIN_INT32),
                          REFRAIN_MINLOC));
    HOLDS(least.value == 0.5 && least.index == 0);
    struct int16_int64 small = {(int16_t)(me == 0 ? -1 : 5), size - me}, most;
    run(refrain_allreduce(group, &small, &most, 1, REFRAIN_LOCATED(REFRAIN_INT16, REFRAIN_INT64),
                          REFRAIN_MAXLOC));
    HOLDS(most.value == (size == 1 ? -1 : 5) && most.index == 1);
    struct long_double_int near = {1 + me * 0x1p-60L, me}, far;
    HOLDS(sizeof near == 32);
    run(refrain_allreduce(group, &near, &far, 1, REFRAIN_LOCATED(REFRAIN_LONG_DOUBLE, REFRAIN_INT32),
                          REFRAIN_MAXLOC));
    HOLDS(far.value == 1 + (size - 1) * 0x1p-60L && far.index == size - 1);
}

/* Products of matrices, whose order matters. */
struct matrix {
    uint32_t a[2][2];
};

static void multiply(const void *left, void *right, uint64_t count, void *modulus)
{
    const struct matrix *l = left;
    struct matrix *r = right;
    const uint64_t p = *(const uint64_t *)modulus;
    HOLDS((uintptr_t)left % 16 == 0 && (uintptr_t)right % 16 == 0);
    for (uint64_t n = 0; n < count; n++) {
        struct matrix product;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                product.a[i][j] = (uint32_t)(((uint64_t)l[n].a[i][0] * r[n].a[0][j] +
                                              (uint64_t)l[n].a[i][1] * r[n].a[1][j]) %
                                             p);
        r[n] = product;
    }
}

static struct matrix matrix(int of, uint64_t i)
{
    uint32_t x = (uint32_t)(of * 37) + (uint32_t)i;
    struct matrix it = {{{x + 1, x * x + 2}, {3, x + 7}}};
    return it;
}

/* Element `i` of the product of the members from 0. */
static int is_product(const struct matrix *got, int members, uint64_t i, uint64_t *modulus)
{
    _Alignas(16) struct matrix product = matrix(members - 1, i);
    for (int of = members - 2; of >= 0; of--) {
        const _Alignas(16) struct matrix left = matrix(of, i);
        multiply(&left, &product, 1, modulus);
    }
    digest = (digest ^ product.a[0][1]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return memcmp(got, &product, sizeof product) == 0;
}

static void own_operators(uint64_t n, int root)
{
    uint64_t modulus = 1000003;
    const refrain_operator by = refrain_own(multiply, &modulus, 0);
    const refrain_type type = REFRAIN_BYTES(sizeof(struct matrix));
    struct matrix *from = (struct matrix *)in, *to = (struct matrix *)out;
    for (uint64_t i = 0; i < n * (uint64_t)size; i++)
        from[i] = matrix(me, i);
    run(refrain_allreduce(group, from, to, n, type, by));
    for (uint64_t i = 0; i < n; i++)
        HOLDS(is_product(&to[i], size, i, &modulus));
    run(refrain_reduce(group, root, from, to, n, type, by));
    for (uint64_t i = 0; i < n && me == root; i++)
        HOLDS(is_product(&to[i], size, i, &modulus));
    run(refrain_scan(group, from, to, n, type, by));
    for (uint64_t i = 0; i < n; i++)
        HOLDS(is_product(&to[i], me + 1, i, &modulus));
    run(refrain_exscan(group, from, to, n, type, by));
    for (uint64_t i = 0; i < n && me > 0; i++)
        HOLDS(is_product(&to[i], me, i, &modulus));
    run(refrain_reduce_scatter_block(group, from, to, n, type, by));
    for (uint64_t i = 0; i < n; i++)
        HOLDS(is_product(&to[i], size, (uint64_t)me * n + i, &modulus));
}

static void choose(refrain_group chosen)
{
    group = chosen;
    size = refrain_group_size(world, group);
    me = refrain_group_place(world, group);
}

static void everything(void)
{
    const uint64_t counts[] = {0, 1, 5, LONG};
    int round = 0;
    for (int i = 0; i < 4; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const int root = round++ % size;
            moves(counts[i], root, in_place);
            lists(counts[i] / 2, root, in_place, root % 2);
            lists(counts[i] / 2, root, in_place, 1 - root % 2);
            sums(counts[i], root, in_place);
            layouts(counts[i] / 2, root, in_place);
            own_layouts(counts[i] / 4, in_place);
        }
    transposes(3);
    transposes(50);
    neighbours(0);
    neighbours(100);
    types();
    own_operators(3, size - 1);
    own_operators(400, 0);
}

/* Several at a time, of two groups, that end in any order. */
static void several(refrain_group all, refrain_group other)
{
    enum { MANY = 8 };
    int64_t send[MANY], got[MANY];
    refrain_request requests[MANY];
    size_t index;
    for (int i = 0; i < MANY; i++) {
        choose(i % 3 == 0 ? other : all);
        send[i] = value(me, i, 0);
        CHECK(refrain_begin(
            world, refrain_allreduce(group, &send[i], &got[i], 1, REFRAIN_INT64, REFRAIN_SUM),
            &requests[i]));
    }
    for (int i = 0; i < MANY / 2; i++)
        CHECK(refrain_wait_any(world, MANY, requests, &index, NULL));
    CHECK(refrain_cancel(world, &requests[MANY - 1]));
    CHECK(refrain_wait_all(world, MANY, requests, NULL));
    for (int i = 0; i < MANY; i++) {
        choose(i % 3 == 0 ? other : all);
        HOLDS(is_sum(&got[i], size, i, 1));
    }
}

/* One that is started many times, beside others, and stays over a checkpoint. */
static void persistent(refrain_group all)
{
    int64_t sum = 0, step = 0, longest = 0;
    refrain_request requests[2];
    choose(all);
    CHECK(refrain_prepare(world,
                          refrain_allreduce(group, &step, &sum, 1, REFRAIN_INT64, REFRAIN_SUM),
                          &requests[0]));
    CHECK(refrain_prepare(world,
                          refrain_reduce(group, 0, &step, me == 0 ? &longest : NULL, 1,
                                         REFRAIN_INT64, REFRAIN_MAX),
                          &requests[1]));
    for (int round = 1; round <= 20; round++) {
        step = round * (me + 1);
        CHECK(refrain_start(world, &requests[0]));
        CHECK(refrain_start(world, &requests[1]));
        CHECK(refrain_do(world, refrain_barrier_of(group)));
        CHECK(refrain_wait_all(world, 2, requests, NULL));
        HOLDS(sum == round * size * (size + 1) / 2);
        HOLDS(me != 0 || longest == round * size);
        CHECK(refrain_checkpoint(world, NULL));
    }
    CHECK(refrain_free(world, &requests[1]));
    CHECK(refrain_free(world, &requests[0]));
}

int main(void)
{
    int ranks[MEMBERS_MAX];
    refrain_group all, part, copy;
    CHECK(refrain_init(&world));
    all = refrain_group_all(world);
    const int rank = refrain_rank(world), count = refrain_size(world);
    choose(all);
    HOLDS(size == count && me == rank && size <= MEMBERS_MAX);

    for (mode = 0; mode < MODES; mode++)
        everything();
    mode = 0;

    /* Odd and even ranks, the last one first; rank 0 is in no group. */
    const int color = rank == 0 ? REFRAIN_NO_COLOR : rank % 2;
    CHECK(refrain_group_split(world, all, color, -rank, &part));
    HOLDS((part.serial == 0) == (rank == 0));
    if (rank > 0) {
        choose(part);
        CHECK(refrain_group_members(world, part, ranks));
        HOLDS(ranks[me] == rank && ranks[size - 1] == 2 - rank % 2);
        for (int place = 1; place < size; place++)
            HOLDS(ranks[place] == ranks[place - 1] - 2);
        everything();
        CHECK(refrain_group_release(world, &part));
        HOLDS(part.serial == 0);
    }
    CHECK(refrain_group_duplicate(world, all, &copy));
    several(all, copy);
    CHECK(refrain_group_split(world, copy, rank / 2, 0, &part));
    several(copy, part);
    CHECK(refrain_group_release(world, &copy));
    persistent(all);

    choose(all);
    CHECK(refrain_do(world, refrain_allreduce(group, REFRAIN_IN_PLACE, &digest, 1, REFRAIN_UINT64,
                                              REFRAIN_BXOR)));
    CHECK(refrain_finalize(world));
    if (rank == 0)
        printf("collectives: %d ranks, %016" PRIx64 "\n", count, digest);
    return 0;
}
