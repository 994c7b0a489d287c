/* refrain.h: Refrain for programs in C (C11 or newer) and C++ (C++11 or newer).
 *
 * A program calls refrain_init, communicates, and calls refrain_finalize. The command
 * `refrain run -n N -- program` starts N ranks of it. Without a launcher the program
 * is a job of one rank. docs/guide/embedding-c.md describes how to build and link, and
 * what a program must do so that a killed rank can continue.
 *
 * Errors. Functions that return `int` return REFRAIN_OK (0) or a code of enum
 * refrain_error, unless their description says otherwise; refrain_last_error returns
 * the text. After an error the call has written nothing through its pointers, unless
 * its description says otherwise. NULL, ranks that do not exist, invalid handles and
 * lengths above PTRDIFF_MAX are errors. Pointers to objects of another type or size
 * are not detected.
 *
 * Threads. A world belongs to the thread that created it; other threads cannot use
 * it. Signal handlers and forked children must not call any function of this library.
 *
 * Buffers. A blocking call uses its buffers until it returns. The buffers of a request
 * belong to the library until a call has reported the end of the request. Until then
 * the program must not free or change data that is sent, and must not free, read or
 * change a buffer that is received into. A buffer of 0 bytes may be NULL.
 */
#ifndef REFRAIN_H
#define REFRAIN_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ------------------------------------------------------------- */

/* The API version of this header. refrain_api_version() returns the library's. */
#define REFRAIN_API_VERSION 2

enum refrain_error {
    REFRAIN_OK = 0,
    /* Invalid argument. */
    REFRAIN_ERR_ARGUMENT = 1,
    /* This thread does not own the world, or it has a world already; or this process
     * is a forked child of a rank. */
    REFRAIN_ERR_WORLD = 2,
    /* The request or message has ended, or is passed twice in one call. */
    REFRAIN_ERR_REQUEST = 3,
    /* The job has no such rank. */
    REFRAIN_ERR_RANK = 4,
    /* A message was longer than its buffer. The buffer holds the beginning of the
     * message; the rest is lost. */
    REFRAIN_ERR_TRUNCATED = 5,
    /* Requests or messages of matched probes are open. */
    REFRAIN_ERR_OPEN = 6,
    /* The payload log is full and no part of it was freed in time. */
    REFRAIN_ERR_LOG_FULL = 7,
    /* A send waited too long for earlier events to become stable. */
    REFRAIN_ERR_EVENTS = 8,
    /* The network or shared memory has failed. */
    REFRAIN_ERR_FABRIC = 9,
    /* This rank cannot continue. After a restart this may also mean that the program
     * did not repeat what it did before; the text names the operation. */
    REFRAIN_ERR_ENGINE = 10,
    /* The launcher cannot be reached. */
    REFRAIN_ERR_CONTROL = 11,
    /* The launcher ends the job. */
    REFRAIN_ERR_ABORTED = 12,
    /* The settings of the job are invalid. */
    REFRAIN_ERR_CONFIG = 13,
    /* A checkpoint cannot be written, does not fit the protected memory, or has not
     * been restored yet. */
    REFRAIN_ERR_CHECKPOINT = 14,
    /* Internal error of the library. The world cannot be used any more. */
    REFRAIN_ERR_INTERNAL = 15
};

/* Returns the API version of the library. The header fits the library if this is
 * REFRAIN_API_VERSION. Never fails. */
int refrain_api_version(void);

/* Returns the text of the last error in this thread and how to correct it; "" if no
 * call has failed. Never NULL. The text has at most 2047 bytes, belongs to the
 * library, and is valid until the next call of this thread that fails. */
const char *refrain_last_error(void);

/* Returns the name of a code, such as "REFRAIN_ERR_RANK", or "unknown" for an unknown
 * code. Never fails. */
const char *refrain_error_name(int code);

/* ---- Joining a job ------------------------------------------------------ */

/* A rank's view of its job. */
typedef struct refrain_world refrain_world;

/* Joins the job of the launcher that started this process, or creates a job of one
 * rank if there is no launcher. A thread has one world at a time, and a process joins
 * its job once. In a process that replaces a killed one, the program starts as usual;
 * what the killed process had done is replayed. After an error *world is NULL. */
int refrain_init(refrain_world **world);

/* Leaves the job: waits until every rank has called it and until all messages of this
 * rank are on their way. The world is gone afterwards, also after an error, except
 * for REFRAIN_ERR_WORLD and REFRAIN_ERR_OPEN, after which nothing has changed. */
int refrain_finalize(refrain_world *world);

/* Returns this rank, from 0, or -1 for an error. */
int refrain_rank(const refrain_world *world);

/* Returns the number of ranks of the job, or -1 for an error. */
int refrain_size(const refrain_world *world);

/* Returns how often this rank has been restarted, or -1 for an error. Messages must
 * not depend on it. */
int64_t refrain_incarnation(const refrain_world *world);

