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
ASSERT(sizeof(int) == 4, "int");
ASSERT(REFRAIN_ANY_TAG == -2147483647 - 1, "any tag");
ASSERT(REFRAIN_ANY_SOURCE == -1, "any source");
ASSERT(REFRAIN_NONE == (size_t)-1, "none");

int main(void)
{
    refrain_request request = REFRAIN_REQUEST_NULL;
    refrain_message message = REFRAIN_MESSAGE_NULL;
    if (request.serial != 0 || message.serial != 0)
        return 1;
    return refrain_api_version() == REFRAIN_API_VERSION ? 0 : 2;
}
