// RRDMA_TRY: passes a failure on to the caller.
//
//   const auto port = parse_port(text);
//   RRDMA_TRY(port);
//   use(*port);
#pragma once

#include "base/result.h"

// Returns the error of `result`, a named Result, if it has failed.
#define RRDMA_TRY(result)                                     \
  do {                                                        \
    if (!(result)) return ::rrdma::Failure{(result).error()}; \
  } while (false)