/* Returns 1 if a killed rank is restarted and continues, 0 if its death ends the job,
 * -1 for an error. */
int refrain_recovers(const refrain_world *world);

/* Waits until every rank has called it. */
int refrain_barrier(refrain_world *world);

/* Writes the time since the job began, in seconds, with a resolution of a nanosecond.
 * The time never decreases, also not after a restart of the rank. Times of ranks on
 * different hosts differ by as much as the hosts' clocks. With a protocol that can
 * recover, each time is recorded, and a restarted rank gets the recorded times in its
 * replay. So messages may depend on times, unless the job runs with
 * `--record-clocks off`. May be called before refrain_restored; then the time is not
 * recorded. */
int refrain_wtime(refrain_world *world, double *seconds);

/* Makes progress: lets messages arrive and leave. For programs that compute for a
 * long time between other calls. */
int refrain_progress(refrain_world *world);

/* ---- Messages ----------------------------------------------------------- */

/* Receive from any rank. */
#define REFRAIN_ANY_SOURCE (-1)
/* Receive any tag. Every other int is a tag. */
#define REFRAIN_ANY_TAG INT_MIN

/* The status of a message. A pointer to a status may be NULL in all calls. */
typedef struct refrain_status {
    /* Length of the message, also if the buffer was shorter. */
    uint64_t bytes;
    /* Sender of the message; of a send, its receiver. */
    int32_t source;
    int32_t tag;
    /* 1: the receive was cancelled, and there is no message. */
    int32_t cancelled;
    /* 1: the message was longer than the buffer; the rest is lost. */
    int32_t truncated;
} refrain_status;

/* Sends `bytes` bytes. Returns when the data may be changed, which is as soon as it
 * is in the log. */
int refrain_send(refrain_world *world, const void *data, size_t bytes, int to, int tag);

/* Sends, and returns when the receiver has matched the message. */
int refrain_ssend(refrain_world *world, const void *data, size_t bytes, int to, int tag);

/* Waits for the earliest message that matches and receives it. The status is also
 * written with REFRAIN_ERR_TRUNCATED. */
int refrain_recv(refrain_world *world, void *buffer, size_t bytes, int from, int tag,
                 refrain_status *status);

/* Sends and receives at the same time; neither waits for the other. The two buffers
 * must not overlap. Otherwise as refrain_recv. */
int refrain_sendrecv(refrain_world *world, const void *data, size_t data_bytes, int to, int to_tag,
                     void *buffer, size_t buffer_bytes, int from, int from_tag,
                     refrain_status *status);

/* ---- Requests ----------------------------------------------------------- */

/* An operation in progress. The program must wait for it, or test it until it has
 * ended; the call that reports its end makes the request null. Using a copy after
 * that is an error. Null requests count as ended. The fields are private.
 *
 * A request of refrain_prepare is persistent: each refrain_start begins its operation
 * once more. The call that reports the end makes it inactive instead of null. All calls
 * below treat an inactive request as a null one. */
typedef struct refrain_request {
    uint64_t serial;
    uint64_t slot;
} refrain_request;

#ifdef __cplusplus
#define REFRAIN_REQUEST_NULL (refrain_request{0, 0})
#else
#define REFRAIN_REQUEST_NULL ((refrain_request){0, 0})
#endif

/* The index that means "none". */
#define REFRAIN_NONE SIZE_MAX

/* Begins a send. */
int refrain_isend(refrain_world *world, const void *data, size_t bytes, int to, int tag,
                  refrain_request *request);

/* Begins a send that ends when the receiver has matched the message. */
int refrain_issend(refrain_world *world, const void *data, size_t bytes, int to, int tag,
                   refrain_request *request);

/* Begins a receive. */
int refrain_irecv(refrain_world *world, void *buffer, size_t bytes, int from, int tag,
                  refrain_request *request);

/* Starts a persistent request that is inactive. */
int refrain_start(refrain_world *world, refrain_request *request);

/* Ends a persistent request that is inactive, and makes it null. REFRAIN_ERR_OPEN: its
 * operation is in progress; wait for it first. */
int refrain_free(refrain_world *world, refrain_request *request);

/* Cancels a receive that has not matched; has no effect on sends, collectives and null
 * requests.
 * The program must still wait for the request; its status says whether the receive
 * was cancelled. */
int refrain_cancel(refrain_world *world, refrain_request *request);

/* Waits for one request. With REFRAIN_ERR_TRUNCATED the request has ended and is
 * null, and the status is written. After other errors it has not ended. */
int refrain_wait(refrain_world *world, refrain_request *request, refrain_status *status);

/* Tests one request: *done is 1 if it has ended, else 0. With REFRAIN_ERR_TRUNCATED
 * as refrain_wait, and *done is 1. */
int refrain_test(refrain_world *world, refrain_request *request, int *done,
                 refrain_status *status);

