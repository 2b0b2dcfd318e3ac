// Scatter/gather lists of the ABI and the queues have the same layout, so nothing is copied.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <span>

#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::verbs {

struct Qp;

static_assert(sizeof(ibv_sge) == sizeof(objects::Sge));
static_assert(offsetof(ibv_sge, addr) == offsetof(objects::Sge, address));
static_assert(offsetof(ibv_sge, length) == offsetof(objects::Sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(objects::Sge, lkey));

// REQUIRES: count >= 0.
inline std::span<const objects::Sge> list_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const objects::Sge*>(list), static_cast<std::size_t>(count)};
}

// Windows grant remote rights; a local right in the flags is permitted and has no effect.
objects::BindRequest bind_request_of(ibv_mw* mw, const ibv_mw_bind_info& info);

// The errno of a refused request, explained under the name of the call.
int refuse_post(const char* call, const Qp& qp, transport::PostError error);

}  // namespace rrdma::verbs
