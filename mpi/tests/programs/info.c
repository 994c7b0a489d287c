/* Info objects, and the hints of communicators. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void show(const char *what, MPI_Info info)
{
    char key[MPI_MAX_INFO_KEY + 1], value[100];
    int keys, length, flag;
    MPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys; i++) {
        length = sizeof value;
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get_string(info, key, &length, value, &flag);
        printf("%s: [%s]=[%s]\n", what, key, value);
    }
}

int main(void)
{
    MPI_Info info, used;
    MPI_Comm comm;
    MPI_Init(NULL, NULL);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_SELF, info, &comm);
    MPI_Info_delete(info, "mpi_assert_no_any_tag");
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Comm_set_info(comm, info);
    MPI_Comm_get_info(comm, &used);
    show("hints", used);
    MPI_Info_delete(info, "mpi_assert_exact_length");
    MPI_Info_set(info, " a key ", " a value ");
    show("blanks", info);
    MPI_Get_hw_resource_info(&used);
    show("resources", used);
    /* Texts in any encoding: here Latin-1. */
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag;
    MPI_Info_set(info, "caf\xe9", "\xfc");
    length = sizeof name;
    MPI_Info_get_string(info, "caf\xe9", &length, name, &flag);
    printf("value: %d %d\n", flag, strcmp(name, "\xfc"));
    MPI_Comm_set_name(comm, "na\xefve");
    MPI_Comm_get_name(comm, name, &length);
    printf("name: %d %d\n", length, strcmp(name, "na\xefve"));
    MPI_Finalize();
    return 0;
}