/* Waits for one of several requests. *index is the request that has ended, or
 * REFRAIN_NONE if all are null. After an error *index is REFRAIN_NONE, or with
 * REFRAIN_ERR_TRUNCATED the request of the truncated message, whose status is
 * written. */
int refrain_wait_any(refrain_world *world, size_t count, refrain_request requests[], size_t *index,
                     refrain_status *status);

/* Tests whether one of several requests has ended: *index is REFRAIN_NONE if not, or
 * if all are null. Otherwise as refrain_wait_any. */
int refrain_test_any(refrain_world *world, size_t count, refrain_request requests[], size_t *index,
                     refrain_status *status);

/* Waits until at least one request has ended. *ended is the number that have ended;
 * it is 0 only if all are null. `indices` and `statuses` have room for `count` entries
 * and receive those that have ended. With REFRAIN_ERR_TRUNCATED all is written as
 * without an error, and the statuses say which messages were too long. After other
 * errors *ended is 0. */
int refrain_wait_some(refrain_world *world, size_t count, refrain_request requests[],
                      size_t *ended, size_t indices[], refrain_status statuses[]);

/* Takes all requests that have ended; possibly none. Otherwise as refrain_wait_some. */
int refrain_test_some(refrain_world *world, size_t count, refrain_request requests[],
                      size_t *ended, size_t indices[], refrain_status statuses[]);

/* Waits for all requests. The statuses are in the order of the requests; those of
 * null requests are undefined. With REFRAIN_ERR_TRUNCATED all have ended and are
 * null, and the statuses say which messages were too long. */
int refrain_wait_all(refrain_world *world, size_t count, refrain_request requests[],
                     refrain_status statuses[]);

/* Tests whether all requests have ended: if so, *done is 1 and all are null. If not,
 * *done is 0 and all requests stay open. REFRAIN_ERR_TRUNCATED as with
 * refrain_wait_all. */
int refrain_test_all(refrain_world *world, size_t count, refrain_request requests[], int *done,
                     refrain_status statuses[]);

/* ---- Probes ------------------------------------------------------------- */

/* A message that a matched probe has taken; no other receive gets it. The program
 * must receive it, which makes the handle null. The fields are private. */
typedef struct refrain_message {
    uint64_t serial;
    uint64_t slot;
} refrain_message;

#ifdef __cplusplus
#define REFRAIN_MESSAGE_NULL (refrain_message{0, 0})
#else
#define REFRAIN_MESSAGE_NULL ((refrain_message){0, 0})
#endif

/* Waits for a message that matches, without taking it. */
int refrain_probe(refrain_world *world, int from, int tag, refrain_status *status);

/* Tests for a message that matches, without taking it: *found is 1 or 0. */
int refrain_iprobe(refrain_world *world, int from, int tag, int *found, refrain_status *status);

/* Waits for a message that matches and takes it. */
int refrain_mprobe(refrain_world *world, int from, int tag, refrain_message *message,
                   refrain_status *status);

/* Tests for a message that matches and takes it: *found is 1, else 0, and then
 * *message is not written. */
int refrain_improbe(refrain_world *world, int from, int tag, int *found, refrain_message *message,
                    refrain_status *status);

/* Receives a message that was taken. With REFRAIN_ERR_TRUNCATED *message is null and
 * the status is written. */
int refrain_mrecv(refrain_world *world, void *buffer, size_t bytes, refrain_message *message,
                  refrain_status *status);

/* Begins the receive of a message that was taken. */
int refrain_imrecv(refrain_world *world, void *buffer, size_t bytes, refrain_message *message,
                   refrain_request *request);

/* ---- Groups ------------------------------------------------------------- */

/* An ordered set of ranks. The number of a member is its place, from 0. A group is the
 * same in each life, so protected memory may contain it. The fields are private. */
typedef struct refrain_group {
    uint64_t serial;
    uint64_t slot;
    uint32_t size;
    uint32_t place;
} refrain_group;

#ifdef __cplusplus
#define REFRAIN_GROUP_NULL (refrain_group{0, 0, 0, 0})
#else
#define REFRAIN_GROUP_NULL ((refrain_group){0, 0, 0, 0})
#endif

/* The color of a member that gets no group. */
#define REFRAIN_NO_COLOR (-1)

/* Returns the group of all ranks, whose places are ranks, or the null group for an
 * error. */
refrain_group refrain_group_all(const refrain_world *world);

/* Returns the number of members, or -1 for an error. */
int refrain_group_size(const refrain_world *world, refrain_group group);

/* Returns the place of this rank, or -1 for an error. */
int refrain_group_place(const refrain_world *world, refrain_group group);

/* Writes the ranks of all members, by place. */
int refrain_group_members(const refrain_world *world, refrain_group group, int ranks[]);

/* Divides a group: members with the same `color`, from 0, become one group, in the
 * order of `key`, and of their places where keys are equal. *part is the group of this
 * rank, or the null group with REFRAIN_NO_COLOR. All members call it. */
