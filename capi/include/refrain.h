/* refrain.h: Refrain for programs in C (C11 or newer) and C++ (C++11 or newer).
 *
 * A program calls refrain_init, talks, and calls refrain_finalize. The command
 * `refrain run -n N -- program` starts N ranks of it; without a launcher it is a
 * job of one rank. docs/guide/embedding-c.md says how to build and link, and what a
 * program has to keep so that a rank that is killed can go on.
 *
 * Errors. Functions that return `int` and of which nothing else is said return
 * REFRAIN_OK (0) or a code of enum refrain_error; refrain_last_error has the text.
 * After an error nothing has been written through the pointers of the call, unless
 * its description says so. NULL, ranks that do not exist, handles that are over and
 * lengths above PTRDIFF_MAX are errors. Pointers to something else than what the
 * call asks for are not noticed.
 *
 * Threads. A world belongs to the thread that made it; for others it does not
 * exist. Signal handlers and forked children must not call any function of this
 * library.
 *
 * Buffers. A blocking call uses its buffers until it returns. Those of a request
 * belong to the library until a call has told of the request's end: until then,
 * nobody may free or change data that is sent, nor free, read or change room that
 * is received into. A buffer of 0 bytes may be NULL.
 */
#ifndef REFRAIN_H
#define REFRAIN_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What went wrong ---------------------------------------------------- */

/* The API that this header describes. The library's is refrain_api_version(). */
#define REFRAIN_API_VERSION 1

enum refrain_error {
    REFRAIN_OK = 0,
    /* An argument that cannot be. */
    REFRAIN_ERR_ARGUMENT = 1,
    /* This thread has no such world, or has one already; or this process is a forked
     * child of a rank. */
    REFRAIN_ERR_WORLD = 2,
    /* The request or message is over, or is named twice in one call. */
    REFRAIN_ERR_REQUEST = 3,
    /* The job has no such rank. */
    REFRAIN_ERR_RANK = 4,
    /* A message was longer than its buffer, which holds its beginning; the rest is
     * lost. */
    REFRAIN_ERR_TRUNCATED = 5,
    /* Requests or messages of matched probes are open. */
    REFRAIN_ERR_OPEN = 6,
    /* The payload log is full, and nothing of it came free. */
    REFRAIN_ERR_LOG_FULL = 7,
    /* A send waited too long for its events to become stable. */
    REFRAIN_ERR_EVENTS = 8,
    /* What carries messages has failed. */
    REFRAIN_ERR_FABRIC = 9,
    /* This rank cannot go on. After a restart also: the program did not do the same
     * again; the text names the operation. */
    REFRAIN_ERR_ENGINE = 10,
    /* The launcher cannot be reached. */
    REFRAIN_ERR_CONTROL = 11,
    /* The launcher ends the job. */
    REFRAIN_ERR_ABORTED = 12,
    /* The job's settings cannot be used. */
    REFRAIN_ERR_CONFIG = 13,
    /* A checkpoint cannot be written, or does not fit the memory it is to go to, or
     * was not loaded yet. */
    REFRAIN_ERR_CHECKPOINT = 14,
    /* A defect of the library. The world cannot be used any more. */
    REFRAIN_ERR_INTERNAL = 15
};

/* The version of the library's API. This header fits if it is
 * REFRAIN_API_VERSION. Never fails. */
int refrain_api_version(void);

/* What went wrong in the last call of this thread that failed, and what to do about
 * it; "" if none has. Never NULL. The text belongs to the library, has at most 2047 bytes,
 * and is valid until the next call of this thread that fails. */
const char *refrain_last_error(void);

/* The name of a code: "REFRAIN_ERR_RANK". Of an unknown one: "unknown". Never
 * fails. */
const char *refrain_error_name(int code);

/* ---- Being part of a job ------------------------------------------------ */

/* A rank's view of its job. */
typedef struct refrain_world refrain_world;

/* Joins the job of the launcher that started this process, or makes a job of one
 * rank if none did. A thread has one world at a time, and a process joins its job
 * once. In a process that was started in the place of one that died, the program
 * runs as ever: what it does first is played again. After an error *world is NULL. */
int refrain_init(refrain_world **world);

/* Leaves the job in order: waits until every rank has come here and all that this
 * rank sent is on its way. Whatever it returns, the world is gone, but for
 * REFRAIN_ERR_WORLD and REFRAIN_ERR_OPEN: then nothing has happened. */
int refrain_finalize(refrain_world *world);

/* This rank, from 0. -1 for an error. */
int refrain_rank(const refrain_world *world);

/* Ranks of the job. -1 for an error. */
int refrain_size(const refrain_world *world);

/* How often this rank was started before. -1 for an error. What a program sends must
 * not depend on it. */
int64_t refrain_incarnation(const refrain_world *world);

/* 1 if a rank that is killed is started again and goes on where it was, 0 if its
 * death ends the job, -1 for an error. */
int refrain_recovers(const refrain_world *world);

