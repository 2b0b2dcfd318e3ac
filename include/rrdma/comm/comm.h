// Everything of rrdma::comm.
#pragma once

#include "rrdma/comm/batch.h"
#include "rrdma/comm/buffer.h"
#include "rrdma/comm/context.h"
#include "rrdma/comm/device.h"
#include "rrdma/comm/endpoint.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/limit.h"
#include "rrdma/comm/listener.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/pool_resource.h"
#include "rrdma/comm/reconnecting.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/share.h"
#include "rrdma/comm/signal.h"
#include "rrdma/comm/task.h"