int refrain_group_split(refrain_world *world, refrain_group group, int color, int64_t key,
                        refrain_group *part);

/* Makes a group with the same members. All members call it. */
int refrain_group_duplicate(refrain_world *world, refrain_group group, refrain_group *copy);

/* Forgets a group, and makes it null. Members may do so at different times. The group of
 * all ranks cannot be released. */
int refrain_group_release(refrain_world *world, refrain_group *group);

/* ---- Collectives -------------------------------------------------------- */

/* All members of a group do the same collectives, in the same order. A collective is a
 * value, which one of three functions takes:
 *
 *   refrain_do(world, refrain_bcast(all, 0, &n, 1, REFRAIN_INT32));
 *   refrain_begin(world, refrain_allreduce(all, in, out, n, REFRAIN_DOUBLE, REFRAIN_SUM),
 *                 &request);
 *   refrain_prepare(world, refrain_alltoall(all, in, out, n, REFRAIN_FLOAT), &request);
 *
 * Each does what the collective of MPI with this name does. The result of a reduction
 * has the same bits in each run and after each recovery.
 *
 * Counts and starts are in elements. A block of a buffer is the part that belongs to one
 * member; blocks are in the order of places. Where the caller lists blocks, `counts` has
 * their lengths, and `starts` their first elements; without `starts` (NULL) each begins
 * where the one before it ends. The lists are used only during the call.
 *
 * Elements lie one behind the other, unless refrain_with_layouts says where they are.
 *
 * Input and output must not overlap. NULL is a buffer of 0 elements; it may be passed
 * where the collective does not use the buffer of this member.
 *
 * REFRAIN_IN_PLACE as the input: the contribution of the member is in its output, where
 * MPI has it for MPI_IN_PLACE. With refrain_gather(v) and refrain_reduce only the root
 * may pass it. With refrain_scatter(v) the root may pass it as the output: its block stays
 * in the input. With other collectives all members pass it, or none. */
#define REFRAIN_IN_PLACE ((void *)UINTPTR_MAX)

/* The type of elements: a constant of enum refrain_element, or one of the macros below. */
typedef uint64_t refrain_type;

enum refrain_element {
    REFRAIN_INT8 = 1,
    REFRAIN_INT16 = 2,
    REFRAIN_INT32 = 3,
    REFRAIN_INT64 = 4,
    REFRAIN_UINT8 = 5,
    REFRAIN_UINT16 = 6,
    REFRAIN_UINT32 = 7,
    REFRAIN_UINT64 = 8,
    REFRAIN_FLOAT = 9,
    REFRAIN_DOUBLE = 10,
    /* Real part, then imaginary part, as float or double. */
    REFRAIN_FLOAT_COMPLEX = 11,
    REFRAIN_DOUBLE_COMPLEX = 12,
    /* A truth value in one byte. */
    REFRAIN_BOOL = 13,
    /* A byte that is no number. */
    REFRAIN_BYTE = 14,
    /* long double, and a real and an imaginary part of it. Sums and products have the bits
     * that C computes, and take much longer. */
    REFRAIN_LONG_DOUBLE = 15,
    REFRAIN_LONG_DOUBLE_COMPLEX = 16
};

/* A struct of a value and where it is, both numbers, for REFRAIN_MINLOC and
 * REFRAIN_MAXLOC: REFRAIN_LOCATED(REFRAIN_DOUBLE, REFRAIN_INT32) is the type of
 * struct { double value; int32_t index; }. */
#define REFRAIN_LOCATED(value, index) ((refrain_type)(0x100 | (value) << 4 | (index)))

/* An element of `bytes` bytes, at least 1: moved as it is, and combined only by operators
 * of the program. */
#define REFRAIN_BYTES(bytes) ((refrain_type)(bytes) << 16)

/* Combines `count` elements of the program's type: right = left o right. The function
 * must be associative, must depend on nothing but its operands and `context`, must not
 * call this library, and must return. Operands are aligned as in memory from malloc if
 * the buffers of the collective are. */
typedef void refrain_combine(const void *left, void *right, uint64_t count, void *context);

/* How elements are combined. The fields are private. */
typedef struct refrain_operator {
    uint32_t code;
    int32_t commutative;
    refrain_combine *combine;
    void *context;
} refrain_operator;

#ifdef __cplusplus
#define REFRAIN_OPERATOR(code) (refrain_operator{code, 1, NULL, NULL})
#else
#define REFRAIN_OPERATOR(code) ((refrain_operator){code, 1, NULL, NULL})
#endif

