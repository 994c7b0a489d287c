/* What the calls of datatypes report, in one process: "0 failures" if all is as the standard says. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("line %d: %s\n", __LINE__, #condition);                  \
            ++failures;                                                     \
        }                                                                   \
    } while (0)

struct sample {
    char letter;
    double value;
    int numbers[3];
};

static int class_of(int code)
{
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

static MPI_Datatype sample_type(void)
{
    int lengths[3] = {1, 1, 3};
    MPI_Aint places[3];
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, type;
    static struct sample sample;
    MPI_Aint base;
    MPI_Get_address(&sample, &base);
    MPI_Get_address(&sample.letter, &places[0]);
    MPI_Get_address(&sample.value, &places[1]);
    MPI_Get_address(&sample.numbers, &places[2]);
    for (int i = 0; i < 3; ++i)
        places[i] = MPI_Aint_diff(places[i], base);
    CHECK(places[2] == offsetof(struct sample, numbers));
    CHECK(MPI_Aint_add(base, places[1]) == (MPI_Aint)&sample.value);
    CHECK(MPI_Type_create_struct(3, lengths, places, types, &type) == MPI_SUCCESS);
    return type;
}

static void bounds(void)
{
    MPI_Datatype type = sample_type(), resized;
    MPI_Aint lb, extent;
    MPI_Count large_lb, large_extent, large_size;
    int size;
    CHECK(!MPI_Type_get_extent(type, &lb, &extent) && lb == 0 && extent == sizeof(struct sample));
    CHECK(!MPI_Type_size(type, &size) && size == 1 + 8 + 12);
    CHECK(!MPI_Type_get_true_extent(type, &lb, &extent) && lb == 0 && extent == 28);
    CHECK(!MPI_Type_create_resized(type, -8, 64, &resized));
    CHECK(!MPI_Type_get_extent(resized, &lb, &extent) && lb == -8 && extent == 64);
    CHECK(!MPI_Type_get_true_extent(resized, &lb, &extent) && lb == 0 && extent == 28);
    CHECK(!MPI_Type_get_extent_x(resized, &large_lb, &large_extent) && large_extent == 64);
    CHECK(!MPI_Type_size_x(resized, &large_size) && large_size == 21);
    MPI_Type_free(&resized);
    CHECK(resized == MPI_DATATYPE_NULL);
    MPI_Type_free(&type);

    MPI_Datatype gib, huge;
    MPI_Type_contiguous(1 << 30, MPI_CHAR, &gib);
    MPI_Type_contiguous(8, gib, &huge);
    MPI_Type_free(&gib);
    CHECK(!MPI_Type_size(huge, &size) && size == MPI_UNDEFINED);
    CHECK(!MPI_Type_size_c(huge, &large_size) && large_size == 8LL << 30);
    MPI_Type_free(&huge);
}

static void contents(void)
{
    MPI_Datatype vector, again, inner[1];
    int integers, addresses, types, combiner, values[8];
    MPI_Count l_integers, l_addresses, l_counts, l_types, counts[3];
    MPI_Aint places[2];
    MPI_Type_create_hvector(4, 2, 24, MPI_INT, &vector);
    MPI_Type_dup(vector, &again);
    CHECK(!MPI_Type_get_envelope(again, &integers, &addresses, &types, &combiner));
    CHECK(integers == 0 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_DUP);
    CHECK(!MPI_Type_get_contents(again, 0, 0, 1, values, places, inner));
    MPI_Type_free(&again);
    MPI_Type_free(&vector);
    vector = inner[0];
    CHECK(!MPI_Type_get_envelope(vector, &integers, &addresses, &types, &combiner));
    CHECK(integers == 2 && addresses == 1 && types == 1 && combiner == MPI_COMBINER_HVECTOR);
    CHECK(!MPI_Type_get_contents(vector, 2, 1, 1, values, places, inner));
    CHECK(values[0] == 4 && values[1] == 2 && places[0] == 24 && inner[0] == MPI_INT);
    MPI_Type_free(&vector);

    MPI_Type_create_hvector_c(4, 2, 24, MPI_INT, &vector);
    CHECK(!MPI_Type_get_envelope_c(vector, &l_integers, &l_addresses, &l_counts, &l_types, &combiner));
    CHECK(l_integers == 0 && l_addresses == 0 && l_counts == 3 && l_types == 1);
    CHECK(!MPI_Type_get_contents_c(vector, 0, 0, 3, 1, values, places, counts, inner));
    CHECK(counts[0] == 4 && counts[1] == 2 && counts[2] == 24 && inner[0] == MPI_INT);
    CHECK(class_of(MPI_Type_get_envelope(vector, &integers, &addresses, &types, &combiner))
          == MPI_ERR_TYPE);
    MPI_Type_free(&vector);

    CHECK(!MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner));
    CHECK(combiner == MPI_COMBINER_NAMED && integers + addresses + types == 0);
    CHECK(MPI_Type_get_contents(MPI_INT, 0, 0, 0, values, places, inner) != MPI_SUCCESS);
}

static void packing(void)
{
    struct sample from[2] = {{'a', 1.5, {1, 2, 3}}, {'b', -2.5, {4, 5, 6}}}, to[2];
    char buffer[128];
    int position = 0, size;
    MPI_Datatype type = sample_type();
    MPI_Type_commit(&type);
    CHECK(!MPI_Pack_size(2, type, MPI_COMM_WORLD, &size) && size >= 42);
    CHECK(!MPI_Pack(from, 2, type, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    CHECK(!MPI_Pack(&position, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    CHECK(position == 46 && buffer[0] == 'a' && buffer[21] == 'b');
    memset(to, 0x55, sizeof to);
    position = 0;
    CHECK(!MPI_Unpack(buffer, sizeof buffer, &position, to, 2, type, MPI_COMM_WORLD));
    CHECK(position == 42);
    for (int i = 0; i < 2; ++i) {
        CHECK(to[i].letter == from[i].letter && to[i].value == from[i].value);
        CHECK(!memcmp(to[i].numbers, from[i].numbers, sizeof to[i].numbers));
        CHECK(((char *)&to[i])[1] == 0x55);
    }
    position = 100;
    CHECK(MPI_Pack(from, 2, type, buffer, sizeof buffer, &position, MPI_COMM_WORLD) != MPI_SUCCESS);
    MPI_Type_free(&type);
}

static void external(void)
{
    const unsigned char expected[] = {'x', 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
                                      0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff};
    struct sample from = {'x', 1.5, {1, 2, -1}}, to;
    unsigned char buffer[64];
    MPI_Aint position = 0, size;
    MPI_Datatype type = sample_type();
    MPI_Type_commit(&type);
    CHECK(!MPI_Pack_external_size("external32", 1, type, &size) && size == sizeof expected);
    CHECK(!MPI_Pack_external("external32", &from, 1, type, buffer, sizeof buffer, &position));
    CHECK(position == sizeof expected && !memcmp(buffer, expected, sizeof expected));
    position = 0;
    CHECK(!MPI_Unpack_external("external32", buffer, sizeof buffer, &position, &to, 1, type));
    CHECK(to.letter == 'x' && to.value == 1.5 && to.numbers[2] == -1);
    MPI_Type_free(&type);
    long number = -2;
    position = 0;
    CHECK(!MPI_Pack_external("external32", &number, 1, MPI_LONG, buffer, sizeof buffer, &position));
    CHECK(position == 4 && buffer[0] == 0xff && buffer[3] == 0xfe);
    CHECK(MPI_Pack_external("other", &number, 1, MPI_LONG, buffer, sizeof buffer, &position)
          != MPI_SUCCESS);
}

static void elements(void)
{
    MPI_Status status;
    MPI_Count large;
    MPI_Datatype type = sample_type();
    int count;
    MPI_Type_commit(&type);
    memset(&status, 0, sizeof status);
    MPI_Status_set_elements(&status, MPI_BYTE, 21 + 9);
    CHECK(!MPI_Get_elements(&status, type, &count) && count == 7);
    CHECK(!MPI_Get_count(&status, type, &count) && count == MPI_UNDEFINED);
    MPI_Status_set_elements(&status, MPI_BYTE, 5);
    CHECK(!MPI_Get_elements(&status, type, &count) && count == MPI_UNDEFINED);
    MPI_Status_set_elements(&status, MPI_BYTE, 8);
    CHECK(!MPI_Get_elements_x(&status, MPI_DOUBLE_INT, &large) && large == 1);
    MPI_Status_set_elements(&status, type, 6);
    CHECK(!MPI_Get_elements(&status, MPI_BYTE, &count) && count == 22);
    MPI_Status_set_elements(&status, type, 10);
    CHECK(!MPI_Get_count(&status, type, &count) && count == 2);
    MPI_Type_free(&type);
}

static int deleted;

static int delete_attribute(MPI_Datatype type, int keyval, void *value, void *state)
{
    (void)type, (void)keyval, (void)value;
    ++*(int *)state;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    MPI_Datatype type = sample_type(), copy;
    int keyval, flag, value = 7, *found;
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, delete_attribute, &keyval, &deleted);
    CHECK(!MPI_Type_get_attr(type, keyval, &found, &flag) && !flag);
    CHECK(!MPI_Type_set_attr(type, keyval, &value));
    MPI_Type_dup(type, &copy);
    CHECK(!MPI_Type_get_attr(copy, keyval, &found, &flag) && flag && *found == 7);
    MPI_Type_free(&type);
    CHECK(deleted == 1);
    CHECK(!MPI_Type_delete_attr(copy, keyval) && deleted == 2);
    MPI_Type_free(&copy);
    MPI_Type_free_keyval(&keyval);
    CHECK(deleted == 2 && keyval == MPI_KEYVAL_INVALID);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype type, real, same;
    CHECK(!MPI_Type_get_name(MPI_DOUBLE_INT, name, &length) && !strcmp(name, "MPI_DOUBLE_INT"));
    CHECK(length == 14);
    MPI_Type_contiguous(2, MPI_INT, &type);
    CHECK(!MPI_Type_get_name(type, name, &length) && length == 0 && !name[0]);
    MPI_Type_set_name(type, "two");
    CHECK(!MPI_Type_get_name(type, name, &length) && length == 3 && !strcmp(name, "two"));
    MPI_Type_free(&type);

    CHECK(!MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type) && type == MPI_REAL8);
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type) != MPI_SUCCESS);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &same);
    int size, values[2];
    CHECK(real == same && !MPI_Type_size(real, &size) && size == 8);
    CHECK(!MPI_Type_get_contents(real, 2, 0, 0, values, NULL, NULL) && values[0] == 15);
    CHECK(MPI_Type_free(&real) != MPI_SUCCESS);
    CHECK(!MPI_Type_get_value_index(MPI_FLOAT, MPI_INT, &type) && type == MPI_FLOAT_INT);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
}

static void wrong(void)
{
    MPI_Datatype type;
    int size;
    CHECK(MPI_Type_contiguous(-1, MPI_INT, &type) != MPI_SUCCESS);
    CHECK(class_of(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type)) == MPI_ERR_TYPE);
    MPI_Type_contiguous(1, MPI_INT, &type);
    CHECK(class_of(MPI_Send(&size, 1, type, 0, 0, MPI_COMM_SELF)) == MPI_ERR_TYPE);
    MPI_Type_free(&type);
    type = MPI_INT;
    CHECK(MPI_Type_free(&type) != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    bounds();
    contents();
    packing();
    external();
    elements();
    attributes();
    names();
    wrong();
    printf("%d failures\n", failures);
    MPI_Finalize();
    return 0;
}
