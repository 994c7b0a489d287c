/* Reads pairs of operands and writes what C computes of each: sum, product, minimum and maximum,
 * then sum and product of a complex number, whose imaginary parts are the operands exchanged. */
#include <stdio.h>
#include <string.h>

static void put(long double value)
{
    unsigned char bytes[sizeof value];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &value, LDBL_BYTES);
    fwrite(bytes, sizeof bytes, 1, stdout);
}

int main(void)
{
    long double pair[2];
    while (fread(pair, sizeof pair, 1, stdin) == 1) {
        volatile long double a = pair[0], b = pair[1], ab = a * b, ba = b * a, aa = a * a, bb = b * b;
        put(a + b);
        put(ab);
        put(a < b ? a : b);
        put(a > b ? a : b);
        put(a + b);
        put(b + a);
        /* (a + bi)(b + ai) */
        put(ab - ba);
        put(aa + bb);
    }
    return 0;
}