/* Numbers. SUM and PRODUCT also complex numbers. Integers wrap around. */
#define REFRAIN_SUM REFRAIN_OPERATOR(1)
#define REFRAIN_PRODUCT REFRAIN_OPERATOR(2)
#define REFRAIN_MIN REFRAIN_OPERATOR(3)
#define REFRAIN_MAX REFRAIN_OPERATOR(4)
/* Integers and REFRAIN_BOOL: 0 is false, the result is 0 or 1. */
#define REFRAIN_LAND REFRAIN_OPERATOR(5)
#define REFRAIN_LOR REFRAIN_OPERATOR(6)
#define REFRAIN_LXOR REFRAIN_OPERATOR(7)
/* Integers and REFRAIN_BYTE. */
#define REFRAIN_BAND REFRAIN_OPERATOR(8)
#define REFRAIN_BOR REFRAIN_OPERATOR(9)
#define REFRAIN_BXOR REFRAIN_OPERATOR(10)
/* REFRAIN_LOCATED. Of equal values, the one with the lower index. */
#define REFRAIN_MINLOC REFRAIN_OPERATOR(11)
#define REFRAIN_MAXLOC REFRAIN_OPERATOR(12)

/* An operator of the program, for elements of any type. `commutative`: 1 if operands may
 * change places. Function and context must stay valid until the collective has ended; of
 * a persistent one until refrain_free. */
static inline refrain_operator refrain_own(refrain_combine *combine, void *context,
                                           int commutative)
{
    refrain_operator it = REFRAIN_OPERATOR(13);
    it.combine = combine;
    it.context = context;
    it.commutative = commutative != 0;
    return it;
}

/* The edges of a graph at one member: the places from which edges come, and those to
 * which edges go. Of several edges from a member to another one, the first of its
 * destinations is the first of the other one's sources, and so on. */
typedef struct refrain_neighbours {
    const int *sources;
    const int *destinations;
    uint32_t source_count;
    uint32_t destination_count;
} refrain_neighbours;

enum refrain_operation {
    REFRAIN_OP_BARRIER = 1,
    REFRAIN_OP_BCAST = 2,
    REFRAIN_OP_GATHER = 3,
    REFRAIN_OP_GATHERV = 4,
    REFRAIN_OP_SCATTER = 5,
    REFRAIN_OP_SCATTERV = 6,
    REFRAIN_OP_ALLGATHER = 7,
    REFRAIN_OP_ALLGATHERV = 8,
    REFRAIN_OP_ALLTOALL = 9,
    REFRAIN_OP_ALLTOALLV = 10,
    REFRAIN_OP_REDUCE = 11,
    REFRAIN_OP_ALLREDUCE = 12,
    REFRAIN_OP_REDUCE_SCATTER_BLOCK = 13,
    REFRAIN_OP_REDUCE_SCATTER = 14,
    REFRAIN_OP_SCAN = 15,
    REFRAIN_OP_EXSCAN = 16,
    REFRAIN_OP_NEIGHBOUR_ALLGATHER = 17,
    REFRAIN_OP_NEIGHBOUR_ALLGATHERV = 18,
    REFRAIN_OP_NEIGHBOUR_ALLTOALL = 19,
    REFRAIN_OP_NEIGHBOUR_ALLTOALLV = 20,
    REFRAIN_OP_ALLTOALLW = 21,
    REFRAIN_OP_NEIGHBOUR_ALLTOALLW = 22
};

/* `bytes` bytes, the first of them `offset` bytes behind an address. */
typedef struct refrain_span {
    int64_t offset;
    uint64_t bytes;
} refrain_span;

/* Which bytes of a buffer hold elements that do not lie one behind the other: the bytes of
 * all spans, in the order of the list, `repeats` times, each time `stride` bytes further.
 * If the elements take more bytes, they go on in copies of the layout, each `extent` bytes
 * behind the previous one. Offsets, stride and extent may be negative; spans that are
 * written must not overlap. The offsets of a buffer that is NULL are addresses.
 *
 * A call reads the layouts and their spans, which may change after it. */
typedef struct refrain_layout {
    const refrain_span *spans;
    uint64_t span_count;
    int64_t stride;
    uint64_t repeats;
    int64_t extent;
} refrain_layout;

/* A block of refrain_alltoallw: `count` copies of a layout, the first of them `offset`
 * bytes behind the beginning of the buffer. */
typedef struct refrain_laid_out {
    const refrain_layout *layout;
    uint64_t count;
    int64_t offset;
} refrain_laid_out;

/* A collective at one member, with its buffers. C programs make it with the functions
 * below. Programs in other languages fill in what these do; other fields are 0. */
typedef struct refrain_collective {
    refrain_group group;
    refrain_type type;
    refrain_operator by;
    const void *input;
    void *output;
    /* Elements of a vector, or of each block that is not listed. */
    uint64_t count;
    const uint64_t *input_counts;
    const uint64_t *input_starts;
    const uint64_t *output_counts;
    const uint64_t *output_starts;
    refrain_neighbours neighbours;
    const refrain_layout *input_layout;
    const refrain_layout *output_layout;
    const refrain_laid_out *input_blocks;
    const refrain_laid_out *output_blocks;
    /* enum refrain_operation */
    int32_t operation;
    int32_t root;
} refrain_collective;

