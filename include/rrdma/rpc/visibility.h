// What the shared library shows: it is built with hidden visibility, and only what carries this mark is exported.
#pragma once

#define RRDMA_RPC_API [[gnu::visibility("default")]]