/* Returns when every rank has called it. */
int refrain_barrier(refrain_world *world);

/* The time: *seconds since the job began, in steps of a nanosecond. It never goes
 * back, also not from one life of the rank to the next; ranks of different hosts may
 * differ by as much as their hosts' clocks. With a protocol that can recover, each time
 * is recorded: in its replay, a rank that was started again gets the recorded times. So
 * messages may depend on them, unless the job runs with `--record-clocks off`. May be
 * called before refrain_restored: then the time is not recorded. */
int refrain_wtime(refrain_world *world, double *seconds);

/* Lets messages arrive and leave, and asks for none. For programs that compute for
 * long. */
int refrain_progress(refrain_world *world);

/* ---- Messages ----------------------------------------------------------- */

/* Receive from whoever comes first. */
#define REFRAIN_ANY_SOURCE (-1)
/* Receive whatever tag comes first. Every other int is a tag. */
#define REFRAIN_ANY_TAG INT_MIN

/* What is known of a message. Where a pointer to one may be given, it may be
 * NULL. */
typedef struct refrain_status {
    /* Length of the message, also if the buffer was shorter. */
    uint64_t bytes;
    /* Its sender (of a send: its receiver). */
    int32_t source;
    int32_t tag;
    /* 1: the receive was cancelled, and there is no message. */
    int32_t cancelled;
    /* 1: the message was longer than the buffer; the rest is lost. */
    int32_t truncated;
} refrain_status;

/* Sends `bytes` bytes and returns when the data may be changed again, which is as
 * soon as it is in the log. */
int refrain_send(refrain_world *world, const void *data, size_t bytes, int to, int tag);

/* Sends and returns when the receiver has matched the message. */
int refrain_ssend(refrain_world *world, const void *data, size_t bytes, int to, int tag);

/* Receives the earliest message that fits, waiting for it. For REFRAIN_ERR_TRUNCATED
 * the status is written, too. */
int refrain_recv(refrain_world *world, void *buffer, size_t bytes, int from, int tag,
                 refrain_status *status);

/* Sends and receives at once; neither waits for the other. The two buffers must not
 * overlap. Else as refrain_recv. */
int refrain_sendrecv(refrain_world *world, const void *data, size_t data_bytes, int to, int to_tag,
                     void *buffer, size_t buffer_bytes, int from, int from_tag,
                     refrain_status *status);

/* ---- Requests ----------------------------------------------------------- */

/* An operation that was begun. It has to be waited for, or tested until it has
 * ended; a call that tells of its end makes it null. A copy that is used after that
 * is an error. Null requests count as ended. The fields are the library's. */
typedef struct refrain_request {
    uint64_t serial;
    uint64_t slot;
} refrain_request;

#ifdef __cplusplus
#define REFRAIN_REQUEST_NULL (refrain_request{0, 0})
#else
#define REFRAIN_REQUEST_NULL ((refrain_request){0, 0})
#endif

/* The index that stands for none. */
#define REFRAIN_NONE SIZE_MAX

/* Begins a send. */
int refrain_isend(refrain_world *world, const void *data, size_t bytes, int to, int tag,
                  refrain_request *request);

/* Begins a send that ends when the receiver has matched it. */
int refrain_issend(refrain_world *world, const void *data, size_t bytes, int to, int tag,
                   refrain_request *request);

/* Begins a receive. */
int refrain_irecv(refrain_world *world, void *buffer, size_t bytes, int from, int tag,
                  refrain_request *request);

/* Cancels a receive, unless it has matched already; of a send and a null request it
 * does nothing. It still has to be waited for: its status tells what came of it. */
int refrain_cancel(refrain_world *world, refrain_request *request);

/* Waits for one request. REFRAIN_ERR_TRUNCATED: it has ended, it is null and the
 * status is written. Other errors: it has not ended. */
int refrain_wait(refrain_world *world, refrain_request *request, refrain_status *status);

/* Asks whether one request has ended: *done is 1 then, else 0. For
 * REFRAIN_ERR_TRUNCATED as refrain_wait, with *done 1. */
int refrain_test(refrain_world *world, refrain_request *request, int *done,
                 refrain_status *status);

/* Waits for one of several requests: *index is which, or REFRAIN_NONE when all are
 * null. *index is written also after an error: REFRAIN_NONE, or with
 * REFRAIN_ERR_TRUNCATED the request whose message it was, and its status. */
int refrain_wait_any(refrain_world *world, size_t count, refrain_request requests[], size_t *index,
                     refrain_status *status);

/* Asks whether one of several requests has ended: *index is REFRAIN_NONE if not, or
 * when all are null. Else as refrain_wait_any. */
int refrain_test_any(refrain_world *world, size_t count, refrain_request requests[], size_t *index,
                     refrain_status *status);

/* Waits until at least one request has ended. *ended is how many have, 0 only when
 * all are null; indices and statuses have room for `count`, and get those that have
 * ended. With REFRAIN_ERR_TRUNCATED all is written as without an error, and the
 * statuses say which messages were too long. After other errors *ended is 0. */