/* Does a collective: returns when the part of this member is complete.
 * REFRAIN_ERR_ARGUMENT: the arguments do not fit each other, or a message shows that
 * another member called with other arguments. */
int refrain_do(refrain_world *world, refrain_collective collective);

/* Begins a collective. Many may be in progress, also of one group. A status of the
 * request says nothing about the collective. */
int refrain_begin(refrain_world *world, refrain_collective collective, refrain_request *request);

/* Prepares a persistent collective. All members prepare it. Its buffers belong to the
 * library while it is active. */
int refrain_prepare(refrain_world *world, refrain_collective collective,
                    refrain_request *request);

#ifdef __GNUC__
#define REFRAIN_MAKER static inline __attribute__((warn_unused_result))
#else
#define REFRAIN_MAKER static inline
#endif

REFRAIN_MAKER refrain_collective refrain_describe(int operation, refrain_group group, int root,
                                                  const void *input, void *output,
                                                  uint64_t count, refrain_type type,
                                                  refrain_operator by)
{
    refrain_collective it = {group, type, by, input, output, count, NULL, NULL, NULL, NULL,
                             {NULL, NULL, 0, 0}, NULL, NULL, NULL, NULL, operation, root};
    return it;
}

/* The same collective, with the elements of input and output where a layout says; NULL:
 * they lie one behind the other. Counts and starts stay in elements, which fill the bytes
 * of the layouts one after the other: all in all, whole layouts. Each member chooses its
 * layouts. Collectives that combine have none.
 *
 *   refrain_span part = {0, sizeof(double)};
 *   refrain_layout column = {&part, 1, columns * sizeof(double), rows, sizeof(double)};
 *   refrain_do(world, refrain_with_layouts(
 *                  refrain_alltoall(all, in, out, n * rows, REFRAIN_DOUBLE), &column, NULL));
 */
REFRAIN_MAKER refrain_collective refrain_with_layouts(refrain_collective collective,
                                                      const refrain_layout *input,
                                                      const refrain_layout *output)
{
    collective.input_layout = input;
    collective.output_layout = output;
    return collective;
}

/* Ends at each member when all members have begun it. */
REFRAIN_MAKER refrain_collective refrain_barrier_of(refrain_group group)
{
    return refrain_describe(REFRAIN_OP_BARRIER, group, 0, NULL, NULL, 0, REFRAIN_BYTE,
                            REFRAIN_OPERATOR(0));
}

/* `data` of the root goes to all members. */
REFRAIN_MAKER refrain_collective refrain_bcast(refrain_group group, int root, void *data,
                                               uint64_t count, refrain_type type)
{
    return refrain_describe(REFRAIN_OP_BCAST, group, root, NULL, data, count, type,
                            REFRAIN_OPERATOR(0));
}

/* `count` elements of each member go to the output of the root, a block each. */
REFRAIN_MAKER refrain_collective refrain_gather(refrain_group group, int root, const void *input,
                                                void *output, uint64_t count, refrain_type type)
{
    return refrain_describe(REFRAIN_OP_GATHER, group, root, input, output, count, type,
                            REFRAIN_OPERATOR(0));
}

/* The same with blocks of any lengths: `count` is that of this member. Only the root
 * lists blocks. */
REFRAIN_MAKER refrain_collective refrain_gatherv(refrain_group group, int root, const void *input,
                                                 uint64_t count, void *output,
                                                 const uint64_t counts[], const uint64_t starts[],
                                                 refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_GATHERV, group, root, input, output, count,
                                             type, REFRAIN_OPERATOR(0));
    it.output_counts = counts;
    it.output_starts = starts;
    return it;
}

/* Each member gets a block of `count` elements of the input of the root. */
REFRAIN_MAKER refrain_collective refrain_scatter(refrain_group group, int root, const void *input,
                                                 void *output, uint64_t count, refrain_type type)
{
    return refrain_describe(REFRAIN_OP_SCATTER, group, root, input, output, count, type,
                            REFRAIN_OPERATOR(0));
}

/* The same with blocks of any lengths: `count` is that of this member. Only the root
 * lists blocks. */
REFRAIN_MAKER refrain_collective refrain_scatterv(refrain_group group, int root,
                                                  const void *input, const uint64_t counts[],
                                                  const uint64_t starts[], void *output,
                                                  uint64_t count, refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_SCATTERV, group, root, input, output,
                                             count, type, REFRAIN_OPERATOR(0));
    it.input_counts = counts;
    it.input_starts = starts;
    return it;
}

/* `count` elements of each member go to the output of all members, a block each. */
REFRAIN_MAKER refrain_collective refrain_allgather(refrain_group group, const void *input,
                                                   void *output, uint64_t count,
                                                   refrain_type type)
{
    return refrain_describe(REFRAIN_OP_ALLGATHER, group, 0, input, output, count, type,
                            REFRAIN_OPERATOR(0));
}

/* The same with blocks of any lengths. `counts` is the same at all members; that of this
 * member is the length of its input. */
