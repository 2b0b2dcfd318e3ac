// Export macro. The shared library is built with hidden visibility; only marked symbols are exported.
#pragma once

// Marks an exported symbol.
#define RRDMA_COMM_API __attribute__((visibility("default")))
