// The queries of verbs_context, as functions for operations.cc.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#undef ibv_query_port

namespace rrdma::verbs {

inline constexpr int kGidTableLength = 128;

int query_device(ibv_context* context, ibv_device_attr* attr);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t size);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

}  // namespace rrdma::verbs