REFRAIN_MAKER refrain_collective refrain_allgatherv(refrain_group group, const void *input,
                                                    void *output, const uint64_t counts[],
                                                    const uint64_t starts[], refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_ALLGATHERV, group, 0, input, output, 0,
                                             type, REFRAIN_OPERATOR(0));
    it.output_counts = counts;
    it.output_starts = starts;
    return it;
}

/* Block `b` of the input of member `a` goes to block `a` of the output of member `b`.
 * Each block has `count` elements. */
REFRAIN_MAKER refrain_collective refrain_alltoall(refrain_group group, const void *input,
                                                  void *output, uint64_t count, refrain_type type)
{
    return refrain_describe(REFRAIN_OP_ALLTOALL, group, 0, input, output, count, type,
                            REFRAIN_OPERATOR(0));
}

/* The same with blocks of any lengths. In place, the lists of the input are not used. */
REFRAIN_MAKER refrain_collective
refrain_alltoallv(refrain_group group, const void *input, const uint64_t input_counts[],
                  const uint64_t input_starts[], void *output, const uint64_t output_counts[],
                  const uint64_t output_starts[], refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_ALLTOALLV, group, 0, input, output, 0,
                                             type, REFRAIN_OPERATOR(0));
    it.input_counts = input_counts;
    it.input_starts = input_starts;
    it.output_counts = output_counts;
    it.output_starts = output_starts;
    return it;
}

/* The same with a layout of its own for each block: block `b` of the input of member `a`
 * has as many bytes as block `a` of the output of member `b`. In place, `input_blocks` is
 * not used. */
REFRAIN_MAKER refrain_collective refrain_alltoallw(refrain_group group, const void *input,
                                                   const refrain_laid_out input_blocks[],
                                                   void *output,
                                                   const refrain_laid_out output_blocks[])
{
    refrain_collective it = refrain_describe(REFRAIN_OP_ALLTOALLW, group, 0, input, output, 0,
                                             REFRAIN_BYTE, REFRAIN_OPERATOR(0));
    it.input_blocks = input_blocks;
    it.output_blocks = output_blocks;
    return it;
}

/* `count` elements of all members, combined, go to the output of the root. */
REFRAIN_MAKER refrain_collective refrain_reduce(refrain_group group, int root, const void *input,
                                                void *output, uint64_t count, refrain_type type,
                                                refrain_operator by)
{
    return refrain_describe(REFRAIN_OP_REDUCE, group, root, input, output, count, type, by);
}

/* `count` elements of all members, combined, go to the output of all members. */
REFRAIN_MAKER refrain_collective refrain_allreduce(refrain_group group, const void *input,
                                                   void *output, uint64_t count, refrain_type type,
                                                   refrain_operator by)
{
    return refrain_describe(REFRAIN_OP_ALLREDUCE, group, 0, input, output, count, type, by);
}

/* Block `i` of all inputs, combined, goes to the output of member `i`. Each block has
 * `count` elements. In place, the result is at the beginning of the output. */
REFRAIN_MAKER refrain_collective refrain_reduce_scatter_block(refrain_group group,
                                                              const void *input, void *output,
                                                              uint64_t count, refrain_type type,
                                                              refrain_operator by)
{
    return refrain_describe(REFRAIN_OP_REDUCE_SCATTER_BLOCK, group, 0, input, output, count, type,
                            by);
}

/* The same with blocks of any lengths. `counts` is the same at all members. */
REFRAIN_MAKER refrain_collective refrain_reduce_scatter(refrain_group group, const void *input,
                                                        void *output, const uint64_t counts[],
                                                        refrain_type type, refrain_operator by)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_REDUCE_SCATTER, group, 0, input, output, 0,
                                             type, by);
    it.input_counts = counts;
    return it;
}

/* `count` elements of all members up to this one, combined in the order of places, go to
 * the output. */
REFRAIN_MAKER refrain_collective refrain_scan(refrain_group group, const void *input, void *output,
                                              uint64_t count, refrain_type type,
                                              refrain_operator by)
{
    return refrain_describe(REFRAIN_OP_SCAN, group, 0, input, output, count, type, by);
}

/* The same without this member. The output of member 0 is not changed. */
REFRAIN_MAKER refrain_collective refrain_exscan(refrain_group group, const void *input,
                                                void *output, uint64_t count, refrain_type type,
                                                refrain_operator by)
{
    return refrain_describe(REFRAIN_OP_EXSCAN, group, 0, input, output, count, type, by);
}

/* `count` elements of each member go along all its edges. The output has a block of
 * `count` elements for each source. */
REFRAIN_MAKER refrain_collective refrain_neighbour_allgather(refrain_group group,
                                                             refrain_neighbours neighbours,
                                                             const void *input, void *output,
                                                             uint64_t count, refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_NEIGHBOUR_ALLGATHER, group, 0, input,
                                             output, count, type, REFRAIN_OPERATOR(0));
    it.neighbours = neighbours;
    return it;
}

