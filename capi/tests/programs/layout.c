/* What the library was built for. */
#include "refrain.h"

#ifdef __cplusplus
#define ASSERT static_assert
#else
#define ASSERT _Static_assert
#endif

ASSERT(sizeof(refrain_status) == 24, "status");
ASSERT(offsetof(refrain_status, bytes) == 0, "bytes");
ASSERT(offsetof(refrain_status, source) == 8, "source");
ASSERT(offsetof(refrain_status, tag) == 12, "tag");
ASSERT(offsetof(refrain_status, cancelled) == 16, "cancelled");
ASSERT(sizeof(refrain_request) == 16, "request");
ASSERT(sizeof(refrain_message) == 16, "message");
ASSERT(sizeof(refrain_group) == 24, "group");
ASSERT(offsetof(refrain_group, size) == 16, "size");
ASSERT(sizeof(refrain_operator) == 24, "operator");
ASSERT(offsetof(refrain_operator, combine) == 8, "combine");
ASSERT(sizeof(refrain_neighbours) == 24, "neighbours");
ASSERT(sizeof(refrain_span) == 16, "span");
ASSERT(sizeof(refrain_layout) == 40, "layout");
ASSERT(offsetof(refrain_layout, extent) == 32, "extent");
ASSERT(sizeof(refrain_laid_out) == 24, "laid out");
ASSERT(sizeof(refrain_collective) == 176, "collective");
ASSERT(offsetof(refrain_collective, by) == 32, "by");
ASSERT(offsetof(refrain_collective, count) == 72, "count");
ASSERT(offsetof(refrain_collective, output_counts) == 96, "output_counts");
ASSERT(offsetof(refrain_collective, neighbours) == 112, "neighbours");
ASSERT(offsetof(refrain_collective, input_layout) == 136, "input_layout");
ASSERT(offsetof(refrain_collective, output_blocks) == 160, "output_blocks");
ASSERT(offsetof(refrain_collective, operation) == 168, "operation");
ASSERT(sizeof(int) == 4, "int");
ASSERT(REFRAIN_ANY_TAG == -2147483647 - 1, "any tag");
ASSERT(REFRAIN_ANY_SOURCE == -1, "any source");
ASSERT(REFRAIN_NONE == (size_t)-1, "none");

int main(void)
{
    refrain_request request = REFRAIN_REQUEST_NULL;
    refrain_message message = REFRAIN_MESSAGE_NULL;
    refrain_group group = REFRAIN_GROUP_NULL;
    refrain_collective sum =
        refrain_allreduce(group, REFRAIN_IN_PLACE, &group, 3, REFRAIN_DOUBLE, REFRAIN_SUM);
    if (sum.count != 3 || sum.by.code != 1 || sum.operation != REFRAIN_OP_ALLREDUCE)
        return 3;
    if (request.serial != 0 || message.serial != 0)
        return 1;
    return refrain_api_version() == REFRAIN_API_VERSION ? 0 : 2;
}
