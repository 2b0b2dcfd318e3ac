// Definitions of the verbs and rdma_cm functions that this library calls. Each calls the function of the
// loaded library. They are hidden: the program's own calls are not affected. Calls of the data path are
// inline functions of verbs.h and do not come here.
#include "lib/comm/verbs_calls.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rrdma/comm/device.h"

// Macros of verbs.h that select between the next two functions.
#undef ibv_query_port
#undef ibv_reg_mr

// CALL(result, name, parameters, arguments)
#define RRDMA_COMM_CALLS(CALL)                                                                              \
  CALL(void, ibv_ack_cq_events, (ibv_cq * queue, unsigned count), (queue, count))                           \
  CALL(ibv_pd*, ibv_alloc_pd, (ibv_context * context), (context))                                           \
  CALL(ibv_ah*, ibv_create_ah, (ibv_pd * domain, ibv_ah_attr * attributes), (domain, attributes))           \
  CALL(ibv_comp_channel*, ibv_create_comp_channel, (ibv_context * context), (context))                      \
  CALL(ibv_cq*, ibv_create_cq,                                                                              \
       (ibv_context * context, int entries, void* mark, ibv_comp_channel* channel, int vector),             \
       (context, entries, mark, channel, vector))                                                           \
  CALL(int, ibv_dealloc_pd, (ibv_pd * domain), (domain))                                                    \
  CALL(int, ibv_dereg_mr, (ibv_mr * region), (region))                                                      \
  CALL(int, ibv_destroy_ah, (ibv_ah * handle), (handle))                                                    \
  CALL(int, ibv_destroy_comp_channel, (ibv_comp_channel * channel), (channel))                              \
  CALL(int, ibv_destroy_cq, (ibv_cq * queue), (queue))                                                      \
  CALL(int, ibv_get_cq_event, (ibv_comp_channel * channel, ibv_cq * *queue, void** mark),                   \
       (channel, queue, mark))                                                                              \
  CALL(const char*, ibv_get_device_name, (ibv_device * device), (device))                                   \
  CALL(int, ibv_init_ah_from_wc,                                                                            \
       (ibv_context * context, uint8_t port, ibv_wc * completion, ibv_grh * header,                         \
        ibv_ah_attr * attributes),                                                                          \
       (context, port, completion, header, attributes))                                                     \
  CALL(int, ibv_modify_qp, (ibv_qp * pair, ibv_qp_attr * attributes, int mask), (pair, attributes, mask))   \
  CALL(int, ibv_query_device, (ibv_context * context, ibv_device_attr * attributes), (context, attributes)) \
  CALL(int, ibv_query_gid, (ibv_context * context, uint8_t port, int index, ibv_gid* gid),                  \
       (context, port, index, gid))                                                                         \
  CALL(int, ibv_query_port, (ibv_context * context, uint8_t port, _compat_ibv_port_attr * attributes),      \
       (context, port, attributes))                                                                         \
  CALL(int, ibv_query_qp, (ibv_qp * pair, ibv_qp_attr * attributes, int mask, ibv_qp_init_attr* first),     \
       (pair, attributes, mask, first))                                                                     \
  CALL(ibv_mr*, ibv_reg_mr, (ibv_pd * domain, void* memory, size_t length, int access),                     \
       (domain, memory, length, access))                                                                    \
  CALL(ibv_mr*, ibv_reg_mr_iova2,                                                                           \
       (ibv_pd * domain, void* memory, size_t length, uint64_t base, unsigned access),                      \
       (domain, memory, length, base, access))                                                              \
  CALL(const char*, ibv_wc_status_str, (ibv_wc_status status), (status))                                    \
  CALL(int, rdma_accept, (rdma_cm_id * id, rdma_conn_param * parameters), (id, parameters))                 \
  CALL(int, rdma_ack_cm_event, (rdma_cm_event * event), (event))                                            \
  CALL(int, rdma_bind_addr, (rdma_cm_id * id, sockaddr * address), (id, address))                           \
  CALL(int, rdma_connect, (rdma_cm_id * id, rdma_conn_param * parameters), (id, parameters))                \
  CALL(rdma_event_channel*, rdma_create_event_channel, (), ())                                              \
  CALL(int, rdma_create_id,                                                                                 \
       (rdma_event_channel * channel, rdma_cm_id * *id, void* context, rdma_port_space space),              \
       (channel, id, context, space))                                                                       \
  CALL(int, rdma_create_qp, (rdma_cm_id * id, ibv_pd * domain, ibv_qp_init_attr * attributes),              \
       (id, domain, attributes))                                                                            \
  CALL(void, rdma_destroy_event_channel, (rdma_event_channel * channel), (channel))                         \
  CALL(int, rdma_destroy_id, (rdma_cm_id * id), (id))                                                       \
  CALL(void, rdma_destroy_qp, (rdma_cm_id * id), (id))                                                      \
  CALL(int, rdma_disconnect, (rdma_cm_id * id), (id))                                                       \
  CALL(void, rdma_free_devices, (ibv_context * *list), (list))                                              \
  CALL(int, rdma_get_cm_event, (rdma_event_channel * channel, rdma_cm_event * *event), (channel, event))    \
  CALL(ibv_context**, rdma_get_devices, (int* count), (count))                                              \
  CALL(int, rdma_join_multicast, (rdma_cm_id * id, sockaddr * address, void* context),                      \
       (id, address, context))                                                                              \
  CALL(int, rdma_leave_multicast, (rdma_cm_id * id, sockaddr * address), (id, address))                     \
  CALL(int, rdma_listen, (rdma_cm_id * id, int backlog), (id, backlog))                                     \
  CALL(int, rdma_migrate_id, (rdma_cm_id * id, rdma_event_channel * channel), (id, channel))                \
  CALL(int, rdma_reject, (rdma_cm_id * id, const void* data, uint8_t length), (id, data, length))           \
  CALL(int, rdma_resolve_addr, (rdma_cm_id * id, sockaddr * source, sockaddr * target, int timeout_ms),     \
       (id, source, target, timeout_ms))                                                                    \
  CALL(int, rdma_resolve_route, (rdma_cm_id * id, int timeout_ms), (id, timeout_ms))

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

struct Calls {
#define RRDMA_COMM_FIELD(result, name, parameters, arguments) result(*name) parameters = nullptr;
  RRDMA_COMM_CALLS(RRDMA_COMM_FIELD)
#undef RRDMA_COMM_FIELD
  void (*rrdma_name_method)(const char* path) = nullptr;  // only RRDMA has it
};
constinit Calls calls;

}  // namespace

bool take_calls(FindCall find, void* how) {
  Calls found;
  bool all = true;
#define RRDMA_COMM_FIND(result, name, parameters, arguments)             \
  found.name = reinterpret_cast<result(*) parameters>(find(how, #name)); \
  all &= found.name != nullptr;
  RRDMA_COMM_CALLS(RRDMA_COMM_FIND)
#undef RRDMA_COMM_FIND
  found.rrdma_name_method = reinterpret_cast<void (*)(const char*)>(find(how, "rrdma_name_method"));
  if (all) calls = found;
  return all;
}

void name_method(const char* path) {
  if (calls.rrdma_name_method != nullptr) calls.rrdma_name_method(path);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm

extern "C" {
#define RRDMA_COMM_DEFINE(result, name, parameters, arguments)   \
  __attribute__((visibility("hidden"))) result name parameters { \
    return rrdma::comm::detail::calls.name arguments;            \
  }
RRDMA_COMM_CALLS(RRDMA_COMM_DEFINE)
#undef RRDMA_COMM_DEFINE
}