int refrain_wait_some(refrain_world *world, size_t count, refrain_request requests[],
                      size_t *ended, size_t indices[], refrain_status statuses[]);

/* Takes all requests that have ended; perhaps none. Else as refrain_wait_some. */
int refrain_test_some(refrain_world *world, size_t count, refrain_request requests[],
                      size_t *ended, size_t indices[], refrain_status statuses[]);

/* Waits for all requests. Statuses come in the order of the requests; those of null
 * ones are of no meaning. REFRAIN_ERR_TRUNCATED: all have ended and are null, and the
 * statuses say which messages were too long. */
int refrain_wait_all(refrain_world *world, size_t count, refrain_request requests[],
                     refrain_status statuses[]);

/* Asks whether all requests have ended: *done is 1 then, and all are null. Else *done
 * is 0, and none is taken. REFRAIN_ERR_TRUNCATED as with refrain_wait_all. */
int refrain_test_all(refrain_world *world, size_t count, refrain_request requests[], int *done,
                     refrain_status statuses[]);

/* ---- Probes ------------------------------------------------------------- */

/* A message that a matched probe took; no other receive gets it. It has to be
 * received; that makes it null. The fields are the library's. */
typedef struct refrain_message {
    uint64_t serial;
    uint64_t slot;
} refrain_message;

#ifdef __cplusplus
#define REFRAIN_MESSAGE_NULL (refrain_message{0, 0})
#else
#define REFRAIN_MESSAGE_NULL ((refrain_message){0, 0})
#endif

/* Waits until there is a message that fits, and leaves it there. */
int refrain_probe(refrain_world *world, int from, int tag, refrain_status *status);

/* Looks whether there is a message that fits, and leaves it there: *found is 1 then,
 * else 0. */
int refrain_iprobe(refrain_world *world, int from, int tag, int *found, refrain_status *status);

/* Waits until there is a message that fits, and takes it. */
int refrain_mprobe(refrain_world *world, int from, int tag, refrain_message *message,
                   refrain_status *status);

/* Looks whether there is a message that fits, and takes it: *found is 1 then, else 0,
 * and *message is not written. */
int refrain_improbe(refrain_world *world, int from, int tag, int *found, refrain_message *message,
                    refrain_status *status);

/* Receives a message that was taken. For REFRAIN_ERR_TRUNCATED *message is null, and
 * the status is written. */
int refrain_mrecv(refrain_world *world, void *buffer, size_t bytes, refrain_message *message,
                  refrain_status *status);

/* Begins the receive of a message that was taken. */
int refrain_imrecv(refrain_world *world, void *buffer, size_t bytes, refrain_message *message,
                   refrain_request *request);

/* ---- Checkpoints -------------------------------------------------------- */

/* Says that `bytes` bytes at `memory` belong to the checkpoints of this rank, under a
 * number of the program's choice; no two have the same, and the second takes the
 * place of the first. The memory must stay until refrain_unprotect,
 * refrain_finalize, or until another takes its place: it is read by
 * refrain_checkpoint and written by refrain_restored. */
int refrain_protect(refrain_world *world, uint64_t id, void *memory, size_t bytes);

/* Takes refrain_protect back. REFRAIN_ERR_ARGUMENT: no memory has this number. */
int refrain_unprotect(refrain_world *world, uint64_t id);

/* Whether this process goes on from a checkpoint. *number is 0 if not: it begins at
 * its beginning. Else it is the checkpoint's, from 1, and all protected memory has
 * been filled with what it held then: the program goes on where it took the
 * checkpoint. To be called behind refrain_protect and before any operation;
 * operations fail otherwise. REFRAIN_ERR_CHECKPOINT: the sections of the checkpoint
 * are not those that are protected, with the same lengths; nothing was filled, and it
 * may be called again. */
int refrain_restored(refrain_world *world, uint64_t *number);

/* Before refrain_restored, for memory whose length the checkpoint decides: *found is
 * 1 and *bytes the length if this process goes on from a checkpoint with a section of
 * this number, else both are 0. */
int refrain_restored_bytes(refrain_world *world, uint64_t id, int *found, uint64_t *bytes);

/* Takes a checkpoint of this rank, of the protected memory and all that the library
 * needs, and returns when it is stable. No other rank takes part. *number (which may
 * be NULL) is its number, or 0: none was taken, since there is no place for any, or
 * since this process plays its past again. So nothing that is sent or printed may
 * depend on it. REFRAIN_ERR_OPEN: requests were not waited for, or messages of
 * matched probes not received. REFRAIN_ERR_CHECKPOINT: it could not be written; the
 * checkpoints before are as they were. */
int refrain_checkpoint(refrain_world *world, uint64_t *number);

/* Whether the job asks this rank for a checkpoint: *requested is 1 once for each
 * time. A program may only decide by it whether it takes one. */
int refrain_checkpoint_requested(refrain_world *world, int *requested);

#ifdef __cplusplus
}
#endif

#endif
