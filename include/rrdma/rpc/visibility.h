// Export macro. The shared library is built with hidden visibility; only marked symbols are exported.
#pragma once

#define RRDMA_RPC_API [[gnu::visibility("default")]]
