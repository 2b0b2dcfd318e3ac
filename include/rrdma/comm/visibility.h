// What the shared library shows: it is built with hidden visibility, and only what carries this mark is exported.
#pragma once

// On what the library exports.
#define RRDMA_COMM_API __attribute__((visibility("default")))
