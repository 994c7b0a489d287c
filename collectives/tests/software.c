/* Reads pairs of operands of type NUMBER and writes what C computes of each: sum, product, minimum
 * and maximum, then sum and product of a complex number, whose imaginary parts are the operands
 * exchanged. VALUE_BYTES: without padding. */
#include <stdio.h>
#include <string.h>

static void put(NUMBER value)
{
    unsigned char bytes[sizeof value];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &value, VALUE_BYTES);
    fwrite(bytes, sizeof bytes, 1, stdout);
}

int main(void)
{
    NUMBER pair[2];
    while (fread(pair, sizeof pair, 1, stdin) == 1) {
        volatile NUMBER a = pair[0], b = pair[1], ab = a * b, ba = b * a, aa = a * a, bb = b * b;
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