/* The same with blocks of any lengths: `count` is that of this member. */
REFRAIN_MAKER refrain_collective
refrain_neighbour_allgatherv(refrain_group group, refrain_neighbours neighbours, const void *input,
                             uint64_t count, void *output, const uint64_t counts[],
                             const uint64_t starts[], refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_NEIGHBOUR_ALLGATHERV, group, 0, input,
                                             output, count, type, REFRAIN_OPERATOR(0));
    it.neighbours = neighbours;
    it.output_counts = counts;
    it.output_starts = starts;
    return it;
}

/* A block of `count` elements goes along each edge: the input has one for each
 * destination, the output one for each source. */
REFRAIN_MAKER refrain_collective refrain_neighbour_alltoall(refrain_group group,
                                                            refrain_neighbours neighbours,
                                                            const void *input, void *output,
                                                            uint64_t count, refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_NEIGHBOUR_ALLTOALL, group, 0, input, output,
                                             count, type, REFRAIN_OPERATOR(0));
    it.neighbours = neighbours;
    return it;
}

/* The same with blocks of any lengths. */
REFRAIN_MAKER refrain_collective
refrain_neighbour_alltoallv(refrain_group group, refrain_neighbours neighbours, const void *input,
                            const uint64_t input_counts[], const uint64_t input_starts[],
                            void *output, const uint64_t output_counts[],
                            const uint64_t output_starts[], refrain_type type)
{
    refrain_collective it = refrain_describe(REFRAIN_OP_NEIGHBOUR_ALLTOALLV, group, 0, input,
                                             output, 0, type, REFRAIN_OPERATOR(0));
    it.neighbours = neighbours;
    it.input_counts = input_counts;
    it.input_starts = input_starts;
    it.output_counts = output_counts;
    it.output_starts = output_starts;
    return it;
}

/* The same with a layout of its own for each block. */
REFRAIN_MAKER refrain_collective refrain_neighbour_alltoallw(
    refrain_group group, refrain_neighbours neighbours, const void *input,
    const refrain_laid_out input_blocks[], void *output, const refrain_laid_out output_blocks[])
{
    refrain_collective it = refrain_describe(REFRAIN_OP_NEIGHBOUR_ALLTOALLW, group, 0, input,
                                             output, 0, REFRAIN_BYTE, REFRAIN_OPERATOR(0));
    it.neighbours = neighbours;
    it.input_blocks = input_blocks;
    it.output_blocks = output_blocks;
    return it;
}

/* ---- Checkpoints -------------------------------------------------------- */

/* Adds `bytes` bytes at `memory` to the checkpoints of this rank, as the section `id`.
 * A second call with the same id replaces the first. refrain_checkpoint reads the
 * memory and refrain_restored writes it, so it must stay valid until
 * refrain_unprotect, refrain_finalize, or until it is replaced. */
int refrain_protect(refrain_world *world, uint64_t id, void *memory, size_t bytes);

/* Removes a section. REFRAIN_ERR_ARGUMENT: there is no section `id`. */
int refrain_unprotect(refrain_world *world, uint64_t id);

/* Restores the checkpoint that this process continues from, if any. *number is 0 if
 * there is none: the program begins at its beginning. Otherwise *number is the number
 * of the checkpoint, from 1, all protected memory has its contents of then, and the
 * program continues where it took the checkpoint. Must be called after refrain_protect
 * and before any operation; operations fail until then. REFRAIN_ERR_CHECKPOINT: the
 * sections of the checkpoint and the protected sections differ in number or length;
 * nothing was restored, and the call may be repeated. */
int refrain_restored(refrain_world *world, uint64_t *number);

/* Writes the length of a section before refrain_restored, for memory whose size
 * depends on the checkpoint: *found is 1 and *bytes is the length if this process
 * continues from a checkpoint with section `id`, else both are 0. */
int refrain_restored_bytes(refrain_world *world, uint64_t id, int *found, uint64_t *bytes);

/* Takes a checkpoint of this rank: the protected memory and the state of the library.
 * Returns when it is stable. No other rank takes part. *number is the number of the
 * checkpoint, or 0 if none was taken, because the job stores no checkpoints or because
 * this process is in its replay; so messages and output must not depend on it.
 * `number` may be NULL. Persistent requests that are inactive may stay; a process that
 * continues from the checkpoint prepares them again. REFRAIN_ERR_OPEN: requests were not
 * waited for, or messages of matched probes not received. REFRAIN_ERR_CHECKPOINT: it could
 * not be written; earlier checkpoints are unchanged. */
int refrain_checkpoint(refrain_world *world, uint64_t *number);

/* Asks whether the job requests a checkpoint of this rank: *requested is 1 once for
 * each request. A program may only use it to decide whether to take a checkpoint. */
int refrain_checkpoint_requested(refrain_world *world, int *requested);

#ifdef __cplusplus
}
#endif

#endif
