/* Wrong arguments are errors of their class, and are given to the right error handler. */
#include <mpi.h>
#include <stdio.h>

static int calls;

static void handle(MPI_Comm *comm, int *code, ...)
{
    calls += *comm == MPI_COMM_NULL && *code == MPI_ERR_GROUP;
}

#define EXPECT(class, call) \
    do { \
        int code = call, found = -1; \
        MPI_Error_class(code, &found); \
        if (found != (class)) \
            printf("%s: class %d\n", #call, found); \
    } while (0)

static int refuse(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)value, (void)state;
    return MPI_ERR_OTHER;
}

/* A call that names a request twice leaves it; a request that has ended is found, and so is a message
 * that is too long, whatever stands before and behind it. */
static void lists_of_requests(void)
{
    int in[3] = {0}, out[2] = {7, 8}, index, flag;
    MPI_Request twice[2], list[4], stale;
    MPI_Status statuses[4];
    MPI_Irecv(in, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &twice[0]);
    twice[1] = stale = twice[0];
    EXPECT(MPI_ERR_REQUEST, MPI_Waitany(2, twice, &index, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_REQUEST, MPI_Testall(2, twice, &flag, MPI_STATUSES_IGNORE));
    MPI_Send(out, 1, MPI_INT, 0, 5, MPI_COMM_SELF);
    EXPECT(MPI_SUCCESS, MPI_Wait(&twice[0], MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_REQUEST, MPI_Wait(&stale, MPI_STATUS_IGNORE));
    EXPECT(MPI_ERR_REQUEST, MPI_Waitall(1, &twice[1], MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &list[i + i / 2]);
    list[2] = MPI_REQUEST_NULL;
    MPI_Send(out, 1, MPI_INT, 0, 2, MPI_COMM_SELF);
    MPI_Send(out, 2, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Send(out, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    EXPECT(MPI_ERR_IN_STATUS, MPI_Waitall(4, list, statuses));
    for (int i = 0; i < 4; i++) {
        int code = statuses[i].MPI_ERROR, tag = statuses[i].MPI_TAG;
        if (list[i] != MPI_REQUEST_NULL || (code == MPI_ERR_TRUNCATE) != (i == 1) ||
            tag != (i == 2 ? MPI_ANY_TAG : i - i / 3))
            printf("request %d: code %d, tag %d\n", i, code, tag);
    }
}

int main(void)
{
    int provided, key, number;
    MPI_T_pvar_session tool;
    MPI_Session session;
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_File file;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    /* No communicator exists, so only the call's own handler can return. */
    MPI_Comm_create_errhandler(handle, &handler);
    if (!MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, handler, &comm) || calls != 1)
        printf("the handler of a communicator from a group: %d\n", calls);
    MPI_Init(NULL, NULL);
    EXPECT(MPI_ERR_UNSUPPORTED_OPERATION,
           MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT(MPI_ERR_SESSION, MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &number));
    EXPECT(MPI_ERR_ARG, MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE));
    EXPECT(MPI_ERR_ARG, MPI_Startall(2, NULL));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    lists_of_requests();
    EXPECT(MPI_SUCCESS, MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    EXPECT(MPI_ERR_ARG, MPI_Group_incl(MPI_GROUP_EMPTY, 1, NULL, &group));
    EXPECT(MPI_ERR_ARG, MPI_Type_indexed(1, NULL, NULL, MPI_INT, &type));
    EXPECT(MPI_ERR_ARG, MPI_Type_create_struct(1, &number, NULL, NULL, &type));
    EXPECT(MPI_ERR_BUFFER, MPI_Buffer_attach(NULL, 100));
    EXPECT(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(4, NULL, NULL));
    EXPECT(MPI_ERR_ERRHANDLER, MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &session));
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&tool);
    if (!MPI_T_pvar_session_free(NULL) || !MPI_T_pvar_handle_free(tool, NULL))
        printf("a handle at NULL is freed\n");
    /* The end comes although a function of the program refuses. */
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    if (MPI_Finalize() == MPI_SUCCESS)
        printf("a function that fails is not noticed\n");
    MPI_Finalized(&number);
    printf("finalized: %d\n", number);
    return 0;
}
