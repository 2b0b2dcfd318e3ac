// Includes all of rrdma::rpc, except protobuf (rrdma/rpc/protobuf.h).
#pragma once

#include "rrdma/comm/comm.h"
#include "rrdma/rpc/bulk.h"
#include "rrdma/rpc/call.h"
#include "rrdma/rpc/caller.h"
#include "rrdma/rpc/channel.h"
#include "rrdma/rpc/client.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/compute.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/metadata.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/server.h"
#include "rrdma/rpc/statistics.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/trace.h"
