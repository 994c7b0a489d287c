/* mpi.h: MPI 5.0, standard ABI 1.0, made by Refrain from its table of the ABI. A program that is
 * compiled with this header runs with each library that has this ABI. */
#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types */
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

/* A handle is a number that looks like a pointer: no object lies at its address. */
typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_File *MPI_File;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Message *MPI_Message;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Session *MPI_Session;
typedef struct MPI_ABI_Win *MPI_Win;

typedef struct MPI_T_enum_s *MPI_T_enum;
typedef struct MPI_T_cvar_handle_s *MPI_T_cvar_handle;
typedef struct MPI_T_pvar_handle_s *MPI_T_pvar_handle;
typedef struct MPI_T_pvar_session_s *MPI_T_pvar_session;
typedef struct MPI_T_event_registration_s *MPI_T_event_registration;
typedef struct MPI_T_event_instance_s *MPI_T_event_instance;
typedef int MPI_T_cb_safety;
typedef int MPI_T_source_order;

/* Functions of the program */
typedef void(MPI_User_function)(void *in, void *inout, int *count, MPI_Datatype *datatype);
typedef void(MPI_User_function_c)(void *in, void *inout, MPI_Count *count, MPI_Datatype *datatype);
typedef int(MPI_Comm_copy_attr_function)(MPI_Comm comm, int keyval, void *extra_state,
                                         void *value_in, void *value_out, int *flag);
typedef int(MPI_Comm_delete_attr_function)(MPI_Comm comm, int keyval, void *value,
                                           void *extra_state);
typedef int(MPI_Type_copy_attr_function)(MPI_Datatype datatype, int keyval, void *extra_state,
                                         void *value_in, void *value_out, int *flag);
typedef int(MPI_Type_delete_attr_function)(MPI_Datatype datatype, int keyval, void *value,
                                           void *extra_state);
typedef int(MPI_Win_copy_attr_function)(MPI_Win win, int keyval, void *extra_state, void *value_in,
                                        void *value_out, int *flag);
typedef int(MPI_Win_delete_attr_function)(MPI_Win win, int keyval, void *value, void *extra_state);
typedef MPI_Comm_copy_attr_function MPI_Copy_function;
typedef MPI_Comm_delete_attr_function MPI_Delete_function;
typedef void(MPI_Comm_errhandler_function)(MPI_Comm *comm, int *code, ...);
typedef void(MPI_File_errhandler_function)(MPI_File *file, int *code, ...);
typedef void(MPI_Session_errhandler_function)(MPI_Session *session, int *code, ...);
typedef void(MPI_Win_errhandler_function)(MPI_Win *win, int *code, ...);
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;
typedef int(MPI_Grequest_query_function)(void *extra_state, MPI_Status *status);
typedef int(MPI_Grequest_free_function)(void *extra_state);
typedef int(MPI_Grequest_cancel_function)(void *extra_state, int complete);
typedef int(MPI_Datarep_extent_function)(MPI_Datatype datatype, MPI_Aint *extent,
                                         void *extra_state);
typedef int(MPI_Datarep_conversion_function)(void *user, MPI_Datatype datatype, int count,
                                             void *file, MPI_Offset position, void *extra_state);
typedef int(MPI_Datarep_conversion_function_c)(void *user, MPI_Datatype datatype, MPI_Count count,
                                               void *file, MPI_Offset position,
                                               void *extra_state);
typedef void(MPI_T_event_cb_function)(MPI_T_event_instance event,
                                      MPI_T_event_registration registration,
                                      MPI_T_cb_safety safety, void *user_data);
typedef void(MPI_T_event_free_cb_function)(MPI_T_event_registration registration,
                                           MPI_T_cb_safety safety, void *user_data);
typedef void(MPI_T_event_dropped_cb_function)(MPI_Count count,
                                              MPI_T_event_registration registration,
                                              int source_index, MPI_T_cb_safety safety,
                                              void *user_data);
